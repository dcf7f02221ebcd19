#define _GNU_SOURCE
#include "kv_events.h"

#ifdef SAC_ZMQ

#include "kv_queue.h"
#include "metrics.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

enum { MOST_IN_BATCH = 64, LINGER_MS = 500, LOOK_MS = 1000, MOST_REQUEST_BYTES = 256 };
#define MOST_REPLAY_BYTES ((size_t)64 << 20) /* of batches that are kept, however many */

/* A batch that was sent. Whoever it is sent to has a reference to the same bytes. */
typedef struct sent {
    uint64_t number;
    zmq_msg_t message;
} sent;

struct serve_kv_events {
    serve_server *server;
    serve_kv_options options;
    void *context, *pub, *replay; /* replay NULL: there is none */
    int stirred;                  /* an eventfd */
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;
    serve_kv_queue queue;
    bool quits;
    /* of the thread */
    uint64_t number; /* of the next batch */
    sent *kept;      /* [options.buffer_steps], a ring */
    size_t first_kept, n_kept, kept_bytes;
};

/* ---------------------------------------------------------------- in */

static void stir(serve_kv_events *e) {
    const uint64_t one = 1;
    (void)!write(e->stirred, &one, sizeof one);
}

static int number_of(const serve_server *s, const char *adapter) {
    const serve_texts *names = &s->config->adapters;
    for (size_t i = 0; adapter && i < names->n; i++)
        if (!strcmp(names->items[i], adapter)) return (int)i + 1;
    return 0;
}

/* Of the store, under its lock. */
static void on_block(void *ctx, const sac_block_event *block) {
    serve_kv_events *e = ctx;
    serve_kv_event *k = serve_kv_event_of(block);
    if (k) k->adapter_number = number_of(e->server, k->adapter);
    pthread_mutex_lock(&e->lock);
    const size_t n_lost = serve_kv_queue_add(&e->queue, k);
    const bool is_first = e->queue.n == 1;
    pthread_mutex_unlock(&e->lock);
    if (n_lost) serve_metrics_count(e->server->metrics, SERVE_COUNT_kv_dropped, (double)n_lost);
    if (is_first) stir(e);
}

/* ---------------------------------------------------------------- out */

static void write_number(unsigned char bytes[8], uint64_t n) {
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(n >> 8 * (7 - i));
}

static void forget_oldest(serve_kv_events *e) {
    sent *old = &e->kept[e->first_kept];
    e->kept_bytes -= zmq_msg_size(&old->message);
    zmq_msg_close(&old->message);
    e->first_kept = (e->first_kept + 1) % e->options.buffer_steps;
    e->n_kept--;
}

/* Another reference; where the socket does not take it, it goes. */
static void send_shared(void *socket, zmq_msg_t *message) {
    zmq_msg_t same;
    zmq_msg_init(&same);
    if (zmq_msg_copy(&same, message) != 0 || zmq_msg_send(&same, socket, ZMQ_DONTWAIT) < 0) zmq_msg_close(&same);
}

/* The message goes over. */
static void keep(serve_kv_events *e, zmq_msg_t *message) {
    const size_t n = zmq_msg_size(message);
    if (!e->replay || e->options.buffer_steps == 0) {
        zmq_msg_close(message);
        return;
    }
    while (e->n_kept && (e->n_kept == e->options.buffer_steps || e->kept_bytes + n > MOST_REPLAY_BYTES)) forget_oldest(e);
    sent *to = &e->kept[(e->first_kept + e->n_kept++) % e->options.buffer_steps];
    to->number = e->number;
    zmq_msg_init(&to->message);
    zmq_msg_move(&to->message, message);
    zmq_msg_close(message);
    e->kept_bytes += n;
}

static void free_bytes(void *data, void *hint) {
    (void)hint;
    free(data);
}

