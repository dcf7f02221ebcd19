"""Language models with experts, with latents and with linear attention for draw_cases.py."""
import os
import shutil

import make_model_goldens as goldens
import make_tiny_models as tiny
from draw_parts import draw_experts, draw_gemma_case, draw_rope, draw_text_sizes, save_text, write_weights
from draw_text import draw_glm_text


def write_moe(folder, rng, seed):
    heads, n_layers, n_experts = rng.choice([(1, 1), (4, 2), (3, 1), (4, 4)]), rng.randint(1, 4), rng.choice([2, 3, 5, 8, 16, 33, 64])
    used = rng.randint(1, min(8, n_experts))
    keys = dict(hidden_size=heads[0] * rng.choice([6, 8, 10]), num_attention_heads=heads[0], num_key_value_heads=heads[1],
                num_hidden_layers=n_layers, intermediate_size=rng.randint(1, 40), num_experts=n_experts,
                num_experts_per_tok=used, moe_intermediate_size=rng.randint(1, 33), tie_word_embeddings=rng.random() < 0.3,
                rope_parameters=draw_rope(rng, rng.choice([300.0, 20000.0, 1e6])))
    more = {"head_dim": rng.choice([8, 12, 18]), "norm_topk_prob": rng.random() < 0.5, "decoder_sparse_step": rng.randint(1, 3),
            "mlp_only_layers": rng.sample(range(n_layers + 1), rng.randint(0, n_layers)), "attention_bias": rng.random() < 0.5,
            "use_sliding_window": rng.random() < 0.5, "sliding_window": rng.choice([3, 20, None])}
    save_text(folder, tiny.qwen3_moe(**keys, **{k: v for k, v in more.items() if rng.random() < 0.7}), rng, seed, rng.choice(["apart", "v5"]))


def write_mixtral(folder, rng, seed):
    keys = {**draw_text_sizes(rng, [6, 8, 16]), **draw_experts(rng, "num_local_experts"), "rope_parameters": draw_rope(rng, rng.choice([300.0, 1e6]))}
    more = {"sliding_window": rng.choice([None, 2, 9, 40, 4096]), "router_aux_loss_coef": 0.02}
    keys.update({k: v for k, v in more.items() if rng.random() < 0.7})
    if keys["rope_parameters"]["rope_type"] != "default" or rng.random() < 0.7:  # which transformers reads heads' size for
        keys["head_dim"] = rng.choice([8, 12, 18])
    save_text(folder, tiny.text_config("mixtral", "MixtralForCausalLM", **keys), rng, seed, "mixtral")


def write_olmoe(folder, rng, seed):
    keys = {**draw_text_sizes(rng, [6, 8, 16]), **draw_experts(rng, "num_experts"), "rope_parameters": draw_rope(rng, rng.choice([300.0, 1e4]))}
    more = {"norm_topk_prob": rng.random() < 0.5, "attention_bias": rng.random() < 0.5, "clip_qkv": None}
    keys.update({k: v for k, v in more.items() if rng.random() < 0.7})
    save_text(folder, tiny.text_config("olmoe", "OlmoeForCausalLM", pad_token_id=0, **keys), rng, seed, "apart")


def write_granitemoe(folder, rng, seed, kind="granitemoe", architecture="GraniteMoeForCausalLM", **own):
    keys = {**draw_text_sizes(rng, [6, 8, 16]), **draw_experts(rng, "num_local_experts"), "rope_parameters": draw_rope(rng, rng.choice([300.0, 1e4]))}
    more = {"attention_bias": rng.random() < 0.5, "embedding_multiplier": rng.choice([1, 0.5, 3.0]), "attention_multiplier": rng.choice([0.1, 0.5]),
            "residual_multiplier": rng.choice([0.3, 0.7, 1.0]), "logits_scaling": rng.choice([1.0, 0.7, 6.0])}
    keys.update({k: v for k, v in more.items() if rng.random() < 0.8})
    save_text(folder, tiny.text_config(kind, architecture, pad_token_id=0, **keys, **own), rng, seed, "granite")


def write_granitemoeshared(folder, rng, seed):
    write_granitemoe(folder, rng, seed, "granitemoeshared", "GraniteMoeSharedForCausalLM", shared_intermediate_size=rng.choice([0, 1, 9, 30]))


