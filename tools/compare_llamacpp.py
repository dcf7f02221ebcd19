#!/usr/bin/env python3
"""Saccade beside llama.cpp on the same GGUF file and threads: greedy tokens, perplexity, speed.

    tools/compare_llamacpp.py MODEL.gguf build/release/saccade [--threads 2] [--rounds 5] [--text FILE]

Needs llama-cpp-python (PyPI) and, beside the saccade command, text_probe (built with the tests). On processors with AMX,
gcc 12 breaks llama.cpp: it drops the stores into the tile configuration, and the first product dies of an illegal
instruction. Build it with another compiler, or with
    CMAKE_ARGS="-DCMAKE_CXX_FLAGS='-fno-tree-dse -fno-dse'" pip install --no-binary :all: llama-cpp-python
Speed is taken in alternating runs, so that both meet the same moods of the machine; ratios above 1 favour Saccade. On a
machine that has other work, --threads 1 --clock cpu --best compares the shortest times that a processor took: llama.cpp's threads spin
while they wait, so of more than one these say nothing."""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import time

import llama_cpp
import numpy as np

PROMPTS = [
    "Once upon a time, in a small village by the sea, there lived",
    "The three most important inventions of the nineteenth century were",
    "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n",
    "<|im_start|>user\nExplain why the sky is blue.<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nWrite a short poem about a lighthouse.<|im_end|>\n<|im_start|>assistant\n",
]
GREEDY, PREFILL, DECODE = 64, 512, 128


class Saccade:
    def __init__(self, command, model, n_ctx, threads):
        probe = pathlib.Path(command).with_name("text_probe")
        self.process = subprocess.Popen([probe, model, str(n_ctx), str(threads)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, request, *ids):
        self.process.stdin.write(" ".join([request, *map(str, ids)]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("text_probe gave up on: " + request)
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class LlamaCpp:
    def __init__(self, model, n_ctx, threads):
        self.llama = llama_cpp.Llama(model, n_ctx=n_ctx, n_batch=PREFILL, n_threads=threads, n_threads_batch=threads,
                                     verbose=False)
        self.vocab = self.llama.n_vocab()

    def tokenize(self, text):
        return self.llama.tokenize(text.encode(), add_bos=False, special=True)

    def logits(self):
        p = llama_cpp.llama_get_logits_ith(self.llama.ctx, -1)
        return np.ctypeslib.as_array(p, shape=(self.vocab,))

    def prefill(self, ids):
        self.llama.reset()
        self.llama.eval(ids)

    def greedy(self, n):
        out = []
        for _ in range(n):
            out.append(int(self.logits().argmax()))
            self.llama.eval(out[-1:])
        return out

    def speed(self, ids, n, clock):
        start = clock()
        self.prefill(ids)
        self.logits().argmax()
        middle = clock()
        self.greedy(n)
        return middle - start, clock() - middle

    def nll(self, model, ids, threads):
        """Needs every row's logits, which llama.cpp keeps only on request."""
        llama = llama_cpp.Llama(model, n_ctx=len(ids) + 8, n_batch=PREFILL, n_threads=threads, n_threads_batch=threads,
                                logits_all=True, verbose=False)
        llama.eval(ids[:-1])
        total = 0.0
        for row, wanted in zip(llama.scores[:len(ids) - 1], ids[1:]):
            row = row.astype(np.float64)
            total += math.log(np.exp(row - row.max()).sum()) + row.max() - row[wanted]
        return total


def compare_greedy(ours, theirs):
    equal = 0
    for prompt in PROMPTS:
        ids = theirs.tokenize(prompt)
        own = ours.ask("tokenize " + prompt.replace("\n", "\\n"))["tokens"]
        if own != ids:
            print(f"  tokens of the prompt differ: {own} and {ids}")
        theirs.prefill(ids)
        want, got = theirs.greedy(GREEDY), ours.ask(f"greedy {GREEDY}", *ids)["tokens"]
        same = next((i for i, (a, b) in enumerate(zip(want, got)) if a != b), GREEDY)
        line = f"  {same} of {GREEDY} equal"
        if same == GREEDY:
            equal += 1
        else:
            a, b, context = got[same], want[same], ids + want[:same]
            mine = ours.ask("logits " + " ".join(map(str, context)) + f" : {a} {b}")["logits"]
            theirs.prefill(context)
            other = theirs.logits()
            line += (f"; then {a} ({mine[0]:.3f}) before {b} ({mine[1]:.3f}), gap {mine[0] - mine[1]:.3f}; llama.cpp "
                     f"{other[a]:.3f} and {other[b]:.3f}, gap {other[b] - other[a]:.3f}")
        print(line + f"   {prompt[:40]!r}")
    print(f"greedy: {equal} of {len(PROMPTS)} prompts equal over {GREEDY} tokens")


def compare_perplexity(ours, theirs, model, text, threads):
    ids = theirs.tokenize(text)[:2048]
    mine = math.exp(ours.ask("nll", *ids)["nll"] / (len(ids) - 1))
    other = math.exp(theirs.nll(model, ids, threads) / (len(ids) - 1))
    print(f"perplexity over {len(ids)} tokens: {mine:.4f}, llama.cpp {other:.4f}, {100 * (mine / other - 1):+.3f} %")


def compare_speed(ours, theirs, rounds, on_cpu, by_best):
    clock, key = (time.process_time, "_cpu_s") if on_cpu else (time.perf_counter, "_s")
    ids = [i % 40000 + 100 for i in range(0, PREFILL * 7, 7)]
    runs = []
    for _ in range(rounds + 1):
        mine = ours.ask(f"speed {DECODE}", *ids)
        runs.append(((mine["prefill" + key], mine["decode" + key]), theirs.speed(ids, DECODE, clock)))
    for part, (name, n) in enumerate((("prefill", PREFILL), ("decode", DECODE))):
        pairs = [(n / mine[part], n / other[part]) for mine, other in runs[1:]]  # the first one warms up
        ratios = sorted(a / b for a, b in pairs)
        best = max(a for a, _ in pairs), max(b for _, b in pairs)
        if by_best:
            print(f"{name} of {n} tokens: best {best[0]:.1f} tokens/s, llama.cpp {best[1]:.1f}; ratio {best[0] / best[1]:.2f}")
            continue
        print(f"{name} of {n} tokens: median {statistics.median(a for a, _ in pairs):.1f} tokens/s, llama.cpp "
              f"{statistics.median(b for _, b in pairs):.1f}; ratio {statistics.median(ratios):.2f} "
              f"({ratios[0]:.2f} to {ratios[-1]:.2f}); best {best[0]:.1f} and {best[1]:.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("saccade")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--text", default="LICENSE", help="for the perplexity; its first 2048 tokens")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument("--best", action="store_true", help="the best runs of each, in place of medians and ratios of pairs")
    parser.add_argument("--only", choices=["greedy", "perplexity", "speed"])
    a = parser.parse_args()
    ours = Saccade(a.saccade, a.model, 4096, a.threads)
    theirs = LlamaCpp(a.model, 4096, a.threads)
    if a.only in (None, "greedy"):
        compare_greedy(ours, theirs)
    if a.only in (None, "perplexity"):
        compare_perplexity(ours, theirs, a.model, pathlib.Path(a.text).read_text(), a.threads)
    if a.only in (None, "speed"):
        compare_speed(ours, theirs, a.rounds, a.clock == "cpu", a.best)
    ours.close()


if __name__ == "__main__":
    main()
