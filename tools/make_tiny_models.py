#!/usr/bin/env python3
"""Tiny random checkpoints of every family, in odd sizes, with their goldens: tests/golden/models.

    tools/make_tiny_models.py [NAME...]

A checkpoint's weights are drawn so that logits are of a few units, and drawn again with the next seed until no greedy
token on the way is closely tied, so that a comparison of tokens means something. transformers then loads the folder
as it would load a published one (make_model_goldens.py), which also checks names, shapes and configuration.
Needs torch, transformers 5, accelerate, tokenizers, safetensors, gguf, pillow, numpy."""
import json
import math
import os
import shutil
import sys

import numpy as np
import torch
from PIL import Image

import gguf_pack
import kimi_vl as kimi
import llava_video
import make_model_goldens as goldens

FOLDER = goldens.FOLDER
VOCAB = 288
SPECIAL = ["<|endoftext|>", "<image>", "<|im_start|>", "<|im_end|>", "<s>", "</s>", "<|user|>", "<pad>"]
END, IMAGE = VOCAB - 8, VOCAB - 7
MOST_TOKENS = goldens.N_TOKENS
MIN_GAP = 0.004  # by which every greedy token must lead: four times the tolerance
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


# ---------------------------------------------------------------- shared files

def make_tokenizer():
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCAB - len(SPECIAL), initial_alphabet=sorted(alphabet), show_progress=False)
    text = "the owl and the mouse saw that this one was on the wire. Which of them was there? " + goldens.TEXT
    t.train_from_iterator([text] * 4, trainer)
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in SPECIAL])
    assert t.get_vocab_size() == VOCAB and t.token_to_id("<image>") == IMAGE
    return t


