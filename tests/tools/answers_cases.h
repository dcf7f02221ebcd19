/* answers_cases.h - which methods, formats and files answers_probe asks about. */
#ifndef ANSWERS_CASES_H
#define ANSWERS_CASES_H

#include "saccade/saccade.h"

enum {
    QUICK = 1,    /* one line of each method; the others are for the whole recording */
    AS_DENSE = 2, /* answers as the line without prefill, decode and reduce does: off, or it only measures */
    FOR_MEDIA = 4 /* does nothing without visual tokens */
};

/* Methods of a session, NULL = the default. */
typedef struct setting {
    int is;
    const char *prefill, *decode, *kv, *reduce, *rope;
} setting;

extern const setting settings[]; /* budgets for prompts of about 250 tokens */
extern const size_t n_settings;
extern const setting drawn_settings[]; /* samples/drawn's, for about a thousand */
extern const size_t n_drawn_settings;

typedef struct tiny_model {
    const char *path; /* below tests/golden/models */
    bool has_vision, is_quick;
} tiny_model;
extern const tiny_model tiny_models[];
extern const size_t n_tiny_models;

typedef struct sampling_case {
    const char *name;
    sac_sampling options; /* fields not named are zero */
} sampling_case;
extern const sampling_case sampling_cases[];
extern const size_t n_sampling_cases;

/* Pictures and videos that the demo model is shown. */
extern const char *const media_files[];
extern const size_t n_media_files;

#endif
