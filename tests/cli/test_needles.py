"""Needle sets: made anew by a seed, as long as the tokenizer says, asked, scored by the benchmarks' rules, killed and resumed."""
import json
import os
import re
import subprocess
import sys

from cli import SACCADE, Case, main, saccade

TOOL = "tools/make_needles.py"
TASKS = "niah_single_1,niah_multikey_2,niah_multikey_3,fwe,passkey,number_string,kv_retrieval,niah_turns"


def make(out, *arguments):
    return subprocess.run([sys.executable, "-B", TOOL, out, *arguments], capture_output=True, text=True,
                          env=dict(os.environ, SACCADE=SACCADE))


def rows(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def score(row, response, outputs):
    """The published rules, once more."""
    if row["metric"] == "number":
        return float(re.findall("[0-9]+", response + " ")[:1] == outputs)
    if row["metric"] == "word":
        return float(outputs[0] in re.sub("[\n:\"'.,?!{}]", " ", response).split())
    held = [o.lower() in response.lower() for o in outputs]
    return float(any(held)) if row["metric"] == "part" else sum(held) / len(held)


class Sets(Case):
    def test_a_seed_makes_the_same_set(self):
        a, b, c, one = (self.path(n) for n in ("a.jsonl", "b.jsonl", "c.jsonl", "one.jsonl"))
        for out, seed, tasks in (a, "1", TASKS), (b, "1", TASKS), (c, "2", TASKS), (one, "1", "passkey"):
            run = make(out, "--tasks", tasks, "--lengths", "1500", "--samples", "2", "--seed", seed)
            self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(rows(a), rows(b))
        self.assertNotEqual(rows(a), rows(c))
        self.assertEqual([r for r in rows(a) if r["task"] == "passkey"], rows(one))
        counted = saccade("inspect", "--count-tokens", input="".join(
            json.dumps(" ".join([r["input"], *r["outputs"]])) + "\n" for r in rows(a)))
        for row, n in zip(rows(a), map(int, counted.stdout.split())):
            if "turns" not in row:
                self.assertLessEqual(n + row["max_tokens"], 1500)
                self.assertGreater(n + row["max_tokens"], 900, row["id"])

    def test_definitions(self):
        squad = self.path("squad.json", json.dumps({"data": [{"paragraphs": [
            {"context": f"Document about {k}. Its capital is City{k}.", "qas": [
                {"question": f"What is the capital of {k}?", "is_impossible": False, "answers": [{"text": f"City{k}"}]},
                {"question": "Nothing?", "is_impossible": True, "answers": []}]} for k in range(12)]}]}))
        out = self.path("d.jsonl")
        run = make(out, "--tasks", "all", "--lengths", "6000", "--samples", "2", "--essays", "docs/choosing.md", "--squad", squad, "--skip")
        self.assertEqual(run.returncode, 0, run.stderr)
        words = self.path("w.jsonl")  # forty words thrice, ten thirty times and more are many tokens
        self.assertEqual(make(words, "--tasks", "cwe", "--lengths", "16000", "--samples", "1").returncode, 0)
        made = {r["task"]: r for r in rows(out) + rows(words)}
        self.assertEqual(set(made), {"niah_single_1", "niah_single_2", "niah_single_3", "niah_multikey_1", "niah_multikey_2",
                                     "niah_multikey_3", "niah_multivalue", "niah_multiquery", "vt", "cwe", "fwe", "qa_1",
                                     "passkey", "number_string", "kv_retrieval", "niah_turns"})
        needles = lambda task: re.findall(r"One of the special magic (\w+) for (\S+) is: (\S+)\.", made[task]["input"])
        for task, n_needles, n_keys, n_outputs in (("niah_single_1", 1, 1, 1), ("niah_multikey_1", 4, 4, 1),
                                                   ("niah_multivalue", 4, 1, 4), ("niah_multiquery", 4, 4, 4)):
            found = needles(task)
            self.assertEqual((len(found), len({k for _, k, _ in found}), len(made[task]["outputs"])), (n_needles, n_keys, n_outputs))
            self.assertLessEqual(set(made[task]["outputs"]), {v for _, _, v in found})
        self.assertGreater(len(needles("niah_multikey_2")), 30)  # the haystack is needles
        for kind, key, value in needles("niah_multikey_3"):
            self.assertRegex(key + value, "^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}){2}$")
        chain = dict(re.findall(r"VAR ([A-Z]{5}) = (?:VAR )?([A-Z0-9]{5})", made["vt"]["input"]))
        names = made["vt"]["outputs"]
        self.assertEqual([chain[v] for v in names[1:]], names[:-1])
        self.assertIn(f"assigned the value {chain[names[0]]}", made["vt"]["input"])
        count = lambda text: {w: text.count(w) for w in set(text)}
        words = count(re.findall(r"\d+\. (\S+)", made["cwe"]["input"].split("\nBelow")[-1]))
        self.assertEqual(set(sorted(words, key=words.get)[-10:]), set(made["cwe"]["outputs"]))
        self.assertEqual({words[w] for w in made["cwe"]["outputs"]}, {30})
        words = count(made["fwe"]["input"].split("coded words. ")[1].split("\nQuestion")[0].split())
        self.assertEqual(sorted(words, key=words.get)[-4:], [*made["fwe"]["outputs"][::-1], "..."])
        self.assertIn(f"capital is {made['qa_1']['outputs'][0]}.", made["qa_1"]["input"])
        pair = re.search(r'Key: "(\S+)"', made["kv_retrieval"]["input"]).group(1)
        self.assertIn(f'"{pair}": "{made["kv_retrieval"]["outputs"][0]}"', made["kv_retrieval"]["input"])
        digits = made["number_string"]["outputs"][0]
        self.assertEqual((len(digits), len(made["passkey"]["outputs"][0])), (10, 5))
        self.assertEqual(len(made["niah_turns"]["turns"]), 3)

    def test_refusals(self):
        for text, arguments in ("--essays", ["--tasks", "vt,niah_single_2"]), ("--tasks nine", ["--tasks", "nine"]), (
                "too few", ["--tasks", "cwe", "--lengths", "100"]):
            run = make(self.path("x.jsonl"), *arguments)
            self.assertEqual((run.returncode, len(run.stderr.splitlines())), (1, 1), run.stderr)
            self.assertIn(text, run.stderr)
        self.assertFalse(os.path.exists(self.path("x.jsonl")))  # a set is whole or not there


class Asked(Case):
    """The demo model answers nothing of this: what is looked for is put into its mouth, and right answers into the set."""

    def test_asked_scored_resumed(self):
        asked, out = self.path("set.jsonl"), self.path("out")
        self.assertEqual(make(asked, "--tasks", TASKS, "--lengths", "800,1500", "--samples", "1", "--skip").returncode, 0)
        said = json.loads(saccade("eval", asked, "--json", "--threads", "1", "--out", self.path("first")).stdout)
        self.assertEqual(said["rows"][0]["errors"], 0)
        record = rows(self.journal(self.path("first")))[1]
        made = rows(asked)
        made[0]["outputs"] = ["never said", record["responses"][0].strip()]  # half right
        asked = self.path("set2.jsonl", "".join(json.dumps(r) + "\n" for r in made))
        run = saccade("compare", asked, "--threads", "1", "--method", "kv=int4", "--out", out)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        with open(os.path.join(out, "needles.json"), encoding="utf-8") as f:
            result = json.load(f)
        for row in result["rows"]:
            records = {r["id"]: r for r in rows(self.journal(out, row["name"]))[1:]}
            self.assertEqual(set(records), {r["id"] for r in made})
            for r in made:
                turns = [r, *r.get("turns", [])]
                want = [score(r, said, t["outputs"]) for said, t in zip(records[r["id"]]["responses"], turns)]
                self.assertEqual(records[r["id"]]["scores"], want)
                self.assertAlmostEqual(row["scores"][r["task"]][str(r["length"])]["value"], sum(want) / len(turns))
        self.assertEqual(result["rows"][0]["scores"][made[0]["task"]]["800"]["value"], 0.5)
        self.assertIn(f"| dense | {made[0]['task']} | 50.00 |", run.stdout)
        # a run that was cut short ends the same
        path = self.journal(out, "dense")
        with open(path, "rb") as f:
            whole = f.read()
        with open(path, "wb") as f:
            f.write(whole[:2 * len(whole) // 3])
        again = saccade("compare", asked, "--threads", "1", "--method", "kv=int4", "--out", out)
        self.assertEqual(again.stdout, run.stdout)
        other = saccade("compare", asked, "--threads", "1", "--method", "kv=int4", "--out", out, "--max-tokens", "3")
        self.assertEqual(other.returncode, 78)
        self.assertIn("max_tokens", other.stderr)

    def journal(self, out, name="dense"):
        folder = os.path.join(out, "journals")
        return os.path.join(folder, next(f for f in sorted(os.listdir(folder)) if f.startswith(name[:8])))

    def test_pictures_between(self):
        os.mkdir(self.path("p"))
        for name in "picture0000.png", "picture0001.jpg":
            with open(f"samples/{name}", "rb") as f:
                self.path(f"p/{name}", f.read())
        asked = self.path("mm.jsonl")
        run = make(asked, "--tasks", "mm_text", "--lengths", "1500", "--samples", "1", "--essays", "docs/choosing.md", "--pictures",
                   self.path("p"), "--words-per-picture", "100")
        self.assertEqual(run.returncode, 0, run.stderr)
        row, = rows(asked)
        self.assertEqual(row["input"].count("<image>"), len(row["media"]))
        self.assertGreater(len(row["media"]), 1)
        result = json.loads(saccade("eval", asked, "--json", "--max-tokens", "4").stdout)
        self.assertEqual(result["rows"][0]["errors"], 0)
        missing = self.path("missing.jsonl", json.dumps(dict(row, media=["p/none.png"] * len(row["media"]))) + "\n")
        run = saccade("eval", missing)
        self.assertEqual(run.returncode, 75)
        self.assertIn("none.png", run.stderr)

    def test_bad_input(self):
        bad = self.path("bad.jsonl", '{"id": "a", "input": "x", "outputs": ["x"], "metric": "f1"}\n')
        run = saccade("eval", bad)
        self.assertEqual((run.returncode, len(run.stderr.splitlines())), (65, 1))
        self.assertIn("bad.jsonl:1: metric: all, part, number or word is expected", run.stderr)
        run = saccade("inspect", "--count-tokens", input="[1]\n")
        self.assertEqual(run.returncode, 65)
        self.assertIn("standard input:1", run.stderr)


if __name__ == "__main__":
    main()
