#!/usr/bin/env python3
"""Writes tests/golden/eval_scores.json: scores of some hundreds of answers by the benchmarks' official scorers.

    pip download --no-deps lmms-eval==0.7.3 pycocoevalcap==1.2 ms-vlmeval==0.0.20 llava-torch==1.2.2.post1 lm-eval==0.4.13 \
      opencompass==0.5.4 rouge==1.0.1 fuzzywuzzy==0.18.0 && unzip all into FOLDER, and of lmms-eval==0.5.0 lmms_eval/ as FOLDER/lmms_eval_0_5
    tools/make_eval_golden.py FOLDER > tests/golden/eval_scores.json        (needs numpy, PyYAML, six, and Java for the tokenizer)

The functions that each scorer below names are taken out of the packages' files and run as they are; random.choice is replaced, so that a draw
can be told. Nothing of theirs is stored but what they answer. Scripts that authors publish beside their data come from packages that carry
them: Video-MME's from lmms-eval 0.5, VideoChat2's check_ans for MVBench from ms-vlmeval (VLMEvalKit), POPE's evaluate.py from llava-torch, LongBench's
metrics.py from lm-eval and opencompass (with characters in place of jieba's words). MLVU's, StreamingBench's and InfiniteBench's are in no
package, nor vqaEval.py: tests/cli/eval_oracle.py has them from their definition."""
import ast
import contextlib
import io
import json
import math
import os
import random
import re
import statistics
import string
import subprocess
import sys
import tempfile
import types
from collections import Counter, defaultdict
from typing import Union

import numpy as np
import yaml

FOLDER = sys.argv[1]


class Draw(Exception):
    pass


def draw(_):
    raise Draw


def functions(path, *names, **more):
    """Functions and classes of a file, without its imports, which are `more`."""
    with open(os.path.join(FOLDER, path), encoding="utf-8") as f:
        tree = ast.parse(f.read())
    tree.body = [n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and n.name in names
                 or isinstance(n, ast.Assign) and getattr(n.targets[0], "id", "") in names]
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            node.decorator_list = []
    random.choice = draw

    class Log:
        info = staticmethod(lambda *_: None)
    scope = dict(re=re, np=np, random=random, math=math, statistics=statistics, string=string, eval_logger=Log, defaultdict=defaultdict,
                 os=os, json=json, Counter=Counter, Union=Union, **more)
    exec(compile(tree, path, "exec"), scope)
    return scope


