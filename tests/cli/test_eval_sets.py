"""saccade eval over the benchmarks: rows in each official layout asked by the demo model, whole way through; scores equal
to the rules' definitions; what is damaged is one line; the page to look through answers."""

import base64
import hashlib
import html.parser
import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
import unittest

import eval_oracle
from cli import ROOT, SACCADE, Case, main, saccade, write_png
from eval_samples import VIDEOS, choice, lines, sets, table

ODD = [
    "",
    " ",
    "A",
    "B.",
    "(B)",
    "(b)",
    "b",
    "C) x",
    "The answer is (B).",
    "A or B",
    "yes",
    "No",
    "No, there is not.",
    "not",
    "Yes. no",
    "nothing, no",
    "12%",
    "東京",
    "Ä)",
    ")",
    ") B",
    "B) because (A)",
    "a b",
    "abc",
    "(",
    "()",
    "\nB",
    "B\nA",
    "🙂 B",
    "(B",
    "x) B)",
    "D",
    "Best option: (C)",
    "\u00a0B",
    "no,",
    "No.",
    "know",
    "The picture, no doubt, shows it",
]


class SetsCase(Case):
    rows = 3  # of a set

    def write(self, name, files):
        folder = self.path("set_" + name)
        for file, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(folder, file)), exist_ok=True)
            with open(os.path.join(folder, file), "w", encoding="utf-8") as f:
                f.write(text)
        return folder if sum("/" not in f and f != "subset_answers.json" for f in files) > 1 else os.path.join(folder, next(iter(files)))

    def run_set(self, name, *options, code=0):
        files, media, n, dimensions = sets(self.rows)[name]
        path = self.write(name, files)
        few = ["--max-frames", 4] if self.rows > 3 else []
        run = saccade("eval", path, *(["--videos", media] if media else []), "--threads", "1", *few, *options)
        self.assertEqual(run.returncode, code, run.stderr)
        return run, path, n, dimensions

    def score(self, name, files, answers, *options):
        """--answers of {id: response}, as JSON."""
        rows = self.path("answers.jsonl", lines([dict(question_id=i, response=r) for i, r in answers.items()]))
        run = saccade("eval", self.write(name, files), "--answers", rows, "--json", *options)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        return json.loads(run.stdout)


