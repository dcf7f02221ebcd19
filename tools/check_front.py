#!/usr/bin/env python3
"""Does what `saccade tune` finds leave every fixed line of the scoreboard behind? Runs tune, asks the fixed lines the questions of its test part, and
prints for each the line of the front that costs no more and loses no more, or that there is none (exit code 1).

    SACCADE=build/release/saccade tools/check_front.py --want memory --minutes 20 --out runs/front [--frames 24] [-- options of both commands]

Fixed lines: samples/drawn/methods.yaml and methods_steps.yaml, or those of --methods. Costs are tune's own, by work;
lines that cannot make less of what is wanted are left out."""
import argparse
import json
import math
import os
import re
import resource
import subprocess
import sys
import time

SACCADE = os.environ.get("SACCADE", "build/release/saccade")
DRAWN = "samples/drawn"
DROPPING = ("snapkv", "pyramidkv", "h2o", "adore", "fastv")


# of a fixed line's text: what can make this less; all others cost what dense does
LESS = {"prefill": r"prefill:", "memory": r"kv:|snapkv|pyramidkv|h2o|adore|fastv", "decode": r"kv:|decode:|fastv"}


def load(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return json.load(f)


def records(path):
    with open(path, encoding="utf-8") as f:
        return {r["question_id"]: r for r in map(json.loads, list(f)[1:]) if "error" not in r}


def cost_of(want, given, record):
    """As runtime/app/tune/tune_cost.c."""
    methods, prompt = record["methods"], record["prompt_tokens"]
    if want == "prefill":
        return prompt ** 2 * (1 - methods["attention_pairs_saved"])
    if want == "memory":
        return prompt * methods["kv_bytes_per_token"]
    if methods["decode_rows_read"] is None:
        return math.nan
    drops = "low=0" in (given["kv"] or "") or any((given[part] or "").startswith(DROPPING) for part in ("prefill", "decode"))
    return prompt * methods["kv_bytes_per_token"] * (1 if drops else methods["decode_rows_read"])


def costs(want, out, rows):
    """Of each fixed line, as a share of dense's on the same questions."""
    dense = records(os.path.join(out, rows[0]["journal"]))
    found = {}
    for row in rows:
        if row["refused"]:
            continue
        mine = records(os.path.join(out, row["journal"]))
        pairs = [(cost_of(want, row["given"], mine[q]), cost_of(want, rows[0]["given"], dense[q])) for q in mine if q in dense]
        pairs = [(a, b) for a, b in pairs if not math.isnan(a) and not math.isnan(b)]
        found[row["name"]] = sum(a for a, _ in pairs) / sum(b for _, b in pairs) if pairs else math.nan
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--want", default="memory", choices=["prefill", "memory", "decode"])
    parser.add_argument("--minutes", default="20")
    parser.add_argument("--frames", type=int, default=24, help="videos of at most so many (24)")
    parser.add_argument("--out", required=True)
    parser.add_argument("--methods", nargs="*", default=[f"{DRAWN}/methods{name}.yaml" for name in ("", "_steps")])
    parser.add_argument("--fixed", help="where the fixed lines' answers are kept (OUT/fixed): several aims may share them")
    parser.add_argument("--lose", default="0.5")
    parser.add_argument("--tries", default="0", help="settings that tune begins with (0: as many as there is time for)")
    parser.add_argument("options", nargs="*", help="of both commands, behind --")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    path = lambda name: os.path.join(args.out, name)
    videos = [v for v in load(DRAWN, "set.json") if int(v["sub_category"].split()[0]) <= args.frames]
    with open(path("set.json"), "w", encoding="utf-8") as f:
        json.dump(videos, f)
    common = ["--videos", DRAWN, "--prompt", "open", "--quiet", *args.options]
    began = time.monotonic()
    subprocess.run([SACCADE, "tune", path("set.json"), *common, "--want", args.want, "--lose", args.lose, "--minutes", args.minutes,
                    "--tries", args.tries, "--out", path("tune")],
                   check=True)
    cpu = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"\ntune took {(time.monotonic() - began) / 60:.1f} minutes, {(cpu.ru_utime + cpu.ru_stime) / 60:.1f} of a processor", flush=True)
    tuned = load(path("tune"), "tune.json")
    asked = set(records(os.path.join(path("tune"), "test", os.path.basename(tuned["test"]["rows"][0]["journal"]))))
    test = [dict(v, questions=[q for q in v["questions"] if q["question_id"] in asked]) for v in videos]
    with open(path("test.json"), "w", encoding="utf-8") as f:  # the same bytes for every aim: compare goes on where it was
        json.dump([v for v in test if v["questions"]], f)
    answers = args.fixed or path("fixed")
    fixed = {}  # what a line asks, without its name -> the first that asks it
    for name in args.methods:
        with open(name, encoding="utf-8") as lines:
            for line in lines:
                if not line.startswith("#") and re.search(LESS[args.want], line):
                    fixed.setdefault(re.sub(r'name: ("[^"]*"|[^,}]*),? *', "", line), line)
    with open(path("fixed.yaml"), "w", encoding="utf-8") as f:
        f.writelines(fixed.values())
    done = subprocess.run([SACCADE, "compare", path("test.json"), *common, "--methods", path("fixed.yaml"), "--out", answers],
                          stdout=subprocess.DEVNULL).returncode
    if done not in (0, 75):  # 75: a line was refused
        sys.exit(done)
    fixed = load(answers, "compare.json")["rows"]
    cost = costs(args.want, answers, fixed)
    right = {r["name"]: r["correct"] for r in fixed if not r["refused"]}
    front = sorted((r for r in tuned["results"] if r["front"]), key=lambda r: r["cost"])
    print(f"\n{len(asked)} test questions\n\n| fixed line | cost | lost | line of the front | cost | lost |\n|---|---:|---:|---|---:|---:|")
    ahead = 0
    for name in sorted(cost, key=lambda n: cost[n]):
        lost = right["dense"] - right[name]
        best = next((r for r in front if r["cost"] <= cost[name] + 1e-6 and r["lost"] <= lost), None)
        ahead += best is None
        said = f"{best['name']} | {100 * best['cost']:.1f} % | {best['lost']:g}" if best else "**none** | |"
        print(f"| {name} | {100 * cost[name]:.1f} % | {lost} | {said} |")
    print(f"\n{len(cost) - ahead} of {len(cost)} fixed lines are no better than one of the front in anything")
    return 1 if ahead else 0


if __name__ == "__main__":
    sys.exit(main())