TASKS = "lmms_eval/tasks/"
RESPONSES = [
    "", " ", "A", "B", "C", "D", "E", "a", "b", "A.", "B.", "(A)", "(B)", "(b)", "B)", "C) dog", "A. cat", "B. a red dog", "(C) 12%",
    "D: 7", "The answer is (B).", "The answer is B", "The answer is B.", "The best answer is C", "The correct answer is: D",
    "Best answer: C", "Answer: B", "answer: (b)", "I think it is B, not A.", "A or B", "(A) or (B)", "(B) then (A)",
    "Both A and B are right.", "A cat is sitting here", "A dog and B cat", "A man is walking with a red dog in the park today",
    "Option B is what I see in this picture here", "it must be a red dog, I am quite sure of that",
    "There is no way to tell from this picture, sorry.", "cat", "Cat", "CAT.", "a red dog", "A red dog.", "the red dog", "red dog!",
    "12%", "12 %", "0.12", "12", "12.0", "12,000", "12000", "1,234.50", "-5", "- 5", "5e3", "5000", "1e-2", "$12", "12 dollars",
    "about 12", "12.6", "11.5", "0", "0.0", "nan", "inf", "-inf", "%", "5%%", "1_000", "７", "٣", "½", "1/2", ".5", "5.", "+5", "yes",
    "Yes", "YES.", "Yes, there is.", "no", "No", "No, there is not.", "not", "There is no dog", "nothing", "None", "none", "zero", "ten",
    "two dogs", "Naïve café", "naïve café", "CAFÉ", "Straße", "STRASSE", "straße", "東京", "東京タワー", "Привет", "ΑΒΓ", "İstanbul", "🙂", "B 🙂",
    "\u3000B\u3000", "\u00a0C\u00a0", "don't", "dont", "isnt it", "it's", "its", "the dog's", "dogs'", "o'clock", "oclock", "youre",
    "shouldve", "couldn't've", "somebody'd", "maam", "yall", "a, b, c", "1,000 dogs", "dogs, cats", "a/b", "a-b", "x - y", "[B]", "{A}",
    "B;", "B:", "'B'", "\"B\"", "B?", "B!", "B,", "\nB\n", "B\nbecause", "A\tB", "B\\", "mr. smith", "3.14", "v1.2.3", "e.g. this.",
    "end.", "...", "1. B", "2) C", "A B C D", "ABCD", "ABC", "Aloha", "Because it is blue", "Dogs are nice", "So the result is 12",
    "therefore x = 3.5", "The final answer is 12,000 dollars.", "It could be 7.\nThus 8.", "x=3\ny=4", "is ", "answer ", "so = ",
    "1e5 and 2e-3", "Sentence A", "Sentence A.", "Option 1", "Caption B: a dog runs", "B: a dog runs", "a dog runs",
    "Sentence B: a dog runs", "Sentence A: a cat sits", "1", "A) a cat sits", "(A) a dog runs", "The man is facing left", "left", "Left",
    "leftt", "lift", "right left", "the united states", "united states", "USA", "Dr. Jane Doe", "jane doe", "Jane  Doe", "jane\tdoe",
    "2019-05-01", "May 1, 2019", "1 May 2019", "p. 12", "12 p.m.", "10:30", "10.30", "unanswerable", "I don't know", "E. none of these",
    "F", "(F)", "Z", "AA", "A A", "B B B", "A. B. C.", "C.", " C.", "C .", "( C )", "(C", "C)", "<B>", "B/C", "B&C", "the a an",
    "An apple a day", "THE", "hello, world", "1,2", "1, 2", "12,34", "1,2,3 dogs", "aint cant hadnt", "'", "''", "\"\"", "`B`", "~", "^",
    "*B*", "**B**", "_B_", "\\boxed{B}", "Final: B", "so B", "B because A is wrong", "A is wrong, so B.", "Not A. Not B. C.", "A man (B)",
    "It is A (not B).", "ab", "Bc", "b.", "c)", "(d)", "D", "#### 12", "####12", "7 + 5 = 12\n#### 12.", "#### $12,000", "#### 12,000 dollars", "#### -5",
    "so -5.\n#### 5000", "#### 1\n#### 12", "The answer is 12.", "The answer is 12,000", "The answer is -5. #### 7", "The answer is $12.", "y", "n.",
    "Paragraph 12", "Paragraph 1, not 12", "段落5", "段落5，不是12", "dog or red dog", "# x\nx=3", "\n\nx=3\n", "```\nx=3\n```", "The man is walking.",
    "A red dog sits. The man walks.", "東京。タワー",
]
CHOICE = [
    {"options": ["cat", "a red dog", "12%", "7"], "answer": "B"},
    {"options": ["left", "right", "The man", "naïve café", "none of these"], "answer": "C"},
    {"options": ["yes", "no"], "answer": "A"},
]


def table(items, score):
    """Scores of all responses to all items, a letter each: 0, 1, d for a draw, and f for a fraction, which are in a list."""
    rows, fractions = [], []
    for item in items:
        row = ""
        for response in RESPONSES:
            try:
                x = float(score(item, response))
                row += str(int(x)) if x in (0, 1) else "f"
                fractions += [round(x, 12)] if x not in (0, 1) else []
            except Draw:
                row += "d"
        rows.append(row)
    return {"items": items, "scores": rows, "fractions": fractions}


def letters(item):
    names = [chr(65 + i) for i in range(len(item["options"]))]
    return names, dict(zip(names, item["options"]))


