"""Makes tests/golden/tokenizer/configs.json: what transformers' AutoTokenizer makes of the files around a tokenizer.json.

  python3 tools/make_tokenizer_config_goldens.py     # needs: transformers 5; tests/golden/tokenizer as make_tokenizer_goldens.py leaves it

A case is a tokenizer.json of that folder and the text of each small file beside it; then for every string its ids without and with
what the tokenizer adds, and the text that the former become again without control tokens."""
import argparse
import json
import pathlib
import random
import shutil
import sys
import tempfile

import transformers

GOLDENS = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/tokenizer"

STRINGS = ["", " ", "Hello world", " Hello  World!", "\nx", "a<image>b", "<image>\nWhat is it?", "<s> a", "x</s>  y<unk>", "<s>[INST] hi [/INST]",
           "<a1> b<a1>c <a2>  d<a3>e", "<|end|>x<|end|> y", "  [MASK]  x", "▁a ▁▁b", "<|im_start|>user\nhi<|im_end|>\n<|endoftext|>",
           "the picture's 3 dogs\t12", "e\u0301 你好 😀", "<pad><mask><sep>"]

ANSWERS = ("bos", "eos", "ids", "added", "text")
FLAGS = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False, "special": True}


def token(content, **flags):
    return {"content": content, **FLAGS, **flags}


def written(content, **flags):
    """As tokenizer_config.json of older versions writes a token."""
    return {"__type": "AddedToken", **{k: v for k, v in token(content, **flags).items() if k != "special"}}


