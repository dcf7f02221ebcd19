#!/usr/bin/env python3
"""One model on one card as other cards would run it: without early starts, without cuDNN, as cards of an older compute
capability. Logits of every step of long answers are compared with those of the card as it is.

  tools/check_cuda_limits.py build/cuda/text_probe MODEL [--steps 1000] [--prompt 900] [--binary80 build/cuda80/text_probe]

Without early starts the bits must be the same: a kernel that reads what the one before it has not yet written shows here.
The others take other kernels: of each row's largest logit, differences may be a share of --share. A method that chooses
rows passes that on where two rows are almost alike: another rounding chooses the other one, and all that follows differs.
So it may differ by as much as it does on the card as it is, in the mean of all rows, when the model is another by a
rounding: the last bit of one weight in --every is turned over (the control). --binary80: a build for sm_80 alone, whose
code the driver makes anew for this card; the host then counts on what an A100 has. Exit status 1 where something differs
by more, or nothing was compared.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile

import numpy

FORMATS = {"dense": [], "tokenselect": ["decode=tokenselect:init=4,k=200,local=64"], "mixed": ["kv=mixed"],
           "twilight": ["decode=twilight:p=0.9"]}
CHOOSES = {"tokenselect", "twilight"}
CONTROL_SLACK = 1.5  # of the control's mean
LIMITS = ["early=0", "cudnn=0", "compute=80,shared=163", "compute=89,shared=99"]


def rows(binary, model, limits, extra, ids, n_prompt, vocab):
    """Logits of the prompt's last token and of every one after it,
    as [n][vocab]."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "logits")
        env = {**os.environ, "SAC_CUDA_LIMITS": limits}
        request = f"dump {path} {n_prompt} {' '.join(map(str, ids))}\n"
        run = subprocess.run([binary, model, str(len(ids) + 64), "4", "cuda", *extra], input=request, env=env, text=True,
                             capture_output=True, timeout=600)
        if run.returncode != 0:
            raise SystemExit(f"{binary} {limits} {' '.join(extra)}: {run.stderr.strip()[-300:]}")
        n = json.loads(run.stdout.splitlines()[0])["rows"]
        return numpy.fromfile(path, numpy.float32).reshape(n, vocab)


def nudged(model, folder, every):
    """The model in 16 bits with the last bit of one weight in `every` turned over, in a folder of its own."""
    shutil.copytree(model, folder)
    for path in pathlib.Path(folder).glob("*.safetensors"):
        data = numpy.fromfile(path, numpy.uint8)
        begin = 8 + struct.unpack("<Q", data[:8].tobytes())[0]
        data[begin::2 * every] ^= 1
        data.tofile(path)
    return folder


def shares(a, b):
    """Of each row: the largest difference, as a share of its largest logit."""
    return abs(a - b).max(axis=1) / abs(a).max(axis=1)


def said(share):
    return f"largest difference {share.max():.4f} of the largest, mean {share.mean():.4f}"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("binary")
    p.add_argument("model")
    p.add_argument("--steps", type=int, default=1000)
    p.add_argument("--prompt", type=int, default=900)
    p.add_argument("--share", type=float, default=0.05)
    p.add_argument("--every", type=int, default=64)
    p.add_argument("--binary80")
    p.add_argument("--only", nargs="*", default=list(FORMATS), choices=list(FORMATS))
    o = p.parse_args()
    vocab = json.loads(pathlib.Path(o.model, "config.json").read_text())
    vocab = vocab.get("text_config", vocab)["vocab_size"]
    rng = random.Random(7)
    ids = [rng.randrange(10, vocab - 10) for _ in range(o.prompt + o.steps)]
    bad = n_compared = 0
    for name in o.only:
        base = rows(o.binary, o.model, "", FORMATS[name], ids, o.prompt, vocab)
        if not numpy.isfinite(base).all():
            raise SystemExit(f"{name}: logits that are no numbers")
        most_mean = 0
        if name in CHOOSES:
            with tempfile.TemporaryDirectory() as folder:
                other = nudged(o.model, pathlib.Path(folder, "nudged"), o.every)
                share = shares(base, rows(o.binary, other, "", FORMATS[name], ids, o.prompt, vocab))
            most_mean = CONTROL_SLACK * share.mean()
            print(f"{name:12} {'control':34} {len(base)} rows, {said(share)}", flush=True)
        cases = [(o.binary, limits) for limits in LIMITS]
        if o.binary80:
            cases += [(o.binary80, ""), (o.binary80, "compute=89,shared=99")]
        for binary, limits in cases:
            found = rows(binary, o.model, limits, FORMATS[name], ids, o.prompt, vocab)
            same = base.tobytes() == found.tobytes()
            share = shares(base, found)
            ok = same if limits == "early=0" else share.max() <= o.share or share.mean() <= most_mean
            bad += not ok
            n_compared += len(found)
            label = ("sm_80 build " if binary == o.binary80 else "") + limits
            print(f"{name:12} {label:34} {len(found)} rows, "
                  f"{'the same bits' if same else said(share)}"
                  f"{'' if ok else '  FAILED'}", flush=True)
    print(f"{n_compared} rows, {bad} failed")
    return 1 if bad or not n_compared else 0


if __name__ == "__main__":
    sys.exit(main())
