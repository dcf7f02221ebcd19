"""LLaVA's kin for draw_cases.py."""
import os
import shutil

import make_model_goldens as goldens
import make_tiny_models as tiny
from draw_parts import draw_llava_case, draw_next_case, draw_small_text, draw_tower, write_weights


def write_llava_video(folder, rng, seed):
    whole = tiny.llava_onevision(draw_small_text(rng, tiny.qwen2), draw_tower(rng, tiny.siglip, 3),
                                 vision_aspect_ratio=f"anyres_max_{rng.choice([1, 2, 3, 9])}")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    shutil.copy(os.path.join(goldens.FOLDER, "tokenizer.json"), folder)
    keys = {"mm_newline_position": rng.choice(["grid", "grid", "frame", "one_token", "no_token"]),
            "mm_spatial_pool_mode": rng.choice(["bilinear", "bilinear", "average"]), "add_faster_video": False,
            "force_sample": rng.random() < 0.5}
    tensors = tiny.draw(tiny.tensor_shapes(whole), seed, whole["tie_word_embeddings"])
    dtype = tiny.DTYPES[rng.choice(["f32", "f16", "bf16"])]
    tiny.write_flat(folder, whole, {k: v.to(dtype).contiguous() for k, v in tensors.items()}, **keys)


def write_llava_next_video(folder, rng, seed):
    vision = draw_tower(rng, tiny.clip, 1)
    size, side = vision["image_size"], vision["image_size"] // vision["patch_size"]
    layers = vision["num_hidden_layers"]
    config = tiny.llava_next_video(draw_small_text(rng, rng.choice([tiny.llama, tiny.mistral, tiny.qwen2])), vision,
                                   vision_feature_layer=rng.choice([-2, -1, 0, layers, [-1, 0], [-2, -1, 1]]),
                                   multimodal_projector_bias=rng.random() < 0.8,
                                   spatial_pool_stride=rng.choice([2, 2, rng.randint(1, side)]) if side > 1 else 1)
    write_weights(folder, config, seed, rng.choice(["v5", "old", "v4.52", "saved by 5"]))
    shutil.copy(os.path.join(goldens.FOLDER, "tokenizer.json"), folder)
    square = {"height": size, "width": size}
    common = {"crop_size": square, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.25]}
    tiny.write_json(folder, "preprocessor_config.json", {
        "image_processor_type": "LlavaNextImageProcessor", "size": {"shortest_edge": size},
        "image_grid_pinpoints": config["image_grid_pinpoints"], "resample": rng.choice([3, 3, 2, 1]), **common})
    frames = rng.choice([{"size": square, "do_center_crop": False}, {"size": square}, {"size": {"shortest_edge": size}},
                         {"size": {"shortest_edge": rng.randint(1, 2 * size)}}, {"size": {"height": rng.randint(1, 60), "width": size}}])
    filters = {"resample": rng.choice([2, 3])} if rng.random() < 0.5 else {}
    if rng.random() < 0.8:  # else the picture's file is the videos' too
        tiny.write_json(folder, "video_preprocessor_config.json", {
            "video_processor_type": "LlavaNextVideoVideoProcessor", **common, **filters, **frames})


def write_llava_interleave(folder, rng, seed):
    vision = draw_tower(rng, tiny.siglip, 1)
    config = tiny.llava(draw_small_text(rng, tiny.qwen2), vision, vision_feature_layer=rng.choice([-1, -2, 0]),
                        vision_feature_select_strategy="full", projector_hidden_act=rng.choice(["gelu", "gelu", "silu"]))
    write_weights(folder, config, seed, rng.choice(["v5", "old", "v4.52", "saved by 5"]))
    shutil.copy(os.path.join(goldens.FOLDER, "tokenizer.json"), folder)
    tiny.write_squeezing_processor(folder, config, {})


def write_granite_vision(folder, rng, seed):
    """LLaVA-NeXT with SigLIP, features of several layers and Granite, whose factor of embeddings is that of pictures too."""
    vision = draw_tower(rng, tiny.siglip, 2)
    size, layers = vision["image_size"], vision["num_hidden_layers"]
    factors = {k: rng.choice([1.0, round(rng.uniform(0.3, 3), 3)]) for k in ("embedding_multiplier", "residual_multiplier", "logits_scaling")}
    text = draw_small_text(rng, lambda **keys: tiny.text_config("granite", "GraniteForCausalLM", **{
        **keys, "rms_norm_eps": 1e-5, "max_position_embeddings": 2048, "attention_multiplier": rng.choice([0.5, 0.125, 0.33]), **factors}))
    points = [[size * w, size * h] for w in range(1, 5) for h in range(1, 5) if w * h > 1]
    config = tiny.llava_next(text, vision, vision_feature_select_strategy="full", use_image_newline_parameter=True,
                             image_grid_pinpoints=rng.sample(points, rng.randint(1, 6)),
                             vision_feature_layer=rng.choice([-1, [-2, -1], [0, layers], [-1, 0, 1], [-1 - layers, -1]]))
    write_weights(folder, config, seed, rng.choice(["v5", "old", "v4.52", "saved by 5"]))
    shutil.copy(os.path.join(goldens.FOLDER, "tokenizer.json"), folder)
    tiny.write_json(folder, "preprocessor_config.json", {
        "image_processor_type": "LlavaNextImageProcessor", "size": {"shortest_edge": size}, "crop_size": {"height": size, "width": size},
        "image_grid_pinpoints": config["image_grid_pinpoints"], "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": rng.choice([3, 2])})


