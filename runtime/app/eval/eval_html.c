#define _GNU_SOURCE
#include "eval_html.h"
#include "draft.h"
#include "eval_run.h"
#include "eval_thumbs.h"
#include "hash.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>

enum { FILTERS_MAX = 200 };

typedef struct page {
    FILE *f;
    const char *folder;
    const char *keys[FILTERS_MAX]; /* values of dimensions that can be filtered by */
    size_t n_keys, n_bytes;
    const eval_medium *
        shown; /* the medium whose thumbnails are in `drawn`: that of the question before is not decoded again */
    char *drawn;
    size_t n, n_right;
} page;

/* One question on the page. */
typedef struct entry {
    const char *id, *question, *answer, *response, *said, *error;
    const char *options[EVAL_LETTERS_MAX];
    size_t n_options;
    const char *values[EVAL_DIMENSIONS_MAX];
    size_t n_values;
    const eval_medium *media;
    size_t n_media;
    double score;
    bool right;
} entry;

/* ---------------------------------------------------------------- texts */

static void escape(FILE *f, const char *s) {
    for (; *s; s++) {
        switch (*s) {
        case '&': fputs("&amp;", f); break;
        case '<': fputs("&lt;", f); break;
        case '>': fputs("&gt;", f); break;
        case '"': fputs("&quot;", f); break;
        case '\'': fputs("&#39;", f); break;
        default:
            if ((unsigned char)*s >= 32 || *s == '\n' || *s == '\t') fputc(*s, f);
        }
    }
}

static void line(page *p, const char *name, const char *text) {
    fprintf(p->f, "<dt>%s</dt><dd>", name);
    escape(p->f, text);
    fputs("</dd>", p->f);
}

/* The filter of a value; -1 = none. */
static int key_of(const page *p, const char *value) {
    for (size_t i = 0; i < p->n_keys; i++)
        if (!strcmp(p->keys[i], value)) return (int)i;
    return -1;
}

static void add_key(page *p, const char *value) {
    if (*value && p->n_keys < FILTERS_MAX && key_of(p, value) < 0) p->keys[p->n_keys++] = value;
}

/* ---------------------------------------------------------------- the head */

static const char style[] =
    "*{box-sizing:border-box}body{font:16px/1.4 system-ui,sans-serif;margin:0 "
    "auto;max-width:60rem;padding:.75rem;"
    "color:#1b1b1b;background:#fff;overflow-wrap:anywhere}h1{font-size:1.25rem;margin:.2rem 0}"
    "input{position:absolute;opacity:0}label{display:inline-block;padding:.35rem .6rem;margin:.15rem .1rem;"
    "border:1px solid #767676;border-radius:1rem;cursor:pointer;font-size:.9rem;max-width:100%}"
    "input:focus-visible+label{outline:3px solid #0a58ca}input:checked+label{background:#123a73;color:#fff}"
    "article{border:1px solid #ccc;border-left:.4rem solid "
    "#b3261e;border-radius:.3rem;padding:.6rem;margin:.7rem 0}"
    "article.r{border-left-color:#1d7a3a}article h2{font-size:1rem;margin:0 0 .3rem;white-space:pre-wrap}"
    "article p{margin:.2rem 0;font-size:.85rem;color:#444}"
    "img{max-width:48%;height:auto;margin:.1rem;vertical-align:top}dl{margin:.3rem 0;display:grid;"
    "grid-template-columns:5.5rem 1fr;gap:.15rem "
    ".4rem}dt{color:#444}dd{margin:0;white-space:pre-wrap;min-width:0}"
    "@media (prefers-color-scheme:dark){body{background:#121212;color:#eee}article p,dt{color:#bbb}"
    "article{border-color:#444;border-left-color:#ff8a80}article.r{border-left-color:#7ddc9a}label{border-"
    "color:#999}"
    "input:checked+label{background:#9cc3ff;color:#000}}"
    "#right:checked~main article:not(.r),#wrong:checked~main article.r{display:none}";

static char *make_style(const page *p) {
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (!f) return NULL;
    fputs(style, f);
    for (size_t i = 0; i < p->n_keys; i++)
        fprintf(f, "#k%zu:checked~main article:not(.k%zu){display:none}", i, i);
    if (!fclose(f)) return text;
    free(text);
    return NULL;
}

