#!/usr/bin/env python3
"""What a session takes of a card's memory, beside its plan.

    tools/check_device_memory.py MODEL --programs build/cuda --lengths 4096 131072 1000000 --methods prefill=tokenselect kv=mixed

For each length a text_probe loads the model, reads that many random tokens and steps; meanwhile nvidia-smi is asked for the
memory in use. One line each: weights and session as planned, the most that was seen, and the difference, which is the
driver's and the libraries' own share: it must not grow with the length."""
import argparse
import json
import pathlib
import random
import statistics
import subprocess
import threading

STEPS = 16


def used_mib(card):
    """Of the whole card: nobody else may use it."""
    out = subprocess.run(["nvidia-smi", "-i", str(card), "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                         capture_output=True, text=True, check=True)
    return int(out.stdout)


class Watch(threading.Thread):
    def __init__(self, card):
        super().__init__(daemon=True)
        self.card, self.most, self.done = card, 0, threading.Event()

    def run(self):
        while not self.done.wait(0.2):
            self.most = max(self.most, used_mib(self.card))


def measure(a, n):
    before = used_mib(a.card)
    watch = Watch(a.card)
    watch.start()
    probe = subprocess.Popen([str(a.programs / "text_probe"), str(a.model), str(n + 4 * STEPS), "8", "cuda"] + a.methods,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    numbers = random.Random(n)
    ids = " ".join(str(numbers.randrange(a.vocab)) for _ in range(n))
    out, _ = probe.communicate(f"speed {STEPS} {ids}\nmemory\n")
    watch.done.set()
    watch.join()
    if probe.returncode:
        raise SystemExit(f"text_probe ended with {probe.returncode}")
    speed, memory = map(json.loads, out.splitlines())
    planned = (memory["weight_bytes"] + memory["device_bytes"]) / 2**20
    seen = watch.most - before
    print(f"| {n} | {memory['weight_bytes'] / 2**20:.0f} | {memory['device_bytes'] / 2**20:.0f} | {planned:.0f} | {seen} | "
          f"{seen - planned:.0f} | {memory['kv_bytes'] / (n + STEPS):.0f} | {speed['prefill_s']:.2f} | "
          f"{1e3 * speed['decode_s'] / STEPS:.2f} |", flush=True)
    return seen - planned


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", type=pathlib.Path)
    p.add_argument("--programs", type=pathlib.Path, default="build/cuda")
    p.add_argument("--lengths", type=int, nargs="+", default=[4096, 131072, 1000000])
    p.add_argument("--methods", nargs="*", default=[], help="lines such as prefill=tokenselect kv=mixed")
    p.add_argument("--vocab", type=int, default=150000, help="ids are below it")
    p.add_argument("--card", default="0", help="its number as nvidia-smi has it")
    a = p.parse_args()
    print("| tokens | weights MiB | session MiB | planned | seen | beyond | kv bytes a token | prefill s | step ms |\n" + "|---" * 9 + "|")
    beyond = [measure(a, n) for n in a.lengths]
    print(f"beyond the plan: {min(beyond):.0f} to {max(beyond):.0f} MiB, median {statistics.median(beyond):.0f}")


if __name__ == "__main__":
    main()
