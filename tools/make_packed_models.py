#!/usr/bin/env python3
"""Tiny checkpoints with quantised weights in the layouts that are published, with their goldens: tests/golden/models.

    tools/make_packed_models.py [NAME...]

The weights of a tiny model are rounded here to the nearest number of each format and packed by that format's layout.
What transformers computes from the same numbers as f32 weights is the golden: a runtime that unpacks them right and
keeps activations in f32 differs by the order of its sums alone. Where compressed-tensors is installed, its unpacking
must give the same numbers. Needs what make_tiny_models.py needs, and bitsandbytes for what it rounds itself."""
import json
import os
import shutil
import sys
import tempfile
from functools import partial

import numpy as np
import torch

import make_model_goldens as goldens
import make_tiny_models as tiny

SIZES = dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=2, intermediate_size=96)
TOLERANCE = 3e-4  # of the largest logit
# With a scale of largest / 127.5 the largest magnitude of every row is half way between two numbers: -127 or -128 is up
# to the last bit of the row, which the order of sums decides.
INT8_TOLERANCE = 1e-2


def groups_of(w, group):
    """[n][k] as [n][k / group][group]."""
    return w.reshape(w.shape[0], -1, group)


def round_to(w, group, low, high, symmetric):
    """(q, zero, scale): w is about (q - zero) scale, with f16 scales, of [n][groups]."""
    x = groups_of(w, group)
    if symmetric:
        zero = np.full(x.shape[:2], (low + high + 1) // 2)
        scale = np.abs(x).max(-1) / ((high - low) // 2)
    else:
        least, most = np.minimum(x.min(-1), 0), np.maximum(x.max(-1), 0)
        scale = (most - least) / (high - low)
        zero = np.clip(np.rint(low - least / scale), low, high).astype(np.int64)
    scale = scale.astype(np.float16)
    q = np.rint(x / scale[..., None].astype(np.float32)) + zero[..., None]
    return np.clip(q, low, high).astype(np.int64), zero, scale


def unrounded(q, zero, scale):
    return ((q - zero[..., None]).astype(np.float32) * scale[..., None].astype(np.float32)).reshape(len(q), -1)


def words(columns, bits, order=None):
    """The last axis packed into 32-bit words, the first of them (by `order`) in the lowest bits."""
    n = 32 // bits
    x = columns.reshape(*columns.shape[:-1], -1, n).astype(np.uint64)
    if order:
        x = x[..., order]
    shift = np.arange(n, dtype=np.uint64) * np.uint64(bits)
    return torch.from_numpy((x << shift).sum(-1).astype(np.uint32).view(np.int32))


# ---------------------------------------------------------------- formats
# each: (name of the module, weight as f32 [n][k]) to (tensors, the weight that they stand for)

def awq(module, w, group=32):
    """AutoAWQ's gemm: words along n, nibble i holds output [0, 2, 4, 6, 1, 3, 5, 7][i]."""
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    q, zero, scale = round_to(w, group, 0, 15, False)
    return {module + ".qweight": words(q.reshape(len(q), -1).T, 4, order), module + ".qzeros": words(zero.T, 4, order),
            module + ".scales": torch.from_numpy(np.ascontiguousarray(scale.T))}, unrounded(q, zero, scale)


def gptq(module, w, bits=4, group=32, first=True, symmetric=False, order=None):
    """AutoGPTQ's: words along k, zeros along n; the first version stores zeros less one."""
    order = np.arange(w.shape[1]) // group if order is None else order(w.shape[1], group)
    inputs = np.argsort(order, kind="stable")  # a group's inputs side by side
    q, zero, scale = round_to(w[:, inputs], group, 0, 2 ** bits - 1, symmetric)
    out, back = unrounded(q, zero, scale), np.argsort(inputs)
    q = q.reshape(len(q), -1)[:, back]
    stored = (zero - 1) % 2 ** bits if first else zero
    return {module + ".qweight": words(q, bits).T, module + ".qzeros": words(stored.T, bits),
            module + ".scales": torch.from_numpy(np.ascontiguousarray(scale.T)),
            module + ".g_idx": torch.from_numpy(order.astype(np.int32))}, out[:, back]


def scattered(k, group):
    """Groups of inputs that are not neighbours."""
    return np.random.default_rng(k).permutation(np.arange(k) // group)


def packed(module, w, bits=4, group=32, symmetric=True):
    """compressed-tensors' pack-quantized: words along k, zeros along n, half of the range added to both."""
    group, half = group or w.shape[1], 2 ** (bits - 1)
    q, zero, scale = round_to(w, group, -half, half - 1, symmetric)
    q = (q.reshape(len(q), -1) + half)
    tensors = {module + ".weight_packed": words(q, bits), module + ".weight_scale": torch.from_numpy(scale),
               module + ".weight_shape": torch.tensor(w.shape)}
    if not symmetric:
        tensors[module + ".weight_zero_point"] = words((zero + half).T, bits).T
    check_packed(tensors, module, q - half, bits)
    return tensors, unrounded((q - half).reshape(len(q), -1, group), zero, scale)


def check_packed(tensors, module, q, bits):
    try:
        from compressed_tensors.compressors.pack_quantized.helpers import unpack_from_int32
    except ImportError:
        return
    theirs = unpack_from_int32(tensors[module + ".weight_packed"], bits, torch.Size(q.shape))
    assert (theirs.numpy() == q).all()


def fp8(module, w, block=None, channel=False, suffix="weight_scale"):
    """e4m3 with a scale for all, for each row or for each block, and what these stand for."""
    rows, columns = block or ((1, w.shape[1]) if channel else w.shape)
    scale = np.zeros((-(-w.shape[0] // rows), -(-w.shape[1] // columns)), np.float32)
    for i, j in np.ndindex(scale.shape):
        scale[i, j] = np.abs(w[i * rows:(i + 1) * rows, j * columns:(j + 1) * columns]).max() / 448
    of_each = np.repeat(np.repeat(scale, rows, 0)[:w.shape[0]], columns, 1)[:, :w.shape[1]]
    q = torch.from_numpy(w / of_each).clamp(-448, 448).to(torch.float8_e4m3fn)
    stored = torch.from_numpy(scale if block or channel else scale.reshape(1))
    return {module + ".weight": q, module + "." + suffix: stored}, q.float().numpy() * of_each


def int8(module, w):
    """compressed-tensors' int-quantized with a scale a row."""
    scale = np.abs(w).max(-1, keepdims=True) / 127
    q = np.clip(np.rint(w / scale), -128, 127).astype(np.int8)
    return {module + ".weight": torch.from_numpy(q), module + ".weight_scale": torch.from_numpy(scale)}, q * scale


NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
       -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
       0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0]


def nf4(module, w, block=32, nested=False):
    """bitsandbytes' 4-bit normal float; two elements a byte, the first in the high bits."""
    levels = np.array(NF4, np.float32)
    x = w.reshape(-1, block)
    absmax = np.abs(x).max(-1).astype(np.float32)
    state = {"quant_type": "nf4", "blocksize": block, "dtype": "float32", "shape": list(w.shape)}
    parts = {"quant_map": torch.from_numpy(levels)}
    if nested:
        table = np.linspace(-1, 1, 256, dtype=np.float32)
        offset = np.float32(absmax.mean())
        n = 256
        rows = -(-len(absmax) // n)
        padded = np.pad(absmax - offset, (0, rows * n - len(absmax))).reshape(rows, n)
        most = np.abs(padded).max(-1).astype(np.float32)
        index = np.abs(padded[..., None] / most[:, None, None] - table).argmin(-1).astype(np.uint8)
        index = index.reshape(-1)[:len(absmax)]
        absmax = table[index] * np.repeat(most, n)[:len(index)] + offset
        state.update(nested_blocksize=n, nested_dtype="float32", nested_offset=float(offset))
        parts.update(absmax=torch.from_numpy(index), nested_absmax=torch.from_numpy(most),
                     nested_quant_map=torch.from_numpy(table))
    else:
        parts["absmax"] = torch.from_numpy(absmax)
    q = np.abs(x[..., None] / absmax[:, None, None] - levels).argmin(-1).astype(np.uint8)
    flat = q.reshape(-1, 2)
    parts["quant_state.bitsandbytes__nf4"] = torch.tensor(list(json.dumps(state).encode()), dtype=torch.uint8)
    tensors = {f"{module}.weight.{k}": v for k, v in parts.items()}
    tensors[module + ".weight"] = torch.from_numpy((flat[:, 0] << 4 | flat[:, 1])[:, None])
    return tensors, (levels[q] * absmax[:, None]).reshape(w.shape)


E2M1 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0.0, -.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def fp4(module, w, kind):
    """e2m1, two a byte, the first in the low bits: in groups of 16 with e4m3 scales and one of all ("ct_nvfp4" divides by it,
    "modelopt_nvfp4" multiplies), or of 32 with powers of two ("ct_mxfp4")."""
    x = groups_of(w, 32 if kind == "ct_mxfp4" else 16)
    most = np.abs(x).max(-1)
    if kind == "ct_mxfp4":
        e = np.floor(np.log2(most)) - 2
        stored, scale, parts = torch.from_numpy((e + 127).astype(np.uint8)), np.exp2(e).astype(np.float32), {}
    else:
        all_scale = np.float32(448 * 6 / most.max())  # a divisor
        if kind == "modelopt_nvfp4":
            all_scale = np.float32(1) / all_scale
        ideal = most / 6 * all_scale if kind == "ct_nvfp4" else most / 6 / all_scale
        stored = torch.from_numpy(ideal).clamp(2 ** -9, 448).to(torch.float8_e4m3fn)
        scale = stored.float().numpy()
        scale = scale / all_scale if kind == "ct_nvfp4" else scale * all_scale
        parts = {"weight_global_scale": torch.from_numpy(all_scale.reshape(1))} if kind == "ct_nvfp4" else {
            "weight_scale_2": torch.tensor(all_scale), "input_scale": torch.tensor(np.float32(0.01))}
    q = np.abs((x / scale[..., None])[..., None] - E2M1).argmin(-1).astype(np.uint8).reshape(len(w), -1)
    bytes_ = torch.from_numpy(q[:, ::2] | q[:, 1::2] << 4)
    same = (E2M1[q].reshape(x.shape) * scale[..., None]).reshape(w.shape)
    parts.update({"weight" if kind == "modelopt_nvfp4" else "weight_packed": bytes_, "weight_scale": stored})
    check_fp4(parts, same, kind)
    return {f"{module}.{k}": v for k, v in parts.items()}, same


def check_fp4(parts, same, kind):
    """compressed-tensors' own compressors, where it is installed, make the same of its formats."""
    try:
        from compressed_tensors.compressors.mxfp4.base import MXFP4PackedCompressor
        from compressed_tensors.compressors.nvfp4.base import NVFP4PackedCompressor
        from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    except ImportError:
        return
    if kind == "modelopt_nvfp4":
        return
    args = {k: v for k, v in four_bits(kind)["weights"].items() if k != "scale_dtype"}
    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**args))
    theirs = (MXFP4PackedCompressor if kind == "ct_mxfp4" else NVFP4PackedCompressor).decompress(dict(parts), scheme)["weight"]
    # theirs are bf16 or f32, as the version has it
    np.testing.assert_allclose(theirs.float().numpy(), same, rtol=1e-2 if theirs.dtype == torch.bfloat16 else 1e-6)


def four_bits(kind):
    """The group of a configuration."""
    return {"weights": {"num_bits": 4, "type": "float", "symmetric": True, "dynamic": False, "observer": "minmax",
                        "strategy": "group" if kind == "ct_mxfp4" else "tensor_group",
                        "group_size": 32 if kind == "ct_mxfp4" else 16,
                        "scale_dtype": "torch.uint8" if kind == "ct_mxfp4" else "torch.float8_e4m3fn"}}


def hqq(module, w, group=32):
    """hqq's 4 bits of axis 1: rows of groups, the first half of them in the high bits. Zeros are floats."""
    x = w.reshape(-1, group)
    least, most = x.min(-1, keepdims=True), x.max(-1, keepdims=True)
    scale = ((most - least) / 15).astype(np.float16)
    zero = (-least / scale.astype(np.float32)).astype(np.float16)
    q = np.clip(np.rint(x / scale.astype(np.float32) + zero.astype(np.float32)), 0, 15).astype(np.uint8)
    half = len(q) // 2
    text = torch.tensor([ord(c) for c in "4bit_u8"], dtype=torch.uint8)
    parts = {"W_q": torch.from_numpy(q[:half] << 4 | q[half:]), "scale": torch.from_numpy(scale), "zero": torch.from_numpy(zero),
             "shape": torch.tensor(w.shape), "nbits": torch.tensor(4, dtype=torch.int32), "packing": text,
             "group_size": torch.tensor(group, dtype=torch.int32), "axis": torch.tensor(1, dtype=torch.int32)}
    for name, value in (("view_as_float", 0), ("quant_scale", 0), ("quant_zero", 0), ("offload_meta", 0), ("encoded_state_dict", 1),
                        ("stores_quant_config", 1), ("channel_wise", 1), ("optimize", 1), ("round_zero", 1)):
        parts[name] = torch.tensor(value, dtype=torch.uint8)
    same = ((q.astype(np.float32) - zero.astype(np.float32)) * scale.astype(np.float32)).reshape(w.shape)
    check_hqq(parts, same)
    return {f"{module}.{k}": v for k, v in parts.items()}, same


def check_hqq(parts, same):
    """hqq's own unpacking, where it is installed, makes the same of it."""
    try:
        from hqq.core.quantize import Quantizer
    except ImportError:
        return
    meta = {"packing": "4bit_u8", "view_as_float": False, "nbits": 4, "axis": 1, "compute_dtype": torch.float32,
            "zero": parts["zero"].float(), "scale": parts["scale"].float(), "shape": same.shape}
    np.testing.assert_allclose(Quantizer.dequantize(parts["W_q"], meta).numpy(), same, rtol=1e-6)


def llm_int8(module, w):
    """bitsandbytes' LLM.int8(), rounded and stored by bitsandbytes itself, on the CPU."""
    import bitsandbytes as bnb
    linear = bnb.nn.Linear8bitLt(w.shape[1], w.shape[0], bias=False, has_fp16_weights=False)
    linear.weight = bnb.nn.Int8Params(torch.from_numpy(w).half(), requires_grad=False, has_fp16_weights=False)
    stored = linear.to("cpu").state_dict()
    same = bnb.functional.int8_vectorwise_dequant(stored["weight"], stored["SCB"])
    return {f"{module}.{k}": v for k, v in stored.items()}, same.numpy()


INPUT_SCALES = {}  # of activations, by the bytes of the weight that they meet


def with_input_scale(pack, suffix, most, module, w):
    """A module whose activations have a scale in the files: those above about 3 are cut, in each module elsewhere."""
    parts, same = pack(module, w)
    scale = np.float32((3 + len(INPUT_SCALES) % 5 / 7) / most)
    INPUT_SCALES[same.tobytes()] = scale
    return {**parts, f"{module}.{suffix}": torch.tensor(scale)}, same


# ---------------------------------------------------------------- activations

def round_rows(x, most, group, to):
    """x with a scale for each `group` of a row, each to the nearest number of a type."""
    blocks = x.split(group or x.shape[-1], -1)
    return torch.cat([to(b, b.abs().amax(-1, keepdim=True) / most) for b in blocks], -1)


def fp8_rounded(group=None):
    def to(b, scale):
        return (b / scale).clamp(-448, 448).to(torch.float8_e4m3fn).float() * scale
    return lambda x: round_rows(x, 448, group, to)


def static_fp8(x, scale):
    return (x / scale).clamp(-448, 448).to(torch.float8_e4m3fn).float() * scale


def static_int8(x, scale):
    return (x / scale).round().clamp(-128, 127) * scale


def int8_rounded(x):
    return round_rows(x, 127.5, None, lambda b, scale: (b / scale).round().clamp(-128, 127) * scale)


# ---------------------------------------------------------------- configurations

AWQ = {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm",
       "modules_to_not_convert": ["lm_head"]}


def gptq_config(bits, version="gptq", act_order=False):
    return {"quant_method": "gptq", "bits": bits, "group_size": 32, "desc_act": act_order, "sym": False,
            "checkpoint_format": version, "lm_head": False, "true_sequential": True, "damp_percent": 0.1}


def ct_config(form, weights, activations=None):
    return {"quant_method": "compressed-tensors", "format": form, "quantization_status": "compressed", "ignore": ["lm_head"],
            "kv_cache_scheme": None, "global_compression_ratio": None,
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": activations,
                                          "output_activations": None}}}


def pack_config(bits, group, symmetric):
    return ct_config("pack-quantized", {
        "num_bits": bits, "type": "int", "symmetric": symmetric, "strategy": "group" if group else "channel",
        "group_size": group, "block_structure": None, "dynamic": False, "actorder": None, "observer": "minmax",
        "observer_kwargs": {}})


def eight_bits(kind, strategy, **more):
    return {"num_bits": 8, "type": kind, "symmetric": True, "strategy": strategy, "dynamic": False, **more}


def static(kind):
    return {"num_bits": 8, "type": kind, "symmetric": True, "strategy": "tensor", "dynamic": False}


def dynamic(kind):
    return {"num_bits": 8, "type": kind, "symmetric": True, "strategy": "token", "dynamic": True}


FINE = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [24, 40], "modules_to_not_convert": ["lm_head"]}
MODELOPT = {"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head"], "producer": {"name": "modelopt", "version": "0.47.0"},
            "config_groups": {"group_0": {"input_activations": {"dynamic": False, "num_bits": 8, "type": "float"}, "targets": ["Linear"],
                                          "weights": {"dynamic": False, "num_bits": 8, "type": "float"}}}}
