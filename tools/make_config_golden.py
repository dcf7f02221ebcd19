#!/usr/bin/env python3
"""Golden of configurations: what transformers computes for tests/golden/models under changed config files.

    tools/make_config_golden.py                   # writes tests/golden/config_cases.json
    tools/make_config_golden.py --seed 2 --out F  # other cases, to try once: SACCADE_CONFIG_CASES=F test_config_cases
    tools/make_config_golden.py --only internvl --n 1000 --out F   # of one of the families in LATER

Needs torch, transformers 5, tokenizers, safetensors, pillow. A case is one to three changes that leave the
shapes of all tensors as they are, so that no weights are added to the tree:

    base      folder beside tests/golden/models/index.json
    files     {file: changes}, merged into the file's objects; "-" takes a key away
    image     picture of the prompt "What do you see in it?", or null: a text
    refused   the key whose name the refusal must hold, where the runtime is to refuse what transformers takes
    n         tokens of the prompt
    largest   the largest logit of its last token
    logits    every 18th of them
"""
import argparse
import copy
import json
import os
import random
import shutil
import tempfile

import make_model_goldens as goldens

N_CASES, N_KIN = 200, 60
TEXT = "Three owls sat on the wire; two of them saw 47 mice."
ROPE = [
    {"rope_type": "linear", "factor": 2.0}, {"type": "linear", "factor": 3.5},
    {"rope_type": "dynamic", "factor": 2.0}, {"rope_type": "default"},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
    {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64, "beta_fast": 16, "beta_slow": 2},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "attention_factor": 1.25},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "mscale": 0.7, "mscale_all_dim": 0.4},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "truncate": False},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
     "original_max_position_embeddings": 16},
    {"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 1.5, "high_freq_factor": 3.0,
     "original_max_position_embeddings": 64},
]
# key: values
QUIET = {"use_cache": [False], "attention_dropout": [0.3], "initializer_range": [0.5], "pretraining_tp": [2],
         "output_attentions": [False], "torch_dtype": ["float16"], "transformers_version": ["4.1.0"],
         "bos_token_id": [3], "pad_token_id": [5], "id2label": [{"0": "a", "1": "b"}], "problem_type": [None],
         "chunk_size_feed_forward": [0], "return_dict": [True], "is_decoder": [True],
         "tokenizer_class": ["LlamaTokenizer"]}
TEXT_KEYS = {"rms_norm_eps": [1e-3, 1e-2, "-"], "rope_theta": [100.0, 500000.0, "-"],
             "max_position_embeddings": [64, 2048, "-"],
             "rope_scaling": ROPE, "rope_parameters": [dict(r, rope_theta=2000.0) for r in ROPE],
             "hidden_act": ["silu", "swish"], "num_hidden_layers": [1], "eos_token_id": [[3, 4], "-"],
             "tie_word_embeddings": [False], "is_causal": [True]}
REFUSED = {"hidden_act": ["gelu", "relu", "gelu_new"], "is_causal": [False], "partial_rotary_factor": [0.5]}
FAMILY = {"llama": {"mlp_bias": [False], "attention_bias": [False]},
          "mistral": {"sliding_window": [None, 3, 9, 4096, "-"],
                      "layer_types": [["full_attention"] * 2, ["sliding_attention"] * 2]},
          "qwen2": {"use_sliding_window": [True, False], "sliding_window": [5, 12, None],
                    "max_window_layers": [0, 2, 28]}}
