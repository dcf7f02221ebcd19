/* choose.c - an answer that is one of those given: choose MODEL PICTURE QUESTION CHOICE...
 *
 * A sampler of one's own: before each token is chosen, all that would lead away from every choice are masked. What is left is
 * the model's: it takes the likeliest token, so the choice need not be the likeliest as a whole. */
#include <saccade/saccade.h>

#include <stdio.h>
#include <string.h>

enum { MAX_CHOICES = 32, MAX_TOKENS = 32 };

typedef struct choices {
    size_t n, n_chosen; /* tokens chosen so far */
    int32_t ids[MAX_CHOICES][MAX_TOKENS];
    size_t n_ids[MAX_CHOICES];
    int32_t chosen[MAX_TOKENS];
    const int32_t *stops; /* tokens that end an answer */
    size_t n_stops;
} choices;

static bool goes_on(const choices *c, size_t i) {
    return c->n_ids[i] >= c->n_chosen && !memcmp(c->ids[i], c->chosen, c->n_chosen * sizeof *c->chosen);
}

static void allow(uint32_t *allowed, int32_t id) {
    allowed[id / 32] |= 1u << (id % 32);
}

static void rule_out(void *ctx, uint32_t *allowed, int n_vocab) {
    const choices *c = ctx;
    memset(allowed, 0, (size_t)(n_vocab + 31) / 32 * sizeof *allowed);
    for (size_t i = 0; i < c->n; i++) {
        if (!goes_on(c, i)) continue;
        if (c->n_ids[i] > c->n_chosen)
            allow(allowed, c->ids[i][c->n_chosen]);
        else /* whole: the answer may end */
            for (size_t k = 0; k < c->n_stops; k++) allow(allowed, c->stops[k]);
    }
}

static void count(void *ctx, const sac_token_event *token) {
    choices *c = ctx;
    if (c->n_chosen < MAX_TOKENS) c->chosen[c->n_chosen++] = token->id;
}

static sac_status read_choices(choices *c, const sac_model *model, char **texts, size_t n, sac_error *err) {
    c->n = n;
    c->n_stops = sac_model_stop_ids(model, &c->stops);
    sac_status st = SAC_OK;
    for (size_t i = 0; st == SAC_OK && i < n; i++) {
        st = sac_tokenize_text(model, texts[i], strlen(texts[i]), false, false, c->ids[i], MAX_TOKENS,
                               &c->n_ids[i], err);
        if (st == SAC_OK && (!c->n_ids[i] || c->n_ids[i] > MAX_TOKENS)) {
            snprintf(err->text, sizeof err->text, "'%s' has %zu tokens: 1 to %d are possible", texts[i],
                     c->n_ids[i], MAX_TOKENS);
            st = SAC_BAD_ARGUMENT;
        }
    }
    return st;
}

static sac_status choose(sac_model *model, char **args, size_t n_choices, sac_error *err) {
    choices c = {0};
    sac_session *session = NULL;
    sac_events events = {.ctx = &c, .mask = rule_out, .token = count};
    sac_part parts[] = {{.kind = SAC_PART_IMAGE, .path = args[0]}, {.kind = SAC_PART_TEXT, .text = args[1]}};
    sac_message question = {.role = "user", .parts = parts, .n_parts = 2};
    sac_result result;
    sac_status st = read_choices(&c, model, args + 2, n_choices, err);
    if (st == SAC_OK) st = sac_session_create(&session, model, NULL, err);
    if (st == SAC_OK) st = sac_session_generate(session, &question, 1, NULL, &events, &result, err);
    if (st == SAC_OK) puts(result.text);
    sac_session_free(session);
    return st;
}

int main(int argc, char **argv) {
    sac_model *model;
    sac_error err;
    if (argc < 5 || argc > 4 + MAX_CHOICES) {
        fprintf(stderr, "usage: choose MODEL PICTURE QUESTION CHOICE... (at most %d)\n", MAX_CHOICES);
        return 64;
    }
    sac_status st = sac_model_open(&model, argv[1], NULL, &err);
    if (st == SAC_OK) {
        st = choose(model, argv + 2, (size_t)argc - 4, &err);
        sac_model_free(model);
    }
    if (st != SAC_OK) fprintf(stderr, "choose: %s\n", err.text);
    return sac_status_exit_code(st);
}
