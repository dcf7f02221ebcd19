"""saccade compare and tune over the benchmarks that eval reads: the same answers and figures as eval's, intervals where a score is a fraction or a
mean over tasks, parts that share no picture, rotations that stay together, sets that are refused."""
import base64
import csv
import io
import json
import os

from cli import Case, main, saccade
from eval_samples import PICTURES, VIDEOS, choice, lines, sets

FASTV = "prefill=fastv:layer=2,ratio=0.9"


def load(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return json.load(f)


def records(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f][1:]


def numbers():
    """Questions of MLVU about the three small videos, of two tasks."""
    task = lambda name, videos: json.dumps([choice(i, video=v + ".mp4", duration=9.5, question_type=name) for i, v in enumerate(videos)])
    return {"1_plotQA.json": task("plotQA", VIDEOS * 2), "4_count.json": task("count", VIDEOS)}


class SetsCase(Case):
    def write(self, name, files):
        folder = self.path("set_" + name)
        for file, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(folder, file)), exist_ok=True)
            with open(os.path.join(folder, file), "w", encoding="utf-8") as f:
                f.write(text)
        return folder if len(files) > 1 else os.path.join(folder, next(iter(files)))

    def run_json(self, command, path, media, *options):
        run = saccade(command, path, *(["--videos", media] if media else []), "--threads", "1", "--json", "--max-frames", "6", *options)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        return json.loads(run.stdout)


class Compared(SetsCase):
    def check(self, name):
        files, media, n, _ = sets()[name]
        path, out = self.write(name, files), self.path("out_" + name)
        found = self.run_json("compare", path, media, "--method", FASTV, "--out", out)
        alone = self.run_json("eval", path, media)
        dense, fastv = found["rows"]
        self.assertEqual((dense["scores"]["score"], found["figure"]), (alone["score"], alone["figure"]))
        self.assertEqual(dense["scores"]["by"], alone["by"])
        self.assertAlmostEqual(dense["strict"]["value"], alone["score"])
        self.assertLessEqual(dense["strict"]["low"], dense["strict"]["value"] + 1e-9)
        self.assertEqual(dense["questions"], alone["all"]["questions"])
        self.assertAlmostEqual(fastv["to_dense"]["value"], fastv["strict"]["value"] - dense["strict"]["value"])
        for row in dense, fastv:
            self.assertEqual(len(records(os.path.join(out, row["journal"]))), n)
        with open(os.path.join(out, "table.md"), encoding="utf-8") as f:
            table = f.read()
        self.assertRegex(table, rf"\| +{found['figure']}, % +\|")
        return found, table, path

    def test_right_or_wrong(self):
        for name in "pope", "mmbench", "chartqa", "nextqa", "longvideobench":
            with self.subTest(name):
                found, table, _ = self.check(name)
                self.assertEqual(found["test"], "mcnemar")
                self.assertIn("Agresti and Min", table)

    def test_means_over_tasks(self):
        found, table, _ = self.check("mlvu")
        self.assertEqual(found["test"], "sign-flip")
        self.assertIn("the bootstrap", table)

    def test_captions(self):
        self.check("coco")

    def test_answers_half_right(self):
        """VQA accuracy: one of three annotators who are wanted said what dense says, two what FastV says."""
        files, media, n, _ = sets()["textvqa"]
        path, out = self.write("textvqa", files), self.path("first")
        more = ["--prompt", "What shape is in the picture? {question}", "--method", "prefill=fastv:layer=1,ratio=1 name=blind", "--max-tokens", "3"]
        self.run_json("compare", path, media, *more, "--out", out)
        said = [{r["question_id"]: r["response"] for r in records(os.path.join(out, "journals", f))}
                for f in sorted(os.listdir(os.path.join(out, "journals")))]
        self.assertEqual(len(said), 2)
        data = json.loads(next(iter(files.values())))
        for row in data["data"]:
            a, b = (s[str(row["question_id"])] for s in said)
            row["answers"] = [a] * 1 + [b] * 2 + ["none of it"] * 7
        path = self.write("textvqa2", {"TextVQA_0.5.1_val.json": json.dumps(data)})
        found = self.run_json("compare", path, media, *more)
        alone = self.run_json("eval", path, media, *more[:2], *more[4:])
        self.assertEqual(found["test"], "sign-flip")
        dense, blind = found["rows"]
        self.assertAlmostEqual(dense["strict"]["value"], alone["score"])
        differs = [q for q in said[0] if said[0][q] != said[1][q]]
        self.assertTrue(differs)
        got = blind["to_dense"]
        self.assertEqual(got["gained"] + got["lost"], len(differs))
        self.assertAlmostEqual(got["value"], blind["strict"]["value"] - dense["strict"]["value"])
        self.assertGreater(abs(got["value"]), 0.05)
        self.assertLess(abs(got["value"]), 0.34)
        self.assertLess(got["low"], got["value"])
        self.assertGreater(got["high"], got["value"])
        # all n differ the same way: the sign test's p, two of 2^n patterns
        if len(differs) == n and max(got["gained"], got["lost"]) == n:
            self.assertAlmostEqual(got["p"], 2 / 2 ** n)

    def test_killed_runs_go_on(self):
        files, media, n, _ = sets()["pope"]
        path, out = self.write("pope", files), self.path("out")
        some = self.run_json("compare", path, media, "--method", FASTV, "--out", out, "--limit", "4")
        self.assertEqual(some["rows"][0]["questions"], 4)
        before = records(os.path.join(out, some["rows"][1]["journal"]))
        whole = self.run_json("compare", path, media, "--method", FASTV, "--out", out)
        self.assertEqual(records(os.path.join(out, whole["rows"][1]["journal"]))[:4], before)
        self.assertEqual(whole["rows"][0]["questions"], n)


