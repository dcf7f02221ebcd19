#!/usr/bin/env python3
"""Draws checkpoints, processors, pictures and conversations of families, and compares with transformers.

    tools/draw_cases.py --family smolvlm --test build/release/test_parity --work /tmp/work [--folders 40] [--cases 25] [--seed 1]

--family takes several, by commas. Their names are those of `FAMILIES` in draw_text.py, draw_experts.py, draw_llava.py,
draw_qwen_vl.py and draw_vision.py; "smolvlm" draws Idefics3 as well, "gemma" the text models of Gemma 2 and 3, "glm4v"
GLM-4.6V, "ministral" the text of Ministral 3, "llava_interleave" LLaVA with SigLIP, "granite_vision" LLaVA-NeXT with Granite,
"pixtral" LLaVA with Pixtral's tower, "llava_video" LlavaQwenForCausalLM with newlines in every place.

Each folder below --work is a tiny random checkpoint with sizes, processor's settings and pictures of its own, and a
golden as make_model_goldens.py writes them; test_parity then compares token ids, logits of the prompt (to 3e-4 of the largest)
and greedy tokens of each case, and logits behind them. Prints a line a family, how many cases agree; ends with 1 if any does
not. Needs what make_tiny_models.py needs, torchvision and num2words."""
import argparse
import os
import random
import shutil
import subprocess
import sys

import draw_experts
import draw_llava
import draw_qwen_vl
import draw_text
import draw_vision
import make_model_goldens as goldens
import make_tiny_models as tiny

MOST_TOKENS = 600  # of a prompt: in test_parity's context of 1024 all frames of a video then have room
FAMILIES = {**draw_text.FAMILIES, **draw_experts.FAMILIES, **draw_llava.FAMILIES, **draw_qwen_vl.FAMILIES, **draw_vision.FAMILIES}


def prepare_once(model):
    """What the model makes of a case is kept, as it is asked for again and again: {case: what was made}."""
    kept = {}

    def once(name, make):
        def call(case):
            made = kept.setdefault(case["name"], {})
            if name not in made:
                made[name] = make(case)
            return made[name]
        return call
    for name in ("prompt", "inputs", "pixels"):
        if hasattr(model, name):
            setattr(model, name, once(name, getattr(model, name)))
    return kept


def make_folder(family, folder, rng, seed, n_cases):
    write_folder, draw = FAMILIES[family]
    write_folder(folder, rng, seed)
    model, cases = goldens.open_model(folder), []
    kept = prepare_once(model)
    while len(cases) < n_cases:
        case = draw(rng, folder, len(cases))
        kept.pop(case["name"], None)  # of one that was left out
        try:
            ids, _ = model.prompt(case)
        except Exception as e:  # transformers does not take the picture or the conversation
            name = os.path.basename(folder)
            print(f"{name}: not taken by transformers: {type(e).__name__}: {str(e)[:100]}", flush=True)
            continue
        if len(ids) <= MOST_TOKENS:
            cases.append(case)
    cases, values = goldens.golden(folder, cases, model=model)
    for case in cases:
        rows = [values[first:first + n] for first, n in (case["logits"], case["last_logits"])]
        case["tolerance"] = 3e-4 * float(max(abs(row).max() for row in rows))
    tiny.write_json(folder, "golden.json", {"model": folder, "cases": cases})
    values.tofile(os.path.join(folder, "golden.bin"))


def try_family(family, a):
    """How many folders hold a case that differs."""
    n_right, n_wrong = 0, 0
    goldens.N_TOKENS = 24 if family == "phi3" else 3  # some answers grow over a border
    for i in range(a.folders):
        rng = random.Random(a.seed * 1000003 + i)
        folder = os.path.join(os.path.abspath(a.work), family, f"drawn{i}")
        make_folder(family, folder, rng, a.seed * 1000 + i, a.cases)
        done = subprocess.run([os.path.abspath(a.test), folder], cwd=goldens.ROOT, capture_output=True, text=True)
        if done.returncode == 0:
            n_right += a.cases
            shutil.rmtree(folder)
        else:
            n_wrong += 1
            print(f"{folder} (kept):\n{done.stdout[-600:]}{done.stderr[-600:]}", flush=True)
    print(f"{family}: {n_right} cases agree, {n_wrong} folders hold one that does not", flush=True)
    return n_wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", default="smolvlm", help=", ".join(sorted(FAMILIES)))
    parser.add_argument("--test", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--folders", type=int, default=40)
    parser.add_argument("--cases", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    families = a.family.split(",")
    unknown = [f for f in families if f not in FAMILIES]
    if unknown:
        parser.error(f"no family {unknown[0]}; there are {', '.join(sorted(FAMILIES))}")
    return 1 if sum([try_family(f, a) for f in families]) else 0


if __name__ == "__main__":
    sys.exit(main())
