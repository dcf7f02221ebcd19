/* nibble_rows_tmpl.h - rows of 4-bit numbers, two a byte, that stand for levels of a table, for rows_tmpl.h. Before it: levels_of_word,
 * the eight of a word in their order. */
SAC_INLINE const uint8_t *rows_at(const sac_weight *w, int64_t j) {
    return (const uint8_t *)w->tensor.data + j * (w->tensor.dim[1] / 2);
}

SAC_INLINE vf rows_load(const uint8_t *row, int64_t p) {
    return levels_of_word(words_of_eight(row + p / 2));
}

SAC_INLINE vf rows_load_part(const uint8_t *row, int64_t p, int64_t n) {
    uint8_t part[VF] = {0};
    memcpy(part, row + p / 2, (size_t)(n / 2));
    return rows_load(part, 0);
}

SAC_INLINE float rows_zero(const sac_weight *w, int64_t j, int64_t g) {
    (void)w, (void)j, (void)g;
    return 0;
}

#include "rows_tmpl.h"
