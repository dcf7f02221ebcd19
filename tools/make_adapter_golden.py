#!/usr/bin/env python3
"""Goldens of LoRA adapters: what peft computes for adapters of the checkpoints in tests/golden/models.

    tools/make_adapter_golden.py                          # writes tests/golden/adapters
    tools/make_adapter_golden.py --random 40 --seed 7 --out DIR
                                                          # a held-out set: configurations drawn at random, of the
                                                          # same bases in f32; then test_parity DIR/BASE for each

Needs torch, transformers 5, peft and what tools/make_model_goldens.py needs. Each case trains nothing: peft makes the
adapter, its tensors are filled with random numbers, it is saved, loaded again into a fresh base and run unmerged.

DIR/index.json             the bases, as ../adapters/BASE
DIR/BASE/golden.json, .bin as tools/make_model_goldens.py says; a case has "adapters", paths from the root of the tree,
                           and the tolerance 3e-4 of its largest logit, 1e-3 where the base has 16 bits. "apart":
                           whether the last of its adapters gives the same logits when it is kept apart: "also",
                           "only", "no" (the base has 16 bits, and a case NAME_apart is beside it) or "refused"
DIR/BASE/NAME              the adapters; of GGUF bases NAME.gguf

What peft makes of a base in 16 bits is rounded once to its type, as the runtime does; a weight in a million lies so close
to the middle between two values that the order of its sum decides.
"""
import argparse
import json
import os
import random
import re
import shutil
import tempfile
import warnings

import numpy as np
import torch
from safetensors.torch import load_file, save_file

import make_model_goldens as goldens
import make_packed_models as packed_models
from make_tiny_models import permute

warnings.filterwarnings("ignore")
ROOT = goldens.ROOT
OUT = os.path.join(ROOT, "tests", "golden", "adapters")
goldens.N_TOKENS = 4
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
MLP = ["gate_proj", "up_proj", "down_proj"]
LLM = r".*(layers\.\d+\.(self_attn|mlp)\..*_proj)"
TOWER = r".*vision_tower.*(q_proj|k_proj|v_proj|out_proj|fc1|fc2)"
VISUAL = r".*visual.*\.(qkv|proj|fc1|fc2|gate_proj|up_proj|down_proj)"


def one(name, base, *adapters, prompt=0, **options):
    """adapters: keywords of LoraConfig, and "scale"."""
    return dict(name=name, base=base, adapters=list(adapters), prompt=prompt, **options)


