#include "splitter.h"
#include "byte_buffer.h"
#include "call_head.h"
#include "json_scan.h"

#include <stdlib.h>
#include <string.h>

/* A head that grows beyond is text: it is looked at again with every member. */
enum { MAX_HEAD = 16384 };

enum part {
    BEFORE,   /* white space, before anything */
    THINKING, /* within reasoning */
    THOUGHT,  /* white space behind it */
    SAYING,   /* text in which an opener may come */
    LIST,     /* behind the opener of a list: "[" */
    HEAD,     /* a call's object, before its arguments */
    ARGUMENTS,
    TAIL,   /* the rest of the object */
    BEHIND, /* behind a call: its closer, or what divides it from the next */
    PLAIN,  /* only text to the end */
};

struct splitter {
    splitter_options o;
    enum part part;
    serve_buffer held; /* what may become a mark or a call */
    serve_buffer out;  /* of kind `kind`, not given yet */
    splitter_kind kind;
    size_t head;           /* where the object begins in held */
    json_scan scan;        /* of the object */
    json_scan argument;    /* of its arguments */
    size_t n_closer;       /* bytes of the closer that have come */
    bool is_bare;          /* the call has no opener */
    bool has_text, failed; /* has_text: some that is not white space was said, or thought */
    int n_calls;
};

