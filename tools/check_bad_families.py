#!/usr/bin/env python3
"""Damages a folder of each family in 30 ways and more, and checks what `saccade inspect` and `saccade ask` say of each.

    tools/check_bad_families.py [--command build/asan/saccade] [--each 36] [--seed 1] [--jobs 2] [--base NAME|FOLDER ...] [--show]

First what is written here, where the family has it: grids and limits of pixels of 0, absurd or crossed; merger or projector without
tensors; layers that are not there (DeepStack, windows, features); ids of placeholders; two halves that do not fit; weights and tokenizers cut off; pictures
of 1 x 10,000, 10,000 x 1 and 1 x 1 and a video of one frame to the whole folder. Then what check_bad_configs.py draws, until
there are --each different ones. Each ends with one line on stderr that says what is wrong and exit code 64, 65, 66 or 69, or opens and
answers. What must be refused and is not is a fault too. Prints a line for each family; ends with 1 where anything falls short."""
import argparse
import concurrent.futures
import glob
import hashlib
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

import check_bad_configs as bad

PROCESSORS = ("preprocessor_config.json", "video_preprocessor_config.json", "processor_config.json")
LIMITS = re.compile(r"pixels$|_edge$|limit$|^scale_resolution$|^height$|^width$|^size$|^crop_size$|_crops$|crop_size$")
COUNTS = re.compile(r"^(merge_size|patch_size|temporal_patch_size|spatial_merge_size|max_patches|min_patches|max_slice_nums|image_seq_len|"
                    r"image_seq_length|scale_factor|downsample_ratio|max_dynamic_patch|min_dynamic_patch|mm_tokens_per_image|merge_kernel_size|window_size|"
                    r"max_frames|num_frames|image_crop_resolution|image_split_resolution|tokens_per_second|force_image_size)$")
LAYERS = re.compile(r"^(deepstack_visual_indexes|fullatt_block_indexes|vision_feature_layer|insert_layer_id|mm_vision_select_layer|select_layer)$")
TOKENS = re.compile(r"^(image|video|vision_start|vision_end|image_start|image_end|media_placeholder)_token(_id|_index)?$")
GRIDS = re.compile(r"^image_grid_pinpoints$")
LATENTS = [("kv_lora_rank", 0), ("kv_lora_rank", 1 << 31), ("q_lora_rank", -1), ("q_lora_rank", 1 << 31), ("qk_rope_head_dim", 3),
           ("qk_rope_head_dim", 0), ("qk_nope_head_dim", 1 << 31), ("qk_nope_head_dim", -1), ("v_head_dim", 0), ("v_head_dim", 1 << 20),
           ("n_routed_experts", 1 << 20), ("n_routed_experts", 5), ("num_experts_per_tok", 0), ("num_experts_per_tok", 1 << 20),
           ("moe_intermediate_size", 0), ("first_k_dense_replace", -1), ("first_k_dense_replace", 10 ** 6), ("n_shared_experts", 1 << 31),
           ("n_group", -1), ("topk_method", "noaux"), ("routed_scaling_factor", -1.5)]  # of DeepSeek's kind, and its experts
MERGER = re.compile(r"merger|projector|connector|mlp1")


def picture(path, width, height):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    row = b"\0" + bytes((7 * i) % 256 for i in range(3 * width))
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                chunk(b"IDAT", zlib.compress(row * height)) + chunk(b"IEND", b""))


class Case:
    """What is done to a copy of a base; media: asked of with these; must_refuse: it may not open."""

    def __init__(self, what, file, change=None, must_refuse=False, media=None):
        self.what, self.file, self.change, self.must_refuse, self.media = what, file, change, must_refuse, media


def read_json(folder, name):
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def setter(name, values):
    """The places of a file get these values; {} stands for no such key."""
    def change(folder):
        content = read_json(folder, name)
        for path, value in values:
            outer, key = bad.place(content, path)
            if value == {}:
                del outer[key]
            else:
                outer[key] = value
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            json.dump(content, f)
    return change


