#define _GNU_SOURCE
#include "fetch.h"
#include "intake_decoder.h"

#include <curl/curl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_REDIRECTS = 3 };

/* ---------------------------------------------------------------- where to */

typedef struct network {
    uint32_t address;
    int bits;
} network;

/* IANA's special-purpose registry: what is not globally reachable. */
static const network refused_v4[] = {
    {0x00000000, 8},  {0x0a000000, 8},  {0x64400000, 10}, {0x7f000000, 8},  {0xa9fe0000, 16},
    {0xac100000, 12}, {0xc0000000, 24}, {0xc0000200, 24}, {0xc0586300, 24}, {0xc0a80000, 16},
    {0xc6120000, 15}, {0xc6336400, 24}, {0xcb007100, 24}, {0xe0000000, 4},  {0xf0000000, 4},
};

static bool v4_is_public(uint32_t a) {
    for (size_t i = 0; i < sizeof refused_v4 / sizeof *refused_v4; i++)
        if ((a ^ refused_v4[i].address) >> (32 - refused_v4[i].bits) == 0) return false;
    return true;
}

static uint32_t v4_at(const uint8_t *b) {
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* Global unicast is 2000::/3; in it, what carries an IPv4 address (6to4, NAT64 outside it, Teredo) or is for
 * documentation is refused. */
static bool v6_is_public(const uint8_t *b) {
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (!memcmp(b, mapped, sizeof mapped)) return v4_is_public(v4_at(b + 12));
    if ((b[0] & 0xe0) != 0x20) return false;
    if (b[0] == 0x20 && b[1] == 0x02) return false;                                 /* 6to4 */
    if (b[0] == 0x20 && b[1] == 0x01 && b[2] < 0x02) return false;                  /* Teredo and the like */
    if (b[0] == 0x20 && b[1] == 0x01 && b[2] == 0x0d && b[3] == 0xb8) return false; /* documentation */
    return !(b[0] == 0x3f && b[1] == 0xff);
}

bool serve_address_is_public(const struct sockaddr *address) {
    if (address->sa_family == AF_INET)
        return v4_is_public(ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr));
    if (address->sa_family == AF_INET6)
        return v6_is_public(((const struct sockaddr_in6 *)(const void *)address)->sin6_addr.s6_addr);
    return false;
}

bool serve_domain_allowed(const serve_texts *domains, const char *host) {
    size_t n = strlen(host);
    for (size_t i = 0; i < domains->n; i++) {
        const char *d = domains->items[i];
        if (!strcmp(d, "*") || !strcasecmp(d, host)) return true;
        size_t m = strlen(d);
        if (!strncmp(d, "*.", 2) && n > m - 1 && !strcasecmp(host + n - (m - 1), d + 1)) return true;
    }
    return false;
}

/* ---------------------------------------------------------------- one transfer */

typedef struct transfer {
    const serve_config *config;
    const atomic_bool *cancelled;
    int fd;
    size_t n_bytes;
    bool too_large, refused_address, failed;
} transfer;

/* Between resolving and connecting: what was resolved is what is looked at, so a name that changes its mind
 * gains nothing. */
static curl_socket_t open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *a) {
    transfer *t = ctx;
    if (purpose != CURLSOCKTYPE_IPCXN || !serve_address_is_public(&a->addr)) {
        t->refused_address = true;
        return CURL_SOCKET_BAD;
    }
    return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

/* Content-Length may lie or be absent, so the bytes are counted. */
static size_t receive(char *data, size_t size, size_t n, void *ctx) {
    transfer *t = ctx;
    n *= size;
    t->too_large = n > t->config->max_media_bytes - t->n_bytes;
    if (t->too_large) return 0;
    t->n_bytes += n;
    for (size_t done = 0; done < n;) {
        ssize_t k = write(t->fd, data + done, n - done);
        if (k <= 0) {
            t->failed = true;
            return 0;
        }
        done += (size_t)k;
    }
    return n;
}

static int on_progress(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    const transfer *t = ctx;
    (void)a, (void)b, (void)c, (void)d;
    return t->cancelled && atomic_load(t->cancelled);
}

static CURLcode perform(CURL *curl, const char *url, transfer *t) {
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L); /* each hop is checked here */
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "saccade/" SAC_VERSION);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, 10000L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)(t->config->decode_s * 1000));
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1024L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, 15L);
    curl_easy_setopt(curl, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)t->config->max_media_bytes);
    curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(curl, CURLOPT_OPENSOCKETDATA, t);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, receive);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, t);
    return curl_easy_perform(curl);
}

