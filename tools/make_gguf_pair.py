#!/usr/bin/env python3
"""A small vision-language model's folder as two GGUF files, the language model and its vision half, as llama.cpp's
converters write them (convert_hf_to_gguf.py with and without --mmproj), and as a twin of the folder that says exactly
what the two say.

    tools/make_gguf_pair.py FOLDER OUT [--type f32|f16|bf16|q8_0] [--old] [--apart] [--no-image-token] [--wide] [--pad]
                            [--bare] [--lite] [--sentencepiece] [--layers N]
    tools/make_gguf_pair.py --set OUT

OUT receives model.gguf, mmproj.gguf, twin/ and cases.json (the folder's golden conversations). The twin's weights are
rounded as the files' are; what no key of GGUF says (how many tokens a second of Qwen2.5-VL's takes, a processor of
videos) is in it as published folders have it; Qwen's control tokens have their usual names in both.
--old: as converters of 2023 to early 2025, with the feed-forward matrices' names exchanged and flags for the projector.
--apart: queries, keys and values in three tensors that do not lie in one piece.
--no-image-token: a vocabulary without the picture's token. --pad: pictures made square.
A folder without a vision half gives model.gguf alone.
--bare: no keys but those that llama.cpp's converter writes; the twin says what they mean. --layers: the language model's
layers again and again, until there are so many.
--wide: weights drawn anew in a tower, or a language model alone, whose rows are whole blocks of q8_0.
--lite: DeepSeek-V3 as DeepSeek-V2-Lite.
--sentencepiece: a vocabulary of SentencePiece's kind with a token <s>, and no key that says whether texts begin with it.
--set: the pairs that tests/unit/test_mmproj.c reads, each in a folder of its own, and their index.json.
For folders of test size: numbers are converted one by one. Needs nothing but Python."""
import argparse
import array
import base64
import json
import math
import os
import random
import re
import shutil
import struct
import sys

from gguf_bytes import text, value

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ALIGNMENT = 32
TYPES = {"f32": 0, "f16": 1, "q8_0": 8, "bf16": 30}
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6


# ---------------------------------------------------------------- numbers

def f16(values):
    return struct.pack(f"<{len(values)}e", *values)


def from_f16(data):
    return array.array("f", struct.unpack(f"<{len(data) // 2}e", data))


def bf16(values):
    """Rounded to nearest, ties to even."""
    bits = array.array("I", array.array("f", values).tobytes())
    return array.array("H", [(b + 0x7FFF + (b >> 16 & 1)) >> 16 for b in bits]).tobytes()


def from_bf16(data):
    return array.array("f", array.array("I", [h << 16 for h in array.array("H", data)]).tobytes())


def q8_0(values):
    out = b""
    for i in range(0, len(values), 32):
        block = values[i:i + 32]
        d = max(map(abs, block)) / 127
        inverse = 1 / d if d else 0
        out += struct.pack("<e32b", d, *(max(-127, min(127, round(v * inverse))) for v in block))
    return out


def from_q8_0(data):
    out = array.array("f")
    for i in range(0, len(data), 34):
        d, *q = struct.unpack_from("<e32b", data, i)
        out.extend(d * n for n in q)
    return out


def f32(values):
    return array.array("f", values).tobytes()


def from_f32(data):
    return array.array("f", data)


PACK = {"f32": (f32, from_f32), "f16": (f16, from_f16), "bf16": (bf16, from_bf16), "q8_0": (q8_0, from_q8_0)}


class Tensor:
    def __init__(self, shape, values):
        self.shape, self.values = list(shape), array.array("f", values)

    def rows(self, first, last):
        n = len(self.values) // self.shape[0]
        return Tensor([last - first] + self.shape[1:], self.values[first * n:last * n])


# ---------------------------------------------------------------- a Hugging Face folder

def read_json(folder, name):
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def write_json(folder, name, content):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        json.dump(content, f, ensure_ascii=False, indent=1)


def read_tensors(folder):
    out = {}
    for name in sorted(n for n in os.listdir(folder) if n.endswith(".safetensors")):
        with open(os.path.join(folder, name), "rb") as f:
            data = f.read()
        n = struct.unpack_from("<Q", data)[0]
        for key, t in json.loads(data[8:8 + n]).items():
            if key != "__metadata__":
                first, last = t["data_offsets"]
                out[key] = Tensor(t["shape"], PACK[t["dtype"].lower()][1](data[8 + n + first:8 + n + last]))
    return out


def write_tensors(folder, tensors):
    header, at, blob = {}, 0, b""
    for name, t in sorted(tensors.items()):
        data = f32(t.values)
        header[name] = {"dtype": "F32", "shape": t.shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
        blob += data
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + blob)


# ---------------------------------------------------------------- GGUF

class Writer:
    """Tensors in the order in which they are added; matrices in the type that is asked for, where rows allow it."""

    def __init__(self, kind):
        self.kind, self.keys, self.tensors = kind, {}, []

    def add(self, name, t, as_f32=False, kind=None):
        """The values as they can be read back."""
        kind = kind or ("f32" if as_f32 or len(t.shape) == 1 else self.kind)
        if kind == "q8_0" and (t.shape[-1] % 32 or len(t.shape) > 3):
            kind = "f16"
        pack, unpack = PACK[kind]
        data = pack(t.values)
        self.tensors.append((name, t.shape, TYPES[kind], data))
        return unpack(data)

    def gap(self):
        """So that what follows does not lie right behind what is there."""
        self.tensors.append(("unused.%d" % len(self.tensors), [8], TYPES["f32"], bytes(32)))

    def write(self, path):
        head, blob = b"", b""
        for name, shape, kind, data in self.tensors:
            dims = shape[::-1]
            head += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, len(blob))
            blob += data + bytes(-len(data) % ALIGNMENT)
        start = b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(self.keys))
        start += b"".join(text(k) + value(v) for k, v in self.keys.items()) + head
        with open(path, "wb") as f:
            f.write(start + bytes(-len(start) % ALIGNMENT) + blob)


# ---------------------------------------------------------------- the language model

ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "qwen2_vl": "qwen2vl",
                 "qwen2_5_vl": "qwen2vl", "qwen3_vl": "qwen3vl", "gemma2": "gemma2", "gemma3": "gemma3", "granite": "granite",
                 "olmo2": "olmo2", "smollm3": "smollm3", "qwen3_moe": "qwen3moe", "qwen3_vl_moe": "qwen3vlmoe",
                 "phi3": "phi3", "mixtral": "llama", "olmoe": "olmoe", "granitemoe": "granitemoe", "glm4_moe": "glm4moe",
                 "glm4": "glm4", "glm4v": "glm4", "glm_ocr": "glm4", "glm4v_moe": "glm4moe", "deepseek_v3": "deepseek2", "deepseek_v2": "deepseek2", "kimi_vl": "deepseek2",
                 "qwen3_next": "qwen3next", "paddleocr_vl": "paddleocr",
                 "qwen3_5": "qwen35", "qwen3_5_moe": "qwen35moe"}
NEIGHBOURS = ("llama", "granite", "smollm3", "granitemoe")  # architectures whose rope turns neighbouring channels
LAYER = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
         "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "self_attn.q_proj": "attn_q",
         "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
         "self_attn.k_norm": "attn_k_norm", "mlp.gate": "ffn_gate_inp",
         "block_sparse_moe.gate": "ffn_gate_inp", "block_sparse_moe.router.layer": "ffn_gate_inp", "self_attn.qkv_proj": "attn_qkv",
         "mlp.gate_up_proj": "ffn_up", "mlp.shared_experts.gate_proj": "ffn_gate_shexp", "mlp.shared_experts.up_proj": "ffn_up_shexp",
         "mlp.shared_experts.down_proj": "ffn_down_shexp"}
HYBRID = {"post_attention_layernorm": "post_attention_norm", "linear_attn.in_proj_qkv": "attn_qkv", "linear_attn.in_proj_z": "attn_gate",
          "linear_attn.in_proj_qkvz": "ssm_in", "linear_attn.in_proj_ba": "ssm_ba", "linear_attn.in_proj_a": "ssm_alpha", "linear_attn.in_proj_b": "ssm_beta", "linear_attn.out_proj": "ssm_out",
          "linear_attn.conv1d": "ssm_conv1d", "linear_attn.norm": "ssm_norm", "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
          "mlp.shared_expert.up_proj": "ffn_up_shexp", "mlp.shared_expert.down_proj": "ffn_down_shexp",
          "mlp.shared_expert_gate": "ffn_gate_inp_shexp"}
LATENT = {"self_attn.q_a_proj": "attn_q_a", "self_attn.q_b_proj": "attn_q_b", "self_attn.q_a_layernorm": "attn_q_a_norm",
          "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm", "self_attn.kv_b_proj": "attn_kv_b"}
GLM4 = {"post_self_attn_layernorm": "post_attention_norm", "post_mlp_layernorm": "post_ffw_norm"}
POST_NORMS = {"pre_feedforward_layernorm": "ffn_norm", "post_attention_layernorm": "post_attention_norm",
              "post_feedforward_layernorm": "post_ffw_norm"}