static double unix_time(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The first n of those that are taken. Without memory for it the batch is none, and its number is missing, as subscribers see. */
static void send_batch(serve_kv_events *e, const serve_kv_event *first, size_t n) {
    serve_buffer b = {0};
    zmq_msg_t message;
    unsigned char number[8];
    const size_t topic_bytes = strlen(e->options.topic);
    serve_kv_batch_write(&b, first, n, unix_time(), e->options.as_maps);
    write_number(number, e->number);
    if (b.failed || zmq_msg_init_data(&message, b.data, b.n, free_bytes, NULL) != 0) {
        serve_buffer_free(&b);
        serve_metrics_count(e->server->metrics, SERVE_COUNT_kv_dropped, (double)n);
    } else {
        /* a PUB socket never waits: what a subscriber does not take is dropped for it */
        zmq_send(e->pub, e->options.topic, topic_bytes, ZMQ_SNDMORE | ZMQ_DONTWAIT);
        zmq_send(e->pub, number, sizeof number, ZMQ_SNDMORE | ZMQ_DONTWAIT);
        send_shared(e->pub, &message);
        keep(e, &message);
        serve_metrics_count(e->server->metrics, SERVE_COUNT_kv_sent, (double)n);
    }
    e->number++;
}

/* False: there are none. */
static bool send_waiting(serve_kv_events *e) {
    size_t n = MOST_IN_BATCH;
    pthread_mutex_lock(&e->lock);
    serve_kv_event *first = serve_kv_queue_take(&e->queue, &n);
    pthread_mutex_unlock(&e->lock);
    if (n) send_batch(e, first, n);
    serve_kv_events_free(first);
    return n > 0;
}

/* ---------------------------------------------------------------- replay */

/* One frame; its bytes, or -1 where it is too long. *more: another follows. */
static int receive(void *socket, unsigned char *bytes, bool *more) {
    zmq_msg_t m;
    zmq_msg_init(&m);
    int n = zmq_msg_recv(&m, socket, ZMQ_DONTWAIT);
    *more = n >= 0 && zmq_msg_more(&m);
    if (n > MOST_REQUEST_BYTES) n = -1;
    if (n > 0) memcpy(bytes, zmq_msg_data(&m), (size_t)n);
    zmq_msg_close(&m);
    return n;
}

static void reply(serve_kv_events *e, const unsigned char *who, int n_who, uint64_t number, zmq_msg_t *message) {
    unsigned char bytes[8];
    write_number(bytes, number);
    zmq_send(e->replay, who, (size_t)n_who, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    zmq_send(e->replay, "", 0, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    zmq_send(e->replay, bytes, sizeof bytes, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    send_shared(e->replay, message);
}

/* Frames: who asks, nothing, the number of the first batch that is wanted. Batches from there on, and the end: number -1. What is no
 * such request is read away. False: there is none. */
static bool answer_replay(serve_kv_events *e) {
    unsigned char who[MOST_REQUEST_BYTES], bytes[MOST_REQUEST_BYTES];
    bool more = false;
    const int n_who = receive(e->replay, who, &more);
    int n = -1, n_frames = 1;
    if (n_who < 0 && !more) return errno != EAGAIN;
    for (; more; n_frames++) n = receive(e->replay, bytes, &more);
    if (n_who <= 0 || n_frames != 3 || n != 8) return true;
    uint64_t from = 0;
    for (int i = 0; i < 8; i++) from = from << 8 | bytes[i];
    for (size_t i = 0; i < e->n_kept; i++) {
        sent *s = &e->kept[(e->first_kept + i) % e->options.buffer_steps];
        if (s->number >= from) reply(e, who, n_who, s->number, &s->message);
    }
    zmq_msg_t nothing;
    zmq_msg_init(&nothing);
    reply(e, who, n_who, UINT64_MAX, &nothing);
    zmq_msg_close(&nothing);
    return true;
}

/* ---------------------------------------------------------------- the thread */

static bool is_over(serve_kv_events *e) {
    pthread_mutex_lock(&e->lock);
    const bool over = e->quits && !e->queue.n;
    pthread_mutex_unlock(&e->lock);
    return over;
}

static void *run(void *events) {
    serve_kv_events *e = events;
    enum { MOST_REPLAYS = 16 }; /* one after the other, before events are sent again */
    while (!is_over(e)) {
        zmq_pollitem_t on[] = {{.fd = e->stirred, .events = ZMQ_POLLIN}, {.socket = e->replay, .events = ZMQ_POLLIN}};
        uint64_t n;
        zmq_poll(on, e->replay ? 2 : 1, LOOK_MS);
        (void)!read(e->stirred, &n, sizeof n);
        while (send_waiting(e)) {
        }
        for (int i = 0; e->replay && i < MOST_REPLAYS && answer_replay(e); i++) {
        }
    }
    return NULL;
}

/* ---------------------------------------------------------------- life */

/* As vLLM tells one to be bound from one to connect to. */
static bool is_bound(const char *endpoint) {
    return strchr(endpoint, '*') || strstr(endpoint, "::") || !strncmp(endpoint, "ipc://", 6) || !strncmp(endpoint, "inproc://", 9);
}

static sac_status open_socket(serve_kv_events *e, void **out, int kind, const char *endpoint, bool bind, int hwm, sac_error *err) {
    const int linger = LINGER_MS, six = strchr(endpoint, '[') || strstr(endpoint, "::") ? 1 : 0;
    const int64_t most = MOST_REQUEST_BYTES;
    void *s = *out = zmq_socket(e->context, kind);
    if (!s) return sac_fail(err, SAC_IO, "--kv-events-config: %s", zmq_strerror(errno));
    zmq_setsockopt(s, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(s, ZMQ_SNDHWM, &hwm, sizeof hwm);
    zmq_setsockopt(s, ZMQ_IPV6, &six, sizeof six);
    zmq_setsockopt(s, ZMQ_MAXMSGSIZE, &most, sizeof most); /* of what comes in */
    if ((bind ? zmq_bind(s, endpoint) : zmq_connect(s, endpoint)) == 0) return SAC_OK;
    return sac_fail(err, SAC_IO, "--kv-events-config: cannot %s %.100s: %s", bind ? "bind" : "connect to", endpoint, zmq_strerror(errno));
}

static sac_status open_sockets(serve_kv_events *e, sac_error *err) {
    const serve_kv_options *o = &e->options;
    SAC_TRY(open_socket(e, &e->pub, ZMQ_PUB, o->endpoint, is_bound(o->endpoint), o->hwm, err));
    if (!o->replay_endpoint[0]) return SAC_OK;
    if (o->buffer_steps && !(e->kept = calloc(o->buffer_steps, sizeof *e->kept))) return sac_fail_no_memory(err);
    return open_socket(e, &e->replay, ZMQ_ROUTER, o->replay_endpoint, true, (int)o->buffer_steps + 16, err);
}

static sac_status start(serve_kv_events *e, sac_error *err) {
    e->stirred = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    e->context = zmq_ctx_new();
    if (e->stirred < 0 || !e->context) return sac_fail_no_memory(err);
    SAC_TRY(open_sockets(e, err));
    serve_kv_queue_clear(&e->queue); /* whoever knows of an earlier server here forgets its blocks */
    SAC_TRY(sac_beginnings_watch(e->server->beginnings, on_block, e, err));
    e->has_thread = pthread_create(&e->thread, NULL, run, e) == 0;
    stir(e);
    return e->has_thread ? SAC_OK : sac_fail_no_memory(err);
}

sac_status serve_kv_events_open(serve_kv_events **out, serve_server *s, const serve_kv_options *o, sac_error *err) {
    *out = NULL;
    if (!o->enabled) return SAC_OK;
    serve_kv_events *e = *out = calloc(1, sizeof *e);
    if (!e) return sac_fail_no_memory(err);
    e->server = s;
    e->options = *o;
    serve_kv_queue_init(&e->queue, o->max_queue_size);
    e->stirred = -1;
    pthread_mutex_init(&e->lock, NULL);
    return start(e, err);
}

void serve_kv_events_close(serve_kv_events *e) {
    if (!e) return;
    pthread_mutex_lock(&e->lock);
    serve_kv_queue_clear(&e->queue); /* nothing is kept from here on */
    e->quits = true;
    pthread_mutex_unlock(&e->lock);
    if (e->has_thread) {
        stir(e);
        pthread_join(e->thread, NULL);
    }
    if (e->pub) zmq_close(e->pub);
    if (e->replay) zmq_close(e->replay);
    if (e->context) zmq_ctx_term(e->context);
    if (e->stirred >= 0) close(e->stirred);
    while (e->n_kept) forget_oldest(e);
    free(e->kept);
    serve_kv_queue_free(&e->queue);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

#else

sac_status serve_kv_events_open(serve_kv_events **out, serve_server *s, const serve_kv_options *o, sac_error *err) {
    (void)s;
    *out = NULL;
    if (!o->enabled) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "--kv-events-config: this build has no libzmq (-DSAC_ZMQ=ON where libzmq3-dev is)");
}

void serve_kv_events_close(serve_kv_events *e) {
    (void)e; /* there is none */
}

#endif
