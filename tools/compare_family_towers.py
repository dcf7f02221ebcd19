#!/usr/bin/env python3
"""The tower and projector of each family, at the sizes of a published model, random bf16 weights: Saccade beside transformers on one card.

    tools/compare_family_towers.py --programs build/cuda --work /dev/shm/work [--only llava gemma3 ...] [--counts 1 8]

Of one picture that fits the tower, and of the last of several in a prompt, the projector's rows of both are first held against transformers' in f32: Saccade's
may be no further off than transformers' own in bf16 (compare_towers.py). Then pictures a second: from patches on the host to rows on the card for Saccade, from pixels on the card to rows
for transformers, attention by torch's sdpa. Qwen2.5-VL and Qwen3-VL are compare_towers.py's. Needs torch, transformers, tower_probe.
--tiny: the folders of tests/golden/models; --device cpu: to try the tool."""
import argparse
import copy
import functools
import json
import pathlib
import shutil

import numpy as np
import torch
import transformers
from PIL import Image

import compare_towers as towers
import model_sizes as sizes
import save_model

# what folder, of what published model, and a picture's size there
FAMILIES = {
    "llava": ("llava-hf/llava-1.5-7b-hf", (336, 336)),
    "internvl": ("OpenGVLab/InternVL3-2B-hf", (448, 448)),
    "smolvlm": ("HuggingFaceTB/SmolVLM2-500M-Video-Instruct", (512, 512)),
    "gemma3": ("google/gemma-3-4b-it", (896, 896)),
    "pixtral": ("mistral-community/pixtral-12b", (1024, 768)),
    "mistral3": ("mistralai/Mistral-Small-3.1-24B-Instruct-2503", (1008, 756)),
    "glm4v": ("zai-org/GLM-4.1V-9B-Thinking", (1176, 868)),
    "qwen2_vl": ("Qwen/Qwen2-VL-7B-Instruct", (1176, 868)),
}
# bounds on pixels as published: those of the goldens are for their small pictures
BOUNDS = {"pixtral": {"size": {"longest_edge": 1024}}, "mistral3": {"size": {"longest_edge": 1540}},
          "glm4v": {"size": {"shortest_edge": 12544, "longest_edge": 9633792}}, "qwen2_vl": {"size": {"shortest_edge": 3136, "longest_edge": 12845056}}}
TINY = {"llava": (30, 30), "internvl": (24, 24), "smolvlm": (32, 32), "gemma3": (24, 24), "pixtral": (36, 24), "mistral3": (40, 24), "glm4v": (48, 48),
        "qwen2_vl": (48, 48)}


def make(folder, family, a):
    """The model, or None where the folder was there."""
    if (folder / "config.json").exists():
        return None
    golden, changes = sizes.MODELS[FAMILIES[family][0]]
    folder.mkdir(parents=True, exist_ok=True)
    source = pathlib.Path(sizes.FOLDER) / golden
    old = json.loads((source / "config.json").read_text())
    config = sizes.with_pinpoints(sizes.merged(golden, {**changes, "text_config": {**changes["text_config"], "num_hidden_layers": 2}}), old)
    if a.tiny:
        shutil.copytree(source, folder, dirs_exist_ok=True)
        return None
    torch.manual_seed(1)
    with torch.device(a.device):
        kind = transformers.AutoConfig.for_model(**json.loads(json.dumps(config)))
        model = transformers.AutoModelForImageTextToText.from_config(kind, attn_implementation="sdpa")
        save_model.stir(model)
    save_model.save(save_model.cast(model, torch.bfloat16), folder)
    sizes.write_json(folder, "config.json", config)
    sizes.processors(str(source), str(folder), old, config)
    if family in BOUNDS:
        content = json.loads((folder / "preprocessor_config.json").read_text())
        sizes.write_json(folder, "preprocessor_config.json", {**content, **BOUNDS[family]})
    return model


