#define _GNU_SOURCE
#include "media.h"
#include "source.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct serve_media {
    void *map;
    size_t n_bytes;
};

struct serve_media_store {
    serve_server *server;
};

sac_status serve_media_store_open(serve_media_store **out, serve_server *s, sac_error *err) {
    *out = calloc(1, sizeof **out);
    if (!*out) return sac_fail(err, SAC_NO_MEMORY, "no memory for media");
    (*out)->server = s;
    return SAC_OK;
}

void serve_media_store_close(serve_media_store *store) {
    free(store);
}

size_t serve_media_store_bytes(serve_media_store *store) {
    (void)store;
    return 0;
}

bool serve_media_get(serve_job *j, serve_problem *p) {
    serve_request *r = &j->request;
    for (size_t i = 0; i < r->n_media; i++) {
        serve_media_ref *m = &r->media[i];
        serve_source source;
        if (!serve_source_open(&source, j->server, m->urls[0], false, m->param, &j->cancelled, p))
            return false;
        m->media = calloc(1, sizeof *m->media);
        m->media->map = mmap(NULL, source.n_bytes, PROT_READ, MAP_PRIVATE, source.fd, 0);
        m->media->n_bytes = source.n_bytes;
        m->part->bytes = m->media->map;
        m->part->n_bytes = source.n_bytes;
        serve_source_close(&source);
    }
    return true;
}

void serve_media_release(serve_request *r) {
    for (size_t i = 0; i < r->n_media; i++)
        if (r->media[i].media) {
            munmap(r->media[i].media->map, r->media[i].media->n_bytes);
            free(r->media[i].media);
        }
}
