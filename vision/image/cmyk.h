/* cmyk.h - ink to light as Pillow converts it: r = w - c * w / 255 with w = 255 - k, rounded. */
#ifndef SAC_VISION_CMYK_H
#define SAC_VISION_CMYK_H

#include <stdint.h>

static inline void sac_cmyk_to_rgb(uint8_t rgb[3], int c, int m, int y, int k) {
    const int ink[3] = {c, m, y}, white = 255 - k;
    for (int i = 0; i < 3; i++) {
        int t = ink[i] * white + 128;
        int v = white - (((t >> 8) + t) >> 8);
        rgb[i] = (uint8_t)(v < 0 ? 0 : v);
    }
}

#endif
