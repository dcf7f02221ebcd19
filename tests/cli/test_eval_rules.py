"""saccade eval over texts and further pictures: GSM8K, LongBench, InfiniteBench, VQAv2, GQA, MME. Scores of odd answers are equal, question
by question, to the rules' definitions (eval_oracle.py); prompts, cuts in the middle and lengths of answers; what is damaged is one line."""

import json
import os
import random
import subprocess
import sys

import eval_oracle
from cli import ROOT, Case, main, saccade
from eval_samples import lines

ODD = [
    "", " ", "4", "#### 4", "#### 4.", "#### -5", "####4", "so #### 1,234 dollars", "#### $1,234", "The answer is 4.", "The answer is 42",
    "The answer is 4", "The answer is -5", "The answer is $7.", "The answer is 1,234.5 now", "it costs $1,234.50.", "x = 4, y = 5", "- 5", "٣", "3.5.",
    "4\n\n5", ".", "$", "..", "-", "#### .", "Yes", "yes.", "NO", "n", "Y", "y.", "no way", "I know", "a yes", "Nope", "yes no", "The circle.",
    "a circle", "CIRCLE!", "circle ", "an an the", "the", "red circle, blue square", "Red  circle\nBlue square.", "A red circle. It is blue.",
    "...", ". .", "circle.circle.circle", "don't", "dont", "two", "2", "none", "0", "The U.S.A", "東京タワー", "東京。タワー", "东京 塔，红色", "段落3", "段落 3，不是4",
    "Paragraph 3", "Paragraph 13", "It is 3, or 3, or 4.", "3", "３", "Date", "Other date", "Date and Other date", "\nDate\nOther", "Other", "x = 1",
    "\n\nx = 1\ny = 2", "```python\nx = 1\n```", "# comment\nx = 2", "// c\nreturn y", "`x`", "return x + 1;", "A", "B.", "b", "C. f", "I think (B)", "A or B? B", "B or A", "A\nB", "no\nA or B\nC", "_B", "B_", "éB", "Bé", "J B", "B J", "2B", "f2 it is", "The answer is: B",
    "the answer is:B", "answer: f2", "Answer: f2", "option is D", "Option B", "The correct option is: B. f2", "is: f2", "f2", "AB", "it is BC B", "answer is:",
    "71432", "071432", "The pass key is 71432.", "71432 is it", "key: 'aa-bb'", "{\"aa-bb\"}", "aa-bb.", "aa-bbc", "8", "-8", "+8", "1_0", "the value is 8.", "8 .",
    "3.0", "3.00 or 4", "03", "[1, 4, 8]", "1 4 9", "1, 04, 8, 2", "JOHN", "it was john smith", "Straße", "STRASSE", "ünïcode A", "I\u0307",
    "one red circle\ntwo blue squares", "two blue\none red", "red red red", "circle circle blue red one two", "\u212aelvin 12a", "a–b", "_a_", "x" * 300 + "y",
]  # fmt: skip


