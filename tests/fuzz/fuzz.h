/* fuzz.h - what the fuzz targets share. A target is one file fuzz_<name>.c with LLVMFuzzerTestOneInput; its
 * corpus is corpus/<name>/. Built with SAC_FUZZ it is a libFuzzer program, otherwise replay.c runs the corpus
 * through it. */
#ifndef SAC_FUZZ_H
#define SAC_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Path of an anonymous file that holds the input, for parsers that take a path; the same file each time. */
const char *fuzz_file(const uint8_t *data, size_t size);

#endif
