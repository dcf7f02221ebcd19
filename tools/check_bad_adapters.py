#!/usr/bin/env python3
"""Draws broken LoRA adapters, to merge or to keep apart, and checks what `saccade inspect --adapter` says of each.

    tools/check_bad_adapters.py [--command build/asan/saccade] [--n 120] [--seed 1] [--show]

Each must end with exit code 65, 66 or 69 and exactly one line on stderr that names the folder, the file and what to
do or what is wrong in it, or open with code 0 where the change does no harm. Prints what falls short; ends with 1 then.
Needs nothing but Python.
"""
import json
import os
import random
import shutil
import struct
import sys

from check_bad_configs import GARBAGE, broken_text, check_all, fault

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GOLDEN = os.path.join(ROOT, "tests", "golden", "adapters")
BASES = {"llama_f32": ["attention", "dora", "embedding", "saved_head", "rank_pattern", "layers", "half_precision"],
         "llava_full": ["projector", "tower_full", "patches"], "qwen2_vl": ["qwen_visual", "qwen_merger"]}
REFUSED = {"lora_bias": True, "use_qalora": True, "layer_replication": [[0, 1]], "target_parameters": ["a.b"],
           "trainable_token_indices": [1], "alora_invocation_tokens": [3], "megatron_config": {"a": 1},
           "peft_type": "LOHA"}
GGUF_BASES = {"gguf_llama_f32/f32.gguf": ["gguf_llama_f32/gguf_attention.gguf", "gguf_llama_f32/gguf_embedding.gguf"],
              "gguf_qwen2_f32/f32.gguf": ["gguf_qwen2_f32/gguf_qwen.gguf"]}
CONFIG, TENSORS = "adapter_config.json", "adapter_model.safetensors"


def read_tensors(path):
    with open(path, "rb") as f:
        data = f.read()
    n = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + n]), data[8 + n:]


def write_tensors(path, header, body):
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + body)


def break_config(rng, folder):
    path = os.path.join(folder, CONFIG)
    with open(path) as f:
        config = json.load(f)
    kind = rng.randrange(5)
    if kind == 0:
        key = rng.choice(sorted(REFUSED))
        config[key] = REFUSED[key]
    elif kind == 1:
        key = rng.choice(["r", "lora_alpha", "target_modules", "modules_to_save", "rank_pattern", "alpha_pattern", "use_dora",
                          "use_rslora", "bias", "peft_type", "layers_to_transform", "exclude_modules", "layers_pattern"])
        config[key] = rng.choice(GARBAGE)
    elif kind == 2:
        config[rng.choice(["target_modules", "exclude_modules"])] = rng.choice(
            ["(", "(a+)+$", "((((((.*)*)*)*)*)*)x", "[z-a]", "\\", "(?P<a>.)(?P<a>.)", ".*" * 3000, "(?C1).*", "\\C+", "*"])
    elif kind == 3:
        config[rng.choice(["rank_pattern", "alpha_pattern"])] = {rng.choice(["(", "(.*)*(.*)*(.*)*y", "q_proj", ".*"]): rng.choice(
            [0, -1, 10 ** 9, "8", None, 7, 65537, 1e300])}
    else:
        with open(path, "wb") as f:
            f.write(broken_text(rng, config))
        return CONFIG
    with open(path, "w") as f:
        json.dump(config, f)
    return CONFIG