static sac_status write_head(page *p, const char *title, sac_error *err) {
    char *css = make_style(p);
    sac_sha256 *h;
    uint8_t hash[32];
    sac_status st = css ? sac_sha256_open(&h, err) : sac_fail_no_memory(err);
    if (st == SAC_OK) {
        sac_sha256_update(h, css, strlen(css));
        sac_sha256_finish(h, hash);
        fputs("<!doctype html><html lang=en><head><meta charset=utf-8>"
              "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; img-src data:; "
              "style-src 'sha256-",
              p->f);
        eval_write_base64(p->f, hash, sizeof hash);
        fputs("'; base-uri 'none'; form-action 'none'\"><meta name=viewport content=\"width=device-width\">"
              "<meta name=referrer content=no-referrer><title>",
              p->f);
        escape(p->f, title);
        fprintf(p->f, "</title><style>%s</style></head><body><h1>", css);
        escape(p->f, title);
        fprintf(p->f, "</h1><p>%zu of %zu right</p>", p->n_right, p->n);
        fputs("<input type=radio name=w id=any checked><label for=any>all</label><input type=radio name=w "
              "id=wrong>"
              "<label for=wrong>wrong</label><input type=radio name=w id=right><label "
              "for=right>right</label><br>",
              p->f);
        if (p->n_keys)
            fputs("<input type=radio name=k id=every checked><label for=every>every category</label>", p->f);
        for (size_t i = 0; i < p->n_keys; i++) {
            fprintf(p->f, "<input type=radio name=k id=k%zu><label for=k%zu>", i, i);
            escape(p->f, p->keys[i]);
            fputs("</label>", p->f);
        }
        fputs("<main>\n", p->f);
    }
    free(css);
    return st;
}

/* ---------------------------------------------------------------- a question */

static bool same_medium(const eval_medium *a, const eval_medium *b) {
    return a && a->path && b->path && !strcmp(a->path, b->path) && a->start_s == b->start_s &&
           a->end_s == b->end_s;
}

/* Thumbnails stand with each question: one above may be filtered away. */
static void write_media(page *p, const entry *e) {
    for (size_t i = 0; i < e->n_media; i++) {
        if (p->n_bytes > EVAL_THUMBS_MAX_BYTES) {
            fputs("<p>no more pictures: the page would grow too large</p>", p->f);
            return;
        }
        if (!same_medium(p->shown, &e->media[i])) {
            size_t n = 0;
            free(p->drawn);
            p->drawn = NULL;
            p->shown = NULL;
            FILE *f = open_memstream(&p->drawn, &n);
            if (!f) return;
            eval_thumbs_write(f, p->folder, &e->media[i]);
            if (fclose(f)) return;
            p->shown = &e->media[i];
        }
        fputs(p->drawn, p->f);
        p->n_bytes += strlen(p->drawn);
    }
}

static void write_entry(page *p, const entry *e) {
    fprintf(p->f, "<article class=\"%s", e->right ? "r" : "w");
    for (size_t i = 0; i < e->n_values; i++)
        if (key_of(p, e->values[i]) >= 0) fprintf(p->f, " k%d", key_of(p, e->values[i]));
    fputs("\"><h2>", p->f);
    escape(p->f, e->question);
    fputs("</h2>", p->f);
    write_media(p, e);
    fputs("<dl>", p->f);
    for (size_t i = 0; i < e->n_options; i++) {
        char letter[2] = {(char)('A' + i)};
        line(p, letter, e->options[i]);
    }
    if (e->answer) line(p, "right", e->answer);
    if (e->error) line(p, "error", e->error);
    if (e->response) line(p, "response", e->response);
    if (e->said && *e->said) line(p, "read as", e->said);
    fprintf(p->f, "<dt>score</dt><dd>%.3g</dd></dl><p>", e->score);
    escape(p->f, e->id);
    for (size_t i = 0; i < e->n_values; i++) {
        fputs(" &middot; ", p->f);
        escape(p->f, e->values[i]);
    }
    fputs("</p></article>\n", p->f);
}

/* ---------------------------------------------------------------- the file */

typedef void (*entry_fn)(const void *from, size_t i, entry *out);

