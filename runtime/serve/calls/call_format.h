/* call_format.h - how a model writes that it calls a tool. One file each; SERVE_CALL_FORMATS lists them. */
#ifndef SERVE_CALL_FORMAT_H
#define SERVE_CALL_FORMAT_H

#include <stdbool.h>
#include <stddef.h>

/* A call is a JSON object with the tool's name and its arguments:
 *   opener {"name": "NAME", "arguments": {...}} closer                        one opener a call, or
 *   opener {"name": "NAME", "arguments": {...}} separator {...} ... closer    one opener for all (shared) */
typedef struct call_format {
    const char *name;    /* "hermes"; --tool-parser's */
    const char *aliases; /* other names, "|qwen|...|" */
    const char *
        opener; /* "" = an answer that begins with an object is a call, if it names a tool of the request's */
    const char *also_opener; /* another, or NULL */
    const char *closer;      /* "" = none */
    char separator;          /* of calls that share an opener; 0 = each has its own */
    bool is_list;            /* they are a JSON array behind the opener */
    const char *
        arguments; /* the arguments' key as the grammar writes it; "arguments" and "parameters" are both read */
    const char *open_with, *close_with, *separate_with; /* likewise, around calls and between them */
    size_t id_length;         /* of a call's id, all letters and digits; 0 = "call_" and 24 of them */
    const char *const *marks; /* control tokens that are read as text, NULL-terminated */
    /* Whether a template that renders a call as `text` writes it this way. Asked in the list's order. */
    bool (*writes)(const char *text);
} call_format;

#define SERVE_CALL_FORMATS(X) X(hermes) X(mistral) X(llama3)
#define X(name)               extern const call_format call_format_##name;
SERVE_CALL_FORMATS(X)
#undef X

/* By name or alias; NULL = there is none. */
const call_format *call_format_find(const char *name);
/* The first that writes a call so; NULL = none. */
const call_format *call_format_of(const char *rendered_call);
/* Names, NULL-terminated. */
const char *const *call_format_names(void);

#endif
