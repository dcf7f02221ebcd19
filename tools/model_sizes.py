#!/usr/bin/env python3
"""How large published models are, and what memory they take: the table of sizes in docs/models.md.

    tools/model_sizes.py [--command build/release/saccade] [--work DIR] [NAME...]

MODELS below has what the published config.json of each says, where that is not its class's default. Two folders are written for each,
with that config but for few layers of the language model, and weights that are a table of names, shapes and types (bf16), as transformers'
class has them, and a hole in the place of numbers. `saccade inspect DIR --ctx 8192` counts parameters, bytes of weights, and keys and values
of both; what the layers between them take, the missing ones take too. Q4_K_M is the rule of llama.cpp (models/rounding/scheme.c)
over the matrices of the language model, the tower and the rest in 16 bits. Parameters must be those that model pages show (PUBLISHED).
--round has `inspect --weights q4_k_m` count both folders too, which must be the rule's bytes to the last. Needs torch and transformers 5."""
import argparse
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "golden", "models")



def text(hidden, layers, heads, kv, ff, vocab, tied=False, **more):
    return dict(hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv, intermediate_size=ff, vocab_size=vocab,
                tie_word_embeddings=tied, **more)


CLIP_L = dict(hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16, image_size=336, patch_size=14, projection_dim=768)
SIGLIP_L = dict(hidden_size=1152, intermediate_size=4304, num_hidden_layers=26, num_attention_heads=16, image_size=384, patch_size=14)
SIGLIP_B = dict(hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12, image_size=512, patch_size=16)
SIGLIP_896 = {**SIGLIP_L, "num_hidden_layers": 27, "image_size": 896}
INTERN_300M = dict(hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16, image_size=[448, 448], patch_size=[14, 14],
                   attention_bias=True, norm_type="layer_norm", use_qk_norm=False)
QWEN3_VL_L = dict(depth=27, hidden_size=1152, num_heads=16, intermediate_size=4304, patch_size=16, num_position_embeddings=2304, deepstack_visual_indexes=[8, 16, 24])
QWEN3_VL_M = dict(depth=24, hidden_size=1024, num_heads=16, intermediate_size=4096, patch_size=16, num_position_embeddings=2304, deepstack_visual_indexes=[5, 11, 17])


def rope(section, theta, **more):
    return dict(rope_parameters=dict(rope_type="default", mrope_section=section, rope_theta=theta, **more))


CHUNKS, WOVEN = rope([16, 24, 24], 1e6), rope([24, 20, 20], 5e6, mrope_interleaved=True)


def qwen2_vl(golden, hidden, *sizes, tied, ff_vision=None):
    vision = dict(depth=32, embed_dim=1280, hidden_size=hidden, num_heads=16, mlp_ratio=4, patch_size=14) if golden == "qwen2_vl" else dict(
        depth=32, hidden_size=1280, out_hidden_size=hidden, num_heads=16, intermediate_size=ff_vision, patch_size=14, window_size=112,
        fullatt_block_indexes=[7, 15, 23, 31])
    return golden, dict(vision_config=vision, text_config=dict(text(hidden, *sizes, tied), **CHUNKS), tie_word_embeddings=tied)


def qwen3_vl(vision, hidden, *sizes, tied, golden="qwen3_vl", **more):
    return golden, dict(vision_config=dict(vision, out_hidden_size=hidden), tie_word_embeddings=tied,
                        text_config=dict(text(hidden, *sizes, tied), head_dim=128, **WOVEN, **more))


def two_halves(golden, vision, language, tied=False, **more):
    return golden, dict(vision_config=vision, text_config=dict(language, tie_word_embeddings=tied), tie_word_embeddings=tied, **more)