BNB = {"quant_method": "bitsandbytes", "load_in_4bit": True, "_load_in_4bit": True, "load_in_8bit": False,
       "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": False, "bnb_4bit_compute_dtype": "bfloat16",
       "llm_int8_skip_modules": ["lm_head"], "llm_int8_threshold": 6.0}
BNB8 = {"quant_method": "bitsandbytes", "load_in_4bit": False, "_load_in_4bit": False, "load_in_8bit": True,
        "_load_in_8bit": True, "llm_int8_skip_modules": ["lm_head"], "llm_int8_threshold": 6.0,
        "llm_int8_has_fp16_weight": False, "llm_int8_enable_fp32_cpu_offload": False}

MODELOPT4 = {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16, "ignore": ["lm_head"],
             "producer": {"name": "modelopt", "version": "0.47.0"}}

HQQ = {"quant_method": "hqq", "skip_modules": ["lm_head"],
       "quant_config": {"offload_meta": False, "scale_quant_params": None, "zero_quant_params": None,
                        "weight_quant_params": {"axis": 1, "channel_wise": True, "group_size": 32, "nbits": 4, "optimize": True,
                                                "round_zero": True, "view_as_float": False}}}

# name: packing, quantization_config, rounding of activations
FORMATS = {
    "awq": (awq, AWQ, None),
    "gptq_4": (gptq, gptq_config(4), None),
    "gptq_8": (partial(gptq, bits=8), gptq_config(8), None),
    "gptq_4_v2": (partial(gptq, first=False), gptq_config(4, "gptq_v2"), None),
    "gptq_4_order": (partial(gptq, order=scattered), gptq_config(4, act_order=True), None),
    "ct_w4": (packed, pack_config(4, 32, True), None),
    "ct_w4_zeros": (partial(packed, symmetric=False), pack_config(4, 32, False), None),
    "ct_w8": (partial(packed, bits=8, group=None), pack_config(8, None, True), None),
    "ct_fp8_tensor": (fp8, ct_config("float-quantized", eight_bits("float", "tensor")), None),
    "ct_fp8": (partial(fp8, channel=True), ct_config("float-quantized", eight_bits("float", "channel"), dynamic("float")),
               fp8_rounded()),
    "ct_w8a8": (int8, ct_config("int-quantized", eight_bits("int", "channel"), dynamic("int")), int8_rounded),
    "ct_w8a8_static": (partial(with_input_scale, int8, "input_scale", 127),
                       ct_config("int-quantized", eight_bits("int", "channel"), static("int")), static_int8),
    "fp8_static": (partial(with_input_scale, partial(fp8, suffix="weight_scale_inv"), "activation_scale", 448),
                   {**FINE, "activation_scheme": "static", "weight_block_size": None}, static_fp8),
    "modelopt_fp8": (partial(with_input_scale, fp8, "input_scale", 448), MODELOPT, static_fp8),
    "fp8_block": (partial(fp8, block=(24, 40), suffix="weight_scale_inv"), FINE, fp8_rounded(40)),
    "nf4": (nf4, BNB, None),
    "nf4_nested": (partial(nf4, nested=True), {**BNB, "bnb_4bit_use_double_quant": True}, None),
    "llm_int8": (llm_int8, BNB8, None),
    "ct_nvfp4": (partial(fp4, kind="ct_nvfp4"), ct_config("nvfp4-pack-quantized", four_bits("ct_nvfp4")["weights"]), None),
    "ct_mxfp4": (partial(fp4, kind="ct_mxfp4"), ct_config("mxfp4-pack-quantized", four_bits("ct_mxfp4")["weights"]), None),
    "modelopt_nvfp4": (partial(fp4, kind="modelopt_nvfp4"), MODELOPT4, None),
    "hqq": (hqq, HQQ, None),
}


