#include "loop.h"

#include "iterate.h"

#include <string.h>

static sac_status cycle(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_args *args,
                        sac_tmpl_value *out) {
    if (args->named && args->named->n) return sac_tmpl_fail(r, "loop.cycle takes no keyword arguments");
    if (args->n == 0) return sac_tmpl_fail(r, "loop.cycle has nothing to choose from");
    *out = args->items[(size_t)self.loop->index % args->n];
    return SAC_OK;
}

static sac_status changed(sac_tmpl_run *r, sac_tmpl_value self, const sac_tmpl_args *args,
                          sac_tmpl_value *out) {
    sac_tmpl_value now;
    if (args->named && args->named->n) return sac_tmpl_fail(r, "loop.changed takes no keyword arguments");
    SAC_TRY(sac_tmpl_give(r, sac_tmpl_list_new(&r->pool, SAC_TMPL_TUPLE, args->n), &now));
    for (size_t i = 0; i < args->n; i++) now.list->items[now.list->n++] = args->items[i];
    *out = sac_tmpl_bool(!sac_tmpl_equal(&r->pool, self.loop->last_changed, now));
    SAC_TRY(sac_tmpl_charge(r, 0));
    if (out->truth) self.loop->last_changed = now;
    return SAC_OK;
}

static const sac_tmpl_spec methods[] = {{"cycle", NULL, 0, {0}, cycle}, {"changed", NULL, 0, {0}, changed}};

const sac_tmpl_spec *sac_tmpl_loop_method(const char *name, size_t n_bytes) {
    return sac_tmpl_find_spec(methods, SAC_COUNT(methods), name, n_bytes);
}

/* Those that have to look ahead, or to count: asked for one by one, as the items may be made only then. */
static sac_status look_ahead(sac_tmpl_run *r, sac_tmpl_loop *l, const char *name, sac_tmpl_value *out) {
    static const sac_tmpl_absence no_next = {.what = "there is no next item"};
    int64_t n;
    if (strcmp(name, "last") == 0 || strcmp(name, "nextitem") == 0) {
        bool asks_last = name[0] == 'l';
        SAC_TRY(sac_tmpl_loop_peek(r, l, out));
        bool is_last = out->kind == SAC_TMPL_MISSING;
        if (asks_last) *out = sac_tmpl_bool(is_last);
        if (is_last && !asks_last) *out = sac_tmpl_absent(&no_next);
        return SAC_OK;
    }
    SAC_TRY(sac_tmpl_loop_length(r, l, &n));
    *out = sac_tmpl_int(strcmp(name, "length") == 0      ? n
                        : strcmp(name, "revindex0") == 0 ? n - l->index - 1
                                                         : n - l->index);
    return SAC_OK;
}

sac_status sac_tmpl_loop_attribute(sac_tmpl_run *r, sac_tmpl_loop *l, const char *name, size_t n_bytes,
                                   sac_tmpl_value *out) {
    static const sac_tmpl_absence no_previous = {.what = "there is no previous item"};
    static const char *const ahead[] = {"last", "nextitem", "length", "revindex", "revindex0"};
    const struct {
        const char *name;
        sac_tmpl_value value;
    } rows[] = {{"index", sac_tmpl_int(l->index + 1)},
                {"index0", sac_tmpl_int(l->index)},
                {"first", sac_tmpl_bool(l->index == 0)},
                {"depth", sac_tmpl_int(l->depth + 1)},
                {"depth0", sac_tmpl_int(l->depth)},
                {"previtem", l->index > 0 ? l->previous : sac_tmpl_absent(&no_previous)}};
    *out = (sac_tmpl_value){.kind = SAC_TMPL_MISSING};
    for (size_t k = 0; k < SAC_COUNT(rows); k++)
        if (strlen(rows[k].name) == n_bytes && memcmp(rows[k].name, name, n_bytes) == 0) *out = rows[k].value;
    for (size_t k = 0; k < SAC_COUNT(ahead); k++)
        if (strlen(ahead[k]) == n_bytes && memcmp(ahead[k], name, n_bytes) == 0)
            return look_ahead(r, l, ahead[k], out);
    return SAC_OK;
}