static bool is_space(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* ---------------------------------------------------------------- what is given */

static void flush(splitter *s) {
    s->failed |= s->out.failed;
    if (s->out.n == 0) return;
    s->o.event(s->o.ctx, s->kind, s->out.data, s->out.n);
    serve_buffer_drop(&s->out, s->out.n);
}

static void give(splitter *s, splitter_kind kind, const char *text, size_t n) {
    if (s->kind != kind) flush(s);
    s->kind = kind;
    serve_buffer_add(&s->out, text, n);
}

static void drop(splitter *s) {
    s->failed |= s->held.failed;
    if (s->held.n) serve_buffer_drop(&s->held, s->held.n);
}

static void give_held(splitter *s, splitter_kind kind) {
    give(s, kind, s->held.data, s->held.n);
    drop(s);
}

static void hold(splitter *s, char c) {
    serve_buffer_add(&s->held, &c, 1);
}

/* ---------------------------------------------------------------- marks */

/* How many bytes at the end of what is held may begin the mark; all of it: n of the mark. */
static size_t tail_of(const serve_buffer *held, const char *mark) {
    size_t n = mark ? strlen(mark) : 0, most = n < held->n ? n : held->n;
    for (size_t k = most; k > 0; k--)
        if (!memcmp(held->data + held->n - k, mark, k)) return k;
    return 0;
}

/* White space at the end of what is held, before its last `tail` bytes. */
static size_t space_before(const serve_buffer *held, size_t tail) {
    size_t n = held->n - tail, from = n;
    while (from > 0 && is_space(held->data[from - 1])) from--;
    return n - from;
}

/* Gives what is held but white space at its end and `tail` bytes. */
static void give_but(splitter *s, splitter_kind kind, size_t tail) {
    size_t n = s->held.n - tail - space_before(&s->held, tail);
    if (n == 0) return;
    give(s, kind, s->held.data, n);
    serve_buffer_drop(&s->held, n);
    s->has_text |= kind == SPLITTER_TEXT;
}

/* ---------------------------------------------------------------- what turned out to be something else */

static void feed_byte(splitter *s, char c);

/* What is held is read again in another part, its first n_text bytes as text. */
static void read_again(splitter *s, enum part part, size_t n_text) {
    serve_buffer had = s->held;
    s->held = (serve_buffer){0};
    s->failed |= had.failed;
    s->part = part;
    if (n_text > had.n) n_text = had.n;
    if (n_text) give(s, SPLITTER_TEXT, had.data, n_text);
    s->has_text |= n_text > 0;
    for (size_t i = n_text; i < had.n; i++) feed_byte(s, had.data[i]);
    serve_buffer_free(&had);
}

/* It is no call: behind its first byte another may begin. */
static void give_up(splitter *s) {
    read_again(s, SAYING, 1);
}

/* ---------------------------------------------------------------- reasoning */

/* The answer's beginning: white space, then perhaps the opener. */
static void before(splitter *s, char c) {
    const char *opener = s->o.reasoning->opener;
    hold(s, c);
    size_t from = 0;
    while (from < s->held.n && is_space(s->held.data[from])) from++;
    size_t n = s->held.n - from;
    if (n <= strlen(opener) && !memcmp(s->held.data + from, opener, n)) {
        if (n < strlen(opener)) return;
        drop(s);
        s->part = THINKING;
        return;
    }
    read_again(s, s->o.calls ? SAYING : PLAIN, 0); /* none came */
}

static void think(splitter *s, char c) {
    const char *closer = s->o.reasoning->closer;
    if (!s->has_text && s->held.n == 0 && is_space(c)) return; /* before the first thought */
    hold(s, c);
    size_t tail = tail_of(&s->held, closer);
    size_t n = s->held.n - tail - space_before(&s->held, tail);
    if (n) {
        give(s, SPLITTER_REASONING, s->held.data, n);
        serve_buffer_drop(&s->held, n);
        s->has_text = true;
    }
    if (tail < strlen(closer)) return;
    drop(s);
    s->has_text = false;
    s->part = THOUGHT;
}

/* ---------------------------------------------------------------- openers */

static void begin_head(splitter *s) {
    s->part = s->o.calls->is_list ? LIST : HEAD;
    s->head = s->held.n;
    s->is_bare = false;
    s->scan = s->argument = (json_scan){0};
}

static void say(splitter *s, char c) {
    const call_format *f = s->o.calls;
    hold(s, c);
    if (!f->opener[0] && !s->has_text && s->n_calls == 0 && c == '{' &&
        space_before(&s->held, 1) == s->held.n - 1) {
        begin_head(s);
        s->is_bare = true;
        s->head = s->held.n - 1;
        json_scan_byte(&s->scan, c);
        return;
    }
    size_t tail = f->opener[0] ? tail_of(&s->held, f->opener) : 0, other = tail_of(&s->held, f->also_opener);
    bool opens = (tail && tail == strlen(f->opener)) || (other && other == strlen(f->also_opener));
    if (other > tail) tail = other;
    give_but(s, SPLITTER_TEXT, tail);
    if (opens) begin_head(s);
}

/* ---------------------------------------------------------------- calls */

static bool may_be_called(const splitter *s, const char *name) {
    return !s->is_bare || s->o.knows(s->o.tools, name);
}

static void begin_call(splitter *s, const char *name) {
    give(s, SPLITTER_CALL, name, strlen(name));
    flush(s);
    s->n_calls++;
}

static void end_object(splitter *s) {
    drop(s);
    s->n_closer = 0;
    s->part = BEHIND;
}

static void read_head(splitter *s, char c) {
    call_head h;
    hold(s, c);
    if (s->held.n - s->head == 1 && is_space(c)) { /* between opener and object */
        s->head++;
        return;
    }
    json_scan_result r = json_scan_byte(&s->scan, c);
    if (r == JSON_SCAN_BAD || s->held.n > MAX_HEAD || s->held.failed) {
        give_up(s);
        return;
    }
    if (!strchr("{}[]\",:-tfn", c) && !(c >= '0' && c <= '9')) return; /* nothing begins or ends with it */
    call_head_result found = call_head_read(&h, s->held.data + s->head, s->held.n - s->head);
    if (found == CALL_HEAD_MORE) return;
    if (found == CALL_HEAD_BAD || !may_be_called(s, h.name) ||
        (found == CALL_HEAD_WHOLE && s->is_bare && !h.n_arguments)) {
        give_up(s);
        return;
    }
    begin_call(s, h.name);
    if (found == CALL_HEAD_WHOLE) {
        bool has = h.n_arguments != 0;
        give(s, SPLITTER_ARGUMENTS, has ? s->held.data + s->head + h.arguments : "{}",
             has ? h.n_arguments : 2);
        end_object(s);
        return;
    }
    give(s, SPLITTER_ARGUMENTS, &c, 1); /* the first byte of the arguments */
    json_scan_byte(&s->argument, c);
    drop(s);
    s->part = ARGUMENTS;
}

/* The model has lost its thread: what follows is text. */
static void lose(splitter *s, char c) {
    s->part = PLAIN;
    give(s, SPLITTER_TEXT, &c, 1);
}

static void read_tail(splitter *s, char c) {
    json_scan_result r = json_scan_byte(&s->scan, c);
    if (r == JSON_SCAN_BAD) lose(s, c);
    if (r == JSON_SCAN_DONE) end_object(s);
}

static void read_arguments(splitter *s, char c) {
    bool ended = json_scan_ends(&s->argument) && (c == ',' || c == '}' || is_space(c));
    json_scan_result r = json_scan_byte(&s->scan, c),
                     a = ended ? JSON_SCAN_DONE : json_scan_byte(&s->argument, c);
    if (r == JSON_SCAN_BAD || a == JSON_SCAN_BAD) {
        lose(s, c);
        return;
    }
    if (!ended) give(s, SPLITTER_ARGUMENTS, &c, 1);
    if (a == JSON_SCAN_DONE) s->part = TAIL;
    if (r == JSON_SCAN_DONE) end_object(s);
}

static void behind(splitter *s, char c) {
    const call_format *f = s->o.calls;
    hold(s, c);
    if (s->n_closer == 0 && is_space(c)) return;
    if (s->n_closer == 0 && f->separator && c == f->separator) {
        drop(s);
        s->head = 0;
        s->scan = s->argument = (json_scan){0};
        s->part = HEAD;
        return;
    }
    if (f->closer[s->n_closer] == c && c) {
        if (f->closer[++s->n_closer]) return;
        drop(s);
        s->part = SAYING;
        return;
    }
    read_again(s, SAYING, 0); /* no closer, which models forget */
}

static void begin_list(splitter *s, char c) {
    hold(s, c);
    s->head = s->held.n;
    if (c == '[')
        s->part = HEAD;
    else if (!is_space(c))
        give_up(s);
}

/* ---------------------------------------------------------------- all */

static void feed_byte(splitter *s, char c) {
    switch (s->part) {
    case BEFORE: before(s, c); break;
    case THINKING: think(s, c); break;
    case THOUGHT:
        if (is_space(c)) break;
        s->part = s->o.calls ? SAYING : PLAIN;
        feed_byte(s, c);
        break;
    case SAYING: say(s, c); break;
    case PLAIN: give(s, SPLITTER_TEXT, &c, 1); break;
    case LIST: begin_list(s, c); break;
    case HEAD: read_head(s, c); break;
    case ARGUMENTS: read_arguments(s, c); break;
    case TAIL: read_tail(s, c); break;
    default: behind(s, c);
    }
}

bool splitter_feed(splitter *s, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) feed_byte(s, text[i]);
    flush(s);
    return !s->failed;
}

