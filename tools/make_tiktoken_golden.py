#!/usr/bin/env python3
"""tests/golden/tokenizer/tiktoken: a small tiktoken.model as Kimi-VL's folders have it, and what the package tiktoken makes of texts.

    tools/make_tiktoken_golden.py

ids.json: [[text, ids], ...], control tokens by name in all of a text. Needs tiktoken, torch and transformers (kimi_vl.py)."""
import json
import os
import random

import regex

import kimi_vl
import make_model_goldens as goldens

FOLDER = os.path.join(goldens.ROOT, "tests", "golden", "tokenizer", "tiktoken")
NAMES = ["[BOS]", "[EOS]", "<|im_end|>", "<|im_user|>", "<|media_pad|>"]
TEXT = """The owls sat on the wire; THE OWLS' house wasn't theirs, they'd said. I'll say we've 1234567 mice, 12 of them in the HOUSE
we'Re and they'LL. 猫头鹰在电线上，猫头鹰很累。我们的猫头鹰有三只。ねこがいる。フクロウとネズミ。漢字かな交じり文。Сова сидит на проводе, совы спят.
   def wire(mouse):\n\t\treturn mouse[12:345] + "owl's"\n\n\nÉtait-ce l'hibou? Größe, ÄRGER. ελληνικά κείμενα. ಕನ್ನಡ हिन्दी עברית عربي 한국어 문장 aaaaaaa"""


def train(n):
    """The most frequent pair first, as byte-pair encoding is trained."""
    pieces = [[bytes([b]) for b in p.encode()] for p in regex.findall(kimi_vl.PATTERN, TEXT * 2, regex.V1)]
    ranks = [bytes([b]) for b in range(256)]
    while len(ranks) < n:
        counts = {}
        for p in pieces:
            for pair in zip(p, p[1:]):
                counts[pair] = counts.get(pair, 0) + 1
        a, b = max(counts, key=lambda k: (counts[k], k))
        ranks.append(a + b)
        for p in pieces:
            i = 0
            while i < len(p) - 1:
                if p[i] == a and p[i + 1] == b:
                    p[i:i + 2] = [a + b]
                i += 1
    return ranks


def texts():
    strings = goldens.read_json(goldens.ROOT, "tests", "golden", "tokenizer", "cases.json")["strings"]
    rng = random.Random(5)
    parts = [*TEXT.split(" "), "猫头鹰", "\n", "\r\n", "  ", "\t", "'S", "'\u017f", "Ａ", "ǅ", "\u0301", "〇", "々", "123", "９９", "<|media_pad|>", "[EOS]",
             "<|reserved_token_700|>", "!?", "🦉🦉", "\u00a0", "\u3000", "ªº", "aaaaa", "A", "ab"]
    drawn = ["".join(rng.choice(parts) + rng.choice(["", "", " "]) for _ in range(rng.randint(1, 12))) for _ in range(160)]
    return [s for s in dict.fromkeys([*strings, TEXT, *drawn]) if len(s) < 3000]


def main():
    os.makedirs(FOLDER, exist_ok=True)
    ranks = train(560)
    rng = random.Random(1)
    ranks += [bytes(rng.choice(b"a \xe7\x8c") for _ in range(3)) for _ in range(6)]  # that no merges lead to, and such as others begin
    ranks = list(dict.fromkeys(ranks))
    kimi_vl.write_tiktoken(FOLDER, ranks, NAMES, bos_token="[BOS]", eos_token="[EOS]")
    encoding = kimi_vl.open_tiktoken(FOLDER)
    made = [[s, encoding.encode(s, allowed_special="all")] for s in texts()]
    with open(os.path.join(FOLDER, "ids.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(m, separators=(",", ":")) for m in made) + "\n]\n")
    print(f"{len(ranks)} ranks, {len(made)} texts")


if __name__ == "__main__":
    main()