def write_square_files(folder, config, rng):
    """The processors of CLIP's kind, whose crop is the tower's picture."""
    size = config["vision_config"]["image_size"]
    shutil.copy(os.path.join(goldens.FOLDER, "tokenizer.json"), folder)
    points = {k: config[k] for k in ("image_grid_pinpoints",) if k in config}
    tiny.write_json(folder, "preprocessor_config.json", {
        "image_processor_type": "LlavaNextImageProcessor" if points else "CLIPImageProcessor", "size": {"shortest_edge": size},
        "crop_size": {"height": size, "width": size}, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.25],
        "resample": rng.choice([3, 3, 2, 1]), **points})


def write_llava(folder, rng, seed):
    vision, strategy = draw_tower(rng, tiny.clip, 1), rng.choice(["default", "default", "full"])
    layers = vision["num_hidden_layers"]
    config = tiny.llava(draw_small_text(rng, rng.choice([tiny.llama, tiny.mistral, tiny.qwen2])), vision,
                        vision_feature_layer=rng.choice([-2, -1, 0, layers, [-1, 0], [-2, -1, 1]]), vision_feature_select_strategy=strategy,
                        projector_hidden_act=rng.choice(["gelu", "gelu", "silu"]), multimodal_projector_bias=rng.random() < 0.8)
    write_weights(folder, config, seed, rng.choice(["v5", "old", "v4.52", "saved by 5"]))
    write_square_files(folder, config, rng)


def write_llava_next(folder, rng, seed):
    vision = draw_tower(rng, tiny.clip, 2)
    size, layers = vision["image_size"], vision["num_hidden_layers"]
    points = [[size * w, size * h] for w in range(1, 5) for h in range(1, 5) if w * h > 1]
    config = tiny.llava_next(draw_small_text(rng, rng.choice([tiny.llama, tiny.mistral, tiny.qwen2])), vision,
                             image_grid_pinpoints=rng.sample(points, rng.randint(1, 6)),
                             vision_feature_layer=rng.choice([-2, -1, 0, layers, [-1, 0]]), multimodal_projector_bias=rng.random() < 0.8)
    write_weights(folder, config, seed, rng.choice(["v5", "old", "v4.52", "saved by 5"]))
    write_square_files(folder, config, rng)


def write_llava_onevision(folder, rng, seed):
    config = tiny.llava_onevision(draw_small_text(rng, tiny.qwen2), draw_tower(rng, tiny.siglip, 3),
                                  vision_aspect_ratio=f"anyres_max_{rng.choice([1, 2, 3, 9])}",
                                  projector_hidden_act=rng.choice(["gelu", "gelu", "silu"]), vision_feature_layer=rng.choice([-1, -1, -2]))
    write_weights(folder, config, seed, rng.choice(["v5", "old", "v4.52", "saved by 5"]))
    shutil.copy(os.path.join(goldens.FOLDER, "tokenizer.json"), folder)
    tiny.write_squeezing_processor(folder, config, {"video": rng.random() < 0.7})


def write_longva(folder, rng, seed):
    """Half of them with the tower's weights in a folder of its own."""
    vision = draw_tower(rng, tiny.clip, 2)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    shutil.copy(os.path.join(goldens.FOLDER, "tokenizer.json"), folder)
    size = vision["image_size"]
    points = [[size * w, size * h] for w in range(1, 4) for h in range(1, 4)]
    keys = {"image_grid_pinpoints": rng.sample(points, rng.randint(1, 5)), "mm_hidden_size": vision["hidden_size"],
            "mm_vision_select_layer": rng.choice([-2, -2, -1])}
    tiny.write_longva(folder, seed, rng.choice(["f32", "f16", "bf16"]), rng.choice(["inside", "beside"]), vision, **keys)


FAMILIES = {"llava": (write_llava, draw_llava_case(["plain"])), "llava_next": (write_llava_next, draw_next_case),
            "llava_onevision": (write_llava_onevision, draw_llava_case(["plain"], 2.9)),
            "llava_video": (write_llava_video, draw_llava_case(["plain", "chatml"], 2.9)),
            "llava_interleave": (write_llava_interleave, draw_llava_case(["plain"])),
            "granite_vision": (write_granite_vision, draw_next_case),
            "llava_next_video": (write_llava_next_video, draw_llava_case(["plain", "vicuna"])),
            "longva": (write_longva, draw_llava_case(["plain"]))}
