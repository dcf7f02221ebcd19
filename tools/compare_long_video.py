#!/usr/bin/env python3
"""A video of 128 K tokens through Qwen2.5-VL-7B's shape with random bf16 weights: Saccade's methods beside transformers on one card.

    tools/compare_long_video.py --programs build/cuda --work /dev/shm/work [--frames 220] [--lines "" "prefill=zipvl:ratio=0.42 kv=mixed"]

tower_probe makes the prompt (frames, chat, ids), and runs it with each line of methods: a row as soon as it is through. Its visual rows are made once and come
out of the cache then, so that no tower is in the times. transformers runs its language model on the same ids, with the rows of its own tower and its
own positions on three axes, which are ready before its clock starts (attention by cuDNN), once, behind a prompt of 2,048 rows that warms up. A dense line must be as
near to it as bf16 is: logits behind the prompt are compared. Seconds of the prompt and the mean of --steps steps. transformers numbers what follows a video by its
grid, hence rope=model:grid=1 here. Random weights attend evenly: methods are given a ratio. Needs torch and transformers. --tiny --device cpu: to try the tool."""
import argparse
import pathlib
import time

import numpy as np
import torch
from PIL import Image
from torch.nn.attention import SDPBackend, sdpa_kernel

import compare_towers as towers

SHAPE = "qwen2.5-vl-7b"
LINES = ["", "prefill=zipvl:ratio=0.42 kv=mixed", "prefill=tokenselect:pos=orig decode=tokenselect:pos=orig,theta=-1",
         "prefill=tokenselect:pos=orig decode=tokenselect:pos=orig,theta=2", "prefill=tokenselect:pos=orig,vote=true decode=tokenselect:pos=orig,vote=true,theta=-1",
         "prefill=tokenselect:pos=orig,vote=true decode=tokenselect:pos=orig,vote=true,theta=2"]
WARM = 2048  # rows


def clock(device):
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


class Reference:
    def __init__(self, a, folder, model):
        self.a, self.towers = a, towers.Transformers(folder, a.device, torch.float32 if a.device == "cpu" else torch.bfloat16, model)
        self.model = self.towers.model
        if a.device == "cuda":
            self.towers.choose("flash")

    @torch.inference_mode()
    def prepare(self, ids, frames):
        """Embeddings with the tower's rows, positions, and what is added to a position behind the prompt."""
        a, inner = self.a, self.model.model
        x, grid = self.towers.input([frames])
        rows = inner.visual(x, grid_thw=grid, return_dict=True).pooler_output
        ids = torch.tensor(ids, device=a.device)
        self.embed = inner.get_input_embeddings()(ids)
        self.embed[ids == self.model.config.video_token_id] = rows.to(self.embed.dtype)
        first = int((ids == self.model.config.video_token_id).nonzero()[0])
        t, h, w = grid[0].tolist()
        h, w = h // 2, w // 2
        n = t * h * w
        positions = torch.arange(len(ids)).repeat(3, 1)  # text, then the grid (two units of time a step), then text from its largest side on
        cell = torch.arange(n)
        positions[:, first:first + n] = first + torch.stack([cell // (h * w) * 2, cell // w % h, cell % w])
        positions[:, first + n:] = first + max(h, w) + torch.arange(len(ids) - first - n)
        assert int((ids == self.model.config.video_token_id).sum()) == n == len(rows)
        self.positions = positions[:, None].to(a.device)

    def prompt(self, n):
        """(what the first n rows give, seconds)"""
        t = clock(self.a.device)
        out = self.model.model.language_model(inputs_embeds=self.embed[None, :n], position_ids=self.positions[:, :, :n], use_cache=True)
        logits = self.model.lm_head(out.last_hidden_state[:, -1])[0].float()
        return out, logits, clock(self.a.device) - t

    def steps(self, out, logits, n):
        """Seconds of n steps behind the prompt."""
        last, start = int(self.positions.max(0).values[0, -1]), clock(self.a.device)
        for i in range(n):
            embed = self.model.model.get_input_embeddings()(logits.argmax().view(1, 1))
            out = self.model.model.language_model(inputs_embeds=embed, past_key_values=out.past_key_values, use_cache=True,
                                                  position_ids=torch.full((3, 1, 1), last + 1 + i, device=self.a.device))
            logits = self.model.lm_head(out.last_hidden_state[:, -1])[0].float()
            logits.cpu()
        return clock(self.a.device) - start

    @torch.inference_mode()
    def run(self):
        """(logits behind the prompt, seconds of the prompt, of a step)"""
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH], set_priority=True):
            out, logits, _ = self.prompt(WARM)
            self.steps(out, logits, 2)
            out, logits, seconds = self.prompt(self.embed.shape[0])
            return logits.cpu().numpy(), seconds, self.steps(out, logits, self.a.steps) / self.a.steps