# ---------------------------------------------------------------- the whole

def write(name, seed, as_floats):
    """The folder, and in `as_floats` one with the same numbers as floats."""
    pack, quantization, _ = FORMATS[name]
    config = tiny.qwen2(**SIZES, rope_theta=10000.0, tie_word_embeddings=False)
    folder = os.path.join(goldens.FOLDER, "packed_" + name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    packed, floats = {}, {}
    for k, v in tiny.draw(tiny.tensor_shapes(config), seed, False).items():
        if ".layers." in k and "_proj.weight" in k:
            parts, w = pack(k.removesuffix(".weight"), v.numpy())
            packed.update({p: t.contiguous() for p, t in parts.items()})
            floats[k] = torch.from_numpy(np.ascontiguousarray(w))
        else:
            packed[k] = v.half()
            floats[k] = packed[k].float()
    for to, tensors, more in ((folder, packed, {"quantization_config": quantization}), (as_floats, floats, {})):
        shutil.copy(os.path.join(goldens.FOLDER, "tokenizer.json"), to)
        tiny.write_json(to, "config.json", {**config, **more})
        tiny.save(to, tensors)
    return folder


def golden(as_floats, rounding):
    """goldens.golden, with the inputs of the layers' linear modules rounded as the checkpoint asks."""
    plain = torch.nn.Linear.forward

    def rounded(m, x):
        if rounding in (static_fp8, static_int8):
            return rounding(x, INPUT_SCALES[m.weight.numpy().tobytes()])
        return rounding(x)
    if rounding:
        torch.nn.Linear.forward = lambda m, x: plain(m, rounded(m, x) if m.out_features != tiny.VOCAB else x)
    try:
        return goldens.golden(as_floats, min_gap=tiny.MIN_GAP)
    finally:
        torch.nn.Linear.forward = plain


def make(name):
    for seed in range(1, 100):
        with tempfile.TemporaryDirectory() as as_floats:
            folder = write(name, seed, as_floats)
            try:
                cases, values = golden(as_floats, FORMATS[name][2])
            except goldens.TooClose:
                continue
        for case in cases:
            tolerance = INT8_TOLERANCE if FORMATS[name][2] is int8_rounded else TOLERANCE
            case["tolerance"] = round(tolerance * float(np.abs(values).max()), 6)
        return goldens.write_golden("packed_" + name, folder, cases, values)
    raise SystemExit(f"{name}: no seed gives clear tokens")


def main():
    for name in sys.argv[1:] or FORMATS:
        make(name)


if __name__ == "__main__":
    torch.manual_seed(0)
    import transformers
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    main()
