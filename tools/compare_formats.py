#!/usr/bin/env python3
"""What rounding a model's weights costs: questions of the drawn set for each format of --weights, beside the weights as they are.

    tools/compare_formats.py SACCADE [--model MODEL] [--frames 32] [--formats q8_0,w4a16] [-t 1]

Prints a table: bytes of all weights, questions right (all of the videos of at most --frames frames), and how many answers are word for
word those of the model as it is. The demo model without --model. Needs nothing but Python."""
import argparse
import json
import os
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


def main():
    p = argparse.ArgumentParser()
    p.add_argument("saccade")
    p.add_argument("--model")
    p.add_argument("--frames", type=int, default=32)
    p.add_argument("--formats", default=",".join(FORMATS))
    p.add_argument("-t", "--threads", default="1")
    a = p.parse_args()
    more = ["-q", "-t", a.threads] + (["-m", a.model] if a.model else [])
    with open(os.path.join(SET, "set.json"), encoding="utf-8") as f:
        videos = [v for v in json.load(f) if int(v["videoID"].rsplit("_", 1)[1]) <= a.frames]
    first = None
    print("| weights | bytes | right | same words |\n| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        subset = os.path.join(folder, "set.json")
        with open(subset, "w", encoding="utf-8") as f:
            json.dump(videos, f)
        for name in [None] + a.formats.split(","):
            out = os.path.join(folder, "out-" + str(name).replace(":", "-"))
            weights = ["--weights", name] if name else []
            model = json.loads(run(a.saccade, "inspect", *more, *weights, "--json"))
            run(a.saccade, "eval", subset, "--videos", SET, "--prompt", "open", "--out", out, *more, *weights)
            with open(os.path.join(out, "result.json"), encoding="utf-8") as f:
                asked = [q for v in json.load(f) for q in v["questions"]]
            said = [q.get("response_text", q.get("answer_text", q["response"])) for q in asked]
            first = first or said
            right = sum(q["response"] == q["answer"] for q in asked)
            same = sum(x == y for x, y in zip(said, first))
            print(f"| {name or 'as they are'} | {find(model, 'weight_bytes')} | {right} of {len(asked)} | {same} |", flush=True)


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
