#!/usr/bin/env python3
"""Draws SmolVLM and Idefics3 checkpoints, processors, pictures and conversations, and compares with transformers.

    tools/draw_smolvlm_cases.py --test build/release/test_parity --work /tmp/work [--folders 40] [--cases 25] [--seed 1]

Each folder below --work is a tiny random checkpoint with sizes, processor's settings and pictures of its own, and a
golden as make_model_goldens.py writes them; test_parity then compares token ids, logits of the prompt and greedy tokens
of each case, and logits behind them. Prints how many cases agree; ends with 1 if any does not. Needs what
make_tiny_models.py needs, torchvision and num2words."""
import argparse
import os
import random
import shutil
import subprocess
import sys

import numpy as np
from PIL import Image

import make_model_goldens as goldens
import make_tiny_models as tiny

MOST_TOKENS = 600  # of a prompt: in test_parity's context of 1024 all frames of a video then have room
WORDS = ["owl", "What is this?", "and", " two\n\nlines", "it\n", "was it there: ", "\n\nmouse"]


def draw_config(rng):
    patch, scale = rng.randint(2, 7), rng.randint(1, 5)
    side = scale * rng.randint(1, max(1, (14 if rng.random() < 0.7 else 31) // scale))
    tile = patch * side + rng.randrange(patch)
    kind = rng.choice(["smolvlm", "smolvlm", "idefics3"])
    config = tiny.smolvlm({"image_size": tile, "patch_size": patch, "num_attention_heads": rng.choice([1, 2, 3])}, kind,
                          scale_factor=scale, tie_word_embeddings=rng.random() < 0.5)
    options = {"longest": rng.randint(1, 5 * tile), "splits": rng.random() < 0.75}
    if rng.random() < 0.4:
        options["video"] = rng.randint(1, 3 * tile)
    return config, options


def write_folder(folder, rng, seed):
    config, options = draw_config(rng)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    tiny.write_json(folder, "config.json", config)
    tiny.save(folder, tiny.draw(tiny.tensor_shapes(config), seed, config["tie_word_embeddings"]))
    tiny.write_smolvlm_files(folder, config, options)
    path = os.path.join(folder, "preprocessor_config.json")
    content = goldens.read_json(path)
    if not config["model_type"] == "idefics3" and rng.random() < 0.3:
        content.pop("video_sampling")
    if rng.random() < 0.15 and "video" not in options:
        content["resample"] = rng.choice([2, 3])
    tiny.write_json(folder, "preprocessor_config.json", content)


def draw_side(rng):
    return int(2 ** rng.uniform(0, 9)) if rng.random() < 0.8 else rng.choice([1, 2, 3, 1500])


def draw_picture(rng, folder, n, size=None):
    w, h = size or (draw_side(rng), draw_side(rng))
    g = np.random.default_rng(rng.randrange(1 << 30))
    path = os.path.join(folder, f"picture{n}.png")
    Image.fromarray(g.integers(0, 256, (h, w, 3), dtype=np.uint8)).save(path)
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


def make_folder(folder, rng, seed, n_cases):
    write_folder(folder, rng, seed)
    model, cases = goldens.open_model(folder), []
    while len(cases) < n_cases:
        case = draw_case(rng, folder, len(cases))
        try:
            ids, _ = model.prompt(case)
        except Exception as e:  # transformers does not take the picture or the conversation
            name = os.path.basename(folder)
            print(f"{name}: not taken by transformers: {type(e).__name__}: {str(e)[:100]}", flush=True)
            continue
        if len(ids) <= MOST_TOKENS:
            cases.append(case)
    cases, values = goldens.golden(folder, cases)
    head = {"model": folder, "cases": cases}
    tiny.write_json(folder, "golden.json", head)
    values.tofile(os.path.join(folder, "golden.bin"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--test", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--folders", type=int, default=40)
    parser.add_argument("--cases", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    goldens.N_TOKENS, n_right, n_wrong = 3, 0, 0
    for i in range(a.folders):
        rng = random.Random(a.seed * 1000003 + i)
        folder = os.path.join(os.path.abspath(a.work), f"drawn{i}")
        make_folder(folder, rng, a.seed * 1000 + i, a.cases)
        done = subprocess.run([os.path.abspath(a.test), folder], cwd=goldens.ROOT, capture_output=True, text=True)
        if done.returncode == 0:
            n_right += a.cases
            shutil.rmtree(folder)
        else:
            n_wrong += 1
            print(f"{folder} (kept):\n{done.stdout[-600:]}{done.stderr[-600:]}", flush=True)
    print(f"{n_right} cases agree, {n_wrong} folders hold one that does not")
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
