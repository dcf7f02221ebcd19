"""How right the demo model is on fresh scenes, and how close our forward pass is to transformers' own."""
import random

import numpy as np
import torch

from batches import Mix, make_batch
from network import TOKENS_PER_FRAME
from render import Renderer, draw_rough
from scenes import IMAGE, USER, Encoder


def to_device(tensors, device):
    return {k: v.to(device, non_blocking=True) for k, v in tensors.items()}


@torch.no_grad()
def measure(network, paint, encode, rng, sizes, mix, dtype, process, also_fp32=0):
    """Exact match by frames and kind: every token of the answer is the likeliest one given the right ones before it,
    which is what greedy decoding produces. sizes {n_frames: batches}. Returns ({n_frames: {kind: [right, asked]}},
    {n_frames: share of tokens where float32 chooses as dtype does, on the first also_fp32 batches})."""
    table, agreement = {}, {}
    for n_frames, n_batches in sizes.items():
        counts, same = {}, []
        for i in range(n_batches):
            tensors, owner, questions = make_batch(rng, encode, n_frames, mix)
            batch = to_device(tensors, process.device)
            pixels = paint(batch["rows"])
            chosen = network.logits(pixels, batch, dtype).argmax(-1)
            if i < also_fp32:
                agree = network.logits(pixels, batch, torch.float32).argmax(-1) == chosen
                same.append(agree[batch["weight"] > 0].float().mean().item())
            right = np.ones(len(questions), bool)
            right[owner[(chosen != batch["target"]).cpu().numpy() & (owner >= 0)]] = False
            for question, hit in zip(questions, right):
                c = counts.setdefault(question.kind, [0, 0])
                c[0] += int(hit)
                c[1] += 1
        merged = {}
        for part in process.gather(counts):
            for kind, (hits, asked) in part.items():
                m = merged.setdefault(kind, [0, 0])
                m[0] += hits
                m[1] += asked
        table[n_frames] = dict(sorted(merged.items()))
        if same:
            agreement[n_frames] = process.mean(sum(same) / len(same))
    return table, agreement


def format_table(table):
    kinds = sorted({kind for row in table.values() for kind in row})
    lines = ["| question | " + " | ".join("picture" if f == 1 else f"{f} frames" for f in table) + " |", "|---" * (len(table) + 1) + "|"]
    for kind in kinds:
        cells = [f"{row[kind][0] / row[kind][1]:.3f}" if kind in row else "" for row in table.values()]
        lines.append(f"| {kind} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


@torch.no_grad()
def gap_to_library(network, tokenizer, process):
    """Largest difference between our logits and transformers' own, float32, on one small video."""
    rng = random.Random(5)
    tensors, _, _ = make_batch(rng, Encoder(tokenizer), 2, Mix(turn_share=0., batch_scale=0.))
    batch = to_device(tensors, process.device)
    pixels = draw_rough(Renderer(device=process.device), batch["rows"])
    ours = network.logits(pixels, batch, torch.float32)
    n_first = int((batch["segments"][0] == 1).sum())
    frame = [IMAGE] * TOKENS_PER_FRAME + [network.newline]
    prompt = torch.tensor([[USER] + frame * 2 + batch["ids"][0, :n_first].tolist()], device=process.device)
    theirs = network.model(input_ids=prompt, pixel_values=pixels).logits[0, 1 + 2 * len(frame):]
    return (ours[0, :n_first] - theirs).abs().max().item()
