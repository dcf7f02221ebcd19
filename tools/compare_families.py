#!/usr/bin/env python3
"""Random models of text families, with heads that a card has kernels for: transformers beside Saccade's CPU, and the CPU beside a device.

    tools/compare_families.py TEXT_PROBE [--device cuda] [--families granite,olmo2] [--tokens 400]

For each, weights in bf16: the largest difference of logits, of the largest logit, over the last rows of the prompt (transformers in f32
beside the CPU with --kv f32; the CPU beside the device, both as they come; transformers in bf16 beside itself in f32, which is what rounding
alone does: a token near the border between two experts goes to another one), and how many of 16 greedy tokens are the same. Needs torch and
transformers; the golden models of the tree are the exact check (tests/unit/test_parity.c), this one is for what their small heads leave out."""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
N_GREEDY, N_ROWS, VOCAB = 16, 11, 288
SHAPE = dict(vocab_size=VOCAB, hidden_size=256, intermediate_size=384, num_hidden_layers=6, num_attention_heads=8, num_key_value_heads=2,
             max_position_embeddings=1024, bos_token_id=1, eos_token_id=2, pad_token_id=0, initializer_range=0.08, tie_word_embeddings=False)
HYBRID = dict(head_dim=64, layer_types=["linear_attention"] * 2 + ["full_attention"] + ["linear_attention"] * 2 + ["full_attention"],
              linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=64, linear_value_head_dim=64, rope_parameters={
                  "rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5, "mrope_section": [6, 5, 5], "mrope_interleaved": True})
LATENT = dict(num_key_value_heads=8, kv_lora_rank=64, q_lora_rank=96, qk_rope_head_dim=32, qk_nope_head_dim=64, v_head_dim=64, n_routed_experts=16,
              num_experts_per_tok=4, moe_intermediate_size=96, n_shared_experts=1, rope_scaling={
                  "type": "yarn", "factor": 8.0, "original_max_position_embeddings": 128, "mscale": 0.7, "mscale_all_dim": 0.7})
FAMILIES = {
    "llama": ("Llama", {}),
    "qwen3": ("Qwen3", dict(head_dim=32)),
    "gemma3": ("Gemma3", dict(head_dim=32, sliding_window=24, query_pre_attn_scalar=32, tie_word_embeddings=True)),
    "granite": ("Granite", dict(embedding_multiplier=3.0, residual_multiplier=0.5, attention_multiplier=0.2, logits_scaling=2.0)),
    "olmo2": ("Olmo2", {}),
    "smollm3": ("SmolLM3", {}),
    "ministral": ("Ministral", dict(head_dim=64, sliding_window=24, layer_types=["sliding_attention", "full_attention"] * 3)),
    "ministral3": ("Ministral3", dict(head_dim=64)), # a rope by YaRN of the class's own
    "glm4": ("Glm4", dict(head_dim=32, partial_rotary_factor=0.5)),
    "glm4_moe": ("Glm4Moe", dict(head_dim=64, partial_rotary_factor=0.5, n_routed_experts=16, num_experts_per_tok=4, moe_intermediate_size=96,
                                 n_shared_experts=2, n_group=4, topk_group=2, routed_scaling_factor=1.5, use_qk_norm=True, attention_bias=True)),
    "qwen3_moe": ("Qwen3Moe", dict(head_dim=32, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=192, norm_topk_prob=True)),
    "qwen3_moe_64": ("Qwen3Moe", dict(head_dim=64, num_experts=64, num_experts_per_tok=8, moe_intermediate_size=96, norm_topk_prob=False,
                                      mlp_only_layers=[1])),
    "qwen3_5_text": ("Qwen3_5", HYBRID),
    "qwen3_5_moe_text": ("Qwen3_5Moe", dict(HYBRID, num_experts=16, num_experts_per_tok=4, moe_intermediate_size=96,
                                            shared_expert_intermediate_size=128)),
    "qwen3_next": ("Qwen3Next", dict({k: v for k, v in HYBRID.items() if k != "rope_parameters"}, partial_rotary_factor=0.5, num_experts=16,
                                     num_experts_per_tok=4, moe_intermediate_size=96, shared_expert_intermediate_size=128)),
    "deepseek_v3": ("DeepseekV3", dict(LATENT, n_group=4, topk_group=2, first_k_dense_replace=1, routed_scaling_factor=1.5)),
    "deepseek_v2": ("DeepseekV2", dict(LATENT, q_lora_rank=None, n_group=1, topk_group=1, first_k_dense_replace=1)),
    "phi3": ("Phi3", dict(partial_rotary_factor=0.75, original_max_position_embeddings=256, sliding_window=262144, rope_scaling={
        "type": "longrope", "short_factor": [1 + i / 12 for i in range(12)], "long_factor": [1 + i * i / 4 for i in range(12)]})),
    "mixtral": ("Mixtral", dict(num_local_experts=8, num_experts_per_tok=2, sliding_window=64)),
    "olmoe": ("Olmoe", dict(num_experts=16, num_experts_per_tok=4)),
    "granitemoe": ("GraniteMoe", dict(num_local_experts=8, num_experts_per_tok=3, embedding_multiplier=3.0, residual_multiplier=0.5,
                                      attention_multiplier=0.2, logits_scaling=2.0)),
    "granitemoeshared": ("GraniteMoeShared", dict(num_local_experts=8, num_experts_per_tok=2, shared_intermediate_size=256, residual_multiplier=0.5,
                                                  attention_multiplier=0.2)),
}


def make(name, folder):
    """The model in f32, and in bf16, whose weights lie in `folder` in bf16."""
    import torch
    import transformers
    kind, more = FAMILIES[name]
    config = getattr(transformers, kind + ("TextConfig" if kind in ("Gemma3", "Qwen3_5", "Qwen3_5Moe") else "Config"))(**{**SHAPE, **more})
    torch.manual_seed(7)
    of = getattr(transformers, kind + "ForCausalLM")
    of(config).to(torch.bfloat16).save_pretrained(folder)
    shutil.copy(os.path.join(ROOT, "tests/golden/models/qwen3/tokenizer.json"), folder)
    # not .float(): its table of frequencies would stay rounded
    return [of.from_pretrained(folder, dtype=t).eval() for t in (torch.float32, torch.bfloat16)]


def ask(probe, folder, device, ids, *settings):
    """Logits of the last rows, and greedy tokens behind the prompt."""
    import numpy
    rows = os.path.join(folder, "rows")
    words = " ".join(map(str, ids))
    run = subprocess.run([probe, folder, str(len(ids) + 64), "0", device, *settings], text=True, capture_output=True,
                         input=f"dump {rows} {len(ids) - N_ROWS + 1} {words}\ngreedy {N_GREEDY} {words}\n")
    if run.returncode:
        return None, run.stderr.strip()
    logits = numpy.fromfile(rows, numpy.float32).reshape(-1, VOCAB)
    return logits, json.loads(run.stdout.strip().split("\n")[-1])["tokens"]


def apart(a, b):
    return abs(a - b).max() / abs(b).max()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("text_probe")
    p.add_argument("--device", default="cuda")
    p.add_argument("--families", default=",".join(FAMILIES))
    p.add_argument("--tokens", type=int, default=400)
    a = p.parse_args()
    import torch
    ids = [(7 * i * i + 3 * i + 11) % 250 + 20 for i in range(a.tokens)]
    print("| family | CPU beside transformers | device beside CPU | transformers in bf16 | the same greedy tokens |\n| --- | --- | --- | --- | --- |")
    failed = False
    for name in a.families.split(","):
        with tempfile.TemporaryDirectory() as folder:
            with torch.no_grad():
                own, rounded = (m(torch.tensor([ids])).logits[0, -N_ROWS:].float().numpy() for m in make(name, folder))
            exact, tokens = ask(a.text_probe, folder, "cpu", ids, "kv=f32")
            cpu, said = ask(a.text_probe, folder, "cpu", ids)
            card, heard = ask(a.text_probe, folder, a.device, ids)
        if exact is None or cpu is None or card is None:
            failed = True
            print(f"| {name} | {next(t for l, t in ((exact, tokens), (cpu, said), (card, heard)) if l is None)} | | | |")
            continue
        same = sum(x == y for x, y in zip(said, heard))
        print(f"| {name} | {apart(exact, own):.1e} | {apart(card, cpu):.4f} | {apart(rounded, own):.4f} | {same} of {N_GREEDY} |", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
