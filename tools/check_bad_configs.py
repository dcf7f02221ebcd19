#!/usr/bin/env python3
"""Draws broken folders and checks what `saccade inspect` says of each, and `saccade ask` of those that open.

    tools/check_bad_configs.py [--command build/asan/saccade] [--n 200] [--seed 1] [--show]

The bases take turns, so that 30 of each are --n 1770. A file of settings is broken, two sizes contradict each other, or a
tensor is missing, of another shape, or cut off. Each must end with exit code 65, 66 or 69 and exactly one line on stderr that
names the file and what is wrong in it, or open with code 0 where the change does no harm; a question about a long picture and
a frame, or in text, must then end with one line at most as well. Prints what falls short; ends with 1 then.
"""
import argparse
import itertools
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODELS = os.path.join(ROOT, "tests", "golden", "models")
BASES = ["llama_f32", "mistral", "qwen2_yarn", "qwen3", "qwen3_moe", "qwen3_vl_moe", "llava", "llava_next", "llava_next_granite", "llava_siglip", "llava_onevision_max", "llava_onevision_flat", "llava_video", "llava_next_video_own",
         "longva", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "internvl", "internvl_rms", "internvl_moe", "internvl_chat", "smolvlm", "idefics3", "gemma2", "gemma3", "gemma3_pan", "gemma3_text", "granite", "olmo2", "smollm3",
         "phi3", "phi3_long", "mixtral", "olmoe", "granitemoe", "granitemoeshared",
         "glm4", "glm4v", "glm46v", "glm4_moe", "glm4v_moe", "pixtral", "mistral3", "ministral", "ministral3", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text", "deepseek_v3", "deepseek_v2", "qwen3_next", "kimi_vl", "glm_ocr", "lighton_ocr", "paddleocr_vl",
         "minicpmv4_6", "minicpmv4_6_4x"]
GARBAGE = [None, True, -1, 0, 1.5, -7, 1 << 31, 1 << 62, 10 ** 30, 1e308, -1e-300, "",
           "x", "\u202e", "a\nb", [], {}, [[]],
           [None],
           {"a": {"b": [1]}}, ["x"] * 20, [-1], [10 ** 20], "nan", "9" * 400, [1, "a"], {"": 0}]
ENUMS = ["hidden_act", "model_type", "rope_scaling", "projector_hidden_act", "vision_feature_select_strategy",
         "resample", "image_processor_type", "mm_patch_merge_type", "norm_type", "mm_spatial_pool_mode", "mm_newline_position", "spatial_pool_mode"]


def paths_of(value, path=()):
    """Every place in the value."""
    out = []
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        out += [path + (key,)] + paths_of(inner, path + (key,))
    return out


def place(value, path):
    for key in path[:-1]:
        value = value[key]
    return value, path[-1]


def broken_value(rng, content):
    path = rng.choice(paths_of(content))
    outer, key = place(content, path)
    kind = rng.randrange(4)
    if kind == 0 and isinstance(outer, dict):
        del outer[key]
    elif kind == 1:
        outer[rng.choice(sorted(k for k in content if k in ENUMS)) if isinstance(outer, dict) and outer is content and
              any(k in ENUMS for k in content) else key] = "no_such_thing"
    else:
        outer[key] = rng.choice(GARBAGE)
    return json.dumps(content, indent=1).encode()


def broken_text(rng, content):
    text = json.dumps(content, indent=1).encode()
    at = rng.randrange(1, len(text) - 1)
    key = rng.choice(sorted(content))
    return rng.choice([
        lambda: text[:at],
        lambda: text[:-2] + b',\n "%s": 3\n}' % key.encode(),
        lambda: json.dumps(content).encode("utf-16"),
        lambda: b"\xff\xfe" + text,
        lambda: text[:at] + b"\x00" + text[at:],
        lambda: text[:at] + bytes([rng.randrange(128, 256)]) + text[at:],
        lambda: b"",
        lambda: b"[]",
        lambda: b"[" * 100000,
        lambda: b'{"a":' * 5000,
        lambda: text + text,
        lambda: b"// no JSON\n" + text,
        lambda: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n",
        lambda: b"<!DOCTYPE html><html>Not found</html>",
        lambda: text.replace(b"true", b"True").replace(b": ", b": NaN, ", 1),
    ])()


def contradicting_number(rng, content):
    """A size that does not fit the others."""
    numbers = [p for p in paths_of(content) if type(place(content, p)[0][place(content, p)[1]]) is int]
    if not numbers:
        return broken_value(rng, content)
    outer, key = place(content, rng.choice(numbers))
    outer[key] = rng.choice([outer[key] + 1, outer[key] - 1, 2 * outer[key], outer[key] // 2, 0, 1, 2, 3, 64, 10000])
    return json.dumps(content, indent=1).encode()


def break_weights(rng, path):
    """A tensor of another name, shape or type, or a file that ends early."""
    with open(path, "rb") as f:
        data = f.read()
    n = struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8:8 + n]), data[8 + n:]
    name = rng.choice(sorted(k for k in header if k != "__metadata__"))
    tensor = header[name]
    kind = rng.randrange(5)
    if kind == 0:
        header[name + "_"] = header.pop(name)
    elif kind == 1:
        tensor["shape"] = tensor["shape"][::-1] if len(set(tensor["shape"])) > 1 else [1, *tensor["shape"]]
    elif kind == 2:
        tensor["shape"] = [2 * tensor["shape"][0], *tensor["shape"][1:]]
    elif kind == 3:
        tensor["dtype"] = rng.choice(["F64", "I8", "F8_E4M3", "BOOL", "none"])
    else:
        body = body[:rng.randrange(len(body))]
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + body)


