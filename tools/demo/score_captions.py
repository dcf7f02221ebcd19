#!/usr/bin/env python3
"""Scores captions against the truth that draw_captions.py wrote beside the pictures.

    score_captions.py truth.jsonl captions.jsonl [captions.jsonl ...]

Exact: the text is the right one. Facts: what a description says (a shape with its size, colour and place; the number with its
place; the background) is taken apart, and counted where the truth says the same (recall) and where the caption says it
(precision). Every item must have one caption; what is missing, doubled or unknown is told and makes the exit code 1.
"""
import collections
import json
import re
import sys

PARTS = re.compile(r"an? (small|large) (\w+) (\w+) at the ([a-z ]+?)(?=,| and | on a )|the number (\d+) at the ([a-z ]+?)(?=,| and | on a )"
                   r"| on a (\w+) background")


def facts(text):
    return {tuple(part for part in found if part) for found in PARTS.findall(text.lower())}


def load(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def main():
    truth = {row["id"]: row for row in load(sys.argv[1])}
    rows = [row for path in sys.argv[2:] for row in load(path)]
    seen = collections.Counter(row["id"] for row in rows)
    wrong = [f"{len(what)} {name}, the first: {what[0]}" for name, what in (
        ("missing", [i for i in truth if i not in seen]), ("doubled", [i for i, n in seen.items() if n > 1]),
        ("unknown", [i for i in seen if i not in truth])) if what]
    sums = collections.defaultdict(lambda: [0] * 6)     # items, errors, exact, facts right, facts of truth, facts said
    for row in rows:
        if row["id"] not in truth:
            continue
        right, said = truth[row["id"]]["text"], row.get("caption", "").strip()
        s = sums[truth[row["id"]]["media"]]
        s[0] += 1
        s[1] += "error" in row
        s[2] += said == right
        if truth[row["id"]]["media"] == "image":
            s[3] += len(facts(right) & facts(said))
            s[4] += len(facts(right))
            s[5] += len(facts(said))
    for media, (n, errors, exact, found, true, told) in sorted(sums.items()):
        line = f"{media}: {n} items, {errors} errors, exact {exact / n:.4f}"
        print(line + (f", facts recall {found / true:.4f}, precision {found / max(told, 1):.4f}" if true else ""))
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
