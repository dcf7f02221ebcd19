"""saccade eval: a set asked, killed, resumed, scored; and what goes wrong for one question but not for the run."""
import fcntl
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

from cli import SACCADE, TIMEOUT_S, Case, Terminal, main, saccade

DRAWN = "samples/drawn"
OPTIONS = ["A. a", "B. b", "C. c", "D. d"]


def load(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return json.load(f)


def read(*path):
    with open(os.path.join(*path), "rb") as f:
        return f.read()


def lines(*path):
    return [json.loads(line) for line in read(*path).decode().splitlines()]


def without_times(rows):
    """Of a journal: all but what a clock measured."""
    return [{k: v for k, v in row.items() if k not in ("seconds", "started")} for row in rows]


def drawn(n_videos, n_questions):
    """The smallest videos of the drawn set, with their first questions."""
    videos = sorted(load(DRAWN, "set.json"), key=lambda v: int(v["sub_category"].split()[0]))[:n_videos]
    return [dict(v, questions=v["questions"][:n_questions]) for v in videos]


def tally(videos):
    """Questions, answered and correct of a result file whose responses are letters."""
    asked = [q for v in videos for q in v["questions"]]
    answered = [q for q in asked if q["response"]]
    return len(asked), len(answered), sum(q["response"] == q["answer"] for q in answered)


class EvalCase(Case):
    def set(self, videos, name="set.json"):
        return self.path(name, json.dumps(videos, indent=1))

    def eval(self, set_path, *options, code=0):
        run = saccade("eval", set_path, "--videos", DRAWN, "--prompt", "open", "--threads", "1", *options)
        self.assertEqual(run.returncode, code, run.stderr)
        if code == 0:
            self.assertEqual(run.stderr, "")
        return run


class Answers(EvalCase):
    def test_files_and_scores(self):
        videos, out = drawn(2, 4), self.path("out")
        run = self.eval(self.set(videos), "--out", out, "--json")
        result, scores, printed = load(out, "result.json"), load(out, "scores.json"), json.loads(run.stdout)
        self.assertEqual(scores, printed)
        self.assertEqual([v["video_id"] for v in result], [v["video_id"] for v in videos])
        for video, given in zip(result, videos):
            self.assertFalse(video["missing"])
            for key in "duration", "domain", "sub_category", "videoID":
                self.assertEqual(video[key], given[key])
            for q, q_given in zip(video["questions"], given["questions"]):
                self.assertEqual({k: q[k] for k in q_given}, q_given)
                option = dict(zip("ABCD", q["options"])).get(q["response"], "")
                self.assertEqual(option[3:], q["answer_text"])
        asked, answered, correct = tally(result)
        self.assertEqual((asked, answered), (8, 8))
        self.assertGreaterEqual(correct, 7)
        overall = scores["scores"]["all"]["overall"]
        self.assertEqual((overall["questions"], overall["answered"], overall["correct"]), (asked, answered, correct))
        self.assertAlmostEqual(overall["strict"], correct / asked, places=6)
        self.assertEqual(scores["errors"], 0)
        header = scores["header"]
        self.assertEqual((header["prompt"], header["answer"], header["subtitles"]), ("open", "text", False))
        self.assertEqual(header["settings"]["threads"], 1)
        self.assertEqual(header["settings"]["sampling"]["temperature"], 0)
        self.assertEqual(header["settings"]["session"], {"ctx": 32768, "kv": "f16", "prefill": "dense", "decode": "dense",
                                                         "rope": "model", "reduce": "none", "measure_mass": False, "prefill_chunk": 0})
        self.assertRegex(header["started"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertGreater(header["model"]["image_size"], 0)
        journal = lines(out, "journal.jsonl")
        self.assertEqual(journal[0], header)
        self.assertEqual([r["question_id"] for r in journal[1:]], [q["question_id"] for v in videos for q in v["questions"]])
        self.assertTrue(all(r["frames"] == 4 and r["reused_tokens"] == 0 for r in journal[1:]))

    def test_rows_give_the_same_as_the_list(self):
        videos = drawn(2, 2)
        rows = [dict({k: v for k, v in video.items() if k != "questions"}, **q) for video in videos for q in video["questions"]]
        rows[1], rows[2] = rows[2], rows[1]     # rows of a video need not stand together
        for name, text in ("list", json.dumps(videos)), ("rows", "".join(json.dumps(r) + "\n" for r in rows)):
            self.eval(self.path(name, text), "--out", self.path("out_" + name))
        self.assertEqual(read(self.path("out_list"), "result.json"), read(self.path("out_rows"), "result.json"))

    def test_prompts_reuse_and_limit(self):
        set_path, tokens = self.set(drawn(2, 2)), {}
        for prompt in "official", "lmms-eval", "bare", "open":
            out = self.path(prompt)
            run = saccade("eval", set_path, "--videos", DRAWN, "--prompt", prompt, "--limit", 2, "--out", out, "--json")
            self.assertEqual((run.returncode, run.stderr), (0, ""))
            self.assertEqual(json.loads(run.stdout)["questions"], 2)
            header, *records = lines(out, "journal.jsonl")
            self.assertEqual((header["prompt"], len(records)), (prompt, 2))
            tokens[prompt] = records[0]["prompt_tokens"]
        self.assertGreater(tokens["lmms-eval"], tokens["official"])
        self.assertGreater(tokens["official"], tokens["bare"])
        self.assertGreater(tokens["bare"], tokens["open"])
        out = self.path("reuse")
        self.eval(set_path, "--limit", 2, "--reuse", "--out", out)
        first, second = lines(out, "journal.jsonl")[1:]
        self.assertEqual(first["reused_tokens"], 0)
        self.assertGreaterEqual(second["reused_tokens"], second["visual_tokens"])
        self.assertEqual(read(out, "result.json"), read(self.path("open"), "result.json"))

    def test_a_limit_that_grows(self):
        set_path, out, all_at_once = self.set(drawn(2, 2)), self.path("out"), self.path("all")
        self.eval(set_path, "--limit", 1, "--out", out)
        first = read(out, "journal.jsonl")
        self.eval(set_path, "--limit", 3, "--out", out)
        self.assertTrue(read(out, "journal.jsonl").startswith(first))
        self.assertEqual(len(lines(out, "journal.jsonl")), 1 + 3)
        self.eval(set_path, "--out", out)
        self.eval(set_path, "--out", all_at_once)
        self.assertEqual(len(lines(out, "journal.jsonl")), 1 + 4)
        self.assertEqual(read(out, "result.json"), read(all_at_once, "result.json"))
        run = self.eval(set_path, "--limit", 2, "--out", out, "--json")       # fewer: the rest stays in the journal
        self.assertEqual(json.loads(run.stdout)["questions"], 2)
        self.assertEqual(len(lines(out, "journal.jsonl")), 1 + 4)

    def test_subtitles(self):
        videos, folder = drawn(1, 1), self.path("subtitles")
        os.mkdir(folder)
        set_path, srt = self.set(videos), os.path.join(folder, videos[0]["videoID"] + ".srt")
        self.eval(set_path, "--out", self.path("none"), "--subtitles", folder)     # no file: asked without
        with open(srt, "w", encoding="utf-8") as f:
            f.write("1\n00:00:00,001 --> 01:00:00,000\na <i>word</i>\n")
        self.eval(set_path, "--out", self.path("some"), "--subtitles", folder)
        none, some = (lines(self.path(name), "journal.jsonl")[1] for name in ("none", "some"))
        self.assertEqual((none["subtitles"], some["subtitles"]), (0, some["frames"] - 1))    # all but the frame at 0 s
        self.assertGreater(some["prompt_tokens"], none["prompt_tokens"])
        with open(srt, "w", encoding="utf-8") as f:
            f.write("not subtitles\n")
        self.eval(set_path, "--out", self.path("bad"), "--subtitles", folder, code=75)
        self.assertRegex(lines(self.path("bad"), "journal.jsonl")[1]["error"]["text"], r"\.srt:1: expected times")


class Resuming(EvalCase):
    def start(self, *arguments):
        return subprocess.Popen([SACCADE, "eval", *map(str, arguments), "--videos", DRAWN, "--prompt", "open", "--threads", "1"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def kill_after(self, process, journal, n_lines, seconds):
        """SIGKILL some time after the journal has so many lines."""
        end = time.monotonic() + TIMEOUT_S
        while process.poll() is None and time.monotonic() < end:
            if os.path.exists(journal) and read(journal).count(b"\n") >= n_lines:
                break
            time.sleep(.002)
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        process.communicate()

    def assert_same(self, out, whole):
        self.assertEqual(read(out, "result.json"), read(whole, "result.json"))
        self.assertEqual(without_times(lines(out, "journal.jsonl")), without_times(lines(whole, "journal.jsonl")))
        self.assertEqual(load(out, "scores.json")["scores"], load(whole, "scores.json")["scores"])
        self.assertEqual(sorted(os.listdir(out)), ["journal.jsonl", "result.json", "scores.json"])

    def test_killed_and_resumed(self):
        rng, set_path, whole = random.Random(1), self.set(drawn(2, 4)), self.path("whole")
        self.eval(set_path, "--out", whole)
        took = sum(r["seconds"]["total"] for r in lines(whole, "journal.jsonl")[1:]) / 8
        for kills in [(0, 3, 6), (1, 5), (2, 2, 8)]:
            out = self.path(f"out{kills}")
            for n_lines in kills:
                self.kill_after(self.start(set_path, "--out", out), os.path.join(out, "journal.jsonl"), n_lines,
                                rng.random() * 2 * took)
            self.eval(set_path, "--out", out)
            self.assert_same(out, whole)

    def test_a_torn_line_is_asked_again(self):
        set_path, out, whole = self.set(drawn(1, 3)), self.path("out"), self.path("whole")
        self.eval(set_path, "--out", whole)
        journal = read(whole, "journal.jsonl")
        last, header = journal.rindex(b"\n", 0, -1) + 1, journal.index(b"\n") + 1
        torn = [journal[:last + 1], journal[:-1], journal[:last] + b"{\"question_id\"\x00\x00\n", journal[:header - 5], b""]
        for text in torn:
            os.makedirs(out, exist_ok=True)
            with open(os.path.join(out, "journal.jsonl"), "wb") as f:
                f.write(text)
            self.eval(set_path, "--out", out)
            self.assert_same(out, whole)
            shutil.rmtree(out)

    def test_a_finished_run_is_not_asked_again(self):
        set_path, out = self.set(drawn(1, 2)), self.path("out")
        self.eval(set_path, "--out", out)
        before = {name: read(out, name) for name in os.listdir(out)}
        self.eval(set_path, "--out", out)
        self.assertEqual({name: read(out, name) for name in os.listdir(out)}, before)

    def test_other_settings_are_refused(self):
        videos, out = drawn(1, 1), self.path("out")
        set_path = self.set(videos)
        self.eval(set_path, "--out", out)
        before = read(out, "journal.jsonl")
        videos[0]["questions"][0]["question"] += "?"
        changed = self.set(videos, "changed.json")
        for arguments, needle in [
            ([set_path, "--kv", "bf16"], 'settings.session.kv is "f16" there and "bf16" now'),
            ([set_path, "--num-frames", "2"], "settings.video.num_frames is 0 there and 2 now"),
            ([set_path, "--system", "Be brief."], 'system is null there and "Be brief." now'),
            ([set_path, "--reuse"], "reuse is false there and true now"),
            ([changed], "set.fingerprint"),
        ]:
            run = self.eval(*arguments, "--out", out, code=78)
            self.assertIn(needle, run.stderr)
            self.assertEqual((run.stdout, run.stderr.count("\n")), ("", 1))
        self.assertEqual(read(out, "journal.jsonl"), before)

    def test_a_journal_that_is_none(self):
        set_path, out = self.set(drawn(1, 2)), self.path("out")
        self.eval(set_path, "--out", out)
        good = read(out, "journal.jsonl").splitlines(keepends=True)
        for text, needle in [
            (b"{}\n" + good[1], "journal.jsonl:1: not the header"),
            (good[0] + b"what\n" + good[2], "journal.jsonl:2: not JSON"),
            (good[0] + good[1].replace(b'"question_id":"', b'"question_id":"x') + good[2], "journal.jsonl:2: no answer to"),
        ]:
            with open(os.path.join(out, "journal.jsonl"), "wb") as f:
                f.write(text)
            self.assertIn(needle, self.eval(set_path, "--out", out, code=65).stderr)
            self.assertEqual(read(out, "journal.jsonl"), text)

    def test_two_at_a_time(self):
        set_path, out = self.set(drawn(1, 1)), self.path("out")
        os.mkdir(out)
        with open(os.path.join(out, "journal.jsonl"), "a") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            self.assertIn("another run", self.eval(set_path, "--out", out, code=74).stderr)

    def test_interrupted_with_progress(self):
        out = self.path("out")
        run = Terminal("eval", self.set(drawn(2, 8)), "--videos", DRAWN, "--prompt", "open", "--out", out)
        run.wait_for("questions")
        at = run.wait_for(" of 16 questions")
        run.wait_for("left", at)
        run.type("\x03")
        self.assertEqual(run.exit_code(), 130)
        self.assertGreaterEqual(len(lines(out, "journal.jsonl")), 2)
        self.assertFalse(os.path.exists(os.path.join(out, "result.json")))
        run = Terminal("eval", self.path("set.json"), "--videos", DRAWN, "--prompt", "open", "--out", out)
        run.wait_for(" of 16 questions were answered before")
        self.assertEqual(run.exit_code(), 0)


class Errors(EvalCase):
    def test_one_question_does_not_stop_the_others(self):
        videos, folder, out = drawn(3, 2), self.path("videos"), self.path("out")
        os.mkdir(folder)
        absent, broken, good = videos
        with open(os.path.join(folder, broken["videoID"] + ".mp4"), "wb") as f:
            f.write(b"no video")
        shutil.copy(os.path.join(DRAWN, good["videoID"] + ".mp4"), folder)
        ask = lambda *options: saccade("eval", self.set(videos), "--videos", folder, "--prompt", "open", "--out", out, *options)
        run = ask()
        self.assertEqual(run.returncode, 75, run.stderr)
        self.assertRegex(run.stderr, r"\Asaccade: 4 of 6 questions could not be asked; the first: .*no such file\n\Z")
        records = lines(out, "journal.jsonl")[1:]
        self.assertEqual([r.get("error", {}).get("status") for r in records], ["NOT_FOUND"] * 2 + ["BAD_FILE"] * 2 + [None] * 2)
        self.assertIn(absent["videoID"], records[0]["error"]["text"])
        self.assertIn(broken["videoID"], records[2]["error"]["text"])
        result = load(out, "result.json")
        self.assertEqual([v["missing"] for v in result], [True, True, False])
        scores = load(out, "scores.json")
        overall = scores["scores"]["all"]["overall"]
        self.assertEqual((scores["errors"], overall["questions"], overall["answered"]), (4, 6, 2))
        self.assertAlmostEqual(overall["strict"] * 6, overall["official"] * 2, places=6)
        # what is there is kept, and so are its errors; --retry asks those again
        shutil.copy(os.path.join(DRAWN, absent["videoID"] + ".mp4"), folder)
        self.assertEqual(ask().returncode, 75)
        self.assertEqual(load(out, "scores.json")["errors"], 4)
        run = ask("--retry")
        self.assertEqual(run.returncode, 75)
        self.assertEqual((load(out, "scores.json")["errors"], len(lines(out, "journal.jsonl"))), (2, 1 + 6 + 4))
        shutil.copy(os.path.join(DRAWN, broken["videoID"] + ".mp4"), folder)
        self.assertEqual(ask("--retry").returncode, 0)
        self.assertEqual(ask("--retry").returncode, 0)
        self.eval(self.set(videos), "--out", self.path("whole"), "--threads", "0")
        self.assertEqual(read(out, "result.json"), read(self.path("whole"), "result.json"))

    def test_a_prompt_that_does_not_fit(self):
        videos, out = drawn(1, 3), self.path("out")
        videos[0]["questions"][1]["question"] = "What is seen here? " * 100
        run = self.eval(self.set(videos), "--ctx", 600, "--out", out, code=75)
        self.assertIn("1 of 3 questions", run.stderr)
        records = lines(out, "journal.jsonl")[1:]
        self.assertEqual([r.get("error", {}).get("status") for r in records], [None, "TOO_LONG", None])
        self.assertEqual([q["response"] == "" for q in load(out, "result.json")[0]["questions"]], [False, True, False])

    def test_a_wrong_annotation_is_refused_before_any_work(self):
        videos, out = drawn(2, 2), self.path("out")
        videos[1]["questions"][1]["answer"] = "E"
        text = json.dumps(videos, indent=1)
        line = 1 + text[:text.rindex('"answer"')].count("\n")
        run = saccade("eval", self.path("set.json", text), "--videos", DRAWN, "--out", out)
        self.assert_refused(run, 65, f"set.json:{line}: questions[1].answer: expected a letter from A to D, found 'E'")
        self.assertFalse(os.path.exists(out))
        self.assert_refused(saccade("eval", self.path("cut.json", text[:300])), 65, "cut.json:", "not JSON")
        self.assert_refused(saccade("eval", self.path("no.json")), 66, "no.json")

    def test_the_command_line(self):
        set_path = self.set(drawn(1, 1))
        self.assert_refused(saccade("eval"), 64, "one question set")
        self.assert_refused(saccade("eval", set_path, "--prompt", "other"), 64, "--prompt")
        self.assert_refused(saccade("eval", set_path, "--videos", self.path("no")), 66, "--videos")
        self.assert_refused(saccade("eval", set_path, "--retry"), 64, "--retry")
        self.assert_refused(saccade("eval", set_path, "--videos", DRAWN, "--prefill", "nothing"), 64, "nothing")
        self.assert_refused(saccade("eval", set_path, "--videos", DRAWN, "--out", self.path("file", "no folder") + "/where"), 74, "file/where")
        self.assert_refused(saccade("eval", "--score", set_path), 65, "no question in it has a response")


class Scores(EvalCase):
    def made_up(self):
        """Eight questions; by hand below."""
        def question(i, task, answer, response):
            q = dict(question_id=i, task_type=task, question="q", options=OPTIONS, answer=answer)
            return q if response is None else dict(q, response=response)
        return [
            dict(video_id="1", duration="short", domain="Knowledge", sub_category="Law", questions=[
                question("1-1", "OCR Problems", "A", "A"),                          # right
                question("1-2", "OCR Problems", "B", "The best answer is B."),      # right
                question("1-3", "Counting Problem", "C", "I do not know")]),        # no answer
            dict(video_id="2", duration="medium", domain="Knowledge", sub_category="Law", questions=[
                question("2-1", "Counting Problem", "C", "Best answer: C"),         # B, wrong: the script's missing comma
                question("2-2", "Counting Problem", "A", "Answer: C"),              # A, right by its first capital
                question("2-3", "OCR Problems", "D", None)]),                       # no answer
            dict(video_id="3", duration="long", domain="Multilingual", sub_category="Multilingual", questions=[
                question("3-1", "OCR Problems", "D", "(D)"),                        # right
                question("3-2", "OCR Problems", "D", "")]),                         # no answer
        ]

    def test_equal_those_made_by_hand(self):
        run = saccade("eval", "--score", self.set(self.made_up()), "--json")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        got = json.loads(run.stdout)["scores"]
        hand = {  # questions, answered, correct
            ("all", "overall", None): (8, 5, 4), ("short", "overall", None): (3, 2, 2), ("medium", "overall", None): (3, 2, 1),
            ("long", "overall", None): (2, 1, 1), ("all", "domain", "Knowledge"): (6, 4, 3),
            ("all", "domain", "Multilingual"): (2, 1, 1), ("all", "sub_category", "Law"): (6, 4, 3),
            ("all", "task_type", "OCR Problems"): (5, 3, 3), ("all", "task_type", "Counting Problem"): (3, 2, 1),
            ("medium", "task_type", "OCR Problems"): (1, 0, 0), ("medium", "task_type", "Counting Problem"): (2, 2, 1)}
        for (scope, dimension, key), (asked, answered, correct) in hand.items():
            row = got[scope][dimension][key] if key else got[scope][dimension]
            self.assertEqual((row["questions"], row["answered"], row["correct"]), (asked, answered, correct), (scope, key))
            self.assertAlmostEqual(row["official"], correct / answered if answered else 0)
            self.assertAlmostEqual(row["strict"], correct / asked)
        low, high = got["all"]["overall"]["strict_95"]
        self.assertAlmostEqual(low, .2152, places=4)   # Wilson, 4 of 8
        self.assertAlmostEqual(high, .7848, places=4)

    def test_the_table(self):
        run = saccade("eval", "--score", self.set(self.made_up()))
        self.assertRegex(run.stdout, r"(?m)^  all +8 +5 +4 +80\.00 % +50\.00 % +21\.52 to +78\.48$")
        self.assertRegex(run.stdout, r"(?m)^  medium +3 +2 +1 +50\.00 % +33\.33 %")
        self.assertEqual(len(re.findall(r"(?m)^(duration|domain|sub-category|task type)$", run.stdout)), 4)

    def test_a_result_scores_as_the_run_did(self):
        out = self.path("out")
        self.eval(self.set(drawn(1, 4)), "--out", out)
        run = saccade("eval", "--score", os.path.join(out, "result.json"), "--json")
        self.assertEqual(json.loads(run.stdout)["scores"], load(out, "scores.json")["scores"])


if __name__ == "__main__":
    main()
