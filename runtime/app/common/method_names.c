#include "method_names.h"
#include "status.h"
#include "suggest.h"

#include <saccade/saccade.h>

#include <stdio.h>
#include <string.h>

static sac_status check(const char *what, const char *line, const char *const *names, sac_error *err) {
    char typed[64], all[300] = "";
    suggestion near = {.typed = typed};
    if (!line) return SAC_OK;
    size_t n = strcspn(line, ":"), used = 0;
    snprintf(typed, sizeof typed, "%.*s", (int)(n < 60 ? n : 60), line);
    for (size_t i = 0; names[i]; i++) {
        if (strlen(names[i]) == n && !strncmp(line, names[i], n)) return SAC_OK;
        suggest_offer(&near, names[i]);
        if (used < sizeof all)
            used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", names[i]);
    }
    return sac_fail(err, SAC_BAD_ARGUMENT, "%s \"%s\" is not known%s%s%s there are %s", what, typed,
                    near.best ? "; did you mean " : "", near.best ? near.best : "",
                    near.best ? "? Otherwise" : ":", all);
}

sac_status method_names_check_lines(const char *prefill, const char *decode, const char *kv, sac_error *err) {
    SAC_TRY(check("prefill policy", prefill, sac_prefill_names(), err));
    SAC_TRY(check("decode policy", decode, sac_decode_names(), err));
    return check("KV format", kv, sac_kv_names(), err);
}

sac_status method_names_check(const settings *s, sac_error *err) {
    return method_names_check_lines(s->prefill, s->decode, s->kv, err);
}
