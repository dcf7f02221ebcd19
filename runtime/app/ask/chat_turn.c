/* chat_turn.c - see chat_turn.h. */
#define _GNU_SOURCE
#include "chat_turn.h"
#include "chat_path.h"
#include "output.h"
#include "report.h"
#include "status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

sac_status chat_tell(sac_status st, const sac_error *err) {
    bool fatal = st == SAC_NO_MEMORY || st == SAC_INTERNAL || (st == SAC_IO && ferror(stdout));
    if (st == SAC_OK || fatal) return st;
    fprintf(stderr, "saccade: %s\n", err->text);
    return SAC_OK;
}

sac_status chat_start_over(chat *h, sac_error *err) {
    conversation_cut(&h->c, 0);
    sac_session_reset(h->r->session);
    const char *system = h->r->s->system;
    return system ? conversation_add_message(&h->c, "system", system, err) : SAC_OK;
}

/* ---------------------------------------------------------------- questions */

static sac_status keep_question(chat *h, const char *question, sac_error *err) {
    char *kept = question ? strdup(question) : NULL;
    if (question && !kept) return sac_fail_no_memory(err);
    free(h->kept);
    h->kept = kept;
    return SAC_OK;
}

static void tell_kept(const chat *h) {
    fprintf(stderr, "The question is kept: /retry asks it again%s.%s\n",
            chat_line_has_history(h->lines) ? ", Up brings it back to be changed" : "",
            h->pending.n ? "\nWhat is attached stays, too (/detach drops it)." : "");
}

static void count(chat_count *n, const sac_result *r) {
    n->n_answers++;
    n->n_tokens += r->n_tokens;
    n->seconds += r->seconds.total;
    n->last_tokens = r->n_tokens;
    n->last_prompt = r->n_prompt_tokens;
    n->last_visual = r->n_visual_tokens;
    n->last_reused = r->n_reused_tokens;
    n->last_vision = r->seconds.media + r->seconds.vision;
    n->last_prefill = r->seconds.prefill;
    n->last_decode = r->seconds.decode;
    n->last_total = r->seconds.total;
}

sac_status chat_ask(chat *h, const char *question, sac_error *err) {
    size_t before = h->c.n_messages;
    answer a = {0};
    sac_result result;
    sac_status st = conversation_ask(&h->c, h->r->s, &h->pending, question, err);
    sac_session_reset_stats(h->r->session);
    if (st == SAC_OK) st = run_answer(h->r, &h->c, &a, &result, err);
    if (st == SAC_OK) count(&h->count, &result);
    if (st == SAC_OK && !a.n_bytes) fputs("[the model ended its answer at once: it is empty]\n", stderr);
    if (st == SAC_OK && h->r->progress.on) report_print_summary(h->r, &result);
    if (st == SAC_OK || (st == SAC_CANCELLED && a.n_bytes)) {
        sac_status kept = conversation_add_message(&h->c, "assistant", a.text, err);
        if (st == SAC_CANCELLED)
            fputs("[stopped; the answer stays as far as it came, /undo takes it back]\n", stderr);
        st = kept == SAC_OK ? keep_question(h, NULL, err) : kept;
        media_list_clear(&h->pending);
    } else {
        conversation_cut(&h->c, before);
        if (st == SAC_CANCELLED) sac_fail(err, st, "stopped before an answer");
        st = chat_tell(st, err);
        if (st == SAC_OK) st = keep_question(h, question, err);
        if (st == SAC_OK) tell_kept(h);
    }
    answer_free(&a);
    return st;
}

/* ---------------------------------------------------------------- the way back */

static media_item item_of(const sac_part *p) {
    return (media_item){.kind = p->kind == SAC_PART_IMAGE   ? MEDIA_IMAGE
                                : p->kind == SAC_PART_VIDEO ? MEDIA_VIDEO
                                                            : MEDIA_FRAMES,
                        .path = p->path ? (char *)p->path : "-",
                        .bytes = (void *)p->bytes,
                        .n_bytes = p->n_bytes};
}

/* What message m showed, then what was attached since. */
static sac_status attached_again(const chat *h, const sac_message *m, media_list *out, sac_error *err) {
    for (size_t i = 0; i < m->n_parts; i++) {
        media_item item = item_of(&m->parts[i]);
        if (m->parts[i].kind != SAC_PART_TEXT) SAC_TRY(media_list_add_copy(out, &item, err));
    }
    for (size_t i = 0; i < h->pending.n; i++) SAC_TRY(media_list_add_copy(out, &h->pending.items[i], err));
    return SAC_OK;
}

sac_status chat_undo(chat *h, sac_error *err) {
    size_t at = h->c.n_messages;
    while (at && strcmp(h->c.messages[at - 1].role, "user")) at--;
    if (!at) return sac_fail(err, SAC_BAD_ARGUMENT, "nothing was asked yet");
    const sac_message *m = &h->c.messages[--at];
    media_list pending = {0};
    sac_status st = attached_again(h, m, &pending, err);
    if (st == SAC_OK) st = keep_question(h, m->parts[m->n_parts - 1].text, err);
    if (st != SAC_OK) {
        media_list_clear(&pending);
        return st;
    }
    media_list_clear(&h->pending);
    h->pending = pending;
    conversation_cut(&h->c, at);
    return SAC_OK;
}

