#!/usr/bin/env python3
"""A GGUF file of a real model's shape with random weights, to time what a quantised model takes.

    tools/make_random_gguf.py OUT.gguf [--type q4_k_m|q5_k_m|q3_k_m|TYPE] [--layers N]

The shape is Llama-3.1-8B's (https://huggingface.co/meta-llama/Llama-3.1-8B, config.json). Mixes give
matrices types much as llama.cpp's quantize does; TYPE is bf16 or one of blocks. Its tokens are not words: ask it by ids.
Needs numpy."""
import argparse
import struct

import numpy as np

from gguf_bytes import text, value

HIDDEN, INTERMEDIATE, HEADS, KV_HEADS, HEAD_DIM, VOCAB, LAYERS = 4096, 14336, 32, 8, 128, 128256, 32
ALIGNMENT = 32
# id in the file, elements and bytes of a block, where its f16 numbers stand and what they are
TYPES = {
    "f32": (0, 1, 4, {}), "bf16": (30, 1, 2, {}),
    "q4_0": (2, 32, 18, {0: 0.005}), "q4_1": (3, 32, 20, {0: 0.005, 2: -0.0375}), "q8_0": (8, 32, 34, {0: 0.0003}),
    "q5_0": (6, 32, 22, {0: 0.0025}), "q5_1": (7, 32, 24, {0: 0.0025, 2: -0.0375}), "iq4_nl": (20, 32, 18, {0: 0.0004}),
    "mxfp4": (39, 32, 17, {}), "q2_k": (10, 256, 84, {80: 0.0025, 82: 0.0035}), "q3_k": (11, 256, 110, {108: 0.0007}),
    "q4_k": (12, 256, 144, {0: 0.00015, 2: 0.001}), "q5_k": (13, 256, 176, {0: 0.00008, 2: 0.001}), "q6_k": (14, 256, 210, {208: 0.00002}),
    "iq4_xs": (23, 256, 136, {0: 0.00003}),
}
MXFP4_EXPONENT = 120  # of 2^-8
# of a mix: most matrices', those of some layers that get more (attn_v and ffn_down), attn_v's, attn_output's, ffn_down's of the others
MIXES = {"q4_k_m": ("q4_k", "q6_k", "q4_k", "q4_k", "q4_k"), "q5_k_m": ("q5_k", "q6_k", "q5_k", "q5_k", "q5_k"),
         "q3_k_m": ("q3_k", "q5_k", "q4_k", "q4_k", "q3_k")}


def metadata(layers):
    return {
        "general.architecture": "llama", "general.name": "random",
        "llama.context_length": 131072, "llama.embedding_length": HIDDEN, "llama.block_count": layers,
        "llama.feed_forward_length": INTERMEDIATE, "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS, "llama.rope.dimension_count": HEAD_DIM, "llama.rope.freq_base": 500000.0,
        "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.vocab_size": VOCAB,
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": ["a", "b", "ab"] + [f"<{i}>" for i in range(3, VOCAB)], "tokenizer.ggml.token_type": [1] * VOCAB,
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.bos_token_id": 0, "tokenizer.ggml.eos_token_id": 1, "tokenizer.ggml.add_bos_token": False,
    }


def matrices(kind, layers):
    """(name, rows, columns, type) of every tensor; rows 0: a vector in f32."""
    mixed = kind in MIXES
    base, best, values, out, down = MIXES.get(kind, (kind,) * 5)
    yield "token_embd.weight", VOCAB, HIDDEN, base
    for i in range(layers):
        more = mixed and (i < layers // 8 or i >= 7 * layers // 8 or (i - layers // 8) % 3 == 2)
        b = f"blk.{i}."
        yield b + "attn_norm.weight", 0, HIDDEN, "f32"
        yield b + "attn_q.weight", HIDDEN, HIDDEN, base
        yield b + "attn_k.weight", KV_HEADS * HEAD_DIM, HIDDEN, base
        yield b + "attn_v.weight", KV_HEADS * HEAD_DIM, HIDDEN, best if more else values
        yield b + "attn_output.weight", HIDDEN, HIDDEN, out
        yield b + "ffn_norm.weight", 0, HIDDEN, "f32"
        yield b + "ffn_gate.weight", INTERMEDIATE, HIDDEN, base
        yield b + "ffn_up.weight", INTERMEDIATE, HIDDEN, base
        yield b + "ffn_down.weight", HIDDEN, INTERMEDIATE, best if more else down
    yield "output_norm.weight", 0, HIDDEN, "f32"
    yield "output.weight", VOCAB, HIDDEN, "q6_k" if mixed else base


def random_blocks(kind, rng):
    """Some blocks, whose bytes a tensor repeats."""
    _, _, n_bytes, numbers = TYPES[kind]
    n = (8 << 20) // n_bytes
    if kind == "bf16":
        return (rng.standard_normal(n, dtype=np.float32) * 0.02).view(np.uint32).__rshift__(16).astype("<u2").view(np.uint8)
    blocks = rng.integers(0, 256, (n, n_bytes), dtype=np.uint8)
    if kind == "mxfp4":
        blocks[:, 0] = MXFP4_EXPONENT
    for at, number in numbers.items():
        blocks[:, at:at + 2] = np.array([number], "<f2").view(np.uint8)
    return blocks.reshape(-1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("out")
    p.add_argument("--type", default="q4_k_m", choices=list(MIXES) + [t for t in TYPES if t != "f32"])
    p.add_argument("--layers", type=int, default=LAYERS)
    a = p.parse_args()
    keys, tensors = metadata(a.layers), list(matrices(a.type, a.layers))
    head, at, spans = b"", 0, []
    for name, rows, columns, kind in tensors:
        number, block, n_bytes, _ = TYPES[kind]
        size = max(rows, 1) * columns // block * n_bytes
        dims = (columns, rows) if rows else (columns,)
        head += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, number, at)
        spans.append((kind, size))
        at += -(-size // ALIGNMENT) * ALIGNMENT
    start = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    start += b"".join(text(k) + value(v) for k, v in keys.items()) + head
    rng = np.random.default_rng(1)
    source = {kind: random_blocks(kind, rng) for kind, _ in spans if kind != "f32"}
    with open(a.out, "wb") as f:
        f.write(start + bytes(-len(start) % ALIGNMENT))
        for kind, size in spans:
            if kind == "f32":
                np.ones(size // 4, "<f4").tofile(f)
            else:
                whole, rest = divmod(size, source[kind].size)
                for _ in range(whole):
                    source[kind].tofile(f)
                source[kind][:rest].tofile(f)
            f.write(bytes(-size % ALIGNMENT))


if __name__ == "__main__":
    main()
