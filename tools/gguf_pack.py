"""Matrices to the blocks of GGUF, for goldens: nearest rounding, no search for better scales as llama.cpp's quantize has it. And which
type a tensor has in files of mixed types."""
import numpy as np
from gguf import GGMLQuantizationType as T, quants

IQ4_VALUES = np.array(quants.IQ4_NL.kvalues, np.float64)
LEAST = 1e-9  # of a scale

# How far an element may be off, in units of the largest of the matrix.
ERROR = {"q2_k": 0.5, "q3_k": 0.25, "q4_k": 0.12, "q5_k": 0.06, "q6_k": 0.03, "iq4_nl": 0.15, "iq4_xs": 0.15}

# Rows that are no whole blocks of 256 take another type: in mixes as in llama.cpp, otherwise q8_0.
FALLBACK = {"q2_k": "iq4_nl", "q3_k": "iq4_nl", "iq4_xs": "iq4_nl", "q4_k": "q5_0", "q5_k": "q5_1", "q6_k": "q8_0"}

# What llama.cpp's quantize gives some tensors of these mixes, by the end of their name; others have the mix's first type. `all` is no
# published mix, but has the types that the others leave out.
MIXES = {
    "q5_k_m": ("q5_k", {"attn_v": "q6_k", "ffn_down": "q6_k"}),
    "q3_k_m": ("q3_k", {"attn_v": "q5_k", "attn_output": "q4_k"}),
    "all": ("q2_k", {"attn_q": "iq4_xs", "attn_k": "bf16", "attn_v": "iq4_nl", "attn_output": "mxfp4", "ffn_gate": "iq4_xs",
                     "ffn_up": "q3_k"}),
}


def halves(x):
    return x.astype(np.float16)


def bytes_of(half):
    return half[:, None].view(np.uint8)


def wide(half):
    """An f16 scale as it divides."""
    x = half.astype(np.float64)[:, None]
    return np.where(np.abs(x) < LEAST, LEAST, x)


