#!/usr/bin/env python3
"""`saccade compare` by several processes at once, each with some of the videos: it asks one question after another, and a card or a machine of many
cores has room for more.

    tools/compare_shards.py OUT --processes 14 [--cards 2] -- test/set.json --videos test --prompt open --device cuda -t 1 --methods lines.yaml

Behind `--` stands what compare takes, the set first; it is of Video-MME's form, a list of videos with their questions. Videos are dealt out by their number of questions
and at random, so that parts take about as long. OUT/parts has a set and a comparison for each process, OUT/whole the comparison of all: its journals take the
parts' answers over, so that the last run of compare asks nothing more, and prints its table. What was stopped goes on with the same command. SACCADE: the program
(build/release/saccade)."""
import argparse
import glob
import json
import os
import random
import subprocess
import sys

SACCADE = os.environ.get("SACCADE", "build/release/saccade")


def deal(videos, n, seed):
    """n lists with about as many questions each."""
    videos = list(videos)
    random.Random(seed).shuffle(videos)
    parts = [[] for _ in range(n)]
    for video in sorted(videos, key=lambda v: -len(v["questions"])):
        min(parts, key=lambda p: sum(len(v["questions"]) for v in p)).append(video)
    return [p for p in parts if p]


def compare(path, out, arguments, **more):
    return [SACCADE, "compare", path, *arguments, "--out", out], dict(stdin=subprocess.DEVNULL, **more)


def run_parts(out, parts, arguments, cards):
    """True where every process went through, lines that the model refuses (75) apart."""
    paths, running = [os.path.join(out, "parts", f"{i}.json") for i in range(len(parts))], []
    for path, videos in zip(paths, parts):
        text = json.dumps(videos)
        if os.path.exists(path) and open(path, encoding="utf-8").read() != text:
            raise SystemExit(f"{path}: of another set, or another number of processes; give these, or another OUT")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    for i, path in enumerate(paths):
        command, more = compare(path, os.path.join(out, "parts", str(i)), arguments + ["-q"], stdout=subprocess.DEVNULL)
        env = {**os.environ, **({"CUDA_VISIBLE_DEVICES": str(i % cards)} if cards else {})}
        running.append(subprocess.Popen(command, env=env, **more))
    try:
        return all([p.wait() in (0, 75) for p in running])
    except KeyboardInterrupt:  # they have had it, too, and keep what they have
        [p.wait() for p in running]
        raise SystemExit(130) from None


def take_over(out):
    """The parts' answers to the journals of the whole, which have a header and their first question."""
    for whole in glob.glob(os.path.join(glob.escape(out), "whole/journals/*.jsonl")):
        with open(whole, encoding="utf-8") as f:
            lines = [line for line in f if line.endswith("\n")]  # a killed run leaves half a line
        os.truncate(whole, sum(len(line.encode()) for line in lines))
        there = {json.loads(line).get("question_id") for line in lines}
        with open(whole, "a", encoding="utf-8") as f:
            for path in sorted(glob.glob(os.path.join(glob.escape(out), "parts/*/journals", glob.escape(os.path.basename(whole))))):
                with open(path, encoding="utf-8") as part:
                    f.writelines(line for line in list(part)[1:] if line.endswith("\n") and json.loads(line)["question_id"] not in there)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("out")
    p.add_argument("--processes", type=int, default=os.cpu_count())
    p.add_argument("--cards", type=int, default=0, help="GPUs that take turns; 0: as they are")
    p.add_argument("--seed", type=int, default=0, help="of who has which videos")
    p.add_argument("compare", nargs="+", metavar="-- SET OPTIONS", help="of saccade compare, without --out and --limit")
    args = p.parse_args()
    path, *arguments = args.compare
    if args.processes < 1 or {"--out", "--limit"} & {a.split("=")[0] for a in arguments}:
        p.error("at least one process, and neither --out nor --limit behind --")
    with open(path, encoding="utf-8") as f:
        videos = json.load(f)
    if not isinstance(videos, list) or not all(isinstance(v, dict) and isinstance(v.get("questions"), list) for v in videos):
        raise SystemExit(f"{path}: no list of videos with their questions")
    if "--videos" not in {a.split("=")[0] for a in arguments}:
        arguments += ["--videos", os.path.dirname(path) or "."]
    os.makedirs(os.path.join(args.out, "parts"), exist_ok=True)
    if not run_parts(args.out, deal(videos, args.processes, args.seed), arguments, args.cards):
        raise SystemExit("a part failed, see above; the same command goes on")
    command, more = compare(path, os.path.join(args.out, "whole"), arguments)
    if not glob.glob(os.path.join(glob.escape(args.out), "whole/journals/*.jsonl")):
        subprocess.run([*command, "--limit", "1", "-q"], **{**more, "stdout": subprocess.DEVNULL})
    take_over(args.out)
    sys.exit(subprocess.run(command, **more).returncode)


if __name__ == "__main__":
    main()
