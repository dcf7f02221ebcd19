"""What the families of draw_cases.py share: weights in a folder, sizes of decoders and towers, pictures and conversations."""
import os
import random
import shutil

import numpy as np
from PIL import Image

import make_model_goldens as goldens
import make_tiny_models as tiny

WORDS = ["owl", "What is this?", "and", " two\n\nlines", "it\n", "was it there: ", "\n\nmouse"]


def write_weights(folder, config, seed, style="v5", experts="v5"):
    """In any of three types, and now and then in two files."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    tiny.write_json(folder, "config.json", config)
    tensors = tiny.draw(tiny.tensor_shapes(config), seed, config.get("tie_word_embeddings", True))
    tensors = tiny.part_experts(tensors, experts)
    rng = random.Random(seed)
    dtype = rng.choice(["f32", "f16", "bf16"])
    tiny.save(folder, {tiny.rename(k, style): tiny.stored(k, v, dtype) for k, v in tensors.items()}, rng.random() < 0.2)


def draw_rope(rng, theta):
    kind = rng.choice(["default", "default", "linear", "linear", "yarn", "llama3"])
    rope = {"rope_type": kind, "rope_theta": theta}
    if kind != "default":
        rope["factor"] = rng.choice([2.0, 3.5, 8.0])
    if kind == "llama3":
        rope.update(low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
    if kind == "yarn":
        rope["original_max_position_embeddings"] = 128
    return rope


def save_text(folder, config, rng, seed, experts="v5"):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    shutil.copy(os.path.join(goldens.FOLDER, "tokenizer.json"), folder)
    tiny.write_json(folder, "config.json", config)
    tensors = tiny.draw(tiny.tensor_shapes(config), seed, config["tie_word_embeddings"])
    tensors = tiny.part_experts(tensors, experts)
    dtype = rng.choice(["f32", "f16", "bf16"])
    tiny.save(folder, {k: tiny.stored(k, v, dtype) for k, v in tensors.items()}, rng.random() < 0.2)


def draw_text_sizes(rng, head_dims):
    heads, head_dim = rng.choice([(1, 1), (4, 2), (3, 1), (2, 2), (4, 4), (6, 2), (8, 1), (5, 5)]), rng.choice(head_dims)
    return dict(hidden_size=heads[0] * head_dim, num_attention_heads=heads[0], num_key_value_heads=heads[1],
                num_hidden_layers=rng.randint(1, 4), intermediate_size=rng.randint(1, 40), tie_word_embeddings=rng.random() < 0.3,
                rms_norm_eps=rng.choice([1e-6, 1e-5, 1e-3]), max_position_embeddings=rng.choice([256, 512, 4096]))


def draw_experts(rng, count):
    n = rng.choice([2, 3, 5, 8, 16, 33, 64])
    return {count: n, "num_experts_per_tok": rng.randint(1, min(8, n))}


def draw_tower(rng, kind, least):
    heads, patch = rng.choice([1, 2, 3]), rng.randint(2, 6)
    return kind(image_size=patch * rng.randint(least, 7) + rng.randrange(patch), patch_size=patch, hidden_size=heads * rng.choice([4, 8]),
                num_attention_heads=heads, num_hidden_layers=rng.randint(1, 3), intermediate_size=rng.randint(5, 40))


def draw_small_sizes(rng):
    heads = rng.choice([(1, 1), (4, 2), (3, 1), (2, 2)])
    return {"hidden_size": heads[0] * rng.choice([6, 8, 12]), "num_attention_heads": heads[0], "num_key_value_heads": heads[1],
            "intermediate_size": rng.randint(3, 50), "num_hidden_layers": rng.randint(1, 3)}


def draw_small_text(rng, kind):
    return kind(**draw_small_sizes(rng), tie_word_embeddings=rng.random() < 0.4, rope_theta=rng.choice([300.0, 1e4, 1e6]))


def is_wider(picture, ratio):
    with Image.open(os.path.join(goldens.FOLDER, picture)) as p:
        return max(p.size) > ratio * min(p.size)


def draw_llava_case(formats, most_ratio=1e9):
    """Without a system text; pictures stand before a turn's text where the format puts them there. Of LLaVA-OneVision's kind none that
    is much longer than wide: of its tiles no row may be left once padding is cut away, which is refused by name."""
    def draw(rng, folder, k):
        case = draw_case(rng, folder, k)
        while any(is_wider(p["image"], most_ratio) for m in case["messages"] for p in m["parts"] if "image" in p):
            case = draw_case(rng, folder, k)
        case["messages"] = [m for m in case["messages"] if m["role"] != "system"]
        few_texts = all(sum("text" in p for p in m["parts"]) == 1 for m in case["messages"])
        case["chat_format"] = rng.choice(formats) if few_texts else "plain"
        return case
    return draw


def draw_next_case(rng, folder, k):
    """Pictures alone: what a video is to LLaVA-NeXT transformers does not say. None that is so narrow that no row of its tiles is left."""
    case = draw_llava_case(["plain"], 2.9)(rng, folder, k)
    for m in case["messages"]:
        m["parts"] = [{"image": draw_picture(rng, folder, f"{k}_still", (31, 40))} if "frames" in p else p for p in m["parts"]]
    return case


def draw_gemma_case(rng, folder, k):
    words = [rng.choice(["owl ", "the", " and", "\n", "\n\n", "  ", "What is this?", "12", "\u00e9", "(x)"]) for _ in range(rng.randint(1, 150))]
    return {"name": f"case {k}", "text": "".join(words)}


def draw_gemma3_case(rng, folder, k):
    """No system text before pictures alone: the template puts it into the question."""
    case = draw_case(rng, folder, k)
    for m in case["messages"]:
        m["parts"] = [{"image": p["frames"][0]} if "frames" in p else p for p in m["parts"]]
    return case if rng.random() < 0.85 else draw_gemma_case(rng, folder, k)


def draw_side(rng):
    return int(2 ** rng.uniform(0, 9)) if rng.random() < 0.8 else rng.choice([1, 2, 3, 1500])


def draw_picture(rng, folder, n, size=None):
    w, h = size or (draw_side(rng), draw_side(rng))
    g = np.random.default_rng(rng.randrange(1 << 30))
    path = os.path.join(folder, f"picture{n}.png")
    Image.fromarray(g.integers(0, 256, (h, w, 3), dtype=np.uint8)).save(path, compress_level=0)
    return os.path.relpath(path, goldens.FOLDER)


def draw_case(rng, folder, k):
    """Videos of a conversation have one number of frames: transformers says the largest of each."""
    parts, n_frames = [], rng.randint(1, 5)
    for i in range(rng.randint(1, 4)):
        what = rng.random()
        if what < 0.45:
            parts.append({"image": draw_picture(rng, folder, f"{k}_{i}")})
        elif what < 0.6:
            size = draw_side(rng), draw_side(rng)
            frames = [draw_picture(rng, folder, f"{k}_{i}_{j}", size) for j in range(n_frames)]
            parts.append({"frames": frames})
        else:
            parts.append({"text": rng.choice(WORDS)})
    turns = [{"role": "user", "parts": parts}]
    if rng.random() < 0.3:
        turns += [{"role": "assistant", "parts": [{"text": "owls."}]},
                  {"role": "user", "parts": [{"text": rng.choice(WORDS[:4])}]}]
    if rng.random() < 0.2:
        turns.insert(0, {"role": "system", "parts": [{"text": "Be short."}]})
    return {"name": f"case {k}", "messages": turns, "chat_format": None}
