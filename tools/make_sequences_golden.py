"""Whole answers of tiny models under transformers' settings of generation, for tests/unit/test_sequences.c.

    python3 tools/make_sequences_golden.py             # needs: torch, transformers

"greedy" cases: settings as generation_config.json writes them, a prompt, and the ids that generate() gives. "sampled" cases:
every sequence of a few tokens that transformers' processors let through, whatever is drawn."""

import argparse
import json
import pathlib
import random

import torch
import transformers
from transformers import AutoModelForCausalLM, GenerationConfig, PreTrainedTokenizerFast

REPO = pathlib.Path(__file__).resolve().parent.parent
MODELS = REPO / "tests/golden/models"
NAMES = ["llama_f32", "mistral", "qwen2"]
NEW = 16
EOS = 280
ENDS = {"qwen2": [280, 283]}  # its chat format ends answers too


def settings(r, words):
    ids = lambda n: sorted(r.sample(range(EOS), n))
    return {
        "no_repeat_ngram_size": lambda: r.randint(1, 3),
        "encoder_no_repeat_ngram_size": lambda: r.randint(1, 2),
        "encoder_repetition_penalty": lambda: r.choice([0.7, 1.5]),
        "repetition_penalty": lambda: r.choice([0.8, 1.3]),
        "bad_words_ids": lambda: [ids(1), ids(1), ids(2)],
        "sequence_bias": lambda: [[ids(1), 9.5], [ids(1), 8.0]],
        "min_length": lambda: r.randint(4, 16),
        "min_new_tokens": lambda: r.randint(1, 12),
        "max_new_tokens": lambda: r.randint(1, 12),
        "forced_eos_token_id": lambda: EOS,
        "exponential_decay_length_penalty": lambda: [r.randint(0, 4), r.choice([1.3, 2.0])],
        "suppress_tokens": lambda: ids(40),
        "begin_suppress_tokens": lambda: ids(200),
        "guidance_scale": lambda: r.choice([0.0, 0.5, 1.5, 3.0]),
        "negative_prompt_ids": lambda: ids(r.randint(1, 5)),
        "stop_strings": lambda: r.sample(words, min(3, len(words))) if r.random() < 0.7 else r.choice(words),
    }


def words_of(tokenizer, ids):
    """Texts that come up in an answer: within a token, over the border of two, with more behind them."""
    texts = [tokenizer.decode([i]) for i in ids]
    both = [a + b for a, b in zip(texts, texts[1:])]
    cut = [t[1:-1] for t in both if len(t) > 3 and "\ufffd" not in t]
    return [t for t in texts + both + cut if t and "\ufffd" not in t and "\0" not in t] or ["a"]


def generate(model, tokenizer, prompt, config):
    own = {k: v for k, v in config.items() if k not in ("negative_prompt_ids",)}
    more = {}
    if "negative_prompt_ids" in config:
        more["negative_prompt_ids"] = torch.tensor([config["negative_prompt_ids"]])
        more["negative_prompt_attention_mask"] = torch.ones_like(more["negative_prompt_ids"])
    if "stop_strings" in config:
        more["tokenizer"] = tokenizer
    g = GenerationConfig(do_sample=False, eos_token_id=ENDS.get(model.config.model_type, EOS), pad_token_id=0, **{"max_new_tokens": NEW, **own})
    ids = torch.tensor([prompt])
    out = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=g, **more)[0].tolist()
    return out[len(prompt):]


def greedy_case(r, name, model, tokenizer, names):
    prompt = [r.randrange(EOS) for _ in range(r.randint(2, 10))]
    plain = generate(model, tokenizer, prompt, {})
    known = settings(r, words_of(tokenizer, plain))
    config = {n: known[n]() for n in names}
    if "guidance_scale" not in config:
        config.pop("negative_prompt_ids", None)
    answer = generate(model, tokenizer, prompt, config)
    return {"model": name, "settings": config, "prompt": prompt, "ids": answer, "plain": answer == plain}


def sampled_case(r, name, model):
    prompt = [r.randrange(EOS) for _ in range(r.randint(2, 10))]
    config = {"top_k": r.randint(2, 3), "temperature": r.choice([0.7, 1.0, 3.0])}
    for key, value in (("top_p", r.choice([0.6, 0.9])), ("min_p", 0.3), ("repetition_penalty", 1.5), ("no_repeat_ngram_size", 1),
                       ("typical_p", 0.8), ("epsilon_cutoff", 0.2), ("eta_cutoff", 0.3), ("top_h", 0.5), ("suppress_tokens", [5, 9])):
        if r.random() < 0.3:
            config[key] = value
    g = GenerationConfig(do_sample=True, eos_token_id=ENDS.get(name, EOS), max_new_tokens=3, **{"top_p": 1.0, **config})
    g.max_length = len(prompt) + 3
    g._eos_token_tensor = torch.tensor(ENDS.get(name, [EOS]))
    done, open_ = [], [[]]
    while open_:
        so_far = open_.pop()
        ids = torch.tensor([prompt + so_far])
        p = model._get_logits_processor(g, len(prompt), torch.tensor([prompt]), device="cpu", model_kwargs={})
        with torch.no_grad():
            scores = p(ids, model(ids).logits[:, -1].float())
        for i in torch.nonzero(torch.isfinite(scores[0])).flatten().tolist():
            seq = so_far + [i]
            (done if i in ENDS.get(name, [EOS]) or len(seq) == 3 else open_).append(seq)
    return {"model": name, "settings": config, "prompt": prompt, "sequences": sorted(done)}


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("--out", type=pathlib.Path, default=REPO / "tests/golden/sequences.json")
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--greedy", type=int, default=150)
    a.add_argument("--sampled", type=int, default=30)
    a = a.parse_args()
    transformers.logging.set_verbosity_error()
    r = random.Random(a.seed)
    models = {n: AutoModelForCausalLM.from_pretrained(MODELS / n, dtype=torch.float32).eval() for n in NAMES}
    tokenizers = {n: PreTrainedTokenizerFast(tokenizer_file=str(MODELS / n / "tokenizer.json")) for n in NAMES}
    all_names = list(settings(r, ["a"]))
    greedy = []
    while len(greedy) < a.greedy:
        i, name = len(greedy), NAMES[len(greedy) % 3]
        some = [all_names[i // 3]] if i < 3 * len(all_names) else r.sample(all_names, r.randint(2, 4))
        if "negative_prompt_ids" in some and "guidance_scale" not in some:
            some.append("guidance_scale")
        greedy.append(greedy_case(r, name, models[name], tokenizers[name], some))
    sampled = [sampled_case(r, NAMES[i % 3], models[NAMES[i % 3]]) for i in range(a.sampled)]
    print("%d greedy, %d of them as without settings; %d sampled" % (len(greedy), sum(c.pop("plain") for c in greedy), len(sampled)))
    with open(a.out, "w") as f:
        f.write('{"transformers": "%s", "new": %d, "greedy": [\n' % (transformers.__version__, NEW))
        f.write(",\n".join(json.dumps(c, separators=(",", ":")) for c in greedy) + '\n], "sampled": [\n')
        f.write(",\n".join(json.dumps(c, separators=(",", ":")) for c in sampled) + "\n]}\n")


main()