CASES = [
    one("attention", "llama_f32", dict(target_modules=ATTENTION)),
    one("all_linear", "llama_f32", dict(target_modules="all-linear", lora_alpha=3)),
    one("regex", "llama_f32", dict(target_modules=r".*\.1\.mlp\.(up|down)_proj")),
    one("full_names", "llama_f32", dict(target_modules=["model.layers.0.self_attn.q_proj", "layers.1.mlp.up_proj"])),
    one("scaled", "llama_f32", dict(target_modules=ATTENTION, scale=0.5)),
    one("negative_scale", "llama_f32", dict(target_modules=MLP, scale=-1.25)),
    one("rank_pattern", "llama_f32", dict(target_modules=ATTENTION + MLP, rank_pattern={"q_proj": 3, r"layers\.1\.mlp\..*": 1})),
    one("alpha_pattern", "llama_f32", dict(target_modules=ATTENTION, alpha_pattern={"v_proj": 7, "layers.0.self_attn.q_proj": 1})),
    one("first_pattern_wins", "llama_f32", dict(target_modules=ATTENTION, alpha_pattern={".*proj": 9, "q_proj": 1}, rank_pattern={".*.1.*_proj": 1, "v_proj": 4})),
    one("rslora", "llama_f32", dict(target_modules=ATTENTION, r=3, lora_alpha=5, use_rslora=True)),
    one("dora", "llama_f32", dict(target_modules=ATTENTION + MLP, use_dora=True)),
    one("dora_scaled", "llama_f32", dict(target_modules=MLP, use_dora=True, scale=1.75)),
    one("dora_rslora_patterns", "llama_f32", dict(target_modules=MLP, use_dora=True, use_rslora=True, rank_pattern={"up_proj": 3}, alpha_pattern={"down_proj": 2})),
    one("layers", "llama_f32", dict(target_modules=ATTENTION, layers_to_transform=[1])),
    one("layer", "llama_f32", dict(target_modules=ATTENTION, layers_to_transform=0, layers_pattern="layers")),
    one("exclude", "llama_f32", dict(target_modules=ATTENTION, exclude_modules=["k_proj", "layers.0.self_attn.q_proj"])),
    one("fan_in_fan_out", "llama_f32", dict(target_modules=["q_proj"], fan_in_fan_out=True)),
    one("head", "llama_f32", dict(target_modules=["lm_head", "q_proj"])),
    one("embedding", "llama_f32", dict(target_modules=["embed_tokens"])),
    one("embedding_dora", "llama_f32", dict(target_modules=["embed_tokens"], use_dora=True)),
    one("saved_head", "llama_f32", dict(target_modules=["v_proj"], modules_to_save=["lm_head"])),
    one("saved_norms", "llama_f32", dict(target_modules=["v_proj"], modules_to_save=["input_layernorm", "norm"])),
    one("saved_mlp", "llama_f32", dict(target_modules=ATTENTION + MLP, modules_to_save=["layers.0.mlp"])),
    one("two", "llama_f32", dict(target_modules=ATTENTION), dict(target_modules=ATTENTION + MLP, r=3, scale=0.75)),
    one("two_dora", "llama_f32", dict(target_modules=MLP, use_dora=True), dict(target_modules=["up_proj", "q_proj"], use_dora=True, scale=0.5)),
    one("lora_and_dora", "llama_f32", dict(target_modules=MLP), dict(target_modules=["up_proj"], use_dora=True)),
    one("three", "llama_f32", dict(target_modules=["q_proj"]), dict(target_modules=["embed_tokens", "lm_head"]), dict(target_modules=["q_proj", "v_proj"], scale=2)),
    one("half_precision", "llama_f32", dict(target_modules=ATTENTION, dtype=torch.bfloat16)),
    one("bias_all", "qwen2_yarn", dict(target_modules=ATTENTION, bias="all")),
    one("bias_lora_only", "qwen2_yarn", dict(target_modules=["q_proj", "v_proj"], bias="lora_only")),
    one("dora_with_bias", "qwen2_yarn", dict(target_modules=ATTENTION, bias="all", use_dora=True)),
    one("two_with_bias", "qwen2_yarn", dict(target_modules=["q_proj"], bias="all"), dict(target_modules=MLP, use_dora=True, scale=0.5)),
    one("qwen_embedding", "qwen2_yarn", dict(target_modules=["embed_tokens", "lm_head", "v_proj"], r=3, use_rslora=True)),
    one("sixteen_bits", "qwen2", dict(target_modules=ATTENTION, bias="all", use_dora=True)),
    one("sliding", "mistral", dict(target_modules="all-linear")),
    one("text_of_vlm", "llava_full", dict(target_modules=LLM), prompt=1),
    one("projector", "llava_full", dict(target_modules=["linear_1", "linear_2"]), prompt=1),
    one("tower", "llava", dict(target_modules=TOWER), prompt=1),
    one("all_of_vlm", "llava", dict(target_modules="all-linear", bias="all"), prompt=2),
    one("tower_full", "llava_full", dict(target_modules=TOWER, use_dora=True, bias="all"), prompt=1),
    one("tower_saved_norms", "llava_full", dict(target_modules=["fc1"], modules_to_save=["layer_norm1", "pre_layrnorm"]), prompt=2),
    one("vlm_two", "llava_full", dict(target_modules=LLM), dict(target_modules="all-linear", scale=0.5), prompt=1),
    one("saved_projector", "llava_full", dict(target_modules=["q_proj"], modules_to_save=["multi_modal_projector"]), prompt=1),
    one("patches", "llava_full", dict(target_modules=["patch_embedding", "position_embedding"]), prompt=1),
    one("patches_dora", "llava_full", dict(target_modules=["patch_embedding", "fc1"], use_dora=True), prompt=1),
    one("tied_embedding", "llava_qwen2", dict(target_modules=["embed_tokens"]), prompt=1),
    one("tied_head", "llava_qwen2", dict(target_modules=["lm_head", "q_proj"]), prompt=1),
    one("tied_both", "llava_qwen2", dict(target_modules=["lm_head", "embed_tokens"])),
    one("tied_saved_embedding", "llava_qwen2", dict(target_modules=["v_proj"], modules_to_save=["embed_tokens"])),
    one("tied_saved_head", "llava_qwen2", dict(target_modules=["v_proj"], modules_to_save=["lm_head"])),
    one("next", "llava_next", dict(target_modules=["linear_1", "q_proj"]), prompt=1),
    one("longva_text", "longva", dict(target_modules=ATTENTION), prompt=1),
    one("qwen_visual", "qwen2_vl", dict(target_modules=VISUAL), prompt=1),
    one("qwen_text", "qwen2_vl", dict(target_modules=ATTENTION), prompt=3),
    one("qwen_merger", "qwen2_vl", dict(target_modules=r".*merger\.mlp\.[02]", modules_to_save=["ln_q"]), prompt=1),
    one("qwen_patches", "qwen2_vl", dict(target_modules=r".*patch_embed\.proj"), prompt=1),
    one("qwen25_visual", "qwen2_5_vl_tied", dict(target_modules=VISUAL, use_dora=True), prompt=1),
    one("qwen25_all", "qwen2_5_vl_tied", dict(target_modules="all-linear", bias="all"), prompt=3),
    one("gguf_attention", "gguf_llama_f32", dict(target_modules=ATTENTION, lora_alpha=3)),
    one("gguf_linear", "gguf_llama_f32", dict(target_modules="all-linear", r=3, scale=0.5)),
    one("gguf_embedding", "gguf_llama_f32", dict(target_modules=["embed_tokens", "lm_head", "down_proj"])),
    one("gguf_two", "gguf_llama_f32", dict(target_modules=ATTENTION), dict(target_modules=MLP + ["q_proj"], scale=-1.5)),
    one("gguf_qwen", "gguf_qwen2_f32", dict(target_modules="all-linear")),
    one("gguf_qwen_embedding", "gguf_qwen2_f32", dict(target_modules=["embed_tokens", "k_proj"])),
    one("tied_moved_embedding", "llava_qwen2", dict(target_modules=["embed_tokens"], moved=True, dtype=torch.float16)),
    one("tied_moved_head", "llava_qwen2", dict(target_modules=["lm_head"], moved=True, dtype=torch.float16)),
    one("quantised", "packed_gptq_4", dict(target_modules=ATTENTION + MLP)),
    one("quantised_two", "packed_gptq_4", dict(target_modules=ATTENTION), dict(target_modules=MLP + ["q_proj"], r=3, scale=-0.5)),
    one("quantised_nf4", "packed_nf4", dict(target_modules="all-linear", use_rslora=True)),
    one("tying", "qwen3_tied", dict(target_modules=["lm_head", "q_proj"], ensure_weight_tying=True)),
    one("tying_saved", "qwen3_tied", dict(target_modules=["v_proj"], modules_to_save=["embed_tokens"], ensure_weight_tying=True)),
    one("tying_dora", "qwen3_tied", dict(target_modules=["embed_tokens"], use_dora=True, ensure_weight_tying=True)),
    one("fused", "glm4", dict(target_modules="all-linear")),
    one("fused_dora", "glm4", dict(target_modules=["gate_up_proj"], use_dora=True)),
]


