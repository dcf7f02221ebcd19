/* prompt_list.h - what `saccade quantize --calibrate` runs a model over: a file with a prompt a line.
 *
 * A line that begins with '{' is that of a manifest of `saccade caption`: {"image": FILE}, {"video": FILE} or {"frames": FILE},
 * each a name or a list of names, relative to the manifest, with a "prompt"; or a "prompt" alone; and with an "answer", the
 * model's turn behind it; "id" and "image_id" are passed over, other keys are refused. Or {"text": TEXT} alone, which is run as it
 * stands, without chat format. So is any other line that is not blank, but for its line end. */
#ifndef APP_PROMPT_LIST_H
#define APP_PROMPT_LIST_H

#include "calibration.h"
#include "conversation.h"

typedef struct prompt_line {
    conversation talk;
    char *text; /* in its place */
    char *name; /* "prompts.jsonl:3" */
} prompt_line;

typedef struct prompt_list {
    prompt_line *lines;
    size_t n;
    sac_calibration_prompt *prompts; /* [n] of the lines */
} prompt_list;

/* The first s->limit prompts of the file; 0: all. BAD_FILE with file and line. On failure, too, prompt_list_free. */
sac_status prompt_list_read(prompt_list *l, const char *path, const settings *s, sac_error *err);
void prompt_list_free(prompt_list *l);

#endif
