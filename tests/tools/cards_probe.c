/* cards_probe.c - one process, two cards: whether each step finds its own.
 *
 *   cards_probe MODEL [DEVICE DEVICE]      cuda:0 and cuda:1, unless named
 *
 * Three times the same answers: of one session after the other; of both in turns, by one thread; in turns
 * with each step in a thread that has never touched a card. Says how many tokens were the same; exit status 1
 * unless all were. */
#define _GNU_SOURCE
#include "saccade/saccade.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { CARDS = 2, STEPS = 80 /* more than what a step uploads ahead */, PROMPT = 40 };

typedef struct card {
    sac_model *model;
    sac_session *session;
    int32_t wanted[STEPS], token;
    sac_status st;
    sac_error err;
} card;

static void *step(void *arg) {
    card *c = arg;
    bool done;
    c->st = sac_session_step(c->session, NULL, &c->token, &done, &c->err);
    return NULL;
}

static void step_in_thread(card *c) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, step, c) == 0)
        pthread_join(thread, NULL);
    else
        c->st = SAC_NO_MEMORY;
}

static sac_status begin(card *c) {
    int32_t ids[PROMPT];
    sac_sampling o;
    sac_sampling_default(&o);
    o.max_tokens = STEPS + 1, o.ignore_eos = true;
    for (int i = 0; i < PROMPT; i++) ids[i] = 5 + i * 7 % 97;
    sac_session_reset(c->session);
    return sac_session_begin_tokens(c->session, ids, PROMPT, &o, NULL, &c->err);
}

static sac_status open_card(card *c, const char *model, const char *device) {
    sac_model_options o;
    sac_session_config config;
    sac_model_options_default(&o);
    sac_session_config_default(&config);
    o.n_threads = 1, o.device = device;
    config.n_ctx = PROMPT + STEPS + 8;
    sac_status st = sac_model_open(&c->model, model, &o, &c->err);
    return st == SAC_OK ? sac_session_create(&c->session, c->model, &config, &c->err) : st;
}

/* Steps of all cards, one after the other or in turns; how many tokens are those of `wanted`. */
static int in_turns(card *cards, void (*run)(card *)) {
    int n_same = 0;
    for (int i = 0; i < CARDS; i++)
        if (begin(&cards[i]) != SAC_OK) return -1;
    for (int k = 0; k < STEPS; k++)
        for (int i = 0; i < CARDS; i++) {
            run(&cards[i]);
            if (cards[i].st != SAC_OK) {
                printf("step %d on card %d: %s\n", k, i, cards[i].err.text);
                return -1;
            }
            n_same += cards[i].token == cards[i].wanted[k];
        }
    return n_same;
}

static void step_here(card *c) {
    step(c);
}

int main(int argc, char **argv) {
    static card cards[CARDS];
    if (argc != 2 && argc != 4) {
        fprintf(stderr, "usage: cards_probe MODEL [DEVICE DEVICE]\n");
        return 64;
    }
    for (int i = 0; i < CARDS; i++) {
        card *c = &cards[i];
        const char *device = argc == 4 ? argv[2 + i] : i ? "cuda:1" : "cuda:0";
        c->st = open_card(c, argv[1], device);
        if (c->st == SAC_OK) c->st = begin(c);
        for (int k = 0; k < STEPS && c->st == SAC_OK; k++) {
            step(c);
            c->wanted[k] = c->token;
        }
        if (c->st == SAC_OK) continue;
        fprintf(stderr, "cards_probe: %s\n", c->err.text);
        return 1;
    }
    int here = in_turns(cards, step_here), threads = in_turns(cards, step_in_thread);
    printf("in turns %d of %d tokens the same, each step in a new thread %d\n", here, CARDS * STEPS, threads);
    for (int i = 0; i < CARDS; i++) {
        sac_session_free(cards[i].session);
        sac_model_free(cards[i].model);
    }
    return here == CARDS * STEPS && threads == CARDS * STEPS ? 0 : 1;
}