def mmmu():
    choose = functions(TASKS + "_task_utils/mmmu_mcq_utils.py", "parse_mmmu_multi_choice_response")["parse_mmmu_multi_choice_response"]
    free = functions(TASKS + "mmmu/utils.py", "extract_numbers", "check_is_number", "normalize_str", "parse_open_response", "eval_open")
    questions = [{"answer": "12"}, {"answer": "3.5"}, {"answers": ["jane doe", "12,000"]}, {"answer": "B"}, {"answer": "$12"},
                 {"answers": ["0.12", "1/2"]}]

    def score(item, response):
        if "options" in item:
            return choose(response, *letters(item)) == item["answer"]
        return free["eval_open"](item.get("answers") or item["answer"], free["parse_open_response"](response))
    return table(CHOICE + questions, score)


def egoschema():
    choose = functions(TASKS + "egoschema/utils.py", "parse_multi_choice_response")["parse_multi_choice_response"]
    items = [dict(c, options=(c["options"] + ["none of these", "many"])[:5]) for c in CHOICE[:2]]
    return table(items, lambda item, response: choose(response, *letters(item))[0] == item["answer"])


def longvideobench():
    choose = functions(TASKS + "longvideobench/utils.py", "parse_multi_choice_response")["parse_multi_choice_response"]
    return table(CHOICE, lambda item, response: choose(response, *letters(item)) == item["answer"])


def scienceqa():
    f = functions(TASKS + "scienceqa/utils.py", "sqa_process_results", "sqa_doc_to_target")
    return table(
        CHOICE,
        lambda item, response: f["sqa_process_results"]({"choices": item["options"], "answer": ord(item["answer"]) - 65}, [response])[
            "exact_match"
        ],
    )


def mmbench():
    judge = functions(TASKS + "mmbench/mmbench_evals.py", "MMBench_Evaluator")["MMBench_Evaluator"]()
    items = [dict(c, options=c["options"][:4]) for c in CHOICE]
    return table(items, lambda item, response: judge.can_infer(response, dict(zip("ABCD", item["options"]))) == item["answer"])


def vqa():
    f = functions(TASKS + "_task_utils/vqa_eval_metric.py", "EvalAIAnswerProcessor")
    normalise, contractions = f["EvalAIAnswerProcessor"](), sorted(f["EvalAIAnswerProcessor"].CONTRACTIONS)

    def score(item, response):
        said, people = normalise(response), [normalise(a) for a in item["answers"]]
        others = ([p for j, p in enumerate(people) if i != j] for i in range(len(people)))
        return statistics.mean(min(1, float(o.count(said)) / 3) for o in others)

    items = [
        {"answers": a}
        for a in (
            ["12", "12", "twelve", "12.0", "12,000", "12000", "dont", "don't", "Don't!", "none"],
            ["a red dog", "the red dog", "red dog", "Red Dog.", "red-dog", "cat", "cat", "café", "it's", "its"],
            ["yes", "Yes", "no", "0", "zero", "none", "10", "ten", "2 dogs", "the a an"],
        )
    ]
    out = table(items, score)
    out["words"] = [[w, normalise(w)] for w in contractions]
    return out


