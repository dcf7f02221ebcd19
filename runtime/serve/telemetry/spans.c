#define _GNU_SOURCE
#include "spans.h"
#include "clock.h"
#include "status.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum { MOST_WAITING = 2048, MOST_AT_ONCE = 512, N_TRIES = 2, MOST_REPLY_BYTES = 65536 };
enum { GATHER_MS = 1000, CONNECT_MS = 2000, POST_MS = 10000, CLOSE_MS = 2000 };

struct serve_spans {
    const char *url;
    serve_metrics *metrics;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t stirred;
    serve_span *waiting; /* [MOST_WAITING], a ring */
    size_t first, n;
    serve_span *batch; /* [MOST_AT_ONCE], of the thread */
    atomic_bool quitting;
    atomic_llong quit_ns;
    bool told; /* that spans are lost */
};

/* ---------------------------------------------------------------- in */

static void fill_random(uint8_t *bytes, size_t n) {
    if (getrandom(bytes, n, 0) == (ssize_t)n) return;
    const int64_t now = sac_now_ns();
    for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)(now >> 8 * (i % 8)) | 1;
}

void serve_spans_add(serve_spans *s, const serve_span *span) {
    serve_span own = *span;
    fill_random(own.id, sizeof own.id);
    if (!own.context.has_parent) fill_random(own.context.trace, sizeof own.context.trace);
    pthread_mutex_lock(&s->lock);
    const bool fits = s->n < MOST_WAITING;
    if (fits) s->waiting[(s->first + s->n++) % MOST_WAITING] = own;
    pthread_cond_signal(&s->stirred);
    pthread_mutex_unlock(&s->lock);
    if (!fits) serve_metrics_count(s->metrics, SERVE_COUNT_spans_dropped, 1);
}

/* ---------------------------------------------------------------- out */

typedef struct reply {
    char text[MOST_REPLY_BYTES + 1];
    size_t n;
} reply;

/* What is more than there is room for is left out. */
static size_t receive(char *data, size_t size, size_t n, void *ctx) {
    reply *r = ctx;
    n *= size;
    const size_t room = MOST_REPLY_BYTES - r->n, kept = n < room ? n : room;
    memcpy(r->text + r->n, data, kept);
    r->n += kept;
    return n;
}

/* The server ends, and has waited long enough. */
static int is_late(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    const serve_spans *s = ctx;
    (void)a, (void)b, (void)c, (void)d;
    return atomic_load(&s->quitting) && sac_now_ns() - atomic_load(&s->quit_ns) > (int64_t)CLOSE_MS * 1000000;
}

static CURLcode perform(CURL *curl, serve_spans *s, struct curl_slist *headers, const char *body, reply *r) {
    curl_easy_reset(curl); /* the connection stays */
    curl_easy_setopt(curl, CURLOPT_URL, s->url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L); /* a name that is still being looked up is not waited for */
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "saccade/" SAC_VERSION);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)POST_MS);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, receive);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, r);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, is_late);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, s);
    return curl_easy_perform(curl);
}

/* Spans that the collector took the batch without: {"partialSuccess": {"rejectedSpans": "3"}}. */
static size_t n_rejected(const reply *r, size_t n_sent) {
    json_t *j = json_loadb(r->text, r->n, 0, NULL);
    const json_t *n = json_object_get(json_object_get(j, "partialSuccess"), "rejectedSpans");
    const long long given = json_is_string(n) ? atoll(json_string_value(n)) : (long long)json_integer_value(n);
    json_decref(j);
    return given <= 0 ? 0 : (size_t)given > n_sent ? n_sent : (size_t)given;
}

/* The URL's host and what follows it, without a user and password before it. *n: length of "http://". */
static const char *host_of(const char *url, int *n) {
    const char *host = strstr(url, "://");
    host = host ? host + 3 : url;
    *n = (int)(host - url);
    const char *end = host + strcspn(host, "/?#"), *at = memrchr(host, '@', (size_t)(end - host));
    return at ? at + 1 : host;
}

static void tell(serve_spans *s, CURLcode code, long status) {
    if (s->told) return;
    s->told = true;
    int n;
    const char *host = host_of(s->url, &n);
    fprintf(stderr, "saccade: --otlp-traces-endpoint %.*s%s: ", n, s->url, host);
    if (code == CURLE_OK)
        fprintf(stderr, "its reply was %ld", status);
    else
        fprintf(stderr, "%s", curl_easy_strerror(code));
    fprintf(stderr, "; spans are lost, as saccade:trace_spans_dropped_total counts\n");
}

