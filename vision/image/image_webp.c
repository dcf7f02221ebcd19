/* image_webp.c - WebP's container: what size it claims and which way up; libavcodec decodes the picture. */
#include "image_formats.h"

#include "bytes.h"
#include "exif.h"
#include "video.h"

#include <string.h>

/* Each chunk of a RIFF file: four letters, size, data, padded to even. */
static const uint8_t *find_chunk(const sac_decode_args *a, const char *type, size_t *n) {
    for (size_t at = 12; a->n_bytes - at >= 8;) {
        size_t size = sac_le32(a->bytes + at + 4), there = a->n_bytes - at - 8;
        if (size > there) return NULL;
        if (memcmp(a->bytes + at, type, 4) == 0) {
            *n = size;
            return a->bytes + at + 8;
        }
        if (there - size < 1) return NULL;
        at += 8 + size + (size & 1);
    }
    return NULL;
}

static sac_status check_size(const sac_decode_args *a) {
    const uint8_t *p = a->bytes + 20;
    int64_t w, h;
    if (a->n_bytes < 30) return sac_fail(a->err, SAC_BAD_FILE, "truncated in its header");
    uint64_t n_riff = sac_le32(a->bytes + 4);
    if (n_riff > a->n_bytes - 8)
        return sac_fail(a->err, SAC_BAD_FILE, "truncated: %zu bytes of %llu", a->n_bytes,
                        (unsigned long long)n_riff + 8);
    if (memcmp(a->bytes + 12, "VP8X", 4) == 0) {
        w = (int64_t)sac_le24(p + 4) + 1;
        h = (int64_t)sac_le24(p + 7) + 1;
    } else if (memcmp(a->bytes + 12, "VP8L", 4) == 0) {
        uint32_t bits = sac_le32(p + 1);
        w = (bits & 0x3fff) + 1;
        h = (bits >> 14 & 0x3fff) + 1;
    } else if (memcmp(a->bytes + 12, "VP8 ", 4) == 0) {
        w = sac_le16(p + 6) & 0x3fff;
        h = sac_le16(p + 8) & 0x3fff;
    } else {
        return sac_fail(a->err, SAC_BAD_FILE, "no picture chunk behind the header");
    }
    return sac_image_check_size(w, h, a->limits, a->err);
}

sac_status sac_decode_webp(const sac_decode_args *a) {
    if (memcmp(a->bytes, "RIFF", 4) != 0) return sac_fail(a->err, SAC_BAD_FILE, "no RIFF header");
    SAC_TRY(check_size(a));
    SAC_TRY(sac_libav_decode_still(a->image, a->bytes, a->n_bytes, a->limits, a->err));
    size_t n;
    const uint8_t *block = find_chunk(a, "EXIF", &n);
    if (block) *a->orientation = sac_exif_orientation(block, n);
    if (*a->orientation == 0 && (block = find_chunk(a, "XMP ", &n)))
        *a->orientation = sac_xmp_orientation(block, n);
    return SAC_OK;
}
