/* exif.c - orientation from EXIF (TIFF 6.0, directory 0) and XMP. */
#include "exif.h"

#include "bytes.h"
#include "frame_pixels.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define TAG_ORIENTATION 0x0112

typedef struct tiff {
    const uint8_t *p;
    size_t n;
    bool big_endian;
} tiff;

static uint32_t tiff_u16(const tiff *t, size_t at) {
    return t->big_endian ? sac_be16(t->p + at) : sac_le16(t->p + at);
}
static uint32_t tiff_u32(const tiff *t, size_t at) {
    return t->big_endian ? sac_be32(t->p + at) : sac_le32(t->p + at);
}

/* First value of an entry of an integer type; 0 for the types that Pillow does not take for an orientation
 * either. */
static int entry_value(const tiff *t, size_t at) {
    uint32_t type = tiff_u16(t, at + 2), count = tiff_u32(t, at + 4);
    uint32_t unit = type == 3 || type == 8 ? 2 : type == 4 || type == 9 ? 4 : type == 6 ? 1 : 0;
    if (unit == 0 || count == 0) return 0;
    uint64_t n_bytes = (uint64_t)unit * count;
    uint64_t where = n_bytes <= 4 ? at + 8 : tiff_u32(t, at + 8);
    if (where + n_bytes > t->n) return 0;
    uint32_t v = unit == 1 ? t->p[where] : unit == 2 ? tiff_u16(t, where) : tiff_u32(t, where);
    return v <= 8 ? (int)v : 0;
}

int sac_exif_orientation(const uint8_t *block, size_t n_bytes) {
    for (int i = 0; i < 2 && n_bytes >= 6 && memcmp(block, "Exif\0\0", 6) == 0; i++) {
        block += 6;
        n_bytes -= 6;
    }
    if (n_bytes < 8) return 0;
    tiff t = {block, n_bytes, false};
    if (memcmp(block, "MM\0\x2a", 4) == 0 || memcmp(block, "MM\x2a\0", 4) == 0)
        t.big_endian = true;
    else if (memcmp(block, "II\x2a\0", 4) != 0 && memcmp(block, "II\0\x2a", 4) != 0)
        return 0;
    size_t directory = tiff_u32(&t, 4);
    if (directory > n_bytes - 2) return 0;
    size_t n_entries = tiff_u16(&t, directory);
    int orientation = 0;
    for (size_t i = 0, at = directory + 2; i < n_entries && at + 12 <= n_bytes; i++, at += 12)
        if (tiff_u16(&t, at) == TAG_ORIENTATION) orientation = entry_value(&t, at);
    return orientation;
}

int sac_xmp_orientation(const uint8_t *packet, size_t n_bytes) {
    static const char key[] = "tiff:Orientation";
    const size_t n_key = sizeof key - 1;
    for (size_t i = 0; i + n_key + 3 <= n_bytes; i++) {
        if (packet[i] != 't' || memcmp(packet + i, key, n_key) != 0) continue;
        const uint8_t *p = packet + i + n_key;
        if (p[0] == '>') /* <tiff:Orientation>6</tiff:Orientation> */
            p += 1;
        else if (p[0] == '=' && p[1] == '"') /* tiff:Orientation="6" */
            p += 2;
        else
            continue;
        if (*p >= '0' && *p <= '9') return *p - '0';
    }
    return 0;
}

sac_status sac_image_orient(sac_image *m, int orientation, sac_error *err) {
    static const sac_turn turns[9] = {
        [2] = {false, true, false}, [3] = {false, true, true}, [4] = {false, false, true},
        [5] = {true, false, false}, [6] = {true, true, false}, [7] = {true, true, true},
        [8] = {true, false, true}};
    if (orientation < 2 || orientation > 8) return SAC_OK;
    sac_turn turn = turns[orientation];
    uint8_t *turned = malloc((size_t)m->width * (size_t)m->height * 3);
    if (!turned)
        return sac_fail(err, SAC_NO_MEMORY, "no memory to turn a picture of %d x %d pixels", m->width,
                        m->height);
    sac_turn_rgb(turned, m->rgb, m->width, m->height, turn);
    free(m->rgb);
    *m = turn.transpose ? (sac_image){turned, m->height, m->width} : (sac_image){turned, m->width, m->height};
    return SAC_OK;
}