def make(rng, folder, base=None):
    """A copy of a base with one file broken: (the file, what was done to it)."""
    whole, base = base, base or rng.choice(BASES)
    shutil.copytree(os.path.join(MODELS, base), folder)
    weights = sorted(f for f in os.listdir(folder) if f.endswith(".safetensors"))
    if whole and weights and rng.random() < 0.2:
        break_weights(rng, os.path.join(folder, rng.choice(weights)))
        return base, ".safetensors"
    files = [f for f in ("config.json", "config.json", "preprocessor_config.json", "video_preprocessor_config.json", "processor_config.json")
             if os.path.exists(os.path.join(folder, f))]
    name = rng.choice(files)
    with open(os.path.join(folder, name), encoding="utf-8") as f:
        content = json.load(f)
    changes = [broken_value] * 7 + [broken_text] * 3 + [contradicting_number] * (7 if whole else 0)
    data = rng.choice(changes)(rng, content)
    with open(os.path.join(folder, name), "wb") as f:
        f.write(data)
    return base, name


def fault(run, folder, name):
    """What is wrong with the answer, or None."""
    lines = run.stderr.split("\n")[:-1]
    if "Sanitizer" in run.stderr or "runtime error:" in run.stderr:
        return "a sanitizer's report"
    if run.returncode not in (0, 65, 66, 69):
        return f"exit code {run.returncode}"
    if run.returncode == 0:
        return None if len(lines) <= 1 else "more than one line"
    if len(lines) != 1 or not lines[0].startswith("saccade: "):
        return f"{len(lines)} lines"
    if run.stdout:
        return "output in spite of the error"
    if folder not in lines[0]:
        return "the folder is not named"
    if name not in lines[0] and not re.search(r"tensor|token|\.safetensors|config\.json", lines[0]):
        return "no file is named"
    if len(lines[0]) > 600 or re.search(r"[\x00-\x1f\x7f]", lines[0]):
        return "control codes, or very long"
    return None


def check_all(what, n, draw):
    """The command line of these tools. draw(rng, outer) makes a case in the folder outer: the command's arguments, the
    case's name, and a function that tells of a finished run what is wrong with its answer. True when one was bad."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--command", default=os.path.join(ROOT, "build", "release", "saccade"))
    parser.add_argument("--n", type=int, default=n)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="print every answer")
    a = parser.parse_args()
    rng, n_bad, codes = random.Random(a.seed), 0, {}
    for i in range(a.n):
        with tempfile.TemporaryDirectory() as outer:
            arguments, name, judge = draw(rng, outer)
            run = subprocess.run([a.command, *arguments], capture_output=True, text=True, errors="replace", timeout=120,
                                 check=False)
            why = judge(run)
            codes[run.returncode] = codes.get(run.returncode, 0) + 1
            if why or a.show:
                print(f"{i} {name}: {why or 'well'} ({run.returncode}): {run.stderr.strip()[:500]}")
            n_bad += why is not None
    print(f"{a.n} broken {what}, {n_bad} answered badly; exit codes {dict(sorted(codes.items()))}")
    return n_bad > 0


def frames_list(path, *pictures):
    """A list of frames for --frames, half a second apart."""
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(f"{picture} {0.5 * i}\n" for i, picture in enumerate(pictures))
    return path


def fault_of_answer(command, folder):
    """The same of a question; without a picture where the model takes none."""
    lines = ""
    frame = frames_list(folder.rstrip("/") + ".frames", os.path.join(MODELS, "frame2.png"))
    for media in (["--image", os.path.join(MODELS, "long.png"), "--frames", frame], []):
        run = subprocess.run([command, "ask", "-m", folder, "-t", "1", "-n", "3", *media, "What is it?"], capture_output=True, text=True,
                             errors="replace", timeout=120, check=False, stdin=subprocess.DEVNULL)
        lines = run.stderr.split("\n")[:-1]
        if "Sanitizer" in run.stderr or "runtime error:" in run.stderr or run.returncode not in (0, 64, 65, 66, 69) or len(lines) > 1:
            return f"a question ends with {run.returncode}: {run.stderr.strip()[:300]}"
    return None


def draw(rng, outer, turn=itertools.count()):
    folder = os.path.join(outer, "model")
    base, name = make(rng, folder, BASES[next(turn) % len(BASES)])

    def judge(run):
        return fault(run, folder, name) or (fault_of_answer(run.args[0], folder) if run.returncode == 0 else None)
    return ["inspect", folder], f"{base}/{name}", judge


if __name__ == "__main__":
    sys.exit(check_all("configurations", 200, draw))