def places(content, pattern, kinds=(int, list, float)):
    return [p for p in bad.paths_of(content) if isinstance(p[-1], str) and pattern.search(p[-1]) and
            isinstance(bad.place(content, p)[0][p[-1]], kinds) and not isinstance(bad.place(content, p)[0][p[-1]], bool)]


def of_settings(folder):
    """Grids, limits, counts and layers."""
    for name in ("config.json", *PROCESSORS):
        content = read_json(folder, name)
        if content is None:
            continue
        limits = places(content, LIMITS, (int,)) if name != "config.json" else []
        for value in (0, 1, -4, 1 << 40):
            if limits:
                yield Case(f"pixel limits of {value}", name, setter(name, [(p, value) for p in limits]), value < 1)
        both = [p for p in limits if re.search(r"min_pixels|shortest_edge", p[-1])], [p for p in limits if re.search(r"max_pixels|longest_edge", p[-1])]
        if all(both):
            yield Case("pixel limits crossed", name, setter(name, [(p, 10 ** 6) for p in both[0]] + [(p, 10) for p in both[1]]))
        for p in places(content, GRIDS):
            for value, refused in (([[0, 0]], True), ([[10 ** 9, 10 ** 9]], False), ([[7]], True), ([[-336, 336]], True), ([], True), ([[37, 41]], False)):
                yield Case(f"grid {value}", name, setter(name, [(p, value)]), refused)
        for p in places(content, COUNTS):
            for value in (0, 3, 1 << 31):
                yield Case(f"{p[-1]} {value}", name, setter(name, [(p, value)]))
        for p in places(content, LAYERS):
            many = isinstance(bad.place(content, p)[0][p[-1]], list)
            for value in ([[10 ** 6], [-1] * 3, [0] * 100, [1 << 40, 0]] if many else [10 ** 6, -10 ** 6, 1 << 40, [99, -99]]):
                yield Case(f"{p[-1]} {str(value)[:30]}", name, setter(name, [(p, value)]), value != [-1] * 3)


def of_halves(folder):
    """What does not fit within config.json; ids of marks around pictures, and in flat files of LLaVA those of placeholders, are without effect in
    some families."""
    config = read_json(folder, "config.json")
    vision = isinstance(config.get("vision_config"), dict)
    for p in places(config, TOKENS, (int,)):
        for value in (10 ** 9, -5, {}):
            yield Case(f"{p[-1]} {value}", "config.json", setter("config.json", [(p, value)]), vision and value == 10 ** 9 and p[-1].startswith("image_token"))
    for half in ("vision_config", "text_config", "llm_config"):
        if isinstance(config.get(half), dict):
            yield Case("no " + half, "config.json", setter("config.json", [((half,), {})]))
            yield Case(half + " is a list", "config.json", setter("config.json", [((half,), [])]), True)
            for key in ("hidden_size", "out_hidden_size", "embed_dim", "depth", "num_hidden_layers"):
                if isinstance(config[half].get(key), int):
                    yield Case(f"{half}: {key} one more", "config.json", setter("config.json", [((half, key), config[half][key] + 1)]))
    inner = next((h for h in ("text_config", "llm_config") if h in config), None)
    text = config.get(inner, config)
    for key, value in (("num_attention_heads", 0), ("num_key_value_heads", 0), ("num_key_value_heads", 1 << 31), ("hidden_size", 0), ("head_dim", 1),
                       ("vocab_size", 1 << 40), ("num_hidden_layers", 10 ** 6), ("num_hidden_layers", 0), ("max_position_embeddings", 0),
                       ("intermediate_size", -1), ("rms_norm_eps", -1), *LATENTS):
        if key in text:
            yield Case(f"{key} {value}", "config.json", setter("config.json", [(((inner, key) if inner else (key,)), value)]),
                       key != "head_dim")
    if vision:
        yield Case("vision_config of another tower", "config.json",
                   setter("config.json", [(("vision_config",), {"model_type": "swin", "hidden_size": 32})]), True)


