#!/usr/bin/env python3
"""Saccade beside vLLM on the same folder and the same card: prefill, decode of one sequence, decode of several together.

    tools/make_random_packed.py /tmp/w4 --format w4
    tools/compare_vllm.py /tmp/w4 --programs build/cuda
    tools/compare_vllm.py /tmp/w4 --programs build/cuda --prompt 2048 --sequences 1 8 16 --prefill 32768 --rounds 5

Both run greedily on the same ids, without a tokenizer and without reuse of prompts. vLLM runs as it comes (compiled, CUDA graphs,
its choice of kernels), in this process: a step is the time of 160 tokens less that of 32, over 128. Figures are medians of all
rounds. Ratios above 1 favour Saccade. Needs vllm, and text_probe and batch_probe (built with the tests) in --programs."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import time

FEW, MANY = 32, 160  # tokens of an answer


def prompts(n, n_tokens, vocab):
    """As batch_probe makes them."""
    return [[(k * 7 + i * 13) % (vocab // 2) + 5 for k in range(n_tokens)] for i in range(n)]


def median(rounds, run):
    return statistics.median(run() for _ in range(rounds))


class VLLM:
    def __init__(self, folder, a):
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        from vllm import LLM
        longest = max(a.prompt + MANY, a.prefill) + 16
        self.llm = LLM(model=str(folder), skip_tokenizer_init=True, dtype="bfloat16", max_model_len=longest, seed=1,
                       max_num_seqs=max(a.sequences), gpu_memory_utilization=a.memory, enable_prefix_caching=False)
        self.rounds = a.rounds

    def seconds(self, ids, n_tokens):
        from vllm import SamplingParams
        params = SamplingParams(temperature=0, max_tokens=n_tokens, min_tokens=n_tokens, ignore_eos=True, detokenize=False)
        start = time.perf_counter()
        answers = self.llm.generate([{"prompt_token_ids": i} for i in ids], params, use_tqdm=False)
        spent = time.perf_counter() - start
        assert all(len(x.outputs[0].token_ids) == n_tokens for x in answers)
        return spent

    def prefill(self, ids):
        self.seconds([ids], 1)
        return median(self.rounds, lambda: self.seconds([ids], 1))

    def step(self, ids):
        self.seconds(ids, FEW)
        return median(self.rounds, lambda: self.seconds(ids, MANY) - self.seconds(ids, FEW)) / (MANY - FEW)


class Saccade:
    def __init__(self, folder, a):
        self.folder, self.programs, self.rounds = str(folder), a.programs, a.rounds

    def prefill(self, ids):
        line = " ".join(map(str, ["speed", 1, *ids])) + "\n"
        run = subprocess.run([self.programs / "text_probe", self.folder, str(len(ids) + 16), "8", "cuda"], text=True, check=True,
                             input=line * (self.rounds + 1), capture_output=True)
        return statistics.median(json.loads(x)["prefill_s"] for x in run.stdout.splitlines()[1:])

    def step(self, ids):
        run = subprocess.run([self.programs / "batch_probe", self.folder, "8", str(len(ids[0])), str(MANY - FEW), "cuda",
                              f"sessions={len(ids)}", f"rounds={self.rounds}"], text=True, check=True, capture_output=True)
        return len(ids) / json.loads(run.stdout.splitlines()[-1])["together_tokens_s"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("--programs", type=pathlib.Path, default="build/cuda", help="the folder of text_probe and batch_probe")
    p.add_argument("--prompt", type=int, default=1024, help="tokens before the steps (1024)")
    p.add_argument("--sequences", type=int, nargs="+", default=[1, 8, 16], help="how many go together (1 8 16)")
    p.add_argument("--prefill", type=int, default=32768, help="tokens of the prompt that is timed; 0: none (32768)")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--memory", type=float, default=0.8, help="share of the card that vLLM may take (0.8)")
    a = p.parse_args()
    vocab = json.loads((a.folder / "config.json").read_text())["vocab_size"]
    rows = []
    for kind in (Saccade, VLLM):  # one after the other: vLLM keeps its memory
        engine = kind(a.folder, a)
        spent = {f"step, {n} together": engine.step(prompts(n, a.prompt, vocab)) for n in a.sequences}
        if a.prefill:
            spent[f"prefill, {a.prefill} tokens"] = engine.prefill(prompts(1, a.prefill, vocab)[0])
        rows.append(spent)
    print("| | Saccade, ms | vLLM, ms | ratio |\n|---|---|---|---|")
    for name, own in rows[0].items():
        other = rows[1][name]
        print(f"| {name} | {1e3 * own:.2f} | {1e3 * other:.2f} | {other / own:.3f} |")


if __name__ == "__main__":
    main()