def draw_routed(rng, n_layers):
    """Experts of DeepSeek-V3's kind: of some groups as many as a token needs."""
    groups = rng.choice([1, 1, 2, 3, 4, 8])
    each = rng.randint(2, 9 if groups < 4 else 4)
    used_groups = rng.randint(1, groups)
    keys = {"n_routed_experts": groups * each, "num_experts_per_tok": rng.randint(1, min(6, used_groups * each)), "n_group": groups,
            "topk_group": used_groups, "moe_intermediate_size": rng.randint(1, 33)}
    more = {"n_shared_experts": rng.randint(1, 3), "first_k_dense_replace": rng.randint(0, n_layers), "norm_topk_prob": rng.random() < 0.5,
            "routed_scaling_factor": rng.choice([0.3, 1.7, 2.5])}
    return {**keys, **{k: v for k, v in more.items() if rng.random() < 0.85}}


def draw_glm_moe_text(rng, axes):
    keys = draw_glm_text(rng, axes)
    if rng.random() < 0.4 and not axes:  # else the pairs of the axes are of this size
        keys["head_dim"] = rng.choice([8, 24])
    return {**keys, **draw_routed(rng, keys["num_hidden_layers"]), "attention_bias": rng.random() < 0.5}


def write_glm4_moe(folder, rng, seed):
    keys = {"use_qk_norm": rng.random() < 0.5, "num_nextn_predict_layers": 1, **draw_glm_moe_text(rng, False)}
    if rng.random() < 0.2:
        keys.pop("partial_rotary_factor", None)  # none: half of them
    save_text(folder, tiny.glm4_moe(**keys), rng, seed, rng.choice(["apart", "v5"]))


def draw_latent_text(rng, version):
    """Heads whose values are as wide as their keys at most. Transformers' DeepSeek-V2 fails where channels before those that turn are odd."""
    n_layers, rope, even = rng.randint(1, 3), rng.choice([2, 4, 8]), version == 2
    nope = rng.choice([2, 4, 6, 10] if even else [1, 4, 6, 9])
    keys = {"hidden_size": rng.choice([16, 24, 36]), "num_attention_heads": rng.choice([1, 2, 4]), "num_hidden_layers": n_layers,
            "intermediate_size": rng.choice([5, 13, 40]), "kv_lora_rank": rng.choice([2, 6, 16, 34] if even else [1, 5, 16, 33]), "q_lora_rank": rng.choice([None, 3, 8, 21]),
            "qk_rope_head_dim": rope, "qk_nope_head_dim": nope, "v_head_dim": rng.randint(1, rope + nope), "attention_bias": rng.random() < 0.4,
            "rope_theta": rng.choice([300.0, 1e4, 1e6]), "rms_norm_eps": rng.choice([1e-6, 1e-5, 1e-3]),
            "tie_word_embeddings": rng.random() < 0.4}
    if rng.random() < 0.6:
        scaling = {"type": "yarn", "factor": rng.choice([1.0, 4.0, 40.0]), "original_max_position_embeddings": rng.choice([16, 64, 4096])}
        for name in ("mscale", "mscale_all_dim"):
            if rng.random() < 0.6:
                scaling[name] = rng.choice([0.7, 1.0, 1.3])
        keys["rope_scaling"] = scaling
    elif rng.random() < 0.3:
        keys["rope_scaling"] = {"type": "linear", "factor": 2.5, "mscale_all_dim": rng.choice([0.0, 0.8])}
    routed = {**draw_routed(rng, n_layers)}
    if version == 3:
        keys["rope_interleave"] = rng.random() < 0.8
        return {**keys, **routed, "first_k_dense_replace": routed.get("first_k_dense_replace", rng.randint(0, n_layers))}
    return {**keys, **{k: v for k, v in routed.items() if k not in ("norm_topk_prob", "routed_scaling_factor", "n_group", "topk_group")},
            "topk_method": "greedy"}


def write_deepseek_v3(folder, rng, seed):
    save_text(folder, tiny.deepseek(3, **draw_latent_text(rng, 3)), rng, seed, rng.choice(["apart", "v5"]))


def write_deepseek_v2(folder, rng, seed):
    save_text(folder, tiny.deepseek(2, **draw_latent_text(rng, 2)), rng, seed, rng.choice(["apart", "v5"]))


