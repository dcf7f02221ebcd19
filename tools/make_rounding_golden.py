#!/usr/bin/env python3
"""tests/golden/rounding.safetensors: rows of floats, what gguf-py's quants.py makes of them in each type that it can write,
and how large the error of a straightforward search for the scales of K-quants is.

    tools/make_rounding_golden.py

`x` [12][256]: drawn from the normal distribution, with outliers, of one sign, constant, of very small numbers, and zero.
`q8_0` and so on: bytes. `rms`: root mean square errors of q4_k, q5_k and q6_k in that order, over all rows, each relative to
its row's root mean square. The search is what is known of llama.cpp's: candidates for the step, weights of sqrt(mean square) +
magnitude where there is a minimum and of the square where there is none, one regression each. Needs numpy and gguf."""
import os

import numpy as np
from gguf import GGMLQuantizationType as T, quants
from safetensors.numpy import save_file

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def rows():
    rng = np.random.default_rng(20)
    x = rng.standard_normal((12, 256)).astype(np.float32) * np.float32(0.02)
    x[1, ::37] *= 12
    x[2] = np.abs(x[2])
    x[3] = -np.abs(x[3])
    x[4] = 0.25
    x[5] = -0.125
    x[6] *= np.float32(1e-6)
    x[7] = 0
    x[8, 32:64] = 0
    x[9] = np.arange(-128, 128, dtype=np.float32) / 64 # many ties
    x[10] *= 1000
    return x


def search_min(x, most, first, step, n):
    """(scale, min) of one group of 32."""
    w = np.sqrt((x * x).mean()) + np.abs(x)
    low, high = min(x.min(), 0), x.max()
    if high <= low:
        return 0.0, -low
    best, chosen = None, (0.0, -low)
    steps = [(0.0, True)] + [(first + step * i, False) for i in range(n + 1)]
    for delta, plain in steps:
        q = np.clip(np.rint((x - low) * (most + delta) / (high - low)), 0, most)
        if plain:
            scale, offset = (high - low) / most, low
        else:
            sw, sq, sq2, sx, sqx = w.sum(), (w * q).sum(), (w * q * q).sum(), (w * x).sum(), (w * q * x).sum()
            det = sw * sq2 - sq * sq
            if det <= 0:
                continue
            scale, offset = (sw * sqx - sx * sq) / det, (sq2 * sx - sq * sqx) / det
            if offset > 0:
                offset, scale = 0.0, sqx / sq2
        error = (w * (scale * q + offset - x) ** 2).sum()
        if best is None or error < best:
            best, chosen = error, (scale, -offset)
    return chosen


def with_minima(row, most, *search):
    """The row as blocks of eight groups have it."""
    x = row.astype(np.float64).reshape(8, 32)
    found = np.array([search_min(g, most, *search) for g in x])
    d, dmin = (float(np.float16(v / 63)) for v in np.maximum(found.max(0), 0))
    s = np.clip(np.rint(found[:, 0] / d), 0, 63) if d else np.zeros(8)
    m = np.clip(np.rint(found[:, 1] / dmin), 0, 63) if dmin else np.zeros(8)
    step, low = (d * s)[:, None], (dmin * m)[:, None]
    q = np.clip(np.rint((x + low) / np.where(step == 0, np.inf, step)), 0, most)
    return (q * step - low).reshape(-1)


def search_signed(x, most):
    largest = x[np.abs(x).argmax()]
    if largest == 0:
        return 0.0
    best, chosen = -1.0, 0.0
    for k in range(-9, 10):
        q = np.clip(np.rint(-(most + 0.1 * k) / largest * x), -most, most - 1)
        qx, q2 = (x * x * q * x).sum(), (x * x * q * q).sum()
        if q2 > 0 and qx * qx > best * q2:
            best, chosen = qx * qx / q2, qx / q2
    return chosen


def signed(row):
    x = row.astype(np.float64).reshape(16, 16)
    scales = np.array([search_signed(g, 32) for g in x])
    d = float(np.float16(scales[np.abs(scales).argmax()] / -128))
    step = (d * (np.clip(np.rint(scales / d), -128, 127) if d else np.zeros(16)))[:, None]
    q = np.clip(np.rint(x / np.where(step == 0, np.inf, step)), -32, 31)
    return (q * step).reshape(-1)


def relative(x, rounded):
    size = np.sqrt((x.astype(np.float64) ** 2).mean(-1))
    error = np.sqrt(((x - rounded) ** 2).mean(-1))
    return float(np.mean(error[size > 0] / size[size > 0]))


def main():
    x = rows()
    out = {"x": x}
    for name in ("q8_0", "q4_0", "q4_1", "q5_0", "q5_1"):
        out[name] = np.ascontiguousarray(quants.quantize(x, T[name.upper()]))
    drawn = x[[0, 1, 2, 3, 10, 11]]
    out["rms"] = np.array([relative(drawn, np.stack([f(r) for r in drawn])) for f in (
        lambda r: with_minima(r, 15, -1.0, 0.1, 20), lambda r: with_minima(r, 31, -0.5, 0.1, 15), signed)], np.float32)
    print(out["rms"])
    save_file(out, os.path.join(ROOT, "tests/golden/rounding.safetensors"))


if __name__ == "__main__":
    main()