sac_status chat_ask_again(chat *h, sac_error *err) {
    if (!h->kept && chat_undo(h, err) != SAC_OK)
        return err->status == SAC_NO_MEMORY
                   ? err->status
                   : sac_fail(err, SAC_BAD_ARGUMENT, "no question was asked yet: nothing to ask again");
    char *question = h->kept;
    h->kept = NULL; /* chat_ask may keep it anew */
    sac_status st = chat_ask(h, question, err);
    free(question);
    return st;
}

/* ---------------------------------------------------------------- what is attached */

/* Opens a picture or a video as the question will, and keeps nothing of it. Of frames the list is read: to open them
 * all may take long. */
static sac_status try_media(chat *h, const media_item *item, sac_error *err) {
    media_list one = {(media_item *)item, 1};
    conversation c = {0};
    size_t n_ids;
    sac_status st = media_list_check(&one, err);
    if (st == SAC_OK) st = conversation_ask(&c, h->r->s, &one, "?", err);
    if (st == SAC_OK && item->kind != MEDIA_FRAMES)
        st = sac_session_prompt(h->r->session, c.messages, c.n_messages, NULL, 0, &n_ids, err);
    conversation_free(&c);
    if (st != SAC_OK && item->bytes) sac_fail_prefix(err, st, "%s", item->path);
    return st;
}

/* "[cat.png: 640 x 480, 64 tokens]" */
static void tell_attached(const chat *h, const media_item *item) {
    const sac_media_report *m;
    const run *r = h->r;
    if (r->s->quiet || item->kind == MEDIA_FRAMES || sac_session_media(r->session, &m) != 1) return;
    const char *slash = strrchr(item->path, '/'), *name = slash ? slash + 1 : item->path;
    fprintf(stderr, "%s[", progress_dim(&r->progress));
    output_note(name, 4096);
    fprintf(stderr, ": %d x %d", m->width, m->height);
    if (item->kind == MEDIA_VIDEO)
        fprintf(stderr, ", %.1f s, %s", m->duration_s, report_counted(m->n_frames, "frame"));
    fprintf(stderr, ", %s]%s\n", report_counted(m->n_tokens, "token"), progress_plain(&r->progress));
}

static bool is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static sac_status attach(chat *h, const media_item *item, bool or_video, sac_error *err) {
    SAC_TRY(media_list_add_copy(&h->pending, item, err));
    media_item *added = &h->pending.items[h->pending.n - 1];
    sac_status st = try_media(h, added, err);
    if (st == SAC_OK) {
        tell_attached(h, added);
        if (added->kind == MEDIA_IMAGE) chat_pictures_show(&h->pictures, added, h->lines);
        return SAC_OK;
    }
    sac_error ignored;
    added->kind = MEDIA_VIDEO;
    if (item->kind == MEDIA_IMAGE && (st == SAC_BAD_FILE || st == SAC_UNSUPPORTED) &&
        try_media(h, added, &ignored) == SAC_OK) {
        if (or_video) {
            tell_attached(h, added);
            return SAC_OK;
        }
        st = sac_fail(err, st, "%s: a video: /video shows it", item->path);
    }
    if (item->kind != MEDIA_FRAMES && is_folder(item->path))
        st = sac_fail(err, st, "%s: a folder: /frames shows the pictures in it as a video", item->path);
    media_list_drop(&h->pending, h->pending.n - 1);
    return st;
}

sac_status chat_attach(chat *h, const media_item *item, sac_error *err) {
    return attach(h, item, false, err);
}

sac_status chat_attach_typed(chat *h, media_kind kind, const char *typed, sac_error *err) {
    chat_paths paths;
    sac_status st = chat_paths_read(&paths, typed) ? SAC_OK : sac_fail_no_memory(err);
    for (size_t i = 0; st == SAC_OK && i < paths.n; i++) {
        media_item item = {.kind = kind, .path = paths.items[i]};
        st = chat_tell(chat_attach(h, &item, err), err);
    }
    chat_paths_free(&paths);
    return st;
}

sac_status chat_attach_dropped(chat *h, const char *line, bool *was, sac_error *err) {
    chat_paths paths;
    sac_status st = chat_paths_find(&paths, line) ? SAC_OK : sac_fail_no_memory(err);
    *was = st == SAC_OK && paths.n > 0;
    for (size_t i = 0; *was && st == SAC_OK && i < paths.n; i++) {
        char *path = paths.items[i];
        media_item item = {.kind = is_folder(path) ? MEDIA_FRAMES : MEDIA_IMAGE, .path = path};
        st = chat_tell(attach(h, &item, true, err), err);
    }
    chat_paths_free(&paths);
    return st;
}
