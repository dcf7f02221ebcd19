#!/usr/bin/env python3
"""Writes tests/golden/quants/<dtype>.bin: a row of every GGUF weight format with the values that the `gguf` package
(PyPI) reads from it. File: int32 n, the row's bytes, n float32. Run from the source root; the result depends on nothing
but this file."""
import pathlib

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.quants import dequantize

BLOCKS = 3  # of every format
F16_SCALES = {  # byte offsets of the f16 fields in a block: any other byte may be anything
    T.F32: ("x", 4, []), T.F16: ("x", 2, [0]), T.BF16: ("x", 2, []),
    T.Q8_0: (32, 34, [0]), T.Q4_0: (32, 18, [0]), T.Q4_1: (32, 20, [0, 2]),
    T.Q4_K: (256, 144, [0, 2]), T.Q6_K: (256, 210, [208]),
    T.Q5_0: (32, 22, [0]), T.Q5_1: (32, 24, [0, 2]), T.IQ4_NL: (32, 18, [0]), T.MXFP4: (32, 17, []),
    T.Q2_K: (256, 84, [80, 82]), T.Q3_K: (256, 110, [108]), T.Q5_K: (256, 176, [0, 2]), T.IQ4_XS: (256, 136, [0]),
}
MXFP4_EXPONENTS = [0, 1, 131]  # subnormal scales, and one of ordinary size


def blocks_of(kind, rng):
    n, size, halves = F16_SCALES[kind]
    count = 64 if n == "x" else BLOCKS
    raw = rng.integers(0, 256, (count, size), dtype=np.uint8)
    if kind == T.F32:
        raw = rng.standard_normal(count, dtype=np.float32).view(np.uint8).reshape(count, 4)
    if kind == T.BF16:
        raw = (rng.standard_normal(count, dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16)
        raw = raw.view(np.uint8).reshape(count, 2)
    if kind == T.MXFP4:
        raw[:, 0] = MXFP4_EXPONENTS
    for at in halves:
        scale = rng.standard_normal(count).astype(np.float16)
        scale[0] = np.float16(3e-7)  # a subnormal
        raw[:, at:at + 2] = scale.view(np.uint8).reshape(count, 2)
    return raw, count * (1 if n == "x" else n)


def main():
    folder = pathlib.Path("tests/golden/quants")
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    for kind in F16_SCALES:
        raw, n = blocks_of(kind, rng)
        values = dequantize(raw.reshape(1, -1), kind).astype(np.float32).reshape(-1)
        assert values.size == n, (kind, values.size, n)
        path = folder / f"{kind.name.lower()}.bin"
        path.write_bytes(np.int32(n).tobytes() + raw.tobytes() + values.tobytes())


if __name__ == "__main__":
    main()