def random_cases(n, seed):
    rng, cases = random.Random(seed), []
    for i in range(n):
        base = rng.choice(["llama_f32", "llama_f32", "qwen2", "mistral", "llava_full", "llava", "llava_qwen2", "llava_next", "qwen2_vl", "qwen2_5_vl_tied", "qwen2_yarn", "glm4"])
        adapters = []
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            targets = rng.choice(["all-linear", rng.sample(ATTENTION + MLP, rng.randint(1, 7)), LLM,
                                  ["embed_tokens", "q_proj"], ["lm_head", "up_proj"]])
            a = dict(target_modules=targets, r=rng.randint(1, 6), lora_alpha=rng.choice([1, 2, 3, 8, 0.5]),
                     use_rslora=rng.random() < 0.3, use_dora=rng.random() < 0.3, scale=rng.choice([1, 1, 0.5, -2, 1.5]))
            if rng.random() < 0.3:
                a["rank_pattern"] = {rng.choice(["q_proj", r".*\.1\..*", "mlp.*", "up_proj"]): rng.randint(1, 5)}
            if rng.random() < 0.3:
                a["alpha_pattern"] = {rng.choice(["v_proj", r"layers\.0\..*", "down_proj"]): rng.randint(1, 9)}
            if rng.random() < 0.2 and not adapters:
                a["bias"] = "all"
            if rng.random() < 0.2 and not adapters:
                a["modules_to_save"] = [rng.choice(["norm", "input_layernorm", "post_attention_layernorm"])]
            adapters.append(a)
        text_only = base in ("llama_f32", "qwen2", "qwen2_yarn", "mistral", "glm4")
        cases.append(one(f"random_{i}", base, *adapters, prompt=0 if text_only else rng.randint(0, 1)))
    return cases


