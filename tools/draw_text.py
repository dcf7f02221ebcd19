"""Dense language models for draw_cases.py."""
import os
import shutil

import make_model_goldens as goldens
import make_tiny_models as tiny
from draw_parts import draw_gemma_case, draw_rope, draw_text_sizes, save_text, write_weights


def draw_gemma_ropes(rng):
    """As transformers 4 and as transformers 5 spells them, with keys left out."""
    full, sliding = rng.choice([300.0, 20000.0, 1e6]), rng.choice([50.0, 1e4])
    if rng.random() < 0.5:
        keys = {"rope_theta": full, "rope_local_base_freq": sliding, "rope_scaling": rng.choice([None, {"rope_type": "linear", "factor": 8.0}])}
        return {k: v for k, v in keys.items() if rng.random() < 0.8}
    both = {"full_attention": draw_rope(rng, full), "sliding_attention": draw_rope(rng, sliding)}
    if rng.random() < 0.2:
        both.pop("sliding_attention")
        return {"rope_parameters": both, "rope_local_base_freq": sliding}
    return {"rope_parameters": both}


def draw_gemma_text(rng, kind):
    """No window of 1: transformers then keeps all rows of its cache, [-0:], for steps."""
    heads = rng.choice([1, 2, 3, 4])
    n, window = rng.randint(1, 6), rng.choice([2, 3, 5, 9, 17, 40, 200])
    keys = {"num_hidden_layers": n, "num_attention_heads": heads, "num_key_value_heads": rng.choice([k for k in (1, 2, 3, 4) if heads % k == 0]),
            "head_dim": rng.choice([6, 8, 12, 16, 24]), "sliding_window": window, "query_pre_attn_scalar": rng.choice([4, 10, 16, 100]),
            "hidden_activation": rng.choice(["gelu_pytorch_tanh", "gelu_pytorch_tanh", "gelu", "silu"]),
            "attention_bias": rng.random() < 0.3}
    if rng.random() < 0.5:
        keys["layer_types"] = [rng.choice(["full_attention", "sliding_attention"]) for _ in range(n)]
    if kind == "gemma2":
        caps = {"attn_logit_softcapping": rng.choice([None, 1.0, 3.0]), "final_logit_softcapping": rng.choice([None, 2.0, 10.0])}
        return {**keys, **{k: v for k, v in caps.items() if rng.random() < 0.8},
                **rng.choice([{}, {"rope_theta": 300.0}, {"rope_parameters": draw_rope(rng, 500.0)}])}
    if rng.random() < 0.7:
        keys["sliding_window_pattern"] = rng.randint(1, 6)
    return {**keys, **draw_gemma_ropes(rng)}


def write_gemma(kind):
    def write(folder, rng, seed):
        config = tiny.gemma_text(kind, "Gemma2ForCausalLM" if kind == "gemma2" else "Gemma3ForCausalLM", **draw_gemma_text(rng, kind))
        config["tie_word_embeddings"] = rng.random() < 0.6
        if kind != "gemma2" and rng.random() < 0.4:
            config["final_logit_softcapping"] = 3.0
        write_weights(folder, config, seed)
        tiny.write_gemma_files(folder, config, {})
    return write