def draw_hybrid_text(rng):
    """Layers of both kinds in any order, the last of either; at least one of full attention."""
    n, heads, dim = rng.randint(1, 6), rng.choice([1, 2, 3, 4]), rng.choice([8, 16, 24, 32])
    factor = rng.choice([None, 0.25, 0.5, 1.0])
    pairs = int(dim * (factor or 0.25)) // 2
    first = rng.randint(0, pairs)
    second = rng.randint(0, pairs - first)
    rope = {"rope_type": "default", "rope_theta": rng.choice([300.0, 1e4, 1e6]), "mrope_interleaved": True,
            "mrope_section": [first, second, pairs - first - second]}
    if factor:
        rope["partial_rotary_factor"] = factor
    keys = rng.choice([1, 2, 3])
    text = {"hidden_size": rng.choice([16, 24, 36]), "num_hidden_layers": n, "num_attention_heads": heads, "head_dim": dim,
            "num_key_value_heads": rng.choice([k for k in (1, 2, 3, 4) if heads % k == 0]), "intermediate_size": rng.choice([13, 40, 64]),
            "linear_num_key_heads": keys, "linear_num_value_heads": keys * rng.choice([1, 2, 3]),
            "linear_key_head_dim": rng.choice([3, 4, 8, 16, 20]), "linear_value_head_dim": rng.choice([4, 5, 8, 12, 24]),
            "linear_conv_kernel_dim": rng.choice([2, 3, 4, 4, 4, 5]), "attention_bias": rng.random() < 0.3,
            "tie_word_embeddings": rng.random() < 0.4, "rope_parameters": rope}
    if rng.random() < 0.3 and n >= 2:
        text["full_attention_interval"] = rng.randint(1, n)
    else:
        types = [rng.choice(["linear_attention", "linear_attention", "full_attention"]) for _ in range(n)]
        types[rng.randrange(n)] = "full_attention"
        text["layer_types"] = types
    return text


def write_qwen3_5_text(folder, rng, seed):
    write_weights(folder, tiny.qwen3_5_text(**draw_hybrid_text(rng)), seed)
    shutil.copy(os.path.join(goldens.FOLDER, "tokenizer.json"), folder)


def draw_hybrid_moe_text(rng):
    n = rng.randint(1, 9)
    experts = {"num_experts": n, "num_experts_per_tok": rng.randint(1, min(n, 5)), "moe_intermediate_size": rng.randint(1, 33),
               "shared_expert_intermediate_size": rng.randint(1, 40)}
    return {**{k: v for k, v in draw_hybrid_text(rng).items() if k != "intermediate_size"}, **experts}


def write_qwen3_5_moe_text(folder, rng, seed):
    save_text(folder, tiny.qwen3_5_moe_text(**draw_hybrid_moe_text(rng)), rng, seed, rng.choice(["apart", "v5"]))


def write_qwen3_next(folder, rng, seed):
    text = draw_hybrid_moe_text(rng)
    rope, n = text.pop("rope_parameters"), text["num_hidden_layers"]
    text["rope_theta"] = rope["rope_theta"]
    if "partial_rotary_factor" in rope:
        text["partial_rotary_factor"] = rope["partial_rotary_factor"]
    text.update(intermediate_size=rng.randint(1, 40), norm_topk_prob=rng.random() < 0.5, decoder_sparse_step=rng.choice([1, 1, 2]),
                mlp_only_layers=[i for i in range(n) if rng.random() < 0.2])
    save_text(folder, tiny.qwen3_next(**text), rng, seed, rng.choice(["apart", "v5"]))


FAMILIES = {name: (write, draw_gemma_case) for name, write in {
    "qwen3_moe": write_moe, "mixtral": write_mixtral, "olmoe": write_olmoe, "granitemoe": write_granitemoe,
    "granitemoeshared": write_granitemoeshared, "glm4_moe": write_glm4_moe, "deepseek_v3": write_deepseek_v3,
    "deepseek_v2": write_deepseek_v2, "qwen3_5_text": write_qwen3_5_text, "qwen3_5_moe_text": write_qwen3_5_moe_text,
    "qwen3_next": write_qwen3_next}.items()}