GEMMA = dict(head_dim=256, sliding_window=1024, query_pre_attn_scalar=256)
# name: golden folder that has its files, and what is published. Of "published" parameters, to the digits that model pages show, see the check below
MODELS = {
    "Qwen/Qwen2-VL-2B-Instruct": qwen2_vl("qwen2_vl", 1536, 28, 12, 2, 8960, 151936, tied=True),
    "Qwen/Qwen2-VL-7B-Instruct": qwen2_vl("qwen2_vl", 3584, 28, 28, 4, 18944, 152064, tied=False),
    "Qwen/Qwen2.5-VL-3B-Instruct": qwen2_vl("qwen2_5_vl", 2048, 36, 16, 2, 11008, 151936, tied=True, ff_vision=3420),
    "Qwen/Qwen2.5-VL-7B-Instruct": qwen2_vl("qwen2_5_vl", 3584, 28, 28, 4, 18944, 152064, tied=False, ff_vision=3420),
    "Qwen/Qwen3-VL-2B-Instruct": qwen3_vl(QWEN3_VL_M, 2048, 28, 16, 8, 6144, 151936, tied=True),
    "Qwen/Qwen3-VL-4B-Instruct": qwen3_vl(QWEN3_VL_M, 2560, 36, 32, 8, 9728, 151936, tied=True),
    "Qwen/Qwen3-VL-8B-Instruct": qwen3_vl(QWEN3_VL_L, 4096, 36, 32, 8, 12288, 151936, tied=False),
    "Qwen/Qwen3-VL-32B-Instruct": qwen3_vl(QWEN3_VL_L, 5120, 64, 64, 8, 25600, 151936, tied=False),
    "Qwen/Qwen3-VL-30B-A3B-Instruct": qwen3_vl(QWEN3_VL_L, 2048, 48, 32, 4, 6144, 151936, tied=False, golden="qwen3_vl_moe", num_experts=128, num_experts_per_tok=8,
                                               moe_intermediate_size=768, decoder_sparse_step=1, mlp_only_layers=[]),
    "llava-hf/llava-1.5-7b-hf": two_halves("llava", CLIP_L, text(4096, 32, 32, 32, 11008, 32064, max_position_embeddings=4096)),
    "llava-hf/llava-1.5-13b-hf": two_halves("llava", CLIP_L, text(5120, 40, 40, 40, 13824, 32064, max_position_embeddings=4096)),
    "llava-hf/llava-v1.6-mistral-7b-hf": two_halves("llava_next_mistral", CLIP_L, text(4096, 32, 32, 8, 14336, 32064, max_position_embeddings=32768)),
    "llava-hf/LLaVA-NeXT-Video-7B-hf": two_halves("llava_next_video", CLIP_L, text(4096, 32, 32, 32, 11008, 32064, max_position_embeddings=4096)),
    "llava-hf/llava-onevision-qwen2-0.5b-ov-hf": two_halves("llava_onevision", SIGLIP_L, text(896, 24, 14, 2, 4864, 152000), tied=True),
    "llava-hf/llava-onevision-qwen2-7b-ov-hf": two_halves("llava_onevision", SIGLIP_L, text(3584, 28, 28, 4, 18944, 152128)),
    "OpenGVLab/InternVL3-1B-hf": two_halves("internvl", INTERN_300M, text(896, 24, 14, 2, 4864, 151674)),
    "OpenGVLab/InternVL3-2B-hf": two_halves("internvl", INTERN_300M, text(1536, 28, 12, 2, 8960, 151674)),
    "OpenGVLab/InternVL3-8B-hf": two_halves("internvl", INTERN_300M, text(3584, 28, 28, 4, 18944, 151674)),
    "HuggingFaceTB/SmolVLM2-256M-Video-Instruct": two_halves("smolvlm", SIGLIP_B, text(576, 30, 9, 3, 1536, 49280, head_dim=64), scale_factor=4),
    "HuggingFaceTB/SmolVLM2-500M-Video-Instruct": two_halves("smolvlm", SIGLIP_B, text(960, 32, 15, 5, 2560, 49280, head_dim=64), scale_factor=4),
    "HuggingFaceTB/SmolVLM2-2.2B-Instruct": two_halves("smolvlm", {**SIGLIP_L, "num_hidden_layers": 27}, text(2048, 24, 32, 32, 8192, 49280, head_dim=64), scale_factor=3),
    "google/gemma-3-4b-it": two_halves("gemma3", SIGLIP_896, text(2560, 34, 8, 4, 10240, 262208, **GEMMA), tied=True),
    "google/gemma-3-12b-it": two_halves("gemma3", SIGLIP_896, text(3840, 48, 16, 8, 15360, 262208, **GEMMA), tied=True),
    "google/gemma-3-27b-it": two_halves("gemma3", SIGLIP_896, text(5376, 62, 32, 16, 21504, 262208, head_dim=128, sliding_window=1024, query_pre_attn_scalar=168), tied=True),
    "mistral-community/pixtral-12b": two_halves("pixtral", dict(hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16, image_size=1024, patch_size=16, head_dim=64),
                                                text(5120, 40, 32, 8, 14336, 131072, head_dim=128)),
    "mistralai/Mistral-Small-3.1-24B-Instruct-2503": two_halves("mistral3", dict(hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16, image_size=1540, patch_size=14, head_dim=64),
                                                                text(5120, 40, 32, 8, 32768, 131072, head_dim=128), spatial_merge_size=2),
    "zai-org/GLM-4.1V-9B-Thinking": two_halves("glm4v", dict(depth=24, hidden_size=1536, num_heads=12, patch_size=14, out_hidden_size=4096, intermediate_size=13696, image_size=336),
                                               text(4096, 40, 32, 2, 13696, 151552)),
}
# As their model pages have it, in billions; other towers, heads or tables would not give them.
PUBLISHED = {"Qwen/Qwen2-VL-2B-Instruct": 2.21, "Qwen/Qwen2-VL-7B-Instruct": 8.29, "Qwen/Qwen2.5-VL-3B-Instruct": 3.75, "Qwen/Qwen2.5-VL-7B-Instruct": 8.29,
             "Qwen/Qwen3-VL-4B-Instruct": 4.44, "Qwen/Qwen3-VL-8B-Instruct": 8.77, "Qwen/Qwen3-VL-30B-A3B-Instruct": 31.1,
             "llava-hf/llava-1.5-7b-hf": 7.06, "llava-hf/llava-onevision-qwen2-0.5b-ov-hf": 0.894, "llava-hf/llava-onevision-qwen2-7b-ov-hf": 8.03,
             "OpenGVLab/InternVL3-1B-hf": 0.938, "OpenGVLab/InternVL3-2B-hf": 2.09, "OpenGVLab/InternVL3-8B-hf": 7.94, "HuggingFaceTB/SmolVLM2-256M-Video-Instruct": 0.256,
             "HuggingFaceTB/SmolVLM2-500M-Video-Instruct": 0.507, "HuggingFaceTB/SmolVLM2-2.2B-Instruct": 2.25, "google/gemma-3-4b-it": 4.30, "google/gemma-3-12b-it": 12.2,
             "google/gemma-3-27b-it": 27.4, "mistral-community/pixtral-12b": 12.7, "mistralai/Mistral-Small-3.1-24B-Instruct-2503": 24.0, "zai-org/GLM-4.1V-9B-Thinking": 10.3}
