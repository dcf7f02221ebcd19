#!/usr/bin/env python3
"""tests/golden/captured.safetensors: what a trained model's attention is made of, for oracles that random numbers are too even for.

    tools/make_captured_golden.py

Two frames of samples/video0000_16.mp4 and a question that they answer, by the demo model in f32 (transformers). Of the layer whose queries
are the most concentrated, three query heads and the key-value head that they share, before rope, in f16: `q` [n][3 * 64], `k` and `v`
[n][64], `theta` of the rope. Prints the share of the weight on each query's strongest fifth of keys, by layer; the file has that of its own
layer and heads as `share`. Needs torch, transformers and av."""
import os
import sys

import torch
from safetensors.torch import save_file
from transformers import AutoProcessor, LlavaForConditionalGeneration
from transformers.models.qwen2.modeling_qwen2 import apply_rotary_pos_emb

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tools/demo"))
from concentration import STRONGEST  # noqa: E402
from score_transformers import read_frames  # noqa: E402
from pathlib import Path  # noqa: E402

QUESTION, MOST = "What number is shown with the blue ring?", 160


def turned(q, k, theta):
    d = q.shape[-1]
    angle = torch.arange(q.shape[1])[:, None] * theta ** (-torch.arange(0, d, 2) / d)
    angle = torch.cat([angle, angle], -1)[None, None]
    return [x[0] for x in apply_rotary_pos_emb(q[None], k[None], angle.cos()[0], angle.sin()[0])]


def share(q, k, theta):
    """Mean over heads and queries from the 20th on of the weight on the strongest fifth of the keys that a query sees."""
    q, k = turned(q, k, theta)
    n, group = q.shape[1], q.shape[0] // k.shape[0]
    score = q @ k.repeat_interleave(group, 0).mT * q.shape[-1] ** -.5
    weight = score.masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf).softmax(-1)
    held = weight.sort(-1, descending=True).values.cumsum(-1)
    last = ((torch.arange(n) + 1) * STRONGEST).ceil().long() - 1
    return held.gather(-1, last.expand(len(q), -1)[..., None])[:, 20:].mean((1, 2))


@torch.no_grad()
def main():
    torch.set_num_threads(1)
    folder, got = os.path.join(ROOT, "models/demo"), {}
    processor = AutoProcessor.from_pretrained(folder)
    model = LlavaForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    layers = model.model.language_model.layers
    for i, layer in enumerate(layers):
        for name in "qkv":
            getattr(layer.self_attn, f"{name}_proj").register_forward_hook(
                lambda m, x, y, key=(i, name): got.__setitem__(key, y[0].unflatten(-1, (-1, 64)).transpose(0, 1).contiguous()))
    frames = read_frames(Path(ROOT) / "samples/video0000_16.mp4")
    text = "<|user|>" + "<image>\n" * 2 + QUESTION + "<|assistant|>"
    model(**processor(text=text, images=[frames[5], frames[9]], return_tensors="pt"))
    config = model.config.text_config
    theta = config.rope_parameters["rope_theta"]
    shares = torch.stack([share(got[i, "q"], got[i, "k"], theta) for i in range(len(layers))])
    print("\n".join(f"layer {i}: {s.mean():.3f}; by head {[round(x, 3) for x in s.tolist()]}" for i, s in enumerate(shares)))
    group = config.num_attention_heads // config.num_key_value_heads
    best = int(shares.unflatten(-1, (-1, group)).mean(-1).argmax())
    layer, kv = divmod(best, config.num_key_value_heads)
    heads = slice(kv * group, (kv + 1) * group)
    rows = lambda x: x[:, :MOST].transpose(0, 1).flatten(1).half().contiguous()
    out = dict(q=rows(got[layer, "q"][heads]), k=rows(got[layer, "k"][kv:kv + 1]), v=rows(got[layer, "v"][kv:kv + 1]),
               theta=torch.tensor([theta]), share=shares[layer, heads].mean()[None].float())
    save_file(out, os.path.join(ROOT, "tests/golden/captured.safetensors"))
    print(f"layer {layer}, key-value head {kv}: {list(out['q'].shape)}, share {out['share'].item():.3f}")


if __name__ == "__main__":
    main()
