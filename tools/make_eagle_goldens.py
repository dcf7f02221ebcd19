#!/usr/bin/env python3
"""Goldens of EAGLE-3 heads: what the library `speculators` (pip install --no-deps speculators) computes for the heads of
tests/golden/eagle3, over the rows that transformers computes for the model that they draft for.

    tools/make_eagle_goldens.py     # (re)creates the model, the heads and golden.json

Needs torch, transformers 5, safetensors, speculators. What tests/unit/test_eagle.c reads:

tests/golden/eagle3/target        a small Llama of 7 layers
tests/golden/eagle3/original      a head in the layout of the paper's authors, trained on answers of that model
tests/golden/eagle3/speculators   a drawn one of qwen3's layer with the flags of that library's layout, embeddings and layers of its own
tests/golden/eagle3/norm_fc       a drawn one with the other flag, of llama's layer
tests/golden/eagle3/golden.json
    ids     a prompt
    token   what the model answers first, greedily
    heads   {NAME: {tokens: what the head drafts behind it, as ids of the model;
                    logits: of each of these, over the head's own tokens}}
"""
import json
import os
import shutil
import sys
import types

for name, what in ("datasets", ["load_from_disk"]), ("hs_connectors", ["FileTransfer", "HiddenStatesTransfer"]):
    module = types.ModuleType(name)  # only its training needs them
    module.__dict__.update((w, type(w, (), {})) for w in what)
    sys.modules.setdefault(name, module)
os.environ["TORCH_COMPILE_DISABLE"] = "1"

