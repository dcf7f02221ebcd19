#include "run_config.h"
#include "input.h"
#include "status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

/* One event at a time: what a file may hold is two levels of mappings with lists of texts in them, so that
 * nothing deeper is ever followed. */
typedef struct reader {
    yaml_parser_t parser;
    yaml_event_t event; /* the current one; of no type when there is none */
    settings *s;
    const char *name;
    bool seen[SETTINGS_MAX]; /* rows of the table that this file has set */
    const char *groups[8];   /* groups that this file has opened */
    size_t n_groups;
    sac_error *err;
} reader;

/* All refusals: "run.yaml:3: ..." */
__attribute__((format(printf, 3, 4))) static sac_status refuse(reader *r, size_t line, const char *format,
                                                               ...) {
    char text[300];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return sac_fail(r->err, SAC_BAD_CONFIG, "%s:%zu: %s", r->name, line, text);
}

static size_t line_of(const reader *r) {
    return r->event.start_mark.line + 1;
}

static sac_status next(reader *r) {
    yaml_event_delete(&r->event);
    if (!yaml_parser_parse(&r->parser, &r->event)) {
        r->event.type = YAML_NO_EVENT;
        if (r->parser.error == YAML_MEMORY_ERROR) return sac_fail_no_memory(r->err);
        return refuse(r, r->parser.problem_mark.line + 1, "not YAML: %s",
                      r->parser.problem ? r->parser.problem : "cannot be parsed");
    }
    const unsigned char *anchor = NULL, *tag = NULL;
    if (r->event.type == YAML_SCALAR_EVENT)
        anchor = r->event.data.scalar.anchor, tag = r->event.data.scalar.tag;
    if (r->event.type == YAML_SEQUENCE_START_EVENT)
        anchor = r->event.data.sequence_start.anchor, tag = r->event.data.sequence_start.tag;
    if (r->event.type == YAML_MAPPING_START_EVENT)
        anchor = r->event.data.mapping_start.anchor, tag = r->event.data.mapping_start.tag;
    if (anchor || r->event.type == YAML_ALIAS_EVENT)
        return refuse(r, line_of(r), "anchors and aliases are not used in run settings");
    if (tag) return refuse(r, line_of(r), "tags are not used in run settings");
    return SAC_OK;
}

/* The current scalar as a C string. */
static sac_status scalar(reader *r, const char **text) {
    *text = (const char *)r->event.data.scalar.value;
    if (strlen(*text) != r->event.data.scalar.length)
        return refuse(r, line_of(r), "a text holds a zero byte");
    return SAC_OK;
}