def text_name(key, layer={}):
    """The tensor's name in GGUF; None: it is not the language model's."""
    if any(part in key for part in ("vis", "projector", "mlp_AR", "connector", "newline")):
        return None
    m = re.search(r"\blayers\.(\d+)\.mlp\.gate\.e_score_correction_bias$", key)
    if m:
        return f"blk.{m[1]}.exp_probs_b.bias"
    m = re.search(r"\blayers\.(\d+)\.linear_attn\.(A_log|dt_bias)$", key)
    if m:
        return f"blk.{m[1]}." + {"A_log": "ssm_a", "dt_bias": "ssm_dt.bias"}[m[2]]
    m = re.search(r"\blayers\.(\d+)\.(.+)\.(weight|bias)$", key)
    if m:
        return f"blk.{m[1]}.{layer.get(m[2]) or LAYER.get(m[2], m[2])}.{m[3]}"
    return {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output"}[key.split(".")[-2]] + ".weight"


def permute(t, n_heads):
    """Halves of a head's rows by turns: how llama.cpp has rope's pairs in files of the llama architecture."""
    rows, n = t.shape[0], len(t.values) // t.shape[0]
    half, out = rows // n_heads // 2, array.array("f")
    for h in range(n_heads):
        for i in range(half):
            for part in range(2):
                r = h * 2 * half + part * half + i
                out.extend(t.values[r * n:(r + 1) * n])
    return Tensor(t.shape, out)


def unpermute(values, t, n_heads):
    order = permute(Tensor([t.shape[0], 1], range(t.shape[0])), n_heads).values
    n, out = len(values) // t.shape[0], array.array("f", values)
    for i, r in enumerate(order):
        out[int(r) * n:(int(r) + 1) * n] = values[i * n:(i + 1) * n]
    return out


def halves(t, n_heads, dim, turned):
    """GLM-4.1V's: of the channels of a head that are turned, neighbours as halves. Which row is where."""
    order = [h * dim + i for h in range(n_heads) for i in (*range(0, turned, 2), *range(1, turned, 2), *range(turned, dim))]
    n = len(t.values) // t.shape[0]
    return [r * n + i for r in order for i in range(n)]


class Hybrid:
    """What llama.cpp's converter changes of tensors of Qwen3.5's kind: norms have the 1, decays are made, and value heads of a key head,
    which are neighbours, stand as far apart as there are key heads."""

    def __init__(self, c):
        self.keys, self.per = c["linear_num_key_heads"], c["linear_num_value_heads"] // c["linear_num_key_heads"]
        self.value_dim, self.before = c["linear_value_head_dim"], 2 * c["linear_num_key_heads"] * c["linear_key_head_dim"]

    def order(self, name, t):
        """Which of its rows, or columns, is where."""
        heads = lambda first, dim: [*range(first), *(first + (i * self.per + j) * dim + d for j in range(self.per) for i in range(self.keys)
                                                     for d in range(dim))]
        part = re.sub(r"blk\.\d+\.", "", name)
        if part in ("attn_qkv.weight", "ssm_conv1d.weight"):
            return heads(self.before, self.value_dim), t.shape[0], False
        if part in ("attn_gate.weight", "ssm_out.weight"):
            return heads(0, self.value_dim), t.shape[0], part == "ssm_out.weight"
        if part in ("ssm_a", "ssm_dt.bias", "ssm_alpha.weight", "ssm_beta.weight"):
            return heads(0, 1), t.shape[0], False
        return None, 0, False

    def places(self, name, t):
        """Of each number of the file its place in the folder."""
        order, rows, by_column = self.order(name, t)
        n = len(t.values) // rows if rows else 0
        if order is None:
            return range(len(t.values))
        return [r * n + i for r in range(rows) for i in order] if by_column else [r * n + i for r in order for i in range(n)]

    def change(self, name, v):
        return -math.exp(v) if name.endswith("ssm_a") else v + 1 if self.has_one(name) else v

    def change_back(self, name, v):
        return math.log(-v) if name.endswith("ssm_a") else v - 1 if self.has_one(name) else v

    def has_one(self, name):
        return name.endswith("norm.weight") and not name.endswith("ssm_norm.weight")

    def add(self, w, name, t):
        places = self.places(name, t)
        shape = [n for n in t.shape if n > 1] if "conv1d" in name else t.shape
        read = w.add(name, Tensor(shape, (self.change(name, t.values[i]) for i in places)), as_f32="conv1d" in name)
        out = array.array("f", t.values)
        for i, v in zip(places, read):
            out[i] = self.change_back(name, v)
        return out


def latent_keys(c, rope, old):
    """Of multi-head latent attention. old: as converters before 2025 had it, for caches of keys and values."""
    turned, length, rank = c["qk_rope_head_dim"], c["qk_nope_head_dim"] + c["qk_rope_head_dim"], c["kv_lora_rank"]
    lengths = {"attention.key_length": length, "attention.value_length": c["v_head_dim"]} if old else {
        "attention.head_count_kv": 1, "attention.key_length": rank + turned, "attention.value_length": rank,
        "attention.key_length_mla": length, "attention.value_length_mla": c["v_head_dim"]}
    keys = {**lengths, "attention.kv_lora_rank": rank, "rope.dimension_count": turned, "expert_count": c["n_routed_experts"],
            "expert_used_count": c["num_experts_per_tok"], "expert_shared_count": c["n_shared_experts"],
            "expert_feed_forward_length": c["moe_intermediate_size"], "leading_dense_block_count": c["first_k_dense_replace"],
            "expert_weights_scale": float(c["routed_scaling_factor"]), "expert_weights_norm": bool(c["norm_topk_prob"]),
            "expert_gating_func": 2 if c["model_type"] == "deepseek_v3" else 1}
    if c["model_type"] == "deepseek_v3":
        keys.update({"expert_group_count": c["n_group"], "expert_group_used_count": c["topk_group"]})
    if c.get("q_lora_rank"):
        keys["attention.q_lora_rank"] = c["q_lora_rank"]
    if rope:
        keys.update({"rope.scaling.type": "yarn", "rope.scaling.factor": float(rope["factor"]),
                     "rope.scaling.original_context_length": rope["original_max_position_embeddings"],
                     "rope.scaling.yarn_log_multiplier": 0.1 * rope["mscale_all_dim"]})
    return keys


def add_latents(w, name, t, c, old):
    """kv_b as the file has it: whole, or keys turned round and values, of each head."""
    heads, nope, values, rank = c["num_attention_heads"], c["qk_nope_head_dim"], c["v_head_dim"], c["kv_lora_rank"]
    if old:
        return w.add(name, t)
    at = lambda h, i, r: (h * (nope + values) + i) * rank + r
    parts = {"k": ([heads, rank, nope], [at(h, i, r) for h in range(heads) for r in range(rank) for i in range(nope)]),
             "v": ([heads, values, rank], [at(h, nope + i, r) for h in range(heads) for i in range(values) for r in range(rank)])}
    out = array.array("f", t.values)
    for part, (shape, places) in parts.items():
        for place, v in zip(places, w.add(name.replace("kv_b", part + "_b"), Tensor(shape, (t.values[i] for i in places)))):
            out[place] = v
    return out


def add_regrouped(w, name, t, c, old):
    """Qwen3-Next's rows of a key head, kind by kind; old: as they are."""
    if old:
        return w.add(name, t)
    heads, key = c["linear_num_key_heads"], c["linear_key_head_dim"]
    values = c["linear_num_value_heads"] // heads * c["linear_value_head_dim"]
    n, each = len(t.values) // t.shape[0], 2 * (key + values)
    rows = lambda first, count: [h * each + first + i for h in range(heads) for i in range(count)]
    out = array.array("f", t.values)
    for part, order in (("attn_qkv", rows(0, key) + rows(key, key) + rows(2 * key, values)), ("attn_gate", rows(2 * key + values, values))):
        places = [r * n + i for r in order for i in range(n)]
        for place, v in zip(places, w.add(name.replace("ssm_in", part), Tensor([len(order), n], (t.values[i] for i in places)))):
            out[place] = v
    return out


def make_lite(config, tensors):
    """DeepSeek-V3 as DeepSeek-V2-Lite: scores are a softmax, and queries have no latent."""
    config.update({"model_type": "deepseek_v2", "architectures": ["DeepseekV2ForCausalLM"], "q_lora_rank": None, "topk_method": "greedy",
                   "scoring_func": "softmax", "norm_topk_prob": False, "routed_scaling_factor": 1.0, "n_group": 1, "topk_group": 1})
    r, hidden = random.Random(2), config["hidden_size"]
    rows = config["num_attention_heads"] * (config["qk_nope_head_dim"] + config["qk_rope_head_dim"])
    for key in list(tensors):
        if "self_attn.q_b_proj" in key:
            tensors[key.replace("q_b_proj", "q_proj")] = Tensor([rows, hidden], (r.gauss(0, hidden ** -0.5) for _ in range(rows * hidden)))
        if any(part in key for part in ("q_a_proj", "q_a_layernorm", "q_b_proj", "e_score_correction_bias")):
            del tensors[key]


def suit_gguf(config, tensors):
    """What GGUF has no words for, as published models have it."""
    if config["model_type"].startswith("deepseek"):
        config["attention_bias"] = False
        for key in [k for k in tensors if k.endswith(("kv_a_proj_with_mqa.bias", "q_a_proj.bias", "o_proj.bias"))]:
            del tensors[key]
        if config.get("rope_scaling"):
            config["rope_scaling"]["mscale"] = config["rope_scaling"]["mscale_all_dim"]
    if config["model_type"] == "qwen3_next":  # experts in every layer
        config["norm_topk_prob"] = True
        for layer in config.pop("mlp_only_layers", []):
            for key in [k for k in tensors if f".layers.{layer}.mlp." in k]:
                del tensors[key]
            for key in [k for k in tensors if ".layers.0.mlp." in k]:
                tensors[key.replace(".layers.0.", f".layers.{layer}.")] = Tensor(tensors[key].shape, tensors[key].values)


def hybrid_keys(c):
    types = c.get("layer_types") or []
    keys = {"ssm.conv_kernel": c["linear_conv_kernel_dim"], "ssm.state_size": c["linear_key_head_dim"], "ssm.group_count": c["linear_num_key_heads"],
            "ssm.time_step_rank": c["linear_num_value_heads"], "ssm.inner_size": c["linear_num_value_heads"] * c["linear_value_head_dim"]}
    layers = {"attention.recurrent_layers": [t == "linear_attention" for t in types]} if types else {
        "full_attention_interval": c.get("full_attention_interval", 4)}
    experts = {"expert_count": c["num_experts"], "expert_used_count": c["num_experts_per_tok"],
               "expert_feed_forward_length": c["moe_intermediate_size"],
               "expert_shared_feed_forward_length": c["shared_expert_intermediate_size"]} if "num_experts" in c else {}
    return {**keys, **layers, **experts}


def scores_of(tokens, merges):
    """SentencePiece's way: what is merged earlier has the higher score."""
    scores = dict.fromkeys(tokens, -1e9)
    for i, m in enumerate(merges):
        if scores.get(m.replace(" ", ""), 0) < -1e8:
            scores[m.replace(" ", "")] = -float(i)
    return [scores[t] for t in tokens]


def complete(tokenizer):
    """Merges of a token from all its halves, as SentencePiece's vocabularies become merges: scores tell no more."""
    model = tokenizer["model"]
    if not model.get("byte_fallback"):
        return
    merges = []
    for left, right in model["merges"]:
        token = left + right
        halves = [[token[:i], token[i:]] for i in range(1, len(token)) if token[:i] in model["vocab"] and token[i:] in model["vocab"]]
        merges += [m for m in halves if m not in merges]
    model["merges"] = merges


SPLITS = { # of DeepSeek's tokenizers: what GGUF calls a list of patterns
    "deepseek-v3": [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
                    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
                    r"\s*[\r\n]+|\s+(?!\S)|\s+"],
    "deepseek-llm": [r"[\r\n]", r"\s?[\p{Lu}\p{Ll}\p{Lt}]+", "\\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"],
}
SPLIT_TEXTS = ["On 2024-12-26 it cost $1234567.89, not 12!", "它有 671B 个参数。カタカナ、한글", "don't  stop;\n\n  x_1 = [a.b]  \n", "Ωmega ȺȾ µm ﬁne naïve"]


def with_pieces(tokenizer):
    """280 tokens of SentencePiece's kind, as many as there are, which the template's own stay behind. Nothing is put before a text."""
    begin = ["<unk>", "<s>", "</s>"]
    merges = [["\u2581", "t"], ["h", "e"], ["\u2581t", "he"], *map(list, ("in", "an", "re", "er", "ou"))]
    tokens = begin + [f"<0x{b:02X}>" for b in range(256)] + list("\u2581etaoinsrhldu") + ["".join(m) for m in merges]
    assert len(tokens) == len(tokenizer["model"]["vocab"])
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    tokenizer["added_tokens"] = [{"id": i, "content": t, **special} for i, t in enumerate(begin)] + tokenizer["added_tokens"]
    spaces = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    back = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
    tokenizer.update(normalizer=spaces, pre_tokenizer=None, post_processor=None,
                     decoder={"type": "Sequence", "decoders": [back, {"type": "ByteFallback"}, {"type": "Fuse"}]})
    tokenizer["model"].update(byte_fallback=True, fuse_unk=True, unk_token="<unk>", vocab={t: i for i, t in enumerate(tokens)}, merges=merges)


def split_by(tokenizer, name):
    split = [{"type": "Split", "pattern": {"Regex": p}, "behavior": "Isolated", "invert": False} for p in SPLITS[name]]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    tokenizer["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": split + [level]}


def char_of_byte(b):
    """The character that stands for a byte, as in GPT-2's vocabularies."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return chr(b if b in shown else 256 + sum(i not in shown for i in range(b)))


def joined(piece, ranks, below):
    """Bytes joined by merges of tokens of a lower rank, the lowest first."""
    parts = [bytes([b]) for b in piece]
    while len(parts) > 1:
        rank, at = min((ranks.get(a + b, below), i) for i, (a, b) in enumerate(zip(parts, parts[1:])))
        if rank >= below:
            break
        parts[at:at + 2] = [parts[at] + parts[at + 1]]
    return parts


def tokenizer_of_ranks(folder):
    """tiktoken.model as a tokenizer.json would have it: what two tokens a token is made of llama.cpp's converter finds out likewise."""
    with open(os.path.join(folder, "tiktoken.model"), "rb") as f:
        ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, f.read().splitlines())}
    text = lambda b: "".join(map(char_of_byte, b))
    merges = [" ".join(map(text, joined(token, ranks, rank))) for token, rank in ranks.items() if len(token) > 1]
    named = read_json(folder, "tokenizer_config.json")["added_tokens_decoder"]
    added = [{"id": i, "content": named.get(str(i), {"content": f"<|reserved_token_{i}|>"})["content"]} for i in range(len(ranks), len(ranks) + 256)]
    return {"model": {"vocab": {text(b): i for b, i in ranks.items()}, "merges": merges}, "added_tokens": added, "splits": "kimi-k2"}


