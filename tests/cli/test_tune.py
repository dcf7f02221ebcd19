"""saccade tune: a search killed and resumed, parts that share no video, files that other commands take, bad input."""
import json
import os
import signal
import subprocess
import time
import xml.etree.ElementTree as ET

from cli import SACCADE, Case, main, saccade

DRAWN = "samples/drawn"
TRIES = 5
FILES = ["front.svg", "methods.yaml", "report.md", "run.yaml", "test", "tune.json", "tune.jsonl", "tuning"]


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.read()


def videos(n_videos, n_questions):
    """The smallest videos of the drawn set, with their first questions."""
    with open(os.path.join(DRAWN, "set.json"), encoding="utf-8") as f:
        rows = sorted(json.load(f), key=lambda v: int(v["sub_category"].split()[0]))[:n_videos]
    return [dict(v, questions=v["questions"][:n_questions]) for v in rows]


def without_times(value):
    if isinstance(value, list):
        return [without_times(v) for v in value]
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if k not in ("seconds", "started", "select_share")}
    return value


def records(out, part):
    """By journal: the questions that it has answers to."""
    found = {}
    for name in os.listdir(os.path.join(out, part)):
        lines = [json.loads(line) for line in read(out, part, name).splitlines()]
        found[name] = [line["question_id"] for line in lines[1:]]
    return found


class TuneCase(Case):
    def set(self, n_videos, n_questions):
        return self.path("set.json", json.dumps(videos(n_videos, n_questions)))

    def arguments(self, set_path, out, *more):
        return ["tune", set_path, "--videos", DRAWN, "--prompt", "open", "--threads", "1", "--fast", "--tries", str(TRIES),
                "--minutes", "0", "--out", out, *more]

    def tune(self, set_path, out, *more):
        run = saccade(*self.arguments(set_path, out, *more))
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        return run


class Search(TuneCase):
    def test_killed_and_resumed_is_the_same(self):
        asked, whole, killed = self.set(4, 2), self.path("whole"), self.path("killed")
        self.tune(asked, whole, "--lose", "1")
        n_whole = sum(map(len, records(whole, "tuning").values()))
        for n in 2, n_whole - 1, n_whole + 2:  # while dense is asked, in a rung, in the test
            run = subprocess.Popen([SACCADE, *self.arguments(asked, killed, "--lose", "1")], stdout=subprocess.DEVNULL)
            end = time.monotonic() + 60
            while time.monotonic() < end and run.poll() is None:
                parts = [p for p in ("tuning", "test") if os.path.isdir(os.path.join(killed, p))]
                if sum(len(read(killed, p, f).splitlines()) - 1 for p in parts
                       for f in os.listdir(os.path.join(killed, p)) if read(killed, p, f)) >= n:
                    break
            run.send_signal(signal.SIGKILL)
            run.wait()
        self.tune(asked, killed, "--lose", "1")
        for name in "methods.yaml", "run.yaml", "tune.jsonl":
            self.assertEqual(read(whole, name), read(killed, name))
        self.assertEqual(without_times(json.loads(read(whole, "tune.json"))), without_times(json.loads(read(killed, "tune.json"))))
        # nothing was asked twice
        for part in "tuning", "test":
            self.assertEqual({k: sorted(v) for k, v in records(whole, part).items()},
                             {k: sorted(v) for k, v in records(killed, part).items()})

    def test_report_and_files(self):
        asked, out = self.set(4, 4), self.path("out")
        run = self.tune(asked, out, "--want", "memory", "--method", "kv=int4 name=mine", "--lose", "0")
        self.assertEqual(sorted(os.listdir(out)), FILES)
        self.assertEqual(read(out, "report.md"), run.stdout)
        self.assertTrue(ET.parse(os.path.join(out, "front.svg")).getroot().tag.endswith("svg"))
        found = json.loads(read(out, "tune.json"))
        # tuning and test share no video
        tuned, judged = ({q for v in records(out, part).values() for q in v} for part in ("tuning", "test"))
        self.assertEqual(len(tuned | judged), 16)
        self.assertEqual({q.split("-")[0] for q in tuned} & {q.split("-")[0] for q in judged}, set())
        # the report's figures, recounted from the journals of the test part
        rows = {r["name"]: r for r in found["test"]["rows"]}
        results = {r["name"]: r for r in found["results"]}
        self.assertIn("mine", results)
        dense = sum(self.bytes(out, rows["dense"]))
        for name, r in results.items():
            self.assertEqual(rows[name]["questions"], len(judged))
            self.assertAlmostEqual(r["cost"], sum(self.bytes(out, rows[name])) / dense, places=6)
            self.assertEqual(r["lost"], rows["dense"]["correct"] - rows[name]["correct"])
        # what was asked, and how sure the answers are of themselves
        for part, key in ("tuning", "tuning"), ("test", "testing"):
            self.assertEqual(found[key]["answers"], sum(map(len, records(out, part).values())))
            self.assertGreater(found[key]["seconds"]["total"], found[key]["seconds"]["prefill"])
        dense, = [f for f in os.listdir(os.path.join(out, "test")) if f.startswith("dense")]
        self.assertTrue(all(json.loads(line)["margin"] > 0 for line in read(out, "test", dense).splitlines()[1:]))
        # no two lines are the same in other words
        methods = [tuple(r["methods"][part] for part in ("prefill", "kv", "decode", "rope", "reduce")) for r in found["test"]["rows"]]
        self.assertEqual(len(set(methods)), len(methods))
        # the front is what no other beats
        for name, r in results.items():
            beaten = any(o["cost"] <= r["cost"] and o["lost"] <= r["lost"] and (o["cost"], o["lost"]) != (r["cost"], r["lost"])
                         for o in results.values())
            self.assertEqual(r["front"], not beaten, name)
            risk = r["lost"] + r["moved"]
            riskier = any(o["cost"] <= r["cost"] and o["lost"] + o["moved"] <= risk and (o["cost"], o["lost"] + o["moved"]) != (r["cost"], risk)
                          for o in results.values())
            self.assertEqual(r["safe"], not riskier, name)
        chosen, = [r for r in results.values() if r["chosen"]]
        self.assertLess(chosen["cost"], 0.5)  # 4 bits a number, at most
        # the choice can be made again from what is written: the cheapest within the limits, the one of `moved` doubled as often as it takes
        last = [line for line in found["decisions"] if "rung" in line][-1]
        limits, used = found["choice"]["limits"], found["choice"]["used"]
        self.assertEqual(last["limits"], limits)
        self.assertEqual({r["name"] for r in last["settings"]} & set(last["kept"]), set(last["kept"]))
        limit, within = limits["moved"], []
        while not within:
            within = [r for r in last["settings"] if r["cost"] < 1 and r["lost"] <= limits["lost"] and r["moved"] <= limit]
            limit *= 1 if within else 2
        self.assertAlmostEqual(limit, used["moved"])
        self.assertEqual(min(within, key=lambda r: (r["cost"], r["lost"]))["name"], chosen["name"])
        self.assertEqual(found["choice"]["name"], chosen["name"])
        self.assertEqual("limit was doubled" in run.stdout, used["moved"] > limits["moved"])
        self.assertIn(f"| {chosen['moved']:.3f} |", run.stdout)
        self.assertIn(f"**{chosen['name']}** | {100 * chosen['cost']:.1f} %", run.stdout)
        # other commands take the files
        again = saccade("compare", asked, "--videos", DRAWN, "--prompt", "open", "--limit", "1", "--methods",
                        os.path.join(out, "methods.yaml"), "--json")
        self.assertEqual(again.returncode, 0, again.stderr)
        names = [r["name"] for r in json.loads(again.stdout)["rows"]]
        self.assertEqual(names[1], chosen["name"])
        self.assertEqual(set(names[1:]), {r["name"] for r in results.values() if (r["front"] or r["safe"]) and r["name"] != "dense"} | {chosen["name"]})
        answer = saccade("ask", "--config", os.path.join(out, "run.yaml"), "--json", "--video", f"{DRAWN}/drawn001_4.mp4", "What?")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(json.loads(answer.stdout)["methods"]["kv"], rows[chosen["name"]]["methods"]["kv"])

    def bytes(self, out, row):
        name = os.path.basename(row["journal"])
        for line in read(out, "test", name).splitlines()[1:]:
            record = json.loads(line)
            yield record["prompt_tokens"] * record["methods"]["kv_bytes_per_token"]


