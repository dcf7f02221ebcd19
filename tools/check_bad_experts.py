#!/usr/bin/env python3
"""Breaks folders of models with experts and checks what `saccade inspect` says of each.

    tools/check_bad_experts.py [--command build/asan/saccade] [--show]

Each must end with exit code 65 or 69 and exactly one line on stderr. Prints what falls short; ends with 1 then."""
import argparse
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODELS = os.path.join(ROOT, "tests", "golden", "models")
EXPERT = "model.layers.{}.mlp.experts.{}.{}_proj.weight"
FUSED = "model.language_model.layers.1.mlp.experts."


def keys(base, **changed):
    """A configuration with other values; None: without the key."""
    def change(folder):
        path = os.path.join(folder, "config.json")
        config = json.load(open(path))
        inner = config.get("text_config", config)
        for key, value in changed.items():
            if value is None:
                inner.pop(key)
            else:
                inner[key] = value
        json.dump(config, open(path, "w"))
    return base, ", ".join(f"{k} {str(v)[:40]}" for k, v in changed.items()), change


def header(base, what, edit):
    """safetensors whose table is edited."""
    def change(folder):
        path = os.path.join(folder, "model.safetensors")
        data = open(path, "rb").read()
        n = struct.unpack("<Q", data[:8])[0]
        table = json.loads(data[8:8 + n])
        edit(table)
        text = json.dumps(table).encode()
        open(path, "wb").write(struct.pack("<Q", len(text)) + text + data[8 + n:])
    return base, what, change


def half(base, key, **changed):
    """Another half of config.json, or another file."""
    def change(folder):
        name = key if key.endswith(".json") else "config.json"
        path = os.path.join(folder, name)
        content = json.load(open(path))
        inner = content if name == key else content[key]
        for k, value in changed.items():
            inner.pop(k) if value is None else inner.update({k: value})
        json.dump(content, open(path, "w"))
    return base, key + ": " + ", ".join(f"{k} {str(v)[:40]}" for k, v in changed.items()), change


def lines_of(base, what, edit):
    """tiktoken.model with other lines."""
    def change(folder):
        path = os.path.join(folder, "tiktoken.model")
        lines = open(path).read().splitlines()
        edit(lines)
        open(path, "w").write("\n".join(lines) + "\n")
    return base, what, change


def drop(name):
    return header("qwen3_moe", "without " + name, lambda t: t.pop(name))


def shape(base, name, dims):
    return header(base, f"{name} of {dims}", lambda t: t[name].update(shape=dims))


def swap(a, b):
    def edit(t):
        t[a], t[b] = t[b], t[a]
    return header("qwen3_moe", f"{a} and {b} exchanged", edit)