class Theirs:
    def __init__(self, a, folder, dtype, model=None):
        if model is None:
            model = transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=dtype, attn_implementation="sdpa").to(a.device)
        self.model = save_model.cast(model, dtype)
        self.processor, self.device, self.dtype = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil"), a.device, dtype

    def input(self, pictures):
        batch = self.processor(images=pictures if not isinstance(self.processor, transformers.SmolVLMImageProcessorPil) else [pictures], return_tensors="pt",
                               **({"crop_to_patches": False} if "GotOcr" in type(self.processor).__name__ else {}))
        keep = ("pixel_values", "image_grid_thw", "image_sizes", "pixel_attention_mask")
        return {k: torch.as_tensor(v).to(self.device, self.dtype if k == "pixel_values" else None) for k, v in batch.items() if k in keep}

    @torch.inference_mode()
    def rows(self, pictures):
        out = self.model.get_image_features(**self.input(pictures)).pooler_output
        parts = [x.reshape(-1, x.shape[-1]) for x in (out if isinstance(out, (list, tuple)) else [out])]
        return torch.cat(parts).float().cpu().numpy()

    @torch.inference_mode()
    def seconds(self, pictures, repeats):
        return towers.least(functools.partial(self.model.get_image_features, **self.input(pictures)), repeats)


def compare(a, family):
    folder, size = a.work / (family + ("-tiny" if a.tiny else "-2")), TINY[family] if a.tiny else FAMILIES[family][1]
    made = make(folder, family, a)
    pictures, paths = [], []
    for i in range(max(a.counts)):
        pictures.append(Image.fromarray(np.random.default_rng(i).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)))
        paths.append(a.work / f"{family}-{i:02}.bmp")
        pictures[-1].save(paths[-1])
    probe, out = towers.Saccade(a, folder, keep=True), [a.work / "first.bin", a.work / "last.bin"]
    probe.ask("rows", out[0], paths[0])
    probe.ask("rows", out[1], *paths)
    probe.close()
    exact = Theirs(a, folder, torch.float32, copy.deepcopy(made))
    shown = pictures[:1], pictures[-1:]
    want = [exact.rows(p) for p in shown]
    del exact
    theirs = Theirs(a, folder, torch.bfloat16, made)
    good, cells = True, []
    for path, p, w in zip(out, shown, want):
        got = np.fromfile(path, np.float32).reshape(-1, w.shape[1])
        if got.shape != w.shape:
            print(f"| {family} | {got.shape[0]} rows, not {w.shape[0]} | NO | | |", flush=True)
            return False
        ours, rounding = towers.apart(got, w), towers.apart(theirs.rows(p), w)
        good = good and ours[0] <= 1.25 * rounding[0] + 1e-4 and ours[1] <= 2 * rounding[1] + 1e-3
        cells.append(f"off by {ours[0]:.2e}, transformers {rounding[0]:.2e}")
    print(f"| {family}, {FAMILIES[family][0]} | {len(want[0])} rows, {'; '.join(cells)} | {'yes' if good else 'NO'} | ", end="")
    probe = towers.Saccade(a, folder)
    cells = []
    for n in a.counts:
        t = theirs.seconds(pictures[:n], a.repeats)
        s = probe.ask("pictures", a.repeats, *paths[:n])["vision_s"]
        cells.append(f"{n}: {n / s:.1f}/s, transformers {n / t:.1f}, {t / s:.2f}")
    probe.close()
    print(" | ".join(cells) + " |", flush=True)
    return good


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--programs", type=pathlib.Path, default="build/cuda")
    p.add_argument("--work", type=pathlib.Path, required=True)
    p.add_argument("--only", "--families", dest="families", nargs="+", default=list(FAMILIES), choices=FAMILIES)
    p.add_argument("--counts", nargs="+", type=int, default=[1, 8])
    p.add_argument("--repeats", type=int, default=5)
    p.add_argument("--tiny", action="store_true")
    p.add_argument("--device", default="cuda")
    a = p.parse_args()
    a.ctx = 1000 if a.tiny else 34000
    a.probe = next(q for q in (a.programs / "tower_probe", a.programs / "tests/tower_probe") if q.exists())
    a.work.mkdir(parents=True, exist_ok=True)
    torch.backends.cudnn.allow_tf32 = False
    print("| family | rows | within | " + " | ".join(f"{n} at once" for n in a.counts) + " |\n" + "|---" * (3 + len(a.counts)) + "|", flush=True)
    good = True
    for family in a.families:
        try:
            good = compare(a, family) and good
        except Exception as e:
            good = False
            print(f"| {family} | {type(e).__name__}: {' '.join(str(e).split())[:200]} | NO |", flush=True)
        if a.device == "cuda":
            torch.cuda.empty_cache()
        if not a.tiny:
            shutil.rmtree(a.work / family, ignore_errors=True)
    return not good


if __name__ == "__main__":
    raise SystemExit(main())
