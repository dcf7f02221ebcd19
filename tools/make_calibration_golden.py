#!/usr/bin/env python3
"""tests/golden/calibration.safetensors: GPTQ in f64 on a small matrix, from the paper's own recipe (arXiv:2210.17323, Algorithm 1),
column by column: the Cholesky factor of the inverse of H = X^T X with 1 % of the mean diagonal added, a group's scale when its
first column is met.

    tools/make_calibration_golden.py

X: 96 rows whose columns are correlated and of very different size, column 5 all 0. `w` [8][48]: the matrix. `h`: X^T X, f64.
`u`: the factor, f64. For each format `codes.FORMAT` [8][48] and `scales.FORMAT` [8][groups] in f32, `loss.FORMAT` in f64; `s`: the
same of w s, whose inputs are x / s, for format w4g16. `magnitude`: mean |x|; `grid` [20]: the losses of w4g16 with AWQ's scales
(arXiv:2306.00978), mean |x|, a thousandth of its mean at least, to the power of 0 to 19 twentieths, over the root of the largest times the smallest. Needs numpy and safetensors."""
import os

import numpy as np
from safetensors.numpy import save_file

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FORMATS = {"w4g16": (4, 16, 0), "w4g24": (4, 24, 0), "w4": (4, 48, 0), "w8": (8, 48, 0), "w4g16s": (4, 16, 1)}


def bf16(x):
    u = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((u + 0x7fff + (u >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)


def factor(h):
    h = h.copy()
    i = np.arange(len(h))
    h[i, i] = np.where(h[i, i] == 0, 1, h[i, i])
    h[i, i] += 0.01 * h[i, i].mean()
    return np.linalg.cholesky(np.linalg.inv(h)).T


def gptq(w, u, bits, group, s):
    w = w.astype(np.float64) * s
    u = u * s # of inputs divided by s
    k = w.shape[1]
    half = 2 ** (bits - 1)
    codes, scales, loss = np.zeros(w.shape, np.int8), [], 0.0
    for i in range(k):
        if i % group == 0:
            most = np.abs(w[:, i:i + group]).astype(np.float32).max(1)
            scale = bf16(most / np.float32(half - 0.5))
            scales.append(scale)
        q = np.clip(np.rint(w[:, i] / scale), -half, half - 1)
        codes[:, i] = q
        e = (w[:, i] - q * scale) / u[i, i]
        loss += (e * e).sum()
        w[:, i + 1:] -= e[:, None] * u[i, i + 1:]
    return codes, np.stack(scales, 1), loss


def channel_scales(x, alpha):
    """AWQ's, for the grid's alpha."""
    m = np.abs(x.astype(np.float64)).mean(0)
    s = np.maximum(m, 1e-3 * m.mean()) ** (alpha / 20)
    return (s / np.sqrt(s.max() * s.min())).astype(np.float32)


def main():
    rng = np.random.default_rng(23)
    mix = rng.standard_normal((48, 48)) * 0.4 + np.eye(48)
    x = (rng.standard_normal((96, 48)) @ mix * np.exp(rng.standard_normal(48) * 1.2)).astype(np.float32)
    x[:, 5] = 0
    w = (rng.standard_normal((8, 48)) * 0.05).astype(np.float32)
    w[2, 7] = 0.6
    s = np.exp(rng.standard_normal(48) * 0.5).astype(np.float32)
    h = x.astype(np.float64).T @ x.astype(np.float64)
    u = factor(h)
    out = {"w": w, "h": h, "u": np.ascontiguousarray(u), "s": s}
    for name, (bits, group, scaled) in FORMATS.items():
        out["codes." + name], out["scales." + name], loss = gptq(w, u, bits, group, s if scaled else np.ones(48))
        out["loss." + name] = np.array([loss])
        print(name, loss)
    out["magnitude"] = np.abs(x.astype(np.float64)).mean(0)
    out["grid"] = np.array([gptq(w, u, 4, 16, channel_scales(x, a).astype(np.float64))[2] for a in range(20)])
    print("grid", out["grid"].argmin(), out["grid"])
    save_file({k: np.ascontiguousarray(v) for k, v in out.items()}, os.path.join(ROOT, "tests/golden/calibration.safetensors"))


if __name__ == "__main__":
    main()