# ---------------------------------------------------------------- adapters

def fill(model, name, generator):
    """Random numbers for whatever the adapter trains."""
    for key, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=generator)
        if "lora_magnitude" in key:
            p.data *= 1 + 0.3 * noise.clamp(-2, 2)
        elif "lora_" in key:
            p.data.copy_(noise * (0.3 if "embedding" in key else 0.15))  # in place: it may be tied
        elif p.requires_grad:  # modules_to_save and bias
            p.data += 0.2 * noise * p.data.abs().mean().clamp(min=0.05)


def save(base_path, folder, config, generator, named=None):
    from peft import LoraConfig, get_peft_model
    config = {"r": 2, "lora_alpha": 4, **config}
    config.pop("scale", 1)
    dtype, moved = config.pop("dtype", None), config.pop("moved", False)
    model = get_peft_model(goldens.open_model(base_path).model, LoraConfig(**config))
    fill(model, "default", generator)
    model.save_pretrained(folder)
    os.remove(os.path.join(folder, "README.md"))
    path = os.path.join(folder, "adapter_config.json")
    written = goldens.read_json(path)
    written["base_model_name_or_path"] = os.path.relpath(named or base_path, ROOT)
    for key in ("target_modules", "modules_to_save", "exclude_modules"):
        if isinstance(written.get(key), list):
            written[key] = sorted(written[key])  # a set, whose order changes from run to run
    with open(path, "w") as f:
        json.dump(written, f, indent=1)
        f.write("\n")
    file = os.path.join(folder, "adapter_model.safetensors")
    if moved:  # an embedding that was trained beside its adapter
        save_file({k: v * 1.1 + 0.05 if k.endswith(".base_layer.weight") else v for k, v in load_file(file).items()}, file)
    if dtype:
        save_file({k: v.to(dtype) for k, v in load_file(file).items()}, file)


def file_type(base_path):
    if base_path.endswith(".gguf"):
        return torch.float32
    names = sorted(f for f in os.listdir(base_path) if f.endswith(".safetensors"))
    types = [v.dtype for n in names for v in load_file(os.path.join(base_path, n)).values() if v.dim() > 1]
    return max(set(types), key=types.count)


def apart_of(folder):
    """Whether the adapter in a folder can be kept apart: nothing but LoRA of matrices of the language model's layers."""
    layer = re.compile(r".*\blayers\.\d+\.(self_attn|mlp|mlp\.shared_experts)\.\w+_proj\.lora_[AB]\.weight$")
    names = load_file(os.path.join(folder, "adapter_model.safetensors"))
    return "also" if all(layer.match(n) and "vision_tower" not in n for n in names) else "refused"


def apply(wrapper, base_path, folders, scales, is_rounded=True):
    """The adapters, into the wrapper's model."""
    from peft import PeftModel
    from peft.tuners.lora import LoraLayer
    names = [f"a{i}" for i in range(len(folders))]
    model = PeftModel.from_pretrained(wrapper.model, folders[0], adapter_name=names[0])
    for name, folder in list(zip(names, folders))[1:]:
        model.load_adapter(folder, name)
    model.base_model.set_adapter(names)
    for module in model.modules():
        if isinstance(module, LoraLayer):
            for name, scale in zip(names, scales):
                if name in module.scaling:
                    module.scaling[name] *= scale
    model.eval()
    dtype = file_type(base_path)
    if dtype == torch.float32 or not is_rounded:
        return
    for name, module in list(wrapper.model.named_modules()):
        if isinstance(module, LoraLayer):
            parent, _, child = name.rpartition(".")
            setattr(wrapper.model.get_submodule(parent), child, rounded(module, names, dtype))


