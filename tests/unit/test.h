/* test.h - cmocka and what the unit tests share. */
#ifndef SAC_TEST_H
#define SAC_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A small counter-based generator (splitmix64), so that a test's numbers depend on its seed alone. */
static inline uint64_t test_rand(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
static inline int test_rand_int(uint64_t *state, int min, int max) {
    return min + (int)(test_rand(state) % (uint64_t)(max - min + 1));
}
static inline float test_rand_float(uint64_t *state) { /* [-1, 1) */
    return (float)((double)(test_rand(state) >> 11) * 0x1p-52 - 1.0);
}

/* Folder of test data that is not part of the project: $SACCADE_ASSETS, or ../shared/assets; NULL when
 * absent. */
static inline const char *test_assets(void) {
    const char *folder = getenv("SACCADE_ASSETS");
    if (!folder) folder = "../shared/assets";
    FILE *f = fopen(folder, "r");
    if (!f) return NULL;
    fclose(f);
    return folder;
}

/* Fails with the library's own message. */
#define assert_ok(call, err)                                                                                 \
    do {                                                                                                     \
        if ((call) != SAC_OK) fail_msg("%s", (err).text);                                                    \
    } while (0)

/* A refusal is one line and holds what is expected of it. */
#define assert_says(err, expect)                                                                             \
    do {                                                                                                     \
        if (!strstr((err).text, expect)) fail_msg("\"%s\" does not say \"%s\"", (err).text, expect);         \
        assert_null(strchr((err).text, '\n'));                                                               \
    } while (0)

#endif
