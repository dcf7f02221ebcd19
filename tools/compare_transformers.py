#!/usr/bin/env python3
"""Saccade beside transformers on the same random-weight checkpoint and the same card: logits, prefill, decode, images.

    tools/compare_transformers.py --programs build/cuda --work /tmp/work --lengths 1024 8192 32768
    tools/compare_transformers.py --programs build/cuda --work /tmp/work --lengths 131072 200000 --attention cudnn flash
    tools/compare_transformers.py --programs build/cuda --work /tmp/work --shape llava-1.5-7b --lengths 1024 4000
    tools/compare_transformers.py --programs build/cuda --work /tmp/work --images 32 --lengths

Makes a shape with random bf16 weights on the card, saves it once below --work, runs transformers on it (attention by cuDNN,
and by FlashAttention-2 as torch has it), then text_probe on the same files, and prints one table. --images times a CLIP
ViT-L/14-336 tower with a projector, `saccade bench` beside transformers. Needs torch and transformers. FlashInfer's
attention kernels beside ours: compare_flashinfer.cu."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import time

import numpy as np
import torch
from PIL import Image
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import (AutoModelForCausalLM, CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration,
                          Qwen2Config)

STEPS = 64
SHAPES = {
    "qwen2-7b": dict(hidden_size=3584, intermediate_size=18944, num_hidden_layers=28, num_attention_heads=28,
                     num_key_value_heads=4, vocab_size=152064, max_position_embeddings=1 << 20, rope_theta=1e6),
    "qwen2-0.5b": dict(hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
                       num_key_value_heads=2, vocab_size=151936, max_position_embeddings=1 << 20, rope_theta=1e6,
                       tie_word_embeddings=True),
    "llava-1.5-7b": dict(hidden_size=4096, intermediate_size=11008, num_hidden_layers=32, num_attention_heads=32,
                         num_key_value_heads=32, vocab_size=32064, max_position_embeddings=4096, rms_norm_eps=1e-5),
}
BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}


def make_model(folder, shape, tokenizer):
    if (folder / "config.json").exists():
        return
    if shape.startswith("llava"):  # its language model
        config = LlamaConfig(**SHAPES[shape])
    else:
        config = Qwen2Config(**SHAPES[shape], use_sliding_window=False)
    torch.manual_seed(1)
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder)
    copy_files(tokenizer, folder, "tokenizer.json", "tokenizer_config.json")
    del model
    torch.cuda.empty_cache()


def copy_files(source, folder, *names):
    for name in names:
        if (source / name).exists():
            (folder / name).write_bytes((source / name).read_bytes())


def make_llava(folder, demo):
    """CLIP ViT-L/14-336 and a projector before a language model of two small layers."""
    if (folder / "config.json").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    vision = CLIPVisionConfig(hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16,
                              image_size=336, patch_size=14, projection_dim=768, hidden_act="quick_gelu")
    text = Qwen2Config(hidden_size=1024, num_hidden_layers=2, num_attention_heads=16, num_key_value_heads=2, vocab_size=512,
                       intermediate_size=2048, eos_token_id=4, use_sliding_window=False)
    config = LlavaConfig(vision_config=vision, text_config=text, image_token_index=1, vision_feature_layer=-2,
                         vision_feature_select_strategy="default", projector_hidden_act="gelu", image_seq_length=576)
    torch.manual_seed(1)
    with torch.device("cuda"):
        model = LlavaForConditionalGeneration(config).to(torch.bfloat16)
    model.save_pretrained(folder)
    copy_files(demo, folder, "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json",
               "processor_config.json")
    processor = (demo / "preprocessor_config.json").read_text()
    (folder / "preprocessor_config.json").write_text(processor.replace("112", "336"))
    del model
    torch.cuda.empty_cache()


class Transformers:
    def __init__(self, folder, dtype=torch.bfloat16, attention="cudnn"):
        self.backend = BACKENDS[attention]
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, device_map="cuda",
                                                          attn_implementation="sdpa").eval()

    @torch.inference_mode()
    def run(self, ids, steps):
        """Logits after the prompt and after each greedy step, the steps' ids, seconds of prefill and of a step."""
        with sdpa_kernel([self.backend, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH], set_priority=True):
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
    def prefill(self, ids):
        """Seconds, the best of two."""
        times = []
        with sdpa_kernel([self.backend]):
            for _ in range(2):
                torch.cuda.synchronize()
                t = time.perf_counter()
                self.model(torch.tensor([ids], device="cuda"), use_cache=True, logits_to_keep=1)
                torch.cuda.synchronize()
                times.append(time.perf_counter() - t)
        return min(times)

    @torch.inference_mode()
    def logits(self, ids, n_rows):
        """Of the last n_rows tokens, in one go."""
        with sdpa_kernel([self.backend, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH], set_priority=True):
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
    p.add_argument("--lengths", type=int, nargs="*", default=[1024, 8192, 32768])
    p.add_argument("--exact-up-to", type=int, default=8192, help="tokens for which transformers runs in f32 too")
    p.add_argument("--methods", nargs="*", default=[], help="lines such as 'prefill=zipvl:ratio=0.421 decode=dense'")
    p.add_argument("--attention", nargs="+", choices=BACKENDS, default=["cudnn"],
                   help="of transformers; all but the first for prefill alone")
    p.add_argument("--images", type=int, default=0, metavar="N", choices=range(33),
                   help="time the tower on N pictures at once, at most a batch of 32: batches overlap with decoding")
    p.add_argument("--out", type=pathlib.Path, help="write the rows as JSON lines too")
    a = p.parse_args()
    print(torch.cuda.get_device_name(), "torch", torch.__version__, "cuDNN", torch.backends.cudnn.version(), flush=True)
    if a.images:
        compare_tower(a)
    if a.lengths:
        compare_text(a)


