/* image_jxl.c - JPEG XL by libjxl, without threads of its own: the first frame, 8 bits a channel, alpha dropped, the way up
 * that the file asks for. Its bytes are those of djxl for the same file. */
#include "image_formats.h"

#ifdef SAC_JPEGXL

#include <jxl/decode.h>

static sac_status damaged(const sac_decode_args *a, const char *why) {
    return sac_fail(a->err, SAC_BAD_FILE, "damaged or truncated: %s", why);
}

static sac_status decode(const sac_decode_args *a, JxlDecoder *d) {
    enum { EXTRA_MAX = 8 };
    static const JxlPixelFormat format = {
        .num_channels = 3, .data_type = JXL_TYPE_UINT8, .endianness = JXL_NATIVE_ENDIAN};
    JxlBasicInfo info;
    size_t n;
    if (JxlDecoderSubscribeEvents(d, JXL_DEC_BASIC_INFO | JXL_DEC_FULL_IMAGE) != JXL_DEC_SUCCESS ||
        JxlDecoderSetInput(d, a->bytes, a->n_bytes) != JXL_DEC_SUCCESS)
        return sac_fail(a->err, SAC_NO_MEMORY, "no memory for the decoder");
    JxlDecoderCloseInput(d);
    for (;;) {
        switch (JxlDecoderProcessInput(d)) {
        case JXL_DEC_BASIC_INFO: /* sizes are those after turning */
            if (JxlDecoderGetBasicInfo(d, &info) != JXL_DEC_SUCCESS) return damaged(a, "its header");
            SAC_TRY(sac_image_check_size(info.xsize, info.ysize, a->limits, a->err));
            if (info.num_extra_channels > EXTRA_MAX) /* each costs memory for all pixels */
                return sac_fail(a->err, SAC_UNSUPPORTED, "%u channels beside its colours; up to %d are read",
                                info.num_extra_channels, EXTRA_MAX);
            break;
        case JXL_DEC_NEED_IMAGE_OUT_BUFFER:
            if (a->image->rgb) return damaged(a, "two pictures in one");
            SAC_TRY(sac_image_alloc(a->image, info.xsize, info.ysize, a->limits, a->err));
            if (JxlDecoderImageOutBufferSize(d, &format, &n) != JXL_DEC_SUCCESS ||
                n > (size_t)info.xsize * info.ysize * 3 ||
                JxlDecoderSetImageOutBuffer(d, &format, a->image->rgb, n) != JXL_DEC_SUCCESS)
                return sac_fail(a->err, SAC_UNSUPPORTED,
                                "its colours cannot be had as RGB: convert it to PNG");
            break;
        case JXL_DEC_FULL_IMAGE: return SAC_OK;
        case JXL_DEC_NEED_MORE_INPUT: return damaged(a, "it ends too early");
        case JXL_DEC_SUCCESS: return damaged(a, "no picture in it");
        default: return damaged(a, "libjxl cannot decode it");
        }
    }
}

sac_status sac_decode_jxl(const sac_decode_args *a) {
    JxlDecoder *d = JxlDecoderCreate(NULL);
    if (!d) return sac_fail(a->err, SAC_NO_MEMORY, "no memory for the decoder");
    sac_status st = decode(a, d);
    JxlDecoderDestroy(d);
    return st;
}

#endif
