/* LongBench (arXiv:2308.14508): a file a dataset, qasper.jsonl, or of LongBench-E qasper_e.jsonl, or the folder of them: {"input",
 * "context", "answers", "length", "dataset", "language", "all_classes", "_id"}. Asked as its pred.py does: a wording and a length of the
 * answer a dataset (config/; narrativeqa's as mended there, its first versions said "asconcisely"), cut in the middle where it does not
 * fit, without chat format for examples and code. The mean over datasets is the result; LongBench-E's buckets are those of "length". */
#include "eval_row.h"
#include "status.h"

#include <string.h>

#define PASSAGES                                                                                             \
    "Answer the question based on the given passages. Only give me the answer and do not output any other "  \
    "words."                                                                                                 \
    "\n\nThe following are given passages.\n{context}\n\nAnswer the question based on the given passages. "  \
    "Only give "                                                                                             \
    "me the answer and do not output any other words.\n\nQuestion: {input}\nAnswer:"
#define SCIENTIFIC                                                                                           \
    "as concisely as you can, using a single phrase or sentence if possible. If the question cannot be "     \
    "answered "                                                                                              \
    "based on the information in the article, write \"unanswerable\". If the question is a yes/no "          \
    "question, answer "                                                                                      \
    "\"yes\", \"no\", or \"unanswerable\". Do not provide any explanation.\n\n"
#define STORY                                                                                                \
    "as concisely as you can, using a single phrase if possible. Do not provide any explanation.\n\n"

/* plain: without chat format. */
static const struct {
    const char *dataset, *prompt;
    int max_tokens;
    bool plain;
} datasets[] = {
    {"narrativeqa",
     "You are given a story, which can be either a novel or a movie script, and a question. Answer the "
     "question " STORY "Story: {context}\n\nNow, answer the question based on the story " STORY
     "Question: {input}\n\nAnswer:",
     128, false},
    {"qasper",
     "You are given a scientific article and a question. Answer the question " SCIENTIFIC
     "Article: {context}\n\n Answer the question based on the above article " SCIENTIFIC
     "Question: {input}\n\nAnswer:",
     128, false},
    {"multifieldqa_en",
     "Read the following text and answer briefly.\n\n{context}\n\nNow, answer the following question based "
     "on the above text, only give "
     "me the answer and do not output any other words.\n\nQuestion: {input}\nAnswer:",
     64, false},
    {"multifieldqa_zh",
     "阅读以下文字并用中文简短回答：\n\n{context}"
     "\n\n现在请基于上面的文章回答下面的问题，只告诉我答案，不要输出任何其他字词。\n\n问题：{input}\n回答：",
     64, false},
    {"hotpotqa", PASSAGES, 32, false},
    {"2wikimqa", PASSAGES, 32, false},
    {"musique", PASSAGES, 32, false},
    {"dureader",
     "请基于给定的文章回答下述问题。\n\n文章：{context}\n\n请基于上述文章回答下面的问题。\n\n问题：{input}"
     "\n回答：",
     128, false},
    {"gov_report",
     "You are given a report by a government agency. Write a one-page summary of the "
     "report.\n\nReport:\n{context}\n\nNow, write a one-page "
     "summary of the report.\n\nSummary:",
     512, false},
    {"qmsum",
     "You are given a meeting transcript and a query containing a question or instruction. Answer the query "
     "in one or more sentences."
     "\n\nTranscript:\n{context}\n\nNow, answer the query based on the above meeting transcript in one or "
     "more sentences.\n\nQuery: {input}"
     "\nAnswer:",
     512, false},
    {"multi_news",
     "You are given several news passages. Write a one-page summary of all news. "
     "\n\nNews:\n{context}\n\nNow, write a one-page summary of "
     "all the news.\n\nSummary:",
     512, false},
    {"vcsum",
     "下面有一段会议记录，请你阅读后，写一段总结，总结会议的内容。\n会议记录：\n{context}\n\n会议总结：", 512,
     false},
    {"trec",
     "Please determine the type of the question below. Here are some examples of "
     "questions.\n\n{context}\n{input}",
     64, true},
    {"triviaqa",
     "Answer the question based on the given passage. Only give me the answer and do not output any other "
     "words. The following are some "
     "examples.\n\n{context}\n\n{input}",
     32, true},
    {"samsum",
     "Summarize the dialogue into a few short sentences. The following are some "
     "examples.\n\n{context}\n\n{input}",
     128, true},
    {"lsht", "请判断给定新闻的类别，下面是一些例子。\n\n{context}\n{input}", 64, true},
    {"passage_count",
     "There are some paragraphs below sourced from Wikipedia. Some of them may be duplicates. Please "
     "carefully read these paragraphs and "
     "determine how many unique paragraphs there are after removing duplicates. In other words, how many "
     "non-repeating paragraphs are there "
     "in total?\n\n{context}\n\nPlease enter the final count of unique paragraphs after removing duplicates. "
     "The output format should only "
     "contain the number, such as 1, 2, 3, and so on.\n\nThe final answer is: ",
     32, false},
    {"passage_retrieval_en",
     "Here are 30 paragraphs from Wikipedia, along with an abstract. Please determine which paragraph the "
     "abstract is from.\n\n{context}\n\n"
     "The following is an abstract.\n\n{input}\n\nPlease enter the number of the paragraph that the abstract "
     "is from. The answer format must "
     "be like \"Paragraph 1\", \"Paragraph 2\", etc.\n\nThe answer is: ",
     32, false},
    {"passage_retrieval_zh",
     "以下是若干段落文字，以及其中一个段落的摘要。请确定给定的摘要出自哪一段。\n\n{context}"
     "\n\n下面是一个摘要\n\n{input}\n\n请输入摘要所属段落的编号。"
     "答案格式必须是\"段落1\"，\"段落2\"等格式\n\n答案是：",
     32, false},
    {"lcc", "Please complete the code given below. \n{context}Next line of code:\n", 64, true},
    {"repobench-p", "Please complete the code given below. \n{context}{input}Next line of code:\n", 64,
     true}};

