#include "cuda_limits.h"

#include <stdlib.h>
#include <string.h>

/* The number behind `name=` at *at, which goes behind the comma that ends it. */
static bool read_number(const char **at, const char *name, long least, long most, int *out) {
    size_t n = strlen(name);
    char *end;
    if (strncmp(*at, name, n) != 0 || (*at)[n] != '=' || (*at)[n + 1] < '0' || (*at)[n + 1] > '9')
        return false;
    long value = strtol(*at + n + 1, &end, 10);
    if (value < least || value > most || (*end && *end != ',') || (*end && !end[1])) return false;
    *at = *end ? end + 1 : end;
    *out = (int)value;
    return true;
}

sac_status sac_cuda_limits_parse(sac_cuda_limits *l, const char *text, sac_error *err) {
    *l = (sac_cuda_limits){0};
    for (const char *at = text ? text : ""; *at;) {
        int is_on = 1;
        if (read_number(&at, "compute", 80, 999, &l->compute) ||
            read_number(&at, "shared", 48, 1024, &l->shared_kib))
            continue;
        if (read_number(&at, "early", 0, 1, &is_on))
            l->no_early = !is_on;
        else if (read_number(&at, "cudnn", 0, 1, &is_on))
            l->no_cudnn = !is_on;
        else if (read_number(&at, "streams", 0, 1, &is_on))
            l->no_wide_streams = !is_on;
        else if (read_number(&at, "digits", 0, 1, &is_on))
            l->no_digits = !is_on;
        else if (read_number(&at, "choice", 0, 1, &is_on))
            l->no_choice = !is_on;
        else if (read_number(&at, "e4m3", 0, 1, &is_on))
            l->no_e4m3 = !is_on;
        else if (read_number(&at, "few", 0, 1, &is_on))
            l->no_few_rows = !is_on;
        else if (read_number(&at, "out", 0, 1, &is_on))
            l->no_out = !is_on;
        else
            return sac_fail(
                err, SAC_BAD_ARGUMENT,
                "SAC_CUDA_LIMITS: \"%.40s\" is none of compute=80 and later, shared=48 and more (KiB), "
                "early=0 or 1, cudnn=0 or 1, streams=0 or 1, digits=0 or 1, choice=0 or 1, e4m3=0 or 1, "
                "few=0 or 1, out=0 or 1, with commas between",
                at);
    }
    return SAC_OK;
}

int sac_cuda_counted_compute(int compute, int code, const sac_cuda_limits *l) {
    if (compute >= 90 && code < 90) compute = code;
    return l->compute && l->compute < compute ? l->compute : compute;
}

int sac_cuda_counted_shared(int n_bytes, const sac_cuda_limits *l) {
    return l->shared_kib && l->shared_kib << 10 < n_bytes ? l->shared_kib << 10 : n_bytes;
}
