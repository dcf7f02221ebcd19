#!/usr/bin/env python3
"""Records every answer of a build as hashes of bits, and tells which ones another build gives differently.

    tools/record_answers.py record --build build/release --out answers.txt
    tools/record_answers.py compare answers.txt --build build/release          exits with 1 when an answer differs
    tools/record_answers.py compare answers.txt --build build/release --only 'demo .*zipvl'

Runs answers_probe (tests/tools/answers_probe.c) of the build in the source root with 1, 2 and 3 threads: the demo model
and the tiny ones of tests/golden with every method, format, batch and reuse that the public API reaches. --quick is one
line of each method on the demo model and two tiny ones, with one thread. --only picks cases by a regular expression
over their names (extended, as grep -E). A record made for another tree is compared with the cases that both have.

Sums are added in another order on other instruction sets, so a record belongs to one: its first line names it, and
comparing on another fails. --variant ref, avx2 or avx512 records a lesser one (SAC_VARIANT)."""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = ("logits", "tokens", "other", "facts")


def run_probe(build, threads, args, variant, begin, take):
    """Hands the probe's first line to begin(head) and every case's to take(name, columns)."""
    program = (Path(build) / "answers_probe").resolve()
    if not program.exists():
        raise SystemExit(f"{program}: not there; build the target answers_probe")
    command = [str(program), "--threads", str(threads)] + (["--quick"] if args.quick else [])
    if args.only:
        command += ["--only", args.only]
    env = {k: v for k, v in os.environ.items() if k != "SAC_VARIANT"} | ({"SAC_VARIANT": variant} if variant else {})
    start, n = time.monotonic(), 0
    shown, every, end = start, *((1, "") if sys.stderr.isatty() else (20, "\n"))
    with subprocess.Popen(command, cwd=args.root, env=env, stdout=subprocess.PIPE, text=True, errors="replace") as p:
        for line in p.stdout:
            if line.startswith("{"):
                begin(json.loads(line))
                continue
            name, *columns = line.rstrip("\n").split("\t")
            take(name, columns)
            n += 1
            if time.monotonic() - shown > every:
                shown = time.monotonic()
                print(f"\r{threads} threads: {n} cases, {shown - start:.0f} s ", end=end, file=sys.stderr, flush=True)
    print(f"\r{threads} threads: {n} cases, {time.monotonic() - start:.0f} s, done", file=sys.stderr)
    if p.returncode == 1:
        print("a method did not act, or acted where it must not (above)", file=sys.stderr)
    elif p.returncode:
        raise SystemExit(f"{program} ended with {p.returncode} after {n} cases of {threads} threads")


def thread_counts(args):
    return [int(n) for n in args.threads.split(",")] if args.threads else [1] if args.quick else [1, 2, 3]


def record(args):
    """Written as it comes, so that what was interrupted still serves, as far as it goes."""
    counts, n = thread_counts(args), 0
    how = {"variant": args.variant, "threads": counts, "quick": args.quick, "only": args.only}
    with open(args.out, "w") as f:

        def begin(head):
            if n == 0:
                f.write(json.dumps(head | how) + "\n")

        def take(name, columns):
            nonlocal n
            n += 1
            f.write("\t".join([name, *columns]) + "\n")

        for threads in counts:
            run_probe(args.build, threads, args, args.variant, begin, take)
    print(f"{args.out}: {n} cases")
    return 0


def read_record(path):
    with open(path) as f:
        head = json.loads(f.readline())
        rows = [line.rstrip("\n").split("\t") for line in f]
    return head, {row[0]: row[1:] for row in rows}


def difference(old, new):
    """What differs first, in words; None when the answers are the same."""
    for what, a, b in zip(COLUMNS[:2], old, new):
        a, b = a.split(",") if a else [], b.split(",") if b else []
        for i, pair in enumerate(zip(a, b)):
            if pair[0] != pair[1]:
                return "logits of the prompt" if what == "logits" and i == 0 else f"{what}, step {i} of {len(a) - (what == 'logits')}"
        if len(a) != len(b):
            return f"{len(b)} {what}, not {len(a)}"
    if old[2] != new[2]:
        return "other: " + ", ".join(f"{b}, not {a}" for a, b in zip(old[2].split(), new[2].split()) if a != b)[:200]
    return None


def compare(args):
    head, old = read_record(args.record)
    args.quick = head["quick"]
    args.threads = args.threads or ",".join(map(str, head["threads"][:1 if args.quick else None]))
    args.only = args.only or head["only"]
    new, differing, other_figures = {}, [], []

    def take(name, columns):
        new[name] = columns
        if name not in old:
            return
        what = difference(old[name], columns)
        if what:
            differing.append(name)
            if len(differing) <= args.most:
                print(f"\r{name}: {what}", flush=True)
        elif old[name][3] != columns[3]:
            other_figures.append(name)

    def begin(now):
        if now["cpu"] != head["cpu"]:
            raise SystemExit(f"the record is of {head['cpu']}, this machine computes with {now['cpu']}: nothing to compare")

    for threads in thread_counts(args):
        run_probe(args.build, threads, args, head["variant"], begin, take)
    pattern = re.compile(args.only) if args.only else None
    counts = tuple(f"threads={n}" for n in thread_counts(args))
    missing = [n for n in old if n not in new and any(c in n for c in counts) and not (pattern and not pattern.search(n))]
    for name in missing[:args.most]:
        print(f"{name}: missing")
    for name in other_figures[:args.most if args.facts else 0]:
        print(f"{name}: the same answer, other figures:\n    {old[name][3]}\n    {new[name][3]}")
    unknown = sum(name not in old for name in new)
    print(f"{len(new) - unknown} cases compared: {len(differing)} differ, {len(missing)} missing; "
          f"{len(other_figures)} with other figures (--facts), {unknown} not in the record")
    return 1 if differing or missing or not new or (args.facts and other_figures) else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    parts = [commands.add_parser("record", help="write what a build answers"),
             commands.add_parser("compare", help="hold a build against a record")]
    for part in parts:
        part.add_argument("--build", required=True, help="build folder with answers_probe in it")
        part.add_argument("--root", default=ROOT, help="source root with models and samples (default: this tree's)")
        part.add_argument("--only", metavar="REGEX", help="cases whose names match")
        part.add_argument("--threads", metavar="N,N", help="numbers of threads (default 1,2,3; with --quick 1)")
    parts[0].add_argument("--out", required=True)
    parts[0].add_argument("--quick", action="store_true", help="fewer cases, below a minute")
    parts[0].add_argument("--variant", choices=["ref", "avx2", "avx512", "vnni", "vbmi"], help="no more than these instructions")
    parts[1].add_argument("record", help="what record wrote")
    parts[1].add_argument("--facts", action="store_true", help="show, and count as failure, figures that are no answers: bytes, rows read")
    parts[1].add_argument("--most", type=int, default=40, help="differing cases that are shown (default 40)")
    args = parser.parse_args()
    return (record if args.command == "record" else compare)(args)


if __name__ == "__main__":
    sys.exit(main())
