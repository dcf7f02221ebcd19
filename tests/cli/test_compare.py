"""saccade compare: a set under several methods, killed and resumed, refused lines, and the figures recounted."""
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET

from cli import SACCADE, TIMEOUT_S, Case, Terminal, main, saccade

DRAWN = "samples/drawn"
FASTV = "prefill=fastv:layer=2,ratio=0.9"
SVG = "{http://www.w3.org/2000/svg}"
Z = 1.959963984540054


def load(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return json.load(f)


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.read()


def lines(*path):
    return [json.loads(line) for line in read(*path).splitlines()]


def drawn(n_videos, n_questions):
    """The smallest videos of the drawn set, with their first questions."""
    videos = sorted(load(DRAWN, "set.json"), key=lambda v: int(v["sub_category"].split()[0]))[:n_videos]
    return [dict(v, questions=v["questions"][:n_questions]) for v in videos]


def right(videos, records):
    """Of each question: was the text of the right option said?"""
    asked = [q for v in videos for q in v["questions"]]
    said = {r["question_id"]: r["response"].strip().rstrip(".").lower() for r in records}
    return [said[q["question_id"]] == dict(zip("ABCD", q["options"]))[q["answer"]][3:].rstrip(".").lower() for q in asked]


def without_times(value):
    """Nothing that a clock measured."""
    if isinstance(value, list):
        return [without_times(v) for v in value]
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if k not in ("seconds", "started", "select_share")}
    return value


def cells(table, number=0):
    """A table's rows of cells, by name; the columns that a clock measured are the last two of the first."""
    table = [part for part in table.split("\n\n") if part.startswith("|")][number]
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in table.splitlines()]
    return {row[0]: dict(zip(rows[0], row)) for row in rows[2:]}


class CompareCase(Case):
    def set(self, videos, name="set.json"):
        return self.path(name, json.dumps(videos, indent=1))

    def compare(self, set_path, *options, code=0):
        run = saccade("compare", set_path, "--videos", DRAWN, "--prompt", "open", "--threads", "1", *options)
        self.assertEqual(run.returncode, code, run.stderr)
        if code == 0:
            self.assertEqual(run.stderr, "")
        return run

    def journal(self, out, row):
        return lines(out, row["journal"])


