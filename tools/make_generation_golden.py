"""Distributions that transformers' own processors and warpers make, for tests/unit/test_processors.c.

    python tools/make_generation_golden.py tests/golden/generation.json [--seed 1] [--cases 200]

Every case: settings as generation_config.json writes them, ids of prompt and answer so far, logits, and the
probabilities that _get_logits_processor of a tiny random llama leaves (softmax of its scores)."""

import argparse
import json
import random

import torch
import transformers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

VOCAB, EOS, MOST = 24, [2, 5], 16


def settings(r):
    ids = lambda n: sorted(r.sample(range(VOCAB), n))
    return {
        "no_repeat_ngram_size": lambda: r.randint(1, 3),
        "encoder_no_repeat_ngram_size": lambda: r.randint(1, 3),
        "encoder_repetition_penalty": lambda: r.choice([0.7, 1.3, 2.0]),
        "repetition_penalty": lambda: r.choice([0.8, 1.2, 1.7]),
        "bad_words_ids": lambda: [ids(1), [2], [r.randrange(3), r.randrange(3)], ids(2)],
        "sequence_bias": lambda: [[[7], 1.5], [[r.randrange(3), 9], -4.0], [[1, 2], 2.0]],
        "min_length": lambda: r.randint(1, MOST),
        "min_new_tokens": lambda: r.randint(1, 8),
        "forced_eos_token_id": lambda: r.choice([2, [2, 5]]),
        "forced_bos_token_id": lambda: 3,
        "exponential_decay_length_penalty": lambda: [r.randint(0, 4), r.choice([1.1, 1.5])],
        "suppress_tokens": lambda: ids(4),
        "begin_suppress_tokens": lambda: ids(4),
        "remove_invalid_values": lambda: True,
        "top_h": lambda: r.choice([0.2, 0.5, 0.9]),
        "top_k": lambda: r.randint(1, 20),
        "top_p": lambda: r.choice([0.3, 0.7, 0.95]),
        "min_p": lambda: r.choice([0.05, 0.3]),
        "typical_p": lambda: r.choice([0.2, 0.5, 0.9]),
        "epsilon_cutoff": lambda: r.choice([0.01, 0.1]),
        "eta_cutoff": lambda: r.choice([0.01, 0.2]),
        "temperature": lambda: r.choice([0.5, 1.5]),
    }


def case(r, model, names):
    known = settings(r)
    config = {name: known[name]() for name in names}
    n_prompt = 1 if "forced_bos_token_id" in config else r.randint(1, 8)
    n_new = r.choice([0, MOST - n_prompt - 1, r.randint(0, MOST - n_prompt - 1)])
    if "forced_bos_token_id" in config and r.random() < 0.5:
        n_new = 0
    ids = [r.randrange(3) if r.random() < 0.7 else r.randrange(VOCAB) for _ in range(n_prompt + n_new)]
    logits = []
    while len(logits) < VOCAB:  # no two alike: which of a tie goes first is not defined
        x = round(r.gauss(0, 2), 3)
        logits += [x] if x not in logits else []
    full = {"top_k": 0, "top_p": 1.0, "temperature": 1.0, "repetition_penalty": 1.0, **config}
    g = GenerationConfig(do_sample=True, eos_token_id=EOS, max_length=MOST, **full)
    g.max_length = MOST
    g._eos_token_tensor = torch.tensor(EOS)
    prompt = torch.tensor([ids[:n_prompt]])
    p = model._get_logits_processor(g, n_prompt, prompt, device="cpu", model_kwargs={})
    scores = p(torch.tensor([ids]), torch.tensor([logits]))
    probs = torch.softmax(scores.double(), -1)[0].tolist()
    return {"settings": config, "ids": ids, "n_prompt": n_prompt, "logits": logits,
            "probs": [round(x, 9) if x else 0 for x in probs]}


def main():
    a = argparse.ArgumentParser(description=__doc__)
    a.add_argument("out")
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--cases", type=int, default=200)
    a = a.parse_args()
    r = random.Random(a.seed)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=VOCAB, hidden_size=8, intermediate_size=8,
                                         num_hidden_layers=1, num_attention_heads=2))
    names = list(settings(r))
    cases = []
    while len(cases) < a.cases:
        i = len(cases)
        some = [names[i // 3]] if i < 3 * len(names) else r.sample(names, r.randint(2, 6))
        try:
            c = case(r, model, some)
        except ValueError:  # transformers refuses the pair
            continue
        if all(x == x for x in c["probs"]):  # everything forbidden: no distribution
            cases.append(c)
    with open(a.out, "w") as f:
        f.write('{"transformers": "%s", "eos": %s, "most": %d, "cases": [\n'
                % (transformers.__version__, EOS, MOST))
        f.write(",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]}\n")


main()
