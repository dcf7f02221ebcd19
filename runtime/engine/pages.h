/* pages.h - memory for a session's rows where keys and values are in pages of the model (sac_model_page_kv). */
#ifndef SAC_ENGINE_PAGES_H
#define SAC_ENGINE_PAGES_H

#include "engine.h"

/* Rows that were parked are back, and there is memory for n_rows rows; on a device both are done when it returns, whatever stream
 * they are read in. Before anything is written that needs them. NO_MEMORY: the pages have run out, and the rows are as
 * they were. */
sac_status sac_session_make_room(sac_session *s, const sac_stream *stream, int64_t n_rows, sac_error *err);

/* The same of a prompt that is to be run: its layers get it as they come. Nothing of the session runs. */
sac_status sac_session_take_room(sac_session *s, int64_t n_rows, sac_error *err);

/* The same while nothing runs, in a workspace for the moment. */
sac_status sac_session_make_room_apart(sac_session *s, int64_t n_rows, sac_error *err);

/* Behind a prompt whose rows are packed: what they could have taken and have not goes back. Nothing of the session runs. */
void sac_session_trim_packed(sac_session *s);

/* Whether what failed so is to be tried again. */
bool sac_session_is_waiting(const sac_session *s, sac_status st);

/* All of them go, with what was parked: nothing is held any more. */
void sac_session_give_pages(sac_session *s);

/* Whether the whole context has room in the pages, when there is nobody else. */
sac_status sac_session_check_pages(const sac_session *s, sac_error *err);

#endif
