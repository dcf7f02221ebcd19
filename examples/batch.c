/* batch.c - the same question about several pictures, answered side by side: batch MODEL QUESTION PICTURE...
 *
 * Every step of the model makes one token of each answer. Answers are printed in the order of the pictures. */
#include <saccade/saccade.h>

#include <stdio.h>

enum { MAX_PICTURES = 16, CONTEXT = 2048 };

typedef struct answers {
    size_t n;
    sac_session *session[MAX_PICTURES];
    bool done[MAX_PICTURES];
} answers;

/* Reads the question about each picture; the first token of its answer is then one step away. */
static sac_status begin(answers *a, sac_model *model, const char *text, char **pictures, sac_error *err) {
    sac_session_config config;
    sac_session_config_default(&config);
    config.n_ctx = CONTEXT;
    for (size_t i = 0; i < a->n; i++) {
        sac_part parts[] = {{.kind = SAC_PART_IMAGE, .path = pictures[i]},
                            {.kind = SAC_PART_TEXT, .text = text}};
        sac_message question = {.role = "user", .parts = parts, .n_parts = 2};
        sac_status st = sac_session_create(&a->session[i], model, &config, err);
        if (st == SAC_OK) st = sac_session_begin(a->session[i], &question, 1, NULL, NULL, err);
        if (st != SAC_OK) return st;
    }
    return SAC_OK;
}

/* One more token of every answer that is not done; *left: how many these were. */
static sac_status step(answers *a, sac_batch *batch, size_t *left, sac_error *err) {
    sac_batch_item items[MAX_PICTURES];
    size_t place[MAX_PICTURES];
    *left = 0;
    for (size_t i = 0; i < a->n; i++) {
        if (a->done[i]) continue;
        place[*left] = i;
        items[(*left)++] = (sac_batch_item){.session = a->session[i]};
    }
    sac_status st = *left ? sac_batch_step(batch, items, *left, err) : SAC_OK;
    for (size_t i = 0; st == SAC_OK && i < *left; i++) {
        a->done[place[i]] = items[i].done;
        if (items[i].status == SAC_OK) continue;
        *err = items[i].error;
        st = items[i].status;
    }
    return st;
}

static sac_status run(answers *a, sac_model *model, const char *text, char **pictures, sac_error *err) {
    sac_batch *batch = NULL;
    sac_result result;
    size_t left = 1;
    sac_status st = sac_batch_create(&batch, model, a->n, err);
    if (st == SAC_OK) st = begin(a, model, text, pictures, err);
    while (st == SAC_OK && left) st = step(a, batch, &left, err);
    for (size_t i = 0; st == SAC_OK && i < a->n; i++) {
        sac_session_end(a->session[i], &result);
        printf("%s: %s\n", pictures[i], result.text);
    }
    for (size_t i = 0; i < a->n; i++) sac_session_free(a->session[i]);
    sac_batch_free(batch);
    return st;
}

int main(int argc, char **argv) {
    sac_model *model;
    sac_error err;
    answers a = {.n = argc > 3 ? (size_t)argc - 3 : 0};
    if (!a.n || a.n > MAX_PICTURES) {
        fprintf(stderr, "usage: batch MODEL QUESTION PICTURE... (at most %d)\n", MAX_PICTURES);
        return 64;
    }
    sac_status st = sac_model_open(&model, argv[1], NULL, &err);
    if (st == SAC_OK) {
        st = run(&a, model, argv[2], argv + 3, &err);
        sac_model_free(model);
    }
    if (st != SAC_OK) fprintf(stderr, "batch: %s\n", err.text);
    return sac_status_exit_code(st);
}
