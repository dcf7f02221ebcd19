"""SmolVLM, Gemma 3, InternVL, Pixtral, Mistral 3, LightOnOCR, MiniCPM-V, Kimi-VL and GLM's models that see for draw_cases.py."""
import os
import shutil

import make_model_goldens as goldens
import make_tiny_models as tiny
from draw_experts import draw_glm_moe_text, draw_hybrid_text, draw_latent_text
from draw_parts import draw_case, draw_gemma3_case, draw_small_sizes, is_wider, write_weights
from draw_text import draw_gemma_text, draw_glm_text, draw_mistral_text


def draw_smolvlm_config(rng, kind):
    patch, scale = rng.randint(2, 7), rng.randint(1, 5)
    side = scale * rng.randint(1, max(1, (14 if rng.random() < 0.7 else 31) // scale))
    tile = patch * side + rng.randrange(patch)
    heads = rng.choice([1, 2, 3])
    config = tiny.smolvlm({"image_size": tile, "patch_size": patch, "num_attention_heads": heads, "hidden_size": heads * rng.choice([4, 8, 12]),
                           "num_hidden_layers": rng.randint(1, 3), "intermediate_size": rng.randint(5, 40)}, kind,
                          scale_factor=scale, tie_word_embeddings=rng.random() < 0.5)
    config["text_config"].update(draw_small_sizes(rng), rope_theta=rng.choice([300.0, 1e4, 1e6]))
    options = {"longest": rng.randint(1, 5 * tile), "splits": rng.random() < 0.75}
    if rng.random() < 0.4:
        options["video"] = rng.randint(1, 3 * tile)
    return config, options


def write_smolvlm(folder, rng, seed, kind="smolvlm"):
    config, options = draw_smolvlm_config(rng, kind)
    write_weights(folder, config, seed)
    tiny.write_smolvlm_files(folder, config, options)
    path = os.path.join(folder, "preprocessor_config.json")
    content = goldens.read_json(path)
    if not config["model_type"] == "idefics3" and rng.random() < 0.3:
        content.pop("video_sampling")
    if rng.random() < 0.15 and "video" not in options:
        content["resample"] = rng.choice([2, 3])
    tiny.write_json(folder, "preprocessor_config.json", content)


def write_idefics3(folder, rng, seed):
    write_smolvlm(folder, rng, seed, "idefics3")


def write_gemma3(folder, rng, seed):
    patch, side, square = rng.randint(2, 6), rng.randint(1, 5), rng.randint(1, 4)
    vision = {"image_size": patch * side * square + rng.randrange(patch), "patch_size": patch,
              "num_attention_heads": rng.choice([1, 2, 3]), "layer_norm_eps": rng.choice([1e-6, 1e-3])}
    tied = rng.random() < 0.6
    config = tiny.gemma3({**draw_gemma_text(rng, "gemma3_text"), "tie_word_embeddings": tied}, vision,
                         mm_tokens_per_image=side * side, tie_word_embeddings=tied)
    options = {"pan": {"do_pan_and_scan": True, "pan_and_scan_min_crop_size": rng.choice([1, 5, 20, 60]),
                       "pan_and_scan_max_num_crops": rng.randint(1, 6),
                       "pan_and_scan_min_ratio_to_activate": rng.choice([0.5, 1.0, 1.2, 1.5, 3.0])}} if rng.random() < 0.6 else {}
    write_weights(folder, config, seed, rng.choice(["v5", "old", "v4.52"]))
    tiny.write_gemma_files(folder, config, options)
    content = goldens.read_json(folder, "preprocessor_config.json")
    content["resample"] = rng.choice([2, 2, 2, 3, 1])
    if rng.random() < 0.2:
        content.pop("resample")
    tiny.write_json(folder, "preprocessor_config.json", content)


def draw_internvl(rng):
    ratio, patch = rng.choice([0.5, 0.5, 0.25, 1.0]), rng.randint(2, 6)
    side = int(1 / ratio) * rng.randint(1, 3)
    sizes = dict(draw_small_sizes(rng), tie_word_embeddings=rng.random() < 0.4)
    moe = {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 12, "mlp_only_layers": [], "decoder_sparse_step": 1}
    text = rng.choice([tiny.qwen2, tiny.qwen2, tiny.qwen3, tiny.llama, tiny.qwen3_moe])
    sizes.update(moe if text is tiny.qwen3_moe else {})
    if text in (tiny.qwen3, tiny.qwen3_moe):
        sizes["head_dim"] = rng.choice([8, 12, 18])
    heads = rng.choice([1, 2, 3])
    vision = {"image_size": patch * side + rng.randrange(patch), "patch_size": patch, "hidden_size": heads * rng.choice([4, 8]),
              "num_attention_heads": heads, "num_hidden_layers": rng.randint(1, 3), "intermediate_size": rng.randint(5, 40),
              "attention_bias": rng.random() < 0.6, "use_qk_norm": rng.random() < 0.4, "norm_type": rng.choice(["layer_norm", "rms_norm"])}
    layer = {} if rng.random() < 0.6 else {"vision_feature_layer": -2}
    return tiny.internvl(text(**sizes), vision, downsample_ratio=ratio, **layer)


def write_internvl(folder, rng, seed, config=None, options=None):
    config = config or draw_internvl(rng)
    shutil.rmtree(folder, ignore_errors=True)
    write_weights(folder, config, seed)
    shutil.copy(os.path.join(goldens.FOLDER, "tokenizer.json"), folder)
    low = rng.randint(1, 3)
    tiny.write_internvl_files(folder, config, {"tiles": [low, rng.randint(low, 12)], "video": rng.random() < 0.5} if options is None else options)


def write_internvl_chat(folder, rng, seed):
    """In transformers' layout in a folder inside, from which the original's is made."""
    twin, config = os.path.join(folder, "twin"), draw_internvl(rng)
    shutil.rmtree(folder, ignore_errors=True)
    write_internvl(twin, rng, seed, config, {})
    tiny.write_internvl_chat(folder, twin, dynamic_image_size=rng.random() < 0.9, use_thumbnail=rng.random() < 0.7,
                             max_dynamic_patch=rng.randint(1, 12))


def draw_pixtral_tower(rng):
    heads, dim, patch = rng.choice([1, 2, 3]), rng.choice([4, 8, 12]), rng.randint(2, 8)
    vision = tiny.pixtral_tower(hidden_size=heads * dim, num_attention_heads=heads, head_dim=dim, num_hidden_layers=rng.randint(1, 3),
                                intermediate_size=rng.randint(1, 40), patch_size=patch, image_size=patch * rng.randint(1, 99))
    theta = rng.choice([100.0, 10000.0])
    vision.update(rng.choice([{}, {"rope_theta": theta}, {"rope_parameters": {"rope_type": "axial", "rope_theta": theta}}]))
    if rng.random() < 0.5:
        vision.pop("rope_theta")
    if rng.random() < 0.5:
        vision.update(hidden_act=rng.choice(["gelu", "quick_gelu", "gelu_pytorch_tanh"]))
    for key in ("head_dim", "hidden_act"):
        if rng.random() < 0.3:
            vision.pop(key)
    return vision


def write_pixtral_kin(folder, rng, seed, config, square):
    longest = rng.randint(1, 6) * square + rng.randrange(3 * square)
    size = {"longest_edge": longest} if rng.random() < 0.7 else {"height": longest, "width": rng.randint(1, 8 * square)}
    processor = {"size": size, "resample": rng.choice([3, 3, 3, 2, 1]), "patch_size": rng.choice([square, {"height": 16, "width": 16}])}
    config.update(projector_hidden_act=rng.choice(["gelu", "gelu", "silu"]), multimodal_projector_bias=rng.random() < 0.5)
    write_weights(folder, config, seed, rng.choice(["v5", "saved by 5"]))
    shutil.copy(os.path.join(goldens.FOLDER, "tokenizer.json"), folder)
    tiny.write_pixtral_files(folder, config, {"longest": longest, "processor": processor})


def write_pixtral(folder, rng, seed):
    text = rng.choice([tiny.llama, tiny.qwen2, None, None])
    text = text(**draw_small_sizes(rng), rope_theta=1e6) if text else draw_mistral_text(rng, "mistral")
    vision = draw_pixtral_tower(rng)
    n = vision["num_hidden_layers"]
    layers = rng.choice([-1, -1, -2, [-1, 0], [n, -1 - n, 1]])  # 0 alone fails in transformers
    write_pixtral_kin(folder, rng, seed, tiny.pixtral(text, vision, vision_feature_layer=layers), vision["patch_size"])


def write_mistral3(folder, rng, seed):
    vision, merge = draw_pixtral_tower(rng), rng.choice([1, 2, 2, 2, 3, 4])
    text = draw_mistral_text(rng, rng.choice(["mistral", "ministral", "ministral3"]))
    config = tiny.mistral3(text, vision, spatial_merge_size=merge, vision_feature_layer=rng.choice([-1, -1, -2, [-1]]))
    write_pixtral_kin(folder, rng, seed, config, vision["patch_size"] * merge)


def write_lighton_ocr(folder, rng, seed):
    vision, merge = draw_pixtral_tower(rng), rng.choice([1, 2, 2, 2, 3, 4])
    square = vision["patch_size"] * merge
    text = tiny.qwen3(**draw_small_sizes(rng), head_dim=rng.choice([6, 8, 12, 24]), attention_bias=rng.random() < 0.3,
                      tie_word_embeddings=rng.random() < 0.6, rope_theta=rng.choice([300.0, 1e4, 1e6]))
    config = tiny.lighton_ocr(text, vision, spatial_merge_size=merge)
    if rng.random() < 0.3:
        config.pop("eos_token_id")
    write_weights(folder, config, seed)
    shutil.copy(os.path.join(goldens.FOLDER, "tokenizer.json"), folder)
    longest = rng.randint(1, 6) * square + rng.randrange(3 * square)
    size = {"longest_edge": longest} if rng.random() < 0.7 else {"height": longest, "width": rng.randint(1, 8 * square)}
    tiny.write_lighton_files(folder, config, {"longest": longest, "processor": {
        "size": size, "resample": rng.choice([3, 3, 3, 2, 1]), "patch_size": rng.choice([square, {"height": square, "width": square}])}})


def draw_glm_tower(rng):
    heads, patch = rng.choice([1, 2, 3]), rng.randint(2, 7)
    vision = {"depth": rng.randint(1, 3), "hidden_size": heads * rng.choice([4, 8, 12]), "num_heads": heads, "patch_size": patch,
              "intermediate_size": rng.choice([3, 20, 60]), "image_size": patch * rng.randint(1, 12) + rng.randrange(patch),
              "attention_bias": rng.random() < 0.4, "rms_norm_eps": rng.choice([1e-5, 1e-3])}
    return vision, patch


def write_glm4v(folder, rng, seed, kind="glm4v"):
    vision, patch = draw_glm_tower(rng)
    config = tiny.glm4v(vision, kind, **draw_glm_text(rng, True))
    if rng.random() < 0.2 and "partial_rotary_factor" in config["text_config"]:
        config["text_config"].pop("partial_rotary_factor")  # none: all channels turn
        pairs = config["text_config"]["hidden_size"] // config["text_config"]["num_attention_heads"] // 2
        config["text_config"]["rope_scaling"]["mrope_section"] = [pairs - 2, 1, 1]
    finish_glm4v(folder, config, rng, seed, patch)


def write_glm46v(folder, rng, seed):
    write_glm4v(folder, rng, seed, "glm46v")


def write_glm4v_moe(folder, rng, seed):
    vision, patch = draw_glm_tower(rng)
    finish_glm4v(folder, tiny.glm4v(vision, "glm4v_moe", **draw_glm_moe_text(rng, True)), rng, seed, patch, rng.choice(["apart", "v5"]))


def write_glm_ocr(folder, rng, seed):
    vision, patch = draw_glm_tower(rng)
    text = draw_glm_text(rng, True)
    if rng.random() < 0.7:  # heads as wide as they say
        heads = text["num_attention_heads"]
        text.update(head_dim=text["hidden_size"] // heads, hidden_size=rng.choice([8, 12, 20, 36]))
    vision["attention_bias"] = rng.random() < 0.7
    finish_glm4v(folder, tiny.glm4v(vision, "glm_ocr", **text), rng, seed, patch)


def write_paddleocr_vl(folder, rng, seed):
    """Bounds that some pictures are under and some over, by either of their names."""
    heads, patch, merge, dim = rng.choice([1, 2, 3]), rng.randint(2, 7), rng.choice([1, 2, 2, 3]), rng.choice([6, 8, 12, 16])
    first = rng.randint(0, dim // 2)
    second = rng.randint(0, dim // 2 - first)
    vision = {"num_hidden_layers": rng.randint(1, 3), "hidden_size": heads * rng.choice([4, 8, 12]), "num_attention_heads": heads,
              "patch_size": patch, "intermediate_size": rng.choice([3, 20, 60]), "image_size": patch * rng.randint(1, 9) + rng.randrange(patch),
              "spatial_merge_size": merge, "layer_norm_eps": rng.choice([1e-6, 1e-3]),
              "hidden_act": rng.choice(["gelu_pytorch_tanh", "gelu_pytorch_tanh", "gelu"])}
    config = tiny.paddleocr_vl(vision, rng.random() < 0.6, **draw_small_sizes(rng), head_dim=dim, tie_word_embeddings=rng.random() < 0.4,
                               rope_theta=rng.choice([300.0, 10000.0, 500000.0]), rope_scaling={
                                   "mrope_section": [first, second, dim // 2 - first - second], "rope_type": "default", "type": "default"})
    write_weights(folder, config, seed, rng.choice(["v5", "paddle old"]))
    shutil.copy(os.path.join(goldens.FOLDER, "tokenizer.json"), folder)
    square = (merge * patch) ** 2
    low = square * rng.randint(1, 20)
    high = low + square * rng.randint(1, 60)
    size = {} if rng.random() < 0.5 else {"min_pixels": None, "max_pixels": None, "size": {"shortest_edge": low, "longest_edge": high}}
    tiny.write_paddle_files(folder, config, {"pixels": [low, high], "processor": {"resample": rng.choice([3, 3, 2]), **size}})


def finish_glm4v(folder, config, rng, seed, patch, experts="v5"):
    """Bounds that some pictures are under and some over."""
    write_weights(folder, config, seed, experts=experts)
    tiny.write_glm_files(folder, config, {"glm46v": rng.random() < 0.5})
    square = (2 * patch) ** 2 * 2
    for name in ("preprocessor_config.json", "video_preprocessor_config.json"):
        content, low = goldens.read_json(folder, name), square * rng.randint(1, 20)
        content["size"] = {"shortest_edge": low, "longest_edge": low + square * rng.randint(1, 60)}
        tiny.write_json(folder, name, content)


def write_kimi_vl(folder, rng, seed):
    """Bounds that some pictures are under and some over."""
    heads, table = rng.choice([1, 2, 3]), rng.randint(1, 9)
    vision = {"num_hidden_layers": rng.randint(1, 3), "hidden_size": heads * rng.choice([4, 8, 12]), "num_attention_heads": heads,
              "patch_size": rng.randint(2, 7), "intermediate_size": rng.choice([3, 20, 60]), "init_pos_emb_height": table,
              "init_pos_emb_width": table}
    config = tiny.kimi_vl(vision, **draw_latent_text(rng, 3))
    write_weights(folder, config, seed, experts=rng.choice(["apart", "v5"]))
    tiny.write_kimi_files(folder, config, {"limit": rng.choice([1, 8, 40, 400, 4096])})


def write_minicpmv4_6(folder, rng, seed):
    """Sizes of slices that some pictures are larger than, with as many of these as a prompt of a case has room for."""
    heads, patch, mode = rng.choice([1, 2, 3]), rng.randint(2, 5), rng.choice(["16x", "16x", "4x"])
    layers = rng.randint(1, 3)
    vision = {"hidden_size": heads * rng.choice([4, 8]), "num_attention_heads": heads, "num_hidden_layers": layers, "patch_size": patch,
              "intermediate_size": rng.randint(3, 20), "image_size": patch * rng.randint(1, 35) + rng.randrange(patch),
              "layer_norm_eps": rng.choice([1e-6, 1e-3]), "hidden_act": rng.choice(["gelu_pytorch_tanh", "gelu_pytorch_tanh", "gelu"])}
    modes = {"downsample_mode": mode} if mode == "4x" or rng.random() < 0.5 else {}
    config = tiny.minicpmv(vision, draw_hybrid_text(rng), insert_layer_id=rng.randrange(layers), **modes)
    write_weights(folder, config, seed)
    unit = patch * (2 if mode == "4x" else 4)
    slices = lambda: {k: v for k, v in {"max_slice_nums": rng.randint(1, 12), "slice_mode": rng.random() < 0.8}.items() if rng.random() < 0.8}
    options = {"scale": unit * rng.randint(1, 4) + rng.randrange(unit), "pictures": {**slices(), "resample": rng.choice([3, 3, 2, 1])}}
    options["pictures"]["use_image_id"] = rng.random() < 0.8
    if rng.random() < 0.7:
        options["frames"] = {**slices(), "resample": options["pictures"]["resample"]}
    tiny.write_minicpmv_files(folder, config, options)


def draw_slices_case(rng, folder, k):
    """None that is longer than 200 times its width, which is refused by name."""
    case = draw_case(rng, folder, k)
    while any(is_wider(f, 200) for f in goldens.pictures_of(case)):
        case = draw_case(rng, folder, k)
    return case


FAMILIES = {"smolvlm": (write_smolvlm, draw_case), "idefics3": (write_idefics3, draw_case), "gemma3": (write_gemma3, draw_gemma3_case), "internvl": (write_internvl, draw_case),
            "internvl_chat": (write_internvl_chat, draw_case), "llava_pixtral": (write_pixtral, draw_case),
            "mistral3": (write_mistral3, draw_case), "lighton_ocr": (write_lighton_ocr, draw_case), "glm4v": (write_glm4v, draw_case), "glm46v": (write_glm46v, draw_case), "glm_ocr": (write_glm_ocr, draw_case), "paddleocr_vl": (write_paddleocr_vl, draw_slices_case),
            "glm4v_moe": (write_glm4v_moe, draw_case), "minicpmv4_6": (write_minicpmv4_6, draw_slices_case), "kimi_vl": (write_kimi_vl, draw_case)}