class Rules(Case):
    def score(self, file, rows, answers, *options, folder=None):
        """The command's scores of rows with a key `id`-less file: {question_id: response}."""
        folder = folder or "set"
        os.makedirs(os.path.join(self.folder, folder), exist_ok=True)
        set_file = self.path(os.path.join(folder, file), rows if isinstance(rows, str) else lines(rows))
        given = self.path("answers.jsonl", lines([dict(question_id=i, response=r) for i, r in answers.items()]))
        run = saccade("eval", set_file, "--answers", given, "--json", *options)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        return json.loads(run.stdout)

    def check(self, file, samples, ids, figure=lambda scores: scores["all"]["score"], *options):
        """samples: [(row, response, expected)]. All of them, then those whose number has a bit: no two errors hide each other."""
        self.assertGreaterEqual(len(samples), 20)
        for bit in [None, *range((len(samples) - 1).bit_length())]:
            some = [s for i, s in enumerate(samples) if bit is None or i >> bit & 1]
            answers = {ids(row, i): response for i, (row, response, _) in enumerate(some, 1)}
            found = figure(self.score(file, [row for row, _, _ in some], answers, *options))
            expected = sum(e for _, _, e in some) / len(some)
            if abs(found - expected) > 1e-8:
                for row, response, e in some:
                    one = figure(self.score(file, [row], {ids(row, 1): response}, *options))
                    self.assertAlmostEqual(one, e, places=8, msg=(file, row, response))
            self.assertAlmostEqual(found, expected, places=8, msg=file)
        self.assertTrue(any(e for _, _, e in samples) and not all(e == 1 for _, _, e in samples), file)

    def test_gsm8k(self):
        targets = ["4", "1,234", "-5", "42", "0", "1234.5"]
        for name, cot in ("gsm8k", False), ("gsm8k_cot", True):
            for k, figure in enumerate(("strict", "flexible")):
                samples = [
                    (dict(question="q", answer=f"It is so.\n#### {t}"), r, eval_oracle.gsm8k(t, r, cot)[k]) for t in targets for r in ODD
                ]
                self.check(
                    "test.jsonl", samples, lambda row, i: f"test-{i}", lambda s, f=figure: s["all"]["figures"][f], "--benchmark", name
                )

    def test_gqa(self):
        samples = [
            (dict(id=f"{i}", imageId="x", question="q", answer=a, isBalanced=True), r, eval_oracle.gqa(a, r))
            for i, (a, r) in enumerate((a, r) for a in ("circle", "yes", "U.S.A") for r in ODD)
        ]
        self.check("gqa.jsonl", samples, lambda row, i: row["id"])

    def test_vqav2(self):
        """People who agree are compared as they stand; others, and the model, lose punctuation, articles and spelled digits."""
        people = [["2"] * 10, ["2"] * 3 + ["two"] * 3 + ["none"] * 4, ["a circle", "circle", "Circle."] + ["red"] * 7, ["Yes"] * 10]
        cases = [  # (people, answer, matches of ten)
            (0, "2", 10), (0, "two", 10), (0, " 2\n", 10), (0, "2.", 10), (0, "3", 0), (0, "", 0), (1, "2", 6), (1, "Two", 6), (1, "none", 4), (1, "0", 4),
            (1, "the 2", 6), (1, "2 dogs", 0), (1, "2!", 6), (2, "the circle", 3), (2, "CIRCLE", 3), (2, "circle.", 3), (2, "red", 7), (2, "A red", 7),
            (2, "red circle", 0), (2, "red?", 7), (3, "yes", 0), (3, "Yes", 0), (2, "an circle", 3),
        ]  # fmt: skip
        samples = []
        for i, (who, said, n) in enumerate(cases):
            mean = (n * min(1, (n - 1) / 3) + (10 - n) * min(1, n / 3)) / 10 if n else 0
            answers = [dict(answer=a, answer_id=k + 1, answer_confidence="yes") for k, a in enumerate(people[who])]
            samples.append((dict(question_id=i, question="q", image="x.jpg", answer_type="other", answers=answers), said, mean))
        self.check("v.jsonl", samples, lambda row, i: str(row["question_id"]))

    def test_mme(self):
        rng, rows = random.Random(3), []
        for category in "existence", "color", "OCR", "code_reasoning", "text_translation":
            for picture in range(6):
                for label in "Yes", "No":
                    said = label.lower() if rng.random() < 0.6 else rng.choice(ODD)
                    rows.append((category, f"{category}/{picture}.jpg", label, said))
        official = eval_oracle.mme(rows)
        table = [dict(question_id=p, category=c, question="Is it? Please answer yes or no.", answer=a, image="x.jpg") for c, p, a, _ in rows]
        scores = self.score("m.jsonl", table, {f"m-{i + 1}": r[3] for i, r in enumerate(rows)})
        figures = scores["all"]["figures"]
        self.assertAlmostEqual(figures["perception"], official["existence"] + official["color"] + official["OCR"], places=4)
        self.assertAlmostEqual(figures["cognition"], official["code_reasoning"] + official["text_translation"], places=4)
        self.assertAlmostEqual(scores["score"], figures["perception"])
        for category, points in official.items():
            own = scores["by"]["category"][category]["figures"]
            self.assertAlmostEqual(own["perception"] + own["cognition"], points, places=4)
        samples = [
            (dict(question_id=f"{i}", category="color", question="q", answer=a, image="x"), r, eval_oracle.mme_answer(r) == a.lower())
            for i, (a, r) in enumerate((a, r) for a in ("Yes", "No") for r in ODD)
        ]
        self.check("n.jsonl", samples, lambda row, i: f"n-{i}")

    def row(self, dataset, i, answers, **more):
        return dict(input="q", context="c", answers=answers, dataset=dataset, all_classes=None, length=5000, language="en", _id=f"{i}", **more)

    def test_longbench(self):
        names = ["Date", "Other date", "Other", "x"]
        long = "The red circle is left of a blue square. It moves. The circle then moves right, and the square stays."
        answers = {
            "f1": [["circle"], ["The red circle", "blue square"], ["a–b", "x_y"]],
            "rouge": [[long], ["circle. red circle blue", "one two"], ["Red circle Blue square"]],
            "f1_zh": [["东京塔"], ["東京タワー", "红色"]],
            "rouge_zh": [["东京塔。红色.蓝色"], ["東京タワー"]],
            "count": [["3"], ["13"]],
            "paragraph": [["Paragraph 3"], ["see Paragraph 13"]],
            "paragraph_zh": [["段落3"]],
            "code": [["x = 1"], ["return x + 1;"], ["x" * 150 + "yz" * 60], [""]],
        }
        more = [long, long.replace("circle", "square"), "x" * 250, "yz" * 100 + "x" * 60, "return x+1", "moves circle the red"]
        for dataset, rule in eval_oracle.LONGBENCH.items():
            if rule == "class":  # below
                continue
            pairs = [(a, r) for a in answers[rule] for r in ODD + more]
            samples = [(self.row(dataset, i, a), r, eval_oracle.longbench(dataset, a, r)) for i, (a, r) in enumerate(pairs)]
            self.check("l.jsonl", samples, lambda row, i, d=dataset: f"{d}-{row['_id']}")
        for dataset in "trec", "lsht":
            pairs = [(a, r) for a in names for r in ODD + ["Other date x", "x Date"]]
            samples = []
            for i, (a, r) in enumerate(pairs):
                row = dict(self.row(dataset, i, [a]), all_classes=names)
                samples.append((row, r, eval_oracle.longbench(dataset, [a], r, names)))
            self.check("l.jsonl", samples, lambda row, i, d=dataset: f"{d}-{row['_id']}")

    def test_longbench_has_few_classes_and_answers(self):
        for field, most in ("all_classes", 256), ("answers", 2048):
            row = dict(self.row("trec", 0, ["a"]), **{field: ["a"] * (most + 1)})
            self.assert_refused(saccade("eval", self.path("l.jsonl", lines([row]))), 65, f"{field}: expected at most {most} texts, found {most + 1}")

    def test_longbench_is_a_mean_over_datasets_and_buckets(self):
        rows = [self.row("qasper", i, ["circle"]) for i in range(3)] + [dict(self.row("lcc_e", 0, ["x = 1"]), length=9000)]
        rows[0]["length"] = 3999
        answers = {"qasper-0": "circle", "qasper-1": "circle", "qasper-2": "no", "lcc_e-0": "x = 1"}
        scores = self.score("q.jsonl", rows, answers)
        self.assertAlmostEqual(scores["score"], (2 / 3 + 1) / 2)
        self.assertEqual({k: v["score"] for k, v in scores["by"]["length"].items()}, {"0-4k": 1, "4-8k": 0.5, "8k+": 1})

    def test_infinitebench(self):
        options = ["f1", "f2", "f3", "f4"]
        label = {
            "passkey": ["71432"], "number_string": ["071432"], "kv_retrieval": ["aa-bb"], "code_run": [8], "code_debug": ["f2", "B"],
            "longbook_choice_eng": ["f2", "B"], "math_find": [3], "math_calc": [1, 4, 8], "longdialogue_qa_eng": ["JOHN", "Straße"],
            "longbook_qa_eng": ["The red circle", "blue"], "longbook_qa_chn": ["东京塔", "红色"],
            "longbook_sum_eng": ["One red circle.\nTwo blue squares, two!", "circle"],
        }  # fmt: skip
        inputs = {"code_run": "What does func_1(-2) give?", "math_find": "The smallest number of the list is"}
        for task, right in label.items():
            for found in [right] + ([[3.0], [3.5]] if task == "math_find" else []):
                official = found[:1] if task in ("code_debug", "longbook_choice_eng") else found
                row = dict(context="c", input=inputs.get(task, "q"), answer=official, options=options)
                samples = [(dict(row, id=i), r, eval_oracle.infinitebench(task, found, r)) for i, r in enumerate(ODD)]
                self.check(f"{task}.jsonl", samples, lambda r, i, t=task: f"{t}-{r['id']}")


