/* connections.h - open connections, and which of them goes when there are too many. */
#ifndef SERVE_CONNECTIONS_H
#define SERVE_CONNECTIONS_H

#include "exchange.h"

/* Connections beyond the configured number that are taken in, so that somebody can be sent away for them. */
enum { SERVE_SPARE_CONNECTIONS = 32 };

/* A number of the client's address (client.h): of IPv6 of the network. 0 = unknown. */
uint64_t serve_connection_address(const serve_server *s, struct MHD_Connection *connection);

/* A MHD_NotifyConnectionCallback; cls is the server. While there are too many, an idle one is closed: of the address that has
 * the most, the one that has been idle for longest. */
void serve_connection_notify(void *cls, struct MHD_Connection *connection, void **context,
                             enum MHD_ConnectionNotificationCode code);

/* The client's address as a text; "" where it has none. */
void serve_connection_write_address(struct MHD_Connection *connection, char *text, size_t room);

#endif