static sac_status write_page(const char *path, const char *folder, const char *title, const void *from,
                             size_t n, entry_fn get, sac_error *err) {
    page p = {.folder = folder};
    draft file;
    entry e;
    for (size_t i = 0; i < n; i++) {
        get(from, i, &e);
        p.n++;
        p.n_right += e.right;
        for (size_t k = 0; k < e.n_values; k++) add_key(&p, e.values[k]);
    }
    sac_status st = draft_open(&file, path, err);
    p.f = file.f;
    if (st == SAC_OK) st = write_head(&p, title, err);
    for (size_t i = 0; i < n && st == SAC_OK; i++) {
        get(from, i, &e);
        write_entry(&p, &e);
    }
    free(p.drawn);
    if (st == SAC_OK) {
        fputs("</main></body></html>\n", p.f);
        return draft_close(&file, err);
    }
    draft_abandon(&file);
    return st;
}

/* ---------------------------------------------------------------- what is written */

static void entry_of_marks(const void *from, size_t i, entry *e) {
    const eval_marks *m = from;
    const eval_item *item = m->answers.items[i];
    *e = (entry){.id = m->answers.ids[i],
                 .question = item->question ? item->question : "",
                 .answer = item->answer,
                 .response = m->answers.responses[i],
                 .said = m->marks[i].said,
                 .error = m->answers.responses[i] ? NULL : "no answer",
                 .n_options = item->n_options,
                 .n_values = item->n_dimensions,
                 .media = item->media,
                 .n_media = item->n_media,
                 .score = m->marks[i].score,
                 .right = m->marks[i].score >= 0.5};
    memcpy(e->options, item->options, sizeof e->options);
    for (size_t k = 0; k < item->n_dimensions; k++) e->values[k] = item->dimensions[k].value;
}

sac_status eval_html_marks(const eval_marks *m, const char *folder, const char *path, sac_error *err) {
    return write_page(path, folder, m->set->bench->title, m, m->answers.n, entry_of_marks, err);
}

/* Video-MME's questions, numbered over the set. */
typedef struct videomme_page {
    const eval_outcome *o;
    eval_medium *media; /* [n_videos] */
    char (*letters)[2]; /* [n_questions] of the answers */
} videomme_page;

static void entry_of_videomme(const void *from, size_t i, entry *e) {
    const videomme_page *p = from;
    const eval_set *set = p->o->set;
    size_t k = 0;
    while (i >= set->videos[k].first + set->videos[k].n_questions) k++;
    const eval_video *v = &set->videos[k];
    const eval_question *q = &v->questions[i - v->first];
    const char *response = p->o->records ? eval_record_response(p->o->records[i]) : q->response;
    *e = (entry){.id = q->id,
                 .question = q->text,
                 .answer = p->letters[i],
                 .response = response,
                 .error = p->o->records ? eval_record_error(p->o->records[i]) : NULL,
                 .n_options = EVAL_OPTIONS,
                 .values = {v->duration, q->task_type, v->domain},
                 .n_values = 3,
                 .media = &p->media[k],
                 .n_media = 1,
                 .right = eval_prompt_letter(p->o->prompt, q, response) == q->answer};
    e->score = e->right;
    for (int n = 0; n < EVAL_OPTIONS; n++) e->options[n] = eval_option_text(q->options[n]);
}

sac_status eval_html_videomme(const eval_outcome *o, const char *folder, const char *path, sac_error *err) {
    videomme_page p = {.o = o,
                       .media = calloc(o->set->n_videos + 1, sizeof *p.media),
                       .letters = calloc(o->set->n_questions + 1, sizeof *p.letters)};
    sac_status st = p.media && p.letters ? SAC_OK : sac_fail_no_memory(err);
    for (size_t k = 0; k < o->set->n_videos && st == SAC_OK; k++) {
        const eval_video *v = &o->set->videos[k];
        p.media[k] = (eval_medium){.is_video = true, .path = v->file};
        for (size_t i = 0; i < v->n_questions; i++) p.letters[v->first + i][0] = v->questions[i].answer;
    }
    if (st == SAC_OK)
        st = write_page(path, folder, "Video-MME", &p, o->set->n_questions, entry_of_videomme, err);
    free(p.media);
    free(p.letters);
    return st;
}
