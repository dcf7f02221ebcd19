/* tokenizer_build.c - what tokenizer.json and GGUF vocabularies share when a tokenizer is put together. */
#include "tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>

/* The split pattern of ByteLevel, from GPT-2. */
#define GPT2_PATTERN "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

sac_status sac_steps_new(sac_steps *steps, sac_step **out, sac_error *err) {
    if (steps->n == SAC_MAX_STEPS)
        return sac_fail(err, SAC_BAD_FILE, "more than %d steps in a sequence", SAC_MAX_STEPS);
    *out = &steps->step[steps->n++];
    memset(*out, 0, sizeof **out);
    return SAC_OK;
}

sac_status sac_step_set_text(sac_step *step, const char *text, size_t n_bytes, sac_error *err) {
    if (n_bytes > SAC_MAX_TOKEN_BYTES)
        return sac_fail(err, SAC_BAD_FILE, "a replacement of %zu bytes, at most %d", n_bytes,
                        SAC_MAX_TOKEN_BYTES);
    step->text = malloc(n_bytes + 1);
    if (!step->text) return sac_fail(err, SAC_NO_MEMORY, "no memory for %zu bytes", n_bytes);
    memcpy(step->text, text, n_bytes);
    step->text[n_bytes] = 0;
    step->text_bytes = n_bytes;
    return SAC_OK;
}

sac_status sac_steps_add_split(sac_steps *steps, const char *pattern, size_t n_bytes, bool literal,
                               sac_split_behavior behavior, bool invert, sac_error *err) {
    sac_step *s = NULL;
    SAC_TRY(sac_steps_new(steps, &s, err));
    s->kind = SAC_STEP_SPLIT;
    s->behavior = behavior;
    s->invert = invert;
    return sac_regex_compile(&s->regex, pattern, n_bytes, literal, err);
}

sac_status sac_steps_add_byte_level(sac_steps *steps, bool prefix_space, bool use_regex, sac_error *err) {
    sac_step *s = NULL;
    if (prefix_space) {
        SAC_TRY(sac_steps_new(steps, &s, err));
        s->kind = SAC_STEP_PREFIX;
        SAC_TRY(sac_step_set_text(s, " ", 1, err));
    }
    if (use_regex)
        SAC_TRY(sac_steps_add_split(steps, GPT2_PATTERN, strlen(GPT2_PATTERN), false, SAC_SPLIT_ISOLATED,
                                    false, err));
    SAC_TRY(sac_steps_new(steps, &s, err));
    s->kind = SAC_STEP_BYTE_CHARS;
    return SAC_OK;
}

static void mark_if_renamed(sac_vocab *v, int32_t id, const char *name, size_t n_bytes) {
    if (v->token[id].n_bytes == n_bytes && memcmp(sac_vocab_text(v, id), name, n_bytes) == 0) return;
    v->token[id].flags |= SAC_VOCAB_RENAMED;
    if (n_bytes > v->longest_bytes) v->longest_bytes = n_bytes;
}

/* Names of the tokens that are looked for behind the normalisers, normalised themselves. */
static sac_status normalize_names(sac_tokenizer *t, sac_error *err) {
    sac_added_tokens *a = &t->added;
    sac_regex_scratch scratch = {0};
    sac_passage text = {0}, spare = {0};
    sac_status st = SAC_OK;
    a->name_offset = calloc(a->n + 1, sizeof *a->name_offset);
    if (!a->name_offset) st = sac_fail(err, SAC_NO_MEMORY, "no memory for %zu added tokens", a->n);
    for (size_t i = 0; i < a->n && st == SAC_OK; i++) {
        a->name_offset[i + 1] = a->names.n_bytes;
        if (!a->token[i].normalized && !a->token[i].was_normalized) continue;
        text.text.n_bytes = 0;
        int32_t id = a->token[i].id;
        st = sac_buffer_add(&text.text, sac_vocab_text(&t->vocab, id), t->vocab.token[id].n_bytes, err);
        if (st == SAC_OK) st = sac_normalize_text(&t->normalize, &scratch, &text, &spare, err);
        if (st == SAC_OK) st = sac_buffer_add(&a->names, text.text.data, text.text.n_bytes, err);
        a->name_offset[i + 1] = a->names.n_bytes;
        if (st == SAC_OK) mark_if_renamed(&t->vocab, id, text.text.data, text.text.n_bytes);
    }
    sac_buffer_free(&text.text);
    sac_buffer_free(&spare.text);
    sac_regex_scratch_free(&scratch);
    return st;
}

static sac_status index_added(sac_tokenizer *t, sac_error *err) {
    sac_added_tokens *a = &t->added;
    SAC_TRY(normalize_names(t, err));
    sac_prefix_entry *plain = calloc(a->n + 1, sizeof *plain),
                     *normalized = calloc(a->n + 1, sizeof *normalized);
    if (!plain || !normalized) {
        free(plain);
        free(normalized);
        return sac_fail(err, SAC_NO_MEMORY, "no memory for %zu added tokens", a->n);
    }
    size_t n_plain = 0, n_normalized = 0;
    for (size_t i = 0; i < a->n; i++) {
        int32_t id = a->token[i].id;
        size_t from = a->name_offset[i], to = a->name_offset[i + 1];
        if (!a->token[i].normalized)
            plain[n_plain++] =
                (sac_prefix_entry){sac_vocab_text(&t->vocab, id), t->vocab.token[id].n_bytes, (int32_t)i};
        else if (to > from)
            normalized[n_normalized++] =
                (sac_prefix_entry){a->names.data + from, (uint32_t)(to - from), (int32_t)i};
    }
    sac_prefix_set_make(&a->plain, plain, n_plain);
    sac_prefix_set_make(&a->normalized, normalized, n_normalized);
    return SAC_OK;
}

/* Text that was not allowed to be a control token must not become one by merging either. */
static void forbid_merges_into_special(sac_tokenizer *t) {
    for (size_t i = 0; i < t->bpe.n_merges; i++) {
        sac_bpe_merge *m = &t->bpe.merge[i];
        if (m->merged >= 0 && (t->vocab.token[m->merged].flags & SAC_VOCAB_SPECIAL)) m->merged = -1;
    }
}

sac_status sac_tokenizer_finish(sac_tokenizer *t, sac_error *err) {
    SAC_TRY(index_added(t, err));
    if (t->model == SAC_MODEL_UNIGRAM) return sac_unigram_index(&t->unigram, &t->vocab, err);
    sac_bpe_index_chars(&t->bpe, &t->vocab);
    forbid_merges_into_special(t);
    return SAC_OK;
}
