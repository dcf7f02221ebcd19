/* preemption.h - who gives way when the pages of keys and values run out (sac_model_page_kv).
 *
 * A slot that finds none waits. The one that was let in first gets them first: what nobody uses, behind the rows of a session and of
 * idle slots, those not used for longest first; then what answers have that were let in after it, and prompts that wait themselves,
 * the last one first. Their rows go to the host's memory and come back when it is their turn, so an answer is the same with and
 * without. What was let in earlier is never touched: it comes to its end, and so does the next. The host takes as many rows as the pages do
 * (sac_session_park); who would be beyond that ends with an error. While somebody waits, and until who
 * may go on has its pages, nobody is let in. */
#ifndef SERVE_PREEMPTION_H
#define SERVE_PREEMPTION_H

#include "slot.h"

/* Before a round. */
void serve_preempt(serve_server *s);

/* Whether some slot waits. */
bool serve_lacks_pages(const serve_server *s);

/* Whether some slot waits, or may go on and has not taken what it waited for yet: nobody is let in who could take it. */
bool serve_owes_pages(const serve_server *s);

#endif