def rounded(layer, names, dtype):
    """A layer without adapters that computes what the layer does unmerged, its weight rounded to the type."""
    base = layer.get_base_layer()
    base.weight = torch.nn.Parameter(base.weight.data.clone())  # it may be tied to another layer's
    if isinstance(base, torch.nn.Linear):
        bias = 0 if base.bias is None else base.bias
        weight = (layer(torch.eye(base.in_features)) - bias).T
    elif isinstance(base, torch.nn.Embedding):
        weight = layer(torch.arange(base.num_embeddings))
    else:
        layer.merge(adapter_names=names)
        weight = base.weight.data
    base.weight.data = weight.to(dtype).float()
    return base


def in_f32(base, out):
    """The base with its weights in f32, so that nothing is rounded when an adapter is added."""
    folder = os.path.join(out, "bases", base)
    if not os.path.exists(folder):
        shutil.copytree(os.path.join(goldens.FOLDER, base), folder)
        for name in os.listdir(folder):
            if name.endswith(".safetensors"):
                path = os.path.join(folder, name)
                save_file({k: v.float() for k, v in load_file(path).items()}, path)
    return folder


def as_floats(base):
    """A folder with the numbers of a quantised base as floats, by the seed that it was made from."""
    folder = os.path.join(goldens.FOLDER, base)
    with open(os.path.join(folder, "model.safetensors"), "rb") as f:
        want = f.read()
    kept = {n: open(os.path.join(folder, n), "rb").read() for n in ("golden.json", "golden.bin")}
    for seed in range(1, 100):
        floats = tempfile.mkdtemp()
        packed_models.write(base.removeprefix("packed_"), seed, floats)
        for name, data in kept.items():
            with open(os.path.join(folder, name), "wb") as f:
                f.write(data)
        with open(os.path.join(folder, "model.safetensors"), "rb") as f:
            if f.read() == want:
                return floats
        shutil.rmtree(floats)
    raise SystemExit(f"{base}: no seed gives it; run tools/make_packed_models.py")


def to_gguf(base_path, folder):
    """The adapter in a folder as llama.cpp's convert_lora_to_gguf.py has it; the folder goes."""
    import gguf
    architecture = re.search(r"gguf_(\w+?)_", base_path).group(1)
    fields = gguf.GGUFReader(base_path).fields
    layers, heads, kv = (int(fields[f"{architecture}.{k}"].contents())
                         for k in ("block_count", "attention.head_count", "attention.head_count_kv"))
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[architecture.upper()], layers)
    w = gguf.GGUFWriter(folder + ".gguf", architecture)
    w.add_type("adapter")
    w.add_string("adapter.type", "lora")
    w.add_float32("adapter.lora.alpha", float(goldens.read_json(folder, "adapter_config.json")["lora_alpha"]))
    for key, tensor in load_file(os.path.join(folder, "adapter_model.safetensors")).items():
        module, kind = re.match(r"base_model\.model\.(.*?)\.(lora_\w+|base_layer)(?:\.weight)?$", key).groups()
        value = tensor.numpy()
        if kind == "base_layer":
            continue  # an embedding as it was
        if kind == "lora_embedding_A":
            value = np.ascontiguousarray(value.T)
        if kind == "lora_B" and architecture == "llama" and module.endswith(("q_proj", "k_proj")):
            value = np.ascontiguousarray(permute(value, heads if module.endswith("q_proj") else kv))
        w.add_tensor(names.get_name(module) + ".weight.lora_" + kind[-1].lower(), value)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    shutil.rmtree(folder)
    return folder + ".gguf"


def is_packed(base):
    return base.startswith("packed_")


def base_path_of(base, out, is_random):
    """The base that peft runs."""
    return in_f32(base, out) if is_random else as_floats(base) if is_packed(base) else goldens.model_path_of(base)


def prompt_of(spec, base_path):
    case = json.loads(json.dumps((goldens.CASES.get(goldens.architecture_of(base_path)) or [goldens.text_case("text")])[spec["prompt"]]))
    wrapper = goldens.open_model(base_path)
    wrapper.tokenizer = wrapper.tokenizer or goldens.tokenizer_of(goldens.FOLDER)
    ids, _ = wrapper.prompt(case)
    return case, wrapper, ids


