#!/usr/bin/env python3
"""Saccade beside transformers on the same random-weight checkpoint and the same card: logits, prefill, decode.

    tools/compare_transformers.py --programs build/cuda --work /tmp/work --lengths 1024 8192 32768

Makes a Qwen2-7B shape with random bf16 weights on the card, saves it once below --work, runs transformers on it (attention
by cuDNN), then text_probe on the same files, and prints one table. Needs torch and transformers."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import time

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import AutoModelForCausalLM, Qwen2Config

STEPS = 64
SHAPES = {
    "qwen2-7b": dict(hidden_size=3584, intermediate_size=18944, num_hidden_layers=28, num_attention_heads=28,
                     num_key_value_heads=4, vocab_size=152064, max_position_embeddings=1 << 20, rope_theta=1e6),
    "qwen2-0.5b": dict(hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
                       num_key_value_heads=2, vocab_size=151936, max_position_embeddings=1 << 20, rope_theta=1e6,
                       tie_word_embeddings=True),
}


def make_model(folder, shape, tokenizer):
    if (folder / "config.json").exists():
        return
    config = Qwen2Config(**SHAPES[shape], use_sliding_window=False)
    torch.manual_seed(1)
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if (tokenizer / name).exists():
            (folder / name).write_bytes((tokenizer / name).read_bytes())
    del model
    torch.cuda.empty_cache()


class Transformers:
    def __init__(self, folder, dtype=torch.bfloat16):
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, device_map="cuda",
                                                          attn_implementation="sdpa").eval()

    @torch.inference_mode()
    def run(self, ids, steps):
        """Logits after the prompt and after each greedy step, the steps' ids, seconds of prefill and of a step."""
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION,
                          SDPBackend.MATH]):
            x = torch.tensor([ids], device="cuda")
            prefill, out = [], None
            for _ in range(3 if len(ids) < 65536 else 2):
                del out  # the keys and values of the last run
                torch.cuda.synchronize()
                t = time.perf_counter()
                out = self.model(x, use_cache=True, logits_to_keep=1)
                torch.cuda.synchronize()
                prefill.append(time.perf_counter() - t)
            rows, chosen, decode = [out.logits[0, -1].float().cpu().numpy()], [], []
            for _ in range(steps):
                chosen.append(int(rows[-1].argmax()))
                torch.cuda.synchronize()
                t = time.perf_counter()
                out = self.model(torch.tensor([[chosen[-1]]], device="cuda"), past_key_values=out.past_key_values,
                                 use_cache=True)
                torch.cuda.synchronize()
                decode.append(time.perf_counter() - t)
                rows.append(out.logits[0, -1].float().cpu().numpy())
        return np.stack(rows), chosen, min(prefill), statistics.median(decode)


    @torch.inference_mode()
    def logits(self, ids, n_rows):
        """Of the last n_rows tokens, in one go."""
        return self.model(torch.tensor([ids], device="cuda"), logits_to_keep=n_rows).logits[0].float().cpu().numpy()


def launch(programs, name):
    runner = programs / "run"
    return [str(runner), name] if runner.exists() else [str(programs / name)]


