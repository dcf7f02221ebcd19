"""Qwen2-VL, Qwen2.5-VL, Qwen3-VL and Qwen3.5 for draw_cases.py."""
import os
import shutil

import make_model_goldens as goldens
import make_tiny_models as tiny
from draw_experts import draw_hybrid_moe_text, draw_hybrid_text
from draw_parts import draw_llava_case, write_weights


def write_qwen3_5_moe(folder, rng, seed):
    write_qwen3_5(folder, rng, seed, draw_hybrid_moe_text(rng), rng.choice(["apart", "v5"]))


def write_qwen3_5(folder, rng, seed, text=None, experts="v5"):
    """Bounds that some pictures are under and some over."""
    heads, patch, merge = rng.choice([1, 2, 3]), rng.randint(2, 7), rng.choice([1, 2, 2, 3])
    text = text or draw_hybrid_text(rng)
    config = tiny.qwen3_5({"depth": rng.randint(1, 3), "hidden_size": heads * rng.choice([4, 8, 12]), "num_heads": heads, "patch_size": patch,
                           "intermediate_size": rng.choice([3, 20, 60]), "num_position_embeddings": rng.randint(1, 9) ** 2,
                           "spatial_merge_size": merge}, text)
    write_weights(folder, config, seed, experts=experts)
    shutil.copy(os.path.join(goldens.FOLDER, "tokenizer.json"), folder)
    square = (merge * patch) ** 2
    common = {"patch_size": patch, "merge_size": merge, "temporal_patch_size": 2, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    for name, kind in (("preprocessor_config.json", {"image_processor_type": "Qwen2VLImageProcessor"}),
                       ("video_preprocessor_config.json", {"video_processor_type": "Qwen3VLVideoProcessor"})):
        tiny.write_json(folder, name, {**kind, **common, "size": draw_bounds(rng, square)})


def draw_bounds(rng, square):
    low = square * rng.randint(1, 20)
    return {"shortest_edge": low, "longest_edge": low + square * rng.randint(1, 60)}


def draw_qwen_text(rng):
    """Sizes of a decoder, and sections of its heads' pairs."""
    heads, kv = rng.choice([(1, 1), (4, 2), (3, 1), (4, 4), (6, 2)])
    dim = rng.choice([6, 8, 12, 16])
    first = rng.randint(0, dim // 2)
    second = rng.randint(0, dim // 2 - first)
    return {"hidden_size": heads * dim, "num_attention_heads": heads, "num_key_value_heads": kv, "num_hidden_layers": rng.randint(1, 3),
            "intermediate_size": rng.randint(3, 50)}, dim, [first, second, dim // 2 - first - second]


def draw_old_tower(rng, version, width):
    """Of Qwen2-VL and Qwen2.5-VL: with windows that patches fill and do not."""
    heads, patch, merge = rng.choice([1, 2, 3]), rng.randint(2, 7), rng.choice([1, 2, 2, 3])
    vision = {"depth": rng.randint(1, 4), "num_heads": heads, "patch_size": patch, "spatial_merge_size": merge,
              "temporal_patch_size": rng.choice([2, 1, 3, 4])}
    inner = heads * rng.choice([4, 8, 12])
    if version == 2:
        return {**vision, "embed_dim": inner, "hidden_size": width, "mlp_ratio": rng.randint(1, 4)}
    full = rng.sample(range(vision["depth"]), rng.randint(0, vision["depth"]))
    return {**vision, "hidden_size": inner, "out_hidden_size": width, "intermediate_size": rng.choice([3, 20, 60]),
            "window_size": patch * merge * rng.randint(1, 5) + rng.randrange(patch), "fullatt_block_indexes": sorted(full),
            "tokens_per_second": rng.choice([1, 2, 3, 4, 25])}


def write_old_qwen_vl(version):
    def write(folder, rng, seed):
        text, _, sections = draw_qwen_text(rng)
        tied, flat, theta = rng.random() < 0.4, rng.random() < 0.5, rng.choice([300.0, 20000.0, 1e6])
        vision = draw_old_tower(rng, version, text["hidden_size"])
        config = tiny.qwen_vl(version, vision, flat=flat, tie_word_embeddings=tied)
        if flat:
            config.update(text, rope_theta=theta, rope_scaling={"type": "mrope", "mrope_section": sections})
        else:
            config["text_config"].update(text, tie_word_embeddings=tied, rope_parameters={
                "rope_type": "default", "mrope_section": sections, "rope_theta": theta})
        write_weights(folder, config, seed, rng.choice(["v5", "qwen old"]))
        write_grid_files(folder, vision, rng, "Qwen2VLVideoProcessor" if rng.random() < 0.7 else None)
    return write


def write_grid_files(folder, vision, rng, videos):
    """Bounds that some pictures are under and some over, by either of their names; videos without a file of their own by the pictures'."""
    shutil.copy(os.path.join(goldens.FOLDER, "tokenizer.json"), folder)
    patch, merge = vision["patch_size"], vision["spatial_merge_size"]
    common = {"patch_size": patch, "merge_size": merge, "temporal_patch_size": vision["temporal_patch_size"], "image_mean": [0.5, 0.4, 0.3],
              "image_std": [0.2, 0.3, 0.25], "resample": rng.choice([3, 3, 2])}
    for name, kind in (("preprocessor_config.json", {"image_processor_type": "Qwen2VLImageProcessor"}),
                       ("video_preprocessor_config.json", {"video_processor_type": videos})):
        bounds = draw_bounds(rng, (merge * patch) ** 2)
        size = {"size": bounds}
        if rng.random() < 0.5 and videos != "Qwen3VLVideoProcessor":
            size = {"min_pixels": bounds["shortest_edge"], "max_pixels": bounds["longest_edge"]}
        if videos or "image_processor_type" in kind:
            tiny.write_json(folder, name, {**kind, **common, **size})


def write_qwen3_vl(folder, rng, seed, more=None, experts="v5"):
    text, dim, sections = draw_qwen_text(rng)
    heads, patch, merge, depth = rng.choice([1, 2, 3]), rng.randint(2, 7), rng.choice([1, 2, 2, 3]), rng.randint(1, 4)
    deep = rng.sample(range(depth), rng.randint(0, min(depth, text["num_hidden_layers"])))
    vision = {"depth": depth, "hidden_size": heads * rng.choice([4, 8, 12]), "num_heads": heads, "intermediate_size": rng.choice([3, 20, 60]),
              "patch_size": patch, "spatial_merge_size": merge, "temporal_patch_size": rng.choice([2, 3, 4]), "out_hidden_size": text["hidden_size"],
              "num_position_embeddings": rng.randint(1, 9) ** 2, "deepstack_visual_indexes": sorted(deep), "in_channels": 3,
              "hidden_act": rng.choice(["gelu_pytorch_tanh", "gelu_pytorch_tanh", "gelu", "silu"])}
    rope = {"rope_type": "default", "mrope_section": sections, "mrope_interleaved": True}
    theta = rng.choice([300.0, 20000.0, 5e6])
    spelled = rng.choice([{"rope_scaling": rope, "rope_theta": theta}, {"rope_parameters": {**rope, "rope_theta": theta}}])
    config = tiny.qwen_vl(3, vision, **text, head_dim=dim, tie_word_embeddings=rng.random() < 0.4, **spelled, **(more or {}))
    config["text_config"]["attention_bias"] = rng.random() < 0.3
    write_weights(folder, config, seed, experts=experts)
    write_grid_files(folder, vision, rng, "Qwen3VLVideoProcessor")


def write_qwen3_vl_moe(folder, rng, seed):
    n = rng.choice([2, 3, 5, 8, 16, 33])
    write_qwen3_vl(folder, rng, seed, {
        "num_experts": n, "num_experts_per_tok": rng.randint(1, min(8, n)), "moe_intermediate_size": rng.randint(1, 33),
        "decoder_sparse_step": rng.choice([1, 1, 2]), "mlp_only_layers": rng.choice([[], [], [0], [1]])}, "turned")


def draw_grid_case(rng, folder, k):
    """Some with what follows a video numbered by the grid."""
    case = draw_llava_case(["plain"], 100)(rng, folder, k)
    return {**case, "positions": "grid"} if rng.random() < 0.3 and any("frames" in p for m in case["messages"] for p in m["parts"]) else case


def draw_marked_case(rng, folder, k):
    """Some with tokens of vision around pictures and videos, and those of videos kept."""
    case = draw_llava_case(["plain", goldens.MARKS], 100)(rng, folder, k)
    return {**case, "keep_video_marks": True} if case["chat_format"] == goldens.MARKS and rng.random() < 0.4 else case


FAMILIES = {"qwen2_vl": (write_old_qwen_vl(2), draw_grid_case), "qwen2_5_vl": (write_old_qwen_vl(2.5), draw_grid_case),
            "qwen3_vl": (write_qwen3_vl, draw_marked_case), "qwen3_vl_moe": (write_qwen3_vl_moe, draw_marked_case),
            "qwen3_5": (write_qwen3_5, draw_llava_case(["plain"], 100)),
            "qwen3_5_moe": (write_qwen3_5_moe, draw_llava_case(["plain"], 100))}
