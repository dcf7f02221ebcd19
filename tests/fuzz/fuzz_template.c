/* Chat templates of strangers: open one and render a conversation with it under small limits. Run it with
 * -dict=tests/fuzz/template.dict -max_len=2048. */
#include "fuzz.h"

#include "template.h"

#include <stdlib.h>
#include <string.h>

static const char conversation[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\" \xc3\xa9 <|x|> "
    "\"},"
    "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"b\"}]}],\"tools\":[{\"name\":\"f\"}],"
    "\"bos_token\":\"<s>\",\"add_generation_prompt\":true,\"n\":3,\"x\":1.5}";

static void check_status(sac_status st, const sac_error *err) {
    if (st != SAC_OK && (!err->text[0] || strchr(err->text, '\n') || st == SAC_INTERNAL)) abort();
}

static void render(const sac_template *t, json_t *variables) {
    const sac_template_limits limits = {.memory_bytes = 1 << 20, .output_bytes = 1 << 16, .steps = 20000};
    sac_rendering *r;
    sac_tmpl_string text = {0};
    sac_error err = {0};
    if (sac_rendering_open(&r, t, limits, &err) != SAC_OK) return;
    sac_rendering_set_time(r, 0);
    sac_status st =
        sac_rendering_run(r, sac_tmpl_from_json(sac_rendering_values(r), variables, true), &text, &err);
    check_status(st, &err);
    if (st == SAC_OK && text.n_bytes > limits.output_bytes) abort();
    sac_rendering_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static json_t *variables;
    sac_template *t = NULL;
    sac_error err = {0};
    if (!variables) variables = json_loads(conversation, 0, NULL);
    sac_status st = sac_template_open(&t, "template", (const char *)data, size, &err);
    check_status(st, &err);
    if ((st == SAC_OK) != (t != NULL)) abort();
    if (t) render(t, variables);
    sac_template_free(t);
    return 0;
}