def with_minima(w, group, bits, scale_bits):
    """d, dmin, scales, minima and codes of blocks of 256: groups with a scale and a minimum."""
    x = w.reshape(-1, 256 // group, group).astype(np.float64)
    low, most = np.minimum(x.min(-1), 0), (1 << scale_bits) - 1
    scale = (x.max(-1) - low) / ((1 << bits) - 1)
    d, dmin = halves(scale.max(-1) / most), halves(-low.min(-1) / most)
    sc = np.clip(np.rint(scale / wide(d)), 0, most).astype(np.uint8)
    m = np.clip(np.rint(-low / wide(dmin)), 0, most).astype(np.uint8)
    steps = np.maximum(sc * wide(d), LEAST)[..., None]
    q = np.clip(np.rint((x + (m * wide(dmin))[..., None]) / steps), 0, (1 << bits) - 1).astype(np.uint8)
    return d, dmin, sc, m, q.reshape(-1, 256)


def scales_of_4_k(sc, m):
    scales = np.zeros((len(sc), 12), np.uint8)
    scales[:, 0:4] = sc[:, 0:4] | (sc[:, 4:8] >> 4) << 6
    scales[:, 4:8] = m[:, 0:4] | (m[:, 4:8] >> 4) << 6
    scales[:, 8:12] = (sc[:, 4:8] & 15) | (m[:, 4:8] & 15) << 4
    return scales


def nibbles(q):
    """Of each 64 codes the first 32 in the low bits."""
    q = q.reshape(len(q), 4, 2, 32) & 15
    return (q[:, :, 0] | q[:, :, 1] << 4).reshape(len(q), 128)


def two_bits(q):
    """Of each 128 codes l, l + 32, l + 64 and l + 96 in a byte."""
    q = q.reshape(len(q), 2, 4, 32) & 3
    return (q[:, :, 0] | q[:, :, 1] << 2 | q[:, :, 2] << 4 | q[:, :, 3] << 6).reshape(len(q), 64)


def bit_rows(bits):
    """l, l + 32 and so on in a byte."""
    return np.bitwise_or.reduce(bits.reshape(len(bits), 8, 32) << np.arange(8, dtype=np.uint8)[None, :, None], axis=1)


def pack_q2_k(w):
    d, dmin, sc, m, q = with_minima(w, 16, 2, 4)
    return sc | m << 4, two_bits(q), bytes_of(d), bytes_of(dmin)


def signed_scales(x, code):
    """d, and for each group the scale of 6 bits with a sign by which its largest element has that code."""
    largest = np.take_along_axis(x, np.abs(x).argmax(-1, keepdims=True), -1)[..., 0] / code
    d = halves(np.abs(largest).max(-1) / 31)
    sc = np.clip(np.rint(largest / wide(d)), -32, 31)
    return d, np.where(sc == 0, 1, sc)


def pack_q3_k(w):
    x = w.reshape(-1, 16, 16).astype(np.float64)
    d, sc = signed_scales(x, -4)
    q = np.clip(np.rint(x / (sc * wide(d))[..., None]), -4, 3).reshape(len(x), 256)
    q, sc = (q + 4).astype(np.uint8), (sc + 32).astype(np.uint8)
    packed = np.zeros((len(x), 12), np.uint8)
    packed[:, :8] = (sc[:, :8] & 15) | (sc[:, 8:] & 15) << 4
    high = (sc >> 4).reshape(len(x), 4, 4)
    packed[:, 8:] = high[:, 0] | high[:, 1] << 2 | high[:, 2] << 4 | high[:, 3] << 6
    return bit_rows(q >> 2), two_bits(q), packed, bytes_of(d)


def pack_q4_k(w):
    d, dmin, sc, m, q = with_minima(w, 32, 4, 6)
    return bytes_of(d), bytes_of(dmin), scales_of_4_k(sc, m), nibbles(q)


def pack_q5_k(w):
    d, dmin, sc, m, q = with_minima(w, 32, 5, 6)
    return bytes_of(d), bytes_of(dmin), scales_of_4_k(sc, m), bit_rows(q >> 4), nibbles(q)


def pack_q6_k(w):
    x = w.reshape(-1, 16, 16).astype(np.float64)
    scale = np.abs(x).max(-1) / 31
    d = halves(scale.max(-1) / 127)
    sc = np.clip(np.rint(scale / wide(d)), 1, 127).astype(np.int8)
    q = (np.clip(np.rint(x / (sc * wide(d))[..., None]), -32, 31) + 32).astype(np.uint8).reshape(len(x), 256)
    low = q.reshape(len(x), 2, 2, 64) & 15
    return (low[:, :, 0] | low[:, :, 1] << 4).reshape(len(x), 128), two_bits(q >> 4), sc.view(np.uint8), bytes_of(d)


def places(x):
    """Of the nearest values of the table."""
    return np.abs(x[..., None] - IQ4_VALUES).argmin(-1).astype(np.uint8)


def pack_iq4_nl(w):
    x = w.reshape(-1, 32).astype(np.float64)
    largest = np.take_along_axis(x, np.abs(x).argmax(-1, keepdims=True), -1)[:, 0]
    d = halves(largest / -127)
    q = places(x / wide(d))
    return bytes_of(d), q[:, :16] | q[:, 16:] << 4


def pack_iq4_xs(w):
    x = w.reshape(-1, 8, 32).astype(np.float64)
    d, sc = signed_scales(x, -127)
    q = places(x / (sc * wide(d))[..., None])
    sc = (sc + 32).astype(np.uint16)
    high = np.bitwise_or.reduce((sc >> 4) << (2 * np.arange(8, dtype=np.uint16)), axis=1).astype("<u2")
    low = ((sc[:, 0::2] & 15) | (sc[:, 1::2] & 15) << 4).astype(np.uint8)
    return bytes_of(d), high[:, None].view(np.uint8), low, (q[..., :16] | q[..., 16:] << 4).reshape(len(x), 128)


OWN = {"q2_k": pack_q2_k, "q3_k": pack_q3_k, "q4_k": pack_q4_k, "q5_k": pack_q5_k, "q6_k": pack_q6_k, "iq4_nl": pack_iq4_nl,
       "iq4_xs": pack_iq4_xs}


def type_of(mix, name):
    """Of the tensor of that name in a file of a type or a mix."""
    base, others = MIXES.get(mix, (mix, {}))
    return others.get(name.removesuffix(".weight").split(".")[-1], base)


def pack(w, kind, is_mix):
    """(bytes, ggml type) of a matrix."""
    if kind in FALLBACK and w.shape[1] % 256:
        kind = FALLBACK[kind] if is_mix else "q8_0"
    t = T[kind.upper()]
    if kind not in OWN:
        return quants.quantize(w.astype(np.float32), t), t
    data = np.concatenate(OWN[kind](w), 1).reshape(w.shape[0], -1)
    error = np.abs(quants.dequantize(data, t) - w).max() / np.abs(w).max()
    assert error < ERROR[kind], (kind, error)
    return data, t