BLOCKS = {"q4_k": (256, 144), "q6_k": (256, 210), "q5_0": (32, 22), "q8_0": (32, 34), "f16": (1, 2)}  # elements, bytes


def write_json(folder, name, content):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        json.dump(content, f, indent=1)


def merged(golden, changes):
    """The golden's config with what is published in the place of its sizes."""
    with open(os.path.join(FOLDER, golden, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    for half, values in changes.items():
        if not isinstance(values, dict):
            config[half] = values
            continue
        inner = config.get(half, config)
        for key in ("head_dim", "sliding_window", "sliding_window_pattern", "query_pre_attn_scalar") + (("rope_scaling", "rope_theta") if "rope_parameters" in values else ()):
            if half == "text_config":
                inner.pop(key, None)
        inner.update(values)
        if half == "text_config" and "mrope_section" in inner.get("rope_scaling", {}):
            n = inner["hidden_size"] // inner["num_attention_heads"] // 2 * inner.get("partial_rotary_factor", 1)
            inner["rope_scaling"]["mrope_section"] = [int(n // 4), int(n // 8 * 3), int(n // 8 * 3)]
    return config


def processors(source, folder, old, new):
    """The golden's other files; what is a multiple of its picture's side or patch becomes the same multiple of the published one."""
    side = [v["vision_config"].get("image_size") for v in (old, new)]
    side = [s[0] if isinstance(s, list) else s for s in side]
    patch = [v["vision_config"].get("patch_size") for v in (old, new)]
    patch = [p[0] if isinstance(p, list) else p for p in patch]

    def change(value, key=None):
        if isinstance(value, dict):
            return {k: change(v, key if key == "patch_size" else k) for k, v in value.items()}
        if isinstance(value, list):
            return [change(v, key) for v in value]
        if key == "patch_size":
            return patch[1]
        if key == "image_seq_length" and old["model_type"] == "gemma3":
            return 256
        if key in ("height", "width", "shortest_edge", "longest_edge", "image_grid_pinpoints", "size", "crop_size") and side[0] and value % side[0] == 0:
            return value // side[0] * side[1]
        return value
    for name in os.listdir(source):
        if name.endswith(".json") and "processor" in name:
            with open(os.path.join(source, name), encoding="utf-8") as f:
                content = change(json.load(f))
            if name.startswith("preprocessor"):
                content = {k: v for k, v in content.items() if k not in ("min_pixels", "max_pixels")}
            write_json(folder, name, content)
        elif "token" in name or name.endswith(".jinja"):
            shutil.copy(os.path.join(source, name), folder)


def with_pinpoints(config, old):
    side = [v["vision_config"].get("image_size") for v in (old, config)]
    if "image_grid_pinpoints" in config:
        config["image_grid_pinpoints"] = [[n // side[0] * side[1] for n in pair] for pair in old["image_grid_pinpoints"]]
    config.pop("mm_tokens_per_image", None)  # Gemma 3's default is what is published
    return config


def write(folder, golden, changes, layers):
    """(names and shapes, config) of a folder with so many layers."""
    changes = {**changes, "text_config": {**changes["text_config"], "num_hidden_layers": layers}}
    source = os.path.join(FOLDER, golden)
    with open(os.path.join(source, "config.json"), encoding="utf-8") as f:
        old = json.load(f)
    config = with_pinpoints(merged(golden, changes), old)
    write_json(folder, "config.json", config)
    processors(source, folder, old, config)
    import make_tiny_models  # which needs more packages than what compares towers
    shapes, table, at = make_tiny_models.tensor_shapes(config), {}, 0
    for name, shape in shapes:
        n = 2
        for d in shape:
            n *= d
        table[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + n]}
        at += n
    head = json.dumps(table).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head)
        f.truncate(8 + len(head) + at)  # a hole
    return shapes, config


def q4_k_bytes(shapes, config):
    """All of it in bf16 but the language model's matrices, by llama.cpp's rule for Q4_K_M. Vectors are as they were."""
    text = config.get("text_config", config)
    n, tied, total = text["num_hidden_layers"], not any("lm_head" in k for k, _ in shapes), 0
    for name, shape in shapes:
        size = 1
        for d in shape:
            size *= d
        layer = re.search(r"layers\.(\d+)\.", name)
        sees = re.search(r"visual|vision|projector|connector|newline", name)
        if sees or len(shape) < 2 or "mlp.gate.weight" in name:
            total += 2 * size
            continue
        layer = int(layer.group(1)) if layer else 0
        more = layer < n // 8 or layer >= 7 * n // 8 or (layer - n // 8) % 3 == 2
        head = "lm_head" in name or (tied and "embed_tokens" in name)
        kind = "q6_k" if head or (more and re.search(r"v_proj|mlp\.(experts\.)?down_proj|mlp\.fc2", name)) else "q4_k"
        if shape[-1] % 256:
            kind = "q8_0" if head else {"q4_k": "q5_0", "q6_k": "q8_0"}[kind]
        if shape[-1] % BLOCKS[kind][0]:
            kind = "f16"
        total += size // BLOCKS[kind][0] * BLOCKS[kind][1]
    return total


def inspect(command, folder, *more):
    """[parameters, bytes of weights, bytes of keys and values]"""
    run = subprocess.run([command, "inspect", folder, "--ctx", "8192", "--json", *more], capture_output=True, text=True, check=False)
    if run.returncode:
        raise ValueError(run.stderr)
    found = json.loads(run.stdout)
    return [found["model"]["parameters"], found["model"]["weight_bytes"], found["memory"]["parts"]["kv cache"]]


def measure(a, name):
    golden, changes = MODELS[name]
    all_layers, period = changes["text_config"]["num_hidden_layers"], 6 if golden == "gemma3" else 1  # every sixth of Gemma's layers is another
    few, found = period * 3 if period == 1 else period, []
    few += (all_layers - few) % period
    for layers in (few, few + period):
        with tempfile.TemporaryDirectory(dir=a.work) as folder:
            shapes, config = write(folder, golden, changes, layers)
            found.append(inspect(a.command, folder))
            if a.round:
                real, rule = inspect(a.command, folder, "--weights", "q4_k_m")[1], q4_k_bytes(shapes, config)
                print(f"{name}, {layers} layers: --weights q4_k_m {real}, the rule {rule}", file=sys.stderr, flush=True)
                if real != rule:
                    raise ValueError("the rule is not what is done")
    config["text_config" if "text_config" in config else "num_hidden_layers"] = (
        {**config["text_config"], "num_hidden_layers": all_layers} if "text_config" in config else all_layers)
    n, size, kv = (x + (y - x) * (all_layers - few) // period for x, y in zip(*found))
    return n, size, kv, q4_k_bytes(all_shapes(shapes, few + period - 1, all_layers), config)


def all_shapes(shapes, last, n):
    """The matrices of the last layer stand for those of the layers that are missing."""
    own = re.compile(rf"^(?!.*(visual|vision)).*layers\.{last}\.")
    more = [(re.sub(rf"layers\.{last}\.", f"layers.{i}.", k), s) for i in range(last + 1, n) for k, s in shapes if own.search(k)]
    return [*shapes, *more]


def gigabytes(n):
    return f"{n / 1e9:.1f} GB" if n >= 1e10 else f"{n / 1e9:.2f} GB"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--command", default=os.path.join(os.path.dirname(os.path.dirname(FOLDER)), "..", "build", "release", "saccade"))
    p.add_argument("--work", help="where folders are written, otherwise a temporary one")
    p.add_argument("--round", action="store_true")
    p.add_argument("names", nargs="*", help="of these alone")
    a = p.parse_args()
    fits = True
    print("| model | parameters | 16 bits | Q4_K_M | keys and values of 8,192 tokens |\n|---|---|---|---|---|")
    for name in a.names or MODELS:
        try:
            n, size, kv, rounded = measure(a, name)
        except ValueError as e:
            fits = False
            print(f"{name}: {e}", file=sys.stderr)
            continue
        print(f"| `{name}` | {n / 1e9:.2f} B | {gigabytes(size)} | {gigabytes(rounded)} | {gigabytes(kv)} |", flush=True)
        if name in PUBLISHED and abs(n / 1e9 - PUBLISHED[name]) > 0.006 * PUBLISHED[name]:
            fits = False
            print(f"{name}: published are {PUBLISHED[name]} B", file=sys.stderr)
    return not fits


if __name__ == "__main__":
    sys.exit(main())