class Refusals(TuneCase):
    def refused(self, code, text, *arguments):
        run = saccade("tune", *arguments)
        self.assertEqual(run.returncode, code, run.stderr)
        self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
        self.assertIn(text, run.stderr)

    def test_bad_input(self):
        asked, out = self.set(2, 1), self.path("out")
        common = ["--videos", DRAWN, "--prompt", "open"]
        self.refused(64, "one question set is expected", "--out", out)
        self.refused(64, "--out DIR is missing", asked, *common)
        self.refused(64, "--want speed: prefill, memory or decode", asked, *common, "--out", out, "--want", "speed")
        self.refused(64, "--by luck: work or time", asked, *common, "--out", out, "--by", "luck")
        self.refused(64, "--lose", asked, *common, "--out", out, "--lose", "-1")
        self.refused(64, "did you mean", asked, *common, "--out", out, "--method", "kv=kivvi")
        self.refused(66, "No such file", self.path("none.json"), *common, "--out", out)
        one = self.path("one.json", json.dumps(videos(1, 2)))
        self.refused(64, "one video only", one, *common, "--out", out)
        self.refused(66, "could be asked", asked, "--videos", "docs", "--prompt", "open", "--out", out)
        self.refused(78, "session: kv is not for a comparison", asked, *common, "--out", out, "--config",
                     self.path("c.yaml", "session: {kv: int4}\n"))

    def test_another_search_is_refused(self):
        asked, out = self.set(2, 2), self.path("out")
        self.tune(asked, out, "--tries", "1", "--want", "decode", "--reuse")
        dense, = [f for f in os.listdir(os.path.join(out, "tuning")) if f.startswith("dense")]
        reused = [json.loads(line)["reused_tokens"] for line in read(out, "tuning", dense).splitlines()[1:]]
        self.assertEqual([n > 0 for n in reused], [False, True])  # the second question of a video begins as the first did
        run = saccade(*self.arguments(asked, out, "--tries", "1", "--want", "memory", "--reuse"))
        self.assertEqual(run.returncode, 78)
        self.assertIn('want is "decode" there and "memory" now', run.stderr)


if __name__ == "__main__":
    main()
