/* A request of each of the server's APIs: the first byte says of which (by its lower six bits: 1 is the first serve_api, and so on), its bit
 * 6 that unknown fields are taken, the rest is the body. It is taken, or refused with a status and one line that says why. Token ids that are
 * found in it without a tree are those of its JSON. */
#include "fuzz.h"

#include "listed_ids.h"
#include "request.h"

#include <stdlib.h>
#include <string.h>

enum { VOCAB = 1000, N_APIS = SERVE_API_RERANK + 1 };

static void check_refusal(const serve_problem *p) {
    bool known = p->status == 400 || p->status == 403 || p->status == 404 || p->status == 413;
    if (!known || !p->message[0] || strlen(p->message) >= sizeof p->message) abort();
}

static void check_listed_ids(const char *body, size_t n_bytes) {
    serve_listed_ids l = serve_find_listed_ids(body, n_bytes, 0);
    json_t *json = l.ids ? json_loadb(body, n_bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL) : NULL, *list = json_object_get(json, "prompt");
    if (json && json_array_size(list) != l.n) abort();
    for (size_t i = 0; json && i < l.n; i++)
        if (!json_is_integer(json_array_get(list, i)) || json_integer_value(json_array_get(list, i)) != l.ids[i]) abort();
    json_decref(json);
    free(l.ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    serve_config c;
    serve_request r;
    serve_problem p = {0};
    size_t n_tree;
    if (size == 0) return 0;
    serve_api api = (serve_api)(((data[0] & 0x3f) + 63) % 64 % N_APIS);
    serve_config_default(&c);
    c.lenient_fields = data[0] & 0x40;
    if (!serve_request_size(&n_tree, api, (const char *)data + 1, size - 1, &p)) {
        check_refusal(&p);
        return 0;
    }
    if (!serve_request_parse(&r, &c, VOCAB, api, (const char *)data + 1, size - 1, &p))
        check_refusal(&p);
    else if (p.status || (r.is_chat ? r.n_messages == 0 : !r.prompts))
        abort();
    serve_request_free(&r);
    check_listed_ids((const char *)data + 1, size - 1);
    return 0;
}
