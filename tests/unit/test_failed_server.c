/* A device that fails under a server: the request is told, /health says that no other will be answered, none is taken in,
 * and the server ends with the device's line. The device's fault is a piece of a prompt that fails, by the linker's --wrap. */
#define _GNU_SOURCE
#include "saccade/saccade.h"
#include "serve.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define FAULT "card 0 fell off the bus"

static atomic_bool stands; /* the thread that looks whether the server is to end does not look */

sac_status __wrap_sac_session_work_within(sac_session *s, double seconds, bool *done, sac_error *err);
sac_status __wrap_sac_session_work_within(sac_session *s, double seconds, bool *done, sac_error *err) {
    (void)s, (void)seconds;
    *done = true;
    err->status = SAC_DEVICE;
    snprintf(err->text, sizeof err->text, FAULT);
    return SAC_DEVICE;
}

int __real_poll(struct pollfd *f, nfds_t n, int ms);
int __wrap_poll(struct pollfd *f, nfds_t n, int ms);
int __wrap_poll(struct pollfd *f, nfds_t n, int ms) {
    int ready = __real_poll(f, n, ms);
    while (atomic_load(&stands)) usleep(1000);
    return ready;
}

typedef struct served {
    sac_model *model;
    serve_config config;
    sac_status status;
    sac_error err;
    atomic_bool ended;
} served;

static void *serve(void *arg) {
    served *s = arg;
    s->status = serve_run(s->model, &s->config, &s->err);
    atomic_store(&s->ended, true);
    return NULL;
}

static int reach(int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

/* A port that nobody has now. */
static int free_port(void) {
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
    close(fd);
    return ntohs(at.sin_port);
}

/* The status of the answer, whose head and body are in `answer`; 0: nobody answers. */
static int ask(int port, const char *path, const char *body, char *answer, size_t room) {
    char request[1024];
    int n = snprintf(
            request, sizeof request,
            "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n"
            "Content-Length: %zu\r\n\r\n%s",
            body ? "POST" : "GET", path, body ? strlen(body) : 0, body ? body : ""),
        fd = reach(port), status = 0;
    size_t have = 0;
    ssize_t got = fd >= 0 && send(fd, request, (size_t)n, MSG_NOSIGNAL) == n;
    while (got > 0 && have + 1 < room) {
        got = recv(fd, answer + have, room - 1 - have, 0);
        have += got > 0 ? (size_t)got : 0;
    }
    answer[have] = 0;
    if (fd >= 0) close(fd);
    return sscanf(answer, "HTTP/1.1 %d", &status) == 1 ? status : 0;
}

static void a_failed_device_ends_the_server(void **state) {
    static const char question[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"hello\"}], \"max_tokens\": 4}",
                      path[] = "/v1/chat/completions";
    static served s;
    char answer[8192];
    sac_error err;
    sac_model_options o;
    pthread_t thread;
    (void)state;
    sac_model_options_default(&o);
    o.n_threads = 1;
    assert_int_equal(sac_model_open(&s.model, "models/demo", &o, &err), SAC_OK);
    serve_config_default(&s.config);
    s.config.port = free_port();
    s.config.n_slots = 1;
    s.config.session.n_ctx = 1024;
    s.config.quiet = true;
    atomic_store(&stands, true);
    assert_int_equal(pthread_create(&thread, NULL, serve, &s), 0);
    int status = 0;
    for (int i = 0; i < 3000 && status != 200 && !atomic_load(&s.ended); i++) {
        status = ask(s.config.port, "/health", NULL, answer, sizeof answer);
        if (status != 200) usleep(10000);
    }
    assert_int_equal(status, 200);
    assert_non_null(strstr(answer, "\"ok\""));

    assert_int_equal(ask(s.config.port, path, question, answer, sizeof answer), 500);
    assert_non_null(strstr(answer, FAULT));
    assert_int_equal(ask(s.config.port, "/health", NULL, answer, sizeof answer), 503);
    assert_non_null(strstr(answer, "\"failed\""));
    assert_int_equal(ask(s.config.port, path, question, answer, sizeof answer), 503);
    assert_non_null(strstr(answer, "device_failed"));
    assert_false(atomic_load(&s.ended));

    atomic_store(&stands, false);
    for (int i = 0; i < 1000 && !atomic_load(&s.ended); i++) usleep(10000);
    assert_true(atomic_load(&s.ended));
    pthread_join(thread, NULL);
    assert_int_equal(s.status, SAC_DEVICE);
    assert_string_equal(s.err.text, FAULT);
    assert_int_equal(ask(s.config.port, "/health", NULL, answer, sizeof answer), 0);
    sac_model_free(s.model);
}

/* The server starts its own program again to decode media: here that waits for its end. */
int main(int argc, char **argv) {
    char c;
    if (argc > 2) return read(atoi(argv[2]), &c, 1) != 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_failed_device_ends_the_server)};
    return cmocka_run_group_tests_name("a server whose device fails", tests, NULL, NULL);
}