def change_tensors(edit):
    def change(folder):
        for path in glob.glob(os.path.join(folder, "*.safetensors")):
            with open(path, "rb") as f:
                data = f.read()
            n = struct.unpack("<Q", data[:8])[0]
            header = json.loads(data[8:8 + n])
            text = json.dumps(edit(header)).encode()
            with open(path, "wb") as f:
                f.write(struct.pack("<Q", len(text)) + text + data[8 + n:])
    return change


def without(pattern, first=False):
    def edit(header):
        drop = sorted(k for k in header if pattern.search(k))[:1 if first else None]
        return {k: v for k, v in header.items() if k not in drop}
    return change_tensors(edit)


def resized(pattern):
    def edit(header):
        for name in sorted(k for k in header if pattern.search(k))[:1]:
            header[name]["shape"] = [1, *header[name]["shape"]] if len(header[name]["shape"]) != 2 else header[name]["shape"] + [1, 1, 1]
        return header
    return change_tensors(edit)


def of_bytes(name, edit):
    def change(folder):
        path = sorted(glob.glob(os.path.join(folder, name)))[0]
        with open(path, "rb") as f:
            data = f.read()
        data = edit(data)
        if data is None:
            os.remove(path)
        else:
            with open(path, "wb") as f:
                f.write(data)
    return change