def make_apart(spec, base_path, folders, scales, case):
    """The same with what the adapters add rounded nowhere, as it is where they are kept apart."""
    apart, wrapper, ids = prompt_of(spec, base_path)
    wrapper.first(ids, apart)
    apply(wrapper, base_path, folders, scales, is_rounded=False)
    rows = goldens.run(wrapper, apart)
    tolerance = 3e-4 * float(np.abs(rows[0]).max())
    return {**apart, "name": spec["name"] + "_apart", "tolerance": tolerance, "adapters": case["adapters"], "apart": "only"}, rows


def make_case(spec, out, generator, base_path):
    folders = [os.path.join(out, spec["base"], spec["name"] + (f"_{i}" if i else "")) for i in range(len(spec["adapters"]))]
    scales = [a.get("scale", 1) for a in spec["adapters"]]
    for folder, config in zip(folders, spec["adapters"]):
        save(base_path, folder, config, generator, goldens.model_path_of(spec["base"]) if is_packed(spec["base"]) else None)
    case, wrapper, ids = prompt_of(spec, base_path)
    apart = apart_of(folders[-1])
    before = wrapper.first(ids, case)[0].numpy().copy()
    apply(wrapper, base_path, folders, scales)
    rows = goldens.run(wrapper, case)
    rounds = file_type(base_path) != torch.float32
    case["apart"] = "no" if rounds and apart == "also" else apart
    given = folders
    if base_path.endswith(".gguf"):
        folders = [to_gguf(base_path, f) for f in folders]
    largest = float(np.abs(rows[0]).max())
    case["name"] = spec["name"]
    case["tolerance"] = (3e-4 if file_type(base_path) == torch.float32 else 1e-3) * largest
    case["adapters"] = [os.path.relpath(f, ROOT) + (f":{s}" if s != 1 else "") for f, s in zip(folders, scales)]
    moved = float(np.abs(rows[0] - before).max()) / case["tolerance"]
    if moved < 20:
        raise SystemExit(f"{spec['name']}: the adapter changes next to nothing ({moved:.1f} tolerances)")
    print(f"{spec['base']:16} {spec['name']:24} moves logits by {moved:.0f} tolerances", flush=True)
    made = [(case, rows)]
    if case["apart"] == "no":
        made.append(make_apart(spec, base_path, given, scales, case))
    return made


def write_base(out, base, made, base_path):
    values, cases = [], []
    for case, rows in made:
        for key, row in zip(("logits", "last_logits"), rows):
            case[key] = [sum(map(len, values)), len(row)]
            values.append(row.astype("<f4"))
        cases.append(case)
    head = {"model": os.path.relpath(base_path, ROOT), "cases": cases}
    text = json.dumps(head, ensure_ascii=False, indent=1)
    text = re.sub(r"\[\s+(-?\d[^\[\]{}]*?)\s+\]", lambda m: "[" + re.sub(r"\s+", " ", m.group(1)) + "]", text)
    with open(os.path.join(out, base, "golden.json"), "w") as f:
        f.write(text + "\n")
    np.concatenate(values).tofile(os.path.join(out, base, "golden.bin"))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--random", type=int, default=0, help="so many cases drawn at random")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--out", default=OUT)
    p.add_argument("--only", help="cases whose names contain this; writes nothing but their adapters")
    args = p.parse_args()
    out = os.path.abspath(args.out)
    cases = random_cases(args.random, args.seed) if args.random else CASES
    made = {}
    if not args.only:
        shutil.rmtree(out, ignore_errors=True)
    for i, spec in enumerate(cases):
        if args.only and args.only not in spec["name"]:
            continue
        generator = torch.Generator().manual_seed(1000 * args.seed + i)
        base_path = base_path_of(spec["base"], out, args.random)
        made.setdefault(spec["base"], []).extend(make_case(spec, out, generator, base_path))
    if args.only:
        return
    for base, some in made.items():
        write_base(out, base, some, in_f32(base, out) if args.random else goldens.model_path_of(base))
    with open(os.path.join(out, "index.json"), "w") as f:
        json.dump([f"../adapters/{base}" for base in made], f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
