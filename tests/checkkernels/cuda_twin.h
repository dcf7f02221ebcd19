/* cuda_twin.h - a case's buffers a second time, on the device: matrices in another float type, everything
 * else byte for byte, canaries before, between and after. One image on the host goes up and comes down as a
 * whole. */
#ifndef SAC_CHECK_CUDA_TWIN_H
#define SAC_CHECK_CUDA_TWIN_H

#include "check.h"
#include "cuda/cuda_ops.h"

typedef struct cuda_part {
    size_t at; /* of the first row in the image */
    size_t row_bytes, stride_bytes;
    bool mat;     /* F32 on the host, the type under test on the device */
    uint8_t *own; /* memory of a buffer whose rows are far apart */
} cuda_part;

enum { CUDA_MOST_WEIGHTS = 4 /* of an op: out_step */ };

typedef struct cuda_twin {
    sac_device *device;
    sac_stream stream;
    uint8_t *memory, *image, *after[2];
    size_t image_bytes, used;
    bool numbers_only; /* 30000 instead of the NaN that no query may see: see attention in ops.h */
    cuda_part part[CHECK_MAX_BUFFERS];
    void *codes[CUDA_MOST_WEIGHTS], *order[CUDA_MOST_WEIGHTS]; /* of weights in code_layout.h's types */
} cuda_twin;

bool cuda_twin_open(cuda_twin *w, sac_device *device, sac_error *err);
void cuda_twin_close(cuda_twin *w); /* closes the stream's ops too */

/* Rounds the matrices of a case to t, on the host: the reference then sees what the device sees. */
void cuda_round_inputs(check_case *c, sac_dtype t);

/* Room on the device for the buffers of a case, as far off 64-byte lines as on the host or, `aligned`, on
 * them; then the case's arguments pointed there. Release before the next. */
bool cuda_twin_place(cuda_twin *w, check_case *c, sac_dtype t, bool aligned);
void cuda_twin_args(const cuda_twin *w, check_case *c, sac_dtype t, check_case *d);
void cuda_twin_release(cuda_twin *w, const check_case *c);

/* From the starting contents; *st is what the op answered. False when the device failed. */
bool cuda_twin_run(cuda_twin *w, const check_case *c, check_case *d, const sac_ops *t, sac_dtype dtype,
                   sac_status *st, uint8_t *after, sac_error *err);
void cuda_twin_compare(cuda_twin *w, const check_case *c, sac_dtype t, const uint8_t *after, check_result *r);

/* cuda_keys.c: the ops that choose rows */
int cuda_n_key_cases(check_op op);
bool cuda_make_key_case(check_case *c, int i, sac_dtype t);

/* cuda_codes.c: products with weights whose scales lie apart; no buffers: left out */
int cuda_n_code_cases(check_op op);
/* The type of a case's weights as files have it; NULL: not a case of those. */
const char *cuda_code_case_type(check_op op, int i);
bool cuda_has_codes_of(const char *type);
void cuda_make_code_case(check_case *c, check_op op, int i, sac_dtype t);
/* Adds to what such a product may be off on the device, with activations in t. */
void cuda_allow_codes(check_case *c, sac_dtype t);
/* Adds to what a qkv_step may be off: of each product `of` times the length of its row of products, element by element. */
void cuda_allow_qkv(check_case *c, double of);

/* cuda_large.c: prompts too long for the plain C reference: the slot beside the flash kernel; number of
 * faults. */
int cuda_check_large(cuda_twin *w, const sac_ops *t);

/* cuda_sequence.c: pack_rows and packed_step in one stream, pack_even and even_step; number of faults. */
int cuda_check_sequence(cuda_twin *w, const sac_ops *t);
int cuda_check_even_sequence(cuda_twin *w, const sac_ops *t);

/* cuda_check.c: every case of an op, in every type that it comes in, until f answers false. */
void cuda_each_case(check_op op, const check_options *o, bool (*f)(void *to, check_case *c, sac_dtype t),
                    void *to);

/* cuda_small.c: every kernel a few times, for sanitizers. */
int cuda_check_small(cuda_twin *w, const sac_ops *t, const check_options *o);

/* cuda_faults.c, cuda_bench.c, cuda_cases.c */
extern const check_fault_list cuda_faults;
bool cuda_make_case(check_case *c, check_op op,
                    int i);                   /* beside the CPU's cases: real shapes, 16-byte lines */
int cuda_n_cases(check_op op);
const char *cuda_case_weights(check_op op, int i); /* as cuda_code_case_type, of all of a card's cases */
sac_dtype cuda_case_type(check_op op, int i); /* of weights or keys: matrices are in the same */
int cuda_bench(cuda_twin *w, const sac_ops *t, const check_options *o);

typedef struct cuda_variant {
    const char *name;
    check_op op;
    void (*plant)(sac_ops *t);
} cuda_variant;
extern const cuda_variant cuda_variants[]; /* the parts of linear and attention, one by one */
extern const int cuda_n_variants;

#endif
