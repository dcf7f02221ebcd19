/* origin.h - which sites' pages may ask: a browser sends requests here for any page that is open in it. */
#ifndef SERVE_ORIGIN_H
#define SERVE_ORIGIN_H

#include "serve_config.h"

#include <stdbool.h>

/* What to answer in Access-Control-Allow-Origin; NULL = nothing. origin may be NULL. */
const char *serve_origin_allowed(const serve_config *c, const char *origin);

/* Whether a page of this origin came from the host that it asks. */
bool serve_origin_is_host(const char *origin, const char *host);

/* Whether a request may call this server `host` (NULL = HTTP/1.0 without one). A server for this machine
 * alone goes by localhost, numeric addresses and the host of --cors-origin: any other name is a site that has
 * changed its own address to this machine's (DNS rebinding), so that its pages look like the server's. */
bool serve_host_allowed(const serve_config *c, const char *host);

#endif
