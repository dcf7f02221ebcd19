/* bodies.c - the room that bodies of requests share, and the call that wakes every thread. */
#include "state.h"

void serve_server_stir(serve_server *s) {
    pthread_mutex_lock(&s->lock);
    pthread_cond_broadcast(&s->stirred);
    pthread_mutex_unlock(&s->lock);
}

bool serve_server_take_body(serve_server *s, size_t n) {
    pthread_mutex_lock(&s->lock);
    bool fits = n <= s->config->max_bodies_bytes - s->bodies_bytes;
    if (fits) s->bodies_bytes += n;
    pthread_mutex_unlock(&s->lock);
    return fits;
}

void serve_server_return_room(serve_server *s, size_t n) {
    pthread_mutex_lock(&s->lock);
    s->bodies_bytes -= n;
    pthread_mutex_unlock(&s->lock);
}

void serve_server_return_body(serve_server *s, serve_buffer *body) {
    serve_server_return_room(s, body->n);
    serve_buffer_free(body);
}