class Figures(CompareCase):
    def test_two_methods_recounted(self):
        videos, out = drawn(2, 4), self.path("out")
        run = self.compare(self.set(videos), "--method", "kv=bf16", "--method", FASTV + " name=half", "--out", out)
        result = load(out, "compare.json")
        self.assertEqual(read(out, "table.md"), run.stdout + "\n")
        self.assertEqual(sorted(os.listdir(out)), ["compare.json", "front.svg", "journals", "overview.svg", "table.md"])
        dense, bf16, fastv = result["rows"]
        self.assertEqual([r["name"] for r in result["rows"]], ["dense", "kv=bf16", "half"])
        self.assertEqual(fastv["given"], {"prefill": FASTV[8:], "kv": None, "decode": None, "rope": None, "reduce": None})
        self.assertEqual(bf16["methods"]["kv"], "bf16")
        self.assertIn("ratio=0.9", fastv["methods"]["prefill"])
        self.assertEqual(result["header"]["settings"]["session"]["prefill"], "dense")
        table = cells(run.stdout)
        said = {}
        for row in result["rows"]:
            header, *records = self.journal(out, row)
            said[row["name"]] = right(videos, records)
            self.assertEqual(header["settings"]["session"]["kv"], row["given"]["kv"] or "f16")
            self.assert_scores(row, table[row["name"]], sum(said[row["name"]]), len(records))
            self.assert_methods(row, table[row["name"]], records)
        self.assertIsNone(dense["to_dense"])
        for row in bf16, fastv:
            self.assert_paired(row, table[row["name"]], list(zip(said["dense"], said[row["name"]])))
        self.assertEqual((dense["methods"]["kept_ratio"], dense["methods"]["attention_flops_saved"]), (1, 0))
        self.assertLess(fastv["methods"]["kept_ratio"], 0.6)
        self.assertEqual(fastv["kept_by_layer"][0], 1)
        self.assertLess(fastv["kept_by_layer"][-1], 0.3)
        layers = cells(run.stdout, 1)
        self.assertEqual(list(layers), ["half"])  # the only one that leaves tokens out
        self.assertEqual(list(layers["half"].values())[1:], [f"{kept:.3f}" for kept in fastv["kept_by_layer"]])
        self.assertEqual(table["half"]["pairs saved"], f"{100 * fastv['methods']['attention_pairs_saved']:.1f} %")
        # each video was encoded once, for all methods
        self.assertGreater(dense["seconds"]["vision"], 0)
        self.assertLess(bf16["seconds"]["vision"] + fastv["seconds"]["vision"], 0.05 * dense["seconds"]["vision"])

    def assert_scores(self, row, shown, correct, n):
        self.assertEqual((row["questions"], row["correct"], row["errors"]), (n, correct, 0))
        self.assertAlmostEqual(row["strict"]["value"], correct / n)
        self.assertAlmostEqual(row["accuracy"]["value"], correct / row["answered"])
        self.assertEqual(row["scores"]["all"]["overall"]["correct"], correct)
        p, m = correct / row["answered"], row["answered"]
        centre, half = p + Z * Z / (2 * m), Z * math.sqrt(p * (1 - p) / m + Z * Z / (4 * m * m))
        self.assertAlmostEqual(row["accuracy"]["low"], max(0, (centre - half) / (1 + Z * Z / m)))
        self.assertAlmostEqual(row["accuracy"]["high"], min(1, (centre + half) / (1 + Z * Z / m)))
        self.assertEqual(list(shown)[1:4], ["strict, %", "to dense, points", "of answered, %"])
        self.assertTrue(shown["strict, %"].startswith(f"{100 * correct / n:.2f} ("), shown)
        self.assertEqual(shown["of answered, %"], f"{100 * correct / m:.2f}")

    def assert_methods(self, row, shown, records):
        """Means over the questions' records."""
        mean = lambda key: sum(r["methods"][key] for r in records) / len(records)
        methods = row["methods"]
        for key in "kept_ratio", "attention_flops_saved", "decode_rows_read", "decode_budget", "kv_bytes_per_token":
            self.assertAlmostEqual(methods[key], mean(key), msg=key, delta=1e-6 * abs(mean(key)))
        layers = [r["methods"]["kept_by_layer"] for r in records]
        squares = [k * k for layer in layers for k in layer]
        self.assertAlmostEqual(methods["attention_flops_saved"], 1 - sum(squares) / len(squares), places=6)
        self.assertAlmostEqual(row["kept_by_layer"][-1], sum(k[-1] for k in layers) / len(records), places=6)
        self.assertIsNone(methods["prefill_mass"])
        self.assertIsNone(methods["decode_mass"])
        self.assertNotIn("mass", shown)
        self.assertEqual(shown["kept"], f"{methods['kept_ratio']:.3f}")
        self.assertEqual(shown["KV factor"], f"{methods['kv_factor']:.2f}x")
        seconds = sum(r["seconds"]["prefill"] + r["seconds"]["decode"] for r in records) / len(records)
        self.assertAlmostEqual(row["seconds"]["a_question"], seconds, places=6)

    def assert_paired(self, row, shown, pairs):
        n, lost, gained = len(pairs), sum(a and not b for a, b in pairs), sum(b and not a for a, b in pairs)
        got = row["to_dense"]
        self.assertEqual((got["questions"], got["lost"], got["gained"]), (n, lost, gained))
        self.assertAlmostEqual(got["value"], (gained - lost) / n)
        centre = (gained - lost) / (n + 2)
        half = Z * math.sqrt(gained + lost + 1 - (n + 2) * centre * centre) / (n + 2)
        self.assertAlmostEqual(got["low"], max(-1, centre - half))
        self.assertAlmostEqual(got["high"], min(1, centre + half))
        self.assertTrue(shown["to dense, points"].startswith(f"{100 * (gained - lost) / n:+.2f} ("), shown)

    def test_as_eval_has_it(self):
        videos = drawn(1, 2)
        set_path = self.set(videos)
        result = json.loads(self.compare(set_path, "--method", FASTV, "--measure-mass", "--json").stdout)
        run = saccade("eval", set_path, "--videos", DRAWN, "--prompt", "open", "--threads", "1", "--json", *FASTV_OPTION)
        scores, row = json.loads(run.stdout), result["rows"][1]
        self.assertEqual(row["scores"], scores["scores"])
        without_mass = lambda m: {k: v for k, v in without_times(m).items() if not k.endswith("_mass")}
        self.assertEqual(without_mass(row["methods"]), without_mass(scores["methods"]))
        self.assertIsNone(row["methods"]["prefill_mass"])  # later layers have no rows of what it dropped
        self.assertIsNone(row["methods"]["decode_mass"])
        dense = result["rows"][0]["methods"]
        self.assertEqual((dense["prefill_mass"], dense["decode_mass"]), (1, 1))
        self.assertIsNone(row["journal"])


