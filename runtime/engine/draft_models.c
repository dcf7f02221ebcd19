/* draft_models.c - the models that draft for one, and what a session of theirs is; before there is any. */
#include "draft_model.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    struct entry *next;
    sac_model *model;
    char path[];
} entry;

struct sac_draft_models {
    pthread_mutex_t lock;
    entry *first;
};

sac_status sac_draft_models_create(sac_draft_models **out, sac_error *err) {
    *out = calloc(1, sizeof **out);
    if (!*out) return sac_fail(err, SAC_NO_MEMORY, "no memory for a model");
    pthread_mutex_init(&(*out)->lock, NULL);
    return SAC_OK;
}

sac_model *sac_draft_models_take(sac_draft_models *d) {
    entry *e = d ? d->first : NULL;
    if (!e) return NULL;
    sac_model *m = e->model;
    d->first = e->next;
    free(e);
    return m;
}

void sac_draft_models_free(sac_draft_models *d) {
    if (!d) return;
    pthread_mutex_destroy(&d->lock);
    free(d);
}

size_t sac_draft_models_list(sac_draft_models *d, const sac_model **out, size_t most) {
    size_t n = 0;
    pthread_mutex_lock(&d->lock);
    for (const entry *e = d->first; e && n < most; e = e->next) out[n++] = e->model;
    pthread_mutex_unlock(&d->lock);
    return n;
}

static sac_status add(sac_draft_models *d, const sac_model *of, const char *path, sac_draft_opener open, sac_model **out,
                      sac_error *err) {
    const size_t n = strlen(path) + 1;
    entry *e = malloc(sizeof *e + n);
    if (!e) return sac_fail(err, SAC_NO_MEMORY, "no memory for a model");
    memcpy(e->path, path, n);
    const sac_status st = open(&e->model, of, path, err);
    if (st != SAC_OK) {
        free(e);
        return st;
    }
    e->next = d->first;
    d->first = e;
    *out = e->model;
    return SAC_OK;
}

sac_status sac_draft_models_find(const sac_model *of, const char *path, sac_draft_opener open, sac_model **out, sac_error *err) {
    sac_draft_models *d = of->draft_models;
    sac_status st = SAC_OK;
    *out = NULL;
    pthread_mutex_lock(&d->lock);
    for (entry *e = d->first; e && !*out; e = e->next)
        if (!strcmp(e->path, path)) *out = e->model;
    if (!*out) st = add(d, of, path, open, out, err);
    pthread_mutex_unlock(&d->lock);
    return st;
}

/* Beyond the length that it was trained on a small model is of no help. */
sac_session_config sac_draft_model_config(const sac_model *draft, int64_t n_ctx) {
    const int64_t most = draft->loaded.decoder.config.max_position;
    return (sac_session_config){.n_ctx = most && n_ctx > most ? most : n_ctx, .prefill = "dense", .decode = "dense"};
}

void sac_draft_model_add_memory(sac_memory_report *to, const sac_memory_report *its) {
    const int most = (int)SAC_COUNT(to->parts);
    if (to->n_parts < most) to->parts[to->n_parts++] = (sac_memory_part){"draft model's sequence", its->total_bytes, false};
    if (to->n_parts < most) to->parts[to->n_parts++] = (sac_memory_part){"draft model's workspace", its->workspace_bytes, true};
    to->total_bytes += its->total_bytes;
    to->workspace_bytes += its->workspace_bytes;
    to->weight_bytes += its->weight_bytes;
    to->device_bytes += its->device_bytes;
    to->workspace_device_bytes += its->workspace_device_bytes;
}
