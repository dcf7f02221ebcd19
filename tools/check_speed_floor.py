#!/usr/bin/env python3
"""Times of a GPU's kernels beside stored ones: what is slower than its stored time allows is named.

  tools/check_speed_floor.py build/cuda/checkkernels                 compare; exit status 1 where a row is too slow or gone
  tools/check_speed_floor.py build/cuda/checkkernels --record        store the times of this card
  tools/check_speed_floor.py build/cuda/checkkernels --op attention --op linear

Times are stored a card in tools/speed/NAME.csv: op, variant, shape, median microseconds. A row may be --slack slower
(default 0.10). A row that is too slow is timed again, up to --again times, before it counts: other work on the machine
makes times longer, never shorter. A card without a file is no failure: it is said, with status 77.
"""
import argparse
import csv
import pathlib
import re
import subprocess
import sys

N_NUMBERS = 6  # that end a row: median, best, GB/s, of the copy rate, TFLOP/s, of the product rate


def card_name(nvidia_smi):
    run = subprocess.run([nvidia_smi, "--query-gpu=name", "--format=csv,noheader", "--id=0"], capture_output=True, text=True)
    if run.returncode != 0 or not run.stdout.strip():
        raise SystemExit(f"{nvidia_smi} names no card: {(run.stderr or run.stdout).strip()}")
    return re.sub(r"[^A-Za-z0-9]+", "_", run.stdout.splitlines()[0].strip())


def times(program, op):
    """{(op, variant, shape): microseconds}; what an op refuses is left out."""
    command = [program, "--backend", "cuda", "--bench", "--csv"] + (["--op", op] if op else [])
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit status {run.returncode}: {(run.stdout + run.stderr).strip()[-300:]}")
    found = {}
    for line in run.stdout.splitlines():
        fields = line.split(",")
        if len(fields) < 3 + N_NUMBERS:
            continue
        name = (fields[0], fields[1], ",".join(fields[2:-N_NUMBERS]))
        if fields[-N_NUMBERS]:
            found[name] = float(fields[-N_NUMBERS])
    if not found:
        raise SystemExit(f"{' '.join(command)}: no times in its output")
    return found


def read_stored(path):
    with path.open(newline="") as f:
        return {tuple(row[:3]): float(row[3]) for row in csv.reader(f) if row and row[0] != "op"}


def record(path, found):
    stored = read_stored(path) if path.exists() else {}
    stored.update(found)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(["op", "variant", "shape", "median_us"])
        out.writerows([*name, f"{t:.2f}"] for name, t in sorted(stored.items()))
    print(f"{len(found)} times stored in {path}")


def too_slow(stored, found, slack):
    return {name for name, t in stored.items() if name in found and found[name] > t * (1 + slack)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("program")
    p.add_argument("--op", action="append", default=[])
    p.add_argument("--slack", type=float, default=0.10)
    p.add_argument("--again", type=int, default=2)
    p.add_argument("--record", action="store_true")
    p.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(__file__).parent / "speed")
    p.add_argument("--nvidia-smi", default="nvidia-smi")
    o = p.parse_args()
    path = o.folder / (card_name(o.nvidia_smi) + ".csv")
    if not o.record and not path.exists():
        print(f"no times of this card are stored: {path} is made by --record")
        return 77
    found = {}
    for op in o.op or [None]:
        found.update(times(o.program, op))
    if o.record:
        record(path, found)
        return 0
    stored = {name: t for name, t in read_stored(path).items() if not o.op or name[0] in o.op}
    if not stored:
        raise SystemExit(f"{path} has no times of {', '.join(o.op)}")
    slow = too_slow(stored, found, o.slack)
    for _ in range(o.again):
        for op in (o.op or [None]) if slow else []:
            for name, t in times(o.program, op).items():
                found[name] = min(t, found.get(name, t))
        slow = too_slow(stored, found, o.slack)
    gone = sorted(set(stored) - set(found))
    for name in sorted(slow):
        print(f"{' '.join(name)}: {found[name]:.2f} us, stored {stored[name]:.2f} us ({found[name] / stored[name]:.3f})")
    for name in gone:
        print(f"{' '.join(name)}: stored, and not timed any more")
    print(f"{path.stem}: {len(stored)} rows, {len(slow)} too slow, {len(gone)} gone")
    return 1 if slow or gone else 0


if __name__ == "__main__":
    sys.exit(main())
