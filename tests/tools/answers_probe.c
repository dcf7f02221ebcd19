/* answers_probe.c - every answer that must stay the same, as hashes of its bits (tools/record_answers.py).
 *
 *   answers_probe [--quick] [--list] [--threads N] [--only REGEX]
 *
 * Runs in the source root, where models/demo, samples and tests/golden are. The first line is a JSON object
 * that names the processor's instruction sets; SAC_VARIANT caps them. Then a line a case, see
 * answers_record.h. Only the public API is used, so that the same source records older and newer trees.
 * Exit status 1: a setting that must change answers did not, or one that must not did. */
#define _GNU_SOURCE
#include "answers_groups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool model_open(probe *p, const char *name, const char *path, sac_model_options o) {
    sac_error err = {0};
    o.n_threads = p->n_threads;
    p->model_name = name;
    if (sac_model_open(&p->model, path, &o, &err) != SAC_OK) {
        fprintf(stderr, "answers_probe: %s\n", err.text);
        p->n_wrong++;
        return false;
    }
    sac_model_get_info(p->model, &p->info);
    return true;
}

static sac_model_options defaults(void) {
    sac_model_options o;
    sac_model_options_default(&o);
    return o;
}

/* Without the cache of embeddings every picture's pixels are heard, whatever was shown before. */
static sac_model_options without_cache(void) {
    sac_model_options o = defaults();
    o.vision_cache_bytes = 0;
    return o;
}

static void demo_answers(probe *p) {
    if (!model_open(p, "demo", "models/demo", defaults())) return;
    printf("{\"cpu\": \"%s\", \"version\": 1}\n", p->info.cpu);
    group_settings(p);
    group_appended(p);
    group_batches(p);
    group_reuse(p);
    group_between(p);
    if (!p->is_quick) {
        group_long_answers(p);
        group_drawn(p);
        group_sampling(p);
        group_long_text(p);
        group_measured(p);
    }
    group_prompts(p);
    sac_model_free(p->model);
}

/* Options of a model that may change what it computes. */
static void demo_variants(probe *p) {
    sac_model_options fast = defaults();
    fast.fast = true;
    if (model_open(p, "demo without cache", "models/demo", without_cache())) {
        group_variant(p);
        group_media(p);
        sac_model_free(p->model);
    }
    if (model_open(p, "demo fast", "models/demo", fast)) {
        group_variant(p);
        sac_model_free(p->model);
    }
}

/* A conversation in every chat format. */
static void chat_answers(probe *p) {
    for (const char *const *name = sac_chat_format_names(); *name; name++) {
        char title[128];
        sac_model_options o = defaults();
        o.chat_format = *name;
        snprintf(title, sizeof title, "llava as %s", *name);
        if (!model_open(p, title, "tests/golden/models/llava", o)) continue;
        group_conversation(p);
        sac_model_free(p->model);
    }
}

static void tiny_answers(probe *p, const tiny_model *t) {
    char path[256], name[128];
    snprintf(path, sizeof path, "tests/golden/models/%s", t->path);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(t->path, "/"), t->path);
    if (!model_open(p, name, path, without_cache())) return;
    group_settings(p);
    if (!p->is_quick || !t->has_vision) group_long_answers(p);
    group_appended(p);
    group_batches(p);
    if (t->has_vision) {
        group_reuse(p);
        group_media(p);
    }
    group_prompts(p);
    sac_model_free(p->model);
}

static int usage(void) {
    fprintf(stderr, "usage: answers_probe [--quick] [--list] [--threads N] [--only REGEX]\n");
    return 64;
}

int main(int argc, char **argv) {
    probe p = {.n_threads = 1};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--quick"))
            p.is_quick = true;
        else if (!strcmp(argv[i], "--list"))
            p.is_list = true;
        else if (!strcmp(argv[i], "--threads") && i + 1 < argc)
            p.n_threads = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--only") && i + 1 < argc && !p.has_only)
            p.has_only = regcomp(&p.only, argv[++i], REG_EXTENDED | REG_NOSUB) == 0;
        else
            return usage();
    }
    if (p.n_threads < 1) return usage();
    demo_answers(&p);
    demo_variants(&p);
    chat_answers(&p);
    for (size_t i = 0; i < n_tiny_models; i++)
        if (!p.is_quick || tiny_models[i].is_quick) tiny_answers(&p, &tiny_models[i]);
    if (p.has_only) regfree(&p.only);
    return p.n_wrong > 0;
}
