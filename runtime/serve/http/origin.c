#define _GNU_SOURCE
#include "origin.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

const char *serve_origin_allowed(const serve_config *c, const char *origin) {
    if (!c->cors_origin || !origin) return NULL;
    if (!strcmp(c->cors_origin, "*")) return "*";
    return !strcmp(c->cors_origin, origin) ? c->cors_origin : NULL;
}

bool serve_origin_is_host(const char *origin, const char *host) {
    const char *at = strstr(origin, "://");
    return at && host && !strcasecmp(at + 3, host);
}

static bool is_loopback(const char *address) {
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, address, &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, address, &v6) != 1) return false;
    return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

/* "localhost", "127.0.0.1" or "[::1]", with or without a port. */
static bool is_localhost_or_number(const char *host) {
    char name[64];
    struct in6_addr address;
    bool bracket = host[0] == '[';
    size_t n = strcspn(host + bracket, bracket ? "]" : ":");
    if (n >= sizeof name) return false;
    snprintf(name, sizeof name, "%.*s", (int)n, host + bracket);
    return bracket ? inet_pton(AF_INET6, name, &address) == 1
                   : !strcasecmp(name, "localhost") || inet_pton(AF_INET, name, &address) == 1;
}

bool serve_host_allowed(const serve_config *c, const char *host) {
    if (!host || !is_loopback(c->host) || is_localhost_or_number(host)) return true;
    return c->cors_origin && (!strcmp(c->cors_origin, "*") || serve_origin_is_host(c->cors_origin, host));
}