FASTV_OPTION = ("--" + FASTV).split("=", 1)


class Drawings(CompareCase):
    METHODS = """
- {name: "a < b & c", kv: bf16}
- {prefill: "fastv:layer=0"}
- sweep: {name: FastV, prefill: "fastv:layer=2,ratio=*", over: [0.5, 0, 2]}
"""

    def test_labels_do_not_meet(self):
        lines = "".join(f"- {{kv: {kv}}}\n" for kv in ("bf16", "f32", "mixed", "kivi", "int4", "zipcache"))     # all at one dot
        sweep = '- sweep: {name: Twilight, decode: "twilight:p=*", over: [0.3, 0.9, 0.95, 0.99]}\n'
        out = self.path("out")
        self.compare(self.set(drawn(1, 1)), "--methods", self.path("m.yaml", lines + sweep), "--out", out)
        overview, sweep = (ET.parse(os.path.join(out, name)).getroot() for name in ("overview.svg", "sweep1.svg"))
        labels = [(float(t.get("x")), float(t.get("y"))) for t in overview.iter(SVG + "text")
                  if t.get("font-size") == "11" and not t.get("text-anchor") and t.text.isdigit()]
        self.assertGreaterEqual(len(labels), 7)
        dots = [(float(c.get("cx")), float(c.get("cy"))) for c in overview.iter(SVG + "circle")]
        for i, (x, y) in enumerate(labels):     # a number meets no other, nor a dot
            self.assertFalse([o for o in labels[:i] if abs(o[0] - x) < 14 and abs(o[1] - y) < 9])
            self.assertFalse([d for d in dots if x - 4 < d[0] < x + 16 and y - 12 < d[1] < y + 3])
        ticks = {t.text for t in sweep.iter(SVG + "text") if t.get("font-size") == "11"}
        self.assertLessEqual({"0.3", "0.9", "0.95", "0.99"}, ticks)

    def test_names_that_do_not_exist(self):
        """Refused before the set is read."""
        for line, needles in [("decode=streamng", ("decode=streamng", "did you mean streaming?")), ("prefill=nosuch:tau=1", ('"nosuch" is not known',)),
                              ("kv=nosuch", ("kv=nosuch",))]:
            self.assert_refused(saccade("compare", "no.json", "--prompt", "open", "--method", line), 64, *needles)

    def test_a_sweep_and_refused_lines(self):
        out = self.path("out")
        run = self.compare(self.set(drawn(1, 2)), "--methods", self.path("m.yaml", self.METHODS), "--out", out, code=75)
        self.assertRegex(run.stderr, r"\Asaccade: 2 of 6 method lines were refused; the first, prefill=fastv:layer=0: [^\n]*layer=0[^\n]*\n\Z")
        result = load(out, "compare.json")
        refused = [r["name"] for r in result["rows"] if r["refused"]]
        self.assertEqual(refused, ["prefill=fastv:layer=0", "FastV 2"])
        self.assertIn('layer=0', result["rows"][2]["refused"]["text"])
        self.assertIn("prefill=fastv:layer=0: refused: ", run.stdout)
        table = cells(run.stdout)
        self.assertEqual(table["FastV 2"]["strict, %"], "refused, see below")
        self.assertEqual(result["sweeps"][0]["given"]["prefill"], "fastv:layer=2,ratio=*")
        self.assertEqual([(p["value"], p["name"], p["row"]) for p in result["sweeps"][0]["points"]],
                         [("0.5", "FastV 0.5", 3), ("0", "FastV 0", 4), ("2", "FastV 2", 5)])
        self.assertEqual(len(os.listdir(os.path.join(out, "journals"))), 4)
        overview, sweep = (ET.parse(os.path.join(out, name)).getroot() for name in ("overview.svg", "sweep1.svg"))
        texts = [t.text for t in overview.iter(SVG + "text")]
        self.assertTrue(any(t and t.startswith("a < b & c: ") for t in texts), texts)
        self.assertIn("prefill=fastv:layer=0: refused", texts)
        texts = [t.text for t in sweep.iter(SVG + "text")]
        self.assertEqual((texts[0], texts[1]), ("FastV", "prefill=fastv:layer=2,ratio=*"))
        self.assertIn("refused", texts)
        points = [c for c in sweep.iter(SVG + "circle")]
        panels = "strict accuracy", "kept", "rows read", "KV factor"     # FastV drops tokens: all differ from dense
        self.assertEqual([[t.split(",")[0].split(":")[0] for t in texts if t.startswith(p)][:1] for p in panels],
                         [["strict accuracy"], ["kept"], ["rows read in a step"], ["KV factor"]])
        self.assertEqual(len(points), 2 * len(panels))
        self.assertLess(float(points[0].get("cx")), float(points[1].get("cx")))


