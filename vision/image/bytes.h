/* bytes.h - integers out of unaligned bytes of either order. */
#ifndef SAC_VISION_BYTES_H
#define SAC_VISION_BYTES_H

#include <stdint.h>

static inline uint32_t sac_le16(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}
static inline uint32_t sac_be16(const uint8_t *p) {
    return (uint32_t)p[0] << 8 | (uint32_t)p[1];
}
static inline uint32_t sac_le24(const uint8_t *p) {
    return sac_le16(p) | (uint32_t)p[2] << 16;
}
static inline uint32_t sac_le32(const uint8_t *p) {
    return sac_le16(p) | sac_le16(p + 2) << 16;
}
static inline uint32_t sac_be32(const uint8_t *p) {
    return sac_be16(p) << 16 | sac_be16(p + 2);
}

#endif
