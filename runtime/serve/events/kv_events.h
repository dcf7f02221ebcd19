/* kv_events.h - which beginnings of prompts this server keeps, told to routers over ZeroMQ as vLLM tells it: frames topic, number (eight
 * bytes, the highest first) and batch (kv_batch.h) of a PUB socket, and a ROUTER socket that sends the batches from a number on again.
 * A queue and a thread stand between: nobody who runs the model waits. Where too many events wait, all that wait are dropped and
 * counted, and subscribers are told that all blocks are cleared, so that none of them counts on what is no more. */
#ifndef SERVE_KV_EVENTS_H
#define SERVE_KV_EVENTS_H

#include "kv_options.h"
#include "state.h"

typedef struct serve_kv_events serve_kv_events;

/* Of a server whose beginnings are kept and shared by no session yet. *out stays NULL where the options ask for nothing. IO: an address
 * cannot be had; UNSUPPORTED: a build without libzmq. */
sac_status serve_kv_events_open(serve_kv_events **out, serve_server *s, const serve_kv_options *o, sac_error *err);
/* Sends what waits. No session is left. NULL is fine. */
void serve_kv_events_close(serve_kv_events *e);

#endif
