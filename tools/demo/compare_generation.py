#!/usr/bin/env python3
"""Long conversations of the demo model about one video, under several decode methods: accuracy and tokens a second.

  tools/demo/draw.py FOLDER --seed 78 --pictures 0 --videos 4 --lengths 12 --questions-per-video 320 --video-sizes 224x224
  tools/demo/compare_generation.py FOLDER

Questions and right answers follow each other, every token as a decode step (generation_probe.c); after 256, 512 and 1,024 steps
the table tells which share of the answers' tokens the model would have said itself, and the mean of their -ln p. Below it each
method stands against H2O, video by video at the last number of steps: how many tokens each had right, and the exact sign test
over the videos that tell them apart."""
import argparse
import collections
import json
import math
import subprocess
from pathlib import Path

STEPS = [256, 512, 1024]


def parse_arguments():
    repo = Path(__file__).resolve().parents[2]
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("folder", type=Path, help="as tools/demo/draw.py writes it")
    p.add_argument("--probe", type=Path, default=repo / "build/release/generation_probe")
    p.add_argument("--model", type=Path, default=repo / "models/demo")
    p.add_argument("--rows", type=int, default=256, help="that the methods hold or read")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--videos", type=int, default=None, metavar="N", help="only the first N")
    p.add_argument("--only", nargs="+", metavar="NAME", help="only these methods")
    return p.parse_args()


def methods(rows):
    return {"dense": "dense",
            "ADORE, m + r = all": "adore:m=2200,r=32",
            "ADORE, r = 32": f"adore:m={rows - 32},r=32",
            "ADORE, r = 8": f"adore:m={rows - 8},r=8",
            "ADORE, nothing rebuilt": f"adore:m={rows},r=0",
            "ADORE, r = 8, 32 newest kept": f"adore:m={rows - 8},r=8,recent=32",
            "ADORE, three quarters of the rows": f"adore:m={rows * 3 // 4},r=8",
            "ADORE, three quarters, 32 newest kept": f"adore:m={rows * 3 // 4},r=8,recent=32",
            "H2O": f"h2o:heavy={rows // 2},recent={rows // 2}",
            "H2O rebuilt, r = 8": f"adore:sigma=attention,m={rows - 8},r=8",
            "H2O rebuilt, r = 8, 32 newest kept": f"adore:sigma=attention,m={rows - 8},r=8,recent=32",
            "StreamingLLM": f"streaming:start=4,recent={rows - 4}"}


def turns_of(folder):
    turns = collections.defaultdict(list)
    for line in open(folder / "questions.jsonl"):
        q = json.loads(line)
        turns[q["file"]].append(f"{q['question']}\t{q['answer']}".replace("\n", "\\n") + "\n")
    return turns


def sign_test(won, lost):
    """p, two-sided"""
    n = won + lost
    return min(1, 2 * sum(math.comb(n, k) for k in range(min(won, lost) + 1)) / 2 ** n)


def against(by_video, other="H2O"):
    for name, videos in by_video.items():
        if name == other or other not in by_video:
            continue
        pairs = [(right, by_video[other][f][0], asked) for f, (right, asked) in videos.items()]
        won, lost = sum(a > b for a, b, _ in pairs), sum(a < b for a, b, _ in pairs)
        print(f"{name} / {other}: " + ", ".join(f"{a:.0f}/{b:.0f} of {n:.0f}" for a, b, n in pairs)
              + f"; ahead in {won}, behind in {lost} (p = {sign_test(won, lost):.2g})")


def main():
    args = parse_arguments()
    turns = dict(sorted(turns_of(args.folder).items())[:args.videos])
    by_video = {}
    print("| method | " + " | ".join(f"{n} tokens" for n in STEPS) + " | tokens/s | KV kB |")
    print("|---|" + "---|" * (len(STEPS) + 2))
    for name, line in methods(args.rows).items():
        if args.only and name not in args.only:
            continue
        asked, right, nll, speed = (collections.Counter() for _ in range(4))
        for file, text in sorted(turns.items()):
            command = [args.probe, args.model, args.folder / file, str(args.threads), "dense", "f16", line, *map(str, STEPS)]
            for row in subprocess.run(command, input="".join(text), text=True, capture_output=True, check=True).stdout.splitlines():
                r = json.loads(row)
                n = r["steps"]
                asked[n] += r["asked"]
                right[n] += r["right"]
                nll[n] += r["nll"] * r["asked"]
                speed[n] += r["tokens_per_second"] / len(turns)
                kv_bytes = r["kv_bytes"]
                if n == STEPS[-1]:
                    by_video.setdefault(name, {})[file] = r["right"], r["asked"]
        cells = [f"{100 * right[n] / asked[n]:.1f} % ({nll[n] / asked[n]:.3f})" for n in STEPS if asked[n]]
        print(f"| {name} | " + " | ".join(cells) + f" | {speed[STEPS[-1]]:.0f} | {kv_bytes / 1000:.0f} |", flush=True)
    print()
    against(by_video)


if __name__ == "__main__":
    main()
