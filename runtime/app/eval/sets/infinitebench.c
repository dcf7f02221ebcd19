/* InfiniteBench (arXiv:2402.13718): a file a task, passkey.jsonl, longbook_qa_eng.jsonl and so on, or the folder of them: {"id", "context",
 * "input", "answer", "options"}. The task is the file's name. Asked as its script asks open models (yarn_mistral_templates), as plain
 * text, cut in the middle where it does not fit; answers as long as the script lets them be. The mean over tasks is the result. */
#include "eval_row.h"
#include "status.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *task, *prompt;
    int max_tokens;
} tasks[] = {
    {"passkey",
     "There is an important info hidden inside a lot of irrelevant text. Find it and memorize them. I will "
     "quiz you about the important "
     "information there.\n\n{context}\n\n{input}\n\nThe pass key is",
     6},
    {"number_string",
     "There is an important info hidden inside a lot of irrelevant text. Find it. I will quiz you about the "
     "important information there."
     "\n\n{context}\n\n{input}\n\nThe sequence of digits is",
     12},
    {"kv_retrieval",
     "Extract the value corresponding to the specified key in the JSON object below.\n\n{context}\n\n{input}",
     50},
    {"longbook_sum_eng", "Summarize the book below.\n\n{context}\n\nSummary:", 1200},
    {"longbook_choice_eng",
     "Read the book and answer the question.\n\n{context}\n\nQuestion: {input}\nA. {A}\nB. {B}\nC. {C}\nD. "
     "{D}\n\nThe letter of the correct "
     "answer is",
     40},
    {"longbook_qa_eng",
     "Read the book and answer the question. Be very concise in your answer.\n\n{context}\n\nQuestion: "
     "{input}\nAnswer:",
     40},
    {"longbook_qa_chn", "阅读以下书籍然后回答问题。\n\n{context}\n\n问题：{input}\n答案：", 40},
    {"math_find", "{find}\n\n{context}\n\n{input}", 3},
    {"math_calc",
     "Let us calculate the intermediate values of an expression.\n\nExpression: 1 + 3 + 4\nValues: [1, 4, "
     "8]\n\nExpression: 8 - 3 + 2 - 4\n"
     "Values: [8, 5, 7, 3]\n\nExpression: {context}\nValues:",
     30000},
    {"code_run",
     "There is a function called {function} in the following Python code.\n\n{context}\n\nPlease compute the "
     "exact value of {call}. The value "
     "of {call} is",
     5},
    {"code_debug",
     "Following is a Python code where exactly one of the functions/methods has a deliberate error that "
     "makes it crash.\n\n{context}\n\n"
     "Options:\nA. {A}\nB. {B}\nC. {C}\nD. {D}\n\nThe correct option is:",
     5},
    {"longdialogue_qa_eng",
     "Below is a dialogue script where one random occurrence of a character name is replaced with "
     "\"$$MASK$$\", and you should try to guess "
     "who that character is.\n\n{context}\n\nThe name that has been replaced with $$MASK$$ is likely",
     40}};

/* ---------------------------------------------------------------- what templates have of the input */

/* "func_12(-3)" in the input; "" = none. */
static const char *find_call(eval_reader *r, const char *input, const char **function) {
    for (const char *at = input; (at = strstr(at, "func_")); at++) {
        size_t n = strspn(at + 5, "0123456789"), from = 5 + n + 1;
        if (!n || at[5 + n] != '(') continue;
        from += at[from] == '-';
        size_t k = strspn(at + from, "0123456789");
        if (!k || at[from + k] != ')') continue;
        *function = eval_row_format(r, "%.*s", (int)(5 + n), at);
        return eval_row_format(r, "%.*s", (int)(from + k + 1), at);
    }
    return *function = "";
}

/* "What is the smallest number in the following list?", of an input with "The smallest number of ...": what stands from the first "The "
 * to the last " of" of its line. */
static const char *find_number(eval_reader *r, const char *input) {
    const char *at = strstr(input, "The "), *last = NULL, *end = at ? at + strcspn(at, "\n") : NULL;
    for (const char *p = at ? at + 4 : NULL; p && p < end; p++)
        if (!strncmp(p, " of", 3)) last = p;
    if (!last || last == at + 4) return "";
    const char *text =
        eval_row_format(r, "What is t%.*s in the following list?", (int)(last - at) - 1, at + 1);
    for (char *c = (char *)(uintptr_t)text; c && *c; c++)
        if (c > text) *c = (char)tolower((unsigned char)*c);
    return text;
}

/* ---------------------------------------------------------------- answers */

static bool has_options(const char *task) {
    return !strcmp(task, "code_debug") || !strcmp(task, "longbook_choice_eng");
}

static bool is_letter(const char *s) {
    return s && s[0] >= 'A' && s[0] <= 'D' && !s[1];
}