def write_phi3(folder, rng, seed):
    """Borders of LongRoPE before, within and behind prompts and answers; a window of 1 is left out as above."""
    head_dim, partial = rng.choice([(8, 1.0), (16, 1.0), (16, 0.75), (16, 0.5), (24, 0.25), (12, 1.0), (32, 0.4)])
    n, keys = int(head_dim * partial) // 2, draw_text_sizes(rng, [head_dim])
    rope = {rng.choice(["type", "rope_type"]): rng.choice(["longrope", "longrope", "su"]),
            "short_factor": [round(rng.uniform(0.9, 2), 3) for _ in range(n)], "long_factor": [round(rng.uniform(1, 40), 2) for _ in range(n)]}
    if "su" in rope.values():  # transformers then asks for the key here, and goes by the one beside it
        rope["original_max_position_embeddings"] = 7
    rope.update({k: v for k, v in {"factor": rng.choice([0.5, 1.0, 4.0]), "attention_factor": rng.choice([0.8, 1.3])}.items() if rng.random() < 0.2})
    more = {"sliding_window": rng.choice([None, 2, 9, 40, 262144]), "rope_theta": rng.choice([300.0, 10000.0, 250000.0]), "embd_pdrop": 0.1, "resid_pdrop": 0.1,
            "original_max_position_embeddings": int(2 ** rng.uniform(1, 8.5))}
    keys.update({k: v for k, v in more.items() if rng.random() < 0.85})
    if rng.random() < 0.85:
        keys["rope_scaling"] = rope
    if partial != 1:
        keys["partial_rotary_factor"] = partial
    save_text(folder, tiny.text_config("phi3", "Phi3ForCausalLM", pad_token_id=0, **keys), rng, seed)


def draw_mistral_text(rng, kind):
    """No window of 1, as in draw_gemma_text; without a window transformers' Ministral fails."""
    heads = rng.choice([(1, 1), (4, 2), (3, 1), (4, 4)])
    keys = dict(hidden_size=heads[0] * rng.choice([6, 8, 10]), num_attention_heads=heads[0], num_key_value_heads=heads[1],
                num_hidden_layers=rng.randint(1, 3), intermediate_size=rng.randint(1, 40), head_dim=rng.choice([6, 8, 12, 24]),
                tie_word_embeddings=rng.random() < 0.4)
    if kind == "ministral3":
        config = tiny.ministral3(**keys, **rng.choice([{}, {"sliding_window": rng.choice([3, 17, None])}]))
        rope = config["rope_parameters"]
        rope.update(factor=rng.choice([2.0, 16.0]), rope_theta=rng.choice([300.0, 1e6]), llama_4_scaling_beta=rng.choice([0.1, 0.0]))
        rope.pop(rng.choice(["mscale", "beta_slow", "type_"]), None)
        return config
    keys.update(rope_parameters=draw_rope(rng, rng.choice([300.0, 20000.0, 1e9])), sliding_window=rng.choice([3, 17, 200, None] if kind == "mistral" else [3, 17, 200]))
    if kind == "mistral":
        return tiny.mistral(**keys)
    if rng.random() < 0.7:
        keys["layer_types"] = [rng.choice(["full_attention", "sliding_attention"]) for _ in range(keys["num_hidden_layers"])]
    return tiny.text_config("ministral", "MinistralForCausalLM", rms_norm_eps=1e-5, max_position_embeddings=512, **keys)


def write_ministral(kind):
    def write(folder, rng, seed):
        write_weights(folder, draw_mistral_text(rng, kind), seed)
        shutil.copy(os.path.join(goldens.FOLDER, "tokenizer.json"), folder)
    return write


def draw_glm_text(rng, axes):
    """Sizes of a decoder; half the pairs of a head that turn, or as many as the rope says, are those of `axes`."""
    heads, kv = rng.choice([(1, 1), (4, 2), (3, 1), (4, 4), (6, 2)])
    dim, partial = rng.choice([8, 16, 24]), rng.choice([0.5, 0.5, 0.25, 1.0])
    rope = draw_rope(rng, rng.choice([300.0, 10000.0, 1e6]))
    if axes:
        pairs = int(dim * partial) // 2
        first = rng.randint(0, pairs)
        second = rng.randint(0, pairs - first)
        rope["mrope_section"] = [first, second, pairs - first - second]
    keys = dict(hidden_size=heads * dim, num_attention_heads=heads, num_key_value_heads=kv, num_hidden_layers=rng.randint(1, 3),
                intermediate_size=rng.randint(3, 50), rms_norm_eps=rng.choice([1.5625e-7, 1e-5, 1e-3]),
                tie_word_embeddings=rng.random() < 0.3)
    if rng.random() < 0.5:
        return {**keys, "rope_parameters": {**rope, "partial_rotary_factor": partial}}
    return {**keys, "partial_rotary_factor": partial, "rope_scaling": {k: v for k, v in rope.items() if k != "rope_theta"},
            "rope_theta": rope["rope_theta"]}


