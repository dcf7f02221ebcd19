#include "calibration.h"

#include "hash.h"
#include "observer.h"
#include "prompts.h"

#include <stdio.h>
#include <stdlib.h>

enum { USUAL_CONTEXT = 4096 };

/* What the rows of all prompts are, which is what their files and the way of writing them come to. */
static sac_status make_stamp(sac_calibration *c, sac_error *err) {
    sac_sha256 *h;
    uint8_t hash[32];
    SAC_TRY(sac_sha256_open(&h, err));
    sac_sha256_update(h, c->first, (c->n + 1) * sizeof *c->first);
    sac_sha256_update(h, c->rows, (size_t)(sac_calibration_n_rows(c) * c->hidden) * sizeof *c->rows);
    sac_sha256_finish(h, hash);
    for (int i = 0; i < 32; i++) snprintf(c->calibrator.stamp + 2 * i, 3, "%02x", hash[i]);
    return SAC_OK;
}

static void get_report(void *ctx, sac_calibration_report *report) {
    *report = ((sac_calibration *)ctx)->report;
}

static sac_status open_session(sac_calibration *c, sac_error *err) {
    const sac_decoder_config *d = &c->model->loaded.decoder.config;
    sac_session_config config;
    sac_session_config_default(&config);
    config.n_ctx = c->options.n_ctx ? c->options.n_ctx : d->max_position < USUAL_CONTEXT ? d->max_position : USUAL_CONTEXT;
    config.kv = "f32";
    c->hidden = d->hidden;
    return sac_session_create(&c->session, c->model, &config, err);
}

static sac_status open_model(sac_calibration *c, const char *model, sac_error *err) {
    sac_model_options o;
    sac_model_options_default(&o);
    o.n_threads = c->options.n_threads;
    o.chat_format = c->options.chat;
    o.progress = c->options.progress;
    o.progress_ctx = c->options.ctx;
    return sac_model_open(&c->model, model, &o, err);
}

static sac_status open_all(sac_calibration *c, const char *model, sac_error *err) {
    if (!c->n) return sac_fail(err, SAC_BAD_ARGUMENT, "calibration needs one prompt at least");
    c->first = calloc(c->n + 1, sizeof *c->first);
    if (!c->first) return sac_fail_no_memory(err);
    SAC_TRY(open_model(c, model, err));
    SAC_TRY(open_session(c, err));
    SAC_TRY(sac_calibration_embed(c, err));
    return make_stamp(c, err);
}

sac_status sac_calibration_open(sac_calibration **out, const char *model, const sac_calibration_prompt *prompts, size_t n,
                                const sac_calibration_options *options, sac_error *err) {
    sac_calibration *c = calloc(1, sizeof *c);
    *out = NULL;
    if (!c) return sac_fail_no_memory(err);
    *c = (sac_calibration){.options = *options, .prompts = prompts, .n = n};
    c->calibrator = (sac_calibrator){.ctx = c,
                                     .plan = sac_calibration_plan_layers,
                                     .layers = sac_calibration_layers,
                                     .columns = sac_calibration_columns,
                                     .column_sums = sac_calibration_column_sums,
                                     .report = get_report};
    sac_status st = open_all(c, model, err);
    if (st != SAC_OK)
        sac_calibration_close(c);
    else
        *out = c;
    return st;
}

void sac_calibration_close(sac_calibration *c) {
    if (!c) return;
    sac_calibration_free_columns(c);
    if (c->session) sac_session_free(c->session);
    sac_model_free(c->model);
    free(c->first);
    free(c->rows);
    free(c);
}

const sac_calibrator *sac_calibration_calibrator(sac_calibration *c) {
    return &c->calibrator;
}
