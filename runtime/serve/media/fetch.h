/* fetch.h - media from http(s) addresses that strangers name. Off unless domains are allowed; then every
 * address that a name resolves to is looked at before it is connected to, on every redirect, and those of
 * this machine and its networks are refused. */
#ifndef SERVE_FETCH_H
#define SERVE_FETCH_H

#include "problem.h"
#include "serve_config.h"

#include <netinet/in.h>
#include <stdatomic.h>

/* Into a file in memory, *fd. */
bool serve_fetch(int *fd, const serve_config *c, const char *url, const char *param,
                 const atomic_bool *cancelled, serve_problem *p);

/* May a public server live at this address? */
bool serve_address_is_public(const struct sockaddr *address);

/* "a.example.org" is allowed by itself, by "*.example.org" and by "*". */
bool serve_domain_allowed(const serve_texts *domains, const char *host);

#endif