bool splitter_finish(splitter *s) {
    bool space = space_before(&s->held, 0) == s->held.n;
    if (s->part == THINKING && space)
        drop(s);
    else if (s->part == THINKING)
        give_held(s, SPLITTER_REASONING);
    else if (s->part == BEHIND || ((s->part == HEAD || s->part == LIST) && s->n_calls))
        drop(s); /* a piece of the closer, or of one more call, of which nothing can be said yet */
    else if (s->part != ARGUMENTS && s->part != TAIL && !(s->n_calls && space))
        give_held(s, SPLITTER_TEXT);
    flush(s);
    return !s->failed;
}

bool splitter_is_reasoning(const splitter *s) {
    return s->part == THINKING;
}

int splitter_n_calls(const splitter *s) {
    return s->n_calls;
}

void splitter_restart(splitter *s) {
    drop(s);
    if (s->out.n) serve_buffer_drop(&s->out, s->out.n);
    s->has_text = false;
    s->n_calls = 0;
    s->kind = SPLITTER_TEXT;
    s->part = !s->o.reasoning ? (s->o.calls ? SAYING : PLAIN) : s->o.begins_inside ? THINKING : BEFORE;
}

splitter *splitter_open(const splitter_options *o) {
    splitter *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->o = *o;
    splitter_restart(s);
    return s;
}

void splitter_close(splitter *s) {
    if (!s) return;
    serve_buffer_free(&s->held);
    serve_buffer_free(&s->out);
    free(s);
}