def break_tensors(rng, folder):
    path = os.path.join(folder, TENSORS)
    header, body = read_tensors(path)
    names = sorted(k for k in header if k != "__metadata__")
    name = rng.choice(names)
    kind = rng.randrange(9)
    if kind == 0:
        header[rng.choice([name + "x", name.replace("base_model.model.", ""), name.replace("layers.0", "layers.77"), "x" * 3000,
                           "base_model.model.", "", "base_model.model.\u202e"])] = header.pop(name)
    elif kind == 1:
        del header[name]
    elif kind == 2:
        header[name]["shape"] = header[name]["shape"][::-1]
    elif kind == 3:
        header[name]["shape"] = rng.choice([[], [0], [1 << 62, 1 << 62], [0, 1 << 62, 1 << 62], [1] * 9, [-1, 4], ["2"], [10 ** 30]])
    elif kind == 4:
        header[name]["dtype"] = rng.choice(["I32", "F64", "F8_E4M3", "X", None, "BF16"])
    elif kind == 5:
        header[name]["data_offsets"] = rng.choice([[0, 1 << 62], [-4, 4], [8, 4], [0], "0-8", [0, len(body)]])
    elif kind == 6:
        with open(path, "r+b") as f:
            f.truncate(rng.choice([0, 4, 8, 20, 8 + len(json.dumps(header)), os.path.getsize(path) - 3]))
        return TENSORS
    elif kind == 7:
        header = rng.choice([{}, {"__metadata__": {}}, {k: header[k] for k in names[:1]}])
    else:
        with open(path, "wb") as f:
            f.write(rng.choice([b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n", b"<html></html>" * 9,
                                b"PK\x03\x04" * 50, struct.pack("<Q", 1 << 63) + b"{}", b"\x00" * 64]))
        return TENSORS
    write_tensors(path, header, body)
    return TENSORS


def break_folder(rng, folder):
    kind = rng.randrange(4)
    if kind == 0:
        os.remove(os.path.join(folder, TENSORS))
    elif kind == 1:
        os.remove(os.path.join(folder, CONFIG))
        return CONFIG
    elif kind == 2:
        os.rename(os.path.join(folder, TENSORS), os.path.join(folder, "adapter_model.bin"))
        return "adapter_model.bin"
    else:
        os.remove(os.path.join(folder, TENSORS))
        os.mkdir(os.path.join(folder, TENSORS))
    return TENSORS


def break_gguf(rng, path):
    with open(path, "rb") as f:
        data = bytearray(f.read())
    kind = rng.randrange(6)
    if kind == 0:
        data = data[:rng.randrange(len(data))]
    elif kind == 1:
        for word in rng.sample([b"adapter.type", b"general.type", b"lora_a", b"lora_b", b"blk.0", b"blk.1", b"attn_q", b"alpha",
                                b"general.architecture", b"llama", b"qwen2"], 2):
            at = data.find(word)
            if at >= 0:
                data[at + len(word) - 1] ^= rng.randrange(1, 6)
    elif kind == 2:
        data[rng.randrange(8, 24)] = rng.randrange(256)
    elif kind == 3:
        for _ in range(8):
            data[rng.randrange(min(len(data), 1500))] = rng.randrange(256)
    elif kind == 4:
        at = data.find(b"lora_a") + 6 + 4 + rng.randrange(16)
        data[at] = rng.randrange(256)
    else:
        data = bytearray(rng.choice([b"", b"GGUF", b"GGUF" + b"\xff" * 40, b"version https://git-lfs.github.com/spec/v1\n"]))
    with open(path, "wb") as f:
        f.write(data)


def prepare(rng, outer):
    """(the model, the broken adapter, the file that the answer names)"""
    if rng.random() < 0.2:
        model = rng.choice(sorted(GGUF_BASES))
        path = os.path.join(outer, "adapter.gguf")
        shutil.copy(os.path.join(GOLDEN, rng.choice(GGUF_BASES[model])), path)
        break_gguf(rng, path)
        return model, path, "adapter.gguf"
    base = rng.choice(sorted(BASES))
    folder = os.path.join(outer, "adapter")
    shutil.copytree(os.path.join(GOLDEN, base, rng.choice(BASES[base])), folder)
    return base, folder, rng.choice([break_config, break_config, break_tensors, break_tensors, break_folder])(rng, folder)


def draw(rng, outer):
    base, folder, name = prepare(rng, outer)
    model = os.path.join(ROOT, "tests", "golden", "models", base)
    apart = "x=" if rng.random() < 0.5 else ""
    return ["inspect", model, "--adapter", apart + folder], f"{base}, {name}{', apart' if apart else ''}", lambda run: fault(run, folder, name)


if __name__ == "__main__":
    sys.exit(check_all("adapters", 120, draw))