class Saccade:
    """One text_probe for all lengths: the model is loaded once."""

    def __init__(self, programs, folder, n_ctx, work, prefill="", decode="", kv=""):
        self.path = work / "logits.bin"
        methods = [f"{k}={v}" for k, v in (("prefill", prefill), ("decode", decode), ("kv", kv)) if v]
        self.process = subprocess.Popen(launch(programs, "text_probe") + [str(folder), str(n_ctx), "8", "cuda"] + methods,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, request):
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"text_probe ended with {self.process.wait()}")
        return json.loads(line)

    def logits(self, ids, n_prompt):
        rows = self.ask(f"dump {self.path} {n_prompt} " + " ".join(map(str, ids)))["rows"]
        return np.fromfile(self.path, np.float32).reshape(rows, -1)

    def speed(self, ids, steps, repeats):
        """Seconds of prefill and of a step, the best and the median."""
        request = f"speed {steps} " + " ".join(map(str, ids))
        times = [self.ask(request) for _ in range(repeats)]
        return min(t["prefill_s"] for t in times), statistics.median(t["decode_s"] for t in times) / steps

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def compare(a, b):
    """Rows with the same likeliest token, the largest gap where it differs, relative error of all logits."""
    same = int((a.argmax(1) == b.argmax(1)).sum())
    gaps = [float(x.max() - x[y.argmax()]) for x, y in zip(a, b) if x.argmax() != y.argmax()]
    error = float(np.linalg.norm(a - b) / np.linalg.norm(a))
    return same, max(gaps, default=0.0), error


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--programs", type=pathlib.Path, default="build/cuda")
    p.add_argument("--work", type=pathlib.Path, required=True)
    p.add_argument("--shape", default="qwen2-7b", choices=SHAPES)
    p.add_argument("--tokenizer", type=pathlib.Path, default="models/demo", help="any folder with a tokenizer.json")
    p.add_argument("--lengths", type=int, nargs="+", default=[1024, 8192, 32768])
    p.add_argument("--exact-up-to", type=int, default=8192, help="tokens for which transformers runs in f32 too")
    p.add_argument("--methods", nargs="*", default=[], help="lines such as 'prefill=zipvl:ratio=0.421 decode=dense'")
    p.add_argument("--out", type=pathlib.Path, help="write the rows as JSON lines too")
    a = p.parse_args()
    folder = a.work / a.shape
    folder.mkdir(parents=True, exist_ok=True)
    make_model(folder, a.shape, a.tokenizer)
    print(torch.cuda.get_device_name(), "torch", torch.__version__, "cuDNN", torch.backends.cudnn.version(), flush=True)
    print("| tokens | same top-1 | largest gap | relative error | prefill ms: transformers | saccade | ratio | "
          "step ms: transformers | saccade | ratio |\n" + "|---" * 10 + "|", flush=True)
    reference = Transformers(folder)
    runs = []
    for n in a.lengths:
        ids = np.random.default_rng(n).integers(0, 150000, n).tolist()
        runs.append((n, ids, *reference.run(ids, STEPS)))
    del reference
    torch.cuda.empty_cache()
    exact = {}
    if min(a.lengths) <= a.exact_up_to:  # how far both are from the same weights in f32
        reference = Transformers(folder, torch.float32)
        for n, ids, rows, chosen, *_ in runs:
            if n <= a.exact_up_to:
                exact[n] = reference.logits(ids + chosen, len(rows))
        del reference
        torch.cuda.empty_cache()
    ours = Saccade(a.programs, folder, max(a.lengths) + 2 * STEPS, a.work)
    for n, ids, rows, chosen, prefill, step in runs:
        logits = ours.logits(ids + chosen, n)
        same, gap, error = compare(rows, logits)
        if n in exact:
            for name, x in (("transformers", rows), ("saccade", logits)):
                print("%d tokens, to f32: %s %d of %d, gap %.4f, relative error %.2e" % (
                    n, name, compare(exact[n], x)[0], len(rows), *compare(exact[n], x)[1:]), flush=True)
        our_prefill, our_step = ours.speed(ids, STEPS, 3)
        print(f"| {n} | {same} of {len(rows)} | {gap:.4f} | {error:.2e} | {1e3 * prefill:.1f} | {1e3 * our_prefill:.1f} | "
              f"{prefill / our_prefill:.2f} | {1e3 * step:.2f} | {1e3 * our_step:.2f} | {step / our_step:.2f} |", flush=True)
        if a.out:
            with open(a.out, "a") as f:
                f.write(json.dumps(dict(tokens=n, same=same, gap=gap, error=error, prefill=prefill, ours=our_prefill,
                                        step=step, our_step=our_step)) + "\n")
    ours.close()
    for line in a.methods:
        run_method(a, folder, runs, line)


def run_method(a, folder, runs, line):
    """Prefill and steps of a line of methods beside transformers' dense ones. Random weights attend evenly: give the
    methods a fixed ratio."""
    ours = Saccade(a.programs, folder, max(a.lengths) + 2 * STEPS, a.work, **dict(x.split("=", 1) for x in line.split()))
    for n, ids, _, _, prefill, step in runs:
        if n < 32768:
            continue
        our_prefill, our_step = ours.speed(ids, STEPS, 2)
        print(f"| {n} | {line} | | | {1e3 * prefill:.1f} | {1e3 * our_prefill:.1f} | {prefill / our_prefill:.2f} | "
              f"{1e3 * step:.2f} | {1e3 * our_step:.2f} | {step / our_step:.2f} |", flush=True)
    ours.close()


if __name__ == "__main__":
    main()