static bool refuse_transfer(const transfer *t, CURLcode code, long status, const char *param,
                            serve_problem *p) {
    if (t->refused_address)
        return serve_refuse(p, 403, param, "address_not_allowed",
                            "%s: the URL leads to an address that is not public", param);
    if (t->too_large || code == CURLE_FILESIZE_EXCEEDED)
        return serve_refuse(p, 413, param, "media_too_large", "%s: the file is longer than %zu bytes", param,
                            t->config->max_media_bytes);
    if (t->failed) return serve_refuse(p, 503, param, "out_of_memory", "%s: no memory for it", param);
    if (code == CURLE_OPERATION_TIMEDOUT)
        return serve_refuse(p, 400, param, "fetch_failed", "%s: fetching it took too long", param);
    if (status >= 400)
        return serve_refuse(p, 400, param, "fetch_failed", "%s: its server replied %ld", param, status);
    return serve_refuse(p, 400, param, "fetch_failed", "%s: %s", param, curl_easy_strerror(code));
}

/* The host as libcurl itself will read it: two parsers of one URL are a way round any check. */
static bool check_host(const serve_config *c, const char *url, const char *param, serve_problem *p) {
    CURLU *u = curl_url();
    char *host = NULL, *scheme = NULL;
    bool ok = u && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
              curl_url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
              curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
              (!strcmp(scheme, "http") || !strcmp(scheme, "https"));
    if (!ok)
        serve_refuse(p, 400, param, "unsupported_url", "%s: the URL is malformed", param);
    else if (!serve_domain_allowed(&c->fetch_domains, host))
        ok = serve_refuse(p, 403, param, "domain_not_allowed", "%s: media from '%.100s' are not allowed",
                          param, host);
    curl_free(host);
    curl_free(scheme);
    curl_url_cleanup(u);
    return ok;
}

/* One hop. *next: where a redirect leads (curl_free), or NULL. */
static bool fetch_hop(transfer *t, const char *url, char **next, const char *param, serve_problem *p) {
    CURL *curl = curl_easy_init();
    if (!curl) return serve_refuse(p, 503, param, "out_of_memory", "%s: no memory for it", param);
    t->n_bytes = 0;
    CURLcode code = ftruncate(t->fd, 0) == 0 && lseek(t->fd, 0, SEEK_SET) == 0 ? perform(curl, url, t)
                                                                               : CURLE_WRITE_ERROR;
    long status = 0;
    char *to = NULL;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(curl, CURLINFO_REDIRECT_URL, &to);
    bool ok = code == CURLE_OK;
    *next = ok && to ? strdup(to) : NULL;
    if (!ok) refuse_transfer(t, code, status, param, p);
    if (ok && !to && status != 200)
        ok = serve_refuse(p, 400, param, "fetch_failed", "%s: its server replied %ld", param, status);
    curl_easy_cleanup(curl);
    return ok;
}

bool serve_fetch(int *fd, const serve_config *c, const char *url, const char *param,
                 const atomic_bool *cancelled, serve_problem *p) {
    if (c->fetch_domains.n == 0)
        return serve_refuse(p, 403, param, "fetching_off",
                            "%s: media are not fetched here; --fetch-domain allows a domain", param);
    transfer t = {.config = c, .cancelled = cancelled, .fd = intake_memory_file("saccade-fetch")};
    if (t.fd < 0) return serve_refuse(p, 503, param, "out_of_memory", "%s: no memory for it", param);
    char *owned = NULL;
    bool ok = true;
    for (int hop = 0; ok; hop++) {
        char *next = NULL;
        ok = check_host(c, url, param, p) && fetch_hop(&t, url, &next, param, p);
        free(owned);
        url = owned = next;
        if (!next) break;
        if (hop == MAX_REDIRECTS)
            ok = serve_refuse(p, 400, param, "fetch_failed", "%s: more than %d redirects", param,
                              MAX_REDIRECTS);
    }
    free(owned);
    if (ok)
        *fd = t.fd;
    else
        close(t.fd);
    return ok;
}
