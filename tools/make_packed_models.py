#!/usr/bin/env python3
"""Tiny checkpoints with quantised weights in the layouts that are published, with their goldens: tests/golden/models.

    tools/make_packed_models.py [NAME...]

The weights of a tiny model are rounded here to the nearest number of each format and packed by that format's layout.
What transformers computes from the same numbers as f32 weights is the golden: a runtime that unpacks them right and
keeps activations in f32 differs by the order of its sums alone. Where compressed-tensors is installed, its unpacking
must give the same numbers. Needs what make_tiny_models.py needs."""
import os
import shutil
import sys
import tempfile

import numpy as np
import torch

import make_model_goldens as goldens
import make_tiny_models as tiny

SIZES = dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=2, intermediate_size=96)
TOLERANCE = 3e-4  # of the largest logit


def groups_of(w, group):
    """[n][k] as [n][k / group][group]."""
    return w.reshape(w.shape[0], -1, group)


def round_to(w, group, low, high, symmetric):
    """(q, zero, scale): w is about (q - zero) scale, with f16 scales, of [n][groups]."""
    x = groups_of(w, group)
    if symmetric:
        zero = np.full(x.shape[:2], (low + high + 1) // 2)
        scale = np.abs(x).max(-1) / ((high - low) // 2)
    else:
        least, most = np.minimum(x.min(-1), 0), np.maximum(x.max(-1), 0)
        scale = (most - least) / (high - low)
        zero = np.clip(np.rint(low - least / scale), low, high).astype(np.int64)
    scale = scale.astype(np.float16)
    q = np.rint(x / scale[..., None].astype(np.float32)) + zero[..., None]
    return np.clip(q, low, high).astype(np.int64), zero, scale


def unrounded(q, zero, scale):
    return ((q - zero[..., None]).astype(np.float32) * scale[..., None].astype(np.float32)).reshape(len(q), -1)


def words(columns, bits, order=None):
    """The last axis packed into 32-bit words, the first of them (by `order`) in the lowest bits."""
    n = 32 // bits
    x = columns.reshape(*columns.shape[:-1], -1, n).astype(np.uint64)
    if order:
        x = x[..., order]
    shift = np.arange(n, dtype=np.uint64) * np.uint64(bits)
    return torch.from_numpy((x << shift).sum(-1).astype(np.uint32).view(np.int32))


# ---------------------------------------------------------------- formats
# each: (name of the module, weight as f32 [n][k]) to (tensors, the weight that they stand for)

def awq(module, w, group=32):
    """AutoAWQ's gemm: words along n, nibble i holds output [0, 2, 4, 6, 1, 3, 5, 7][i]."""
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    q, zero, scale = round_to(w, group, 0, 15, False)
    return {module + ".qweight": words(q.reshape(len(q), -1).T, 4, order), module + ".qzeros": words(zero.T, 4, order),
            module + ".scales": torch.from_numpy(np.ascontiguousarray(scale.T))}, unrounded(q, zero, scale)


AWQ = {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm",
       "modules_to_not_convert": ["lm_head"]}

# name: packing, quantization_config
FORMATS = {
    "awq": (awq, AWQ),
}


# ---------------------------------------------------------------- the whole

def write(name, seed, as_floats):
    """The folder, and in `as_floats` one with the same numbers as floats."""
    pack, quantization = FORMATS[name]
    config = tiny.qwen2(**SIZES, rope_theta=10000.0, tie_word_embeddings=False)
    folder = os.path.join(goldens.FOLDER, "packed_" + name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    packed, floats = {}, {}
    for k, v in tiny.draw(tiny.tensor_shapes(config), seed, False).items():
        if ".layers." in k and "_proj.weight" in k:
            parts, w = pack(k.removesuffix(".weight"), v.numpy())
            packed.update({p: t.contiguous() for p, t in parts.items()})
            floats[k] = torch.from_numpy(np.ascontiguousarray(w))
        else:
            packed[k] = v.half()
            floats[k] = packed[k].float()
    for to, tensors, more in ((folder, packed, {"quantization_config": quantization}), (as_floats, floats, {})):
        shutil.copy(os.path.join(goldens.FOLDER, "tokenizer.json"), to)
        tiny.write_json(to, "config.json", {**config, **more})
        tiny.save(to, tensors)
    return folder


def make(name):
    for seed in range(1, 100):
        with tempfile.TemporaryDirectory() as as_floats:
            folder = write(name, seed, as_floats)
            try:
                cases, values = goldens.golden(as_floats, min_gap=tiny.MIN_GAP)
            except goldens.TooClose:
                continue
        for case in cases:
            case["tolerance"] = round(TOLERANCE * float(np.abs(values).max()), 6)
        return goldens.write_golden("packed_" + name, folder, cases, values)
    raise SystemExit(f"{name}: no seed gives clear tokens")


def main():
    for name in sys.argv[1:] or FORMATS:
        make(name)


if __name__ == "__main__":
    torch.manual_seed(0)
    import transformers
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    main()
