#!/usr/bin/env python3
"""Is a build as fast as another one? Runs `saccade bench` (and batch_probe) of both in turns, method by method, and prints
how fast the second is, with the first as 1.

  tools/compare_builds.py --before ../old/build/release --after build/release
  tools/compare_builds.py --before A --after B --only zipvl --rounds 9 --threads 2 --prompt-tokens 4096
  tools/compare_builds.py --before A --after B --device cuda --model path/to/Qwen2-7B --prompt-tokens 32768

Each round runs before, after, after, before, so that a drift of the machine's speed falls on both. A figure is the least time of all
rounds against the least time; the spread is the middle half of the ratios round by round. The last column is the first build against
itself, its first runs of all rounds against its last ones: how far from 1 a figure can be where nothing differs. On a machine
with two busy cores it was 1.18 for models/demo: then more rounds or a quiet machine are needed before a figure says anything.
Exit status 1 when a figure is below --least.
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def methods(path):
    """(name, bench options) of every line of a list of methods: one flow mapping a line."""
    found = [("dense", [])]
    for line in path.read_text().splitlines():
        match = re.match(r"- \{(.*)\}$", line.strip())
        if not match:
            continue
        fields = dict(re.findall(r'(\w+): ("[^"]*"|[^,"]+)', match.group(1)))
        name = fields.pop("name").strip('"')
        options = []
        for key, value in fields.items():
            options += [f"--{key}", value.strip().strip('"')]
        found.append((name, options))
    return found


def run_bench(build, options):
    run = subprocess.run([build / "saccade", "bench", "--json", "-q", "-r", "1", *options], capture_output=True, text=True, cwd=ROOT)
    if run.returncode:
        return None, run.stderr.strip()
    return {name: part["median_s"] for name, part in json.loads(run.stdout)["parts"].items() if name != "load"}, ""


def run_batch(build, options):
    """Seconds of processor time a token, of 8 sessions that step together."""
    run = subprocess.run([build / "batch_probe", *options], capture_output=True, text=True, cwd=ROOT)
    rows = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    found = {f"{row['sessions']} sessions": 1 / row["together_tokens_s"] for row in rows if row["sessions"] == 8}
    return (found, "") if found else (None, run.stderr.strip())


def compare(before, after, run, options, rounds):
    """{part: (gain, lower quartile, upper quartile, gain of `before` over itself)}, or the reason why not."""
    times = [], []
    for _ in range(rounds):
        for which in (0, 1, 1, 0):
            build = (before, after)[which]
            parts, why = run(build, options)
            if parts is None:
                return f"{build}: {why}"
            times[which].append(parts)
    gains = {}
    for part in times[0][0]:
        old, new = ([t[part] for t in side] for side in times)
        each = sorted(a / b for a, b in zip(old, new))
        quartiles = statistics.quantiles(each, n=4) if len(each) > 1 else [each[0]] * 3
        gains[part] = (min(old) / min(new), quartiles[0], quartiles[2], min(old[0::2]) / min(old[1::2]))
    return gains


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--before", type=pathlib.Path, required=True, help="build folder of the old tree")
    p.add_argument("--after", type=pathlib.Path, required=True, help="build folder of the new tree")
    p.add_argument("--methods", type=pathlib.Path, default=ROOT / "samples/drawn/methods.yaml")
    p.add_argument("--only", default="", help="names of methods that match this regular expression")
    p.add_argument("--rounds", type=int, default=3, help="rounds of four runs (3)")
    p.add_argument("--threads", default="1")
    p.add_argument("--prompt-tokens", default="2048")
    p.add_argument("--gen-tokens", default="64")
    p.add_argument("--device", default="cpu", help="where the model runs (cpu)")
    p.add_argument("--model", default="models/demo")
    p.add_argument("--least", type=float, default=0.98, help="what the second must reach (0.98)")
    a = p.parse_args()
    before, after = a.before.resolve(), a.after.resolve()
    where = ["-t", a.threads, "-m", a.model, "--device", a.device]
    common = [*where, "-p", a.prompt_tokens, "-n", a.gen_tokens]
    cases = [(name, run_bench, common + options) for name, options in methods(a.methods)]
    cases.append(("video of 64 frames", run_bench,
                  [*where, "-n", "8", "--video", "samples/video0001_64.mp4", "--num-frames", "64"]))
    cases.append(("steps together", run_batch, [a.model, a.threads, "300", "24", *([a.device] if a.device != "cpu" else [])]))
    low = failed = 0
    for name, run, options in cases:
        if not re.search(a.only, name, re.I):
            continue
        gains = compare(before, after, run, options, a.rounds)
        if isinstance(gains, str):
            print(f"{name}: {gains}")
            failed += 1
            continue
        for part, (gain, lower, upper, itself) in gains.items():
            mark = "" if gain >= a.least else f"   below {a.least}"
            low += bool(mark)
            print(f"{name:34} {part:12} {gain:6.3f}   ({lower:.3f} to {upper:.3f})   itself {itself:.3f}{mark}", flush=True)
    print(f"{low} figures below {a.least}, {failed} could not be measured")
    return 1 if low or failed else 0


if __name__ == "__main__":
    sys.exit(main())
