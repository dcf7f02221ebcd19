#include "template.h"

#include "attributes.h"
#include "eval.h"
#include "fold.h"
#include "names.h"
#include "utf8.h"

#include <stdlib.h>
#include <string.h>

enum { OPEN_BYTES_A_BYTE = 512, OPEN_BYTES = 1 << 20 };

struct sac_template {
    sac_tmpl_pool pool;
    char *name;
    const sac_tmpl_node *root;
};

struct sac_rendering {
    const sac_template *t;
    sac_template_limits limits;
    sac_tmpl_run run;
    sac_tmpl_writer out;
};

static sac_status parse(sac_template *t, const char *text, size_t n_bytes, sac_error *err) {
    sac_tmpl_source s = {.name = t->name, .text = text, .n_bytes = n_bytes, .pool = &t->pool, .err = err};
    SAC_TRY(sac_tmpl_lex(&s));
    sac_tmpl_parser p = {.s = &s};
    sac_tmpl_node *root = sac_tmpl_parse(&p);
    if (!root) return p.status;
    s.names = p.names;
    s.n_names = p.n_names;
    t->root = root;
    SAC_TRY(sac_tmpl_find_scopes(&s, root));
    return sac_tmpl_check_folded(&s, root);
}

sac_status sac_template_open(sac_template **out, const char *name, const char *text, size_t n_bytes,
                             sac_error *err) {
    *out = NULL;
    if (n_bytes > SAC_TEMPLATE_MAX_BYTES)
        return sac_fail(err, SAC_BAD_FILE, "%.120s: a template of %zu bytes; at most %zu can be used", name,
                        n_bytes, SAC_TEMPLATE_MAX_BYTES);
    if (!sac_utf8_valid(text, n_bytes))
        return sac_fail(err, SAC_BAD_FILE, "%.120s is not UTF-8 text; save the template as UTF-8", name);
    sac_template *t = calloc(1, sizeof *t);
    if (!t) return sac_fail_no_memory(err);
    t->pool.limit_bytes = OPEN_BYTES + n_bytes * OPEN_BYTES_A_BYTE;
    size_t n_name = strlen(name) + 1;
    t->name = sac_tmpl_take(&t->pool, n_name);
    sac_status st = t->name ? SAC_OK : sac_fail_no_memory(err);
    if (st == SAC_OK) {
        memcpy(t->name, name, n_name);
        st = parse(t, text, n_bytes, err);
    }
    if (st != SAC_OK) {
        sac_template_free(t);
        return st;
    }
    *out = t;
    return SAC_OK;
}

void sac_template_free(sac_template *t) {
    if (!t) return;
    sac_tmpl_pool_free(&t->pool);
    free(t);
}

const char *sac_template_name(const sac_template *t) {
    return t->name;
}

sac_template_limits sac_template_limits_for(size_t n_input_bytes) {
    size_t n = n_input_bytes < SIZE_MAX / 4096 ? n_input_bytes : SIZE_MAX / 4096;
    return (sac_template_limits){.memory_bytes = ((size_t)64 << 20) + 512 * n,
                                 .output_bytes = ((size_t)1 << 20) + 16 * n,
                                 .steps = ((int64_t)4 << 20) + 1024 * (int64_t)n};
}

sac_status sac_rendering_open(sac_rendering **out, const sac_template *t, sac_template_limits limits,
                              sac_error *err) {
    sac_rendering *r = calloc(1, sizeof *r);
    *out = r;
    if (!r) return sac_fail_no_memory(err);
    r->t = t;
    r->limits = limits;
    r->run = (sac_tmpl_run){.name = t->name,
                            .pool = {.limit_bytes = limits.memory_bytes},
                            .line = 1,
                            .find_filter = sac_tmpl_find_filter,
                            .find_test = sac_tmpl_find_test,
                            .attribute = sac_tmpl_attribute,
                            .item = sac_tmpl_item};
    return SAC_OK;
}

void sac_rendering_free(sac_rendering *r) {
    if (!r) return;
    sac_tmpl_pool_free(&r->run.pool);
    free(r);
}

sac_tmpl_pool *sac_rendering_values(sac_rendering *r) {
    return &r->run.pool;
}

void sac_rendering_set_time(sac_rendering *r, int64_t seconds) {
    r->run.has_time = true;
    r->run.time = seconds;
}

sac_status sac_rendering_run(sac_rendering *r, sac_tmpl_value variables, sac_tmpl_string *text,
                             sac_error *err) {
    sac_tmpl_run *run = &r->run;
    run->err = err;
    if (variables.kind != SAC_TMPL_DICT) return sac_tmpl_full(run); /* it was made of too much */
    r->out = (sac_tmpl_writer){.run = run, .limit = r->limits.output_bytes};
    run->variables = variables.dict;
    run->out = &r->out;
    run->depth = 0;
    run->jump = SAC_TMPL_GO_ON;
    run->steps = run->steps_left = r->limits.steps;
    SAC_TRY(sac_tmpl_exec_root(run, r->t->root));
    *text = sac_tmpl_written(&r->out);
    return SAC_OK;
}