static bool is_plain(const reader *r) {
    return r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

static bool is_null(const reader *r, const char *text) {
    return is_plain(r) && (!*text || !strcmp(text, "~") || !strcmp(text, "null"));
}

static const char *kind_name(setting_kind kind) {
    switch (kind) {
    case SETTING_FLAG: return "true or false";
    case SETTING_INT:
    case SETTING_SEED: return "a whole number";
    case SETTING_REAL: return "a number";
    default: return "a text";
    }
}

/* The current event is the value of `row`. */
static sac_status read_scalar(reader *r, const setting *row) {
    if (r->event.type != YAML_SCALAR_EVENT)
        return refuse(r, line_of(r), "%s: expected %s, found a %s", row->name, kind_name(row->kind),
                      r->event.type == YAML_MAPPING_START_EVENT ? "mapping" : "list");
    const char *text;
    SAC_TRY(scalar(r, &text));
    if (is_null(r, text)) return refuse(r, line_of(r), "%s: the value is missing", row->name);
    if (row->kind != SETTING_TEXT && row->kind != SETTING_TEXTS && !is_plain(r))
        return refuse(r, line_of(r), "%s: expected %s, found a quoted text", row->name, kind_name(row->kind));
    if (settings_set(r->s, row, text, ORIGIN_CONFIG, r->err) == SAC_OK) return SAC_OK;
    if (r->err->status == SAC_NO_MEMORY) return SAC_NO_MEMORY;
    r->err->status = SAC_BAD_CONFIG;
    return sac_fail_prefix(r->err, r->err->status, "%s:%zu: %s", r->name, line_of(r), row->name);
}

static sac_status read_value(reader *r, const setting *row) {
    SAC_TRY(next(r));
    if (row->kind != SETTING_TEXTS || r->event.type != YAML_SEQUENCE_START_EVENT) return read_scalar(r, row);
    for (;;) {
        SAC_TRY(next(r));
        if (r->event.type == YAML_SEQUENCE_END_EVENT) return SAC_OK;
        SAC_TRY(read_scalar(r, row));
    }
}

static const char *find_group(const char *name) {
    for (size_t i = 0; i < settings_n; i++)
        if (settings_table[i].group && !strcmp(settings_table[i].group, name)) return settings_table[i].group;
    return NULL;
}

/* The row of a key in `group` (NULL = at the top), or a refusal that says where the key belongs. */
static sac_status find_row(reader *r, const char *group, const char *key, const setting **out) {
    const setting *row = *out = settings_find(key);
    if (!row || row->command_line_only) {
        if (row) return refuse(r, line_of(r), "%s is given on the command line only", row->name);
        return refuse(r, line_of(r), "unknown key '%.60s'%s%s; 'saccade ask --help' lists the settings", key,
                      group ? " in " : "", group ? group : "");
    }
    const char *belongs = row->group;
    if (belongs && (!group || strcmp(group, belongs)))
        return refuse(r, line_of(r), "%s belongs under '%s:'", row->name, belongs);
    if (!belongs && group)
        return refuse(r, line_of(r), "%s belongs at the top, not under '%s:'", row->name, group);
    bool *seen = &r->seen[row - settings_table];
    if (*seen) return refuse(r, line_of(r), "%s is given twice", row->name);
    *seen = true;
    return SAC_OK;
}

static sac_status read_group(reader *r, const char *group) {
    for (size_t i = 0; i < r->n_groups; i++)
        if (r->groups[i] == group) return refuse(r, line_of(r), "%s is given twice", group);
    r->groups[r->n_groups++] = group; /* fewer groups exist than fit, and each enters once */
    SAC_TRY(next(r));
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return refuse(r, line_of(r), "%s: expected settings as 'key: value' below it", group);
    for (;;) {
        SAC_TRY(next(r));
        if (r->event.type == YAML_MAPPING_END_EVENT) return SAC_OK;
        if (r->event.type != YAML_SCALAR_EVENT)
            return refuse(r, line_of(r), "%s: a key must be a text", group);
        const char *key;
        const setting *row;
        SAC_TRY(scalar(r, &key));
        SAC_TRY(find_row(r, group, key, &row));
        SAC_TRY(read_value(r, row));
    }
}

static sac_status read_top(reader *r) {
    for (;;) {
        SAC_TRY(next(r));
        if (r->event.type == YAML_MAPPING_END_EVENT) return SAC_OK;
        if (r->event.type != YAML_SCALAR_EVENT) return refuse(r, line_of(r), "a key must be a text");
        const char *key;
        const setting *row;
        SAC_TRY(scalar(r, &key));
        const char *group = find_group(key);
        if (group) {
            SAC_TRY(read_group(r, group));
            continue;
        }
        SAC_TRY(find_row(r, NULL, key, &row));
        SAC_TRY(read_value(r, row));
    }
}

static sac_status read_stream(reader *r) {
    SAC_TRY(next(r)); /* stream start */
    SAC_TRY(next(r));
    if (r->event.type == YAML_STREAM_END_EVENT) return SAC_OK; /* an empty file sets nothing */
    SAC_TRY(next(r));
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return refuse(r, line_of(r), "expected settings as 'key: value'");
    SAC_TRY(read_top(r));
    SAC_TRY(next(r)); /* document end */
    SAC_TRY(next(r));
    if (r->event.type != YAML_STREAM_END_EVENT) return refuse(r, line_of(r), "a second document starts here");
    return SAC_OK;
}

sac_status run_config_parse(settings *s, const char *text, size_t n_bytes, const char *name, sac_error *err) {
    reader r = {.s = s, .name = name, .err = err};
    if (n_bytes > RUN_CONFIG_MAX_BYTES)
        return sac_fail(err, SAC_BAD_CONFIG, "%s: larger than %zu bytes; run settings fit on a page", name,
                        RUN_CONFIG_MAX_BYTES);
    if (!yaml_parser_initialize(&r.parser)) return sac_fail_no_memory(err);
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, n_bytes);
    sac_status st = read_stream(&r);
    yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    return st;
}

sac_status run_config_read(settings *s, const char *path, sac_error *err) {
    FILE *f;
    SAC_TRY(input_open(&f, path, true, err));
    char *text = malloc(RUN_CONFIG_MAX_BYTES + 1); /* one more than allowed tells a file that is too large */
    size_t n = text ? fread(text, 1, RUN_CONFIG_MAX_BYTES + 1, f) : 0;
    sac_status st = !text       ? sac_fail_no_memory(err)
                    : ferror(f) ? sac_fail(err, SAC_IO, "%s: %s", path, strerror(errno))
                                : run_config_parse(s, text, n, path, err);
    free(text);
    fclose(f);
    return st;
}
