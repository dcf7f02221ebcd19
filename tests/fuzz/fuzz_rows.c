/* A file of the store of beginnings: what is taken from it lies within it, and only a file of exactly the block that was
 * asked for is taken. The first byte chooses what the rest is: a file as it is, or one that is right but for a change. */
#include "fuzz.h"

#include "store_file.h"

#include <stdlib.h>
#include <string.h>

enum { DATA_BYTES = 200 };

static void fill(sac_store_block *b) {
    for (size_t i = 0; i < sizeof b->key.hash; i++) b->key.hash[i] = (uint8_t)(3 * i), b->before.hash[i] = (uint8_t)(5 * i);
    for (int i = 0; i < SAC_STORE_ROWS; i++) b->rows[i] = (sac_store_row){.a = (uint64_t)i, .b = 7, .number = {i, i, i}};
    for (size_t i = 0; i < b->n_bytes; i++) b->data[i] = (uint8_t)i;
}

/* The input, as it is in a block of memory of its size: ASan sees what is read beyond. */
static void check(const sac_store_block *b, const uint8_t *data, size_t size, bool is_right) {
    uint8_t *copy = malloc(size ? size : 1);
    const uint8_t *rows;
    if (!copy) return;
    if (size) memcpy(copy, data, size);
    const char *wrong = sac_store_file_check(copy, size, b, &rows);
    if (!wrong && (rows < copy || rows + b->n_bytes > copy + size)) abort();
    if (!wrong && !is_right) abort();
    if (wrong && is_right) abort();
    free(copy);
}

static size_t pair(const uint8_t *p) {
    return (size_t)p[0] | (size_t)p[1] << 8;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sac_store_block *b = sac_store_block_new(DATA_BYTES);
    uint8_t file[SAC_STORE_FILE_HEAD + DATA_BYTES], right[sizeof file];
    if (!b) return 0;
    fill(b);
    sac_store_file_head(right, b);
    memcpy(right + SAC_STORE_FILE_HEAD, b->data, DATA_BYTES);
    memcpy(file, right, sizeof file);
    check(b, file, sizeof file, true);
    if (size < 4) return free(b), 0;
    if (data[0] % 2) { /* pairs of a place and a byte; then cut off */
        for (size_t i = 4; i + 3 <= size; i += 3) file[pair(data + i) % sizeof file] ^= data[i + 2];
        size_t n = data[1] % 2 ? sizeof file : pair(data + 2) % (sizeof file + 1);
        check(b, file, n, n == sizeof file && !memcmp(file, right, n));
    } else {
        check(b, data + 1, size - 1, false);
    }
    free(b);
    return 0;
}
