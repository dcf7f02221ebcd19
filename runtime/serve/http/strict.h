/* strict.h - what of HTTP libmicrohttpd lets pass and this server does not take. */
#ifndef SERVE_STRICT_H
#define SERVE_STRICT_H

#include "exchange.h"

/* Headers that two readers could read in two ways (two lengths, two hosts, odd names, folded lines: 400), and bodies that nothing here decodes
 * (501 for a Transfer-Encoding, 415 for a Content-Encoding). False: x->problem says why. */
bool serve_strict_check(serve_exchange *x);

/* A MHD UnescapeCallback that leaves %00 as it is written: decoded, it would cut the path. */
size_t serve_strict_unescape(void *cls, struct MHD_Connection *connection, char *text);

#endif