def fixed_cases():
    spm = {"0": token("<unk>"), "1": token("<s>"), "2": token("</s>")}
    for model_type in ("llama", "mistral", "llava", "qwen2", "qwen2_vl", "qwen2_5_vl", "qwen3", "qwen3_vl", "internvl", "somebodys"):
        for name in ("LlamaTokenizer", "LlamaTokenizerFast", "PreTrainedTokenizerFast", "Qwen2Tokenizer", "TokenizersBackend", None):
            config = {"tokenizer_class": name} if name else {}
            for base in ("sentencepiece", "qwen2"):
                yield base, {"config.json": {"model_type": model_type}, "tokenizer_config.json": config}
    for model_type in ("phi3", "mixtral", "granitemoe", "granitemoeshared", "ministral", "ministral3", "mistral3", "glm4", "glm4v", "glm4_moe", "glm4v_moe",
                       "minicpmv4_6", "paddleocr_vl", "lighton_ocr", "qwen3_moe", "qwen3_vl_moe", "qwen3_next", "deepseek_v3"):
        for name, base in ("LlamaTokenizer", "sentencepiece"), ("GPT2Tokenizer", "digits"), (None, "digits"):
            yield base, {"config.json": {"model_type": model_type}, "tokenizer_config.json": {"tokenizer_class": name} if name else {}}
    for model_type in ("llama", "smollm3", "granite"):
        for prefix in (True, False):
            yield "digits", {"config.json": {"model_type": model_type},
                             "tokenizer_config.json": {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": prefix}}
    for model_type, name in (("olmo2", "GPT2Tokenizer"), ("smolvlm", "GPT2TokenizerFast"), ("idefics3", "GPT2TokenizerFast"), ("gemma3", None),
                             ("gemma3", "GemmaTokenizer"), ("gemma2", "GemmaTokenizerFast")):
        yield ("sentencepiece" if model_type.startswith("gemma") else "gpt2"), {
            "config.json": {"model_type": model_type}, "tokenizer_config.json": {"tokenizer_class": name} if name else {}}
    neox = {"tokenizer_class": "GPTNeoXTokenizer"}
    for model_type in ("olmoe", "llama", "olmo2", "qwen2", "phi3", "somebodys"):
        for base in ("gpt2", "llama3", "qwen2", "sentencepiece"):
            yield base, {"config.json": {"model_type": model_type}, "tokenizer_config.json": neox}
    for name in ("GPTNeoXTokenizerFast", "GPT2Tokenizer", "PreTrainedTokenizerFast", "TokenizersBackend", "LlamaTokenizer", None):
        for base in ("gpt2", "llama3"):
            yield base, {"config.json": {"model_type": "olmoe"}, "tokenizer_config.json": {"tokenizer_class": name} if name else {}}
    for base in ("gpt2", "llama3"):
        for more in ({"add_prefix_space": True}, {"add_prefix_space": False}, {"add_bos_token": True}, {"add_eos_token": True}, {"bos_token": None},
                     {"split_special_tokens": True}, {"eos_token": "<|im_end|>", "additional_special_tokens": ["<a1>"]},
                     {"added_tokens_decoder": {"600": token("<|endoftext|>"), "601": token("<|padding|>"), "602": token("  ", normalized=True, special=False)}}):
            yield base, {"config.json": {"model_type": "olmoe"}, "tokenizer_config.json": {**neox, **more}}
    llama = {"config.json": {"model_type": "llama"}}
    for base in ("sentencepiece", "metaspace"):
        for legacy in (True, False, None):
            for prefix in (True, False, None):
                config = {"tokenizer_class": "LlamaTokenizer", "legacy": legacy, "add_prefix_space": prefix, "added_tokens_decoder": spm}
                yield base, {**llama, "tokenizer_config.json": {k: v for k, v in config.items() if v is not None}}
    for prefix in (True, False):
        for name, model_type in (("Qwen2Tokenizer", "qwen2"), ("PreTrainedTokenizerFast", "llama"), ("LlamaTokenizerFast", "llava")):
            for base in ("qwen2", "llama3", "gpt2", "sentencepiece"):
                yield base, {"config.json": {"model_type": model_type},
                             "tokenizer_config.json": {"tokenizer_class": name, "add_prefix_space": prefix}}
    for base in ("sentencepiece", "qwen2"):
        for key in ("add_bos_token", "add_eos_token"):
            for value in (True, False):
                yield base, {**llama, "tokenizer_config.json": {"tokenizer_class": "LlamaTokenizer", key: value}}
        yield base, {**llama, "tokenizer_config.json": {"tokenizer_class": "LlamaTokenizer", "split_special_tokens": True}}
        yield base, {**llama, "tokenizer_config.json": {"split_special_tokens": True, "additional_special_tokens": ["<a1>"]}}
    for base in ("sentencepiece", "qwen2"):
        yield base, {**llama, "tokenizer_config.json": {"added_tokens_decoder": {"600": token("a", special=False, single_word=True)}}}
    yield "sentencepiece", {"config.json": {"model_type": "llama", "tokenizer_class": "LlamaTokenizer"}, "tokenizer_config.json": {}}
    yield "sentencepiece", {"config.json": {"model_type": "llama", "tokenizer_class": "LlamaTokenizer"}}
    yield "sentencepiece", {}
    for model_type in ("qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_next"):
        for name in ("Qwen2Tokenizer", "Qwen3_5Tokenizer", None):
            yield "qwen2", {"config.json": {"model_type": model_type},
                            "tokenizer_config.json": {"tokenizer_class": name} if name else {}}


def drawn_case(r):
    """Tokens in any of the files that may hold them."""
    base = r.choice(["sentencepiece", "metaspace", "qwen2", "llama3", "gpt2"])
    config = {"tokenizer_class": r.choice(["LlamaTokenizer", "PreTrainedTokenizerFast", "Qwen2Tokenizer"])}
    files = {"config.json": {"model_type": r.choice(["llama", "llama", "mistral", "qwen2", "llava"])}, "tokenizer_config.json": config}
    names = ["<a1>", "<a2>", "<a3>", "[MASK]", "<|im_start|>", "<|im_end|>", "<pad>", "<image>", "</s>", " y", "<mask>"]
    flags = lambda: {k: r.random() < 0.3 for k in ("lstrip", "rstrip", "single_word", "normalized", "special")}
    some = lambda n: r.sample(names, r.randint(1, n))
    if r.random() < 0.5:
        ids = sorted(r.sample(range(600, 640), 4))
        config["added_tokens_decoder"] = {str(i): token(n, **flags()) for i, n in zip(ids, some(4))}
    if r.random() < 0.4:
        config["additional_special_tokens"] = [written(n, **flags()) if r.random() < 0.3 else n for n in some(3)]
    if r.random() < 0.3:
        config["extra_special_tokens"] = {"image_token": "<image>", "odd_token": r.choice(names)} if r.random() < 0.5 else some(2)
    for key in ("bos_token", "eos_token", "unk_token", "pad_token", "mask_token", "video_token"):
        if r.random() < 0.3:
            config[key] = r.choice([r.choice(names), written(r.choice(names), **flags()), None])
    if r.random() < 0.4:
        files["special_tokens_map.json"] = {"eos_token": r.choice(names), "pad_token": token(r.choice(names), **flags()),
                                            "additional_special_tokens": some(3)}
    if r.random() < 0.4:
        files["added_tokens.json"] = {n: 600 + i for i, n in enumerate(some(4))}
    return base, files


def answers(base, files):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        shutil.copy(GOLDENS / (base + ".json"), folder / "tokenizer.json")
        for name, content in files.items():
            (folder / name).write_text(json.dumps(content))
        if "config.json" not in files:
            (folder / "config.json").write_text("{}")
        t = transformers.AutoTokenizer.from_pretrained(folder)
        ids = [t(s, add_special_tokens=False)["input_ids"] for s in STRINGS]
        added = [t(s)["input_ids"] for s in STRINGS]
        begin = t("a")["input_ids"][:1]
        repeats = begin != t("a", add_special_tokens=False)["input_ids"][:1]
        # Saccade does not repeat a begin token, as processors do not
        added = [None if a == i or (repeats and i[:1] == begin) else a for i, a in zip(ids, added)]
        return {"class": type(t).__name__, "bos": t.bos_token_id, "eos": t.eos_token_id, "ids": ids, "added": added,
                "text": [t.decode(i, skip_special_tokens=True) for i in ids]}


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("--out", type=pathlib.Path, default=GOLDENS / "configs.json")
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--drawn", type=int, default=120)
    a = a.parse_args()
    transformers.logging.set_verbosity_error()
    r = random.Random(a.seed)
    cases, refused = [], 0
    todo = list(fixed_cases()) + [drawn_case(r) for _ in range(a.drawn)]
    for base, files in todo:
        try:
            cases.append({"tokenizer": base, "files": {k: json.dumps(v) for k, v in files.items()}, **answers(base, files)})
        except (TypeError, ValueError, AttributeError) as e:
            refused += 1
            print("refused:", base, files, e, file=sys.stderr)
    first = {}
    for i, c in enumerate(cases):  # what an earlier case has as well is not written again
        known = json.dumps({k: v for k, v in c.items() if k in ANSWERS})
        if known in first:
            cases[i] = {**{k: v for k, v in c.items() if k not in ANSWERS}, "like": first[known]}
        first.setdefault(known, i)
    lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
    a.out.write_text('{"transformers":"%s","strings":%s,"cases":[\n%s\n]}\n' % (transformers.__version__, json.dumps(STRINGS), lines))
    print("%d cases, %d refused by transformers" % (len(cases), refused))


if __name__ == "__main__":
    main()
