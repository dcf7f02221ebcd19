#define _GNU_SOURCE
/* Renders templates for tools/compare_templates.py: one JSON object a line in, {"template": text, "variables": {...}},
 * and one a line out, {"text": ...} or {"error": ...}. */
#include "template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *answer(const char *text, json_t *variables) {
    sac_template *t = NULL;
    sac_rendering *r = NULL;
    sac_tmpl_string out = {0};
    sac_error err = {0};
    sac_status st = sac_template_open(&t, "template", text, strlen(text), &err);
    if (st == SAC_OK) st = sac_rendering_open(&r, t, sac_template_limits_for(strlen(text)), &err);
    if (st == SAC_OK) {
        sac_rendering_set_time(r, 0);
        st = sac_rendering_run(r, sac_tmpl_from_json(sac_rendering_values(r), variables, true), &out, &err);
    }
    json_t *result = st == SAC_OK ? json_pack("{s:s%}", "text", out.bytes, out.n_bytes)
                                  : json_pack("{s:s}", "error", err.text);
    sac_rendering_free(r);
    sac_template_free(t);
    return result;
}

int main(void) {
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, stdin) > 0) {
        json_t *in = json_loads(line, JSON_ALLOW_NUL, NULL);
        const char *text = json_string_value(json_object_get(in, "template"));
        json_t *variables = json_object_get(in, "variables");
        json_t *result = text && json_is_object(variables) ? answer(text, variables)
                                                           : json_pack("{s:s}", "error", "input");
        char *shown = json_dumps(result, JSON_COMPACT);
        puts(shown ? shown : "{\"error\":\"output\"}");
        fflush(stdout);
        free(shown);
        json_decref(result);
        json_decref(in);
    }
    free(line);
    return 0;
}