def of_files(folder):
    weights = "*.safetensors"
    if any(MERGER.search(k) for k in names_of(folder)):
        yield Case("without merger or projector", ".safetensors", without(MERGER), True)
        yield Case("without a tensor of the merger", ".safetensors", without(MERGER, True), True)
        yield Case("a tensor of the merger in another shape", ".safetensors", resized(MERGER))
    if any("deepstack" in k for k in names_of(folder)):
        yield Case("without DeepStack's mergers", ".safetensors", without(re.compile("deepstack")), True)
    yield Case("no weights", folder, of_bytes(weights, lambda d: None), True)
    yield Case("weights of no bytes", ".safetensors", of_bytes(weights, lambda d: b""), True)
    yield Case("weights cut off", ".safetensors", of_bytes(weights, lambda d: d[:len(d) // 2]), True)
    yield Case("a table longer than the file", ".safetensors", of_bytes(weights, lambda d: struct.pack("<Q", 1 << 62) + d[8:]), True)
    if os.path.exists(os.path.join(folder, "tokenizer.json")):
        yield Case("no tokenizer", folder, of_bytes("tokenizer.json", lambda d: None), True)
        yield Case("a tokenizer cut off", "tokenizer.json", of_bytes("tokenizer.json", lambda d: d[:len(d) // 2]), True)
        yield Case("a tokenizer that is a list", "tokenizer.json", of_bytes("tokenizer.json", lambda d: b"[]"), True)


def names_of(folder):
    names = []
    for path in glob.glob(os.path.join(folder, "*.safetensors")):
        with open(path, "rb") as f:
            names += json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    return names


def of_media(media):
    for size in ((1, 10000), (10000, 1), (1, 1)):
        path = os.path.join(media, "{}x{}.png".format(*size))
        picture(path, *size)
        yield Case("a picture of {} x {}".format(*size), None, media=["--image", path])
    for what, picture_of in (("a video of one frame", os.path.join(bad.MODELS, "frame2.png")),
                             ("a video of one frame of 1 x 10,000", os.path.join(media, "1x10000.png"))):
        frames = bad.frames_list(os.path.join(media, f"{len(what)}.frames"), picture_of)
        yield Case(what, None, media=["--frames", frames])


def drawn(rng, base):
    def change(folder):
        shutil.rmtree(folder)
        bad.make(case_rng, folder, base)
    seed = rng.random()
    case_rng = random.Random(seed)
    return Case("drawn", "", change)


def digest(folder):
    h = hashlib.sha256()
    for path in sorted(glob.glob(os.path.join(folder, "**"), recursive=True)):
        if os.path.isfile(path):
            with open(path, "rb") as f:
                h.update(path[len(folder):].encode() + b"\0" + f.read())
    return h.digest()


def ask(command, folder, media):
    return subprocess.run([command, "ask", "-m", folder, "-t", "1", "-n", "3", *media, "What is it?"], capture_output=True, text=True,
                          errors="replace", timeout=300, check=False, stdin=subprocess.DEVNULL)


def judge(command, case, folder):
    """(exit code, what is wrong or None, what it said)"""
    try:
        return judged(command, case, folder)
    except subprocess.TimeoutExpired:
        return None, "hangs", ""


def judged(command, case, folder):
    if case.media is not None:
        run = ask(command, folder, case.media)
        lines = run.stderr.split("\n")[:-1]
        crashed = "Sanitizer" in run.stderr or "runtime error:" in run.stderr
        wrong = crashed or run.returncode not in (0, 64, 65, 66, 69) or len(lines) > 1 or (run.returncode and not lines)
        return run.returncode, "badly answered" if wrong else None, run.stderr
    run = subprocess.run([command, "inspect", folder], capture_output=True, text=True, errors="replace", timeout=300, check=False)
    why = bad.fault(run, folder, case.file)
    if not why and run.returncode == 0:
        why = "opened" if case.must_refuse else bad.fault_of_answer(command, folder)
    return run.returncode, why, run.stderr


def cases_of(rng, base, media, each):
    """At least `each` that leave different folders, made in turn: (case, folder)."""
    source = base if os.path.sep in base else os.path.join(bad.MODELS, base)
    named = [*of_media(media), *of_settings(source), *of_halves(source), *of_files(source)]
    seen, n = {digest(source)}, 0
    while n < max(each, len(named)):
        case = named[n] if n < len(named) else drawn(rng, source)
        outer = tempfile.mkdtemp(dir=media)
        folder = os.path.join(outer, "model")
        shutil.copytree(source, folder)
        if case.change:
            case.change(folder)
        here = digest(folder)
        if case.change and here in seen:  # it was there before, or changed nothing
            shutil.rmtree(outer)
            if n < len(named):
                named.pop(n)
            continue
        seen.add(here)
        n += 1
        yield case, folder


def check(a, base):
    rng, codes, faults = random.Random(f"{a.seed} {base}"), {}, []
    with tempfile.TemporaryDirectory() as media:
        for case, folder in cases_of(rng, base, media, a.each):
            code, why, said = judge(a.command, case, folder)
            codes[code] = codes.get(code, 0) + 1
            if why or a.show:
                faults.append((why is not None, f"  {base}, {case.what} ({case.file}): {why or 'well'} ({code}): {said.strip()[:400]}"))
            shutil.rmtree(os.path.dirname(folder))
    return codes, faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", default=os.path.join(bad.ROOT, "build", "release", "saccade"))
    parser.add_argument("--each", type=int, default=36)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--base", nargs="+", default=bad.BASES, help="of tests/golden/models, or folders with a slash in their name")
    parser.add_argument("--show", action="store_true", help="print every answer")
    a = parser.parse_args()
    for base in a.base:
        if not os.path.exists(os.path.join("" if os.path.sep in base else bad.MODELS, base, "config.json")):
            parser.error(f"{base}: no folder of tests/golden/models with a config.json")
    n_all = n_bad = 0
    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        for base, (codes, faults) in zip(a.base, pool.map(lambda b: check(a, b), a.base)):
            n, n_wrong = sum(codes.values()), sum(f[0] for f in faults)
            print(f"{base}: {n} cases, {n - codes.get(0, 0)} refused, {codes.get(0, 0)} open and answer, {n_wrong} badly", flush=True)
            for _, line in faults:
                print(line, flush=True)
            n_all, n_bad = n_all + n, n_bad + n_wrong
    print(f"{n_all} cases of {len(a.base)} folders, {n_bad} answered badly")
    return n_bad > 0


if __name__ == "__main__":
    sys.exit(main())