def compare_text(a):
    folder = a.work / a.shape
    folder.mkdir(parents=True, exist_ok=True)
    make_model(folder, a.shape, a.tokenizer)
    print("| tokens | same top-1 | largest gap | relative error | prefill ms: transformers | saccade | ratio | "
          "step ms: transformers | saccade | ratio |\n" + "|---" * 10 + "|", flush=True)
    reference = Transformers(folder, attention=a.attention[0])
    runs, others, again = [], {}, {}
    for n in a.lengths:
        ids = np.random.default_rng(n).integers(0, SHAPES[a.shape]["vocab_size"] - 2000, n).tolist()
        runs.append((n, ids, *reference.run(ids, STEPS)))
        if n < 65536:  # how far transformers is from itself: the same tokens in one go, in place of steps
            again[n] = reference.logits(ids + runs[-1][3], STEPS + 1)
        for name in a.attention[1:]:
            reference.backend = BACKENDS[name]
            others[n, name] = reference.prefill(ids)
        reference.backend = BACKENDS[a.attention[0]]
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
        if n in again:
            print("%d tokens, transformers in one go to its steps: %d of %d, gap %.4f, relative error %.2e" % (
                n, compare(rows, again[n])[0], len(rows), *compare(rows, again[n])[1:]), flush=True)
        if n in exact:
            for name, x in (("transformers", rows), ("saccade", logits)):
                print("%d tokens, to f32: %s %d of %d, gap %.4f, relative error %.2e" % (
                    n, name, compare(exact[n], x)[0], len(rows), *compare(exact[n], x)[1:]), flush=True)
        our_prefill, our_step = ours.speed(ids, STEPS, 3 if n < 65536 else 2)
        print(f"| {n} | {same} of {len(rows)} | {gap:.4f} | {error:.2e} | {1e3 * prefill:.1f} | {1e3 * our_prefill:.1f} | "
              f"{prefill / our_prefill:.2f} | {1e3 * step:.2f} | {1e3 * our_step:.2f} | {step / our_step:.2f} |", flush=True)
        for name in a.attention[1:]:
            print(f"| {n} | transformers by {name} | | | {1e3 * others[n, name]:.1f} | {1e3 * our_prefill:.1f} | "
                  f"{others[n, name] / our_prefill:.2f} | | | |", flush=True)
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


@torch.inference_mode()
def images_per_second(model, pixels, repeats=20):
    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH], set_priority=True):
        for _ in range(3):
            model.get_image_features(pixel_values=pixels)
        torch.cuda.synchronize()
        t = time.perf_counter()
        for _ in range(repeats):
            model.get_image_features(pixel_values=pixels)
        torch.cuda.synchronize()
    return repeats * len(pixels) / (time.perf_counter() - t)


def compare_tower(a):
    """Pixels stand on the card already for transformers; Saccade's time begins with bytes on the host."""
    folder, frames = a.work / "llava", a.work / "frames"
    make_llava(folder, a.tokenizer)
    frames.mkdir(exist_ok=True)
    random = np.random.default_rng(3)
    for i in range(a.images):
        tiles = random.integers(0, 255, (12, 12, 3), dtype=np.uint8)
        Image.fromarray(np.kron(tiles, np.ones((28, 28, 1), np.uint8))).save(frames / f"{i:03}.bmp")
    model = LlavaForConditionalGeneration.from_pretrained(folder, dtype=torch.bfloat16, device_map="cuda",
                                                          attn_implementation="sdpa").eval()
    theirs = images_per_second(model, torch.randn(a.images, 3, 336, 336, device="cuda", dtype=torch.bfloat16))
    del model
    torch.cuda.empty_cache()
    out = subprocess.run(launch(a.programs, "saccade") + ["bench", "-m", folder, "--device", "cuda", "--frames", frames, "-n", "4",
                                                          "-r", "5", "-c", "40000", "--json", "-q"], capture_output=True, text=True)
    if out.returncode:
        raise SystemExit(out.stderr)
    vision = json.loads(out.stdout)["parts"]["vision"]
    ours = vision["work"] / vision["median_s"]  # of one batch nothing overlaps with decoding: the host waits for all of it
    print(f"tower and projector, {a.images} pictures of 336 x 336: transformers {theirs:.0f} images a second, saccade {ours:.0f}, "
          f"ratio {ours / theirs:.2f}", flush=True)


if __name__ == "__main__":
    main()