static void wait_ms(long ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* Worth another try: nobody is there, or who is there asks for one. */
static bool may_try_again(const serve_spans *s, CURLcode code, long status) {
    return !atomic_load(&s->quitting) && (code != CURLE_OK || status == 429 || status == 502 || status == 503 || status == 504);
}

/* How many of the batch were lost. */
static size_t post(serve_spans *s, CURL *curl, struct curl_slist *headers, size_t n) {
    reply *r = malloc(sizeof *r);
    char *body = serve_spans_json(s->batch, n);
    size_t n_lost = n;
    for (int i = 0; r && body && curl && headers && i < N_TRIES; i++) {
        long status = 0;
        r->n = 0;
        const CURLcode code = perform(curl, s, headers, body, r);
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
        if (code == CURLE_OK && status / 100 == 2) {
            n_lost = n_rejected(r, n);
            break;
        }
        if (i + 1 == N_TRIES || !may_try_again(s, code, status)) {
            tell(s, code, status);
            break;
        }
        wait_ms(GATHER_MS / 2);
    }
    free(body);
    free(r);
    return n_lost;
}

/* Waits for spans, and then a while for more; 0: the server quits and none are left. */
static size_t take(serve_spans *s) {
    struct timespec until;
    pthread_mutex_lock(&s->lock);
    while (!s->n && !atomic_load(&s->quitting)) pthread_cond_wait(&s->stirred, &s->lock);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += GATHER_MS / 1000;
    while (s->n < MOST_AT_ONCE && !atomic_load(&s->quitting))
        if (pthread_cond_timedwait(&s->stirred, &s->lock, &until) != 0) break;
    const size_t n = s->n < MOST_AT_ONCE ? s->n : MOST_AT_ONCE;
    for (size_t i = 0; i < n; i++) s->batch[i] = s->waiting[(s->first + i) % MOST_WAITING];
    s->first = (s->first + n) % MOST_WAITING;
    s->n -= n;
    pthread_mutex_unlock(&s->lock);
    return n;
}

static void *run(void *spans) {
    serve_spans *s = spans;
    CURL *curl = curl_easy_init();
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    for (size_t n; (n = take(s));) {
        const size_t n_lost = is_late(s, 0, 0, 0, 0) ? n : post(s, curl, headers, n);
        serve_metrics_count(s->metrics, SERVE_COUNT_spans_sent, (double)(n - n_lost));
        serve_metrics_count(s->metrics, SERVE_COUNT_spans_dropped, (double)n_lost);
    }
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    return NULL;
}

/* ---------------------------------------------------------------- life */

static sac_status check_url(const char *url, sac_error *err) {
    CURLU *u = curl_url();
    char *host = NULL, *scheme = NULL;
    const bool ok = u && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK && curl_url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
                    curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK && (!strcmp(scheme, "http") || !strcmp(scheme, "https"));
    curl_free(host);
    curl_free(scheme);
    curl_url_cleanup(u);
    if (ok) return SAC_OK;
    int n;
    const char *shown = host_of(url, &n);
    return sac_fail(err, SAC_BAD_ARGUMENT, "--otlp-traces-endpoint %.*s%.100s: give http://HOST:4318/v1/traces, or an https:// URL", n, url,
                    shown);
}

sac_status serve_spans_open(serve_spans **out, const char *url, serve_metrics *metrics, sac_error *err) {
    *out = NULL;
    SAC_TRY(check_url(url, err));
    serve_spans *s = calloc(1, sizeof *s);
    if (!s) return sac_fail_no_memory(err);
    s->url = url;
    s->metrics = metrics;
    s->waiting = calloc(MOST_WAITING, sizeof *s->waiting);
    s->batch = calloc(MOST_AT_ONCE, sizeof *s->batch);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->stirred, NULL);
    if (s->waiting && s->batch && pthread_create(&s->thread, NULL, run, s) == 0) {
        *out = s;
        return SAC_OK;
    }
    pthread_cond_destroy(&s->stirred);
    pthread_mutex_destroy(&s->lock);
    free(s->waiting);
    free(s->batch);
    free(s);
    return sac_fail_no_memory(err);
}

void serve_spans_close(serve_spans *s) {
    if (!s) return;
    atomic_store(&s->quit_ns, sac_now_ns());
    pthread_mutex_lock(&s->lock);
    atomic_store(&s->quitting, true);
    pthread_cond_signal(&s->stirred);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->stirred);
    pthread_mutex_destroy(&s->lock);
    free(s->waiting);
    free(s->batch);
    free(s);
}