GRANITE = "model.layers.1.block_sparse_moe."
ROUTER, SHARED = "model.layers.1.mlp.gate.", "model.layers.1.mlp.shared_experts.{}_proj.weight"
GATED, LATENT, NEXT = "model.layers.1.mlp.", "model.layers.1.self_attn.", "model.layers.0.linear_attn."
CASES = [
    drop("model.layers.0.mlp.gate.weight"), drop(EXPERT.format(0, 0, "gate")), drop(EXPERT.format(2, 5, "down")),
    drop(EXPERT.format(2, 3, "up")), drop("model.layers.1.mlp.gate_proj.weight"),
    swap(EXPERT.format(0, 1, "gate"), EXPERT.format(0, 1, "down")),
    shape("qwen3_moe", EXPERT.format(0, 2, "up"), [24, 17]), shape("qwen3_moe", EXPERT.format(2, 0, "down"), [408]),
    shape("qwen3_moe", "model.layers.2.mlp.gate.weight", [24, 6]),
    shape("qwen3_vl_moe", FUSED + "gate_up_proj", [24, 5, 28]), shape("qwen3_vl_moe", FUSED + "gate_up_proj", [5 * 24, 28]),
    shape("qwen3_vl_moe", FUSED + "down_proj", [5, 2, 7, 24]), shape("qwen3_vl_moe", FUSED + "down_proj", [1680]),
    shape("qwen3_vl_moe", FUSED + "down_proj", [0, 14, 24]),
    header("qwen3_vl_moe", "experts in a type of 8 bits", lambda t: t[FUSED + "down_proj"].update(dtype="I8", shape=[5, 14, 48])),
    header("qwen3_vl_moe", "without the router", lambda t: t.pop("model.language_model.layers.0.mlp.gate.weight")),
    header("qwen3_vl_moe", "without half of the experts", lambda t: t.pop(FUSED + "gate_up_proj")),
    keys("qwen3_moe", num_experts=0), keys("qwen3_moe", num_experts=-1), keys("qwen3_moe", num_experts=1),
    keys("qwen3_moe", num_experts=7), keys("qwen3_moe", num_experts=1 << 31), keys("qwen3_moe", num_experts=1025),
    keys("qwen3_moe", num_experts="6"), keys("qwen3_moe", num_experts=None), keys("qwen3_moe", num_experts_per_tok=7),
    keys("qwen3_moe", num_experts_per_tok=0), keys("qwen3_moe", num_experts_per_tok=1 << 40),
    keys("qwen3_moe", moe_intermediate_size=0), keys("qwen3_moe", moe_intermediate_size=16), keys("qwen3_moe", moe_intermediate_size=1 << 30),
    keys("qwen3_moe", decoder_sparse_step=0), keys("qwen3_moe", decoder_sparse_step=2), keys("qwen3_moe", mlp_only_layers=[1.5]),
    keys("qwen3_moe", mlp_only_layers=[]), keys("qwen3_moe", mlp_only_layers=[0, 1]), keys("qwen3_moe", mlp_only_layers={"1": 1}),
    keys("qwen3_moe", norm_topk_prob="yes"), keys("qwen3_moe", hidden_act="gelu"), keys("qwen3_moe", num_local_experts=5),
    *[header(base, "without " + name, lambda t, name=name: t.pop(name)) for base, name in (
        ("olmoe", EXPERT.format(1, 3, "up")), ("olmoe", "model.layers.0.mlp.gate.weight"), ("olmoe", "model.layers.1.self_attn.q_norm.weight"),
        ("granitemoe", GRANITE + "router.layer.weight"), ("granitemoe", GRANITE + "input_linear.weight"),
        ("granitemoe", GRANITE + "output_linear.weight"))],
    shape("granitemoe", GRANITE + "input_linear.weight", [6, 13, 32]), shape("granitemoe", GRANITE + "input_linear.weight", [156, 16]),
    shape("granitemoe", GRANITE + "output_linear.weight", [6, 13, 16]), shape("granitemoe", GRANITE + "router.layer.weight", [16, 6]),
    shape("olmoe", "model.layers.0.self_attn.k_norm.weight", [4, 4]), shape("olmoe", EXPERT.format(0, 0, "gate"), [16, 9]),
    header("granitemoe", "experts in a type of 8 bits", lambda t: t[GRANITE + "output_linear.weight"].update(dtype="I8", shape=[6, 16, 26])),
    keys("olmoe", num_experts=0), keys("olmoe", num_experts=7), keys("olmoe", num_experts_per_tok=7), keys("olmoe", intermediate_size=10),
    keys("olmoe", clip_qkv=8.0), keys("olmoe", norm_topk_prob=1), keys("olmoe", sliding_window=4), keys("olmoe", hidden_act="gelu"),
    keys("mixtral", num_local_experts=0), keys("mixtral", num_local_experts=6), keys("mixtral", num_experts_per_tok=6),
    keys("mixtral", intermediate_size=16), keys("mixtral", sliding_window=0), keys("mixtral", sliding_window="a"),
    keys("granitemoe", num_local_experts=5), keys("granitemoe", num_experts_per_tok=0), keys("granitemoe", intermediate_size=14),
    keys("granitemoe", embedding_multiplier="x"), keys("granitemoe", logits_scaling=0),
    *[header("glm4_moe", "without " + name, lambda t, name=name: t.pop(name)) for name in (
        ROUTER + "weight", ROUTER + "e_score_correction_bias", SHARED.format("gate"), SHARED.format("down"), EXPERT.format(1, 5, "up"),
        "model.layers.0.mlp.up_proj.weight", "model.layers.1.self_attn.q_norm.weight", "model.layers.0.self_attn.k_proj.bias")],
    shape("glm4_moe", ROUTER + "e_score_correction_bias", [2, 3]), shape("glm4_moe", ROUTER + "weight", [16, 6]),
    shape("glm4_moe", SHARED.format("gate"), [16, 14]), shape("glm4_moe", SHARED.format("down"), [14, 16]),
    header("glm4_moe", "a bias in a type of 32 bits without a point", lambda t: t[ROUTER + "e_score_correction_bias"].update(dtype="I32")),
    *[keys("glm4_moe", **k) for k in (
        {"n_group": 4}, {"n_group": 0}, {"n_group": 6, "topk_group": 6}, {"topk_group": 4}, {"topk_group": 1}, {"topk_group": 0},
        {"n_group": "3"}, {"n_routed_experts": 5}, {"n_routed_experts": 8}, {"n_routed_experts": 0}, {"n_routed_experts": 1 << 31},
        {"n_routed_experts": None}, {"num_experts_per_tok": 5}, {"num_experts_per_tok": 0}, {"moe_intermediate_size": 8},
        {"moe_intermediate_size": 0}, {"n_shared_experts": 1}, {"n_shared_experts": 1 << 20}, {"n_shared_experts": -1},
        {"n_shared_experts": None}, {"first_k_dense_replace": 0}, {"first_k_dense_replace": 2}, {"first_k_dense_replace": -1},
        {"routed_scaling_factor": 0}, {"routed_scaling_factor": "x"}, {"norm_topk_prob": "yes"}, {"use_qk_norm": 1},
        {"partial_rotary_factor": 0.1}, {"partial_rotary_factor": 2}, {"intermediate_size": 14}, {"head_dim": 10}, {"hidden_act": "gelu"},
        {"mlp_bias": True})],
    *[keys("glm4v_moe", **k) for k in (
        {"n_routed_experts": 5}, {"n_group": 3}, {"num_experts_per_tok": 5}, {"moe_intermediate_size": 8}, {"n_shared_experts": 2},
        {"first_k_dense_replace": 2}, {"use_qk_norm": True}, {"partial_rotary_factor": 1}, {"model_type": "glm4v_text"}, {"head_dim": 16})],
    *[header("glm4v_moe", "without " + name, lambda t, name=name: t.pop(name)) for name in (
        "model.language_model.layers.1.mlp.experts.gate_up_proj", "model.language_model.layers.1.mlp.gate.e_score_correction_bias",
        "model.language_model.layers.1.mlp.shared_experts.up_proj.weight", "model.visual.merger.gate_proj.weight")],
    shape("glm4v_moe", FUSED + "gate_up_proj", [4, 9, 32]), shape("glm4v_moe", FUSED + "down_proj", [4, 3, 48]),
    *[keys("qwen3_next", **k) for k in (
        {"num_experts": 4}, {"num_experts": -1}, {"num_experts_per_tok": 4}, {"num_experts_per_tok": 0}, {"moe_intermediate_size": 6},
        {"shared_expert_intermediate_size": 7}, {"shared_expert_intermediate_size": 0}, {"intermediate_size": 8}, {"mlp_only_layers": []},
        {"mlp_only_layers": ["a"]}, {"decoder_sparse_step": 0}, {"decoder_sparse_step": 2}, {"norm_topk_prob": 1}, {"linear_num_value_heads": 3},
        {"linear_num_value_heads": 2}, {"linear_num_key_heads": 4}, {"linear_key_head_dim": 5}, {"linear_value_head_dim": 4},
        {"linear_conv_kernel_dim": 3}, {"full_attention_interval": 1}, {"full_attention_interval": 3}, {"partial_rotary_factor": 0.1},
        {"head_dim": 6}, {"attn_output_gate": False})],
    *[header("qwen3_next", "without " + name, lambda t, name=name: t.pop(name)) for name in (
        NEXT + "in_proj_qkvz.weight", NEXT + "in_proj_ba.weight", NEXT + "A_log", "model.layers.0.mlp.shared_expert_gate.weight",
        "model.layers.1.mlp.up_proj.weight")],
    shape("qwen3_next", NEXT + "in_proj_qkvz.weight", [12, 40]), shape("qwen3_next", NEXT + "in_proj_ba.weight", [12, 8]),
    header("qwen3_next", "rows in a type of 8 bits", lambda t: t[NEXT + "in_proj_ba.weight"].update(dtype="I8", shape=[8, 24])),
    *[keys("deepseek_v3", **k) for k in (
        {"kv_lora_rank": 8}, {"kv_lora_rank": 0}, {"kv_lora_rank": 1 << 31}, {"kv_lora_rank": None}, {"q_lora_rank": 12}, {"q_lora_rank": 0},
        {"q_lora_rank": "a"}, {"qk_rope_head_dim": 3}, {"qk_rope_head_dim": 0}, {"qk_rope_head_dim": 6}, {"qk_nope_head_dim": 5},
        {"qk_nope_head_dim": 0}, {"qk_nope_head_dim": 1 << 31}, {"v_head_dim": 6}, {"v_head_dim": 11}, {"v_head_dim": 0}, {"num_key_value_heads": 1},
        {"head_dim": 10}, {"attention_bias": 1}, {"topk_method": "greedy"}, {"scoring_func": "softmax"}, {"moe_layer_freq": 2},
        {"n_group": 4}, {"num_experts_per_tok": 5}, {"n_shared_experts": 2}, {"rope_interleave": "yes"},
        {"rope_scaling": {"type": "yarn", "factor": 4, "mscale_all_dim": "x"}}, {"rope_scaling": {"type": "yarn", "factor": -1}})],
    *[header("deepseek_v3", "without " + name, lambda t, name=name: t.pop(name)) for name in (
        LATENT + "q_a_proj.weight", LATENT + "q_b_proj.weight", LATENT + "q_a_layernorm.weight", LATENT + "kv_a_proj_with_mqa.weight",
        LATENT + "kv_b_proj.weight", LATENT + "kv_a_layernorm.weight", LATENT + "o_proj.weight", LATENT + "kv_a_proj_with_mqa.bias",
        LATENT + "o_proj.bias", LATENT + "q_a_proj.bias")],
    shape("deepseek_v3", LATENT + "kv_b_proj.weight", [9, 33]), shape("deepseek_v3", LATENT + "q_b_proj.weight", [11, 30]),
    shape("deepseek_v3", LATENT + "o_proj.weight", [15, 16]), shape("deepseek_v3", LATENT + "kv_a_proj_with_mqa.weight", [16, 13]),
    header("deepseek_v3", "kv_b in a type of 8 bits", lambda t: t[LATENT + "kv_b_proj.weight"].update(dtype="I8", shape=[33, 18])),
    *[keys(base, **k) for base in ("qwen3_5_moe_text", "qwen3_5_moe") for k in (
        {"num_experts": 7}, {"num_experts": 0}, {"num_experts": None}, {"num_experts_per_tok": 6}, {"num_experts_per_tok": 0},
        {"moe_intermediate_size": 6}, {"moe_intermediate_size": 0}, {"shared_expert_intermediate_size": 9},
        {"shared_expert_intermediate_size": 0}, {"shared_expert_intermediate_size": 1 << 31}, {"norm_topk_prob": False},
        {"attn_output_gate": False})],
    *[header("qwen3_5_moe_text", "without " + name, lambda t, name=name: t.pop(name)) for name in (
        GATED + "shared_expert_gate.weight", GATED + "shared_expert.up_proj.weight", GATED + "gate.weight", EXPERT.format(1, 4, "down"))],
    shape("qwen3_5_moe_text", GATED + "shared_expert_gate.weight", [12, 1]), shape("qwen3_5_moe_text", GATED + "shared_expert_gate.weight", [12]),
    shape("qwen3_5_moe_text", GATED + "shared_expert.down_proj.weight", [10, 12]),
    header("qwen3_5_moe_text", "a gate in a type of 8 bits", lambda t: t[GATED + "shared_expert_gate.weight"].update(dtype="I8", shape=[1, 24])),
    shape("qwen3_5_moe", FUSED + "gate_up_proj", [4, 5, 24]), shape("qwen3_5_moe", FUSED + "down_proj", [4, 60]),
    *[keys("kimi_vl", **k) for k in (
        {"kv_lora_rank": 8}, {"q_lora_rank": 3}, {"qk_rope_head_dim": 6}, {"v_head_dim": 11}, {"topk_method": "greedy"}, {"scoring_func": "softmax"},
        {"n_routed_experts": 7}, {"vocab_size": 300}, {"model_type": "deepseek_v2"}, {"num_key_value_heads": 1})],
    *[half("kimi_vl", "vision_config", **k) for k in (
        {"hidden_size": 24}, {"hidden_size": 0}, {"num_attention_heads": 3}, {"num_hidden_layers": 3}, {"intermediate_size": 36}, {"patch_size": 7},
        {"patch_size": [6, 7]}, {"init_pos_emb_height": 6}, {"init_pos_emb_height": 6, "init_pos_emb_width": 6}, {"init_pos_emb_width": 1 << 40},
        {"merge_kernel_size": [2, 1]}, {"merge_kernel_size": [3, 3]}, {"model_type": "siglip_vision_model"})],
    *[half("kimi_vl", "preprocessor_config.json", **k) for k in (
        {"pad_input": False}, {"pad_input": None}, {"in_token_limit": 0}, {"patch_size": 14}, {"image_mean": [0.5]},
        {"image_processor_type": "CLIPImageProcessor"})],
    half("kimi_vl", "tokenizer_config.json", tokenizer_class="QWenTokenizer"), half("kimi_vl", "tokenizer_config.json", tokenizer_class=None),
    half("kimi_vl", "tokenizer_config.json", added_tokens_decoder=[]),
    *[header("kimi_vl", "without " + name, lambda t, name=name: t.pop(name)) for name in (
        "vision_tower.patch_embed.pos_emb.weight", "vision_tower.encoder.blocks.1.wqkv.bias", "vision_tower.encoder.final_layernorm.bias",
        "multi_modal_projector.pre_norm.weight", "multi_modal_projector.linear_2.bias", "language_model.lm_head.weight")],
    shape("kimi_vl", "vision_tower.patch_embed.pos_emb.weight", [25, 16]), shape("kimi_vl", "multi_modal_projector.linear_1.weight", [32, 128]),
    lines_of("kimi_vl", "without a byte", lambda t: t.pop(65)), lines_of("kimi_vl", "a token twice", lambda t: t.append(t[65].split()[0] + " 280")),
    lines_of("kimi_vl", "no base64", lambda t: t.append("(= 280")), lines_of("kimi_vl", "a gap", lambda t: t.append("b3ds 290")),
    lines_of("kimi_vl", "no lines", lambda t: t.clear()),
    keys("qwen3_vl_moe", num_experts=6), keys("qwen3_vl_moe", num_experts_per_tok=6), keys("qwen3_vl_moe", moe_intermediate_size=13),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", default="build/asan/saccade")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--only", help="folders of this name")
    a = parser.parse_args()
    n_bad = 0
    cases = [c for c in CASES if a.only in (None, c[0])]
    for base, what, change in cases:
        with tempfile.TemporaryDirectory() as scratch:
            folder = os.path.join(scratch, "broken")
            shutil.copytree(os.path.join(MODELS, base), folder)
            change(folder)
            done = subprocess.run([os.path.abspath(a.command), "inspect", folder], capture_output=True, text=True, timeout=120)
        lines = done.stderr.splitlines()
        good = done.returncode in (65, 69) and len(lines) == 1
        n_bad += not good
        if a.show or not good:
            print(f"{'ok  ' if good else 'FAIL'} {base}, {what}: {done.returncode}: {lines[0][-150:] if lines else 'no line'}")
    print(f"{len(cases)} broken folders, {n_bad} not refused in one line")
    return 1 if n_bad else 0


if __name__ == "__main__":
    sys.exit(main())
