/* What an interrupted `quantize` to a GGUF file leaves: OUT.part.state says how much of OUT.part is good. Only a state that sac_out_mark
 * could have written counts, and never for more than is there; another run's is refused, and then all stays as it is.
 * Byte 0: bit 0, the rest is the state as it is, otherwise changes of a right one; bit 1, of another run; bit 2, no OUT.part.
 * Bytes 1 and 2: the size of OUT.part; 3 and 4: what a right state counts; then pairs of a place and what is changed there. */
#define _GNU_SOURCE
#include "fuzz.h"

#include "out_resume.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char ours[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
static const char other[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdee";
static char folder[] = "/tmp/fuzz_resume.XXXXXX", out[64], part[64], state[64];

static void remove_all(void) {
    unlink(part);
    unlink(state);
    rmdir(folder);
}

static void make_folder(void) {
    if (out[0]) return;
    if (!mkdtemp(folder)) abort();
    snprintf(out, sizeof out, "%s/o", folder);
    snprintf(part, sizeof part, "%s/o.part", folder);
    snprintf(state, sizeof state, "%s/o.part.state", folder);
    atexit(remove_all);
}

static void put(const char *path, const void *bytes, size_t n_bytes, off_t size) {
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, bytes, n_bytes) != (ssize_t)n_bytes || ftruncate(fd, size)) abort();
    close(fd);
}

static off_t size_of(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0 ? st.st_size : -1;
}

/* The format of out_file.h, read letter by letter. What is behind its bytes is not looked at. */
static bool is_state(const char *s, size_t n) {
    if (n < SAC_OUT_STATE_BYTES || s[64] != ' ' || s[85] != '\n') return false;
    for (int i = 0; i < 64; i++)
        if (!isdigit((unsigned char)s[i]) && !(s[i] >= 'a' && s[i] <= 'f')) return false;
    for (int i = 65; i < 85; i++)
        if (!isdigit((unsigned char)s[i])) return false;
    return strncmp(s + 65, "18446744073709551615", 20) <= 0;
}

static void check(const char *s, size_t n, off_t part_size) {
    const bool counts = part_size > 0 && is_state(s, n), is_ours = counts && !memcmp(s, ours, 64);
    char digits[21] = "";
    if (counts) memcpy(digits, s + 65, 20);
    uint64_t want = is_ours ? strtoull(digits, NULL, 10) : 0, found = 1;
    if (part_size < 0 || want > (uint64_t)part_size) want = 0;
    const sac_status expected = counts && !is_ours ? SAC_BAD_ARGUMENT : SAC_OK;
    sac_error err;
    sac_out_file f = {0};
    if (sac_out_resume_find(out, ours, &found, &err) != expected || (expected == SAC_OK && found != want)) abort();
    if (size_of(part) != part_size || size_of(state) != (off_t)n) abort();
    const sac_status st = sac_out_resume(&f, out, ours, NULL, &err);
    if (st != expected || (st == SAC_OK && f.n_bytes != want)) abort();
    if (st == SAC_OK && size_of(part) != (off_t)want) abort();
    if (st == SAC_OK && (size_of(state) >= 0) != (want > 0)) abort();
    sac_out_abandon(&f);
    if (st != SAC_OK && (size_of(part) != part_size || size_of(state) != (off_t)n)) abort();
    if (st == SAC_OK && ((size_of(part) >= 0) != (want > 0) || (size_of(state) >= 0) != (want > 0))) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 5) return 0;
    make_folder();
    const off_t part_size = data[0] & 4 ? -1 : (off_t)(data[1] | data[2] << 8);
    char right[SAC_OUT_STATE_BYTES + 1];
    sac_out_state_text(right, data[0] & 2 ? other : ours, (uint64_t)(data[3] | data[4] << 8));
    const char *s = right;
    size_t n = SAC_OUT_STATE_BYTES;
    if (data[0] & 1) {
        s = (const char *)data + 5;
        n = size - 5;
    } else {
        for (size_t i = 5; i + 2 <= size; i += 2) right[data[i] % SAC_OUT_STATE_BYTES] ^= (char)data[i + 1];
    }
    unlink(part);
    if (part_size >= 0) put(part, "", 0, part_size);
    put(state, s, n, (off_t)n);
    check(s, n, part_size);
    return 0;
}
