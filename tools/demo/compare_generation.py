#!/usr/bin/env python3
"""Long conversations of the demo model about one video, under several decode methods: accuracy and tokens a second.

  tools/demo/draw.py FOLDER --seed 78 --pictures 0 --videos 4 --lengths 12 --questions-per-video 320 --video-sizes 224x224
  tools/demo/compare_generation.py FOLDER

Questions and right answers follow each other, every token as a decode step (generation_probe.c); after 256, 512 and 1,024 steps
the table tells which share of the answers' tokens the model would have said itself, and the mean of their -ln p."""
import argparse
import collections
import json
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
    return p.parse_args()


def methods(rows):
    return {"dense": "dense",
            "ADORE, m + r = all": "adore:m=2200,r=32",
            "ADORE, r = 32": f"adore:m={rows - 32},r=32",
            "ADORE, r = 8": f"adore:m={rows - 8},r=8",
            "ADORE, nothing rebuilt": f"adore:m={rows},r=0",
            "ADORE, r = 8, 32 newest kept": f"adore:m={rows - 8},r=8,recent=32",
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


def main():
    args = parse_arguments()
    turns = turns_of(args.folder)
    print("| method | " + " | ".join(f"{n} tokens" for n in STEPS) + " | tokens/s | KV kB |")
    print("|---|" + "---|" * (len(STEPS) + 2))
    for name, line in methods(args.rows).items():
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
        cells = [f"{100 * right[n] / asked[n]:.1f} % ({nll[n] / asked[n]:.3f})" for n in STEPS if asked[n]]
        print(f"| {name} | " + " | ".join(cells) + f" | {speed[STEPS[-1]]:.0f} | {kv_bytes / 1000:.0f} |", flush=True)


if __name__ == "__main__":
    main()