def ours(a, folder, paths):
    """Of each line (ids, logits, seconds of a prompt, of a step)."""
    probe, out, found = towers.Saccade(a, folder, keep=True, more=["rope=model:grid=1"]), a.work / "long.bin", {}
    print("| line | tokens | Saccade: prompt ms | step ms |\n" + "|---" * 4 + "|", flush=True)
    for line in a.lines:
        if found or line:
            probe.ask("session", *line.split(), "rope=model:grid=1")
        run = probe.ask("long", out, a.steps, 2, *paths)  # the first warms up, and of the first line makes the rows
        ids, logits = np.fromfile(str(out) + ".ids", np.int32), np.fromfile(out, np.float32)
        found[line] = ids, logits, min(run["prompt_s"][1:]), min(run["steps_s"][1:]) / a.steps
        print(f"| {line or 'dense'} | {len(ids)} | {1e3 * found[line][2]:.0f} | {1e3 * found[line][3]:.2f} |", flush=True)
    probe.close()
    return found


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--programs", type=pathlib.Path, default="build/cuda")
    p.add_argument("--work", type=pathlib.Path, required=True, help="17 GB: in memory where there is room")
    p.add_argument("--frames", type=int, default=220, help="two are a step of 1,196 tokens")
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--layers", type=int, default=28, help="of both language models; 28 are published")
    p.add_argument("--lines", nargs="+", default=LINES)
    p.add_argument("--tiny", action="store_true")
    p.add_argument("--device", default="cuda")
    a = p.parse_args()
    start = time.perf_counter()
    a.work.mkdir(parents=True, exist_ok=True)
    a.ctx = a.frames // 2 * 1196 + 1024
    a.probe = next(q for q in (a.programs / "tower_probe", a.programs / "tests/tower_probe") if q.exists())
    n_layers = 3 if a.tiny else a.layers
    folder = a.work / f"{SHAPE}-long-{'tiny-' if a.tiny else ''}{n_layers}"
    towers.FRAMES = 1  # Qwen2.5-VL limits the pixels of a frame
    model = towers.make(folder, SHAPE, n_layers, a.tiny, a.device)
    if a.device == "cuda":
        torch.cuda.empty_cache()
    size = towers.SHAPES[SHAPE]["frame"] if not a.tiny else (224, 168)
    frames, paths = [], []
    for i in range(a.frames):
        frames.append(towers.draw(size, i))
        paths.append(a.work / f"long-{i:03}.bmp")
        Image.fromarray(frames[-1]).save(paths[-1])
    print(f"{3 if a.tiny else a.layers} layers; model and frames made in {time.perf_counter() - start:.0f} s", flush=True)
    found = ours(a, folder, paths)
    print(f"at {time.perf_counter() - start:.0f} s", flush=True)
    ids = next(iter(found.values()))[0]
    reference = Reference(a, folder, model)
    reference.prepare(ids.tolist(), frames)
    want, prompt, step = reference.run()
    print(f"transformers: prompt {1e3 * prompt:.0f} ms, step {1e3 * step:.2f} ms, at {time.perf_counter() - start:.0f} s\n"
          "| line | relative error of the logits | same likeliest | prompt, ratio | step, ratio |\n" + "|---" * 5 + "|")
    good = True
    for line, (_, logits, our_prompt, our_step) in found.items():
        error = float(np.linalg.norm(logits - want) / np.linalg.norm(want))
        good = good and (line != "" or error < (0.08 if a.device == "cuda" else 1e-3))  # two runs in bf16 are 5e-2 apart (docs/speed.md)
        print(f"| {line or 'dense'} | {error:.2e} | {'yes' if logits.argmax() == want.argmax() else 'no'} | {prompt / our_prompt:.2f} | {step / our_step:.2f} |", flush=True)
    return not good


if __name__ == "__main__":
    raise SystemExit(main())