class Tuned(SetsCase):
    def tune(self, path, media, out, *options):
        return self.run_json("tune", path, media, "--tries", "3", "--minutes", "0", "--fast", "--out", out, *options)

    def parts(self, out):
        return [{r["question_id"] for f in os.listdir(os.path.join(out, part)) for r in records(os.path.join(out, part, f))}
                for part in ("tuning", "test")]

    def test_no_picture_is_in_both_parts(self):
        files, media, n, _ = sets()["pope"]
        out = self.path("out")
        found = self.tune(self.write("pope", files), media, out, "--want", "memory")
        tuning, test = self.parts(out)
        self.assertEqual(len(tuning) + len(test), n)
        self.assertFalse(tuning & test)
        picture = lambda ids: {i.split("-")[-1] for i in ids}  # split and number of the row, which is its picture
        self.assertFalse(picture(tuning) & picture(test))
        rows = {r["name"]: r for r in found["test"]["rows"]}
        for r in found["results"]:
            self.assertAlmostEqual(r["lost"], rows["dense"]["correct"] - rows[r["name"]]["correct"])
        with open(os.path.join(out, "report.md"), encoding="utf-8") as f:
            self.assertIn("| accuracy, % |", f.read())

    def test_rotations_stay_together(self):
        """Two questions about a picture, and one about each of two others, each in two rotations."""
        (name, text), = sets()["mmbench"][0].items()
        rows = list(csv.DictReader(io.StringIO(text), delimiter="\t"))
        for k, picture in enumerate(PICTURES[:2]):
            with open(os.path.join("samples", picture), "rb") as f:
                encoded = base64.b64encode(f.read()).decode()
            rows += [dict(row, index=str(int(row["index"]) + 10 * (k + 1)), image=encoded) for row in rows[:2]]
        out = io.StringIO()
        writer = csv.DictWriter(out, list(rows[0]), delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        folder = self.path("out")
        self.tune(self.write("mmbench", {name: out.getvalue()}), None, folder, "--want", "memory")
        for part in self.parts(folder):
            circles = {}
            for i in part:
                circles.setdefault(int(i) % 1000000, set()).add(int(i))
            self.assertTrue(circles)
            self.assertEqual({len(c) for c in circles.values()}, {2})

    def test_a_mean_over_tasks(self):
        out = self.path("out")
        found = self.tune(self.write("mlvu", numbers()), "samples/drawn", out, "--want", "memory", "--tries", "1", "--max-frames", "3")
        self.assertEqual(found["test"]["test"], "sign-flip")
        with open(os.path.join(out, "report.md"), encoding="utf-8") as f:
            self.assertIn("| M-Avg, % |", f.read())

    def test_refusals(self):
        needles = self.path("needles.jsonl", lines([{"id": "a", "task": "t", "length": 9, "input": "What?", "outputs": ["x"]}]))
        run = saccade("tune", needles, "--out", self.path("out"))
        self.assertEqual(run.returncode, 64, run.stderr)
        self.assertIn("is for eval and compare, not for tune", run.stderr)
        for command in ["compare", "--method", "kv=int4"], ["tune", "--out", self.path("out2")]:
            run = saccade(*command, self.path("odd.jsonl", lines([{"a": 1}, {"a": 2}])))
            self.assertEqual(run.returncode, 65, run.stderr)
            self.assertIn("fits no set that is known", run.stderr)
            run = saccade(*command, self.write("pope2", {"x.jsonl": lines([{"question_id": 1}])}), "--benchmark", "popes")
            self.assertEqual(run.returncode, 64, run.stderr)
            self.assertIn("'popes' is not known", run.stderr)


if __name__ == "__main__":
    main()