def make_pictures():
    """Drawn with few colours: they compress to a kilobyte."""
    sizes = {"wide": (61, 34), "tall": (23, 50), "square": (30, 30), "small": (11, 9), "long": (96, 20)}
    rng = np.random.default_rng(7)
    for name, (w, h) in sizes.items():
        y, x = np.mgrid[0:h, 0:w]
        a = np.stack([(x * 255 // w) & 0xE0, (y * 255 // h) & 0xE0, ((x + y) * 8) & 0xC0], -1).astype(np.uint8)
        for _ in range(4):
            cx, cy, r = rng.integers(0, w), rng.integers(0, h), rng.integers(3, max(4, min(w, h) // 3))
            a[(x - cx) ** 2 + (y - cy) ** 2 < r * r] = rng.integers(0, 4, 3) * 85
        Image.fromarray(a).save(os.path.join(FOLDER, name + ".png"), optimize=True)


def make_frames():
    """Five frames of one size: a square that moves and grows."""
    for i in range(5):
        a = np.zeros((40, 52, 3), np.uint8)
        a[..., 0] = 64
        a[..., 2] = (np.arange(52) * 4 & 0xC0)[None]
        a[4 + 5 * i:12 + 7 * i, 6 + 7 * i:14 + 9 * i] = (255, 255 - 40 * i, 60 * i)
        Image.fromarray(a).save(os.path.join(FOLDER, f"frame{i}.png"), optimize=True)


def write_json(folder, name, content):
    with open(os.path.join(folder, name), "w") as f:
        json.dump(content, f, indent=1)
        f.write("\n")


# ---------------------------------------------------------------- weights

def draw(shapes, seed, tied):
    """A tensor for each (name, shape). Linear weights keep the size of what passes through them; the head makes logits
    of a few units."""
    g = torch.Generator().manual_seed(seed)
    out = {}
    for name, shape in shapes:
        x = torch.randn(shape, generator=g)
        if name.endswith("A_log"):  # heads that forget fast and slowly
            x = x - 1
        elif is_around_one(name, shapes):  # a norm after a part is louder, which drowns the token itself as below
            x = 0.2 * x + (2 if "post_" in name else 0)
        elif "norm" in name or "ln" in name.split(".")[-1]:
            x = 0.2 * x + (1 if name.endswith("weight") else 0)
        elif name.endswith("bias"):
            x = 0.3 * x
        elif "lm_head" in name or (tied and "embed_tokens" in name):
            x = x * 3 / math.sqrt(shape[-1])
        elif "embed" in name or "newline" in name:
            x = 0.5 * x
        elif ".experts." in name:  # all of a layer's in one tensor
            x = x * 1.2 / math.sqrt(shape[-1])
        else:
            # a tied head makes a token predict itself; louder layers drown that
            gain = 3 if tied and name.split(".")[-2] in ("o_proj", "down_proj") else 1.2
            x = x * gain / math.sqrt(np.prod(shape[1:]))
        out[name] = x
    return out


def is_around_one(name, shapes):
    """Gemma's norms, but not its tower's, are kept as what is added to 1; so are Qwen3.5's but those of linear attention."""
    is_gemma = any("pre_feedforward_layernorm" in n for n, _ in shapes)
    is_hybrid = any("linear_attn" in n for n, _ in shapes)
    return ((is_gemma and "vision_tower" not in name) or (is_hybrid and "visual" not in name and "linear_attn" not in name)) and "norm" in name


KEPT_IN_F32 = "e_score_correction_bias"  # by transformers and in published files


def stored(name, x, dtype):
    return x.to(DTYPES["f32" if name.endswith(KEPT_IN_F32) else dtype]).contiguous()


def tensor_shapes(config):
    """Names as transformers 5 holds them, without what is tied."""
    if config["model_type"] == "kimi_vl":
        return kimi_shapes(config)
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText
    config = AutoConfig.for_model(**json.loads(json.dumps(config)))
    cls = AutoModelForImageTextToText if hasattr(config, "vision_config") else AutoModelForCausalLM
    with torch.device("meta"):
        model = cls.from_config(config)
    biases = [(k, v) for k, v in model.named_buffers() if k.endswith(KEPT_IN_F32)]
    return [(k, tuple(v.shape)) for k, v in [*model.named_parameters(), *biases]]


def rename(name, style):
    """From transformers 5's own names to those of published files."""
    if style == "v5":
        return name
    if style == "v4.52" and ".vision_tower." in name:
        return name.replace(".vision_tower.", ".vision_tower.vision_model.")
    if style == "v4.52":
        return name
    if style == "paddle old":
        return name.replace("model.visual.", "visual.").replace("model.projector.", "mlp_AR.").replace("model.language_model.", "model.")
    if style == "qwen old":
        return name.replace("model.visual.", "visual.").replace("model.language_model.", "model.")
    for a, b in (("model.language_model.", "language_model.model."), ("lm_head.", "language_model.lm_head."),
                 ("model.vision_tower.", "vision_tower.vision_model." if style == "old" else "vision_tower."),
                 ("model.multi_modal_projector.", "multi_modal_projector."), ("model.image_newline", "image_newline")):
        if name.startswith(a):
            return b + name[len(a):]
    return name


def part_experts(tensors, style):
    """From transformers 5's tensors of all of a layer's experts to those of published files."""
    out = {}
    mixtral = {"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}
    granite = {"gate_up_proj": "input_linear.weight", "down_proj": "output_linear.weight"}
    for name, x in tensors.items():
        name = name.replace(".mlp.", ".block_sparse_moe.") if style == "mixtral" else name
        name = name.replace(".router.weight", ".router.layer.weight") if style == "granite" else name
        base, _, last = name.rpartition(".experts.")
        if not base or style == "v5":
            out[name] = x
        elif style == "turned":
            out[name] = x.transpose(1, 2)
        elif style == "granite":
            out[f"{base}.{granite[last]}"] = x
        else:
            for e in range(len(x)):
                parts = dict(zip(("gate_proj", "up_proj"), x[e].chunk(2))) if last == "gate_up_proj" else {last: x[e]}
                names = mixtral if style == "mixtral" else {p: p for p in parts}
                out.update({f"{base}.experts.{e}.{names[part]}.weight": matrix for part, matrix in parts.items()})
    return out


def save_file(tensors, path):
    from safetensors.torch import save
    with open(path, "wb") as f:
        f.write(save(tensors, metadata={"format": "pt"}))


def save(folder, tensors, sharded=False):
    if not sharded:
        return save_file(tensors, os.path.join(folder, "model.safetensors"))
    names = sorted(tensors)
    half = len(names) // 2
    shards = {"model-00001-of-00002.safetensors": names[:half], "model-00002-of-00002.safetensors": names[half:]}
    for file, part in shards.items():
        save_file({n: tensors[n] for n in part}, os.path.join(folder, file))
    write_json(folder, "model.safetensors.index.json", {
        "metadata": {"total_size": sum(t.numel() * t.element_size() for t in tensors.values())},
        "weight_map": {n: f for f, part in shards.items() for n in part}})


# ---------------------------------------------------------------- the checkpoints

def text_config(model_type, architecture, **keys):
    return {"architectures": [architecture], "model_type": model_type, "vocab_size": VOCAB, "hidden_act": "silu",
            "bos_token_id": END, "eos_token_id": END, **keys}


def llama(**keys):
    return text_config("llama", "LlamaForCausalLM", rms_norm_eps=1e-5, max_position_embeddings=512, **keys)


def mistral(**keys):
    return text_config("mistral", "MistralForCausalLM", rms_norm_eps=1e-5, max_position_embeddings=512, **keys)


def qwen2(**keys):
    return text_config("qwen2", "Qwen2ForCausalLM", rms_norm_eps=1e-6, max_position_embeddings=512, **keys)


def qwen3(**keys):
    return text_config("qwen3", "Qwen3ForCausalLM", rms_norm_eps=1e-6, max_position_embeddings=512, **keys)


def qwen3_moe(**keys):
    return text_config("qwen3_moe", "Qwen3MoeForCausalLM", rms_norm_eps=1e-6, max_position_embeddings=512, **keys)


def glm4(**keys):
    return text_config("glm4", "Glm4ForCausalLM", max_position_embeddings=512, pad_token_id=END,
                       **{"rms_norm_eps": 1.5625e-7, **keys})


def glm4_moe(**keys):
    return text_config("glm4_moe", "Glm4MoeForCausalLM", pad_token_id=END, **{"rms_norm_eps": 1e-5, "max_position_embeddings": 512, **keys})


def deepseek(version, **keys):
    return text_config(f"deepseek_v{version}", f"DeepseekV{version}ForCausalLM", pad_token_id=END, **{
        "rms_norm_eps": 1e-5, "max_position_embeddings": 512, "num_key_value_heads": keys["num_attention_heads"], **keys})


def clip(**keys):
    return {"model_type": "clip_vision_model", "image_size": 30, "patch_size": 7, "hidden_size": 24, "num_attention_heads": 3,
            "num_hidden_layers": 3, "intermediate_size": 35, **keys}


def siglip(**keys):
    return {"model_type": "siglip_vision_model", "image_size": 32, "patch_size": 6, "hidden_size": 24, "num_attention_heads": 3,
            "num_hidden_layers": 2, "intermediate_size": 35, "vision_use_head": False, **keys}


def under(text, vision, architecture, model_type, **keys):
    text = {k: v for k, v in text.items() if k != "architectures"}
    return {"architectures": [architecture], "model_type": model_type, "text_config": text, "vision_config": vision,
            "projector_hidden_act": "gelu", "image_token_index": IMAGE, "vision_feature_select_strategy": "default",
            "tie_word_embeddings": text.get("tie_word_embeddings", False), **keys}


def llava(text, vision, **keys):
    return under(text, vision, "LlavaForConditionalGeneration", "llava", **keys)


def llava_next(text, vision, **keys):
    pinpoints = [[30, 60], [60, 30], [60, 60], [90, 30], [30, 90]]
    return under(text, vision, "LlavaNextForConditionalGeneration", "llava_next", **{"image_grid_pinpoints": pinpoints, **keys})


def llava_next_video(text, vision, **keys):
    s = vision["image_size"]
    pinpoints = [[s, 2 * s], [2 * s, s], [2 * s, 2 * s], [3 * s, s], [s, 3 * s]]
    return under(text, vision, "LlavaNextVideoForConditionalGeneration", "llava_next_video", **{
        "image_grid_pinpoints": pinpoints, "video_token_index": VOCAB - 1, "vision_feature_layer": -2, **keys})


def llava_onevision(text, vision, **keys):
    s = vision["image_size"]
    pinpoints = [[h * s, w * s] for h in (1, 2, 3) for w in (1, 2, 3) if h * w < 5]
    return under(text, vision, "LlavaOnevisionForConditionalGeneration", "llava_onevision", **{
        "image_grid_pinpoints": pinpoints, "video_token_index": VOCAB - 1, "vision_feature_layer": -1,
        "vision_feature_select_strategy": "full", **keys})


INTERNVL_TEMPLATE = (  # as in the published folders
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n'}}{% if message['content'] is string %}"
    "{{ message['content'] }}{% else %}{% for content in message['content'] %}{% if content['type'] == 'image' %}"
    "{{ '<IMG_CONTEXT>\\n' }}{% elif content['type'] == 'video' %}{{ '<video>\\n' }}{% elif content['type'] == 'text' %}"
    "{{ content['text'] }}{% endif %}{% endfor %}{% endif %}{{'<|im_end|>\\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{'<|im_start|>assistant\\n' }}{% endif %}")


def internvl(text, vision, **keys):
    vision = {"model_type": "internvl_vision", "image_size": [24, 24], "patch_size": [6, 6], "hidden_size": 24,
              "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 35, **vision}
    text = {k: v for k, v in text.items() if k != "architectures"}
    return {"architectures": ["InternVLForConditionalGeneration"], "model_type": "internvl", "text_config": text,
            "vision_config": vision, "image_token_id": IMAGE, "tie_word_embeddings": text.get("tie_word_embeddings", False), **keys}


def qwen_vl(version, vision, **keys):
    """New files have the language model under text_config; those on the hub are flat."""
    is_moe = "num_experts" in keys
    name = {2: "qwen2_vl", 2.5: "qwen2_5_vl", 3: "qwen3_vl"}[version] + ("_moe" if is_moe else "")
    text = dict(SMALL, vocab_size=VOCAB, hidden_act="silu", rms_norm_eps=1e-6, max_position_embeddings=512, head_dim=8,
                bos_token_id=END, eos_token_id=END, max_window_layers=2, use_sliding_window=False)
    rope = {"type": "mrope", "mrope_section": [1, 2, 1]}
    if version == 3:
        return {"architectures": [f"Qwen3VL{'Moe' if is_moe else ''}ForConditionalGeneration"], "model_type": name, "image_token_id": IMAGE,
                "video_token_id": VOCAB - 1, "vision_start_token_id": VOCAB - 4, "vision_end_token_id": VOCAB - 3,
                "vision_config": {"model_type": name, **vision}, "tie_word_embeddings": keys.pop("tie_word_embeddings", False),
                "text_config": {**{k: v for k, v in text.items() if "window" not in k}, "model_type": name + "_text",
                                "attention_bias": False, **keys}}
    text.pop("head_dim")
    shared = {"architectures": ["Qwen2VLForConditionalGeneration" if version == 2 else "Qwen2_5_VLForConditionalGeneration"],
              "model_type": name, "image_token_id": IMAGE, "video_token_id": VOCAB - 1, "vision_start_token_id": VOCAB - 4,
              "vision_end_token_id": VOCAB - 3, "vision_config": {"model_type": name, **vision}}
    if keys.pop("flat", False):
        return {**shared, **text, "rope_theta": 10000.0, "rope_scaling": rope, **keys}
    return {**shared, "text_config": {**text, "model_type": name + "_text", "rope_parameters": {
        "rope_type": "default", "mrope_section": [2, 1, 1], "rope_theta": 20000.0}}, **keys}


def qwen3_5_text(**keys):
    return text_config("qwen3_5_text", "Qwen3_5ForCausalLM", rms_norm_eps=1e-6, max_position_embeddings=512,
                       **{"linear_conv_kernel_dim": 4, **keys})


def qwen3_5_moe_text(**keys):
    return {**qwen3_5_text(**keys), "model_type": "qwen3_5_moe_text", "architectures": ["Qwen3_5MoeForCausalLM"]}


def qwen3_next(**keys):
    return {**qwen3_5_text(**keys), "model_type": "qwen3_next", "architectures": ["Qwen3NextForCausalLM"]}


def qwen3_5(vision, text, **keys):
    """With experts where the text has them."""
    is_moe = "num_experts" in text
    text = {k: v for k, v in (qwen3_5_moe_text if is_moe else qwen3_5_text)(**text).items() if k != "architectures"}
    return {"architectures": [f"Qwen3_5{'Moe' if is_moe else ''}ForConditionalGeneration"],
            "model_type": "qwen3_5_moe" if is_moe else "qwen3_5", "image_token_id": IMAGE,
            "video_token_id": VOCAB - 1, "vision_start_token_id": VOCAB - 4, "vision_end_token_id": VOCAB - 3, "text_config": text,
            "vision_config": {"model_type": "qwen3_5_moe_vision" if is_moe else "qwen3_5_vision", "spatial_merge_size": 2,
                              "temporal_patch_size": 2, "in_channels": 3, "out_hidden_size": text["hidden_size"], **vision},
            "tie_word_embeddings": text["tie_word_embeddings"], **keys}


SMOL_TOKENS = ["<fake_token_around_image>", "<global-img>", "<end_of_utterance>",
               *(f"<row_{i}_col_{j}>" for i in range(1, 7) for j in range(1, 7))]
SMOL_CHAT = """<|im_start|>{%- for m in messages -%}
{{- m.role | capitalize }}:{{ '' if m.content[0].type == 'image' else ' ' }}
{%- for part in m.content -%}{{ '<image>' if part.type == 'image' else part.text }}{%- endfor -%}<end_of_utterance>{{ '\n' }}
{%- endfor -%}{{ 'Assistant:' if add_generation_prompt }}
"""


def smolvlm(vision, model_type="smolvlm", **keys):
    """The keys that published files have, and no others in vision_config."""
    kind = {"smolvlm": "SmolVLM", "idefics3": "Idefics3"}[model_type]
    text = llama(**SMALL, rope_theta=10000.0, pad_token_id=VOCAB - 1, rope_interleaved=False)
    text.update(max_position_embeddings=1024, vocab_size=VOCAB + len(SMOL_TOKENS), architectures=["VLlama3ForCausalLM"])
    return {"architectures": [kind + "ForConditionalGeneration"], "model_type": model_type, "text_config": text,
            "vision_config": {"model_type": model_type + "_vision", "hidden_size": 24, "num_attention_heads": 3,
                              "num_hidden_layers": 2, "intermediate_size": 35, **vision},
            "image_token_id": IMAGE, "tie_word_embeddings": False, "vocab_size": VOCAB, **keys}


GEMMA_TOKENS = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
GEMMA_CONTROL = ["<start_of_turn>", "<end_of_turn>", "<start_of_image>", "<end_of_image>", "<image_soft_token>"]
GEMMA_VOCAB = 160
GEMMA_CHAT = """{{ bos_token }}{%- set first = '' -%}
{%- if messages[0].role == 'system' -%}{%- set first = messages[0].content[0].text + '\n\n' -%}{%- set messages = messages[1:] -%}{%- endif -%}
{%- for m in messages -%}
{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' + (first if loop.first else '') }}
{%- for part in m.content -%}{{ '<start_of_image>' if part.type == 'image' else part.text | trim }}{%- endfor -%}
{{ '<end_of_turn>\n' }}{%- endfor -%}{{ '<start_of_turn>model\n' if add_generation_prompt }}
"""


def gemma_text(model_type, architecture, **keys):
    return {"architectures": [architecture], "model_type": model_type, "vocab_size": GEMMA_VOCAB, "hidden_size": 24,
            "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 12, "num_hidden_layers": 4, "intermediate_size": 18,
            "rms_norm_eps": 1e-6, "max_position_embeddings": 1024, "bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0, **keys}


def gemma3(text, vision, **keys):
    text = gemma_text("gemma3_text", "", **{"head_dim": 16, "intermediate_size": 40, **text})
    text.pop("architectures")
    return {"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "text_config": text,
            "vision_config": siglip(**vision), "image_token_index": GEMMA_VOCAB - 1, "boi_token_index": GEMMA_VOCAB - 3,
            "eoi_token_index": GEMMA_VOCAB - 2, **keys}


PIXTRAL_TOKENS = {"<image>": "[IMG]", "<|im_start|>": "[IMG_BREAK]", "<|im_end|>": "[IMG_END]", "<|user|>": "[INST]", "<pad>": "[/INST]"}
PIXTRAL_CHAT = """<s>{%- for m in messages -%}
{%- if m.role == 'user' -%}[INST]{%- for part in m.content -%}{{ '[IMG]' if part.type == 'image' else part.text }}{%- endfor -%}[/INST]
{%- elif m.role == 'assistant' -%}{{ ' ' + m.content[0].text + '</s>' }}
{%- else -%}{{ m.content[0].text + '\n\n' }}{%- endif -%}
{%- endfor -%}
"""


def pixtral_tower(**keys):
    """The keys of published files, which leave transformers' own out."""
    return {"model_type": "pixtral", "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 21,
            "image_size": 1024, "patch_size": 6, "hidden_act": "silu", "rope_theta": 10000.0, "head_dim": 8, **keys}


def pixtral(text, vision, **keys):
    return llava(text, vision, **{"vision_feature_select_strategy": "full", "vision_feature_layer": -1, **keys})


def ministral3(**keys):
    rope = {"type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 2048, "beta_fast": 32.0,
            "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1, "max_position_embeddings": 8192}
    return text_config("ministral3", "Ministral3ForCausalLM", **{"rms_norm_eps": 1e-5, "max_position_embeddings": 8192,
                                                                 "rope_parameters": rope, **keys})


def mistral3(text, vision, **keys):
    text = {k: v for k, v in text.items() if k != "architectures"}
    return {"architectures": ["Mistral3ForConditionalGeneration"], "model_type": "mistral3", "text_config": text, "vision_config": vision,
            "image_token_index": IMAGE, "spatial_merge_size": 2, "vision_feature_layer": -1, "projector_hidden_act": "gelu",
            "multimodal_projector_bias": False, "tie_word_embeddings": text.get("tie_word_embeddings", False), **keys}


LIGHTON_TOKENS = {"<image>": "<|image_pad|>", "<s>": "<|vision_pad|>", "</s>": "<|vision_end|>"}
LIGHTON_CHAT = """{%- for m in messages -%}{{ '<|im_start|>' + m.role + '\n' }}
{%- for part in m.content -%}{{ '<|image_pad|>' if part.type == 'image' else part.text }}{%- endfor -%}{{ '<|im_end|>\n' }}
{%- endfor -%}{{ '<|im_start|>assistant\n' if add_generation_prompt }}
"""


def lighton_ocr(text, vision, **keys):
    text = {k: v for k, v in text.items() if k != "architectures"}
    return {"architectures": ["LightOnOcrForConditionalGeneration"], "model_type": "lighton_ocr", "text_config": text,
            "vision_config": vision, "image_token_id": IMAGE, "spatial_merge_size": 2, "eos_token_id": VOCAB - 5,
            "tie_word_embeddings": text.get("tie_word_embeddings", False), **keys}


PADDLE_TOKENS = {"<image>": "<|IMAGE_PLACEHOLDER|>", "<s>": "<|IMAGE_START|>", "</s>": "<|IMAGE_END|>", "<|im_start|>": "<|begin_of_sentence|>",
                 "<|im_end|>": "<|end_of_sentence|>"}
PADDLE_CHAT = """<|begin_of_sentence|>{%- for m in messages -%}
{%- if m.role == 'user' -%}{{ 'User: ' }}{%- for part in m.content -%}
{{ '<|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>' if part.type == 'image' else part.text }}{%- endfor -%}{{ '\n' }}
{%- elif m.role == 'assistant' -%}{{ 'Assistant:\n' + m.content[0].text + '<|end_of_sentence|>' }}
{%- else -%}{{ m.content[0].text + '\n' }}{%- endif -%}
{%- endfor -%}{{ 'Assistant:\n' if add_generation_prompt }}
"""


def paddleocr_vl(vision, flat=True, **keys):
    """The keys of published files, which are flat; transformers 5 has the language model under text_config."""
    text = {"vocab_size": VOCAB, "hidden_act": "silu", "eos_token_id": END, "pad_token_id": END, "rms_norm_eps": 1e-5,
            "max_position_embeddings": 1024, "use_bias": False, **keys}
    tied = text.pop("tie_word_embeddings", False)
    text = {**text, "compression_ratio": 1.0, "use_3d_rope": True, "rope_is_neox_style": True, "weight_share_add_bias": True} if flat else {
        "text_config": {"model_type": "paddleocr_vl_text", "tie_word_embeddings": tied, **text}}
    return {"architectures": ["PaddleOCRVLForConditionalGeneration"], "model_type": "paddleocr_vl", **text, "image_token_id": IMAGE,
            "vision_start_token_id": VOCAB - 4, "vision_end_token_id": VOCAB - 3, "tie_word_embeddings": tied, "vision_config": {
                "model_type": "paddleocr_vl" if flat else "paddleocr_vl_vision", "hidden_act": "gelu_pytorch_tanh", "layer_norm_eps": 1e-6,
                "num_channels": 3, "spatial_merge_size": 2, "temporal_patch_size": 2, "tokens_per_second": 2, **vision}}


GLM_TOKENS = ["[gMASK]", "<sop>", "<|system|>", "<|assistant|>", "<|observation|>", "<|begin_of_image|>", "<|end_of_image|>",
              "<|begin_of_video|>", "<|end_of_video|>", "<|image|>", "<|video|>"]
GLM_CHAT = """[gMASK]<sop>{%- for m in messages -%}{{ '<|' + m.role + '|>\n' }}
{%- if m.content is string -%}{{ m.content }}{%- else -%}
{%- for part in m.content -%}
{%- if part.type == 'video' -%}<|begin_of_video|><|video|><|end_of_video|>
{%- elif part.type == 'image' -%}<|begin_of_image|><|image|><|end_of_image|>
{%- else -%}{{ part.text }}{%- endif -%}
{%- endfor -%}{%- endif -%}{%- endfor -%}{{ '<|assistant|>\n' if add_generation_prompt }}
"""


def glm4v(vision, model_type="glm4v", **keys):
    at = lambda token: VOCAB + GLM_TOKENS.index(token)
    text = {**SMALL, "model_type": "glm4v_text", "vocab_size": VOCAB + len(GLM_TOKENS), "hidden_act": "silu", "rms_norm_eps": 1e-5,
            "max_position_embeddings": 1024, "eos_token_id": [END, VOCAB - 2], "pad_token_id": END, "attention_bias": True,
            **({} if "rope_parameters" in keys else {"rope_theta": 10000.0, "partial_rotary_factor": 0.5}), **keys}
    kind = {"glm4v": "Glm4v", "glm46v": "Glm46V", "glm4v_moe": "Glm4vMoe", "glm_ocr": "GlmOcr"}[model_type]
    halves = "glm4v" if model_type == "glm46v" else model_type
    text["model_type"] = halves + "_text"
    if model_type == "glm_ocr":
        text["attention_bias"] = False
    return {"architectures": [kind + "ForConditionalGeneration"],
            "model_type": model_type, "text_config": text, "image_token_id": at("<|image|>"), "video_token_id": at("<|video|>"),
            "image_start_token_id": at("<|begin_of_image|>"), "image_end_token_id": at("<|end_of_image|>"),
            "video_start_token_id": at("<|begin_of_video|>"), "video_end_token_id": at("<|end_of_video|>"),
            "tie_word_embeddings": text.pop("tie_word_embeddings", False), "vision_config": {
                "model_type": halves + "_vision", "hidden_act": "silu", "in_channels": 3, "spatial_merge_size": 2, "temporal_patch_size": 2,
                "rms_norm_eps": 1e-5, "attention_bias": False, "attention_dropout": 0.0, "out_hidden_size": text["hidden_size"], **vision}}


KIMI_TOKENS = ["[BOS]", "[EOS]", "<|im_end|>", "<|im_user|>", "<|im_assistant|>", "<|im_system|>", "<|im_middle|>", "<|media_start|>", "<|media_content|>",
               "<|media_end|>", "<|media_pad|>"]
KIMI_CHAT = """{%- for m in messages -%}
{%- if loop.first and m.role != 'system' -%}<|im_system|>system<|im_middle|>Be helpful.<|im_end|>{%- endif -%}
{{ '<|im_' + m.role + '|>' + m.role + '<|im_middle|>' }}
{%- if m.content is string -%}{{ m.content }}{%- else -%}
{%- for part in m.content -%}
{%- if part.type == 'image' -%}<|media_start|>image<|media_content|><|media_pad|><|media_end|>
{%- else -%}{{ part.text }}{%- endif -%}
{%- endfor -%}{%- endif -%}<|im_end|>{%- endfor -%}{{ '<|im_assistant|>assistant<|im_middle|>' if add_generation_prompt }}
"""


def kimi_vl(vision, **keys):
    """The keys of published files, whose language model names no type."""
    text = deepseek(3, **{"rope_scaling": None, "n_group": 1, "topk_group": 1, "topk_method": "noaux_tc", "scoring_func": "sigmoid",
                          "moe_layer_freq": 1, "ep_size": 1, "seq_aux": True, "aux_loss_alpha": 0.001, "pretraining_tp": 1, **keys})
    text = {k: v for k, v in text.items() if k not in ("architectures", "model_type")}
    first = VOCAB - len(SPECIAL)  # of the control tokens
    text.update(vocab_size=first + kimi.N_CONTROL, bos_token_id=first, eos_token_id=first + 1, pad_token_id=first + kimi.N_CONTROL - 1)
    return {"architectures": ["KimiVLForConditionalGeneration"], "model_type": "kimi_vl", "text_config": text, "ignore_index": -100,
            "media_placeholder_token_id": first + KIMI_TOKENS.index("<|media_pad|>"),
            "tie_word_embeddings": text.get("tie_word_embeddings", False),
            "vision_config": {"model_type": "moonvit", "merge_kernel_size": [2, 2], **vision}}


def kimi_shapes(config):
    """Names as published, but experts all in one."""
    text, v = config["text_config"], config["vision_config"]
    width, n, wide = v["hidden_size"], v["intermediate_size"], 4 * v["hidden_size"]
    language = tensor_shapes({"model_type": "deepseek_v3", **text})
    out = [("language_model." + k, s) for k, s in language]
    both = lambda name, *shape: [(name + ".weight", shape), (name + ".bias", shape[:1])]
    out += both("vision_tower.patch_embed.proj", width, 3, v["patch_size"], v["patch_size"])
    out += [("vision_tower.patch_embed.pos_emb.weight", (v["init_pos_emb_height"], v["init_pos_emb_width"], width))]
    for i in range(v["num_hidden_layers"]):
        for name, shape in (("norm0", (width,)), ("norm1", (width,)), ("wqkv", (3 * width, width)), ("wo", (width, width)),
                            ("mlp.fc0", (n, width)), ("mlp.fc1", (width, n))):
            out += both(f"vision_tower.encoder.blocks.{i}.{name}", *shape)
    out += both("vision_tower.encoder.final_layernorm", width) + both("multi_modal_projector.pre_norm", width)
    return out + both("multi_modal_projector.linear_1", wide, wide) + both("multi_modal_projector.linear_2", text["hidden_size"], wide)
MINICPM_NAMES = {"image_token": "<|image_pad|>", "video_token": "<|video_pad|>", "image_start_token": "<image>",
                 "image_end_token": "</image>", "slice_start_token": "<slice>", "slice_end_token": "</slice>",
                 "image_id_start_token": "<image_id>", "image_id_end_token": "</image_id>"}
MINICPM_TOKENS = [t for t in MINICPM_NAMES.values() if t not in SPECIAL]
MINICPM_CHAT = """{%- for m in messages -%}{{ '<|im_start|>' + m.role + '\n' }}
{%- for part in m.content -%}
{{ '<|image_pad|>\n' if part.type == 'image' else '<|video_pad|>\n' if part.type == 'video' else part.text }}
{%- endfor -%}{{ '<|im_end|>\n' }}{%- endfor -%}{{ '<|im_start|>assistant\n' if add_generation_prompt }}
"""


def minicpmv(vision, text, **keys):
    at = lambda name: VOCAB + MINICPM_TOKENS.index(MINICPM_NAMES[name])
    text = {k: v for k, v in qwen3_5_text(**text).items() if k != "architectures"}
    text.update(vocab_size=VOCAB + len(MINICPM_TOKENS), max_position_embeddings=1024)
    return {"architectures": ["MiniCPMV4_6ForConditionalGeneration"], "model_type": "minicpmv4_6", "text_config": text,
            "vision_config": {"model_type": "minicpmv4_6_vision", **vision}, "image_token_id": at("image_token"),
            "video_token_id": at("video_token"), "tie_word_embeddings": text["tie_word_embeddings"], **keys}


TINY = dict(hidden_size=16, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=2, intermediate_size=20)
NANO = dict(hidden_size=8, num_attention_heads=2, num_key_value_heads=1, num_hidden_layers=1, intermediate_size=12)
SMALL = dict(hidden_size=32, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=2, intermediate_size=40)

# name: config.json, type of the stored weights, style of the tensor names, further options
MODELS = {
    "llama_f32": (llama(hidden_size=24, num_attention_heads=3, num_key_value_heads=1, head_dim=24, num_hidden_layers=2,
                        intermediate_size=51, rope_theta=10000.0), "f32", "v5", {}),
    "llama_linear": (llama(hidden_size=56, num_attention_heads=7, num_key_value_heads=1, num_hidden_layers=2,
                           intermediate_size=101, tie_word_embeddings=True, rope_theta=10000.0,
                           rope_scaling={"type": "linear", "factor": 2.5}), "bf16", "v5", {"sharded": True}),
    "llama_dynamic": (dict(llama(hidden_size=40, num_attention_heads=1, num_key_value_heads=1, num_hidden_layers=2,
                                 intermediate_size=99, attention_bias=True, rope_theta=500.0,
                                 rope_scaling={"rope_type": "dynamic", "factor": 3.0}), max_position_embeddings=48),
                      "f16", "v5", {}),
    "llama_yarn": (llama(hidden_size=48, num_attention_heads=4, num_key_value_heads=1, num_hidden_layers=2,
                         intermediate_size=77, rope_parameters={"rope_type": "yarn", "rope_theta": 2000.0, "factor": 4.0,
                                                               "original_max_position_embeddings": 128}), "bf16", "v5", {}),
    "llama_llama3": (llama(hidden_size=60, num_attention_heads=3, num_key_value_heads=3, num_hidden_layers=2,
                           intermediate_size=50, tie_word_embeddings=True, rope_theta=5000.0,
                           rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                         "high_freq_factor": 4.0, "original_max_position_embeddings": 64}), "f16", "v5", {}),
    "mistral": (mistral(hidden_size=40, num_attention_heads=4, num_key_value_heads=2, head_dim=24, num_hidden_layers=2,
                        intermediate_size=90, sliding_window=17, rope_theta=10000.0), "bf16", "v5", {}),
    "qwen2": (qwen2(hidden_size=56, num_attention_heads=7, num_key_value_heads=1, num_hidden_layers=2, intermediate_size=70,
                    use_sliding_window=False, sliding_window=8, rope_theta=1000000.0), "bf16", "v5", {}),
    "qwen2_yarn": (qwen2(hidden_size=24, num_attention_heads=2, num_key_value_heads=2, num_hidden_layers=3,
                         intermediate_size=40, tie_word_embeddings=True, use_sliding_window=True, sliding_window=21,
                         max_window_layers=0, rope_theta=10000.0,
                         rope_scaling={"type": "yarn", "factor": 2.0, "original_max_position_embeddings": 256}),
                   "f32", "v5", {}),
    "qwen3": (qwen3(hidden_size=40, num_attention_heads=4, num_key_value_heads=2, head_dim=24, num_hidden_layers=2,
                    intermediate_size=70, rope_theta=1000000.0), "bf16", "v5", {}),
    "qwen3_tied": (qwen3(hidden_size=36, num_attention_heads=6, num_key_value_heads=1, head_dim=10, num_hidden_layers=3,
                         intermediate_size=50, attention_bias=True, tie_word_embeddings=True, use_sliding_window=True,
                         sliding_window=19, max_window_layers=0, rope_parameters={
                             "rope_type": "yarn", "rope_theta": 5000.0, "factor": 4.0,
                             "original_max_position_embeddings": 128}), "f16", "v5", {"sharded": True}),
    "qwen3_moe": (qwen3_moe(hidden_size=24, num_attention_heads=3, num_key_value_heads=1, head_dim=12, num_hidden_layers=3,
                            intermediate_size=30, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=17,
                            norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[1], rope_theta=1e5), "bf16", "v5",
                  {"experts": "apart"}),
    "qwen3_moe_whole": (qwen3_moe(hidden_size=20, num_attention_heads=2, num_key_value_heads=2, num_hidden_layers=4,
                                  intermediate_size=26, num_experts=5, num_experts_per_tok=3, moe_intermediate_size=12,
                                  attention_bias=True, decoder_sparse_step=2, tie_word_embeddings=True,
                                  use_sliding_window=True, sliding_window=19, max_window_layers=2, rope_theta=10000.0),
                        "f16", "v5", {"experts": "v5", "sharded": True}),
    "qwen3_5_text": (qwen3_5_text(hidden_size=16, num_attention_heads=3, num_key_value_heads=1, head_dim=8, num_hidden_layers=5,
                                  intermediate_size=22, layer_types=["full_attention", "linear_attention", "full_attention",
                                                                     "linear_attention", "linear_attention"],
                                  linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=6, linear_value_head_dim=5,
                                  linear_conv_kernel_dim=3, attention_bias=True, tie_word_embeddings=False, rope_parameters={
                                      "rope_type": "default", "rope_theta": 5000.0, "partial_rotary_factor": 0.5,
                                      "mrope_section": [1, 1, 0], "mrope_interleaved": True}), "f16", "v5", {}),
    "qwen3_5_moe_text": (qwen3_5_moe_text(hidden_size=12, num_attention_heads=3, num_key_value_heads=1, head_dim=8, num_hidden_layers=2,
                                          layer_types=["linear_attention", "full_attention"], linear_num_value_heads=2,
                                          linear_num_key_heads=1, linear_key_head_dim=6, linear_value_head_dim=5, num_experts=5,
                                          num_experts_per_tok=2, moe_intermediate_size=7, shared_expert_intermediate_size=10,
                                          tie_word_embeddings=True, rope_parameters={
                                              "rope_type": "default", "rope_theta": 5000.0, "partial_rotary_factor": 0.5,
                                              "mrope_section": [1, 1, 0], "mrope_interleaved": True}), "bf16", "v5", {"experts": "apart"}),
    "qwen3_next": (qwen3_next(hidden_size=12, num_attention_heads=2, num_key_value_heads=1, head_dim=8, num_hidden_layers=2, intermediate_size=9,
                              full_attention_interval=2, linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=4,
                              linear_value_head_dim=3, num_experts=3, num_experts_per_tok=2, moe_intermediate_size=5, mlp_only_layers=[1],
                              shared_expert_intermediate_size=6, norm_topk_prob=False, tie_word_embeddings=True, rope_theta=5000.0,
                              partial_rotary_factor=0.5), "bf16", "v5", {}),
    "glm4": (glm4(hidden_size=16, num_attention_heads=3, num_key_value_heads=1, head_dim=12, num_hidden_layers=2,
                  intermediate_size=33, partial_rotary_factor=0.5, attention_bias=True, rope_theta=10000.0), "bf16", "v5", {}),
    "glm4_moe": (glm4_moe(hidden_size=16, num_attention_heads=3, num_key_value_heads=1, head_dim=12, num_hidden_layers=2,
                          intermediate_size=21, partial_rotary_factor=0.5, attention_bias=True, use_qk_norm=True, rope_theta=1e5,
                          first_k_dense_replace=1, n_routed_experts=6, num_experts_per_tok=3, n_group=3, topk_group=2, n_shared_experts=2,
                          moe_intermediate_size=7, norm_topk_prob=True, routed_scaling_factor=1.7, num_nextn_predict_layers=1,
                          rope_scaling=None, tie_word_embeddings=True), "bf16", "v5", {"experts": "apart"}),
    "deepseek_v3": (deepseek(3, hidden_size=16, num_attention_heads=3, num_hidden_layers=2, intermediate_size=15, kv_lora_rank=9, q_lora_rank=11,
                             qk_rope_head_dim=4, qk_nope_head_dim=6, v_head_dim=5, attention_bias=True, first_k_dense_replace=1,
                             n_routed_experts=6, num_experts_per_tok=3, n_group=3, topk_group=2, n_shared_experts=1, moe_intermediate_size=7,
                             norm_topk_prob=True, routed_scaling_factor=1.7, num_nextn_predict_layers=1, rope_theta=1e4,
                             rope_scaling={"type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64, "mscale": 0.7,
                                           "mscale_all_dim": 1.2, "beta_fast": 32, "beta_slow": 1}, tie_word_embeddings=True),
                    "bf16", "v5", {"experts": "apart"}),
    "deepseek_v2": (deepseek(2, hidden_size=16, num_attention_heads=2, num_hidden_layers=2, intermediate_size=15, kv_lora_rank=10, q_lora_rank=None,
                             qk_rope_head_dim=4, qk_nope_head_dim=6, v_head_dim=5, attention_bias=False, first_k_dense_replace=1,
                             n_routed_experts=6, num_experts_per_tok=3, n_group=1, topk_group=1, topk_method="greedy", n_shared_experts=2,
                             moe_intermediate_size=7, norm_topk_prob=False, routed_scaling_factor=1.0, rope_theta=1e4,
                             tie_word_embeddings=False), "f16", "v5", {"experts": "apart"}),
    "llava": (llava(llama(**SMALL, rope_theta=10000.0), clip(), vision_feature_layer=-2), "bf16", "old", {"sharded": True}),
    "llava_qwen2": (llava(qwen2(**SMALL, tie_word_embeddings=True, rope_parameters={"rope_type": "default",
                                                                                    "rope_theta": 1e6}),
                          clip(hidden_act="gelu"), vision_feature_layer=-1), "f16", "v5", {}),
    "llava_layers": (llava(mistral(**SMALL, sliding_window=40, head_dim=12), clip(patch_size=9),
                           vision_feature_layer=[-2, 1, 0], multimodal_projector_bias=False), "bf16", "v4.52", {}),
    "llava_full": (llava(llama(**dict(SMALL, hidden_size=24, intermediate_size=32, num_hidden_layers=1)), clip(hidden_size=24,
                         intermediate_size=32, num_hidden_layers=2), vision_feature_layer=-1,
                         vision_feature_select_strategy="full"), "f32", "saved by 5", {}),
    "llava_next": (llava_next(llama(**SMALL, rope_theta=10000.0), clip()), "bf16", "old", {}),
    "llava_next_mistral": (llava_next(mistral(**SMALL, sliding_window=None), clip(patch_size=10), vision_feature_layer=-1),
                           "f16", "v4.52", {}),
    "llava_next_granite": (llava_next(text_config("granite", "GraniteForCausalLM", **TINY, rms_norm_eps=1e-5, rope_theta=10000.0,
                                                  max_position_embeddings=512, embedding_multiplier=1.7, attention_multiplier=0.51,
                                                  residual_multiplier=0.67, logits_scaling=0.8, tie_word_embeddings=False),
                                      siglip(num_hidden_layers=3), vision_feature_layer=[-3, -1], vision_feature_select_strategy="full",
                                      image_grid_pinpoints=[[32, 64], [64, 32], [64, 64], [96, 32], [32, 96]],
                                      use_image_newline_parameter=True), "bf16", "v4.52", {"tokens": 12}),
    "llava_siglip": (llava(qwen2(**SMALL, tie_word_embeddings=True), siglip(), vision_feature_layer=-1,
                           vision_feature_select_strategy="full"), "bf16", "v4.52", {}),
    "llava_onevision": (llava_onevision(qwen2(**SMALL, rope_theta=1e6), siglip()), "bf16", "old", {}),
    "llava_onevision_max": (llava_onevision(qwen2(**SMALL, tie_word_embeddings=True, rope_theta=10000.0), siglip(
        image_size=28, patch_size=7, vision_use_head=True), vision_aspect_ratio="anyres_max_1"), "f16", "v5", {"video": True}),
    "qwen2_vl": (qwen_vl(2, {"depth": 3, "embed_dim": 24, "hidden_size": 32, "num_heads": 3, "mlp_ratio": 2, "patch_size": 6,
                             "spatial_merge_size": 2, "temporal_patch_size": 2}, flat=True), "bf16", "qwen old", {}),
    "qwen2_5_vl": (qwen_vl(2.5, {"depth": 4, "hidden_size": 24, "num_heads": 2, "intermediate_size": 36, "patch_size": 5,
                                 "spatial_merge_size": 2, "temporal_patch_size": 2, "out_hidden_size": 32, "window_size": 20,
                                 "fullatt_block_indexes": [1, 3], "tokens_per_second": 3}), "bf16", "v5", {}),
    "qwen2_5_vl_tied": (qwen_vl(2.5, {"depth": 2, "hidden_size": 32, "num_heads": 4, "intermediate_size": 20, "patch_size": 4,
                                      "spatial_merge_size": 3, "temporal_patch_size": 1, "out_hidden_size": 32,
                                      "window_size": 24, "fullatt_block_indexes": [1], "tokens_per_second": 2},
                                flat=True, tie_word_embeddings=True), "f16", "qwen old", {}),
    "qwen3_vl": (qwen_vl(3, {"depth": 4, "hidden_size": 24, "num_heads": 3, "intermediate_size": 40, "patch_size": 6,
                             "spatial_merge_size": 2, "temporal_patch_size": 2, "out_hidden_size": 32,
                             "num_position_embeddings": 25, "deepstack_visual_indexes": [0, 2], "in_channels": 3},
                         head_dim=16, num_hidden_layers=3, rope_parameters={
                             "rope_type": "default", "mrope_section": [4, 2, 2], "mrope_interleaved": True,
                             "rope_theta": 20000.0}), "bf16", "v5", {}),
    "qwen3_vl_tied": (qwen_vl(3, {"depth": 3, "hidden_size": 32, "num_heads": 4, "intermediate_size": 36, "patch_size": 4,
                                  "spatial_merge_size": 2, "temporal_patch_size": 2, "out_hidden_size": 32,
                                  "num_position_embeddings": 49, "deepstack_visual_indexes": [1], "in_channels": 3,
                                  "hidden_act": "gelu_pytorch_tanh"}, head_dim=12, tie_word_embeddings=True,
                              rope_scaling={"rope_type": "default", "mrope_section": [2, 2, 2],
                                            "mrope_interleaved": True}, rope_theta=5000.0), "f16", "v5", {}),
    "qwen3_vl_moe": (qwen_vl(3, {"depth": 3, "hidden_size": 16, "num_heads": 2, "intermediate_size": 20, "patch_size": 4,
                                 "spatial_merge_size": 2, "temporal_patch_size": 2, "out_hidden_size": 24,
                                 "num_position_embeddings": 16, "deepstack_visual_indexes": [1], "in_channels": 3},
                             hidden_size=24, num_attention_heads=3, num_key_value_heads=1, intermediate_size=20, head_dim=12,
                             num_hidden_layers=2, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=14,
                             decoder_sparse_step=1, mlp_only_layers=[], rope_scaling={
                                 "rope_type": "default", "mrope_section": [2, 2, 2], "mrope_interleaved": True},
                             rope_theta=5000.0), "bf16", "v5", {"experts": "turned"}),
    "qwen3_5": (qwen3_5({"depth": 1, "hidden_size": 8, "num_heads": 2, "intermediate_size": 20, "patch_size": 4,
                         "num_position_embeddings": 16}, dict(
                             hidden_size=16, num_attention_heads=2, num_key_value_heads=1, head_dim=24, num_hidden_layers=3,
                             full_attention_interval=3, intermediate_size=26, linear_num_value_heads=2, linear_num_key_heads=1, linear_key_head_dim=8,
                             linear_value_head_dim=12, tie_word_embeddings=True, rope_parameters={
                                 "rope_type": "default", "rope_theta": 20000.0, "mrope_section": [1, 1, 1],
                                 "mrope_interleaved": True})), "bf16", "v5", {}),
    "qwen3_5_moe": (qwen3_5({"depth": 1, "hidden_size": 8, "num_heads": 2, "intermediate_size": 20, "patch_size": 4,
                             "num_position_embeddings": 16}, dict(
                                 hidden_size=12, num_attention_heads=2, num_key_value_heads=1, head_dim=8, num_hidden_layers=2,
                                 full_attention_interval=2, linear_num_value_heads=2, linear_num_key_heads=2, linear_key_head_dim=4,
                                 linear_value_head_dim=6, num_experts=4, num_experts_per_tok=3, moe_intermediate_size=5,
                                 shared_expert_intermediate_size=8, tie_word_embeddings=True, rope_parameters={
                                     "rope_type": "default", "rope_theta": 20000.0, "partial_rotary_factor": 0.5,
                                     "mrope_section": [1, 0, 1], "mrope_interleaved": True})), "f16", "v5", {"experts": "v5"}),
    "minicpmv4_6": (minicpmv({"hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 6, "image_size": 28,
                              "patch_size": 4}, dict(
                                  hidden_size=16, num_attention_heads=2, num_key_value_heads=1, head_dim=24, num_hidden_layers=3,
                                  full_attention_interval=3, intermediate_size=26, linear_num_value_heads=2, linear_num_key_heads=1,
                                  linear_key_head_dim=8, linear_value_head_dim=12, tie_word_embeddings=True, rope_parameters={
                                      "rope_type": "default", "rope_theta": 20000.0, "mrope_section": [1, 1, 1],
                                      "mrope_interleaved": True}), insert_layer_id=1), "bf16", "v5",
                    {"pictures": {"max_slice_nums": 5}, "frames": {"max_slice_nums": 4}}),
    "minicpmv4_6_4x": (minicpmv({"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 1, "intermediate_size": 7, "image_size": 21,
                                 "patch_size": 3}, dict(
                                     hidden_size=12, num_attention_heads=2, num_key_value_heads=1, head_dim=8, num_hidden_layers=2,
                                     full_attention_interval=2, intermediate_size=13, linear_num_value_heads=2, linear_num_key_heads=2,
                                     linear_key_head_dim=4, linear_value_head_dim=6, tie_word_embeddings=False, rope_parameters={
                                         "rope_type": "default", "rope_theta": 20000.0, "partial_rotary_factor": 0.5,
                                         "mrope_section": [1, 0, 1], "mrope_interleaved": True}), downsample_mode="4x", insert_layer_id=0),
                       "f16", "v5", {"tokens": 12, "scale": 21, "pictures": {"use_image_id": False}, "frames": {"slice_mode": False}}),
    "glm4v": (glm4v({"depth": 2, "hidden_size": 24, "num_heads": 3, "intermediate_size": 44, "patch_size": 6, "image_size": 30},
                    hidden_size=24, num_attention_heads=3, num_key_value_heads=1, rope_scaling={"rope_type": "default", "mrope_section": [1, 1, 0]}), "bf16", "v5", {}),
    "glm46v": (glm4v({"depth": 2, "hidden_size": 16, "num_heads": 2, "intermediate_size": 20, "patch_size": 4, "image_size": 28,
                      "attention_bias": True}, "glm46v", hidden_size=16, num_attention_heads=2, intermediate_size=24, num_key_value_heads=1,
                     rope_parameters={
                         "rope_type": "default", "rope_theta": 5000.0, "mrope_section": [1, 0, 1], "partial_rotary_factor": 0.5}),
               "f16", "v5", {"glm46v": True}),
    "glm4v_moe": (glm4v({"depth": 1, "hidden_size": 16, "num_heads": 2, "intermediate_size": 20, "patch_size": 4, "image_size": 28},
                        "glm4v_moe", hidden_size=16, num_attention_heads=2, intermediate_size=24, num_key_value_heads=1, head_dim=12,
                        attention_bias=True, n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=9,
                        first_k_dense_replace=1, norm_topk_prob=False, routed_scaling_factor=2.5, n_group=1, topk_group=1, tie_word_embeddings=True,
                        rope_scaling={"rope_type": "default", "mrope_section": [1, 1, 1]}), "bf16", "v5", {"experts": "v5"}),
    "glm_ocr": (glm4v({"depth": 2, "hidden_size": 24, "num_heads": 3, "intermediate_size": 29, "patch_size": 6, "image_size": 336,
                       "attention_bias": True}, "glm_ocr", hidden_size=16, num_attention_heads=3, num_key_value_heads=1, head_dim=12,
                      intermediate_size=24, num_nextn_predict_layers=1, rope_parameters={
                          "rope_type": "default", "rope_theta": 10000, "mrope_section": [1, 3, 2], "partial_rotary_factor": 1.0}),
                "bf16", "v5", {"glm46v": True}),
    "paddleocr_vl": (paddleocr_vl({"hidden_size": 24, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 29, "patch_size": 6,
                                   "image_size": 31}, hidden_size=16, num_attention_heads=3, num_key_value_heads=1, head_dim=12,
                                  num_hidden_layers=2, intermediate_size=24, rope_theta=500000,
                                  rope_scaling={"mrope_section": [1, 3, 2], "rope_type": "default", "type": "default"}),
                     "bf16", "paddle old", {"tokens": 16, "pixels": [900, 4600]}),
    "kimi_vl": (kimi_vl({"patch_size": 6, "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 35,
                         "init_pos_emb_height": 5, "init_pos_emb_width": 5}, hidden_size=16, num_attention_heads=3, num_hidden_layers=2,
                        intermediate_size=15, kv_lora_rank=9, q_lora_rank=None, qk_rope_head_dim=4, qk_nope_head_dim=6, v_head_dim=5,
                        attention_bias=False, first_k_dense_replace=1, n_routed_experts=6, num_experts_per_tok=3, n_shared_experts=2,
                        moe_intermediate_size=7, norm_topk_prob=True, routed_scaling_factor=2.446, rope_theta=8e5, tie_word_embeddings=False),
                "bf16", "v5", {"experts": "apart", "limit": 48, "tokens": 24}),
    "internvl": (internvl(qwen2(**SMALL, rope_theta=1e6), {"attention_bias": True}), "bf16", "saved by 5", {}),
    "internvl_rms": (internvl(qwen3(**SMALL, head_dim=12, tie_word_embeddings=True), {
        "image_size": 32, "patch_size": 4, "norm_type": "rms_norm", "use_qk_norm": True, "use_mean_pooling": False,
        "hidden_size": 20, "num_attention_heads": 2}, downsample_ratio=0.25), "f16", "v5", {"tiles": [2, 5], "video": True}),
    "internvl_moe": (internvl(qwen3_moe(hidden_size=16, num_attention_heads=2, num_key_value_heads=1, head_dim=8, num_hidden_layers=2,
                                        intermediate_size=12, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=7, norm_topk_prob=True,
                                        decoder_sparse_step=1, mlp_only_layers=[], tie_word_embeddings=False),
                              {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 20}), "bf16", "saved by 5",
                     {"experts": "apart", "tokens": 12}),
    "internvl_qwen3": (internvl(qwen3(hidden_size=16, num_attention_heads=2, num_key_value_heads=1, head_dim=12, num_hidden_layers=2,
                                      intermediate_size=20), {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1,
                                                              "intermediate_size": 20}), "bf16", "saved by 5", {"tokens": 12}),
    "smolvlm": (smolvlm({"image_size": 32, "patch_size": 4}, scale_factor=4), "bf16", "v5", {"longest": 128}),
    "idefics3": (smolvlm({"image_size": 26, "patch_size": 4}, "idefics3", scale_factor=2), "f16", "v5", {"longest": 104}),
    "gemma3": (gemma3({"sliding_window": 7, "sliding_window_pattern": 3, "query_pre_attn_scalar": 10, "rope_theta": 5000.0,
                       "rope_local_base_freq": 100.0, "rope_scaling": {"rope_type": "linear", "factor": 2.5}},
                      {"image_size": 24, "patch_size": 4}, mm_tokens_per_image=9), "bf16", "old", {}),
    "gemma3_pan": (gemma3({"sliding_window": 5, "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
                           "num_hidden_layers": 3, "attention_bias": True, "tie_word_embeddings": False, "rope_parameters": {
                               "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
                               "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 20000.0}}},
                          {"image_size": 22, "patch_size": 5, "vision_use_head": False}, mm_tokens_per_image=4,
                          tie_word_embeddings=False), "f16", "v5",
                   {"pan": {"do_pan_and_scan": True, "pan_and_scan_min_crop_size": 9, "pan_and_scan_max_num_crops": 3,
                            "pan_and_scan_min_ratio_to_activate": 1.25}}),
    "gemma3_text": (gemma_text("gemma3_text", "Gemma3ForCausalLM", sliding_window=16, sliding_window_pattern=2,
                               final_logit_softcapping=4.0, query_pre_attn_scalar=20, rope_local_base_freq=300.0), "bf16", "v5", {}),
    "gemma2": (gemma_text("gemma2", "Gemma2ForCausalLM", sliding_window=16, attn_logit_softcapping=2.0, num_hidden_layers=3,
                          final_logit_softcapping=5.0, query_pre_attn_scalar=10, hidden_act="gelu_pytorch_tanh"), "f16", "v5", {}),
    "granite": (text_config("granite", "GraniteForCausalLM", **TINY, rms_norm_eps=1e-5, rope_theta=10000.0,
                            max_position_embeddings=512, embedding_multiplier=1.7, attention_multiplier=0.51, residual_multiplier=0.67,
                            logits_scaling=0.8, tie_word_embeddings=False), "bf16", "v5", {}),
    "olmo2": (text_config("olmo2", "Olmo2ForCausalLM", **TINY, rms_norm_eps=1e-5,
                          rope_theta=5000.0, max_position_embeddings=512, pad_token_id=0), "f16", "v5", {}),
    "smollm3": (text_config("smollm3", "SmolLM3ForCausalLM", **TINY, rms_norm_eps=1e-6, rope_theta=2e4,
                            max_position_embeddings=512, no_rope_layers=[0, 1], pad_token_id=0, use_sliding_window=True,
                            sliding_window=20, tie_word_embeddings=False), "bf16", "v5", {}),
    "pixtral": (pixtral(mistral(**TINY, head_dim=12, sliding_window=None, rope_theta=1e6, tie_word_embeddings=True),
                        pixtral_tower()), "bf16", "saved by 5", {"longest": 40}),
    "mistral3": (mistral3(mistral(**TINY, head_dim=12, sliding_window=None, rope_theta=1e9, tie_word_embeddings=True),
                          pixtral_tower(patch_size=4, hidden_act="gelu", num_attention_heads=4, head_dim=4)),
                 "bf16", "saved by 5", {"longest": 44}),
    "lighton_ocr": (lighton_ocr(qwen3(**TINY, head_dim=12, rope_theta=1e6, tie_word_embeddings=True),
                                pixtral_tower(patch_size=4, image_size=1540, num_attention_heads=4, head_dim=4)), "bf16", "v5", {"longest": 44, "tokens": 16}),
    "ministral": (text_config("ministral", "MinistralForCausalLM", **TINY, head_dim=12, rms_norm_eps=1e-5, rope_theta=5000.0,
                              max_position_embeddings=512, sliding_window=13, tie_word_embeddings=True,
                              layer_types=["sliding_attention", "full_attention"]), "f16", "v5", {}),
    "ministral3": (ministral3(**TINY, head_dim=12, tie_word_embeddings=True), "bf16", "v5", {}),
    "phi3": (text_config("phi3", "Phi3ForCausalLM", hidden_size=16, num_attention_heads=2, num_key_value_heads=2, num_hidden_layers=2,
                         intermediate_size=21, rms_norm_eps=1e-5, rope_theta=10000.0, max_position_embeddings=512, sliding_window=47,
                         original_max_position_embeddings=512, rope_scaling=None, pad_token_id=END, tie_word_embeddings=True), "bf16", "v5", {}),
    "phi3_long": (text_config("phi3", "Phi3ForCausalLM", hidden_size=32, num_attention_heads=2, num_key_value_heads=1, num_hidden_layers=2,
                              intermediate_size=22, rms_norm_eps=1e-5, rope_theta=10000.0, max_position_embeddings=512, pad_token_id=END,
                              original_max_position_embeddings=90, sliding_window=262144, tie_word_embeddings=True,
                              partial_rotary_factor=0.75, rope_scaling={
                                  "type": "longrope", "short_factor": [1.0, 1.05, 1.1, 1.2, 1.4, 1.7],
                                  "long_factor": [1.1, 1.4, 2.5, 5.0, 9.0, 12.5]}), "f16", "v5", {}),
    "mixtral": (text_config("mixtral", "MixtralForCausalLM", hidden_size=16, num_attention_heads=2, num_key_value_heads=1, num_hidden_layers=2,
                            intermediate_size=17, num_local_experts=5, num_experts_per_tok=2, rms_norm_eps=1e-5, rope_theta=1e6,
                            max_position_embeddings=512, sliding_window=33, output_router_logits=False, tie_word_embeddings=False),
                "bf16", "v5", {"experts": "mixtral"}),
    "olmoe": (text_config("olmoe", "OlmoeForCausalLM", hidden_size=16, num_attention_heads=2, num_key_value_heads=2, num_hidden_layers=2,
                          intermediate_size=9, num_experts=6, num_experts_per_tok=3, norm_topk_prob=False, rms_norm_eps=1e-5,
                          rope_theta=10000.0, max_position_embeddings=512, clip_qkv=None, pad_token_id=0, tie_word_embeddings=False),
              "f16", "v5", {"experts": "apart"}),
    "granitemoe": (text_config("granitemoe", "GraniteMoeForCausalLM", hidden_size=16, num_attention_heads=2, num_key_value_heads=1,
                               num_hidden_layers=2, intermediate_size=13, num_local_experts=6, num_experts_per_tok=3, rms_norm_eps=1e-6,
                               rope_theta=10000.0, max_position_embeddings=512, embedding_multiplier=1.7, attention_multiplier=0.51,
                               residual_multiplier=0.67, logits_scaling=0.8, pad_token_id=0, tie_word_embeddings=True), "bf16", "v5",
                   {"experts": "granite"}),
    "granitemoeshared": (text_config("granitemoeshared", "GraniteMoeSharedForCausalLM", hidden_size=16, num_attention_heads=2,
                                     num_key_value_heads=2, num_hidden_layers=2, intermediate_size=6, num_local_experts=4, num_experts_per_tok=2,
                                     shared_intermediate_size=11, rms_norm_eps=1e-6, rope_theta=10000.0, max_position_embeddings=512,
                                     embedding_multiplier=1.4, attention_multiplier=0.4, residual_multiplier=0.8, logits_scaling=0.9,
                                     pad_token_id=0, tie_word_embeddings=True), "bf16", "v5", {"experts": "granite"}),
    "llava_next_video": (llava_next_video(
        llama(**NANO, rope_theta=10000.0), clip(hidden_size=9, intermediate_size=12, num_hidden_layers=2, patch_size=6)), "bf16", "old",
        {"tokens": 12}),
    "llava_next_video_own": (llava_next_video(
        mistral(**NANO, sliding_window=None), clip(hidden_size=9, intermediate_size=12, num_hidden_layers=2, patch_size=4),
        vision_feature_layer=[-1, 0], spatial_pool_stride=3), "f16", "v4.52",
        {"tokens": 12, "frames": {"size": {"height": 30, "width": 30}, "do_center_crop": False}}),
    "longva": (None, "bf16", "v5", {"tower": "inside"}),
    "longva_tower": (None, "f16", "v5", {"tower": "beside"}),
    "llava_onevision_flat": (None, "f16", "v5", {"of": "llava_onevision_max"}),
    "llava_video": (None, "bf16", "v5", {"newline": "grid", "pool": "bilinear", "tokens": 12}),
    "llava_video_frame": (None, "bf16", "v5", {"newline": "frame", "pool": "average", "tokens": 12}),
    "llava_video_none": (None, "f16", "v5", {"newline": "no_token", "pool": "bilinear", "tokens": 12}),
    "internvl_chat": (None, "bf16", "v5", {"of": "internvl"}),
}


def longva_parts(vision, **keys):
    """The flat configuration of the original code, and names and shapes of its tensors."""
    text = qwen2(**SMALL, rope_theta=1e6, tie_word_embeddings=False)
    config = {**text, "architectures": ["LlavaQwenForCausalLM"], "model_type": "llava_qwen", "rope_scaling": None,
              "image_aspect_ratio": "anyres", "image_grid_pinpoints": [[30, 60], [60, 30], [60, 60], [90, 30], [30, 90]],
              "mm_hidden_size": 24, "mm_patch_merge_type": "unires", "mm_projector_type": "mlp2x_gelu",
              "mm_spatial_pool_mode": "average", "mm_spatial_pool_stride": 2, "mm_vision_select_feature": "patch",
              "mm_vision_select_layer": -2, "mm_vision_tower": "openai/clip-vit-large-patch14-336", **keys}
    as_llava = llava(text, vision)
    shapes = []
    for name, shape in tensor_shapes(as_llava):
        for a, b in (("model.language_model.", "model."), ("model.vision_tower.", "model.vision_tower.vision_tower.vision_model."),
                     ("model.multi_modal_projector.linear_1.", "model.mm_projector.0."),
                     ("model.multi_modal_projector.linear_2.", "model.mm_projector.2.")):
            if name.startswith(a):
                name = b + name[len(a):]
                break
        shapes.append((name, shape))
    return config, shapes


def write_longva(folder, seed, dtype, tower, vision=None, **keys):
    vision = vision or clip()
    config, shapes = longva_parts(vision, **keys)
    tensors = {k: v.to(DTYPES[dtype]) for k, v in draw(shapes, seed, False).items()}
    os.makedirs(os.path.join(folder, "vision_tower"))
    write_json(folder, "config.json", config)
    write_json(os.path.join(folder, "vision_tower"), "config.json", vision)
    if tower == "beside":
        prefix = "model.vision_tower.vision_tower."
        own = {k[len(prefix):]: tensors.pop(k) for k in list(tensors) if k.startswith(prefix)}
        save(os.path.join(folder, "vision_tower"), own)
    save(folder, tensors)


def write_flat(folder, whole, tensors, **keys):
    """A model in transformers' LLaVA-OneVision layout, in the original code's."""
    config, vision = llava_video.flat_config(whole, **keys)
    os.makedirs(os.path.join(folder, "vision_tower"))
    write_json(os.path.join(folder, "vision_tower"), "config.json", vision)
    write_json(folder, "config.json", config)
    save(folder, {llava_video.to_flat(k): v for k, v in tensors.items()})


def write_onevision_flat(folder, twin):
    """The model of another folder."""
    from safetensors.torch import load_file
    tensors = load_file(os.path.join(FOLDER, twin, "model.safetensors"))
    write_flat(folder, goldens.read_json(FOLDER, twin, "config.json"), tensors, _name_or_path=twin)


def write_llava_video(folder, seed, dtype, **keys):
    tower = siglip(hidden_size=8, num_attention_heads=2, intermediate_size=12)
    whole = llava_onevision(qwen2(**NANO, rope_theta=10000.0), tower, vision_aspect_ratio="anyres_max_3")
    tensors = draw(tensor_shapes(whole), seed, False)
    write_flat(folder, whole, {k: v.to(DTYPES[dtype]).contiguous() for k, v in tensors.items()}, add_faster_video=False,
               add_time_instruction=keys["mm_newline_position"] == "no_token", faster_token_stride=10, force_sample=True, mm_spatial_pool_stride=2, **keys)


INTERNVL_NAMES = (  # from transformers' layout to the original's
    ("model.vision_tower.", "vision_tower."), ("model.multi_modal_projector.", "multi_modal_projector."),
    ("model.language_model.", "language_model.model."), ("vision_tower.", "vision_model."), (".encoder.layer.", ".encoder.layers."),
    (".cls_token", ".class_embedding"), (".patch_embeddings.projection.", ".patch_embedding."),
    (".position_embeddings", ".position_embedding"), (".attention.projection_layer.", ".attn.proj."), (".attention.", ".attn."),
    (".layernorm_before.", ".norm1."), (".layernorm_after.", ".norm2."), (".lambda_", ".ls"),
    ("multi_modal_projector.layer_norm.", "mlp1.0."), ("multi_modal_projector.linear_1.", "mlp1.1."),
    ("multi_modal_projector.linear_2.", "mlp1.3."))


def write_internvl_chat(folder, twin, **keys):
    """The model of another folder in the layout of the original code."""
    whole, base = goldens.read_json(FOLDER, twin, "config.json"), os.path.join(FOLDER, twin)
    tensors = {}
    for name, tensor in goldens.load_weights(base).items():
        if name.startswith("lm_head."):
            name = "language_model." + name
        for a, b in INTERNVL_NAMES:
            if "language_model" not in name or a == "model.language_model.":
                name = b + name[len(a):] if name.startswith(a) else name.replace(a, b) if a[0] == "." else name
        tensors[name] = tensor
    for name in [n for n in tensors if ".attn.q_proj." in n]:
        parts = [tensors.pop(name.replace("q_proj", k + "_proj")) for k in "qkv"]
        tensors[name.replace("q_proj", "qkv")] = torch.cat(parts)
    vision = dict(whole["vision_config"])
    side = lambda key: vision[key][0] if isinstance(vision[key], list) else vision[key]
    vision.update(model_type="intern_vit_6b", architectures=["InternVisionModel"], image_size=side("image_size"),
                  patch_size=side("patch_size"), qkv_bias=vision.pop("attention_bias", False), hidden_act="gelu", layer_norm_eps=1e-6,
                  qk_normalization=vision.pop("use_qk_norm", False), norm_type=vision.get("norm_type", "layer_norm"), use_flash_attn=True)
    vision.pop("use_mean_pooling", None)
    text = dict(whole["text_config"])
    write_json(folder, "config.json", {
        "_name_or_path": twin, "architectures": ["InternVLChatModel"], "model_type": "internvl_chat", "llm_config": text,
        "vision_config": vision, "downsample_ratio": whole.get("downsample_ratio", 0.5), "force_image_size": vision["image_size"],
        "select_layer": whole.get("vision_feature_layer", -1), "template": "internvl2_5", "ps_version": "v2", "pad2square": False,
        "use_backbone_lora": 0, "use_llm_lora": 0, "tie_word_embeddings": text.get("tie_word_embeddings", False),
        **{"dynamic_image_size": True, "use_thumbnail": True, "min_dynamic_patch": 1, "max_dynamic_patch": 12, **keys}})
    write_json(folder, "preprocessor_config.json", {
        "crop_size": vision["image_size"], "do_center_crop": True, "do_normalize": True, "do_resize": True, "resample": 3,
        "feature_extractor_type": "CLIPFeatureExtractor", "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225],
        "size": vision["image_size"]})
    shutil.copy(os.path.join(base, "tokenizer.json"), folder)
    save(folder, {k: v.contiguous() for k, v in tensors.items()})


def write_checkpoint(name, seed):
    config, dtype, style, options = MODELS[name]
    folder = os.path.join(FOLDER, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    shutil.copy(os.path.join(FOLDER, "tokenizer.json"), folder)
    if "of" in options:
        return (write_internvl_chat if name == "internvl_chat" else write_onevision_flat)(folder, options["of"])
    if "newline" in options:
        return write_llava_video(folder, seed, dtype, mm_newline_position=options["newline"], mm_spatial_pool_mode=options["pool"])
    if config is None:
        return write_longva(folder, seed, dtype, options["tower"])
    write_json(folder, "config.json", config)
    tensors = draw(tensor_shapes(config), seed, config.get("tie_word_embeddings", False))
    tensors = part_experts(tensors, options.get("experts", "v5"))
    save(folder, {rename(k, style): stored(k, v, dtype) for k, v in tensors.items()}, options.get("sharded"))
    if config["model_type"].startswith("gemma"):
        write_gemma_files(folder, config, options)
    elif config["model_type"] == "minicpmv4_6":
        write_minicpmv_files(folder, config, options)
    elif "scale_factor" in config:
        write_smolvlm_files(folder, config, options)
    elif config["model_type"] in ("glm4v", "glm46v", "glm4v_moe", "glm_ocr"):
        write_glm_files(folder, config, options)
    elif config["model_type"] == "kimi_vl":
        write_kimi_files(folder, config, options)
    elif "depth" in config.get("vision_config", {}):
        vision = config["vision_config"]
        pixels = {"min_pixels": 900, "max_pixels": 2500}
        common = {"patch_size": vision["patch_size"], "merge_size": vision["spatial_merge_size"],
                  "temporal_patch_size": vision["temporal_patch_size"],
                  "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}
        is_third = config["model_type"].startswith(("qwen3_vl", "qwen3_5"))
        if is_third:
            common.update(image_mean=[0.5] * 3, image_std=[0.5] * 3)
        write_json(folder, "preprocessor_config.json", {"image_processor_type": "Qwen2VLImageProcessor", **common, **pixels})
        if "text_config" in config:
            write_json(folder, "video_preprocessor_config.json", {
                "video_processor_type": "Qwen3VLVideoProcessor" if is_third else "Qwen2VLVideoProcessor", **common,
                "size": {"shortest_edge": 3000, "longest_edge": 5000} if is_third
                else {"shortest_edge": 1000, "longest_edge": 1800}})
    elif config["model_type"] == "internvl":
        write_internvl_files(folder, config, options)
    elif config["model_type"] == "paddleocr_vl":
        write_paddle_files(folder, config, options)
    elif config["model_type"] == "lighton_ocr":
        write_lighton_files(folder, config, options)
    elif config.get("vision_config", {}).get("model_type") == "pixtral":
        write_pixtral_files(folder, config, options)
    elif "vision_config" in config:
        size = config["vision_config"]["image_size"]
        is_siglip = config["vision_config"]["model_type"] == "siglip_vision_model"
        if is_siglip and config["model_type"] != "llava_next":
            return write_squeezing_processor(folder, config, options)
        write_json(folder, "preprocessor_config.json", {
            "image_processor_type": "LlavaNextImageProcessor" if "image_grid_pinpoints" in config else "CLIPImageProcessor",
            "size": {"shortest_edge": size}, "crop_size": {"height": size, "width": size}, "resample": 3, "do_resize": True,
            "do_center_crop": True, "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True,
            "image_mean": [0.5] * 3 if is_siglip else [0.48145466, 0.4578275, 0.40821073],
            "image_std": [0.5] * 3 if is_siglip else [0.26862954, 0.26130258, 0.27577711], "do_convert_rgb": True,
            **({"image_grid_pinpoints": config["image_grid_pinpoints"], "do_pad": True}
               if "image_grid_pinpoints" in config else {})})
        if "frames" in options:  # both in one file, as transformers 5 saves them
            pictures = goldens.read_json(folder, "preprocessor_config.json")
            os.remove(os.path.join(folder, "preprocessor_config.json"))
            colors = {k: pictures[k] for k in ("image_mean", "image_std")}
            videos = {"video_processor_type": "LlavaNextVideoVideoProcessor", "do_sample_frames": False, **colors, **options["frames"]}
            write_json(folder, "processor_config.json", {
                "processor_class": "LlavaNextVideoProcessor", "image_processor": pictures, "video_processor": videos})


def write_internvl_files(folder, config, options):
    """The tokenizer's own names of the tokens around pictures, the template, and the processors."""
    vision = config["vision_config"]
    side = lambda key: vision[key][0] if isinstance(vision[key], list) else vision[key]
    size, grid = side("image_size"), side("image_size") // side("patch_size")
    tiles = dict(zip(("min_patches", "max_patches"), options.get("tiles", [1, 12])))
    path = os.path.join(folder, "tokenizer.json")
    with open(path) as f:
        text = f.read()
    names = {"<s>": "<img>", "</s>": "</img>", "<image>": "<IMG_CONTEXT>", "<pad>": "<video>"}
    if options.get("video"):  # names of its own
        names.update({"<s>": "<see>", "</s>": "<seen>", "<pad>": "<clip>"})
        write_json(folder, "tokenizer_config.json", {"extra_special_tokens": {
            "start_image_token": "<see>", "end_image_token": "<seen>", "context_image_token": "<IMG_CONTEXT>", "video_token": "<clip>"}})
    for a, b in names.items():
        text = text.replace(json.dumps(a), json.dumps(b))
    with open(path, "w") as f:
        f.write(text)
    with open(os.path.join(folder, "chat_template.jinja"), "w") as f:
        f.write(INTERNVL_TEMPLATE.replace("<video>", names["<pad>"]))
    common = {"size": {"height": size, "width": size}, "resample": 3, "do_resize": True, "do_rescale": True,
              "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": [0.485, 0.456, 0.406],
              "image_std": [0.229, 0.224, 0.225]}
    write_json(folder, "preprocessor_config.json", {"image_processor_type": "GotOcr2ImageProcessorFast", **common, **tiles,
                                                    "processor_class": "InternVLProcessor", "crop_to_patches": False})
    if options.get("video"):
        write_json(folder, "video_preprocessor_config.json", {"video_processor_type": "InternVLVideoProcessor", **common})
    write_json(folder, "processor_config.json", {"processor_class": "InternVLProcessor", "image_seq_length": int(
        (grid * config.get("downsample_ratio", 0.5)) ** 2)})


def write_pixtral_files(folder, config, options):
    """The image processor's own patch size is the base's, which the processor's replaces."""
    path = os.path.join(folder, "tokenizer.json")
    with open(path) as f:
        text = f.read()
    for a, b in PIXTRAL_TOKENS.items():
        text = text.replace(json.dumps(a), json.dumps(b))
    with open(path, "w") as f:
        f.write(text)
    with open(os.path.join(folder, "chat_template.jinja"), "w") as f:
        f.write(PIXTRAL_CHAT)
    patch = config["vision_config"]["patch_size"]
    own = patch[0] if isinstance(patch, list) else patch
    write_json(folder, "preprocessor_config.json", {
        "image_processor_type": "PixtralImageProcessor", "do_convert_rgb": True, "do_resize": True, "do_rescale": True,
        "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": [0.48145466, 0.4578275, 0.40821073],
        "image_std": [0.26862954, 0.26130258, 0.27577711], "resample": 3, "patch_size": {"height": own, "width": own},
        "size": {"longest_edge": options["longest"]}, **options.get("processor", {})})
    merge = {"spatial_merge_size": config["spatial_merge_size"]} if "spatial_merge_size" in config else {}
    write_json(folder, "processor_config.json", {"processor_class": "PixtralProcessor", "image_token": "[IMG]", "patch_size": own,
                                                 "image_break_token": "[IMG_BREAK]", "image_end_token": "[IMG_END]", **merge})


def write_lighton_files(folder, config, options):
    """The image processor's patches are whole squares of the tower's."""
    path = os.path.join(folder, "tokenizer.json")
    with open(path) as f:
        text = f.read()
    for a, b in LIGHTON_TOKENS.items():
        text = text.replace(json.dumps(a), json.dumps(b))
    with open(path, "w") as f:
        f.write(text)
    with open(os.path.join(folder, "chat_template.jinja"), "w") as f:
        f.write(LIGHTON_CHAT)
    names = dict(zip(("image_token", "image_break_token", "image_end_token"), LIGHTON_TOKENS.values()))
    write_json(folder, "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>",
                                                 "extra_special_tokens": names})
    patch, merge = config["vision_config"]["patch_size"], config["spatial_merge_size"]
    write_json(folder, "processor_config.json", {
        "processor_class": "LightOnOcrProcessor", "patch_size": patch, "spatial_merge_size": merge, "image_processor": {
            "image_processor_type": "PixtralImageProcessor", "do_convert_rgb": True, "do_resize": True, "do_rescale": True,
            "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": [0.48145466, 0.4578275, 0.40821073],
            "image_std": [0.26862954, 0.26130258, 0.27577711], "resample": 3, "patch_size": patch * merge,
            "size": {"longest_edge": options["longest"]}, **options.get("processor", {})}})


def write_paddle_files(folder, config, options):
    path = os.path.join(folder, "tokenizer.json")
    with open(path) as f:
        text = f.read()
    for a, b in PADDLE_TOKENS.items():
        text = text.replace(json.dumps(a), json.dumps(b))
    with open(path, "w") as f:
        f.write(text)
    with open(os.path.join(folder, "chat_template.jinja"), "w") as f:
        f.write(PADDLE_CHAT)
    write_json(folder, "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>",
                                                 "extra_special_tokens": {"image_token": "<|IMAGE_PLACEHOLDER|>"}})
    vision, (low, high) = config["vision_config"], options["pixels"]
    write_json(folder, "preprocessor_config.json", {
        "image_processor_type": "PaddleOCRVLImageProcessor", "processor_class": "PaddleOCRVLProcessor", "do_convert_rgb": True,
        "do_resize": True, "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3, "resample": 3, "patch_size": vision["patch_size"], "temporal_patch_size": 1,
        "merge_size": vision["spatial_merge_size"], "min_pixels": low, "max_pixels": high, **options.get("processor", {})})


def write_squeezing_processor(folder, config, options):
    size = config["vision_config"]["image_size"]
    common = {"size": {"height": size, "width": size}, "resample": 3, "do_resize": True, "do_rescale": True,
              "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
    tiles = {k: config[k] for k in ("image_grid_pinpoints",) if k in config}
    kind = "LlavaOnevisionImageProcessor" if tiles else "SiglipImageProcessor"
    write_json(folder, "preprocessor_config.json", {"image_processor_type": kind, **common, **tiles})
    if options.get("video"):
        write_json(folder, "video_preprocessor_config.json", {"video_processor_type": "LlavaOnevisionVideoProcessor", **common})


def make_gemma_tokenizer():
    """As published: spaces are a character of their own, several newlines one token, no merges across control tokens."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Replace(" ", "\u2581")
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    letters = [chr(c) for c in range(33, 127)] + ["\n", "\u2581"]
    words = ["\n\n", "\n\n\n", "\n\n\n\n", "th", "ow", "\u2581th", "\u2581w", "er", "in", "ou", "ow", "se", "\u2581o", "ha", "wh", "at",
             "\u2581th\u2581", "us", "er\u2581", "as", "re", "me", "is"]
    data = json.loads(t.to_str())
    vocab = {s: i for i, s in enumerate(GEMMA_TOKENS)}
    merges = []
    for s in letters + words:
        vocab.setdefault(s, len(vocab))
    for w in words:
        merges += [[w[:i], w[i:]] for i in range(len(w) - 1, 0, -1) if w[:i] in vocab and w[i:] in vocab and [w[:i], w[i:]] not in merges][:1]
    n_plain = GEMMA_VOCAB - len(GEMMA_CONTROL)
    while len(vocab) < n_plain:
        vocab[f"<0x{len(vocab) - len(letters):02X}>"] = len(vocab)
    data["model"].update(vocab=vocab, merges=merges)
    t = Tokenizer.from_str(json.dumps(data))
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in GEMMA_TOKENS + GEMMA_CONTROL])
    t.post_processor = processors.TemplateProcessing(single="<bos> $A", pair="<bos> $A <bos> $B", special_tokens=[("<bos>", 2)])
    assert t.get_vocab_size() == GEMMA_VOCAB and t.token_to_id("<image_soft_token>") == GEMMA_VOCAB - 1
    return t


def write_gemma_files(folder, config, options):
    make_gemma_tokenizer().save(os.path.join(folder, "tokenizer.json"), pretty=False)
    named = {"image_token": "<image_soft_token>", "boi_token": "<start_of_image>", "eoi_token": "<end_of_image>"}
    write_json(folder, "tokenizer_config.json", {"tokenizer_class": "GemmaTokenizer", "bos_token": "<bos>", "eos_token": "<eos>",
                                                 "pad_token": "<pad>", "unk_token": "<unk>", "extra_special_tokens": named})
    if "vision_config" not in config:
        return
    with open(os.path.join(folder, "chat_template.jinja"), "w") as f:
        f.write(GEMMA_CHAT)
    side = config["vision_config"]["image_size"]
    pan = dict.fromkeys(("do_pan_and_scan", "pan_and_scan_min_crop_size", "pan_and_scan_max_num_crops",
                         "pan_and_scan_min_ratio_to_activate"))
    write_json(folder, "preprocessor_config.json", {
        "image_processor_type": "Gemma3ImageProcessor", "processor_class": "Gemma3Processor", "do_convert_rgb": None,
        "do_resize": True, "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3, "resample": 2, "image_seq_length": config["mm_tokens_per_image"],
        "size": {"height": side, "width": side}, **pan, **options.get("pan", {})})
    write_json(folder, "processor_config.json", {"processor_class": "Gemma3Processor", "image_seq_length": config["mm_tokens_per_image"]})


def write_glm_files(folder, config, options):
    """As published; GLM-4.6V's classes under glm4v too."""
    from tokenizers import AddedToken, Tokenizer
    t = Tokenizer.from_file(os.path.join(FOLDER, "tokenizer.json"))
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in GLM_TOKENS])
    t.save(os.path.join(folder, "tokenizer.json"))
    write_json(folder, "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"})
    with open(os.path.join(folder, "chat_template.jinja"), "w") as f:
        f.write(GLM_CHAT)
    vision, kind = config["vision_config"], "Glm46V" if options.get("glm46v") else "Glm4v"
    common = {"processor_class": kind + "Processor", "patch_size": vision["patch_size"], "merge_size": 2, "temporal_patch_size": 2,
              "do_rescale": True, "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}
    write_json(folder, "preprocessor_config.json", {"image_processor_type": kind + "ImageProcessor", **common,
                                                    "size": {"shortest_edge": 1600, "longest_edge": 4600}})
    write_json(folder, "video_preprocessor_config.json", {"video_processor_type": kind + "VideoProcessor", **common,
                                                          "size": {"shortest_edge": 1600, "longest_edge": 9000}})


def byte_characters():
    """The characters that stand for the bytes 0 to 255 in byte-level vocabularies (GPT-2)."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = iter(range(256, 512))
    return [chr(b) if b in shown else chr(next(hidden)) for b in range(256)]


def write_kimi_files(folder, config, options):
    """As published, with the tokens of tokenizer.json as tiktoken has them: bytes, then what is made of two."""
    from tokenizers import Tokenizer
    if os.path.exists(os.path.join(folder, "tokenizer.json")):
        os.remove(os.path.join(folder, "tokenizer.json"))
    t = Tokenizer.from_file(os.path.join(FOLDER, "tokenizer.json"))
    byte_of = {c: b for b, c in enumerate(byte_characters())}
    ranks = [bytes(byte_of[c] for c in t.id_to_token(i)) for i in range(VOCAB - len(SPECIAL))]
    kimi.write_tiktoken(folder, ranks, KIMI_TOKENS, bos_token="[BOS]", eos_token="[EOS]")
    with open(os.path.join(folder, "chat_template.jinja"), "w") as f:
        f.write(KIMI_CHAT)
    write_json(folder, "preprocessor_config.json", {
        "image_processor_type": "KimiVLImageProcessor", "in_token_limit": options["limit"], "patch_size": config["vision_config"]["patch_size"],
        "num_pooled_tokens": 1024, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "pad_input": True})
def write_minicpmv_files(folder, config, options):
    from tokenizers import AddedToken, Tokenizer
    t = Tokenizer.from_file(os.path.join(FOLDER, "tokenizer.json"))
    for_all = [AddedToken(s, special=True, normalized=False) for s in MINICPM_TOKENS]
    t.add_special_tokens(for_all)
    t.save(os.path.join(folder, "tokenizer.json"))
    write_json(folder, "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>",
                                                 "extra_special_tokens": MINICPM_NAMES})
    with open(os.path.join(folder, "chat_template.jinja"), "w") as f:
        f.write(MINICPM_CHAT)
    common = {"patch_size": config["vision_config"]["patch_size"], "scale_resolution": options.get("scale", 28),
              "downsample_mode": config.get("downsample_mode", "16x"), "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    write_json(folder, "preprocessor_config.json", {"image_processor_type": "MiniCPMV4_6ImageProcessor", **common,
                                                    **options.get("pictures", {})})
    if "frames" in options:
        write_json(folder, "video_preprocessor_config.json", {"video_processor_type": "MiniCPMV4_6VideoProcessor", **common,
                                                              **options["frames"]})


def write_smolvlm_files(folder, config, options):
    from tokenizers import AddedToken, Tokenizer
    t = Tokenizer.from_file(os.path.join(FOLDER, "tokenizer.json"))
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in SMOL_TOKENS])
    t.save(os.path.join(folder, "tokenizer.json"))
    with open(os.path.join(folder, "chat_template.jinja"), "w") as f:
        f.write(SMOL_CHAT)
    vision = config["vision_config"]
    kind = "Idefics3" if config["model_type"] == "idefics3" else "SmolVLM"
    tile, tokens = vision["image_size"], vision["image_size"] // vision["patch_size"] // config["scale_factor"]
    common = {"do_convert_rgb": True, "do_resize": True, "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True,
              "do_pad": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 1, "max_image_size": {"longest_edge": tile}}
    sampling = {"video_sampling": {"fps": 1, "max_frames": 64, "video_size": {"longest_edge": tile}}} if kind == "SmolVLM" else {}
    write_json(folder, "preprocessor_config.json", {
        "image_processor_type": kind + "ImageProcessor", "processor_class": kind + "Processor", **common, **sampling,
        "do_image_splitting": options.get("splits", True), "size": {"longest_edge": options["longest"]}})
    write_json(folder, "processor_config.json", {"processor_class": kind + "Processor", "image_seq_len": tokens * tokens})
    if "video" in options:
        write_json(folder, "video_preprocessor_config.json", {
            "video_processor_type": "SmolVLMVideoProcessor", **common, "size": {"longest_edge": options["video"]},
            "video_sampling": {"fps": 1, "max_frames": 64, "video_size": {"longest_edge": tile}}})


# ---------------------------------------------------------------- GGUF

GGUF_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q4_k", "q6_k")


def permute(w, n_heads):
    """Rows of queries and keys as llama.cpp's converters order them: pairs (i, i + half) become neighbours."""
    return w.reshape(n_heads, 2, w.shape[0] // n_heads // 2, -1).swapaxes(1, 2).reshape(w.shape)


def gguf_sizes(arch, kind):
    """hidden, heads, key-value heads, channels a head, feed-forward, layers. transformers reads no head size of
    qwen2 from GGUF files, so its heads fill the hidden size."""
    if arch == "qwen3":
        return 64, 2, 1, 48, 96, 2
    if kind in gguf_pack.MIXES:
        return 256, 1, 1, 32, 32, 1
    if kind not in ("q4_k", "q6_k"):
        return 32, 2, 1, 16, 64, 2
    return (256, 2, 1, 32, 64, 1) if arch == "llama" else (256, 4, 1, 64, 32, 1)


def write_gguf(name, seed):
    import gguf
    arch, file = name.removeprefix("gguf_").split("_", 1)
    kind = file.removesuffix("_freqs")
    hidden, heads, kv, head_dim, ff, layers = gguf_sizes(arch, kind)
    folder = os.path.join(FOLDER, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    tied = arch == "qwen2" or kind in gguf_pack.MIXES
    config = {"llama": llama, "qwen2": qwen2, "qwen3": qwen3}[arch](
        hidden_size=hidden, num_attention_heads=heads, num_key_value_heads=kv, head_dim=head_dim, num_hidden_layers=layers,
        intermediate_size=ff, tie_word_embeddings=tied, rope_theta=20000.0)
    weights = {k: v.numpy() for k, v in draw(tensor_shapes(config), seed, tied).items()}

    w = gguf.GGUFWriter(os.path.join(folder, file + ".gguf"), arch)
    w.add_name(name)
    w.add_context_length(512)
    w.add_embedding_length(hidden)
    w.add_block_count(layers)
    w.add_feed_forward_length(ff)
    w.add_head_count(heads)
    w.add_head_count_kv(kv)
    w.add_key_length(head_dim)
    w.add_value_length(head_dim)
    w.add_rope_dimension_count(head_dim)
    w.add_rope_freq_base(20000.0)
    w.add_layer_norm_rms_eps(config["rms_norm_eps"])
    w.add_vocab_size(VOCAB)
    add_vocabulary(w)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[arch.upper()], layers)
    for k, v in weights.items():
        out = names.get_name(k, try_suffixes=(".weight", ".bias"))
        if arch == "llama" and ".q_proj." in k:
            v = permute(v, heads)
        if arch == "llama" and ".k_proj." in k:
            v = permute(v, kv)
        if v.ndim == 1:
            w.add_tensor(out, v.astype(np.float32))
        else:
            data, t = gguf_pack.pack(np.ascontiguousarray(v), gguf_pack.type_of(kind, out), kind in gguf_pack.MIXES)
            w.add_tensor(out, data, raw_dtype=t)
    if file != kind:
        w.add_tensor("rope_freqs.weight", rope_freqs(config))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def rope_freqs(config):
    """What llama.cpp's converter writes for Llama 3.1's scaling: the divisor of each inverse frequency."""
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    theta, dim = config["rope_theta"], config["head_dim"]
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](LlamaConfig(**{**config, "rope_scaling": dict(goldens.LLAMA3_ROPE)}), "cpu")
    plain = 1.0 / theta ** (torch.arange(0, dim, 2, dtype=torch.float) / dim)
    return (plain / scaled).numpy().astype(np.float32)


def add_vocabulary(w):
    from gguf import TokenType
    t = json.load(open(os.path.join(FOLDER, "tokenizer.json")))
    ids = {i: s for s, i in t["model"]["vocab"].items()}
    ids.update({a["id"]: a["content"] for a in t["added_tokens"]})
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list([ids[i] for i in range(VOCAB)])
    w.add_token_types([TokenType.CONTROL if i >= END else TokenType.NORMAL for i in range(VOCAB)])
    w.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in t["model"]["merges"]])
    w.add_bos_token_id(END)
    w.add_eos_token_id(END)
    w.add_add_bos_token(False)


# ---------------------------------------------------------------- the whole

def make(name):
    """The first seed whose greedy tokens are not closely tied. Quantised files and those of few tokens need no such care:
    their tokens are compared only where the reference is sure."""
    few = MODELS[name][3].get("tokens") if name in MODELS else None
    goldens.N_TOKENS = few or MOST_TOKENS
    for seed in range(1, 400):
        (write_gguf if name.startswith("gguf_") else write_checkpoint)(name, seed)
        path = goldens.model_path_of(name)
        tokenizer = goldens.tokenizer_of(FOLDER) if path.endswith(".gguf") else None
        quantised = goldens.is_quantised(path) or few or name == "internvl_chat"  # whose weights are given
        try:
            cases, values = goldens.golden(path, tokenizer=tokenizer, min_gap=0 if quantised else MIN_GAP)
        except goldens.TooClose:
            continue
        if min(len(set(c["tokens"])) for c in cases) >= (3 if few else 6):
            return goldens.write_golden(name, path, cases, values)
    raise SystemExit(f"{name}: no seed gives clear tokens")


def main():
    os.makedirs(FOLDER, exist_ok=True)
    names = list(MODELS) + [f"gguf_{a}_{t}" for a in ("llama", "qwen2") for t in GGUF_TYPES]
    names += ["gguf_llama_f32_freqs", "gguf_qwen3_f32", "gguf_qwen3_q8_0"] + [f"gguf_llama_{m}" for m in gguf_pack.MIXES]
    packed = sorted(f for f in os.listdir(FOLDER) if f.startswith("packed_"))  # make_packed_models.py
    tokenizer = os.path.join(FOLDER, "tokenizer.json")
    if not os.path.exists(tokenizer):
        make_tokenizer().save(tokenizer, pretty=False)
        make_pictures()
        make_frames()
    demo = ["demo"] if os.path.exists(os.path.join(FOLDER, "demo")) else []
    write_json(FOLDER, "index.json", names + packed + demo)
    for name in sys.argv[1:] or names:
        make(name)


if __name__ == "__main__":
    torch.manual_seed(0)
    import transformers
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    main()