class Resuming(CompareCase):
    def start(self, out, set_path):
        return subprocess.Popen([SACCADE, "compare", set_path, "--videos", DRAWN, "--prompt", "open", "--threads", "1",
                                 "--method", "kv=bf16", "--method", FASTV, "--out", out],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def n_lines(self, out):
        folder = os.path.join(out, "journals")
        return sum(read(folder, name).count("\n") for name in os.listdir(folder)) if os.path.isdir(folder) else 0

    def kill_after(self, process, out, n_lines, seconds):
        """SIGKILL some time after the journals have so many lines."""
        end = time.monotonic() + TIMEOUT_S
        while process.poll() is None and time.monotonic() < end and self.n_lines(out) < n_lines:
            time.sleep(.002)
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        process.communicate()

    def result(self, out):
        clocked = "selecting", "s/question"
        table = {name: {k: v for k, v in row.items() if k not in clocked} for name, row in cells(read(out, "table.md")).items()}
        journals = os.path.join(out, "journals")
        return (without_times(load(out, "compare.json")), table, read(out, "overview.svg"),
                {name: without_times(lines(journals, name)) for name in os.listdir(journals)})

    def test_killed_and_resumed(self):
        rng, set_path, whole, out = random.Random(1), self.set(drawn(2, 4)), self.path("whole"), self.path("out")
        options = ["--method", "kv=bf16", "--method", FASTV]
        self.compare(set_path, *options, "--out", whole)
        for n_lines in 1, 5, 12, 22:
            self.kill_after(self.start(out, set_path), out, n_lines, 0.3 * rng.random())
        self.compare(set_path, *options, "--out", out)
        self.assertEqual(self.result(out), self.result(whole))
        # finished: nothing is asked again, the same is printed; another method joins
        before = {name: read(out, name) for name in ("compare.json", "table.md", "overview.svg")}
        self.compare(set_path, *options, "--out", out)
        self.assertEqual({name: read(out, name) for name in before}, before)
        self.compare(set_path, "--method", "kv=f32", *options, "--out", out)
        self.assertEqual([r["name"] for r in load(out, "compare.json")["rows"]], ["dense", "kv=f32", "kv=bf16", FASTV])
        # other settings are not mixed in
        run = self.compare(set_path, *options, "--measure-mass", "--out", out, code=78)
        self.assertIn("settings.session.measure_mass is false there and true now", run.stderr)

    def test_interrupted_with_progress(self):
        out = self.path("out")
        arguments = ["compare", self.set(drawn(3, 4)), "--videos", DRAWN, "--prompt", "open", "--out", out, "--method", "kv=bf16",
                     "--threads", "1"]
        run = Terminal(*arguments)
        run.wait_for("method 2 of 2 [")
        run.type("\x03")
        self.assertEqual(run.exit_code(), 130)
        self.assertFalse(os.path.exists(os.path.join(out, "table.md")))
        run = Terminal(*arguments)
        run.wait_for(" of 24 answers were there before")
        self.assertEqual(run.exit_code(), 0)


class Parts(CompareCase):
    """tools/compare_shards.py"""

    def shards(self, out, path, n, *options):
        command = [sys.executable, "-B", "tools/compare_shards.py", out, "--processes", str(n), "--", path, "--videos", DRAWN, "--prompt", "open",
                   "--threads", "1", *options]
        return subprocess.run(command, text=True, env={**os.environ, "SACCADE": SACCADE}, timeout=TIMEOUT_S, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)

    def test_they_are_one_comparison(self):
        videos, options = drawn(3, 2), ["--method", FASTV]
        path, one, out = self.set(videos), self.path("one"), self.path("out")
        self.compare(path, *options, "--out", one)
        run = self.shards(out, path, 2, *options)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(sorted(len(load(out, "parts", name)) for name in ("0.json", "1.json")), [1, 2])
        self.assertEqual(without_times(load(out, "whole/compare.json")), without_times(load(one, "compare.json")))
        self.assertEqual(read(out, "whole/table.md"), run.stdout + "\n")
        before = {name: read(out, "whole/journals", name) for name in os.listdir(os.path.join(out, "whole/journals"))}
        for name, text in before.items():  # answers of the parts, times included; the first question was asked for the header
            of_parts = read(out, "parts/0/journals", name) + read(out, "parts/1/journals", name)
            self.assertEqual(len(text.splitlines()), 7)
            self.assertEqual([line for line in text.splitlines()[2:] if line not in of_parts.splitlines()], [])
        self.assertEqual(self.shards(out, path, 2, *options).returncode, 0)  # all is there
        self.assertEqual({name: read(out, "whole/journals", name) for name in before}, before)
        other = self.shards(out, path, 3, *options)
        self.assertEqual(other.returncode, 1)
        self.assertIn("another number of processes", other.stderr)


class Refusals(CompareCase):
    def test_videos_that_cannot_be_shown(self):
        videos, folder, out = drawn(2, 2), self.path("videos"), self.path("out")
        os.mkdir(folder)
        shutil.copy(os.path.join(DRAWN, videos[1]["videoID"] + ".mp4"), folder)
        ask = lambda *more: saccade("compare", self.set(videos), "--videos", folder, "--prompt", "open", "--method", "kv=bf16",
                                    "--out", out, *more)
        run = ask()
        self.assertEqual(run.returncode, 75, run.stderr)
        self.assertRegex(run.stderr, r"\Asaccade: 4 questions could not be asked; the first: .*no such file\n\Z")
        row = load(out, "compare.json")["rows"][1]
        self.assertEqual((row["questions"], row["errors"], row["to_dense"]["questions"]), (4, 2, 2))
        shutil.copy(os.path.join(DRAWN, videos[0]["videoID"] + ".mp4"), folder)
        self.assertEqual(ask("--retry").returncode, 0)
        self.assertEqual(load(out, "compare.json")["rows"][1]["errors"], 0)

    def test_no_dense_row(self):
        run = saccade("compare", self.set(drawn(1, 1)), "--videos", DRAWN, "--ctx", 2**31 - 1, "--method", "kv=bf16")
        self.assertNotIn(run.returncode, (0, 75))
        self.assert_refused(run, run.returncode)

    def test_the_command_line(self):
        set_path, config = self.set(drawn(1, 1)), self.path("run.yaml", "session: {prefill: fastv}\n")
        refused = lambda *options: saccade("compare", set_path, "--videos", DRAWN, *options)
        self.assert_refused(saccade("compare"), 64, "one question set")
        self.assert_refused(refused(), 64, "--method")
        self.assert_refused(refused("--method", "fastv"), 64, "expected prefill=", "'fastv'")
        self.assert_refused(refused("--method", "kv=bf16", "--method", "kv=bf16"), 64, "the same line")
        self.assert_refused(refused("--prefill", "fastv"), 64, "--prefill")
        self.assert_refused(refused("--config", config, "--method", "kv=bf16"), 78, "run.yaml", "prefill")
        self.assert_refused(refused("--methods", self.path("no.yaml")), 66, "no.yaml")
        self.assert_refused(refused("--methods", self.path("m.yaml", "- {kv: a}\n- {what: b}\n")), 78, "m.yaml:2: unknown key")
        self.assert_refused(refused("--method", "kv=bf16", "--retry"), 64, "--retry")
        self.assert_refused(refused("--method", "kv=bf16", "--out", self.path("file", "no folder") + "/where"), 74, "file/where")


if __name__ == "__main__":
    main()
