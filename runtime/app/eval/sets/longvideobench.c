/* LongVideoBench (arXiv:2407.15754): lvb_val.json, [{"id", "video_path", "subtitle_path", "question", "candidates",
 * "correct_choice", "duration_group", "question_category", "starting_timestamp_for_subtitles", "duration"}]. Where the file
 * of subtitles is there (subtitles/SUBTITLE_PATH beside the set) they stand between the frames, as its loader puts them;
 * otherwise the video is shown alone. A correct_choice of -1 (the test split) is asked and not scored. */
#include "eval_row.h"
#include "eval_table.h"
#include "hash.h"
#include "status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUBTITLES_MAX_BYTES ((size_t)16 << 20)

/* "00:01:02.500" as seconds; false = it is none. */
static bool read_clock(const char *text, double *out) {
    int hours, minutes, end = 0;
    double seconds;
    if (sscanf(text, "%4d:%2d:%lf%n", &hours, &minutes, &seconds, &end) != 3 || text[end]) return false;
    *out = hours * 3600.0 + minutes * 60 + seconds;
    return *out >= 0 && *out < 1e6;
}

/* {"start", "end", "line"}, or {"timestamp": [start, end], "text"} where an end may be missing. */
static bool read_line(const json_t *line, double from, double duration, double *start, double *end,
                      const char **text) {
    const json_t *pair = json_object_get(line, "timestamp");
    if (json_is_array(pair)) {
        const json_t *last = json_array_get(pair, 1);
        if (!json_is_number(json_array_get(pair, 0))) return false;
        *start = json_number_value(json_array_get(pair, 0));
        *end = json_is_real(last) ? json_real_value(last) : duration;
        *text = json_string_value(json_object_get(line, "text"));
    } else {
        const char *a = json_string_value(json_object_get(line, "start")),
                   *b = json_string_value(json_object_get(line, "end"));
        if (!a || !b || !read_clock(a, start) || !read_clock(b, end)) return false;
        *text = json_string_value(json_object_get(line, "line"));
    }
    *start -= from;
    *end -= from;
    return *text != NULL;
}

static sac_status read_subtitles(eval_reader *r, const char *path, double from, double duration,
                                 eval_item *item) {
    char *text;
    size_t n;
    json_t *lines;
    SAC_TRY(eval_table_bytes(&text, &n, path, SUBTITLES_MAX_BYTES, r->err));
    r->set->subtitles = sac_hash_quick(r->set->subtitles, text, n);
    sac_status st = eval_table_parse(&lines, text, n, path, r->err);
    free(text);
    if (st != SAC_OK) return st;
    json_t *out = json_array();
    for (size_t i = 0; out && i < json_array_size(lines) && st == SAC_OK; i++) {
        double start, end;
        const char *said;
        if (!read_line(json_array_get(lines, i), from, duration, &start, &end, &said))
            st = sac_fail(r->err, SAC_BAD_FILE,
                          "%s: subtitle %zu: expected start, end and line, or timestamp and text", path,
                          i + 1);
        else if (json_array_append_new(
                     out, json_pack("{s:f, s:f, s:s}", "start", start, "end", end, "text", said)))
            st = sac_fail_no_memory(r->err);
    }
    if (st == SAC_OK && !json_is_array(lines))
        st = sac_fail(r->err, SAC_BAD_FILE, "%s: expected a list of subtitles", path);
    if (st == SAC_OK && (!out || json_array_append(r->set->json, out))) st = sac_fail_no_memory(r->err);
    item->subtitles = st == SAC_OK ? out : NULL;
    json_decref(out); /* the set's */
    json_decref(lines);
    return st;
}

static sac_status find_subtitles(eval_reader *r, const json_t *row, eval_item *item) {
    const char *name;
    double from = 0, duration = 0;
    SAC_TRY(eval_row_optional(r, row, "subtitle_path", &name));
    SAC_TRY(eval_row_seconds(r, row, "starting_timestamp_for_subtitles", &from));
    SAC_TRY(eval_row_seconds(r, row, "duration", &duration));
    if (!name || !r->folder) return SAC_OK;
    eval_item checked = {0}; /* its name is a stranger's as well */
    SAC_TRY(eval_row_file(r, "subtitle_path", name, false, &checked));
    const char *path = eval_row_format(r, "%s/subtitles/%s", r->folder, checked.media[0].path);
    if (!path) return sac_fail_no_memory(r->err);
    FILE *f = fopen(path, "r");
    if (!f) return SAC_OK;
    fclose(f);
    return read_subtitles(r, path, from, duration, item);
}

static sac_status read_row(eval_reader *r, const json_t *row) {
    eval_item item = {0};
    const char *id, *video, *group, *category;
    int64_t right;
    SAC_TRY(eval_row_text(r, row, "id", &id));
    SAC_TRY(eval_row_text(r, row, "video_path", &video));
    SAC_TRY(eval_row_file(r, "video_path", video, true, &item));
    SAC_TRY(eval_row_text(r, row, "question", &item.question));
    SAC_TRY(eval_row_options(r, row, "candidates", &item));
    SAC_TRY(eval_row_int(r, row, "correct_choice", -1, EVAL_LETTERS_MAX, &right));
    if (right >= 0) SAC_TRY(eval_row_letter(r, "correct_choice", right, &item));
    SAC_TRY(eval_row_text(r, row, "duration_group", &group));
    SAC_TRY(eval_row_text(r, row, "question_category", &category));
    SAC_TRY(find_subtitles(r, row, &item));
    eval_row_dimension(&item, "duration", group);
    eval_row_dimension(&item, "category", category);
    const char *options = eval_row_letters(r, &item, "", ". ");
    if (!options) return sac_fail_no_memory(r->err);
    item.prompt = eval_row_format(
        r, "Question: %s\n%s\nAnswer with the option's letter from the given choices directly.",
        item.question, options);
    return eval_row_add(r, id, &item);
}

const eval_bench eval_bench_longvideobench = {
    .name = "longvideobench",
    .title = "LongVideoBench",
    .fields = "id,video_path,question,candidates,correct_choice,duration_group,question_category",
    .scorer = &eval_scorer_longvideobench,
    .max_tokens = 16,
    .figure = "accuracy",
    .read = read_row};
