#include "slot_methods.h"

sac_session_config serve_methods_config(const serve_server *s, const serve_methods *m) {
    sac_session_config c = s->config->session;
    c.n_ctx = s->n_ctx;
    if (m->prefill[0]) c.prefill = m->prefill;
    if (m->decode[0]) c.decode = m->decode;
    if (m->kv[0]) c.kv = m->kv;
    if (m->rope[0]) c.rope = m->rope;
    if (m->reduce[0]) c.reduce = m->reduce;
    return c;
}

sac_status serve_methods_session(serve_server *s, const serve_methods *m, sac_session **out, sac_error *err) {
    sac_session_config c = serve_methods_config(s, m);
    sac_status st = sac_session_create(out, s->model, &c, err);
    if (st == SAC_OK) sac_session_leave_logits(*out, true);
    if (st == SAC_OK) sac_session_wait_for_pages(*out, true);
    if (st == SAC_OK && s->beginnings) st = sac_session_join(*out, s->beginnings, err);
    if (st == SAC_OK) return SAC_OK;
    sac_session_free(*out);
    *out = NULL;
    return st;
}

void serve_methods_room(serve_server *s, const sac_memory_report *plan) {
    bool more = s->config->request_methods;
    s->slot_bytes = plan->total_bytes + (more ? plan->total_bytes / 4 : 0);
    s->slot_device_bytes = plan->device_bytes + (more ? plan->device_bytes / 4 : 0);
}

bool serve_methods_fit(const serve_server *s, const sac_memory_report *plan, serve_problem *p) {
    if (plan->total_bytes > s->slot_bytes)
        return serve_refuse(p, 413, NULL, "methods_too_large",
                            "these methods take %zu bytes of memory, a slot has %zu", plan->total_bytes,
                            s->slot_bytes);
    if (plan->device_bytes > s->slot_device_bytes)
        return serve_refuse(p, 413, NULL, "methods_too_large",
                            "these methods take %zu bytes of the device's memory, a slot has %zu",
                            plan->device_bytes, s->slot_device_bytes);
    return true;
}

bool serve_methods_check(const serve_server *s, const serve_methods *m, serve_problem *p) {
    static const serve_methods none;
    sac_memory_report plan;
    sac_error err;
    if (serve_methods_equal(m, &none)) return true;
    sac_session_config c = serve_methods_config(s, m);
    sac_status st = sac_session_plan(s->model, &c, &plan, &err);
    if (st != SAC_OK) return serve_refuse_status(p, st, &err);
    return serve_methods_fit(s, &plan, p);
}
