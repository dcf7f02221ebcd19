#!/usr/bin/env python3
"""What rounding a model's weights costs: questions of the drawn set for each format of --weights, beside the weights as they are.

    tools/compare_formats.py SACCADE [--model MODEL] [--frames 32] [--formats q8_0,w4a16] [-t 1]
    tools/compare_formats.py SACCADE --calibrate LIST [--text FILE] [--device cuda] ...

Prints a table: bytes of all weights, questions right (all of the videos of at most --frames frames), and how many answers are word for
word those of the model as it is. With --text in their place the perplexity of a language model on that text (`saccade eval --text`: the last
--tail tokens of --samples windows of --length). With --calibrate LIST each format has a second row, of what `saccade quantize --calibrate LIST`
writes; LIST should hold neither the questions nor the text. q8_0 has none, as it leaves nothing to choose, and GGUF's formats have one with --text
alone, as such a file does not see. --device is where questions and text are run. The demo model without --model. Needs nothing but Python."""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SET = os.path.join(ROOT, "samples/drawn")
FORMATS = "q8_0 q6_k q5_1 q5_0 q5_k_m q4_1 q4_0 q4_k_m w8a16 int8 fp8 w4a16:g=32 w4a16:g=64 w4a16".split()


def run(*words):
    r = subprocess.run(words, capture_output=True, text=True)
    if r.returncode:
        sys.exit(f"{' '.join(words)}: {r.stderr.strip()}")
    return r.stdout


class Questions:
    """Of the drawn set."""
    columns = ["right", "same words"]

    def __init__(self, a, folder):
        self.a, self.folder, self.first, self.n = a, folder, None, 0
        with open(os.path.join(SET, "set.json"), encoding="utf-8") as f:
            videos = [v for v in json.load(f) if int(v["videoID"].rsplit("_", 1)[1]) <= a.frames]
        self.subset = os.path.join(folder, "set.json")
        with open(self.subset, "w", encoding="utf-8") as f:
            json.dump(videos, f)

    def measure(self, *model):
        self.n += 1
        out = os.path.join(self.folder, f"out-{self.n}")
        run(self.a.saccade, "eval", self.subset, "--videos", SET, "--prompt", "open", "--out", out, *self.a.place, *model)
        with open(os.path.join(out, "result.json"), encoding="utf-8") as f:
            asked = [q for v in json.load(f) for q in v["questions"]]
        said = [q.get("response_text", q.get("answer_text", q["response"])) for q in asked]
        self.first = self.first or said
        right = sum(q["response"] == q["answer"] for q in asked)
        return [f"{right} of {len(asked)}", str(sum(x == y for x, y in zip(said, self.first)))]


class Text:
    columns = ["perplexity"]

    def __init__(self, a, folder):
        self.a = a

    def measure(self, *model):
        a = self.a
        said = run(a.saccade, "eval", "--text", a.text, "--length", a.length, "--samples", a.samples, "--tail", a.tail, "--json", *a.place, *model)
        return [f"{float(re.search(r'.perplexity.: ([0-9.]+)', said)[1]):.3f}"]


def is_gguf(name):
    return name[0] != "w" and name not in ("int8", "fp8")


def calibrated(a, name, folder):
    """The model written to a format by prompts; to be removed."""
    out = os.path.join(folder, "model.gguf" if is_gguf(name) else "model")
    run(a.saccade, "quantize", a.model or os.path.join(ROOT, "models/demo"), out, "--format", name, "--calibrate", a.calibrate, "-q", "-t", a.threads)
    return out


def main():
    p = argparse.ArgumentParser()
    p.add_argument("saccade")
    p.add_argument("--model")
    p.add_argument("--frames", type=int, default=32)
    p.add_argument("--formats", default=",".join(FORMATS))
    p.add_argument("--calibrate")
    p.add_argument("--text")
    p.add_argument("--length", default="384")
    p.add_argument("--samples", default="24")
    p.add_argument("--tail", default="64")
    p.add_argument("--device")
    p.add_argument("-t", "--threads", default="1")
    a = p.parse_args()
    a.place = ["--device", a.device] if a.device else []
    more = ["-q", "-t", a.threads]
    source = more + (["-m", a.model] if a.model else [])
    with tempfile.TemporaryDirectory() as folder:
        kind = (Text if a.text else Questions)(a, folder)
        print("| weights | bytes | " + " | ".join(kind.columns) + " |\n| --- | --- |" + " --- |" * len(kind.columns))

        def row(title, *model):
            told = json.loads(run(a.saccade, "inspect", *model, "--json"))
            print(f"| {title} | {find(told, 'weight_bytes')} | {' | '.join(kind.measure(*model))} |", flush=True)

        row("as they are", *source)
        for name in a.formats.split(","):
            row(name, *source, "--weights", name)
            if not a.calibrate or name == "q8_0" or (is_gguf(name) and not a.text):
                continue
            out = calibrated(a, name, folder)
            row(name + ", calibrated", *more, "-m", out)
            (shutil.rmtree if os.path.isdir(out) else os.remove)(out)


def find(value, key):
    """The first value under a key, however deep."""
    if isinstance(value, dict):
        if key in value:
            return value[key]
        value = list(value.values())
    for v in value if isinstance(value, list) else []:
        found = find(v, key)
        if found is not None:
            return found
    return None


if __name__ == "__main__":
    main()