class WholeWay(SetsCase):
    def check(self, name):
        out, page = self.path(name), self.path(name + ".html")
        run, path, n, dimensions = self.run_set(name, "--json", "--out", out, "--html", page)
        scores = json.loads(run.stdout)
        self.assertEqual((run.stderr, scores["set"], scores["questions"], scores["errors"]), ("", name, n, 0))
        self.assertEqual(set(scores["by"]), dimensions)
        with open(os.path.join(out, "journal.jsonl"), encoding="utf-8") as f:
            journal = f.read()
        rows = [json.loads(r) for r in journal.splitlines()]
        self.assertEqual((len(rows), rows[0]["set"]["name"]), (1 + n, name))
        result = json.load(open(os.path.join(out, "result.json"), encoding="utf-8"))
        self.assertEqual([r["question_id"] for r in result], [r["question_id"] for r in rows[1:]])
        self.assertEqual([r["response"] for r in result], [r["response"] for r in rows[1:]])
        for value in scores["by"].values():
            self.assertTrue(all(0 < v["questions"] <= n for v in value.values()))
        if name in ("mvbench", "pope"):
            self.run_set(name, "--out", out)  # nothing is asked again
            self.assertEqual(open(os.path.join(out, "journal.jsonl"), encoding="utf-8").read(), journal)
        again = saccade("eval", path, "--answers", os.path.join(out, "result.json"), "--json")
        self.assertEqual(json.loads(again.stdout)["score"], scores["score"])
        return scores, rows[1:], page

    def test_videos(self):
        for name in "mvbench", "mlvu", "egoschema", "nextqa", "streamingbench":
            with self.subTest(name):
                scores, rows, _ = self.check(name)
                self.assertTrue(all(r["frames"] > 0 for r in rows))
        self.assertEqual(scores["unscored"], 0)

    def test_pictures(self):
        for name in "mmmu", "mmbench", "textvqa", "docvqa", "chartqa", "pope", "coco":
            with self.subTest(name):
                scores, rows, _ = self.check(name)
                self.assertTrue(all(r["visual_tokens"] > 0 for r in rows))

    @unittest.skipUnless(os.path.exists(os.path.join(os.path.dirname(SACCADE), "libsaccade.so")), "in the build with the shared library")
    def test_twenty_of_each(self):
        """Twenty questions or more of every benchmark, whole way through; what was answered scores the same once more."""
        self.rows = 20
        n = 0
        for name in sets():
            with self.subTest(name):
                scores, rows, _ = self.check(name)
                self.assertGreaterEqual(len(rows), 20)
                self.assertTrue(all("error" not in r and r["answer_tokens"] >= 0 for r in rows))
                n += len(rows)
        out = self.path("videomme")
        run = saccade("eval", "samples/drawn/set.json", "--limit", 20, "--json", "--out", out, "--threads", 1, "--max-frames", 4)
        scores = json.loads(run.stdout)
        self.assertEqual((run.returncode, scores["questions"], scores["errors"]), (0, 20, 0))
        again = json.loads(saccade("eval", "--score", os.path.join(out, "result.json"), "--json").stdout)
        self.assertEqual(again["scores"], scores["scores"])
        print(f"{n + 20} questions of {len(sets()) + 1} benchmarks")

    def test_longvideobench_has_subtitles_between_frames(self):
        scores, rows, _ = self.check("longvideobench")
        self.assertEqual((scores["unscored"], scores["all"]["questions"]), (1, 2))  # correct_choice -1: a test split
        alone, between, _ = rows
        self.assertGreater(between["visual_tokens"], alone["visual_tokens"] / alone["frames"])
        # subtitles that come, change or go between two runs: half of the answers would have been given without them
        path, out = self.path("set_longvideobench/lvb_val.json"), self.path("longvideobench")
        files = [self.path(f"set_longvideobench/subtitles/{VIDEOS[i]}_en.json") for i in (0, 1)]
        shutil.copy(files[1], files[0])
        again = saccade("eval", path, "--videos", "samples/drawn", "--threads", "1", "--out", out)
        self.assertRegex(again.stderr, r'set\.subtitles is "[0-9a-f]{16}" there and "[0-9a-f]{16}" now')
        self.assertEqual(again.returncode, 78)
        os.remove(files[0])
        self.assertEqual(saccade("eval", path, "--videos", "samples/drawn", "--threads", "1", "--out", out).returncode, 0)

    def test_egoschema_has_answers_beside(self):
        run, *_ = self.run_set("egoschema", "--json")
        self.assertEqual((json.loads(run.stdout)["unscored"], json.loads(run.stdout)["all"]["questions"]), (1, 2))

    def test_tempcompass_captions_are_not_scored(self):
        scores, _, _ = self.check("tempcompass")
        self.assertEqual((scores["unscored"], scores["all"]["questions"]), (1, 8))
        self.assertNotIn("captioning", scores["by"]["task"])

    def test_scienceqa_asks_the_test_split(self):
        scores, rows, _ = self.check("scienceqa")
        self.assertEqual({k: v["questions"] for k, v in scores["by"]["context"].items()}, {"IMG": 1, "TXT": 1, "NO": 1})
        self.assertEqual({k: v["questions"] for k, v in scores["by"]["grades"].items()}, {"G1-6": 2, "G7-12": 1})
        self.assertEqual([r["visual_tokens"] > 0 for r in rows], [True, False, False])

    def test_a_stretch_shows_fewer_frames(self):
        files = {"t.json": json.dumps([choice(0, video="drawn003_64.mp4", start=0, end=4), choice(1, video="drawn003_64.mp4")])}
        out = self.path("out")
        run = saccade("eval", self.write("stretch", files), "--videos", "samples/drawn", "--out", out, "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        rows = [json.loads(r) for r in open(os.path.join(out, "journal.jsonl"))][1:]
        self.assertLess(rows[0]["frames"], rows[1]["frames"])

    def test_a_stretch_of_a_turned_video(self):
        """As it is stored, and beside a folder that has its name."""
        os.makedirs(self.path("media/rotated"))
        shutil.copy("tests/golden/video/rotated.mp4", self.path("media"))
        rows = [dict(choice(0, video="rotated"), start=0, end=0.5)]
        for option in [], ["--no-rotate"]:
            task = self.path("task.json", json.dumps(rows))
            run = saccade("eval", task, "--videos", self.path("media"), "--benchmark", "mvbench", *option)
            self.assertEqual((run.returncode, run.stderr), (0, ""))

    def test_prompts(self):
        tokens = {}
        for prompt in "official", "bare", "open", "{question}":
            out = self.path("p" + str(len(tokens)))
            self.run_set("nextqa", "--prompt", prompt, "--limit", 1, "--out", out)
            rows = [json.loads(r) for r in open(os.path.join(out, "journal.jsonl"))]
            tokens[prompt] = rows[1]["prompt_tokens"]
        self.assertEqual(rows[0]["prompt"], "{question}")
        self.assertGreater(tokens["official"], tokens["bare"])
        self.assertGreater(tokens["bare"], tokens["open"])
        self.assertEqual(tokens["open"], tokens["{question}"])
        run, *_ = self.run_set("nextqa", "--prompt", "lmms-eval", code=64)
        self.assertIn("lmms-eval is for Video-MME", run.stderr)

    def test_open_answers_are_looked_up(self):
        files = {"val.csv": sets()["nextqa"][0]["val.csv"]}
        run = self.score("nextqa", files, {f"{VIDEOS[0]}-0": "Red.", f"{VIDEOS[1]}-1": "blue"}, "--prompt", "open")
        self.assertAlmostEqual(run["score"], 1 / 3)


class Scores(SetsCase):
    def test_pope_by_split(self):
        pick, labels, answers, files = random.Random(1), {}, {}, {}
        for split in "random", "popular", "adversarial":
            rows = [
                dict(question_id=i, image="x.jpg", text="Is there a dog?", label=pick.choice(["yes", "no"])) for i in range(3 * len(ODD))
            ]
            files[f"coco_pope_{split}.json"] = lines(rows)
            for row in rows:
                answers[f"{split}-{row['question_id']}"], labels[f"{split}-{row['question_id']}"] = (
                    ODD[row["question_id"] % len(ODD)],
                    row["label"],
                )
        scores = self.score("pope", files, answers)
        for split, got in [("", scores["all"])] + list(scores["by"]["split"].items()):
            hand = eval_oracle.pope([(labels[i], answers[i]) for i in answers if i.startswith(split)])
            for key, value in hand.items():
                self.assertAlmostEqual(got["score"] if key == "score" else got["figures"][key], value, places=8, msg=(split, key))

    def check_letters(self, name, rule, make):
        """Every odd answer to questions with each letter right."""
        rows = [make(i, "ABC"[i % 3]) for i in range(3 * len(ODD))]
        files, ids = {"task.json": json.dumps(rows)}, lambda i: f"{rows[i].get('question_type', 'task')}-{i + 1}"
        answers = {ids(i): ODD[i // 3] for i in range(len(rows))}
        path = self.write(name, files)
        rows_file = self.path("a.jsonl", lines([dict(question_id=i, response=r) for i, r in answers.items()]))
        run = saccade("eval", path, "--answers", rows_file, "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        right = [rule("ABC"[i % 3], ODD[i // 3]) for i in range(len(rows))]
        self.assertAlmostEqual(json.loads(run.stdout)["score"], sum(right) / len(right), places=8)
        self.assertTrue(0 < sum(right) < len(right))

    def test_mvbench(self):
        self.check_letters(
            "mvbench",
            eval_oracle.mvbench,
            lambda i, letter: dict(video="x.mp4", question="q", candidates=["u", "v", "w"], answer="uvw"["ABC".index(letter)]),
        )

    def test_mlvu(self):
        self.check_letters(
            "mlvu",
            eval_oracle.mlvu,
            lambda i, letter: dict(
                video="x.mp4",
                duration=1,
                question_type="ego",
                question="q",
                candidates=["u", "v", "w"],
                answer="uvw"["ABC".index(letter)],
            ),
        )

    def test_streamingbench(self):
        questions = [
            dict(task_type="t", question="q", time_stamp="00:01", answer="ABCD"[i % 4], options=["A. u", "B. v", "C. w", "D. x"])
            for i in range(4 * len(ODD))
        ]
        files = {"q.json": json.dumps([dict(time="", video_path="x.mp4", questions=questions)])}
        answers = {f"q-1-{i + 1}": ODD[i // 4] for i in range(len(questions))}
        right = [eval_oracle.first_letter("ABCD"[i % 4], ODD[i // 4]) for i in range(len(questions))]
        self.assertAlmostEqual(self.score("streamingbench", files, answers)["score"], sum(right) / len(right), places=8)

    def test_means_over_tasks(self):
        files = {f"{t}.json": json.dumps([choice(i, video="x.mp4") for i in range(n)]) for t, n in (("one", 1), ("three", 3))}
        scores = self.score("mvbench", files, {"one-1": "B)", "three-1": "(B)"})
        self.assertAlmostEqual(scores["score"], (1 + 1 / 3) / 2)
        self.assertAlmostEqual(scores["all"]["score"], 2 / 4)

    def test_circular(self):
        rows = [
            dict(index=i + 1000000 * k, question="q", A="u", B="v", C="w", D="x", answer="ABCD"[k], category=f"c{i % 2}", image="x.png")
            for i in range(6)
            for k in range(4)
        ]
        pick = random.Random(2)
        answers = {str(r["index"]): r["answer"] if pick.random() < 0.8 else "C." for r in rows}
        right = {r["index"]: answers[str(r["index"])][0] == r["answer"] for r in rows}
        scores = self.score("mmbench", {"m.tsv": table(rows, "\t")}, answers)
        self.assertAlmostEqual(scores["score"], eval_oracle.circular(right), places=8)
        self.assertAlmostEqual(
            scores["by"]["category"]["c1"]["score"], eval_oracle.circular({i: r for i, r in right.items() if i % 2}), places=8
        )

    def test_a_letter_is_no_text(self):
        """Options may be letters, as rotations of MMBench have them: the answer's letter says which place is right."""
        options, right = dict(A="B", B="A", C="D", D="C"), {"1": "A"}
        row = dict(index=1, question="q", **options, answer="A", category="c", image="x.png")
        self.assertEqual(self.score("mmbench", {"m.tsv": table([row], "\t")}, right)["score"], 1)
        row = dict(id="v_Math_1", question="q", options=list(options.values()), answer="A")
        row.update(question_type="multiple-choice", image_1="x.png")
        self.assertEqual(self.score("mmmu", {"v.jsonl": lines([row])}, {"v_Math_1": "A"})["score"], 1)
        question = dict(task_type="t", question="q", time_stamp="00:01", answer="A", options=[f"{k}. {v}" for k, v in options.items()])
        row = dict(time="", video_path="x.mp4", questions=[question])
        self.assertEqual(self.score("streamingbench", {"q.json": json.dumps([row])}, {"q-1-1": "A"})["score"], 1)

    def test_draws_are_told_and_stay(self):
        files = {
            "v.jsonl": lines(
                [
                    dict(
                        id=f"validation_Math_{i}",
                        question="q",
                        options=["u", "v"],
                        answer="A",
                        question_type="multiple-choice",
                        image_1="x.png",
                    )
                    for i in range(40)
                ]
            )
        }
        answers = {f"validation_Math_{i}": "?" for i in range(40)}
        first = self.score("mmmu", files, answers)
        self.assertEqual((first["drawn"], first["answered"]), (40, 0))
        self.assertTrue(0 < first["score"] < 1)
        self.assertEqual(first, self.score("mmmu", files, answers))


class Damaged(SetsCase):
    def refused(self, name, text, needle, code=65, *options):
        self.assert_refused(saccade("eval", self.path(name, text), *options), code, needle)

    def test_rows(self):
        pope = dict(question_id=1, image="x.jpg", text="q", label="yes")
        self.refused(
            "a.jsonl", lines([pope, dict(pope, question_id=2, label="maybe")]), "row 2: label: expected yes or no, found 'maybe'"
        )
        self.refused("b.jsonl", lines([pope, dict(pope)]), "row 2: id: 'b-1' is there twice")
        self.refused("c.jsonl", lines([pope]) + '{"question_id": 2,\n', "c.jsonl:2: not JSON")
        self.refused(
            "d.jsonl",
            lines([pope, dict(pope, question_id=2, image="../../etc/passwd")]),
            "row 2: image: expected the name of a file below",
        )
        self.refused("e.json", json.dumps([pope, 7]), "row 2: POPE: expected an object")
        self.refused("f.json", json.dumps([dict(pope, image=None)]), "row 1: image: is missing")
        self.refused("g.jsonl", lines([dict(pope, label=None, text=[1])]), "text: expected a text, found a list")
        self.refused(
            "h.csv",
            "video,question,answer,qid,type,a0,a1,a2,a3,a4\nv,q,7,1,CW,a,b,c,d,e\n",
            "answer: expected a whole number from 0 to 4, found '7'",
        )
        self.refused("i.csv", "video,question,answer,qid,type,a0,a1,a2,a3,a4\nv,q,1,1,CW,a,b\n", "i.csv:2: fewer fields")
        self.refused("j.csv", 'video,question\n"v,q\n', "j.csv:2: a field in quotes does not end")
        self.refused("k.json", json.dumps([choice(0, video="x", start=-1)]), "start: expected seconds")
        self.refused(
            "l.json",
            json.dumps([dict(choice(0, video="x"), answer="pink")]),
            "answer: expected one of the options or its letter, found 'pink'",
        )
        self.refused(
            "m.json",
            json.dumps({"data": [dict(question_id=1, question="q", image_id="x", answers="12")]}),
            "answers: expected a list, found a text",
        )
        self.refused("n.json", "PAR1xxxx", "tools/convert_eval.py")
        self.refused("o.json", "[]", "o.json")
        self.refused(
            "p.json", json.dumps({"question_id": 1, "image": "x", "text": "q"}), "the nearest is POPE, whose rows have 'label' too"
        )
        self.refused("q.jsonl", lines([pope]), "--benchmark: 'other' is not known", 64, "--benchmark", "other")
        self.refused("r.jsonl", lines([pope]), "--answers FILE", 64, "--score")
        self.refused("s.jsonl", lines([pope]), "video: is missing", 65, "--benchmark", "mvbench")

    def test_files_of_two_benchmarks(self):
        folder = self.write(
            "two",
            {"a.json": json.dumps([choice(0, video="x")]), "b.jsonl": lines([dict(question_id=1, image="x.jpg", text="q", label="yes")])},
        )
        self.assert_refused(saccade("eval", folder), 65, "b.jsonl: is of POPE, files before it of MVBench")

    def test_answers_to_no_question(self):
        path, answers = self.path("a.jsonl", lines([dict(question_id=1, image="x.jpg", text="q", label="yes")])), self.path(
            "b.jsonl", '{"question_id": "a-2", "response": "yes"}\n'
        )
        self.assert_refused(saccade("eval", path, "--answers", answers), 65, "the set has no question 'a-2'")

    def test_nothing_in_it(self):
        for text in "[]", "{}":
            self.assert_refused(saccade("eval", self.path("s.json", text)), 65, "s.json: holds no question")

    def test_options_without_effect(self):
        needles = self.path("n.jsonl", lines([dict(id="1", input="x", outputs=["y"])]))
        for option in (["--html", self.path("p.html")], ["--prompt", "open"], ["--benchmark", "pope"], ["--answers", needles], ["--reuse"]):
            self.assert_refused(saccade("eval", needles, *option), 64, f"{option[0]} is for benchmarks, not for a set of needles")
        self.assert_refused(saccade("compare", needles, "--method", "kv=int4", "--prompt", "open"), 64, "--prompt is for benchmarks")
        pope = self.path("pope.jsonl", lines([dict(question_id=1, image="x.jpg", text="q", label="yes")]))
        self.assert_refused(saccade("eval", pope, "--answers", needles, "--out", self.path("o")), 64, "--out keeps what is asked")
        self.assert_refused(saccade("eval", pope, "--score", "--answers", needles), 64, "--answers is in place of --score")

    def test_one_picture_does_not_stop_the_others(self):
        folder, out = self.path("media"), self.path("out")
        os.mkdir(folder)
        write_png(os.path.join(folder, "good.png"))
        with open(os.path.join(folder, "bad.png"), "wb") as f:
            f.write(b"no picture")
        rows = [
            dict(question_id=i, image=p, text="Is there a dog?", label="no")
            for i, p in enumerate(("good.png", "bad.png", "absent.png", "A" * 400))
        ]
        run = saccade("eval", self.path("set.jsonl", lines(rows)), "--videos", folder, "--out", out, "--html", self.path("p.html"))
        self.assertEqual(run.returncode, 75)
        self.assertRegex(run.stderr, r"\Asaccade: 3 of 4 questions could not be asked; the first: .*\n\Z")
        self.assertEqual(open(self.path("p.html"), encoding="utf-8").read().count("cannot be shown"), 3)


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.sources, self.text = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.sources += [v for k, v in attributes if k in ("src", "href", "action", "style") or k.startswith("on")]

    def handle_data(self, data):
        self.text += data


class Pages(SetsCase):
    def test_texts_are_escaped_and_nothing_is_fetched(self):
        evil = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&"
        rows = [dict(choice(i, video="drawn001_4.mp4"), question=evil, candidates=[evil, "green"]) for i in range(3)]
        page = self.path("page.html")
        run = saccade(
            "eval",
            self.write("evil", {evil.replace("/", "")[:20] + ".json": json.dumps(rows)}),
            "--videos",
            "samples/drawn",
            "--html",
            page,
        )
        self.assertEqual(run.returncode, 0, run.stderr)
        text = open(page, encoding="utf-8").read()
        seen = Page(text)
        self.assertEqual(set(seen.tags) & {"script", "link", "iframe", "object", "a", "form"}, set())
        self.assertEqual(seen.tags.count("img"), 3 * 4)  # four frames with each question
        self.assertTrue(all(s.startswith("data:image/jpeg;base64,") for s in seen.sources))
        self.assertIn("<script>alert(1)</script>", seen.text)
        self.assertIn("default-src 'none'", text)
        self.assertNotIn("unsafe", text)
        style = text[text.index("<style>") + 7 : text.index("</style>")]
        self.assertIn("sha256-" + base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(), text)

    def test_a_long_answer_is_cut_between_letters(self):
        rows = [dict(imgname="picture0000.png", query="q", label="12")] * 3
        page = self.path("page.html")
        answers = {f"test_human-{i + 1}": "x" * i + "東" * 40 for i in range(3)}
        self.score("chartqa", {"test_human.json": json.dumps(rows)}, answers, "--html", page)
        with open(page, encoding="utf-8") as f:  # bytes of half a letter would not be read
            self.assertEqual(f.read().count("東" * 30 + "</dd>"), 3 + 3)

    def test_a_page_that_cannot_be_written(self):
        """Told before anything is asked; where it is found at the end, it takes no answers with it, nor what --out keeps."""
        rows = [dict(question_id=1, image="picture0000.png", text="Is there a dog?", label="no")]
        out = self.path("out")
        asked = "eval", self.path("pope.jsonl", lines(rows)), "--videos", "samples", "--out", out, "--html"
        self.assert_refused(saccade(*asked, self.path("none/p.html")), 74, "none/p.html.part: cannot be written: No such file")
        self.assert_refused(saccade(*asked, self.folder), 74, "cannot be written: Is a directory")
        self.assertFalse(os.path.exists(out))
        run = saccade(*asked, "/dev/full")
        self.assertEqual(run.returncode, 74)
        self.assertIn("cannot be written", run.stderr)
        self.assertIn("accuracy:", run.stdout)
        self.assertEqual(sorted(os.listdir(out)), ["journal.jsonl", "result.json", "scores.json"])

    def test_video_mme_has_one_too(self):
        page = self.path("page.html")
        run = saccade("eval", "samples/drawn/set.json", "--prompt", "open", "--limit", 3, "--html", page)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(Page(open(page, encoding="utf-8").read()).tags.count("article"), 3)
        with open("samples/drawn/set.json", encoding="utf-8") as f:
            answered = json.load(f)[:2]
        for question in (q for v in answered for q in v["questions"]):
            question["response"] = "A"
        page = self.path("scored.html")
        run = saccade("eval", "--score", self.path("result.json", json.dumps(answered)), "--html", page)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        n = sum(len(v["questions"]) for v in answered)
        self.assertEqual(Page(open(page, encoding="utf-8").read()).tags.count("article"), n)


class Converted(SetsCase):
    def test_rows_of_tables(self):
        spec = importlib.util.spec_from_file_location("convert_eval", os.path.join(ROOT, "tools/convert_eval.py"))
        tool = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(tool)
        picture = {"bytes": open("samples/picture0000.png", "rb").read(), "path": "x.png"}
        rows = {
            "pope": dict(
                id="1", question_id="1", question="Is there a dog?", answer="no", image_source="x", image=picture, category="popular"
            ),
            "textvqa": dict(image_id="x", question_id=1, question="q", image=picture, answers=["12"] * 10),
            "docvqa": dict(questionId="1", question="q", question_types=["form"], image=picture, docId=1, answers=["12"]),
            "chartqa": dict(type="human_test", question="q", answer="12", image=picture),
            "mmmu": dict(
                id="validation_Math_1",
                question="<image 1>",
                options="['a', \"b's\"]",
                explanation="?",
                image_1=picture,
                image_2=None,
                answer="A",
                question_type="multiple-choice",
                subfield="x",
            ),
            "mmbench": dict(
                index=1,
                question="q",
                hint="nan",
                answer="A",
                A="u",
                B="v",
                C="nan",
                D="nan",
                category="c",
                image=picture,
                source="x",
                **{"L2-category": "g"},
                comment="nan",
                split="dev",
            ),
            "scienceqa": dict(
                image=picture,
                question="q",
                choices=["u", "v"],
                answer=1,
                hint="",
                task="t",
                grade="grade3",
                subject="natural science",
                topic="t",
                category="c",
                skill="s",
                lecture="",
                solution="",
            ),
            "coco": dict(question_id="COCO_val2014_000000000042.jpg", image=picture, question="q", answer=["A dog."], id=42),
            "egoschema": dict(
                question_idx="1", question="q", video_idx="drawn001_4", option=["A. u", "B. v", "C. w", "D. x", "E. y"], answer="1"
            ),
            "nextqa": dict(
                video="drawn001_4",
                frame_count=1,
                width=1,
                height=1,
                question="q",
                answer=1,
                qid="2",
                type="CW",
                a0="u",
                a1="v",
                a2="w",
                a3="x",
                a4="y",
            ),
            "tempcompass": dict(video_id="drawn001_4", question="q", answer="yes", dim="action"),
        }
        for name, row in rows.items():
            with self.subTest(name):
                path = self.path(name + ".jsonl", lines(tool.convert(name, [row], "yes_no")))
                run = saccade("eval", path, "--videos", "samples/drawn", "--json")
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertEqual((json.loads(run.stdout)["set"], json.loads(run.stdout)["errors"]), (name, 0))

    def test_a_forgotten_output(self):
        """What was meant to be read is not written over."""
        table = self.path("b.parquet", "rows")
        tool = [sys.executable, os.path.join(ROOT, "tools/convert_eval.py")]
        run = subprocess.run([*tool, "mmmu", self.path("a.parquet"), table], capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 1)
        self.assertIn("b.parquet: the last word is the file to write", run.stderr)
        self.assertEqual(open(table, encoding="utf-8").read(), "rows")


if __name__ == "__main__":
    main()
