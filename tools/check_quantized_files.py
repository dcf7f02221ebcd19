#!/usr/bin/env python3
"""Whether gguf-py and compressed-tensors read what `saccade quantize` writes, and to which numbers.

    tools/check_quantized_files.py SACCADE MODEL [--keep DIR] [--calibrate LIST] [--formats w4a16,fp8]

MODEL: a Hugging Face folder in 16 or 32 bits. Of each GGUF file every tensor is compared with what gguf-py makes of MODEL's: the
same bytes where gguf-py can write the type; otherwise the relative error of its values is printed. Of each folder, transformers
loads it with compressed-tensors, the values of every module are compared with MODEL's numbers rounded by compressed-tensors' own
functions, and the answer to a short text with Saccade's. With --calibrate LIST (prompts, as quantize takes them) folders are calibrated,
and the values of every module are compared with what compressed-tensors' unpacking makes of the stored numbers. Needs torch, transformers, compressed-tensors, gguf, safetensors."""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

import gguf
import numpy as np
import torch
from safetensors.torch import load_file

FILES = "q8_0 q4_0 q4_1 q5_0 q5_1 q4_k_s q4_k_m q5_k_s q5_k_m q6_k f16 bf16".split()
FOLDERS = "w4a16 w4a16:g=64 w8a16 int8 fp8".split()
EXACT = {"Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "F16", "BF16", "F32"}
LAYER = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"}


def tensors(folder):
    out = {}
    for name in sorted(os.listdir(folder)):
        if name.startswith("model") and name.endswith(".safetensors"):
            out.update(load_file(os.path.join(folder, name)))
    return out


def gguf_name(key):
    m = re.search(r"\blayers\.(\d+)\.(.+)\.(weight|bias)$", key)
    if m and m[2] in LAYER and "vision" not in key:
        return f"blk.{m[1]}.{LAYER[m[2]]}.{m[3]}"
    return {"embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
            "language_model.norm.weight": "output_norm.weight", "norm.weight": "output_norm.weight"}.get(
        ".".join(key.split(".")[-2:]), "output.weight" if key.endswith("lm_head.weight") else None)


def in_llamas_order(x, heads):
    return x.reshape(heads, 2, x.shape[0] // heads // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def check_gguf(path, source, config):
    reader = gguf.GGUFReader(path)
    text = config.get("text_config", config)
    arch = reader.fields["general.architecture"].contents()
    kinds, worst, bad = {}, 0, 0
    want = {gguf_name(k): v for k, v in source.items() if gguf_name(k)}
    have = {t.name: t for t in reader.tensors}
    if set(want) - set(have):
        print("  missing:", sorted(set(want) - set(have))[:5])
        bad += 1
    for name, t in have.items():
        if name == "rope_freqs.weight":
            continue
        x = want[name].float().numpy()
        if arch == "llama" and ("attn_q." in name or "attn_k." in name):
            x = in_llamas_order(x, text["num_attention_heads"] if "attn_q." in name else text["num_key_value_heads"])
        kind = t.tensor_type.name
        kinds[kind] = kinds.get(kind, 0) + 1
        if kind in EXACT:
            ours = np.ascontiguousarray(t.data).view(np.uint8).reshape(-1)
            if not np.array_equal(ours, gguf.quants.quantize(x, t.tensor_type).view(np.uint8).reshape(-1)):
                print("  other bytes:", name, kind)
                bad += 1
        else:
            y = gguf.quants.dequantize(t.data, t.tensor_type)
            worst = max(worst, float(np.sqrt(((x - y) ** 2).mean() / (x ** 2).mean())))
    print(f"  {os.path.basename(path)}: {len(have)} tensors {kinds}, relative error of K-quants at most {worst:.4f}")
    return bad


def rounded(x, scheme):
    """x as compressed-tensors' formula has it, in f32, the scale in the type of the weights."""
    group = int(scheme.split("=")[1]) if "=" in scheme else 128 if scheme == "w4a16" else x.shape[1]
    g = x.float().reshape(x.shape[0], -1, group)
    most = {"fp8": 448, "w4a16": 7.5}.get(scheme.split(":")[0], 127.5)
    scale = (g.abs().amax(-1, keepdim=True) / most).to(x.dtype).float()
    if scheme == "fp8":
        q = (g / scale).clamp(-448, 448).to(torch.float8_e4m3fn).float()
    else:
        half = 8 if most == 7.5 else 128
        q = torch.round(g / scale).clamp(-half, half - 1)
    return (q * scale).reshape(x.shape)


def stored_values(stored, name, scheme):
    """What the stored numbers of a module stand for, by compressed-tensors' own unpacking."""
    s = stored[name + ".weight_scale"].float()
    if name + ".weight_packed" in stored:
        from compressed_tensors.compressors.pack_quantized.helpers import unpack_from_int32
        shape = torch.Size(stored[name + ".weight_shape"].tolist())
        q = unpack_from_int32(stored[name + ".weight_packed"], 4 if scheme.startswith("w4") else 8, shape).float()
    else:
        q = stored[name + ".weight"].float()
    return (q.reshape(q.shape[0], s.shape[1], -1) * s[..., None]).reshape(q.shape)


def check_folder(path, source, scheme, saccade, model_class, is_calibrated):
    from compressed_tensors.quantization import QuantizationConfig
    with open(os.path.join(path, "config.json"), encoding="utf-8") as f:
        config = json.load(f)["quantization_config"]
    QuantizationConfig.model_validate(config)
    from transformers.utils.quantization_config import CompressedTensorsConfig
    model = model_class.from_pretrained(path, quantization_config=CompressedTensorsConfig(run_compressed=False),
                                        dtype=torch.float32)
    bad = n = 0
    error = 0.0
    stored = tensors(path)
    modules = {n.removeprefix("model.").removeprefix("language_model."): m for n, m in model.named_modules()}
    for key in [k.removesuffix("_scale") for k in stored if k.endswith(".weight_scale")]:
        name = key.removesuffix(".weight").removeprefix("language_model.").removeprefix("model.")
        module = modules[name]
        want = stored_values(stored, key.removesuffix(".weight"), scheme) if is_calibrated else rounded(source[key], scheme)
        n += 1
        got = module.weight.float()
        if not torch.allclose(got, want, rtol=5e-3, atol=1e-6): # values are made in the type of the scales
            bad += 1
            print("  other values:", name, (got - want).abs().max().item())
        x = source[key].float()
        if is_calibrated: # columns may be scaled, and the norm before them divided
            continue
        error = max(error, ((x - want).pow(2).mean() / x.pow(2).mean()).sqrt().item())
    for key, x in source.items(): # and what compressed-tensors' unpacking makes of the stored numbers
        name = key.removesuffix(".weight")
        if is_calibrated or name + ".weight_packed" not in stored:
            continue
        if not torch.equal(stored_values(stored, name, scheme), rounded(x, scheme)):
            bad += 1
            print("  other numbers:", name)
    if n == 0:
        bad += 1
    print(f"  {os.path.basename(path)}: {n} modules quantised" + ("" if is_calibrated else f", relative error at most {error:.4f}"))
    return bad, model


def answers(model, path, saccade):
    """The first tokens of an answer to a text, from transformers and from Saccade."""
    from transformers import AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained(path)
    ids = tokenizer.apply_chat_template([{"role": "user", "content": [{"type": "text", "text": "What is it?"}]}],
                                        add_generation_prompt=True, return_tensors="pt", return_dict=True)["input_ids"]
    with torch.no_grad():
        out = model.generate(ids, max_new_tokens=6, do_sample=False)[0, ids.shape[1]:]
    want = tokenizer.decode(out, skip_special_tokens=True).strip()
    got = subprocess.run([saccade, "ask", "-m", path, "-n", "6", "-q", "What is it?"], capture_output=True, text=True).stdout.strip()
    print(f"  answers: transformers {want!r}, Saccade {got!r}")
    return want != got


def main():
    p = argparse.ArgumentParser()
    p.add_argument("saccade")
    p.add_argument("model")
    p.add_argument("--keep")
    p.add_argument("--calibrate")
    p.add_argument("--formats")
    a = p.parse_args()
    import transformers
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    with open(os.path.join(a.model, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    model_class = getattr(transformers, config["architectures"][0])
    source, bad = tensors(a.model), 0
    with tempfile.TemporaryDirectory() as folder:
        out = a.keep or folder
        for scheme in a.formats.split(",") if a.formats else FOLDERS if a.calibrate else FILES + FOLDERS:
            path = os.path.join(out, scheme.replace(":", "-").replace("=", "") + (".gguf" if scheme in FILES else ""))
            run = subprocess.run([a.saccade, "quantize", a.model, path, "--format", scheme] + (["--calibrate", a.calibrate] if a.calibrate else []), capture_output=True, text=True)
            if run.returncode:
                print(scheme, run.stderr.strip())
                bad += 1
                continue
            said = int(re.search(r"(\d+) bytes", run.stdout)[1])
            size = sum(os.path.getsize(os.path.join(d, n)) for d, _, names in os.walk(path) for n in names) or os.path.getsize(path)
            print(f"{scheme}: {size} bytes, {'as' if size == said else 'NOT as'} said")
            bad += size != said
            if scheme in FILES:
                bad += check_gguf(path, source, config)
            else:
                n, model = check_folder(path, source, scheme, a.saccade, model_class, bool(a.calibrate))
                bad += n + answers(model, path, a.saccade)
    print("all equal" if not bad else f"{bad} differ")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
