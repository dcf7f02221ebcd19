#!/usr/bin/env python3
"""Does what `saccade tune` finds leave every fixed line of the scoreboard behind? Runs tune, asks the fixed lines the questions of its test part, and
prints for each the line of the front that costs no more and loses no more. Where there is none, the line that costs no more and loses least, or the cheapest
where the fixed line costs less than all of the front, and how likely the difference is by chance (McNemar's exact test). The exit code is 1 where a fixed line is
better: it costs more and is right more often by more than chance, or it is cheaper than the whole front and loses no more than its cheapest line.

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
    """Of each line, as a share of dense's on the same questions."""
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


def right_answers(videos, journal):
    """Questions whose answer is the option's text, as --prompt open counts."""
    plain = lambda text: text.strip().rstrip(".").strip().lower()
    said = {q: plain(r["response"]) for q, r in records(journal).items()}
    asked = [q for v in videos for q in v["questions"]]
    return {q["question_id"] for q in asked if said.get(q["question_id"]) == plain(q["options"]["ABCD".index(q["answer"])][2:])}


def by_chance(lost, gained):
    """McNemar's exact test."""
    n = lost + gained
    return min(1.0, 2 * sum(math.comb(n, k) for k in range(min(lost, gained) + 1)) / 2 ** n)


def read_fixed(paths, want):
    """Lines that can make less of what is wanted; what one asks, without its name -> the first that asks it."""
    fixed = {}
    for name in paths:
        with open(name, encoding="utf-8") as lines:
            for line in lines:
                if not line.startswith("#") and re.search(LESS[want], line):
                    fixed.setdefault(re.sub(r'name: ("[^"]*"|[^,}]*),? *', "", line), line)
    return list(fixed.values())


def compare(set_path, videos, methods, out, options):
    """Rows of a comparison, kept in out."""
    done = subprocess.run([SACCADE, "compare", set_path, "--videos", videos, *options, "--methods", methods, "--out", out],
                          stdout=subprocess.DEVNULL).returncode
    if done not in (0, 75):  # 75: a line was refused
        sys.exit(done)
    return load(out, "compare.json")["rows"]


def report(fixed, front):
    """A row for each fixed line, dense too. fixed, front: name -> (cost, right answers). Returns how many are ahead of the front, how many
    of these are better, and how many are cheaper than all of it and surely lose more."""
    dense = fixed["dense"][1]
    print("\n| fixed line | cost | lost | line of the front | cost | lost | by chance |\n|---|---:|---:|---|---:|---:|---:|")
    ahead = surely = beyond = 0
    for name, (cost, right) in sorted(fixed.items(), key=lambda item: item[1][0]):
        said = f"| {name} | {100 * cost:.1f} % | {len(dense) - len(right)} |"
        cheap = sorted((f for f in front.items() if f[1][0] <= cost + 1e-6), key=lambda f: (-len(f[1][1]), f[1][0]))
        if not cheap:
            best, (best_cost, best_right) = min(front.items(), key=lambda f: f[1][0])
            p = by_chance(len(right - best_right), len(best_right - right))
            fewer = len(right) < len(best_right)
            ahead, surely, beyond = ahead + 1, surely + (not fewer), beyond + (fewer and p < 0.05)
            print(f"{said} **none as cheap**; {best} | {100 * best_cost:.1f} % | {len(dense) - len(best_right)} | {p:.2g} |")
            continue
        enough = [f for f in cheap if len(f[1][1]) >= len(right)]
        best, (best_cost, best_right) = min(enough, key=lambda f: f[1][0]) if enough else cheap[0]
        p = by_chance(len(right - best_right), len(best_right - right))
        ahead, surely = ahead + (not enough), surely + (not enough and p < 0.05)
        mark = "" if enough else f"{p:.2g}"
        print(f"{said} {best} | {100 * best_cost:.1f} % | {len(dense) - len(best_right)} | {mark} |")
    return ahead, surely, beyond


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
    parser.add_argument("--held-out", help="another set.json, with its videos beside it, to judge by; default: the test part of tune")
    parser.add_argument("options", nargs="*", help="of both commands, behind --")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    path = lambda name: os.path.join(args.out, name)
    videos = [v for v in load(DRAWN, "set.json") if int(v["sub_category"].split()[0]) <= args.frames]
    with open(path("set.json"), "w", encoding="utf-8") as f:
        json.dump(videos, f)
    common = ["--prompt", "open", "--quiet", *args.options]
    began = time.monotonic()
    subprocess.run([SACCADE, "tune", path("set.json"), "--videos", DRAWN, *common, "--want", args.want, "--lose", args.lose,
                    "--minutes", args.minutes, "--tries", args.tries, "--out", path("tune")],
                   check=True)
    cpu = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"\ntune took {(time.monotonic() - began) / 60:.1f} minutes, {(cpu.ru_utime + cpu.ru_stime) / 60:.1f} of a processor", flush=True)
    tuned = load(path("tune"), "tune.json")
    with open(path("fixed.yaml"), "w", encoding="utf-8") as f:
        f.writelines(read_fixed(args.methods, args.want))
    if args.held_out:
        judged, folder = load(args.held_out), os.path.dirname(args.held_out) or "."
        found, kept = compare(args.held_out, folder, path("tune/methods.yaml"), path("front"), common), path("front")
    else:
        folder, found, kept = DRAWN, [r for r in tuned["test"]["rows"] if not r["refused"]], path("tune/test")
        for row in found:
            row["journal"] = os.path.basename(row["journal"])
        asked = set(records(os.path.join(kept, found[0]["journal"])))
        judged = [dict(v, questions=[q for q in v["questions"] if q["question_id"] in asked]) for v in videos]
        judged = [v for v in judged if v["questions"]]
        fronts = {r["name"] for r in tuned["results"] if r["front"] or r["safe"]}
        found = [r for r in found if r["name"] in fronts | {"dense"}]
    with open(path("test.json"), "w", encoding="utf-8") as f:  # the same bytes for every aim: compare goes on where it was
        json.dump(judged, f)
    answers = args.fixed or path("fixed")
    rows = compare(path("test.json"), folder, path("fixed.yaml"), answers, common)
    judge = lambda rows, out: {name: (cost, right_answers(judged, os.path.join(out, r["journal"])))
                               for name, cost in costs(args.want, out, rows).items() for r in rows if r["name"] == name}
    fixed = judge(rows, answers)
    print(f"\n{sum(len(v['questions']) for v in judged)} test questions")
    ahead, surely, beyond = report(fixed, judge(found, kept))
    print(f"\n{len(fixed) - ahead} of {len(fixed)} fixed lines are no better than one of the front in anything, "
          f"{ahead - surely - beyond} are ahead by so few answers that it may be chance, {beyond} cost less than the front and surely lose more, {surely} are better")
    return 1 if surely else 0


if __name__ == "__main__":
    sys.exit(main())
