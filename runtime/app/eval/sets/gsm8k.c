/* GSM8K (arXiv:2110.14168): test.jsonl, {"question", "answer": "... #### 42"}, as lm-eval asks it, as plain text. `gsm8k`: "Question: Q",
 * "Answer:", without examples. `gsm8k_cot`: "Q: Q", "A:" behind the eight worked examples of Wei et al. (arXiv:2201.11903), which end in
 * "The answer is N.". */
#include "eval_row.h"
#include "status.h"

#include <string.h>

/* Questions and answers of Wei et al., table 20. */
static const char examples[] =
    "Q: There are 15 trees in the grove. Grove workers will plant trees in the grove today. After they are "
    "done, there will be 21 "
    "trees. How many trees did the grove workers plant today?\nA: There are 15 trees originally. Then there "
    "were 21 trees after "
    "some more were planted. So there must have been 21 - 15 = 6. The answer is 6.\n\n"
    "Q: If there are 3 cars in the parking lot and 2 more cars arrive, how many cars are in the parking "
    "lot?\nA: There are "
    "originally 3 cars. 2 more cars arrive. 3 + 2 = 5. The answer is 5.\n\n"
    "Q: Leah had 32 chocolates and her sister had 42. If they ate 35, how many pieces do they have left in "
    "total?\nA: Originally, "
    "Leah had 32 chocolates. Her sister had 42. So in total they had 32 + 42 = 74. After eating 35, they had "
    "74 - 35 = 39. The "
    "answer is 39.\n\n"
    "Q: Jason had 20 lollipops. He gave Denny some lollipops. Now Jason has 12 lollipops. How many lollipops "
    "did Jason give to "
    "Denny?\nA: Jason started with 20 lollipops. Then he had 12 after giving some to Denny. So he gave Denny "
    "20 - 12 = 8. The "
    "answer is 8.\n\n"
    "Q: Shawn has five toys. For Christmas, he got two toys each from his mom and dad. How many toys does he "
    "have now?\nA: Shawn "
    "started with 5 toys. If he got 2 toys each from his mom and dad, then that is 4 more toys. 5 + 4 = 9. "
    "The answer is 9.\n\n"
    "Q: There were nine computers in the server room. Five more computers were installed each day, from "
    "monday to thursday. How "
    "many computers are now in the server room?\nA: There were originally 9 computers. For each of 4 days, 5 "
    "more computers were "
    "added. So 5 * 4 = 20 computers were added. 9 + 20 is 29. The answer is 29.\n\n"
    "Q: Michael had 58 golf balls. On tuesday, he lost 23 golf balls. On wednesday, he lost 2 more. How many "
    "golf balls did he "
    "have at the end of wednesday?\nA: Michael started with 58 golf balls. After losing 23 on tuesday, he "
    "had 58 - 23 = 35. After "
    "losing 2 more, he had 35 - 2 = 33 golf balls. The answer is 33.\n\n"
    "Q: Olivia has $23. She bought five bagels for $3 each. How much money does she have left?\nA: Olivia "
    "had 23 dollars. 5 bagels "
    "for 3 dollars each will be 5 x 3 = 15 dollars. So she has 23 - 15 dollars left. 23 - 15 is 8. The "
    "answer is 8.\n\n";

/* Behind the last "####", without blanks around it. */
static sac_status read_answer(eval_reader *r, const json_t *row, eval_item *item) {
    const char *text, *at;
    SAC_TRY(eval_row_text(r, row, "answer", &text));
    for (at = text; (at = strstr(at, "####")); text = at) at += 4;
    text += strspn(text, " \t\r\n");
    size_t n = strlen(text);
    while (n && strchr(" \t\r\n", text[n - 1])) n--;
    if (!n || n > 100)
        return eval_row_refuse(r, "answer", "expected a number behind ####, found '%.40s'", text);
    item->answer = eval_row_format(r, "%.*s", (int)n, text);
    return item->answer ? SAC_OK : sac_fail_no_memory(r->err);
}

static sac_status add(eval_reader *r, eval_item *item, const char *prompt) {
    item->raw = true;
    item->prompt = prompt;
    return eval_row_add(r, eval_row_format(r, "%s-%zu", r->stem, r->number), item);
}

static sac_status read_row(eval_reader *r, const json_t *row) {
    eval_item item = {.kind = "#### ", .stops = {"Question:", "</s>", "<|im_end|>"}};
    SAC_TRY(eval_row_text(r, row, "question", &item.question));
    SAC_TRY(read_answer(r, row, &item));
    return add(r, &item, eval_row_format(r, "Question: %s\nAnswer:", item.question));
}

static sac_status read_cot(eval_reader *r, const json_t *row) {
    eval_item item = {.kind = "The answer is ", .stops = {"Q:", "</s>", "<|im_end|>"}};
    SAC_TRY(eval_row_text(r, row, "question", &item.question));
    SAC_TRY(read_answer(r, row, &item));
    return add(r, &item, eval_row_format(r, "%sQ: %s\nA:", examples, item.question));
}

const eval_bench eval_bench_gsm8k = {.name = "gsm8k",
                                     .title = "GSM8K",
                                     .fields = "question,answer,!",
                                     .scorer = &eval_scorer_gsm8k,
                                     .max_tokens = 256,
                                     .figure = "exact match (strict)",
                                     .main = "strict",
                                     .read = read_row};

const eval_bench eval_bench_gsm8k_cot = {.name = "gsm8k_cot",
                                         .title = "GSM8K, eight examples",
                                         .fields = "question,answer,!",
                                         .scorer = &eval_scorer_gsm8k,
                                         .max_tokens = 256,
                                         .figure = "exact match (strict)",
                                         .main = "strict",
                                         .read = read_cot};
