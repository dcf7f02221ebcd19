#!/usr/bin/env python3
"""Draws checkpoints, processors, pictures and conversations of families, and compares with transformers.

    tools/draw_cases.py --family smolvlm --test build/release/test_parity --work /tmp/work [--folders 40] [--cases 25] [--seed 1]
                        [--jobs 1] [--minutes M] [--first 0]

--family takes several, by commas, or "all". Their names are those of `FAMILIES` in draw_text.py, draw_experts.py, draw_llava.py,
draw_qwen_vl.py and draw_vision.py: every family of models/families, and beside them "llava_interleave", LLaVA with SigLIP,
"granite_vision", LLaVA-NeXT with Granite, "llava_video", LlavaQwenForCausalLM with newlines in every place, "idefics3" and "glm46v".

Each folder below --work is a tiny random checkpoint with sizes, processor's settings and pictures of its own, and a
golden as make_model_goldens.py writes them; test_parity then compares token ids, logits of the prompt (to 3e-4 of the largest)
and greedy tokens of each case, and logits behind them. Families take turns, a folder each, in --jobs processes. A folder that holds
a case that differs stays, with a golden of such cases alone; --first I --folders 1 draws folder I again. What was done stands in
done.jsonl below --work: the same call goes on from there. Prints a line a family, how many cases agree, and what differs; ends
with 1 if any does or if there was no time for all. Needs what make_tiny_models.py needs, torchvision and num2words; families
that need a package that is missing are left out, and the line says which."""
import argparse
import json
import os
import random
import shutil
import subprocess
import sys

import draw_experts
import draw_jobs
import draw_llava
import draw_qwen_vl
import draw_text
import draw_vision
import make_model_goldens as goldens
import make_tiny_models as tiny

MOST_REFUSED = 40  # times as many as cases that are asked for
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
    goldens.N_TOKENS = 24 if family == "phi3" else 3  # some answers grow over a border
    model, cases, n_drawn = goldens.open_model(folder), [], 0
    kept = prepare_once(model)
    while len(cases) < n_cases:
        n_drawn += 1
        if n_drawn > MOST_REFUSED * n_cases:
            raise RuntimeError(f"{len(cases)} of {n_drawn} cases were taken")
        case = draw(rng, folder, len(cases))
        kept.pop(case["name"], None)  # of one that was left out
        try:
            ids, _ = model.prompt(case)
        except ImportError:
            raise
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


def agrees(test, folder):
    done = subprocess.run([test, "-t", "1", folder], cwd=goldens.ROOT, capture_output=True, text=True, timeout=300)
    if done.returncode:
        print(f"{folder}: ends with {done.returncode}\n{done.stdout[-1000:]}{done.stderr[-1000:]}", flush=True)
    return done.returncode == 0


def differing_cases(test, folder):
    """Each case by itself. The golden of `folder` is then of those alone that differ, and other pictures are gone."""
    head, differ = goldens.read_json(folder, "golden.json"), []
    for case in head["cases"]:
        alone = os.path.join(folder, "alone")
        os.makedirs(alone)
        os.symlink(os.path.join(folder, "golden.bin"), os.path.join(alone, "golden.bin"))
        tiny.write_json(alone, "golden.json", {**head, "cases": [case]})
        if not agrees(test, alone):
            differ.append(case)
        shutil.rmtree(alone)
    if differ:
        tiny.write_json(folder, "golden.json", {**head, "cases": differ})
        of = tuple(f"picture{c['name'].split()[1]}_" for c in differ)
        for name in os.listdir(folder):
            if name.startswith("picture") and not name.startswith(of):
                os.remove(os.path.join(folder, name))
    return [case["name"] for case in differ]


def try_folder(task):
    """{"agree": how many cases, "differ": names of others} or {"missing": a package}."""
    family, i, a = task["family"], task["folder"], task["options"]
    folder = folder_of(task)
    try:
        make_folder(family, folder, random.Random(a.seed * 1000003 + i), a.seed * 1000 + i, a.cases)
    except ImportError as e:
        shutil.rmtree(folder, ignore_errors=True)
        return {"missing": " ".join(str(e).split())[:200]}
    differ = [] if agrees(a.test, folder) else differing_cases(a.test, folder) or ["all together"]
    if not differ:
        shutil.rmtree(folder)
    return {"agree": a.cases - len(differ), "differ": differ}


def folder_of(task):
    return os.path.join(task["options"].work, task["family"], f"drawn{task['folder']}")


def report(tasks, results):
    """A line a family, and those of its folders that are not right. True where all are."""
    right = True
    for family in dict.fromkeys(t["family"] for t in tasks):
        own = [t for t in tasks if t["family"] == family]
        done = [(t, results[t["key"]]) for t in own if t["key"] in results]
        missing = next((r["missing"] for _, r in done if "missing" in r), None)
        n_agree, n_cases = sum(r.get("agree", 0) for _, r in done), sum(t["options"].cases for t, _ in done)
        if missing:
            print(f"{family}: left out, a package is missing: {missing}")
        else:
            n_all = sum(t["options"].cases for t in own)
            print(f"{family}: {n_agree} of {n_cases} agree" + ("" if n_cases == n_all else f"; no time for the other {n_all - n_cases}"))
            right = right and n_agree == n_all
        for t, r in done:
            if r.get("differ"):
                print(f"    {folder_of(t)} (kept): {', '.join(r['differ'])}")
            if "error" in r:
                print(f"    {folder_of(t)} (kept): {r['error']}")
    return right


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", default="smolvlm", help="all, or " + ", ".join(sorted(FAMILIES)))
    parser.add_argument("--test", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--folders", type=int, default=40)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--cases", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1e9, help="no folder is begun later than that")
    a = parser.parse_args()
    a.test, a.work = os.path.abspath(a.test), os.path.abspath(a.work)
    families = list(FAMILIES) if a.family == "all" else a.family.split(",")
    unknown = [f for f in families if f not in FAMILIES]
    if unknown:
        parser.error(f"no family {unknown[0]}; there are {', '.join(sorted(FAMILIES))}")
    tasks = [{"family": f, "folder": i, "key": json.dumps([f, i, a.seed, a.cases]), "options": a}
             for i in range(a.first, a.first + a.folders) for f in families]
    return 0 if report(tasks, draw_jobs.run(tasks, try_folder, folder_of, a)) else 1


if __name__ == "__main__":
    sys.exit(main())
