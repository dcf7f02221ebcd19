#!/usr/bin/env python3
"""A LoRA adapter of random numbers for a Hugging Face folder, as peft saves one: to measure with, not to answer with.

    tools/make_random_adapter.py MODEL OUT [--rank 16] [--seed 1] [--size 0.02] [--targets q_proj,v_proj]

Of the language model's layers: q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj and down_proj unless --targets says
otherwise, in bf16. Needs numpy.
"""
import argparse
import json
import os
import struct

import numpy as np

ALL = "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"


def shapes_of(config):
    """module: (outputs, inputs)"""
    text = {**config, **config.get("text_config", {})}
    hidden, heads = text["hidden_size"], text["num_attention_heads"]
    dim = text.get("head_dim") or hidden // heads
    kv, wide = text.get("num_key_value_heads", heads) * dim, text["intermediate_size"]
    return text["num_hidden_layers"], {
        "self_attn.q_proj": (heads * dim, hidden), "self_attn.k_proj": (kv, hidden), "self_attn.v_proj": (kv, hidden),
        "self_attn.o_proj": (hidden, heads * dim), "mlp.gate_proj": (wide, hidden), "mlp.up_proj": (wide, hidden),
        "mlp.down_proj": (hidden, wide)}


def to_bf16(x):
    return (x.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()


def write(path, tensors):
    header, at = {}, 0
    for name, (shape, data) in tensors.items():
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, data in tensors.values():
            f.write(data)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("model")
    p.add_argument("out")
    p.add_argument("--rank", type=int, default=16)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--size", type=float, default=0.02, help="standard deviation of the numbers")
    p.add_argument("--targets", default=ALL)
    a = p.parse_args()
    with open(os.path.join(a.model, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    n_layers, shapes = shapes_of(config)
    rng, targets, tensors = np.random.default_rng(a.seed), a.targets.split(","), {}
    prefix = "base_model.model.model." + ("language_model." if "text_config" in config else "")
    for layer in range(n_layers):
        for module, (rows, columns) in shapes.items():
            if module.split(".")[1] not in targets:
                continue
            for letter, shape in ("A", [a.rank, columns]), ("B", [rows, a.rank]):
                x = rng.standard_normal(shape, dtype=np.float32) * a.size
                tensors[f"{prefix}layers.{layer}.{module}.lora_{letter}.weight"] = (shape, to_bf16(x))
    os.makedirs(a.out, exist_ok=True)
    write(os.path.join(a.out, "adapter_model.safetensors"), tensors)
    with open(os.path.join(a.out, "adapter_config.json"), "w", encoding="utf-8") as f:
        json.dump({"peft_type": "LORA", "r": a.rank, "lora_alpha": 2 * a.rank, "target_modules": targets,
                   "base_model_name_or_path": a.model}, f, indent=1)


if __name__ == "__main__":
    main()
