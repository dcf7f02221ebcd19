#!/usr/bin/env python3
"""A folder of a real model's shape with random quantised weights, to time what a format takes.

    tools/make_random_packed.py DIR [--format bf16|w4|w8|awq|fp8|fp8_block|nvfp4|mxfp4] [--layers N]

The shape is Qwen2-7B's (https://huggingface.co/Qwen/Qwen2-7B, config.json); head and embeddings stay in bf16. w4, w8:
compressed-tensors in groups of 128; fp8: a scale a row, rows of x rounded as they come; fp8_block: blocks of 128 x 128, groups
of x rounded; nvfp4, mxfp4: compressed-tensors', weights alone. The tokenizer is the demo model's: ask it by ids. Needs torch (a card makes it in seconds) and safetensors."""
import argparse
import json
import os
import shutil

import torch
from safetensors.torch import save_file

HIDDEN, INTERMEDIATE, HEADS, KV_HEADS, HEAD_DIM, VOCAB, LAYERS = 3584, 18944, 28, 4, 128, 152064, 28
GROUP = 128
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MATRICES = {"self_attn.q_proj": (HEADS * HEAD_DIM, HIDDEN), "self_attn.k_proj": (KV_HEADS * HEAD_DIM, HIDDEN),
            "self_attn.v_proj": (KV_HEADS * HEAD_DIM, HIDDEN), "self_attn.o_proj": (HIDDEN, HEADS * HEAD_DIM),
            "mlp.gate_proj": (INTERMEDIATE, HIDDEN), "mlp.up_proj": (INTERMEDIATE, HIDDEN), "mlp.down_proj": (HIDDEN, INTERMEDIATE)}


def compressed(format_name, weights, inputs):
    scheme = dict(targets=["Linear"], weights=dict(symmetric=True, **weights), input_activations=inputs, output_activations=None)
    return dict(quant_method="compressed-tensors", format=format_name, quantization_status="compressed", ignore=["lm_head"],
                config_groups=dict(group_0=scheme))


QUANTIZATION = {
    "w4": compressed("pack-quantized", dict(num_bits=4, type="int", strategy="group", group_size=GROUP), None),
    "w8": compressed("pack-quantized", dict(num_bits=8, type="int", strategy="group", group_size=GROUP), None),
    "awq": dict(quant_method="awq", bits=4, group_size=GROUP, zero_point=True, version="gemm"),
    "fp8": compressed("float-quantized", dict(num_bits=8, type="float", strategy="channel", dynamic=False),
                      dict(num_bits=8, type="float", symmetric=True, strategy="token", dynamic=True)),
    "nvfp4": compressed("nvfp4-pack-quantized", dict(num_bits=4, type="float", strategy="tensor_group", group_size=16), None),
    "mxfp4": compressed("mxfp4-pack-quantized", dict(num_bits=4, type="float", strategy="group", group_size=32), None),
    "fp8_block": dict(quant_method="fp8", fmt="e4m3", activation_scheme="dynamic", weight_block_size=[GROUP, GROUP]),
}


class Maker:
    def __init__(self, kind):
        self.kind = kind
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.random = torch.Generator(device=self.device).manual_seed(1)

    def normal(self, *shape, size=0.02):
        return torch.randn(*shape, generator=self.random, device=self.device) * size

    def words(self, *shape):
        drawn = torch.randint(-2**31, 2**31, shape, generator=self.random, device=self.device, dtype=torch.int64)
        return drawn.to(torch.int32).cpu()

    def floats(self, *shape):
        return self.normal(*shape).to(torch.bfloat16).cpu()

    def matrix(self, n, k):
        """The tensors of a matrix of n outputs by the ends of their names; values are about 0.02 in size."""
        if self.kind in ("w4", "w8"):
            bits = int(self.kind[1])
            return {"weight_packed": self.words(n, k * bits // 32), "weight_shape": torch.tensor([n, k]),
                    "weight_scale": torch.full((n, k // GROUP), 0.03 / 2**(bits - 1), dtype=torch.bfloat16)}
        if self.kind == "awq":
            return {"qweight": self.words(k, n // 8), "qzeros": self.words(k // GROUP, n // 8),
                    "scales": torch.full((k // GROUP, n), 0.004, dtype=torch.float16)}
        if self.kind == "mxfp4":
            return {"weight_packed": self.words(n, k // 8).view(torch.uint8),
                    "weight_scale": torch.full((n, k // 32), 119, dtype=torch.uint8)}
        if self.kind == "nvfp4":
            return {"weight_packed": self.words(n, k // 8).view(torch.uint8), "weight_global_scale": torch.tensor([600.0]),
                    "weight_scale": torch.full((n, k // 16), 4.0).to(torch.float8_e4m3fn)}
        if self.kind.startswith("fp8"):
            codes = self.normal(n, k, size=1).to(torch.float8_e4m3fn).cpu()
            if self.kind == "fp8":
                return {"weight": codes, "weight_scale": torch.full((n, 1), 0.02, dtype=torch.bfloat16)}
            return {"weight": codes, "weight_scale_inv": torch.full((n // GROUP, k // GROUP), 0.02)}
        return {"weight": self.floats(n, k)}

    def layer(self, prefix):
        tensors = {f"{prefix}{norm}.weight": torch.ones(HIDDEN, dtype=torch.bfloat16)
                   for norm in ("input_layernorm", "post_attention_layernorm")}
        for name, (n, k) in MATRICES.items():
            tensors |= {f"{prefix}{name}.{end}": t for end, t in self.matrix(n, k).items()}
        for name in ("q_proj", "k_proj", "v_proj"):
            tensors[f"{prefix}self_attn.{name}.bias"] = self.floats(MATRICES["self_attn." + name][0])
        return tensors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir")
    parser.add_argument("--format", default="w4", choices=["bf16", *QUANTIZATION])
    parser.add_argument("--layers", type=int, default=LAYERS)
    args = parser.parse_args()
    os.makedirs(args.dir, exist_ok=True)
    maker, files = Maker(args.format), {}

    def save(name, tensors):
        save_file(tensors, os.path.join(args.dir, name), metadata={"format": "pt"})
        files.update(dict.fromkeys(tensors, name))

    save("ends.safetensors", {"model.embed_tokens.weight": maker.floats(VOCAB, HIDDEN), "lm_head.weight": maker.floats(VOCAB, HIDDEN),
                              "model.norm.weight": torch.ones(HIDDEN, dtype=torch.bfloat16)})
    for i in range(args.layers):
        save(f"layer{i}.safetensors", maker.layer(f"model.layers.{i}."))
    config = dict(architectures=["Qwen2ForCausalLM"], model_type="qwen2", hidden_size=HIDDEN, intermediate_size=INTERMEDIATE,
                  num_hidden_layers=args.layers, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, vocab_size=VOCAB,
                  max_position_embeddings=131072, rope_theta=1e6, rms_norm_eps=1e-6, hidden_act="silu",
                  tie_word_embeddings=False, torch_dtype="bfloat16")
    if args.format in QUANTIZATION:
        config["quantization_config"] = QUANTIZATION[args.format]
    for name, content in (("config.json", config), ("model.safetensors.index.json", dict(metadata={}, weight_map=files))):
        with open(os.path.join(args.dir, name), "w") as f:
            json.dump(content, f)
    shutil.copy(os.path.join(ROOT, "models", "demo", "tokenizer.json"), args.dir)


if __name__ == "__main__":
    main()
