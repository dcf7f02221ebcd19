#!/usr/bin/env python3
"""Vision towers of Qwen2.5-VL-7B's and Qwen3-VL-8B's shapes, random bf16 weights: Saccade beside transformers on one card.

    tools/compare_towers.py --programs build/cuda --work /tmp/work
    tools/compare_towers.py --programs build/cuda --work /tmp/work --layers 28 --shapes qwen2.5-vl-7b --first-token

First the merger's rows of a picture, of one among several and of a video, DeepStack's too, of both beside transformers in f32. Then pictures a second at
0.3, 1 and 4 megapixels, one and eight a prompt, and 64 frames of 720p: patches on the host and rows on the card for Saccade, both on the card
for transformers. Its attention is torch's (sdpa, a call for each window or frame), and FlashAttention-2 over segments of any length,
as transformers calls it, with the kernel that torch has. --first-token: a picture of each size and a token after it, patches included.
Pictures have sizes that neither side changes. Needs torch, transformers and tower_probe. --tiny: small shapes, --device cpu: to try the tool."""
import argparse
import copy
import functools
import inspect
import json
import pathlib
import shutil
import subprocess
import time

import numpy as np
import torch
import transformers
from PIL import Image
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

import save_model

ROOT = pathlib.Path(__file__).resolve().parent.parent
FRAMES = 64
SHAPES = {
    "qwen2.5-vl-7b": dict(
        golden="qwen2_5_vl", unit=28, sizes=[(644, 476), (1176, 868), (2324, 1736)], frame=(1288, 728),
        vision=dict(depth=32, hidden_size=1280, num_heads=16, intermediate_size=3420, patch_size=14, out_hidden_size=3584, window_size=112,
                    fullatt_block_indexes=[7, 15, 23, 31], tokens_per_second=2),
        text=dict(hidden_size=3584, intermediate_size=18944, num_hidden_layers=28, num_attention_heads=28, num_key_value_heads=4,
                  vocab_size=152064, max_position_embeddings=128000),
        rope=dict(rope_type="default", mrope_section=[16, 24, 24], rope_theta=1e6)),
    "qwen3-vl-8b": dict(
        golden="qwen3_vl", unit=32, sizes=[(640, 480), (1152, 896), (2304, 1728)], frame=(1280, 704),
        vision=dict(depth=27, hidden_size=1152, num_heads=16, intermediate_size=4304, patch_size=16, out_hidden_size=4096,
                    num_position_embeddings=2304, deepstack_visual_indexes=[8, 16, 24], hidden_act="gelu_pytorch_tanh"),
        text=dict(hidden_size=4096, intermediate_size=12288, num_hidden_layers=36, num_attention_heads=32, num_key_value_heads=8, head_dim=128,
                  vocab_size=151936, max_position_embeddings=262144),
        rope=dict(rope_type="default", mrope_section=[24, 20, 20], mrope_interleaved=True, rope_theta=5e6)),
}
TINY = dict(depth=3, hidden_size=160, num_heads=2, intermediate_size=172)


def read(name, golden):
    return json.loads((ROOT / "tests/golden/models" / golden / name).read_text())


def make(folder, shape, layers, tiny, device):
    """The shape with so many layers of the language model, and processors that leave the pictures' sizes alone; the model, or None where the folder was there."""
    if (folder / "config.json").exists():
        return None
    s = SHAPES[shape]
    config = read("config.json", s["golden"])
    config["vision_config"].update(s["vision"])
    config["text_config"].update(s["text"], num_hidden_layers=layers, rope_parameters=s["rope"])
    if tiny:
        config["vision_config"].update(TINY, out_hidden_size=64)
        config["text_config"].update(hidden_size=64, intermediate_size=96, num_attention_heads=4, num_key_value_heads=2, head_dim=16, vocab_size=288,
                                     rope_parameters={**s["rope"], "mrope_section": [4, 2, 2]})
        for name, value in (("fullatt_block_indexes", [1]), ("deepstack_visual_indexes", [0, 1])):
            if name in config["vision_config"]:
                config["vision_config"][name] = value
    kind = transformers.AutoConfig.for_model(**config)
    torch.manual_seed(1)
    with torch.device(device):
        model = getattr(transformers, config["architectures"][0])(kind)
        save_model.stir(model)
    save_model.save(save_model.cast(model, torch.bfloat16), folder)
    (folder / "config.json").write_text(json.dumps(config))
    shutil.copy(ROOT / "tests/golden/models" / s["golden"] / "tokenizer.json", folder)
    for name, most in (("preprocessor_config.json", max(w * h for w, h in s["sizes"])), ("video_preprocessor_config.json", 2 * FRAMES * 1280 * 736)):
        p = {k: v for k, v in read(name, s["golden"]).items() if not k.endswith("_pixels")}
        p.update(patch_size=s["vision"]["patch_size"], size={"shortest_edge": 4 * s["unit"] ** 2, "longest_edge": most})
        (folder / name).write_text(json.dumps(p))
    return model


