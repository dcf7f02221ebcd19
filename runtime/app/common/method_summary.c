#include "method_summary.h"

#include "report_value.h"

#include <math.h>

static double ratio(double a, double b) {
    return b > 0 ? a / b : 0;
}

void method_summary_read(const sac_session *s, const sac_model_info *m, method_summary *out) {
    *out = (method_summary){0};
    sac_session_methods(s, &out->lines);
    sac_layer_report l;
    double select = 0, attend = 0, hits = 0, selections = 0, work = 0, squares = 0;
    int n = 0;
    for (; sac_session_layer_stats(s, n, &l); n++) {
        out->kept += l.prefill_kept;
        squares += l.prefill_kept * l.prefill_kept;
        work += l.prefill_work;
        out->decode_read += l.decode_read;
        out->decode_rows += l.decode_rows;
        out->decode_budget += l.decode_budget;
        out->prefill_mass += l.prefill_mass; /* NAN when any is */
        out->decode_mass += l.decode_mass;
        select += l.select_seconds;
        attend += l.attend_seconds;
        hits += (double)l.selection_cache_hits;
        selections += (double)(l.selections + l.selection_cache_hits);
    }
    out->kept = ratio(out->kept, n);
    out->flops_saved = 1 - ratio(squares, n);
    out->pairs_saved = 1 - ratio(work, n);
    out->decode_read = ratio(out->decode_read, n);
    out->decode_rows = ratio(out->decode_rows, n);
    out->decode_budget = ratio(out->decode_budget, n);
    out->prefill_mass = ratio(out->prefill_mass, n);
    out->decode_mass = ratio(out->decode_mass, n);
    out->select_seconds = select;
    out->attend_seconds = attend;
    out->select_share = ratio(select, select + attend);
    out->cache_hits = hits > 0 ? hits / selections : NAN;
    double n_tokens = (double)sac_session_n_tokens(s);
    double f16 = 4.0 * n * m->n_kv_heads * m->head_dim; /* of the layers that have keys and values */
    out->kv_bytes_token = ratio((double)sac_session_kv_bytes(s), n_tokens);
    out->kv_factor = ratio(f16, out->kv_bytes_token);
}

void method_summary_layers(const sac_session *s, int n_layers, double *kept) {
    sac_layer_report l;
    for (int i = 0; i < n_layers; i++) kept[i] = sac_session_layer_stats(s, i, &l) ? l.prefill_kept : NAN;
}

json_t *method_summary_layers_json(const sac_session *s) {
    json_t *list = json_array();
    sac_layer_report l;
    for (int i = 0; list && sac_session_layer_stats(s, i, &l); i++) {
        if (!json_array_append_new(list, report_nine_digits(l.prefill_kept))) continue;
        json_decref(list);
        list = NULL;
    }
    return list;
}

json_t *method_summary_json(const method_summary *m) {
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
                     "prefill", m->lines.prefill, "kv", m->lines.kv, "decode", m->lines.decode, "rope",
                     m->lines.rope, "reduce", m->lines.reduce, "kept_ratio", report_real(m->kept),
                     "attention_flops_saved", report_real(m->flops_saved), "attention_pairs_saved",
                     report_real(m->pairs_saved), "decode_rows_read", report_real(m->decode_read),
                     "decode_rows", report_real(m->decode_rows), "decode_budget",
                     report_real(m->decode_budget), "prefill_mass", report_real(m->prefill_mass),
                     "decode_mass", report_real(m->decode_mass), "select_share", report_real(m->select_share),
                     "selection_cache_hits", report_real(m->cache_hits), "kv_bytes_per_token",
                     report_real(m->kv_bytes_token), "kv_factor", report_real(m->kv_factor));
}