HEADS = {"llama_f32": [], "mistral": [{"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 12},
                                      {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 48}],
         "qwen2": [{"num_attention_heads": 14, "num_key_value_heads": 2, "head_dim": 4}],
         "llava": [{"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 4},
                   {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}]}
VISION_KEYS = {"layer_norm_eps": [1e-3, 1e-2, "-"],
               "hidden_act": ["gelu", "quick_gelu", "gelu_new", "silu", "gelu_pytorch_tanh"],
               "num_attention_heads": [2, 4, 6], "attention_dropout": [0.2], "projection_dim": [7],
               "initializer_factor": [3.0]}
LLAVA_KEYS = {"vision_feature_layer": [-1, -2, -3, 0, 1, 2, 3, "-"],
              "projector_hidden_act": ["gelu", "silu", "gelu_new", "quick_gelu"],
              "image_aspect_ratio": ["pad", "anyres"], "image_seq_length": [7], "ignore_index": [-100],
              "mm_vision_select_feature": ["cls_patch"], "tie_word_embeddings": [False]}
PROCESSOR_KEYS = {"image_mean": [[0.5, 0.5, 0.5], [0.1, 0.4, 0.9]], "image_std": [[0.5, 0.5, 0.5], [1.0, 0.2, 0.3]],
                  "resample": [2, 3, 1], "do_normalize": [False], "do_rescale": [False], "rescale_factor": [0.001],
                  "do_convert_rgb": [True]}
CLIP_KEYS = {"size": [{"shortest_edge": 25}, {"shortest_edge": 44}, {"height": 30, "width": 30},
                      {"height": 33, "width": 41}, 36]}
# Families that came later, drawn behind the others so that those stay as they are: {base: {part: {key: values}}}
NO_ROPE = {k: v for k, v in TEXT_KEYS.items() if not k.startswith("rope_")}
QWEN_ROPE = {"rope_parameters": [dict(r, rope_theta=2000.0) for r in ROPE if "rope_type" in r] + [{"rope_theta": 300.0}]}
PIXELS = {"min_pixels": [500, 1500], "max_pixels": [1600, 4000, 9000], "size": [{"shortest_edge": 700, "longest_edge": 3000}]}
QWEN_VISION = {"hidden_act": ["gelu", "quick_gelu", "gelu_pytorch_tanh", "silu"], "initializer_range": [0.5]}
QWEN_TOP = {"tie_word_embeddings": [False], "vision_start_token_id": [283], "vision_end_token_id": [283]}
SIGLIP_VISION = {"layer_norm_eps": [1e-3, 1e-2, "-"], "hidden_act": ["gelu", "quick_gelu", "silu", "gelu_pytorch_tanh"],
                 "num_attention_heads": [1, 2, 4, 6], "attention_dropout": [0.2], "vision_use_head": [False]}
ONE_VISION = {"vision_feature_layer": [-1, -2, 0, 1, 2, "-"], "projector_hidden_act": ["gelu", "silu", "quick_gelu"],
              "vision_aspect_ratio": [f"anyres_max_{n}" for n in (1, 2, 3, 4, 9)] + ["-"], "image_seq_length": [7],
              "image_grid_pinpoints": [[[28, 56], [56, 28]], [[28, 28]], [[56, 56], [28, 84], [84, 28]]]}
KIN = {
    "qwen3": {"text": {**TEXT_KEYS, **FAMILY["qwen2"], "attention_bias": [False]}},
    "qwen2_vl": {"text": {**NO_ROPE, **FAMILY["qwen2"], "rope_theta": [300.0, "-"]}, "vision": QWEN_VISION, "top": QWEN_TOP,
                 "processor": {**PROCESSOR_KEYS, **PIXELS}},
    "qwen3_vl": {"text": {**NO_ROPE, **QWEN_ROPE, "attention_bias": [False]},
                 "vision": {**QWEN_VISION, "num_heads": [1, 2, 6], "deepstack_visual_indexes": [[0, 1], [1, 3], [2, 3], [0, 3]]},
                 "top": QWEN_TOP, "processor": {**PROCESSOR_KEYS, **PIXELS}},
    "llava_onevision": {"text": {**TEXT_KEYS, **FAMILY["qwen2"]}, "vision": SIGLIP_VISION, "top": ONE_VISION,
                        "processor": {**PROCESSOR_KEYS, "image_grid_pinpoints": ONE_VISION["image_grid_pinpoints"]}},
    "llava_siglip": {"text": {**TEXT_KEYS, **FAMILY["qwen2"]}, "vision": SIGLIP_VISION,
                     "top": {"vision_feature_layer": [-1, -2, 0, 1], "projector_hidden_act": ["gelu", "silu"]},
                     "processor": PROCESSOR_KEYS},
}
# Families since then, each drawn by itself, behind all others.
INTERN_VL = {"text": {**TEXT_KEYS, **FAMILY["qwen2"]},
             "vision": {"layer_norm_eps": [1e-3, 1e-2, "-"], "hidden_act": ["gelu", "silu", "gelu_pytorch_tanh"],
                        "num_attention_heads": [1, 2, 4], "attention_dropout": [0.2], "layer_scale_init_value": [0.5],
                        "use_mask_token": [False], "hidden_dropout_prob": [0.1], "projection_dropout": [0.3], "num_hidden_layers": [1]},
             "top": {"vision_feature_layer": [-1, -2, -3, 0, 1, 2, "-"], "projector_hidden_act": ["gelu", "silu", "quick_gelu"],
                     "image_seq_length": [7], "tie_word_embeddings": [False, "-"]},
             "processor": {**PROCESSOR_KEYS, "min_patches": [1, 2, 5, "-"], "max_patches": [1, 2, 3, 6, 11, 20, "-"],
                           "crop_to_patches": [True, False], "do_pad": [True]}}
GEMMA_TEXT = {**{k: v for k, v in TEXT_KEYS.items() if not k.startswith("rope") and k not in ("hidden_act", "num_hidden_layers", "tie_word_embeddings")},
              "hidden_activation": ["gelu", "gelu_pytorch_tanh", "silu", "-"], "hidden_act": ["silu", "gelu"],
              "query_pre_attn_scalar": [7, 64, "-"], "sliding_window": [2, 6, 30, "-"], "attention_bias": [False],
              "use_bidirectional_attention": [False], "cache_implementation": ["hybrid"]}
GEMMA3_TEXT = {**GEMMA_TEXT, "sliding_window_pattern": [1, 2, 5, "-"], "rope_local_base_freq": [40.0, "-"],
               "rope_scaling": [None, {"rope_type": "linear", "factor": 4.0}, {"rope_type": "default"}, {"factor": 3.0, "type": "linear"}],
               "rope_theta": [300.0, "-"],
               "rope_parameters": [{"full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 90.0}},
                                   {"sliding_attention": {"rope_type": "default", "rope_theta": 90.0}},
                                   {"full_attention": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
                                    "sliding_attention": {"rope_type": "linear", "factor": 3.0}}]}
GEMMA = {"gemma2": {"text": {**GEMMA_TEXT, "attn_logit_softcapping": [None, 1.0, "-"], "final_logit_softcapping": [None, 2.0, "-"],
                             "layer_types": [["full_attention"] * 3, ["full_attention", "full_attention", "sliding_attention"]],
                             "rope_theta": [300.0], "rope_parameters": [dict(r, rope_theta=2000.0) for r in ROPE if "rope_type" in r]}},
         "gemma3_text": {"text": {**GEMMA3_TEXT, "final_logit_softcapping": [None, 2.0, "-"],
                                  "layer_types": [["full_attention", "sliding_attention", "sliding_attention", "full_attention"]]}},
         "gemma3": {"text": GEMMA3_TEXT, "vision": SIGLIP_VISION, "top": {"boi_token_index": [3], "eoi_token_index": [3]},
                    "processor": {**PROCESSOR_KEYS, "pan_and_scan_min_crop_size": [10]}}}
PLAIN_TEXT = {k: v for k, v in TEXT_KEYS.items() if k not in ("tie_word_embeddings", "num_hidden_layers")}
KIN_OF_LLAMA = {
    "granite": {"text": {**PLAIN_TEXT, "attention_bias": [False], "mlp_bias": [False], "embedding_multiplier": [3.0, "-"],
                         "attention_multiplier": [0.1, "-"], "residual_multiplier": [0.3, "-"], "logits_scaling": [4.0, "-"]}},
    "olmo2": {"text": {**PLAIN_TEXT, "attention_bias": [False]}},
    "smollm3": {"text": {**PLAIN_TEXT, "attention_bias": [False], "no_rope_layers": [[1, 1], [0, 0], [1, 0], "-"], "no_rope_layer_interval": [1, 2],
                         "use_sliding_window": [True, False], "sliding_window": [3, 9, None],
                         "layer_types": [["full_attention"] * 2]}}}
HALF_ROPE = [dict(r, rope_theta=2000.0, partial_rotary_factor=0.5) for r in ROPE if "rope_type" in r]
GLM_TEXT = {k: v for k, v in PLAIN_TEXT.items() if not k.startswith("rope_")}
ROUTED = {"num_experts_per_tok": [1, 2, "-"], "routed_scaling_factor": [0.4, 3.0, "-"], "norm_topk_prob": [True, False, "-"],
          "output_router_logits": [True], "num_nextn_predict_layers": [3], "attention_dropout": [0.5]}
GLM = {"glm4_moe": {"text": {**GLM_TEXT, **ROUTED, "rope_theta": [300.0, "-"], "partial_rotary_factor": [1.0, 0.34, "-"], "topk_group": [2, 3],
                             "rope_parameters": HALF_ROPE}},
       "glm4": {"text": {**GLM_TEXT, "rope_theta": [300.0, "-"], "partial_rotary_factor": [1.0, 0.34, "-"], "rope_parameters": HALF_ROPE}},
       "glm4v": {"text": {**GLM_TEXT, "rope_theta": [300.0, "-"], "attention_bias": [True],
                          "rope_scaling": [{"rope_type": "default", "mrope_section": s} for s in ([0, 1, 1], [2, 0, 0], [1, 0, 1])]},
                 "vision": {"rms_norm_eps": [1e-3, 1e-2], "num_heads": [1, 2, 6], "attention_dropout": [0.2], "initializer_range": [0.5]},
                 "top": {"tie_word_embeddings": [False], "image_start_token_id": [3], "video_end_token_id": [3]},
                 "processor": {**PROCESSOR_KEYS, "size": [{"shortest_edge": 700, "longest_edge": 1800}, {"longest_edge": 9000},
                                                          {"shortest_edge": 4000}]}}}
LONG_ROPE = {"type": "longrope", "short_factor": [1.0, 1.5, 2.0, 2.5, 3.0, 4.0], "long_factor": [2.0, 3.0, 5.0, 7.0, 11.0, 13.0]}
EXPERT_TEXT = {**PLAIN_TEXT, "output_router_logits": [True], "router_aux_loss_coef": [0.5], "num_experts_per_tok": [1, 2, 3, "-"]}
KIN_OF_LLAMA.update({
    "phi3_long": {"text": {**{k: v for k, v in PLAIN_TEXT.items() if not k.startswith("rope") and k != "head_dim"}, "embd_pdrop": [0.5],
                           "resid_pdrop": [0.5], "sliding_window": [None, 3, 50, "-"], "original_max_position_embeddings": [1, 20, 4096, "-"],
                           "rope_theta": [300.0, "-"], "rope_scaling": [
                               None, {"type": "default"}, {**LONG_ROPE, "type": "su"}, {**LONG_ROPE, "rope_type": "longrope", "factor": 3.0},
                               {**LONG_ROPE, "attention_factor": 1.5}, {**LONG_ROPE, "original_max_position_embeddings": 7}]}},
    "mixtral": {"text": {**EXPERT_TEXT, "sliding_window": [2, 5, None, "-"], "router_jitter_noise": [0.1]}},
    "olmoe": {"text": {**EXPERT_TEXT, "attention_bias": [False], "norm_topk_prob": [True, False, "-"]}},
    "granitemoe": {"text": {**EXPERT_TEXT, **{k: v for k, v in KIN_OF_LLAMA["granite"]["text"].items() if k not in PLAIN_TEXT and k != "mlp_bias"}}}})
LATER = {**GEMMA, **GLM, **KIN_OF_LLAMA, "internvl": INTERN_VL,
         "internvl_rms": {"text": {k: v for k, v in INTERN_VL["text"].items() if k != "tie_word_embeddings"},
                          "vision": INTERN_VL["vision"], "top": {**INTERN_VL["top"], "tie_word_embeddings": ["-"]},
                          "processor": {k: v for k, v in INTERN_VL["processor"].items() if k not in PROCESSOR_KEYS}}}
N_LATER = 15
BASES = {"llama_f32": "llama", "mistral": "mistral", "qwen2": "qwen2", "llava": "llama", "llava_qwen2": "qwen2",
         "llava_next": "llama"}


def one_change(rng, base, family):
    """(file, path of the key, its changes, refused)."""
    vision = base.startswith("llava")
    place = rng.choice(["text", "text", "vision", "llava", "processor"] if vision else ["text"])
    text = ("text_config",) if vision else ()
    half = {"text": text, "vision": ("vision_config",)}.get(place, ())
    file = "preprocessor_config.json" if place == "processor" else "config.json"
    if place == "text" and HEADS.get(base) and rng.random() < 0.15:
        return file, half, rng.choice(HEADS[base]), None
    if place == "text" and rng.random() < 0.08:
        key = rng.choice(sorted(REFUSED))
        return file, half, {key: rng.choice(REFUSED[key])}, key
    keys = {"text": {**TEXT_KEYS, **FAMILY[family]}, "vision": VISION_KEYS, "llava": LLAVA_KEYS,
            "processor": {**PROCESSOR_KEYS, **({} if base == "llava_next" else CLIP_KEYS)}}[place]
    if place in ("text", "vision") and rng.random() < 0.12:
        keys = QUIET
    key = rng.choice(sorted(keys))
    return file, half, {key: rng.choice(keys[key])}, None


def merge(into, changes):
    for key, value in changes.items():
        if value == "-":
            into.pop(key, None)
        elif isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = copy.deepcopy(value)


def draw(rng):
    base = rng.choice(sorted(BASES))
    files, refused = {}, None
    for _ in range(rng.randint(1, 3)):
        file, half, change, refuses = one_change(rng, base, BASES[base])
        if refused and refuses:
            continue  # which of two is named is the runtime's choice
        for name in reversed(half):
            change = {name: change}
        deep_set(files.setdefault(file, {}), change)
        refused = refused or refuses
    if refused and not mentions(files, refused):
        refused = None
    image = rng.choice(["wide.png", "tall.png", "square.png"]) if base.startswith("llava") else None
    return {"base": base, "files": files, "image": image, "refused": refused}


def draw_kin(rng, base=None):
    base = base or rng.choice(sorted(KIN))
    parts = KIN.get(base) or LATER[base]
    files = {}
    for _ in range(rng.randint(1, 3)):
        part = rng.choice(sorted(parts))
        key = rng.choice(sorted(parts[part]))
        change = {key: rng.choice(parts[part][key])}
        half = {"text": "text_config", "vision": "vision_config"}.get(part)
        if half and half in goldens.read_json(goldens.FOLDER, base, "config.json"):
            change = {half: change}
        deep_set(files.setdefault("preprocessor_config.json" if part == "processor" else "config.json", {}), change)
    image = rng.choice(["wide.png", "tall.png", "square.png", "small.png"]) if len(parts) > 1 else None
    return {"base": base, "files": files, "image": image, "refused": None}


def deep_set(into, change):
    for key, value in change.items():
        if key in ("text_config", "vision_config"):
            deep_set(into.setdefault(key, {}), value)
        else:
            into[key] = value


def mentions(files, key):
    """A later change may have put another value in the place of the one that is refused."""
    text = [v[key] for f in files.values() for v in (f, f.get("text_config", {})) if key in v]
    return any(v in REFUSED[key] for v in text)


def make_folder(case, folder):
    source = os.path.join(goldens.FOLDER, case["base"])
    for name in os.listdir(source):
        shutil.copy(os.path.join(source, name), folder)
    for name, changes in case["files"].items():
        path = os.path.join(folder, name)
        content = goldens.read_json(path)
        merge(content, changes)
        with open(path, "w") as f:
            json.dump(content, f)


def compute(case):
    with tempfile.TemporaryDirectory() as folder:
        make_folder(case, folder)
        model = goldens.open_model(folder)
        prompt = (goldens.chat_case("", goldens.image(case["image"]), goldens.question()) if case["image"] else
                  goldens.text_case("", TEXT))
        ids, _ = model.prompt(prompt)
        logits, _ = model.first(ids, prompt)
        assert logits.isfinite().all()
    case["n"] = len(ids)
    case["largest"] = round(float(logits.abs().max()), 4)
    case["logits"] = [float(f"{float(x):.6g}") for x in logits[::18]]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default=os.path.join(goldens.ROOT, "tests", "golden", "config_cases.json"))
    parser.add_argument("--only", help="a family of LATER")
    parser.add_argument("--n", type=int, default=N_LATER, help="cases of each of those")
    a = parser.parse_args()
    rng, kin, cases, seen, n_failed = random.Random(a.seed), random.Random(a.seed), [], set(), 0
    later = [(base, random.Random(f"{a.seed} {base}")) for base in sorted(LATER) if a.only in (None, base)]
    n_before = 0 if a.only else N_CASES + N_KIN
    while len(cases) < n_before + a.n * len(later):
        behind = (len(cases) - n_before) // a.n
        case = (draw(rng) if len(cases) < min(N_CASES, n_before) else draw_kin(kin) if len(cases) < n_before else
                draw_kin(later[behind][1], later[behind][0]))
        text = json.dumps(case, sort_keys=True)
        if text in seen:
            continue
        seen.add(text)
        try:
            compute(case)
        except Exception as e:  # transformers does not take it: nothing to compare with
            n_failed += 1
            print(f"not taken by transformers: {text}: {type(e).__name__}: {str(e)[:150]}")
            continue
        cases.append(case)
    with open(a.out, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
    n_refused = sum(c["refused"] is not None for c in cases)
    print(f"{len(cases)} cases, {n_refused} to be refused, {n_failed} drawn for nothing")


if __name__ == "__main__":
    main()