def name_of_splits(tokenizer):
    if "splits" in tokenizer:
        return tokenizer["splits"]
    parts = (tokenizer.get("pre_tokenizer") or {}).get("pretokenizers", [])
    patterns = [p["pattern"]["Regex"] for p in parts if p["type"] == "Split" and "Regex" in p["pattern"]]
    return next((name for name, known in SPLITS.items() if known == patterns), "gpt-2")


def vocabulary(w, tokenizer, template):
    ids = {i: s for s, i in tokenizer["model"]["vocab"].items()}
    added = {a["id"]: a["content"] for a in tokenizer["added_tokens"]}
    names = {**ids, **added}
    merges = [m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]]
    tokens = [names[i] for i in range(len(names))]
    types = [CONTROL if i in added else NORMAL for i in range(len(names))]
    if tokenizer["model"].get("byte_fallback"):
        types = [BYTE if re.fullmatch("<0x..>", t) else k for t, k in zip(tokens, types)]
        unknown = tokens.index(tokenizer["model"]["unk_token"])
        types[unknown] = UNKNOWN
        w.keys.update({"tokenizer.ggml.model": "llama", "tokenizer.ggml.pre": "default",
                       "tokenizer.ggml.scores": scores_of(tokens, merges), "tokenizer.ggml.unknown_token_id": unknown,
                       "tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.add_space_prefix": False})
    else:
        w.keys.update({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": name_of_splits(tokenizer), "tokenizer.ggml.merges": merges,
                       "tokenizer.ggml.add_bos_token": False})
    w.keys.update({"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types})
    if template:
        w.keys["tokenizer.chat_template"] = template


def gemma_keys(arch, c, bare):
    """Those of one of Gemma's, without the architecture. attention.scale and rope.freq_base_swa llama.cpp's converter
    leaves out."""
    ropes = c.get("rope_parameters") or {}
    full = ropes.get("full_attention") or c.get("rope_scaling") or {}
    local = float(ropes.get("sliding_attention", {}).get("rope_theta", c.get("rope_local_base_freq", 1e4)))
    keys = {"attention.sliding_window": c["sliding_window"]}
    if arch == "gemma3":
        keys["rope.freq_base"] = float(full.get("rope_theta", c["rope_theta"]))
    if full.get("rope_type") == "linear":
        keys.update({"rope.scaling.type": "linear", "rope.scaling.factor": float(full["factor"])})
    if c.get("attn_logit_softcapping"):
        keys["attn_logit_softcapping"] = c["attn_logit_softcapping"]
    if c.get("final_logit_softcapping"):
        keys["final_logit_softcapping"] = c["final_logit_softcapping"]
    if not bare:
        keys["attention.scale"] = c.get("query_pre_attn_scalar", 256) ** -0.5
        if arch == "gemma3":
            keys["rope.freq_base_swa"] = local
            keys["attention.sliding_window_pattern"] = (
                [t == "sliding_attention" for t in c["layer_types"]] if "layer_types" in c else c.get("sliding_window_pattern", 6))
    return keys


def own_keys(arch, c, bare):
    if arch.startswith("gemma"):
        return gemma_keys(arch, c, bare)
    if arch.startswith("qwen35") or arch == "qwen3next":
        return hybrid_keys(c)
    if arch == "phi3":
        longer = c["max_position_embeddings"] / c["original_max_position_embeddings"]
        scale = math.sqrt(1 + math.log(longer) / math.log(c["original_max_position_embeddings"])) if longer > 1 else 1.0
        scale = {"rope.scaling.attn_factor": scale} if c["rope_scaling"] else {}
        return {"rope.scaling.original_context_length": c["original_max_position_embeddings"], "attention.sliding_window": c["sliding_window"] or 0, **scale}
    if arch.startswith("granite"):
        moe = {"expert_count": c["num_local_experts"], "expert_used_count": c["num_experts_per_tok"]} if arch == "granitemoe" else {}
        return {**moe, "embedding_scale": c["embedding_multiplier"], "attention.scale": c["attention_multiplier"],
                "residual_scale": c["residual_multiplier"], "logit_scale": c["logits_scaling"]}
    if arch == "glm4moe":  # block_count has the layers behind the last
        c = {"num_nextn_predict_layers": 0, **c}
        groups = {"expert_group_count": c["n_group"], "expert_group_used_count": c["topk_group"]}
        norm = {"expert_weights_norm": True} if c["norm_topk_prob"] else {}
        return {"block_count": c["num_hidden_layers"] + c["num_nextn_predict_layers"], "nextn_predict_layers": c["num_nextn_predict_layers"],
                "expert_count": c["n_routed_experts"], "expert_used_count": c["num_experts_per_tok"], "expert_shared_count": c["n_shared_experts"],
                "expert_feed_forward_length": c["moe_intermediate_size"], "leading_dense_block_count": c["first_k_dense_replace"],
                "expert_gating_func": 2, "expert_weights_scale": float(c["routed_scaling_factor"]), **groups, **norm}
    if arch == "glm4" and c.get("num_nextn_predict_layers"):
        return {"block_count": c["num_hidden_layers"] + c["num_nextn_predict_layers"], "nextn_predict_layers": c["num_nextn_predict_layers"]}
    if arch == "olmoe" or "num_local_experts" in c:
        return {"expert_count": c.get("num_experts") or c["num_local_experts"], "expert_used_count": c["num_experts_per_tok"]}
    if arch.endswith("moe"):
        return {"expert_count": c["num_experts"], "expert_used_count": c["num_experts_per_tok"],
                "expert_feed_forward_length": c["moe_intermediate_size"], "expert_gating_func": 1}
    return {}


EXPERT = re.compile(r"(.*\.(?:mlp|block_sparse_moe)\.experts)\.(\d+)\.(gate_proj|up_proj|down_proj|w1|w2|w3)\.weight$")
EXPERT_PART = {"w1": "gate", "w2": "down", "w3": "up", "gate_proj": "gate", "up_proj": "up", "down_proj": "down"}
GRANITE_EXPERTS = re.compile(r".*\.block_sparse_moe\.(input|output)_linear\.weight$")


def part_experts(config, tensors):
    """All of a layer's in one tensor, with rows and columns exchanged, to one each."""
    c = config.get("text_config", config)
    for key in [k for k in tensors if k.endswith((".experts.gate_up_proj", ".experts.down_proj"))]:
        t, base = tensors.pop(key), key.rpartition(".")[0]
        if c["model_type"].startswith(("qwen3_5", "glm4", "deepseek", "qwen3_next")): # as nn.Linear has them
            rows = t.shape[1]
            for e in range(t.shape[0]):
                m = Tensor(t.shape[1:], t.values[e * rows * t.shape[2]:(e + 1) * rows * t.shape[2]])
                parts = {"gate": m.rows(0, rows // 2), "up": m.rows(rows // 2, rows)} if "gate_up" in key else {"down": m}
                tensors.update({f"{base}.{e}.{name}_proj.weight": x for name, x in parts.items()})
            continue
        assert t.shape[1] == (c["hidden_size"] if "gate_up" in key else c["moe_intermediate_size"])
        rows, columns = t.shape[2], t.shape[1]
        for e in range(t.shape[0]):
            m = t.values[e * rows * columns:(e + 1) * rows * columns]
            whole = Tensor([rows, columns], (m[j * rows + i] for i in range(rows) for j in range(columns)))
            parts = {"gate": whole.rows(0, rows // 2), "up": whole.rows(rows // 2, rows)} if "gate_up" in key else {"down": whole}
            tensors.update({f"{base}.{e}.{name}_proj.weight": x for name, x in parts.items()})


def add_experts(w, tensors):
    stacks = {}
    for key, t in tensors.items():
        m = EXPERT.match(key)
        if m:
            layer = re.search(r"layers\.(\d+)\.", key)[1]
            stacks.setdefault(f"blk.{layer}.ffn_{EXPERT_PART[m[3]]}_exps.weight", []).append((int(m[2]), t))
    for name, experts in stacks.items():
        experts = [t for _, t in sorted(experts, key=lambda e: e[0])]
        read = w.add(name, Tensor([len(experts)] + experts[0].shape, (v for t in experts for v in t.values)))
        n = len(experts[0].values)
        for e, t in enumerate(experts):
            t.values = read[e * n:(e + 1) * n]


def add_granite_experts(w, tensors):
    """Gate and up of all experts apart."""
    for key, t in tensors.items():
        m = GRANITE_EXPERTS.match(key)
        if not m:
            continue
        layer, rows = re.search(r"layers\.(\d+)\.", key)[1], t.shape[1]
        names = ("gate", "up") if m[1] == "input" else ("down",)
        each, n = rows // len(names), t.shape[2] * (rows // len(names))
        out = array.array("f", t.values)
        for i, name in enumerate(names):
            at = [(e * len(names) + i) * n for e in range(t.shape[0])]
            read = w.add(f"blk.{layer}.ffn_{name}_exps.weight", Tensor([t.shape[0], each, t.shape[2]], (v for a in at for v in t.values[a:a + n])))
            for e, a in enumerate(at):
                out[a:a + n] = read[e * n:(e + 1) * n]
        t.values = out


def add_layers_behind(w, c):
    """Those that guess tokens ahead, which nobody here reads: the numbers of the first."""
    size, n = c["hidden_size"], c["num_hidden_layers"]
    first = [(name, shape, kind, data) for name, shape, kind, data in w.tensors if name.startswith("blk.0.")]
    for i in range(n, n + c["num_nextn_predict_layers"]):
        w.tensors += [(name.replace("blk.0.", f"blk.{i}."), shape, kind, data) for name, shape, kind, data in first]
        w.add(f"blk.{i}.nextn.eh_proj.weight", Tensor([size, 2 * size], [2.0] * (2 * size * size)))
        for norm in ("enorm", "hnorm", "shared_head_norm"):
            w.add(f"blk.{i}.nextn.{norm}.weight", Tensor([size], [2.0] * size))


def write_language(path, config, tensors, tokenizer, template, args):
    c = config.get("text_config", config)
    c = {**{"rope_theta": 1e6 if "gemma3" in c["model_type"] else 10000.0, "num_key_value_heads": c["num_attention_heads"]}, **c}
    vision_type, kind_of = config["model_type"], c.get("model_type", config["model_type"]).removesuffix("_text")
    arch = ARCHITECTURES[vision_type if vision_type in ARCHITECTURES else kind_of]
    is_gemma = arch.startswith("gemma")
    rope = {} if is_gemma else c.get("rope_parameters") or c.get("rope_scaling") or {}
    heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
    head_dim = c.get("head_dim") or c["hidden_size"] // heads
    w = Writer(args.type)
    w.keys.update({
        "general.architecture": arch, "general.type": "model", "general.name": "tiny",
        f"{arch}.context_length": c["max_position_embeddings"], f"{arch}.embedding_length": c["hidden_size"],
        f"{arch}.block_count": c["num_hidden_layers"],
        **({f"{arch}.feed_forward_length": c["intermediate_size"]} if "intermediate_size" in c else {}),
        f"{arch}.attention.head_count": heads, f"{arch}.attention.head_count_kv": kv,
        f"{arch}.attention.key_length": head_dim, f"{arch}.attention.value_length": head_dim,
        f"{arch}.rope.dimension_count": int(head_dim * rope.get("partial_rotary_factor", c.get("partial_rotary_factor", 0.25 if arch.startswith("qwen35") else 1))),
        f"{arch}.rope.freq_base": float(rope.get("rope_theta", c["rope_theta"])),
        f"{arch}.attention.layer_norm_rms_epsilon": float(c["rms_norm_eps"])})
    if c.get("sliding_window") and kind_of in ("mistral", "mixtral"):
        w.keys[f"{arch}.attention.sliding_window"] = c["sliding_window"]
    if "mrope_section" in rope:
        w.keys[f"{arch}.rope.dimension_sections"] = rope["mrope_section"] + [0]
    if arch.startswith("qwen3vl"):
        w.keys[f"{arch}.n_deepstack_layers"] = len(config["vision_config"]["deepstack_visual_indexes"])
    own = latent_keys(c, rope, args.old) if arch == "deepseek2" else own_keys(arch, c, args.bare)
    w.keys.update({f"{arch}.{k}": v for k, v in own.items()})
    vocabulary(w, tokenizer, template)
    eos = c.get("eos_token_id", config.get("eos_token_id"))
    if isinstance(eos, list): # GLM's
        eos, w.keys["tokenizer.ggml.eot_token_id"] = eos
    if eos is not None:
        w.keys["tokenizer.ggml.eos_token_id"] = eos
        w.keys["tokenizer.ggml.bos_token_id"] = c.get("bos_token_id", eos)
    if args.sentencepiece:
        w.keys["tokenizer.ggml.bos_token_id"] = w.keys["tokenizer.ggml.tokens"].index("<s>")
        del w.keys["tokenizer.ggml.add_bos_token"]
    layer = POST_NORMS if is_gemma or arch == "olmo2" else GLM4 if arch == "glm4" else (
        {"post_attention_layernorm": "post_attention_norm"} if arch == "glm4moe" else {})
    hybrid = Hybrid(c) if arch.startswith("qwen35") or arch == "qwen3next" else None
    if arch == "qwen3next":
        hybrid.per, hybrid.keys = 1, c["linear_num_value_heads"]  # value heads stay where they are
    layer = HYBRID if hybrid else LATENT if arch == "deepseek2" else layer
    add_experts(w, tensors)
    add_granite_experts(w, tensors)
    if arch == "phi3" and c["rope_scaling"]:
        for which in ("long", "short"):
            factors = c["rope_scaling"][which + "_factor"]
            w.add(f"rope_factors_{which}.weight", Tensor([len(factors)], factors))
    for key, t in tensors.items():
        name = None if EXPERT.match(key) or GRANITE_EXPERTS.match(key) else text_name(key, layer)
        if not name:
            continue
        if ".attn_kv_b." in name:
            t.values = add_latents(w, name, t, c, args.old)
            continue
        if ".ssm_in." in name:
            t.values = add_regrouped(w, name, t, c, args.old)
            continue
        if hybrid:
            t.values = hybrid.add(w, name, t)
            continue
        if arch == "glm4" and "mrope_section" in rope and re.search(r"attn_[qk]\.", name):
            places = halves(t, heads if "attn_q" in name else kv, head_dim, w.keys["glm4.rope.dimension_count"])
            for place, v in zip(places, w.add(name, Tensor(t.shape, [t.values[i] for i in places]))):
                t.values[place] = v
            continue
        n_turned = 0 if arch not in NEIGHBOURS else heads if ".attn_q." in name else kv if ".attn_k." in name else 0
        one = 1 if is_gemma and name.endswith("norm.weight") else 0  # Gemma's norms are kept as what is added to 1
        t.values = array.array("f", (v + one for v in t.values)) if one else t.values
        read = w.add(name, permute(t, n_turned) if n_turned else t)
        t.values = unpermute(read, t, n_turned) if n_turned else array.array("f", (v - one for v in read)) if one else read
    if arch == "glm4" and own:
        add_layers_behind(w, c)
    w.write(path)


# ---------------------------------------------------------------- the vision half

TOWER = [ # of CLIP, SigLIP, InternViT and Qwen's towers
    (r"embeddings\.patch_embedding\.|embeddings\.patch_embeddings\.projection\.|patch_embed\.proj\.|patch_conv\.", "v.patch_embd."),
    (r"embeddings\.(class_embedding|cls_token)$", "v.class_embd"),
    (r"(embeddings\.position_embedding|pos_embed)\.|embeddings\.position_embeddings$", "v.position_embd."),
    (r"pre_layrnorm\.|ln_pre\.", "v.pre_ln."),
    (r"post_layernorm\.|vision_tower\.layernorm\.|merger\.(ln_q|norm)\.", "v.post_ln."),
    (r"deepstack_merger_list\.(\d+)\.(linear_)?", r"v.deepstack.\1."),
    (r"multi_modal_projector\.linear_1\.|merger\.(mlp\.0|linear_fc1)\.", "mm.0."),
    (r"multi_modal_projector\.linear_2\.|merger\.(mlp\.2|linear_fc2)\.", "mm.2."),
    (r"multi_modal_projector\.mm_input_projection_weight$", "mm.input_projection.weight"),
    (r"multi_modal_projector\.mm_soft_emb_norm\.", "mm.soft_emb_norm."),
    (r"connector\.modality_projection\.proj\.", "mm.model.fc."), (r"image_newline$", "v.image_newline"),
    (r"mlp_AR\.pre_norm\.", "mm.input_norm."), (r"mlp_AR\.linear_([12])\.", r"mm.\1."),
]
MISTRAL3 = {"norm": "mm.input_norm", "patch_merger": "mm.patch_merger", "linear_1": "mm.1", "linear_2": "mm.2"}
GLM4V = {"patch_embed.proj": "v.patch_embd", "post_conv_layernorm": "v.norm_embd", "position_embedding": "v.position_embd",
         "visual.post_layernorm": "v.post_ln", "downsample": "mm.patch_merger", "merger.proj": "mm.model.fc",
         "post_projection_norm": "mm.post_norm", "gate_proj": "mm.gate", "up_proj": "mm.up", "down_proj": "mm.down"}
KIMI_VL = {"patch_embed.proj": "v.patch_embd", "pos_emb": "v.position_embd", "final_layernorm": "v.post_ln", "pre_norm": "mm.input_norm",
           "linear_1": "mm.1", "linear_2": "mm.2"}
KIMI_VL_BLOCK = {"wqkv": "attn_qkv", "wo": "attn_out", "norm0": "ln1", "norm1": "ln2", "mlp.fc0": "ffn_up", "mlp.fc1": "ffn_down"}
INTERNVL = {"layer_norm": 0, "linear_1": 1, "linear_2": 3}
BLOCK = [("attn.qkv", "attn_qkv"), ("q_proj", "attn_q"), ("k_proj", "attn_k"), ("v_proj", "attn_v"),
         ("out_proj|attn.proj|projection_layer|attention.o_proj", "attn_out"), ("q_norm", "attn_q_norm"), ("k_norm", "attn_k_norm"),
         ("layer_norm1|norm1|layernorm_before|attention_norm", "ln1"),
         ("layer_norm2|norm2|layernorm_after|ffn_norm", "ln2"),
         ("gate_proj", "ffn_gate"), ("fc1|linear_fc1|up_proj", "ffn_up"), ("fc2|linear_fc2|down_proj", "ffn_down"),
         ("lambda_1", "ls1"), ("lambda_2", "ls2")]


PROJECTORS = {"llava": "mlp", "llava_next": "mlp", "qwen2_vl": "qwen2vl_merger", "qwen2_5_vl": "qwen2.5vl_merger",
              "qwen3_vl": "qwen3vl_merger", "qwen3_vl_moe": "qwen3vl_merger", "qwen3_5": "qwen3vl_merger",
              "qwen3_5_moe": "qwen3vl_merger", "internvl": "internvl", "smolvlm": "idefics3", "idefics3": "idefics3",
              "gemma3": "gemma3", "mistral3": "pixtral", "kimi_vl": "kimivl", "glm4v": "glm4v", "glm4v_moe": "glm4v",
              "lighton_ocr": "lightonocr", "glm_ocr": "glm4v", "paddleocr_vl": "paddleocr"}
OF_PIXTRAL = ("pixtral", "lightonocr")  # projectors over its tower


def projector_of(config):
    is_pixtral = config["model_type"] == "llava" and config["vision_config"].get("model_type") == "pixtral"
    return "pixtral" if is_pixtral else PROJECTORS[config["model_type"]]


def vision_name(key, config):
    end = key.rsplit(".", 1)[-1] if key.endswith((".weight", ".bias")) else "weight"
    m = re.search(r"(?:encoder\.layers?|transformer\.layers|blocks)\.(\d+)\.(.+?)(?:\.weight|\.bias)?$", key)
    if m and config["model_type"] == "kimi_vl":
        return f"v.blk.{m[1]}.{KIMI_VL_BLOCK[m[2]]}.{end}"
    if m:
        part = next(g for p, g in BLOCK if re.search(rf"(?:^|\.)(?:{p})$", m[2]))
        return f"v.blk.{m[1]}.{part}.{end}"
    if config["model_type"] == "kimi_vl":
        return next(g for p, g in KIMI_VL.items() if p in key) + f".{end}"
    m = re.search(r"(?:multi_modal_projector|vision_projection)\.(\w+)\.", key)
    if m and config["model_type"] == "internvl":
        return f"mm.model.mlp.{INTERNVL[m[1]]}.{end}"
    if m and projector_of(config) in OF_PIXTRAL:
        return f"{MISTRAL3[m[1]]}.{end}"
    if projector_of(config) == "glm4v":
        return next(g for p, g in GLM4V.items() if p in key) + f".{end}"
    for pattern, name in TOWER:
        m = re.search(pattern, key)
        if m:
            tail = key[m.end():] or (end if name.endswith(".") else "")
            return m.expand(name) + tail
    raise KeyError(key)


def colours(preprocessor):
    return {"clip.vision.image_mean": preprocessor["image_mean"], "clip.vision.image_std": preprocessor["image_std"]}


def side(v):
    return v[0] if isinstance(v, list) else v


def vision_keys(config, preprocessor, hidden, args):
    """The keys, and how many layers of the tower are in the file."""
    v, family = config["vision_config"], config["model_type"]
    layers = v.get("num_hidden_layers", v.get("depth"))
    width = v.get("embed_dim", v["hidden_size"])
    eps = {"llava": 1e-5, "llava_next": 1e-5, "mistral3": 1e-5, "kimi_vl": 1e-5}.get(family, 1e-6)
    keys = {"general.architecture": "clip", "general.type": "mmproj", "clip.has_vision_encoder": True,
            "clip.vision.projection_dim": hidden, "clip.vision.patch_size": side(v["patch_size"]),
            "clip.vision.image_size": side(v.get("image_size", 560)), "clip.vision.embedding_length": width,
            "clip.vision.feed_forward_length": v.get("intermediate_size", 0),
            "clip.vision.attention.head_count": v.get("num_attention_heads", v.get("num_heads")),
            "clip.vision.attention.layer_norm_epsilon": float(v.get("layer_norm_eps", eps)), **colours(preprocessor)}
    projector = projector_of(config)
    if not args.old:
        keys["clip.projector_type"] = projector
    elif projector == "mlp":
        keys["clip.has_llava_projector"] = True
    elif projector == "qwen2vl_merger":
        keys["clip.has_qwen2vl_merger"] = True
    else:
        keys["clip.projector_type"] = projector
    if projector == "mlp":
        feature = config.get("vision_feature_layer", -2)
        chosen = [f if f >= 0 else layers + 1 + f for f in (feature if isinstance(feature, list) else [feature])]
        layers = max(chosen)
        keys["clip.use_gelu"] = v.get("hidden_act") == "gelu"
        if isinstance(feature, list):
            keys["clip.vision.feature_layer"] = chosen
    if family == "llava_next":
        keys["clip.vision.image_grid_pinpoints"] = [n for pair in config["image_grid_pinpoints"] for n in pair]
        keys["clip.vision.mm_patch_merge_type"] = "spatial_unpad"
    if family == "qwen2_5_vl":
        full = v["fullatt_block_indexes"]
        keys["clip.use_silu"] = True
        keys["clip.vision.n_wa_pattern"] = full[0] + 1
        keys["clip.vision.window_size"] = v["window_size"]
    if family.startswith(("qwen3_vl", "qwen3_5")):
        keys["clip.use_gelu"] = True
        keys["clip.vision.is_deepstack_layers"] = [i in v.get("deepstack_visual_indexes", []) for i in range(layers)]
    if family.startswith("qwen"):
        keys["clip.vision.spatial_merge_size"] = v["spatial_merge_size"]
        keys["clip.vision.image_min_pixels"] = preprocessor["min_pixels"]
        keys["clip.vision.image_max_pixels"] = preprocessor["max_pixels"]
    if family == "internvl":
        keys["clip.use_gelu"] = True
        keys["clip.vision.projector.scale_factor"] = round(1 / config.get("downsample_ratio", 0.5))
        keys["clip.vision.preproc_min_tiles"] = preprocessor.get("min_patches", 1)
        keys["clip.vision.preproc_max_tiles"] = preprocessor.get("max_patches", 12)
    if projector == "glm4v":
        keys["clip.use_silu"] = True
        keys["clip.vision.spatial_merge_size"] = v["spatial_merge_size"]
        keys["clip.vision.attention.layer_norm_epsilon"] = v["rms_norm_eps"]
        if not args.bare:
            keys["clip.vision.image_min_pixels"] = preprocessor["size"]["shortest_edge"]
            keys["clip.vision.image_max_pixels"] = preprocessor["size"]["longest_edge"]
    if projector == "paddleocr":  # the larger of the two sizes, and no key of its squares
        keys["clip.use_gelu"] = True
        keys["clip.vision.attention.layer_norm_epsilon"] = 1e-6
        keys["clip.vision.image_size"] = math.isqrt(preprocessor["max_pixels"])
        keys["clip.vision.image_min_pixels"] = preprocessor["min_pixels"]
        keys["clip.vision.image_max_pixels"] = preprocessor["max_pixels"]
    if projector == "kimivl":
        keys["clip.use_gelu"] = True
        keys["clip.vision.projector.scale_factor"] = side(v["merge_kernel_size"])
        keys["clip.vision.image_size"] = v["init_pos_emb_height"] * v["patch_size"]
    if projector in OF_PIXTRAL:
        keys["clip.use_silu" if v["hidden_act"] == "silu" else "clip.use_gelu"] = True
        keys["clip.vision.attention.layer_norm_epsilon"] = 1e-5
        if "spatial_merge_size" in config:
            keys["clip.vision.spatial_merge_size"] = config["spatial_merge_size"]
        keys["clip.vision.image_size"] = preprocessor["size"]["longest_edge"]
    if projector == "gemma3":
        keys["clip.use_gelu"] = True
        squares = math.isqrt(config["mm_tokens_per_image"])
        scale = v["image_size"] // v["patch_size"] // squares
        if scale != 4:
            keys["clip.vision.projector.scale_factor"] = scale
    if projector == "idefics3":
        keys["clip.use_gelu"] = True
        keys["clip.vision.projector.scale_factor"] = config["scale_factor"]
        keys["clip.vision.preproc_image_size"] = preprocessor["size"]["longest_edge"]
    keys["clip.vision.block_count"] = layers
    return keys, layers


def add_vision(w, name, t, old, apart):
    """One tensor or several; their values as they can be read back."""
    if ".attn_qkv." in name and (old or apart or w.keys["clip.projector_type"] not in ("qwen3vl_merger", "glm4v")):
        third, out = t.shape[0] // 3, array.array("f")
        for i, part in enumerate("qkv"):
            out.extend(w.add(name.replace("attn_qkv", "attn_" + part), t.rows(i * third, (i + 1) * third)))
            if apart:
                w.gap()
        return out
    if name == "v.patch_embd.weight" and len(t.shape) == 5:
        assert t.shape[2] == 2, "patches of two frames are what llama.cpp has names for"
        plane = t.shape[3] * t.shape[4]
        frames = [array.array("f"), array.array("f")]
        for i in range(0, len(t.values), 2 * plane):
            frames[0].extend(t.values[i:i + plane])
            frames[1].extend(t.values[i + plane:i + 2 * plane])
        shape, out = t.shape[:2] + t.shape[3:], array.array("f")
        a, b = (w.add(n, Tensor(shape, f)) for n, f in zip((name, name + ".1"), frames))
        for i in range(0, len(a), plane):
            out.extend(a[i:i + plane])
            out.extend(b[i:i + plane])
        return out
    if old and ".ffn_" in name and "gate" not in name:
        name = name.replace("ffn_up", "ffn_x").replace("ffn_down", "ffn_up").replace("ffn_x", "ffn_down")
    if old and name == "v.image_newline":
        name = "model.image_newline"
    if name == "mm.soft_emb_norm.weight":
        return array.array("f", (v - 1 for v in w.add(name, Tensor(t.shape, (v + 1 for v in t.values)))))
    if name == "mm.input_projection.weight":
        return w.add(name, t, kind="f16")
    if w.keys.get("clip.projector_type") in OF_PIXTRAL and (".attn_q." in name or ".attn_k." in name):
        heads = w.keys["clip.vision.attention.head_count"]
        return unpermute(w.add(name, permute(t, heads)), t, heads)
    if w.keys.get("clip.projector_type") == "kimivl" and "position_embd" in name:
        t = Tensor([t.shape[0] * t.shape[1], t.shape[2]], t.values)
    return w.add(name, t, as_f32="position_embd" in name)


def write_vision(path, config, preprocessor, tensors, hidden, args):
    w = Writer(args.type)
    w.keys, layers = vision_keys(config, preprocessor, hidden, args)
    if args.pad:
        w.keys["clip.vision.image_aspect_ratio"] = "pad"
    deep = config["vision_config"].get("deepstack_visual_indexes", [])
    for key, t in tensors.items():
        if text_name(key):
            continue
        name = vision_name(key, config)
        m = re.match(r"v\.blk\.(\d+)\.", name)
        if m and int(m[1]) >= layers:
            continue
        name = re.sub(r"v\.deepstack\.(\d+)\.", lambda m: f"v.deepstack.{deep[int(m[1])]}.", name)
        if len(t.shape) > 2 and t.shape[0] == 1 and args.old: # the older converters leave out dimensions of 1
            t = Tensor([n for n in t.shape if n > 1], t.values)
        tensors[key].values = add_vision(w, name, t, args.old, args.apart)
    w.write(path)


# ---------------------------------------------------------------- the whole

def widen(config):
    """Of what is asked for by --wide the new dimensions, by the old ones; the configuration says the new ones."""
    heads = config.get("num_attention_heads")
    part = config.get("vision_config") or config
    inner = "moe_intermediate_size" if "moe_intermediate_size" in config else "intermediate_size"
    new = {part["hidden_size"]: 32, part[inner]: 64 if part is not config else 32}
    part.update({"hidden_size": 32, inner: 64 if part is not config else 32})
    if part is not config:
        part["num_attention_heads"] = 2
    if config["model_type"].startswith("deepseek"):
        rank, turned, nope, values = config["kv_lora_rank"], config["qk_rope_head_dim"], config["qk_nope_head_dim"], config["v_head_dim"]
        new.update({rank: 32, rank + turned: 32 + turned, heads * (nope + values): heads * 64, heads * (nope + turned): heads * (32 + turned),
                    heads * values: heads * 32, config.get("q_lora_rank"): 32})
        config.update({"kv_lora_rank": 32, "qk_nope_head_dim": 32, "v_head_dim": 32, "intermediate_size": new.get(config["intermediate_size"])})
        if config.get("q_lora_rank"):
            config["q_lora_rank"] = 32
    if config["model_type"] == "qwen3_next": # values are as many as channels here: so they stay
        keys, n = config["linear_num_key_heads"] * config["linear_key_head_dim"], config["linear_num_value_heads"]
        was, config["linear_value_head_dim"] = n * config["linear_value_head_dim"], 32 // n
        new.update({2 * (keys + was): 2 * (keys + 32), 2 * keys + was: 2 * keys + 32})
    return new


def draw_wide(config, tensors):
    """A CLIP tower of 32 channels and 64 between, or a language model of 32 channels with experts or an MLP of 32, with weights
    that keep the size of what passes."""
    r = random.Random(1)
    is_tower = "vision_config" in config
    new = widen(config)
    has_one = config["model_type"].startswith(("qwen3_5", "qwen3_next"))  # norms are what is added to 1
    if has_one and "num_experts" in config:  # rounding chooses no others
        config["num_experts_per_tok"] = config["num_experts"]
    for key, t in tensors.items():
        if is_tower and text_name(key):
            continue
        t.shape = [config["linear_value_head_dim"]] if key.endswith("linear_attn.norm.weight") else [new.get(n, n) for n in t.shape]
        n, columns = 1, 1
        for i, d in enumerate(t.shape):
            n *= d
            columns *= d if i else 1
        size = 0.1 if len(t.shape) == 1 else columns ** -0.5
        is_norm = len(t.shape) == 1 and key.endswith("norm.weight") or re.search(r"norm\d\.weight$", key)
        if has_one and re.search(r"(out_proj|o_proj|down_proj)\.weight$", key):  # what layers add is small, so that rounding stays so
            size *= 0.2
        mean = 0 if not is_norm or (has_one and "linear_attn" not in key) else 1
        t.values = array.array("f", (r.gauss(mean, size) for _ in range(n)))


def repeat_layers(config, tensors, n):
    c = config.get("text_config", config)
    if c.pop("mlp_only_layers", None):  # only the first, which has experts
        for key in [k for k in tensors if re.search(r"\blayers\.[1-9]", k)]:
            del tensors[key]
        c["num_hidden_layers"] = 1
    for key, t in list(tensors.items()):
        m = re.search(r"(.*\blayers\.)(\d+)(\..*)", key)
        if m and text_name(key):
            for i in range(int(m[2]) + c["num_hidden_layers"], n, c["num_hidden_layers"]):
                tensors[f"{m[1]}{i}{m[3]}"] = Tensor(t.shape, t.values)
    c["num_hidden_layers"] = n


def bare_config(config):
    """As llama.cpp takes a file that says no more than its converter writes."""
    c = config.get("text_config", config)
    for key in ("layer_types", "no_rope_layers", "sliding_window_pattern", "use_sliding_window"):
        c.pop(key, None)
    if c["model_type"].startswith("gemma"):
        c["query_pre_attn_scalar"] = c["head_dim"]
        c.pop("rope_local_base_freq", None)


def rename_tokens(config, content):
    """Qwen's control tokens, which nothing but their names tells."""
    if not config["model_type"].startswith("qwen"):
        return content
    for old, new in (("<image>", "<|image_pad|>"), ("<pad>", "<|video_pad|>"), ("<s>", "<|vision_start|>"),
                     ("</s>", "<|vision_end|>")):
        content = content.replace(old, new)
    return content


def adjust_twin(config, twin, bare):
    """What no key says, as it is published."""
    if bare and config["model_type"].startswith("glm"):
        write_json(twin, "preprocessor_config.json",
                   {**read_json(twin, "preprocessor_config.json"), "size": {"shortest_edge": 12544, "longest_edge": 9633792}})
    if config["model_type"] == "gemma3":  # pictures whole
        preprocessor = read_json(twin, "preprocessor_config.json")
        write_json(twin, "preprocessor_config.json", {k: v for k, v in preprocessor.items() if "pan_and_scan" not in k})
    if config["model_type"] == "kimi_vl":
        write_json(twin, "preprocessor_config.json", {**read_json(twin, "preprocessor_config.json"), "in_token_limit": 4096})
    if config["model_type"] == "qwen2_5_vl":
        config["vision_config"]["tokens_per_second"] = 2
    path = os.path.join(twin, "video_preprocessor_config.json")
    if config["model_type"].startswith(("qwen3_vl", "qwen3_5")):
        write_json(twin, "video_preprocessor_config.json", {"size": {"shortest_edge": 4096, "longest_edge": 25165824}})
    elif config["model_type"] == "glm_ocr":
        write_json(twin, "video_preprocessor_config.json",
                   {"video_processor_type": "Glm46VVideoProcessor", "size": {"shortest_edge": 12544, "longest_edge": 47040000}})
    elif config["model_type"].startswith("glm4v"):
        write_json(twin, "video_preprocessor_config.json", {"size": {"shortest_edge": 12544, "longest_edge": 47040000}})
    elif os.path.exists(path):
        os.remove(path)
    write_json(twin, "config.json", config)


def write_cases(folder, out, config, args):
    golden = read_json(folder, "golden.json")
    cases = []
    for c in golden["cases"] if golden else []:
        chat = c.get("chat_format")
        if chat and chat.endswith(".jinja"):
            with open(os.path.join(ROOT, chat), encoding="utf-8") as f:
                template = rename_tokens(config, f.read())
            chat = os.path.join(out, "marks.jinja")
            with open(chat, "w", encoding="utf-8") as f:
                f.write(template)
        cases.append({k: c[k] for k in ("name", "text", "messages", "keep_video_marks", "positions") if k in c})
        if chat:
            cases[-1]["chat_format"] = chat
    if config["model_type"].startswith(("deepseek", "kimi")) and not args.wide:
        cases += [{"name": f"splits {i}", "text": text} for i, text in enumerate(SPLIT_TEXTS)]
    write_json(out, "cases.json", cases)


# folder of tests/golden/models, options, by which part of the largest logit answers may differ
PAIRS = {
    "llava": ("llava", "", 1e-5), "llava_old": ("llava", "--old", 1e-5), "llava_layers": ("llava_layers", "", 1e-5),
    "llava_tokenless": ("llava", "--no-image-token --type f16", 1e-5), "llava_f16": ("llava", "--type f16", 1e-5),
    "llava_wide": ("llava", "--wide", 1e-5), "llava_q8_0": ("llava", "--wide --type q8_0", 0.04),
    "llava_pad": ("llava", "--pad", 1e-5), "llava_qwen2": ("llava_qwen2", "", 1e-5),
    "llava_next": ("llava_next", "", 1e-5),
    "llava_next_old": ("llava_next_mistral", "--old --type f16", 1e-5),
    "qwen2_vl": ("qwen2_vl", "", 1e-5), "qwen2_vl_old": ("qwen2_vl", "--old --type bf16", 1e-5),
    "qwen2_5_vl": ("qwen2_5_vl", "", 1e-5), "qwen2_5_vl_apart": ("qwen2_5_vl", "--apart --type f16", 1e-5),
    "qwen2_5_vl_old": ("qwen2_5_vl", "--old", 1e-5), "qwen2_5_vl_q8_0": ("qwen2_5_vl", "--type q8_0", 0.04),
    "internvl": ("internvl", "", 1e-5), "internvl_old": ("internvl", "--old --type bf16", 1e-5),
    "internvl_moe": ("internvl_moe", "", 1e-5), "internvl_moe_f16": ("internvl_moe", "--type f16", 1e-5),
    "internvl_qwen3": ("internvl_qwen3", "", 1e-5),
    "smolvlm": ("smolvlm", "", 1e-5), "idefics3": ("idefics3", "--type f16", 1e-5),
    "mistral3": ("mistral3", "", 1e-5), "mistral3_f16": ("mistral3", "--type f16", 1e-5),
    "lighton_ocr": ("lighton_ocr", "", 1e-5), "lighton_ocr_f16": ("lighton_ocr", "--type f16", 1e-5),
    "gemma3": ("gemma3", "", 1e-5), "gemma3_pan": ("gemma3_pan", "--type f16", 1e-5),
    "gemma3_bare": ("gemma3", "--bare --layers 7 --no-image-token --type bf16", 1e-5),
    "gemma3_q8_0": ("gemma3", "--type q8_0", 0.04),
    "gemma3_text": ("gemma3_text", "--type f16", 1e-5), "gemma2_f16": ("gemma2", "--type f16", 1e-5),
    "granite_f16": ("granite", "--type f16", 1e-5), "olmo2_f16": ("olmo2", "--type f16", 1e-5),
    "smollm3_f16": ("smollm3", "--bare --layers 5 --type f16", 1e-5),
    "gemma2": ("gemma2", "", 1e-5), "gemma2_bare": ("gemma2", "--bare --type f16", 1e-5),
    "granite": ("granite", "", 1e-5), "granite_bf16": ("granite", "--type bf16", 1e-5), "olmo2": ("olmo2", "", 1e-5),
    "smollm3": ("smollm3", "--bare --layers 9", 1e-5),
    "qwen3_moe": ("qwen3_moe", "--layers 3", 1e-5), "qwen3_moe_f16": ("qwen3_moe", "--layers 2 --type f16", 1e-5),
    "qwen3_moe_q8_0": ("qwen3_moe", "--layers 2 --wide --type q8_0", 0.04),
    "qwen3_vl_moe": ("qwen3_vl_moe", "", 1e-5), "qwen3_vl_moe_f16": ("qwen3_vl_moe", "--type f16", 1e-5),
    "phi3": ("phi3", "", 1e-5), "phi3_long": ("phi3_long", "", 1e-5), "phi3_long_f16": ("phi3_long", "--type f16", 1e-5),
    "phi3_long_q8_0": ("phi3_long", "--type q8_0", 0.04), "mixtral": ("mixtral", "", 1e-5), "olmoe": ("olmoe", "", 1e-5),
    "olmoe_f16": ("olmoe", "--type f16", 1e-5), "granitemoe": ("granitemoe", "", 1e-5),
    "qwen3_5": ("qwen3_5", "", 1e-5), "qwen3_5_f16": ("qwen3_5", "--type f16", 1e-5),
    "qwen3_5_text": ("qwen3_5_text", "--type bf16", 1e-5), "qwen3_5_moe": ("qwen3_5_moe", "", 1e-5),
    "qwen3_5_moe_text": ("qwen3_5_moe_text", "--type f16", 1e-5),
    "deepseek_v3": ("deepseek_v3", "", 1e-5), "deepseek_v3_f16": ("deepseek_v3", "--type f16", 1e-5),
    "deepseek_v3_old": ("deepseek_v3", "--old --type bf16", 1e-5), "deepseek_v2": ("deepseek_v3", "--lite", 1e-5),
    "deepseek_v3_q8_0": ("deepseek_v3", "--wide --type q8_0", 0.04), "deepseek_v2_q8_0": ("deepseek_v3", "--lite --wide --old --type q8_0", 0.04),
    "qwen3_next": ("qwen3_next", "", 1e-5),
    "qwen3_next_q8_0": ("qwen3_next", "--wide --type q8_0", 0.04), "qwen3_next_old_q8_0": ("qwen3_next", "--wide --old --type q8_0", 0.04),
    "qwen3_5_text_q8_0": ("qwen3_5_text", "--wide --type q8_0", 0.06), "qwen3_5_moe_q8_0": ("qwen3_5_moe_text", "--wide --type q8_0", 0.04),
    "qwen3_next_f16": ("qwen3_next", "--type f16", 1e-5), "qwen3_next_old": ("qwen3_next", "--old --type bf16", 1e-5),
    "kimi_vl": ("kimi_vl", "", 1e-5), "kimi_vl_f16": ("kimi_vl", "--old --type f16", 1e-5),
    "glm4": ("glm4", "", 1e-5), "glm4v": ("glm4v", "", 1e-5), "glm4v_f16": ("glm4v", "--apart --type f16", 1e-5),
    "glm4v_moe": ("glm4v_moe", "--type bf16", 1e-5), "pixtral": ("pixtral", "", 1e-5), "pixtral_f16": ("pixtral", "--type f16", 1e-5),
    "glm_ocr": ("glm_ocr", "", 1e-5), "glm_ocr_f16": ("glm_ocr", "--apart --type f16", 1e-5), "glm_ocr_bare": ("glm_ocr", "--bare", 1e-5),
    "paddleocr_vl": ("paddleocr_vl", "", 1e-5), "paddleocr_vl_bf16": ("paddleocr_vl", "--type bf16", 1e-5),
    "paddleocr_vl_pieces": ("paddleocr_vl", "--sentencepiece", 1e-5),
    "glm4_moe": ("glm4_moe", "", 1e-5), "glm4_moe_f16": ("glm4_moe", "--type f16", 1e-5),
    "qwen3_vl": ("qwen3_vl", "", 1e-5), "qwen3_vl_tied": ("qwen3_vl_tied", "--apart --type f16", 1e-5),
}


def make_set(out):
    models = os.path.join(ROOT, "tests", "golden", "models")
    index = []
    for name, (folder, options, tolerance) in PAIRS.items():
        make(parser().parse_args([os.path.join(models, folder), os.path.join(out, name)] + options.split()))
        config = read_json(os.path.join(out, name, "twin"), "config.json")
        index.append({"name": name, "tolerance": tolerance, "tokenless": "--no-image-token" in options,
                      "image": config.get("image_token_index", config.get("image_token_id", config.get("media_placeholder_token_id", -1)))})
    write_json(out, "index.json", index)


def parser():
    p = argparse.ArgumentParser()
    p.add_argument("folder")
    p.add_argument("out")
    p.add_argument("--type", default="f32", choices=list(TYPES))
    p.add_argument("--layers", type=int)
    for flag in ("--old", "--apart", "--no-image-token", "--wide", "--pad", "--bare", "--lite", "--sentencepiece"):
        p.add_argument(flag, action="store_true")
    return p


def make(args):
    twin = os.path.join(args.out, "twin")
    shutil.rmtree(args.out, ignore_errors=True)
    os.makedirs(twin)
    for name in os.listdir(args.folder):
        if name.endswith((".json", ".jinja")) and not name.startswith("golden") and "index" not in name:
            shutil.copy(os.path.join(args.folder, name), twin)
    config = read_json(twin, "config.json")
    preprocessor = read_json(twin, "preprocessor_config.json")
    if "vision_config" in config and not preprocessor:
        preprocessor = read_json(twin, "processor_config.json")["image_processor"]
    if config["model_type"] == "kimi_vl":
        config["text_config"]["model_type"] = "deepseek_v3"
        shutil.copy(os.path.join(args.folder, "tiktoken.model"), twin)
        tokenizer = tokenizer_of_ranks(twin)
    else:
        tokenizer = json.loads(rename_tokens(config, json.dumps(read_json(twin, "tokenizer.json"))))
        if args.sentencepiece:
            with_pieces(tokenizer)
        complete(tokenizer)
        if config["model_type"].startswith("deepseek"):
            split_by(tokenizer, "deepseek-llm" if args.lite else "deepseek-v3")
        write_json(twin, "tokenizer.json", tokenizer)
    template = None
    if os.path.exists(os.path.join(twin, "chat_template.jinja")):
        with open(os.path.join(twin, "chat_template.jinja"), encoding="utf-8") as f:
            template = f.read()
    tensors = read_tensors(args.folder)
    part_experts(config, tensors)
    if args.lite:
        make_lite(config, tensors)
    suit_gguf(config, tensors)
    if args.wide:
        draw_wide(config, tensors)
    if args.bare:
        bare_config(config)
    if args.layers:
        repeat_layers(config, tensors, args.layers)
    if args.no_image_token:
        tokenizer = json.loads(re.sub("<image(_soft_token)?>", "<other>", json.dumps(tokenizer)))
    hidden = config.get("text_config", config)["hidden_size"]
    write_language(os.path.join(args.out, "model.gguf"), config, tensors, tokenizer, template, args)
    if "vision_config" in config:
        write_vision(os.path.join(args.out, "mmproj.gguf"), config, preprocessor, tensors, hidden, args)
    if args.pad:
        write_json(twin, "preprocessor_config.json",
                   {**preprocessor, "image_processor_type": "LlavaImageProcessor", "do_pad": True})
    write_tensors(twin, tensors)
    adjust_twin(config, twin, args.bare)
    write_cases(args.folder, args.out, config, args)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--set"] and len(sys.argv) == 3:
        make_set(sys.argv[2])
    else:
        make(parser().parse_args())