class Asked(Case):
    def ask(self, file, rows, *options):
        out = self.path("out_" + file)
        run = saccade("eval", self.path(file, lines(rows)), "--threads", "1", "--out", out, *options)
        self.assertEqual(run.returncode, 0, run.stderr)
        with open(os.path.join(out, "journal.jsonl"), encoding="utf-8") as f:
            return [json.loads(r) for r in f.read().splitlines()][1:]

    def test_a_text_is_cut_in_its_middle(self):
        row = dict(input="What is it?", context="It is a circle. " * 500, answers=["x"], length=9, dataset="hotpotqa", all_classes=None)
        whole, = self.ask("w.jsonl", [dict(row, context="It is.")])
        self.assertNotIn("left_out_tokens", whole)
        cut, = self.ask("c.jsonl", [row], "--ctx", "300")
        self.assertTrue(260 <= cut["prompt_tokens"] <= 300 - 32)  # an answer has 32 tokens at most
        self.assertGreater(cut["left_out_tokens"], 1000)
        with open(os.path.join(self.folder, "out_c.jsonl", "journal.jsonl"), encoding="utf-8") as f:
            self.assertEqual(json.loads(f.readline())["set"]["name"], "longbench")

    def test_answers_are_as_long_as_the_benchmark_lets_them(self):
        row = dict(context="There is text. " * 4, input="What is the pass key?", answer=["1"], options=[], id=0)
        record, = self.ask("passkey.jsonl", [row])
        self.assertLessEqual(record["answer_tokens"], 6)

    def test_damaged(self):
        infinite, long = dict(id=0, context="c", input="q", answer=["x"], options=["x"]), Rules.row(self, "qasper", 1, ["x"])
        mme = dict(question_id="a", category="color", question="q", answer="Maybe", image="x")
        for file, row, says in (
            ("a.jsonl", dict(question="q", answer="42 without a mark" * 20), "answer: expected a number behind ####"),
            ("b.jsonl", dict(long, dataset="other"), "dataset: 'other' is none of LongBench's"),
            ("c.jsonl", dict(long, answers="x"), "answers: expected a list"),
            ("d.jsonl", dict(long, length=-1), "length: expected a whole number"),
            ("e.jsonl", infinite, "the file's name: 'e' is no task"),
            ("passkey.jsonl", dict(infinite, answer=[{}]), "answer: expected texts"),
            ("passkey.jsonl", dict(infinite, answer=[]), "answer: is empty"),
            ("passkey.jsonl", dict(infinite, answer=[71432]), "answer: expected texts"),
            ("code_run.jsonl", dict(infinite, input="func_1(2)", answer=["8"]), "answer: expected numbers"),
            ("math_calc.jsonl", dict(infinite, answer=[[1, "4"]]), "answer: expected numbers"),
            ("n.jsonl", dict(mme, answer="Yes", category="colour"), "category: 'colour' is none of MME's"),
            ("code_debug.jsonl", infinite, "options: expected 2 to 26 options, found 1"),
            ("code_debug.jsonl", dict(infinite, options=list("xyz")), "options: expected 4 options, found 3"),
            ("code_debug.jsonl", dict(infinite, answer=["no"], options=list("wxyz")), "answer: expected one of the options"),
            ("code_run.jsonl", dict(infinite, answer=[8]), "input: expected a call"),
            ("math_find.jsonl", dict(infinite, answer=[8]), "input: expected 'The ... of'"),
            ("f.jsonl", mme, "answer: expected Yes or No, found 'Maybe'"),
            ("g.jsonl", dict(question_id=1, question="q", image="x", answer_type="o", answers=[7]), "answers: expected texts"),
            ("h.jsonl", dict(question_id=1, question="q", image="../x", answer_type="o", answers=["x"]), "image: expected the name of a file below"),
            ("i.jsonl", dict(imageId="/etc/passwd", question="q", answer="x", isBalanced=True), "imageId: expected the name of a file below"),
        ):
            with self.subTest(says):
                self.assert_refused(saccade("eval", self.path(file, lines([row]))), 65, says)

    def test_mme_of_its_own_files(self):
        """CATEGORY.txt, and a file beside each picture: a question a line, fields between tabs."""
        os.makedirs(os.path.join(self.folder, "OCR"))
        all_in_one = self.path("color.txt", "1.jpg\tIs it red? Please answer yes or no.\tYes\n1.jpg\tIs it blue? Please answer yes or no.\tNo\n")
        self.path("OCR/7.png", b"")
        alone = self.path("OCR/7.txt", "Is it 7? Please answer yes or no.\tYes\nIs it 8? Please answer yes or no.\tNo\n")
        tool, out = [sys.executable, os.path.join(ROOT, "tools/convert_eval.py"), "mme"], self.path("mme.jsonl")
        run = subprocess.run([*tool, all_in_one, alone, out], capture_output=True, text=True, check=False)
        self.assertEqual((run.returncode, run.stdout), (0, "4 questions\n"), run.stderr)
        given = self.path("answers.jsonl", lines([dict(question_id=f"mme-{i + 1}", response=r) for i, r in enumerate(("yes", "no", "yes", "yes"))]))
        scores = json.loads(saccade("eval", out, "--answers", given, "--json").stdout)
        self.assertEqual(scores["score"], 200 + 50)
        self.assertEqual({k: v["questions"] for k, v in scores["by"]["category"].items()}, dict(color=2, OCR=2))
        run = subprocess.run([*tool, self.path("x.txt", "one\n"), out], capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 1)
        self.assertIn("x.txt:1: two or three fields", run.stderr)

    def test_vqav2_answers_lie_beside(self):
        questions = dict(questions=[dict(image_id=42, question="What?", question_id=i) for i in (1, 2)], data_subtype="val2014")
        answer = [dict(answer=a, answer_id=i) for i, a in enumerate(["red", "Red"] * 5)]
        notes = dict(annotations=[dict(question_id=1, answer_type="other", question_type="what", answers=answer)])
        folder = self.path("vqa")
        os.mkdir(folder)
        self.path("vqa/v2_mscoco_val2014_annotations.json", json.dumps(notes))
        self.path("vqa/v2_OpenEnded_mscoco_val2014_questions.json", json.dumps(questions))
        given = self.path("answers.jsonl", lines([dict(question_id=str(i), response="red") for i in (1, 2)]))
        scores = json.loads(saccade("eval", folder, "--answers", given, "--json").stdout)
        self.assertEqual((scores["all"]["questions"], scores["unscored"], scores["score"]), (1, 1, 1))
        self.path("vqa/v2_mscoco_val2014_annotations.json", json.dumps(dict(annotations=[dict(question_id="x")])))
        self.assert_refused(saccade("eval", folder), 65, "annotation 1: question_id: expected a whole number")
        for text, words in (
            ('{"annotations": [{"question_id": 1, "answers": ["' + "x" * 70000 + '"]}]}', "annotation 1: more than 65536 bytes"),
            ('{"annotations": {}}', "annotations: expected a list of objects"), ("[]", "annotations: expected a list of objects"), ("{}", "expected a list"),
            ('{"annotations": [{"question_id": 1}', "v2_mscoco_val2014_annotations.json"), ('{"annotations": []} x', "v2_mscoco_val2014_annotations.json"),
        ):  # fmt: skip
            self.path("vqa/v2_mscoco_val2014_annotations.json", text)
            self.assert_refused(saccade("eval", folder), 65, words)


if __name__ == "__main__":
    main()