def draw(size, seed):
    r = np.random.default_rng(seed)
    coarse = r.integers(0, 255, (size[1] // 4, size[0] // 4, 3), dtype=np.uint8)
    return coarse.repeat(4, axis=0).repeat(4, axis=1)


def patches(folder, frames, device):
    """Rows as the processors make them, square by square, and how many there are along each axis."""
    p = json.loads((folder / "preprocessor_config.json").read_text())
    side, merge, pair = p["patch_size"], p["merge_size"], p["temporal_patch_size"]
    frames = frames + [frames[-1]] * (-len(frames) % pair)
    x = torch.tensor(np.stack(frames), device=device).permute(0, 3, 1, 2).float() / 255
    mean, std = (torch.tensor(p[k], device=device).view(1, 3, 1, 1) for k in ("image_mean", "image_std"))
    x = (x - mean) / std
    t, h, w = len(frames) // pair, x.shape[2] // side, x.shape[3] // side
    x = x.reshape(t, pair, 3, h // merge, merge, side, w // merge, merge, side).permute(0, 3, 6, 4, 7, 2, 1, 5, 8)
    return x.reshape(t * h * w, -1), [t, h, w]


def attention_of_segments(module, query, key, value, attention_mask, scaling=None, cu_seq_lens_q=None, max_length_q=None, **_):
    """What transformers' flash_attention_2 computes of a tower, by the kernel of the same name that torch has."""
    q, k, v = (t.transpose(1, 2)[0] for t in (query, key, value))
    n = int(max_length_q) if max_length_q is not None else int((cu_seq_lens_q[1:] - cu_seq_lens_q[:-1]).max())
    out = torch.ops.aten._flash_attention_forward(q, k, v, cu_seq_lens_q, cu_seq_lens_q, n, n, 0.0, False, False, scale=scaling)[0]
    return out[None], None


class Transformers:
    def __init__(self, folder, device, dtype=torch.bfloat16, model=None):
        kind = getattr(transformers, json.loads((folder / "config.json").read_text())["architectures"][0])
        if model is None:
            model = kind.from_pretrained(folder, dtype=dtype, attn_implementation="sdpa").to(device).eval()
        self.model = save_model.cast(model, dtype)
        self.device, self.dtype, self.folder = device, dtype, folder
        ALL_ATTENTION_FUNCTIONS.register("flash_attention_of_segments", attention_of_segments)

    def choose(self, attention):
        self.model.model.visual.config._attn_implementation = {"sdpa": "sdpa", "flash": "flash_attention_of_segments"}[attention]

    def input(self, pictures):
        """Each a list of frames."""
        rows, grids = zip(*(patches(self.folder, f, self.device) for f in pictures))
        return torch.cat(rows).to(self.dtype), torch.tensor(grids, device=self.device)

    @torch.inference_mode()
    def rows(self, pictures):
        """[rows][out], and those of DeepStack's layers behind one another."""
        x, grid = self.input(pictures)
        out = self.model.model.visual(x, grid_thw=grid, return_dict=True)
        deep = getattr(out, "deepstack_features", None) or []
        return [t.float().cpu().numpy() for t in (out.pooler_output, *deep)]

    @torch.inference_mode()
    def seconds(self, pictures, repeats):
        x, grid = self.input(pictures)
        return least(functools.partial(self.model.model.visual, x, grid_thw=grid, return_dict=True), repeats)

    @torch.inference_mode()
    def first_token(self, pictures, n_tokens, repeats):
        """A prompt of n_tokens, rows of pictures among them."""
        x, grid = self.input(pictures)
        c = self.model.config
        n_rows = int(grid.prod(-1).sum()) // c.vision_config.spatial_merge_size ** 2
        text = [(7 * i) % 200 + 20 for i in range(n_tokens - n_rows - 2 * len(pictures))]
        ids = text[:len(text) // 2]
        for g in grid.tolist():
            ids += [c.vision_start_token_id] + [c.image_token_id] * (g[0] * g[1] * g[2] // c.vision_config.spatial_merge_size ** 2) + [c.vision_end_token_id]
        ids = torch.tensor([ids + text[len(text) // 2:]], device=self.device)
        more = {}
        if "mm_token_type_ids" in inspect.signature(self.model.forward).parameters:
            more["mm_token_type_ids"] = (ids == c.image_token_id).int()

        def run():
            out = self.model(input_ids=ids, pixel_values=x, image_grid_thw=grid, use_cache=True, logits_to_keep=1, **more)
            return int(out.logits[0, -1].argmax())
        return least(run, repeats)


def least(fn, repeats):
    best = None
    for i in range(repeats + 1):  # the first warms up
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        t = time.perf_counter()
        fn()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        t = time.perf_counter() - t
        best = t if i and (best is None or t < best) else best
    return best


class Saccade:
    def __init__(self, a, folder, keep=False, more=()):
        args = [str(a.probe), str(folder), str(a.ctx), a.device] + (["keep=1"] if keep else []) + list(more)
        self.process = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"tower_probe ended with {self.process.wait()}")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def apart(a, b):
    """Relative error of all rows, and of the worst one."""
    each = np.linalg.norm(a - b, axis=1) / np.linalg.norm(b, axis=1)
    return float(np.linalg.norm(a - b) / np.linalg.norm(b)), float(each.max())


def check(a, shape, folder, cases, theirs, exact):
    """Whether Saccade's rows are as near to f32 as transformers' own."""
    probe, good = Saccade(a, folder, keep=True), True
    for name, frames, paths, is_video in cases:
        out = a.work / "rows.bin"
        probe.ask("video" if is_video else "rows", out, *paths)
        want = exact.rows([frames])
        own = theirs.rows([frames])
        n, width = want[0].shape
        got = np.fromfile(out, np.float32)
        parts = [got[:n * width].reshape(n, width), *(got[n * width:].reshape(n, -1, width).transpose(1, 0, 2) if len(got) > n * width else [])]
        for i, (w, o, g) in enumerate(zip(want, own, parts, strict=True)):
            ours, rounding = apart(g, w), apart(o, w)
            fine = ours[0] <= 1.25 * rounding[0] + 1e-4 and ours[1] <= 2 * rounding[1] + 1e-3
            good = good and fine
            print(f"| {shape} | {name}{f', DeepStack {i}' if i else ''} | {ours[0]:.2e} | {ours[1]:.2e} | {rounding[0]:.2e} | {rounding[1]:.2e} | "
                  f"{'yes' if fine else 'NO'} |", flush=True)
    probe.close()
    return good


def save(a, shape, name, size, n):
    pictures, paths = [draw(size, i) for i in range(n)], []
    for i, p in enumerate(pictures):
        paths.append(a.work / f"{shape}-{name}-{i:02}.bmp")
        Image.fromarray(p).save(paths[-1])
    return pictures, paths


def report(shape, what, n, unit, ours, theirs):
    line = f"| {shape} | {what} | {n / ours['vision_s']:.1f} {unit} | "
    line += " | ".join("-" if t is None else f"{n / t:.1f}, {t / ours['vision_s']:.2f}" for t in theirs)
    print(line + f" | {1e3 * ours['cold_vision_s']:.0f} ms |", flush=True)


def time_shape(a, shape, folder, theirs):
    s, probe = SHAPES[shape], Saccade(a, folder)
    for size in s["sizes"][:a.sizes]:
        for n in (1, 8):
            pictures, paths = save(a, shape, size[0], size, n)
            ours = probe.ask("pictures", a.repeats, *paths)
            times = [run_theirs(theirs, name, [[p] for p in pictures], a.repeats) for name in a.attention]
            report(shape, f"{n} of {size[0]} x {size[1]}", n, "/s", ours, times)
    n = a.frames
    frames, paths = save(a, shape, "frame", s["frame"], n)
    ours = probe.ask("frames", 2, *paths)
    ours["vision_s"] += ours["media_s"]  # batches run while the host copies the next
    report(shape, f"{n} frames of {s['frame'][0]} x {s['frame'][1]}", n, "/s", ours,
           [run_theirs(theirs, name, [frames], 2) for name in a.attention])
    probe.close()


def run_theirs(theirs, attention, pictures, repeats):
    theirs.choose(attention)
    try:
        return theirs.seconds(pictures, repeats)
    except torch.cuda.OutOfMemoryError:
        return None


def time_first_tokens(a, shape, folder, theirs):
    s, probe = SHAPES[shape], Saccade(a, folder)
    print("| shape | prompt | tokens | Saccade ms: tower | prefill | first token | " + " | ".join(f"transformers, {x}, ratio" for x in a.attention) +
          " |\n" + "|---" * (6 + len(a.attention)) + "|")
    for size in s["sizes"][:a.sizes]:
        pictures, paths = save(a, shape, size[0], size, 1)
        ours = probe.ask("pictures", a.repeats, *paths)
        line = []
        for name in a.attention:
            theirs.choose(name)
            t = theirs.first_token([[p] for p in pictures], ours["tokens"], a.repeats)
            line.append(f"{1e3 * t:.1f}, {t / ours['first_token_s']:.2f}")
        print(f"| {shape} | a picture of {size[0]} x {size[1]} | {ours['tokens']} | {1e3 * ours['vision_s']:.1f} | {1e3 * ours['prefill_s']:.1f} | "
              f"{1e3 * ours['first_token_s']:.1f} | " + " | ".join(line) + " |", flush=True)
    probe.close()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--programs", type=pathlib.Path, default="build/cuda")
    p.add_argument("--work", type=pathlib.Path, required=True)
    p.add_argument("--shapes", nargs="+", default=list(SHAPES), choices=SHAPES)
    p.add_argument("--layers", type=int, default=4, help="of the language model: three or more")
    p.add_argument("--attention", nargs="*", default=["sdpa", "flash"], choices=["sdpa", "flash"])
    p.add_argument("--repeats", type=int, default=5)
    p.add_argument("--frames", type=int, default=FRAMES)
    p.add_argument("--sizes", type=int, default=3, help="so many of the three sizes")
    p.add_argument("--first-token", action="store_true", help="that alone, after the check")
    p.add_argument("--tiny", action="store_true")
    p.add_argument("--device", default="cuda")
    a = p.parse_args()
    a.ctx = 45000 if a.frames > 8 else 8192
    a.probe = next(p for p in (a.programs / "tower_probe", a.programs / "tests/tower_probe") if p.exists())
    a.work.mkdir(parents=True, exist_ok=True)
    if a.device == "cuda":
        print(torch.cuda.get_device_name(), end=", ")
    print("torch", torch.__version__, "transformers", transformers.__version__, flush=True)
    torch.backends.cudnn.allow_tf32 = False  # f32 is f32
    good = True
    for shape in a.shapes:
        folder = a.work / f"{shape}-{a.layers}"
        made = make(folder, shape, a.layers, a.tiny, a.device)
        exact = Transformers(folder, a.device, torch.float32, copy.deepcopy(made)) if a.layers <= 4 else None
        theirs = Transformers(folder, a.device, model=made)
        if exact:
            print("| shape | rows | Saccade to f32 | worst row | transformers in bf16 to f32 | worst row | within |\n" + "|---" * 7 + "|")
            side = SHAPES[shape]["unit"]
            cases = [("a picture", *save(a, shape, "check", (side * 17, side * 13), 1), False),
                     ("a wide picture", *save(a, shape, "wide", (side * 40, side * 3), 1), False),
                     ("5 frames", *save(a, shape, "video", (side * 10, side * 9), 5), True)]
            several, paths = save(a, shape, "several", (side * 11, side * 9), 8)
            cases.append(("the last of 8", several[-1:], paths, False))
            good = check(a, shape, folder, cases, theirs, exact) and good
            del exact
        if a.first_token:
            time_first_tokens(a, shape, folder, theirs)
        else:
            print("| shape | | Saccade | " + " | ".join(f"transformers, {x}, ratio" for x in a.attention) + " | Saccade, first time |\n" +
                  "|---" * (4 + len(a.attention)) + "|")
            time_shape(a, shape, folder, theirs)
        del theirs
    return not good


if __name__ == "__main__":
    raise SystemExit(main())