def levenshtein(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        corner, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            corner, row[j] = row[j], min(corner + (x != y), row[j] + 1, row[j - 1] + 1)
    return row[-1]


def anls():
    f = functions("lmms_eval/api/metrics.py", "anls")
    f["levenshtein_distance"] = levenshtein
    items = [
        {"answers": a}
        for a in (["Dr. Jane Doe", "jane doe"], ["12%", "12 %"], ["united states"], ["May 1, 2019"], ["Straße"], ["東京タワー"], ["left"])
    ]
    return table(items, lambda item, response: f["anls"](item["answers"], [response])["anls"])


def relaxed():
    score = functions(TASKS + "chartqa/utils.py", "relaxed_correctness")["relaxed_correctness"]
    items = [{"answer": a} for a in ("12", "12%", "0.12", "0", "Yes", "-5", "5000", "Straße", "1/2")]
    return table(items, lambda item, response: score(response, item["answer"]))


def tempcompass():
    f = functions(TASKS + "tempcompass/utils.py", "eval_rule", "extract_pred", "tempcompass_process_results_multi_choice")
    f["get_eval_result"] = lambda *_: (None, 0)
    matching = "Which fits?\n{0} A: a cat sits\n{0} B: a dog runs"
    items = [
        {"kind": "multi-choice", "question": "q\nA. cat\nB. a red dog", "answer": "B. a red dog"},
        {"kind": "yes_no", "question": "q", "answer": "yes"},
        {"kind": "yes_no", "question": "q", "answer": "no"},
        {"kind": "caption_matching", "question": matching.format("Sentence"), "answer": "Sentence B: a dog runs"},
        {"kind": "caption_matching", "question": matching.format("Caption"), "answer": "Caption B: a dog runs"},
        {"kind": "caption_matching", "question": "Which?\nOption 1: left\nOption 2: right", "answer": "Option 1: left"},
    ]

    def score(item, response):
        if item["kind"] == "multi-choice":
            return f["tempcompass_process_results_multi_choice"](dict(item, video_id="v", dim="d"), [response])["avg_accuracy"]["rating"]
        if item["kind"] == "yes_no":
            return f["extract_pred"](response) == item["answer"]
        rating = f["eval_rule"](response, item["question"], item["answer"])
        return 0 if rating == "fail" else rating

    return table(items, score)


def videomme():
    read = functions("lmms_eval_0_5/tasks/videomme/utils.py", "extract_characters_regex")["extract_characters_regex"]
    return table([{"answer": c} for c in "ABD"], lambda item, response: read(response) == item["answer"])


def mvbench():
    """The response goes on from the prompt's "(", of which VideoChat2 takes the first line. Where its first word has none of the letters a to g
    the later check_ans says no; the packaged one, without that guard, takes what is part of "(b)", as "(" is."""
    check = functions("vlmeval/dataset/utils/mvbench.py", "check_ans")["check_ans"]

    def score(item, response):
        line = response.strip().split("\n")[0]
        said = line if line.startswith("(") else "(" + line
        right = f"({item['answer']}) {item['options'][ord(item['answer']) - 65]}"
        return any(c in said.lower().split(" ")[0] for c in "abcdefg") and check(said, right)

    return table(CHOICE, score)


def pope():
    """All responses under a mixed lot of labels, as a file of the benchmark has them, and the figures that the script prints."""
    judge = functions("llava/eval/eval_pope.py", "eval_pope")["eval_pope"]
    labels = ["yes" if i % 3 else "no" for i in range(len(RESPONSES))]
    answers = [{"text": r} for r in RESPONSES]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f, contextlib.redirect_stdout(io.StringIO()) as told:
        f.write("".join(json.dumps({"label": label}) + "\n" for label in labels))
        f.flush()
        judge(answers, f.name)
    said = {r: a["text"] for r, a in zip(RESPONSES, answers)}
    out = table([{"answer": "yes"}, {"answer": "no"}], lambda item, response: said[response] == item["answer"])
    out["labels"] = labels
    out["figures"] = {k: float(v) for k, v in re.findall(r"(Accuracy|Precision|Recall|F1 score|Yes ratio): (\S+)", told.getvalue())}
    return out


def exact():
    """lmms-eval strips answers before its exact_match (api/task.py), with the settings of gqa.yaml."""
    match = functions("lmms_eval/api/metrics.py", "exact_match_hf_evaluate")["exact_match_hf_evaluate"]

    def score(item, response):
        return match([response.strip()], [item["answer"]], ignore_case=True, ignore_punctuation=True)["exact_match"]

    return table([{"answer": a} for a in ("a red dog", "yes", "U.S.A", "naïve café", "12", "cat")], score)


def mme():
    read = functions(TASKS + "mme/utils.py", "parse_pred_ans")["parse_pred_ans"]
    return table([{"answer": "yes"}, {"answer": "no"}], lambda item, response: read(response) == item["answer"])


def gsm8k(which):
    """lm-eval's filters and metric, with the settings of its two tasks."""
    new_filter = functions("lm_eval/filters/extraction.py", "RegexFilter", Filter=object, Iterable=list, Sequence=list, Any=object)["RegexFilter"]
    match = functions("lm_eval/api/metrics.py", "exact_match_hf_evaluate")["exact_match_hf_evaluate"]
    filters, ignored = {}, {}
    for kind, file in ("#### ", "gsm8k.yaml"), ("The answer is ", "gsm8k-cot.yaml"):
        with open(os.path.join(FOLDER, "lm_eval/tasks/gsm8k", file), encoding="utf-8") as f:
            task = yaml.safe_load(f)
        settings, = (f["filter"][0] for f in task["filter_list"] if f["name"] == which)
        filters[kind] = new_filter(**{k: v for k, v in settings.items() if k != "function"})
        metric, = task["metric_list"]
        ignored[kind] = {k: metric[k] for k in ("regexes_to_ignore", "ignore_case", "ignore_punctuation")}

    def score(item, response):
        said = filters[item["kind"]].apply([[response]], [{}])[0][0]
        return match([said], ["So it is.\n#### " + item["answer"]], **ignored[item["kind"]])["exact_match"]

    return table([{"answer": a, "kind": k} for k in filters for a in ("12", "12,000", "-5", "5000", "1234.50")], score)


def longbench():
    sys.path.insert(0, FOLDER)
    import fuzzywuzzy.fuzz
    import rouge
    cut = types.SimpleNamespace(cut=lambda text, cut_all: list(text))
    names = ("normalize_answer", "normalize_zh_answer", "count_score", "retrieval_score", "retrieval_zh_score", "classification_score", "rouge_score",
             "rouge_zh_score", "f1_score", "qa_f1_score", "qa_f1_zh_score")
    rules = functions("lm_eval/tasks/longbench/metrics.py", *names, jieba=cut, Rouge=rouge.Rouge)
    code = functions("opencompass/datasets/longbench/evaluators.py", "LongBenchCodeSimEvaluator", BaseEvaluator=object, List=list,
                     fuzz=fuzzywuzzy.fuzz)["LongBenchCodeSimEvaluator"]()

    def score(item, response):
        if item["kind"] in ("trec", "triviaqa", "samsum", "lsht"):  # eval.py
            response = response.lstrip("\n").split("\n")[0]
        if item["kind"] == "lcc":
            return max(code.score([response], [[a]])["score"] for a in item["answers"]) / 100
        rule = rules[{"hotpotqa": "qa_f1_score", "triviaqa": "qa_f1_score", "multifieldqa_zh": "qa_f1_zh_score", "gov_report": "rouge_score", "samsum": "rouge_score",
                      "vcsum": "rouge_zh_score", "passage_count": "count_score", "passage_retrieval_en": "retrieval_score",
                      "passage_retrieval_zh": "retrieval_zh_score", "trec": "classification_score"}[item["kind"]]]
        return max(rule(response, a, all_classes=item.get("classes")) for a in item["answers"])

    items = [
        {"kind": "hotpotqa", "answers": ["a red dog", "12,000 dollars"]}, {"kind": "triviaqa", "answers": ["Jane Doe", "B because A"]},
        {"kind": "multifieldqa_zh", "answers": ["東京", "Привет, 12%"]}, {"kind": "gov_report", "answers": ["The man is walking. A red dog sits."]},
        {"kind": "samsum", "answers": ["There is no dog in the park today"]}, {"kind": "vcsum", "answers": ["東京タワー"]},
        {"kind": "passage_count", "answers": ["12"]}, {"kind": "passage_retrieval_en", "answers": ["Paragraph 12"]},
        {"kind": "passage_retrieval_zh", "answers": ["段落5"]}, {"kind": "trec", "answers": ["dog"], "classes": ["cat", "red dog", "dog", "yes"]},
        {"kind": "trec", "answers": ["red dog"], "classes": ["cat", "dog", "red dog", "yes"]}, {"kind": "lcc", "answers": ["x=3", "B because A is wrong"]},
    ]  # fmt: skip
    return table(items, score)


WORDS = {
    "who": [
        "a man",
        "two women",
        "the boy's dog",
        "a young girl",
        "an old man",
        "a group of people",
        "skateboarder",
        "3 cats",
        "a T-shirt clad surfer",
        "Mr. Smith",
    ],
    "does": [
        "is riding",
        "isn't holding",
        "stands next to",
        "are eating",
        "can't see",
        "looks at",
        "plays with",
        "jumps over",
        "is sitting on",
        "takes a photo of",
    ],
    "what": [
        "a red skateboard",
        "half-eaten pizza",
        "an old-fashioned clock",
        "a 10-year-old bike",
        "two dogs' toys",
        "the kite",
        "a wave",
        "a black-and-white cow",
        "ice cream",
        "a laptop",
    ],
    "where": [
        "on the street",
        "in a field.",
        "at 3:30 p.m.",
        "near the water!",
        "(outside)",
        "in front of a U.S. flag",
        "- at night",
        "by the man's car",
        "; it's sunny",
        "in the city, at dawn",
    ],
}


def captions():
    pick = random.Random(7)
    say = lambda: " ".join(pick.sample(WORDS[k], 1)[0] for k in ("who", "does", "what", "where"))
    odd = [
        "",
        "A",
        "  two  spaces ",
        "“Quoted” words — and a dash…",
        "A man's dog doesn't like the neighbour's centre.",
        "cannot gonna wanna gotta",
        "and/or 1/2 of it, $5 & 50% #1",
        "they're we've I'll he'd I'm shan't won't",
        "Café naïve ½ £5 €6",
        "[brackets] {braces} * star",
        "rock 'n' roll 'tis the '90s",
        "hello!! what?! ok",
        "-5 - dash -dash 5-6",
        "5'6\" tall",
        "<b>bold</b> & &amp; + =",
        "1,000 dogs, 3.5 cats .5",
        "women 's and it’s don’t",
        "Dr. Who vs. Jr. etc. and",
        "a a a a a a a a a a a a a a",
    ]
    images = [{"answers": [say() for _ in range(3)]} for _ in range(40)]
    said = [say() for _ in range(40 - len(odd))] + odd
    for i in range(0, 20):  # near the references
        said[i] = pick.choices(images[i]["answers"])[0] if i % 3 == 0 else said[i]
    return images, said


def cider():
    sys.path.insert(0, FOLDER)
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    images, said = captions()
    cut = PTBTokenizer().tokenize
    refs = cut({i: [{"caption": c} for c in image["answers"]] for i, image in enumerate(images)})
    res = cut({i: [{"caption": c}] for i, c in enumerate(said)})
    mean, scores = Cider().compute_score(refs, res)
    return {
        "items": images,
        "responses": said,
        "scores": [round(float(s), 12) for s in scores],
        "mean": round(float(mean), 12),
        "cut": [[c, res[i][0]] for i, c in enumerate(said) if i >= 20],
    }


def main():
    out = {
        "responses": RESPONSES,
        "scorers": {f.__name__: f() for f in (mmmu, egoschema, longvideobench, scienceqa, mmbench, vqa, anls, relaxed, tempcompass, videomme, mvbench, pope,
                                              exact, mme, longbench)}
        | {"gsm8k": gsm8k("strict-match"), "gsm8k_flexible": gsm8k("flexible-extract")},
        "cider": cider(),
    }
    print(json.dumps(out, ensure_ascii=False, separators=(",", ":")))


if __name__ == "__main__":
    main()
