/* draft.h - guesses at the tokens that come next. A pass of the model runs them behind the token that it has to run
 * anyway, and gives the logits behind each of them: the sampler chooses from these as from those of a step, and what
 * it chooses is the answer, whatever was guessed. A guess that it agrees with has saved a pass (Leviathan et al. 2023,
 * arXiv:2211.17192, with guesses that are certain). A method of drafting is one file and one line here. */
#ifndef SAC_LLM_DRAFT_H
#define SAC_LLM_DRAFT_H

#include "method.h"

#include <stdint.h>

#define SAC_DRAFT_MOST       31   /* tokens at a time */
#define SAC_DRAFT_REST_BYTES 1024 /* of a line, see sac_draft */

/* Where guesses come from. */
typedef enum sac_draft_source {
    SAC_DRAFT_OF_TOKENS, /* the tokens before: propose */
    SAC_DRAFT_OF_SPARSE, /* the model itself, through a sparse decode policy (decoder_draft.h) */
    SAC_DRAFT_OF_MODEL,  /* another model, which the engine has */
    SAC_DRAFT_OF_HEAD,   /* a head of the model's own hidden rows, which the engine has (eagle.h) */
} sac_draft_source;

typedef struct sac_draft_method {
    const char *name, *source;
    const sac_method_param *params; /* the first is "most": tokens drafted at a time, 1 to SAC_DRAFT_MOST */
    /* What may follow ids [n], at most `most` tokens into out: returns how many, 0 where it has no idea. Of tokens alone. */
    int (*propose)(const double *p, const int32_t *ids, int64_t n, int most, int32_t *out);
    sac_draft_source from;
    /* Other sources: the second param is "adapt"; whoever makes the guesses reads what the line says besides. From `rest`, its
     * settings that are none of params, and p the line that they read: BAD_ARGUMENT where they cannot. */
    sac_status (*read_rest)(const double *p, const char *rest, char line[SAC_DRAFT_REST_BYTES], sac_error *err);
} sac_draft_method;

#define SAC_DRAFTS(X) X(lookup) X(model) X(sparse) X(eagle3)
#define X(name)       extern const sac_draft_method sac_draft_##name;
SAC_DRAFTS(X)
#undef X

/* How a session drafts. */
typedef struct sac_draft {
    const sac_draft_method *method; /* NULL: not at all */
    double p[SAC_METHOD_MAX_PARAMS];
    int most;
    bool adapts;                     /* of the sources beside tokens: drafts are as long as pays */
    char rest[SAC_DRAFT_REST_BYTES]; /* what read_rest made of the line: a decode policy's; a path; "" */
} sac_draft;

/* From a line "lookup:n=3,most=7"; "none" or NULL: not at all. BAD_ARGUMENT names what is not known. */
sac_status sac_draft_parse(sac_draft *d, const char *line, sac_error *err);
void sac_draft_print(const sac_draft *d, char *text, size_t capacity);

#endif
