#!/usr/bin/env python3
"""Kills `saccade caption` at random moments and shows that the result is that of an undisturbed run, byte for byte.

    tools/check_caption_kills.py build/release/saccade /tmp/drawn/items.jsonl /tmp/work --kills 10

Runs the job once to WORK/whole (kept, and gone on with, when it is there), then to WORK/killed, with SIGKILL so many times: each
at a random moment within the second after a random number of records. Options of saccade caption may follow after --.
"""
import argparse
import os
import random
import subprocess
import sys
import time


def read(path):
    with open(path, "rb") as f:
        return f.read()


def main():
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("saccade")
    p.add_argument("input")
    p.add_argument("work")
    p.add_argument("--kills", type=int, default=10)
    p.add_argument("--seed", type=int, default=1)
    a, extra = p.parse_args(sys.argv[1:end]), sys.argv[end + 1:]
    os.makedirs(a.work, exist_ok=True)

    def command(name):
        return [a.saccade, "caption", a.input, "--out", os.path.join(a.work, name), "-q", *extra]
    subprocess.run(command("whole"), stdout=subprocess.DEVNULL).check_returncode()
    n_items = len(read(os.path.join(a.work, "whole", "captions.jsonl")).splitlines())
    rng = random.Random(a.seed)
    journal = os.path.join(a.work, "killed", "shard-00000-of-00001", "journal.jsonl")
    for i, n_records in enumerate(sorted(rng.randrange(n_items) for _ in range(a.kills))):
        process = subprocess.Popen(command("killed"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and (not os.path.exists(journal) or read(journal).count(b"\n") <= n_records):
            time.sleep(.02)
        time.sleep(rng.random())
        process.kill()
        process.wait()
        lines = read(journal) if os.path.exists(journal) else b""
        torn = ", the last torn" if lines and not lines.endswith(b"\n") else ""
        n = max(len(lines.splitlines()) - 1, 0)
        print(f"kill {i + 1}: due at {n_records}, exit code {process.returncode}, {n} records{torn}", flush=True)
    subprocess.run(command("killed"), stdout=subprocess.DEVNULL).check_returncode()
    whole, killed = (read(os.path.join(a.work, name, "captions.jsonl")) for name in ("whole", "killed"))
    same = whole == killed
    records = [sorted(read(os.path.join(a.work, name, "shard-00000-of-00001", "journal.jsonl")).splitlines()[1:])
               for name in ("whole", "killed")]
    print(f"{len(whole.splitlines())} lines; results {'equal' if same else 'DIFFER'} as they are, "
          f"journals {'equal' if records[0] == records[1] else 'DIFFER'} after sorting")
    return 0 if same and records[0] == records[1] else 1


if __name__ == "__main__":
    sys.exit(main())