/* An empty input is one (summaries, code). */
static sac_status read_text(eval_reader *r, const json_t *row, const char *field, const char **out) {
    SAC_TRY(eval_row_optional(r, row, field, out));
    if (!*out) *out = "";
    return SAC_OK;
}

static sac_status read_length(eval_reader *r, const json_t *row, eval_item *item) {
    int64_t n;
    if (!json_object_get(row, "length")) return SAC_OK;
    SAC_TRY(eval_row_int(r, row, "length", 0, INT32_MAX, &n));
    eval_row_dimension(item, "length", n < 4000 ? "0-4k" : n < 8000 ? "4-8k" : "8k+");
    return SAC_OK;
}

/* The published files have 50 classes, and some hundreds of answers where a name has that many forms. */
enum { MOST_CLASSES = 256, MOST_ANSWERS = 2048 };

static sac_status read_row(eval_reader *r, const json_t *row) {
    eval_item item = {.may_cut = true};
    const char *context, *input, *id, *dataset;
    SAC_TRY(eval_row_text(r, row, "dataset", &dataset));
    size_t at = 0, n = strlen(dataset);
    if (n > 2 && !strcmp(dataset + n - 2, "_e")) n -= 2;
    while (at < SAC_COUNT(datasets) &&
           (strlen(datasets[at].dataset) != n || strncmp(datasets[at].dataset, dataset, n)))
        at++;
    if (at == SAC_COUNT(datasets))
        return eval_row_refuse(r, "dataset", "'%.40s' is none of LongBench's", dataset);
    SAC_TRY(read_text(r, row, "context", &context));
    SAC_TRY(read_text(r, row, "input", &input));
    SAC_TRY(eval_row_texts(r, row, "answers", false, &item.answers));
    SAC_TRY(eval_row_texts(r, row, "all_classes", true, &item.classes));
    SAC_TRY(eval_row_at_most(r, "answers", item.answers, MOST_ANSWERS));
    SAC_TRY(eval_row_at_most(r, "all_classes", item.classes, MOST_CLASSES));
    SAC_TRY(eval_row_optional(r, row, "_id", &id));
    item.question = *input ? input : datasets[at].dataset;
    item.kind = datasets[at].dataset;
    item.answer = json_string_value(json_array_get(item.answers, 0));
    item.max_tokens = datasets[at].max_tokens;
    item.raw = datasets[at].plain;
    eval_row_dimension(&item, "dataset", item.kind);
    SAC_TRY(read_length(r, row, &item));
    item.prompt = eval_row_fill(r, datasets[at].prompt,
                                (const char *const[]){"context", context, "input", input, NULL});
    return eval_row_add(
        r, id ? eval_row_format(r, "%s-%s", dataset, id) : eval_row_format(r, "%s-%zu", r->stem, r->number),
        &item);
}

const eval_bench eval_bench_longbench = {
    .name = "longbench",
    .title = "LongBench",
    .fields = "input,context,answers,dataset,all_classes",
    .scorer = &eval_scorer_longbench,
    .max_tokens = 128,
    .mean_over = "dataset",
    .figure = "mean over datasets",
    .read = read_row,
    .note = "Chinese texts are cut into characters; the official script takes jieba's words."};