import torch
from safetensors.torch import save_file
from speculators.config import SpeculatorsConfig, VerifierConfig
from speculators.models.eagle3 import Eagle3SpeculatorConfig
from speculators.models.eagle3.core import Eagle3DraftModel
from speculators.proposals.greedy import GreedyTokenProposalConfig
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER = os.path.join(ROOT, "tests", "golden", "eagle3")
VOCAB, HIDDEN, N_LAYERS, N_DRAFT = 288, 16, 7, 96
USUAL = [2, N_LAYERS // 2, N_LAYERS - 3]
N_CHAIN = 4

torch.manual_seed(4)
torch.set_num_threads(1)


def draw(module, std):
    """Values that bf16 holds, so that what is written is what was computed with."""
    for name, p in module.named_parameters():
        noise = torch.randn_like(p)
        p.data = (1 + 0.1 * noise if "norm" in name else std * noise).bfloat16().float()


def make_target():
    config = LlamaConfig(vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=32, num_attention_heads=2,
                         num_key_value_heads=1, head_dim=8, num_hidden_layers=N_LAYERS, max_position_embeddings=512,
                         bos_token_id=280, eos_token_id=280, rms_norm_eps=1e-5, tie_word_embeddings=True)
    model = LlamaForCausalLM(config).eval()
    draw(model, 0.3)
    model.tie_weights()
    return model


@torch.no_grad()
def answers(model, prompts, n):
    """Whole sequences, greedily, and the inputs of all layers for their rows."""
    ids = torch.tensor(prompts)
    for _ in range(n):
        ids = torch.cat([ids, model(ids).logits[:, -1].argmax(-1, keepdim=True)], 1)
    return ids, model(ids, output_hidden_states=True).hidden_states


def speculators_config(layer, **flags):
    own = SpeculatorsConfig(algorithm="eagle3", proposal_methods=[GreedyTokenProposalConfig(speculative_tokens=N_CHAIN)],
                            default_proposal_method="greedy",
                            verifier=VerifierConfig(name_or_path=None, architectures=["LlamaForCausalLM"]))
    layer._attn_implementation = "eager"
    return Eagle3SpeculatorConfig(transformer_layer_config=layer, draft_vocab_size=N_DRAFT, speculators_config=own, **flags)


def layer_config(kind, hidden, **more):
    return kind(vocab_size=VOCAB, hidden_size=hidden, num_hidden_layers=1, max_position_embeddings=512, rms_norm_eps=1e-5, **more)


def run(head, rows, tokens, n_steps, documents=None):
    """Logits of every row, of n_steps drafts one behind the other: the tokens that are read are those given."""
    seen = []
    hook = head.lm_head.register_forward_hook(lambda module, inputs, out: seen.append(out[0]))
    if documents is None:
        documents = torch.zeros(1, len(tokens), dtype=torch.long)
    head(hidden_states=rows[None], input_ids=tokens[None], document_ids=documents, ttt_steps=n_steps)
    hook.remove()
    return seen


@torch.no_grad()
def chain(head, rows, tokens, to_model):
    """Drafts behind the last row, and their logits; rows [n], and the token behind each."""
    drafts, logits = [], []
    for i in range(N_CHAIN):
        longer = torch.cat([tokens, torch.tensor(drafts, dtype=torch.long)])
        more = torch.cat([rows, torch.zeros(len(drafts), rows.shape[1])])
        logits.append(run(head, more, longer, i + 1)[i][len(rows) - 1])
        drafts.append(int(to_model[logits[-1].argmax()]))
    return drafts, logits


def train(head, model, ids, states, at, to_model, n_prompt):
    """Answers of the model are what the head learns, as far as its tokens go."""
    to_draft = torch.full((VOCAB,), -100)
    to_draft[to_model] = torch.arange(N_DRAFT)
    rows = torch.cat([states[i] for i in at], -1)[:, :-1].reshape(-1, 3 * HIDDEN)
    tokens = ids[:, 1:].reshape(-1)
    n = ids.shape[1] - 1
    documents = torch.arange(len(ids)).repeat_interleave(n)[None]
    place = torch.arange(n).repeat(len(ids))
    own = [p for name, p in head.named_parameters() if not name.startswith(("embed_tokens", "verifier"))]
    for p in own:
        p.requires_grad_(True)
    optimizer = torch.optim.Adam(own, lr=1e-2)
    for step in range(150):
        loss = 0
        for k, logits in enumerate(run(head, rows, tokens, 3, documents)):
            wanted = torch.full_like(tokens, -100)
            wanted[:-1 - k] = to_draft[tokens[1 + k:]]
            wanted[(place >= n - 1 - k) | (place < n_prompt - 2)] = -100
            loss = loss + torch.nn.functional.cross_entropy(logits, wanted, ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 49:
            print(f"step {step + 1}: loss {float(loss):.3f}", flush=True)
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 * (1 - step / 150)
    for p in own:
        p.data = p.data.bfloat16().float()


def write(name, config, tensors):
    folder = os.path.join(FOLDER, name)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f, indent=1)
        f.write("\n")
    save_file(tensors, os.path.join(folder, "model.safetensors"))


def tensors_of(head, has_embeddings):
    out = {}
    for name, value in head.state_dict().items():
        if name.startswith("verifier") or (name == "embed_tokens.weight" and not has_embeddings):
            continue
        out[name] = (value if value.dtype in (torch.long, torch.bool) else value.bfloat16()).contiguous()
    return out


def set_tokens(head, to_model):
    mask = torch.zeros(VOCAB, dtype=torch.bool)
    mask[to_model] = True
    head.load_vocab_mappings(mask, to_model - torch.arange(N_DRAFT))


def main():
    model = make_target()
    drawn = torch.Generator().manual_seed(5)
    prompt = [5 + i % 7 for i in range(40)]
    prompts = [prompt] + [torch.randint(0, 256, (40,), generator=drawn).tolist() for _ in range(3)]
    ids, states = answers(model, prompts, 60)
    often = torch.bincount(ids[:, 40:].reshape(-1), minlength=VOCAB)
    often[ids[0]] += 1000
    to_model = often.argsort(descending=True)[:N_DRAFT].sort().values
    os.makedirs(FOLDER, exist_ok=True)
    target = {k: v.bfloat16().contiguous() for k, v in model.state_dict().items() if k != "lm_head.weight"}
    config = model.config.to_dict()
    write("target", {k: config[k] for k in ("architectures", "model_type", "vocab_size", "hidden_size", "intermediate_size",
                                           "num_attention_heads", "num_key_value_heads", "head_dim", "num_hidden_layers",
                                           "max_position_embeddings", "bos_token_id", "eos_token_id", "rms_norm_eps",
                                           "tie_word_embeddings", "hidden_act")} | {"architectures": ["LlamaForCausalLM"]}, target)
    shutil.copy(os.path.join(ROOT, "tests", "golden", "models", "llama_f32", "tokenizer.json"), os.path.join(FOLDER, "target"))

    golden = {"ids": prompt, "token": int(ids[0, 40]), "heads": {}}

    def add(name, head, at):
        rows = torch.cat([states[i][0, :40] for i in at], -1)
        drafts, logits = chain(head, rows, ids[0, 1:41], to_model)
        golden["heads"][name] = {"tokens": drafts, "logits": [[round(float(x), 6) for x in l] for l in logits]}
        print(name, drafts, "the model:", ids[0, 41:45].tolist(), flush=True)

    small = dict(intermediate_size=32, num_attention_heads=2, num_key_value_heads=1, head_dim=8)
    head = Eagle3DraftModel(speculators_config(layer_config(LlamaConfig, HIDDEN, **small), norm_before_residual=False))
    draw(head, 0.1)
    head.embed_tokens.weight.data = model.model.embed_tokens.weight.data.clone()
    set_tokens(head, to_model)
    train(head, model, ids, states, USUAL, to_model, 40)
    add("original", head, USUAL)
    write("original", {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "draft_vocab_size": N_DRAFT,
                       "vocab_size": VOCAB, "hidden_size": HIDDEN, "num_hidden_layers": 1, "rms_norm_eps": 1e-5,
                       "max_position_embeddings": 512, "hidden_act": "silu", **small},
          {k.replace("layers.0.", "midlayer."): v for k, v in tensors_of(head, False).items()})

    at = [0, 3, 6]
    small = dict(intermediate_size=40, num_attention_heads=4, num_key_value_heads=2, head_dim=10, attention_bias=True)
    for name, flags in (("speculators", dict(fc_norm=True, norm_output=True, norm_before_residual=True)),
                        ("norm_fc", dict(norm_before_fc=True))):
        layer = layer_config(Qwen3Config if name == "speculators" else LlamaConfig, HIDDEN, rope_theta=5000.0, **small)
        head = Eagle3DraftModel(speculators_config(layer, eagle_aux_hidden_state_layer_ids=at, **flags)).eval()
        draw(head, 0.25)
        set_tokens(head, to_model)
        add(name, head, at)
        config = json.loads(head.config.to_json_string())
        keep = ("architectures", "speculators_model_type", "draft_vocab_size", "eagle_aux_hidden_state_layer_ids", "fc_norm",
                "norm_before_fc", "norm_before_residual", "norm_output", "target_hidden_size", "transformer_layer_config")
        write(name, {k: config[k] for k in keep if k in config}, tensors_of(head, True))
    with open(os.path.join(FOLDER, "golden.json"), "w") as f:
        json.dump(golden, f)
        f.write("\n")


main()