/* The right option's text and letter. */
static sac_status read_right_option(eval_reader *r, const json_t *answers, eval_item *item) {
    const char *text = json_string_value(json_array_get(answers, 0)),
               *letter = json_string_value(json_array_get(answers, 1));
    char found[2] = "";
    for (size_t i = 0; i < 4 && text && !*found; i++)
        if (!strcmp(item->options[i], text)) found[0] = (char)('A' + i);
    if (!*found && is_letter(letter)) found[0] = *letter;
    if (!text || !*found) return eval_row_refuse(r, "answer", "expected one of the options");
    json_t *pair = json_pack("[s, s]", text, found);
    if (!pair || json_array_append_new(r->set->json, pair)) return sac_fail_no_memory(r->err);
    item->answers = pair;
    return SAC_OK;
}

static bool are_whole(const json_t *list) {
    size_t i = 0, n = json_array_size(list);
    while (i < n && json_is_integer(json_array_get(list, i))) i++;
    return n && i == n;
}

/* A list of texts that are not empty, of code_run and mathematics of numbers; one alone is a list of it. */
static sac_status read_answers(eval_reader *r, const json_t *row, eval_item *item) {
    json_t *v = json_object_get(row, "answer"), *list = json_is_array(v) ? json_incref(v)
                                                        : v              ? json_pack("[O]", v)
                                                                         : NULL;
    if (!list || json_array_append_new(r->set->json, list))
        return v ? sac_fail_no_memory(r->err) : eval_row_refuse(r, "answer", "is missing");
    bool wants_numbers = !strcmp(item->kind, "code_run") || !strncmp(item->kind, "math_", 5);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        bool good = json_is_number(one) || (!strcmp(item->kind, "math_calc") && are_whole(one));
        if (wants_numbers && !good) return eval_row_refuse(r, "answer", "expected numbers");
        if (!wants_numbers && !json_string_length(one))
            return eval_row_refuse(r, "answer", "expected texts, none of them empty");
    }
    if (!json_array_size(list)) return eval_row_refuse(r, "answer", "is empty");
    item->answers = list;
    return has_options(item->kind) ? read_right_option(r, list, item) : SAC_OK;
}

/* ---------------------------------------------------------------- rows */

static sac_status write_prompt(eval_reader *r, const char *template, const char *context, const char *input,
                               eval_item *item) {
    const char *function, *call = find_call(r, input, &function), *find = find_number(r, input);
    if (!function || !call || !find) return sac_fail_no_memory(r->err);
    if (strstr(template, "{call}") && !*call)
        return eval_row_refuse(r, "input", "expected a call as func_1(2)");
    if (strstr(template, "{find}") && !*find) return eval_row_refuse(r, "input", "expected 'The ... of'");
    const char *const *o = item->options;
    item->prompt =
        eval_row_fill(r, template,
                      (const char *const[]){"context", context, "input", input, "function", function, "call",
                                            call, "find", find, "A", o[0] ? o[0] : "", "B", o[1] ? o[1] : "",
                                            "C", o[2] ? o[2] : "", "D", o[3] ? o[3] : "", NULL});
    return SAC_OK;
}

static sac_status read_row(eval_reader *r, const json_t *row) {
    eval_item item = {.may_cut = true, .raw = true};
    const char *context, *input, *id;
    size_t at = 0;
    while (at < SAC_COUNT(tasks) && strcmp(tasks[at].task, r->stem) != 0) at++;
    if (at == SAC_COUNT(tasks))
        return eval_row_refuse(r, "the file's name", "'%.40s' is no task of InfiniteBench", r->stem);
    item.kind = tasks[at].task;
    item.max_tokens = tasks[at].max_tokens;
    SAC_TRY(eval_row_text(r, row, "context", &context));
    SAC_TRY(eval_row_optional(r, row, "input", &input));
    SAC_TRY(eval_row_text(r, row, "id", &id));
    if (!input) input = "";
    if (has_options(item.kind)) {
        SAC_TRY(eval_row_options(r, row, "options", &item));
        if (item.n_options != 4)
            return eval_row_refuse(r, "options", "expected 4 options, found %zu", item.n_options);
    }
    SAC_TRY(read_answers(r, row, &item));
    SAC_TRY(write_prompt(r, tasks[at].prompt, context, input, &item));
    item.question = *input ? input : item.kind;
    item.n_options = 0; /* they are in the prompt; answers are of the script's kind, not letters */
    eval_row_dimension(&item, "task", item.kind);
    return eval_row_add(r, eval_row_format(r, "%s-%s", item.kind, id), &item);
}

const eval_bench eval_bench_infinitebench = {.name = "infinitebench",
                                             .title = "InfiniteBench",
                                             .fields = "id,context,input,answer,options",
                                             .scorer = &eval_scorer_infinitebench,
                                             .max_tokens = 40,
                                             .mean_over = "task",
                                             .figure = "mean over tasks",
                                             .read = read_row};
