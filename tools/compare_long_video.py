#!/usr/bin/env python3
"""A video of 128 K tokens through Qwen2.5-VL-7B's shape with random bf16 weights: Saccade's methods beside transformers on one card.

    tools/compare_long_video.py --programs build/cuda --work /tmp/work [--frames 220] [--lines "" "prefill=zipvl:ratio=0.42 kv=mixed"]

tower_probe makes the prompt (frames, chat, ids). transformers runs its language model on these ids, with the rows of its own tower and its
own positions on three axes, which are ready before its clock starts (attention by cuDNN). A dense line must be as near to it as bf16 is: logits behind the prompt
are compared. Seconds of the prompt and of a step follow, the better of two and the mean of --steps. Saccade's prompts have their visual rows from the cache, so that
neither side's tower is in them. transformers numbers what follows a video by its grid, hence rope=model:grid=1 here. Random weights attend
evenly: methods are given a ratio. Needs torch and transformers. --tiny --device cpu: to try the tool."""
import argparse
import pathlib
import time

import numpy as np
import torch
from PIL import Image
from torch.nn.attention import SDPBackend, sdpa_kernel

import compare_towers as towers

SHAPE = "qwen2.5-vl-7b"
LINES = ["", "prefill=zipvl:ratio=0.42 kv=mixed", "prefill=tokenselect:pos=orig,vote=true decode=tokenselect:pos=orig,vote=true,theta=-1",
         "prefill=tokenselect:pos=orig,vote=true decode=tokenselect:pos=orig,vote=true,theta=2"]


def clock(device):
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


class Reference:
    def __init__(self, a, folder):
        self.a, self.towers = a, towers.Transformers(folder, a.device, torch.float32 if a.device == "cpu" else torch.bfloat16)
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

    @torch.inference_mode()
    def run(self):
        """(logits behind the prompt, seconds of the prompt, of a step)"""
        language, head, best = self.model.model.language_model, self.model.lm_head, None
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH], set_priority=True):
            for _ in range(2):
                out = None
                t = clock(self.a.device)
                out = language(inputs_embeds=self.embed[None], position_ids=self.positions, use_cache=True)
                logits = head(out.last_hidden_state[:, -1])[0].float()
                t = clock(self.a.device) - t
                best = t if best is None else min(best, t)
            kept, last = logits.cpu().numpy(), int(self.positions.max(0).values[0, -1])
            at, start = logits, clock(self.a.device)
            for i in range(self.a.steps):
                token = at.argmax().view(1, 1)
                out = language(inputs_embeds=self.model.model.get_input_embeddings()(token), past_key_values=out.past_key_values, use_cache=True,
                               position_ids=torch.full((3, 1, 1), last + 1 + i, device=self.a.device))
                at = head(out.last_hidden_state[:, -1])[0].float()
                at.cpu()
            return kept, best, (clock(self.a.device) - start) / self.a.steps


def ours(a, folder, line, paths):
    probe = towers.Saccade(a, folder, keep=True, more=[*line.split(), "rope=model:grid=1"])
    out = a.work / "long.bin"
    run = probe.ask("long", out, a.steps, 3, *paths)
    probe.close()
    return np.fromfile(str(out) + ".ids", np.int32), np.fromfile(out, np.float32), min(run["prompt_s"][1:]), min(run["steps_s"][1:]) / a.steps


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--programs", type=pathlib.Path, default="build/cuda")
    p.add_argument("--work", type=pathlib.Path, required=True)
    p.add_argument("--frames", type=int, default=220, help="two are a step of 1,196 tokens")
    p.add_argument("--steps", type=int, default=64)
    p.add_argument("--lines", nargs="+", default=LINES)
    p.add_argument("--tiny", action="store_true")
    p.add_argument("--device", default="cuda")
    a = p.parse_args()
    a.work.mkdir(parents=True, exist_ok=True)
    a.ctx = a.frames // 2 * 1196 + 1024
    a.probe = next(q for q in (a.programs / "tower_probe", a.programs / "tests/tower_probe") if q.exists())
    folder = a.work / (SHAPE + "-long")
    towers.FRAMES = a.frames  # of the limit on a video's pixels
    towers.make(folder, SHAPE, 3 if a.tiny else 28, a.tiny, a.device)
    size = towers.SHAPES[SHAPE]["frame"] if not a.tiny else (224, 168)
    frames, paths = [], []
    for i in range(a.frames):
        frames.append(towers.draw(size, i))
        paths.append(a.work / f"long-{i:03}.bmp")
        Image.fromarray(frames[-1]).save(paths[-1])
    found = {line: ours(a, folder, line, paths) for line in a.lines}
    ids = next(iter(found.values()))[0]
    reference = Reference(a, folder)
    reference.prepare(ids.tolist(), frames)
    want, prompt, step = reference.run()
    print(f"{len(ids)} tokens, transformers: prompt {1e3 * prompt:.0f} ms, step {1e3 * step:.2f} ms\n"
          "| line | relative error of the logits | same likeliest | prompt ms | ratio | step ms | ratio |\n" + "|---" * 7 + "|")
    good = True
    for line, (_, logits, our_prompt, our_step) in found.items():
        error = float(np.linalg.norm(logits - want) / np.linalg.norm(want))
        good = good and (line != "" or error < (0.08 if a.device == "cuda" else 1e-3))  # two runs in bf16 are 5e-2 apart (docs/speed.md)
        print(f"| {line or 'dense'} | {error:.2e} | {'yes' if logits.argmax() == want.argmax() else 'no'} | {1e3 * our_prompt:.0f} | {prompt / our_prompt:.2f} | "
              f"{1e3 * our_step:.2f} | {step / our_step:.2f} |", flush=True)
    return not good


if __name__ == "__main__":
    raise SystemExit(main())