def write_glm4(folder, rng, seed):
    keys = draw_glm_text(rng, False)
    if rng.random() < 0.3:
        keys["head_dim"] = rng.choice([8, 24])
    else:
        keys["head_dim"] = keys["hidden_size"] // keys["num_attention_heads"]
    config = tiny.glm4(**keys, attention_bias=rng.random() < 0.7)
    write_weights(folder, config, seed)
    shutil.copy(os.path.join(goldens.FOLDER, "tokenizer.json"), folder)


PLAIN = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM",
         "olmo2": "Olmo2ForCausalLM", "granite": "GraniteForCausalLM", "smollm3": "SmolLM3ForCausalLM"}


def draw_spelled_rope(rng):
    """As transformers 4 and as transformers 5 spells it; a factor that grows with the prompt where its context is short."""
    rope = draw_rope(rng, rng.choice([300.0, 20000.0, 1e6]))
    keys = {}
    if rng.random() < 0.15:
        rope = {"rope_type": "dynamic", "rope_theta": rope["rope_theta"], "factor": rng.choice([2.0, 4.0])}
        keys["max_position_embeddings"] = rng.choice([16, 48, 512])
    if rng.random() < 0.5:
        return {**keys, "rope_parameters": rope}
    scaling = {k: v for k, v in rope.items() if k != "rope_theta"}
    return {**keys, "rope_theta": rope["rope_theta"], "rope_scaling": None if scaling["rope_type"] == "default" else scaling}


def draw_sliding(rng, kind, n_layers):
    """No window of 1, as in draw_gemma_text."""
    window = rng.choice([2, 3, 9, 17, 40, 200])
    if kind == "mistral":
        return {"sliding_window": rng.choice([window, None])}
    if kind not in ("qwen2", "qwen3", "smollm3") or rng.random() < 0.4:
        return {}
    keys = {"use_sliding_window": True, "sliding_window": window}
    if rng.random() < 0.4:
        keys["layer_types"] = [rng.choice(["full_attention", "sliding_attention"]) for _ in range(n_layers)]
    elif kind != "smollm3":
        keys["max_window_layers"] = rng.randint(0, n_layers)
    return keys


def write_plain(kind):
    def write(folder, rng, seed):
        keys = {**draw_text_sizes(rng, [6, 8, 12, 16]), **draw_spelled_rope(rng)}
        keys.update(draw_sliding(rng, kind, keys["num_hidden_layers"]))
        if kind in ("llama", "mistral", "qwen3") and rng.random() < 0.6 or kind == "qwen3":
            keys["head_dim"] = rng.choice([8, 12, 18, 24])
        if kind in ("llama", "qwen3", "olmo2", "granite", "smollm3"):
            keys["attention_bias"] = rng.random() < 0.4
        if kind == "smollm3":
            n = keys["num_hidden_layers"]
            keys.update(rng.choice([{"no_rope_layers": [rng.randint(0, 1) for _ in range(n)]}, {"no_rope_layer_interval": rng.randint(1, 4)}]))
        if kind == "granite":
            keys.update({k: rng.choice([1.0, round(rng.uniform(0.3, 3), 3)]) for k in ("embedding_multiplier", "residual_multiplier", "logits_scaling")},
                        attention_multiplier=rng.choice([0.5, 0.125, 1.0]))
        save_text(folder, tiny.text_config(kind, PLAIN[kind], pad_token_id=0, **keys), rng, seed)
    return write


FAMILIES = {name: (write, draw_gemma_case) for name, write in {
    **{kind: write_plain(kind) for kind in PLAIN}, **{kind: write_gemma(kind) for kind in ("gemma2", "gemma3_text")},
    **{kind: write_ministral(kind) for kind in ("ministral", "ministral3")}, "phi3": write_phi3, "glm4": write_glm4}.items()}
