/* image_heif.c - HEIC and AVIF by libheif: the primary picture, 8 bits a channel, alpha dropped. Turning and cutting are
 * properties of the picture (irot, imir, clap), which libheif applies; an orientation in EXIF beside them only repeats that
 * and is not looked at, as in pillow-heif and libavif. */
#include "image_formats.h"

#ifdef SAC_HEIF

#include <stdbool.h>
#include <string.h>

#include <libheif/heif.h>

static sac_status refuse(const sac_decode_args *a, const struct heif_error *e) {
    char text[120];
    size_t n = 0;
    for (const char *p = e->message ? e->message : ""; *p && n + 1 < sizeof text; p++)
        text[n++] = *p < ' ' || *p > '~' ? ' ' : *p;
    text[n] = 0;
    if (e->code == heif_error_Memory_allocation_error) /* also sizes beyond its own limits */
        return sac_fail(a->err, SAC_BAD_FILE, "more memory than can be had, or is allowed: %s", text);
    if (e->code == heif_error_Unsupported_filetype || e->code == heif_error_Unsupported_feature ||
        e->code == heif_error_Plugin_loading_error)
        return sac_fail(a->err, SAC_UNSUPPORTED, "libheif cannot read it: %s", text);
    return sac_fail(a->err, SAC_BAD_FILE, "damaged or truncated: %s", text);
}

static sac_status copy(const sac_decode_args *a, const struct heif_image *image) {
    int w = heif_image_get_width(image, heif_channel_interleaved),
        h = heif_image_get_height(image, heif_channel_interleaved), stride = 0;
    const uint8_t *rows = heif_image_get_plane_readonly(image, heif_channel_interleaved, &stride);
    SAC_TRY(sac_image_alloc(a->image, w, h, a->limits, a->err));
    if (!rows || stride < 3 * w) return sac_fail(a->err, SAC_BAD_FILE, "damaged: no pixels in it");
    for (int y = 0; y < h; y++)
        memcpy(a->image->rgb + (size_t)y * (size_t)w * 3, rows + (size_t)y * (size_t)stride, (size_t)w * 3);
    return SAC_OK;
}

static sac_status decode(const sac_decode_args *a, struct heif_context *c) {
    struct heif_image_handle *handle = NULL;
    struct heif_image *image = NULL;
    heif_context_set_max_decoding_threads(c, 0); /* tiles one after the other, in this thread */
    struct heif_error e = heif_context_read_from_memory_without_copy(c, a->bytes, a->n_bytes, NULL);
    if (e.code == heif_error_Ok) e = heif_context_get_primary_image_handle(c, &handle);
    if (e.code != heif_error_Ok) return refuse(a, &e);
    sac_status st = sac_image_check_size(heif_image_handle_get_ispe_width(handle),
                                         heif_image_handle_get_ispe_height(handle), a->limits, a->err);
    if (st == SAC_OK) { /* its colours as they are stored: no profile is applied, as Pillow applies none */
        e = heif_decode_image(handle, &image, heif_colorspace_RGB, heif_chroma_interleaved_RGB, NULL);
        st = e.code == heif_error_Ok ? copy(a, image) : refuse(a, &e);
    }
    if (image) heif_image_release(image);
    heif_image_handle_release(handle);
    return st;
}

sac_status sac_decode_heif(const sac_decode_args *a) {
    struct heif_context *c = heif_context_alloc();
    if (!c) return sac_fail(a->err, SAC_NO_MEMORY, "no memory for the decoder");
    sac_status st = decode(a, c);
    heif_context_free(c);
    return st;
}

void sac_heif_prepare(void) {
    heif_init(NULL); /* looks for plugins in folders */
}

#endif
