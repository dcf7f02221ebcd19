#!/usr/bin/env python3
"""Makes tests/golden/tokenizer: small tokenizers of every kind, and what `tokenizers` and jinja2 make of odd texts.

  python3 tools/make_tokenizer_goldens.py            # needs: tokenizers, sentencepiece, jinja2 (from PyPI)

The tokenizers are trained here on a few lines of text, so they are ours; sizes and oddities are what matters.
"""
import base64
import io
import json
import pathlib
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox
import sentencepiece
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from tokenizer_templates import CONVERSATIONS, TEMPLATES

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/tokenizer"

TEXT = """The quick brown fox jumps over the lazy dog, and the dog doesn't mind. It's a picture of a red circle.
What is in this image? There are 12 blue squares and 345 green triangles on a white background.
She'll say they've seen it; I'd say we're sure. Numbers: 0 1 2 3 10 42 99 100 1000 123456789 3.14 1,000,000.
Ein Fluß fließt über die Brücke. Le garçon a mangé une crème brûlée à Noël. El niño español soñó mañana.
Быстрая лиса прыгает через собаку. Γρήγορη αλεπού. 你好世界,这是一张图片。今天天气很好。こんにちは世界、写真です。
안녕하세요 세계. שלום עולם. مرحبا بالعالم. नमस्ते दुनिया. สวัสดีชาวโลก
def main(argc, argv):\n    for i in range(10):\n        print("hello", i)\n\treturn 0  # done
😀 😁 👍🏽 👨‍👩‍👧‍👦 🇩🇪 ❤️ ½ ² Ⅷ ﬁ ǆ
""" * 4

STRINGS = [
    "", " ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\n \n", " \n", "\t\n  x", "a", " a", "a ", "  a  b   c    ",
    "Hello world", " Hello World!", "Hello, y'all! How are you 😁 ?我想在apple工作1314151天～",
    "The quick brown fox doesn't jump; it'll WALK. I'M, YOU'RE, WE'VE, HE'D, 'S 'ſ",
    "3", "33", "333", "3333", "33333", "333333", "3.14159", "1,000,000", "x1y22z333", "٣٤٥", "½ + ² = Ⅷ", "１２３",
    "ied 4 ½ months", "w048 7tuijk dsdfhu", "нещо на Български", "កាន់តែពិសេសអាចខលចេញ", "!!!!!!", "...", "$%&()[]{}",
    "你好世界", "你好, 世界!", "こんにちは、世界。", "안녕하세요", "שָׁלוֹם עוֹלָם", "مرحبا", "नमस्ते", "สวัสดี",
    "e\u0301 é n\u0303 ñ", "\u0041\u030a \u212b \u00c5", "\uac00 \u1100\u1161", "ﬁ ﬂ ﬀ", "q\u0323\u0307 q\u0307\u0323", "\u0301\u0301\u0301",
    "😀", "👍🏽", "👨‍👩‍👧‍👦", "🇩🇪🇫🇷", "❤️", "🚀 (normal) 😶‍🌫️ (multiple emojis concatenated) ✅ 🦙🦙",
    "zero\u200bwidth\u200djoiner\u2060x", "nb\u00a0sp \u2003em \u3000ideo \u180emvs \u0085nel \u2028ls", "\ufeffbom", "\ufffd\ufffd",
    "tab\tand\x0bvt\x0cff", "\x01\x02\x7f", "line one\nline two\r\n\r\nline four\n\n\n  indented\n",
    "    def f(x):\n        return x  # two  spaces\n", "CamelCaseHTTPServer2Go", "under_score __init__ a_1", "http://a.b/c?d=e&f=g#h",
    "▁", "▁▁a ▁b", "a▁b", "Ġ", "Ġhello ĊĠ", "<0x41>", "<0x0A>", "<unk>", "<s>", "</s>x",
    "<image>", "<image>\nWhat is it?", "a<image>b", "a <image> b", "<image><image>", "<imag", "<|end|>", "x<|end|>y <|end|>", "<|end|><image>",
    "[MASK]", "a [MASK] b", "  [MASK]  ", "x[MASK]y", "word words wordword a word.", "Word", "<extra>", "a<extra> <EXTRA>", "ﬁ<ﬁx>",
    "qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" * 3, "ababababab" * 9,
    "\u2581\u2581 the\u2581picture", "the  picture   of    a     red      circle", " the picture", "thepicture", "THE PICTURE", "日本語テキスト and English mixed 混合 text 123",
    "\U0001F469\u200D\U0001F4BB codes", "a\u0308\u0323 o\u0302\u0301", "\u1e9b\u0323", "x\u00b2\u00b3", "Ａｂｃ　ＤＥＦ", "①②③", "ㄱㄴㄷ", "\ue000\uf8ff\U0010fffd",
]

GPT2 = None  # ByteLevel's own
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


def train_byte_level(n):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.train_from_iterator(TEXT.splitlines(keepends=True),
                          trainers.BpeTrainer(vocab_size=n, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return json.loads(t.to_str())["model"]


def byte_level(model, pre, normalizer=None, special=("<|end|>", "<image>"), ignore_merges=False):
    model = dict(model, ignore_merges=ignore_merges)
    t = Tokenizer.from_str(json.dumps(empty(model)))
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    if normalizer:
        t.normalizer = normalizer
    t.add_special_tokens(list(special))
    return t


def empty(model):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": None, "post_processor": None, "decoder": None, "model": model}


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def sentencepiece_bpe(metaspace):
    """Llama's: BPE over characters with byte fallback; spaces as U+2581 by normalizers (old) or Metaspace (new files)."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    t.train_from_iterator(TEXT.splitlines(), trainers.BpeTrainer(vocab_size=330, limit_alphabet=90, show_progress=False))
    trained = json.loads(t.to_str())["model"]
    names = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % i for i in range(256)]
    names += [v for v, _ in sorted(trained["vocab"].items(), key=lambda kv: kv[1])]
    model = dict(trained, vocab={v: i for i, v in enumerate(names)}, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    t = Tokenizer.from_str(json.dumps(empty(model)))
    if metaspace:
        t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    t.add_special_tokens(["<unk>", "<s>", "</s>", "<image>"])
    return t


def charsmap():
    """A small table of SentencePiece's kind, compiled by SentencePiece itself."""
    rules = OUT / "rules.tsv"
    rules.write_text("".join("%s\t%s\n" % (" ".join("%X" % ord(c) for c in a), " ".join("%X" % ord(c) for c in b)) for a, b in
                             [("ﬁ", "fi"), ("½", "1/2"), ("é", "e\u0301"), ("e\u0301", "E"), ("\u00a0", " "), ("\t", " "), ("！", "!"), ("Å", ""), ("①", "1")]))
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["a cab"] * 9), model_writer=model, model_type="char", vocab_size=7,
                                             normalization_rule_tsv=str(rules), minloglevel=2)
    rules.unlink()
    return protobuf_field(protobuf_field(model.getvalue(), 3), 2)  # normalizer_spec.precompiled_charsmap


def protobuf_field(data, wanted):
    """The bytes of a length-delimited field of a message."""
    def varint(at):
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value, at
    at = 0
    while at < len(data):
        key, at = varint(at)
        kind = key & 7
        n, at = (varint(at) if kind in (0, 2) else (0, at))
        if kind == 2 and key >> 3 == wanted:
            return data[at:at + n]
        at += {0: 0, 1: 8, 2: n, 5: 4}[kind]
    raise KeyError(wanted)


def unigram(normalizer, byte_fallback=False):
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.NFKC()
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    t.train_from_iterator(TEXT.splitlines(), trainers.UnigramTrainer(vocab_size=260, special_tokens=["<unk>", "</s>"], unk_token="<unk>", show_progress=False))
    model = json.loads(t.to_str())["model"]
    if byte_fallback:
        model["vocab"] += [["<0x%02X>" % i, -20.0] for i in range(256)]
        model["byte_fallback"] = True
    file = empty(model)
    file["normalizer"] = normalizer
    t = Tokenizer.from_str(json.dumps(file))
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    t.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()]) if byte_fallback else decoders.Metaspace(prepend_scheme="always")
    t.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    t.add_special_tokens(["<unk>", "</s>", "<image>"])
    return t


def odd_added(model):
    """Every flag of added tokens, behind normalizers that change the text."""
    t = Tokenizer.from_str(json.dumps(empty(model)))
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(r"[\r\n]+"), "\n"), normalizers.Strip(left=False, right=True)])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Punctuation("merged_with_previous"), pre_tokenizers.Digits(individual_digits=False),
                                               pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=True)])
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True), processors.TemplateProcessing(single="<|end|> $A <image>", special_tokens=[("<|end|>", 500), ("<image>", 501)])])
    t.add_special_tokens(["<|end|>", "<image>"])
    t.add_tokens([AddedToken("[MASK]", lstrip=True, rstrip=True, normalized=False), AddedToken("word", single_word=True), AddedToken("<extra>", rstrip=True),
                  AddedToken("<fix>", normalized=True), AddedToken("  ", normalized=False), AddedToken("ﬁx", normalized=True)])
    return t


def few_characters():
    """A model of the commonest characters and pairs, everything else unknown."""
    t = Tokenizer(models.BPE(unk_token="<unk>"))
    t.train_from_iterator(TEXT.splitlines(), trainers.BpeTrainer(vocab_size=70, limit_alphabet=45, special_tokens=["<unk>"], show_progress=False))
    return json.loads(t.to_str())["model"]


def splits(model):
    """Behaviours of Split, Whitespace and their like, on raw characters without a byte level."""
    def make(pre, fuse_unk=False):
        t = Tokenizer.from_str(json.dumps(empty(dict(model, fuse_unk=fuse_unk))))
        t.pre_tokenizer = pre
        return t
    S = pre_tokenizers.Split
    return {
        "split_removed": make(S(" ", "removed"), fuse_unk=True),
        "split_previous": make(S(Regex(r"[aeiou]"), "merged_with_previous")),
        "split_next": make(S(Regex(r"\s|[aeiou]"), "merged_with_next")),
        "split_contiguous": make(S(Regex(r"\w"), "contiguous")),
        "split_inverted": make(S(Regex(r"\b\w+\b|\d{2}"), "removed", invert=True)),
        "split_lookahead": make(S(Regex(r"(?=h)|(?<=e)(?=[rs])"), "isolated")),
        "split_space": make(pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("isolated")])),
        "split_whitespace": make(pre_tokenizers.Whitespace()),
    }


def without_added(t):
    """The same tokenizer with nothing in a text recognised as an added token, except white space that is not special."""
    file = json.loads(t.to_str())
    file["post_processor"] = None
    model = file["model"]
    for token in file["added_tokens"]:
        old, new = token["content"], "\ue100%d\ue101" % token["id"]
        if not token["special"] and not old.strip():
            continue
        token["content"] = new
        if model["type"] == "BPE":
            model["vocab"] = {new if k == old else k: v for k, v in model["vocab"].items()}
            model["unk_token"] = new if model.get("unk_token") == old else model.get("unk_token")
        else:
            model["vocab"] = [[new if k == old else k, v] for k, v in model["vocab"]]
    return Tokenizer.from_str(json.dumps(file))


def cases(t):
    """Ids of every string with and without what the tokenizer adds, with all of it plain text, and the way back."""
    out = {"ids": [], "added": [], "plain": [], "skip": [], "all": []}
    plain = without_added(t)
    begin = [t.encode("a", add_special_tokens=a).ids[0] for a in (False, True)]
    for s in STRINGS:
        ids = t.encode(s, add_special_tokens=False).ids
        added = t.encode(s).ids
        repeats = begin[0] != begin[1] and ids and ids[0] == begin[1]
        out["ids"].append(ids)
        out["added"].append(ids if repeats else added)  # Saccade does not repeat a begin token, as processors do not
        out["plain"].append(plain.encode(s, add_special_tokens=False).ids)
        out["skip"].append(t.decode(ids, skip_special_tokens=True))
        out["all"].append(t.decode(ids, skip_special_tokens=False))
    for key, like in (("added", "ids"), ("plain", "ids"), ("all", "skip")):  # null: as in the other list
        out[key] = [None if a == b else a for a, b in zip(out[key], out[like])]
    return out


def raise_exception(message):
    raise jinja2.TemplateError(message)


def render(template, messages, generation, bos, eos):
    """As transformers does it (utils/chat_template_utils.py)."""
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
    env.globals["raise_exception"] = raise_exception
    template = template.replace("{% generation %}", "").replace("{% endgeneration %}", "")
    return env.from_string(template).render(messages=messages, add_generation_prompt=generation, bos_token=bos, eos_token=eos)


def content_of(message, as_list):
    """Content as the template wants it: a list of parts, or one string with the placeholders in front."""
    parts = message["parts"]
    if as_list:
        return [c for p in parts for c in ([{"type": "text", "text": p["text"]}] if "text" in p else [{"type": "image"}] * p["images"])]
    images = sum(p.get("images", 0) for p in parts)
    return "<image>\n" * images + "".join(p["text"] for p in parts if "text" in p)


def chat_cases():
    out = []
    for format, t in TEMPLATES.items():
        for name, conversation in CONVERSATIONS.items():
            for generation in (True, False):
                messages = [{"role": m["role"], "content": content_of(m, t["parts"])} for m in conversation]
                try:
                    text = render(t["template"], messages, generation, t["bos"], t["eos"])
                except jinja2.TemplateError:
                    text = None
                out.append({"format": format, "conversation": name, "generation": generation, "text": text})
    return {"conversations": CONVERSATIONS, "templates": {k: v["template"] for k, v in TEMPLATES.items()}, "cases": out}


def write(name, data):
    (OUT / name).write_text(json.dumps(data, ensure_ascii=True, separators=(",", ":")) + "\n")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    model = train_byte_level(500)
    charsmap_json = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap()).decode()}
    all_ = {
        "gpt2": byte_level(model, pre_tokenizers.ByteLevel(add_prefix_space=False)),
        "llama3": byte_level(model, split(LLAMA3), ignore_merges=True),
        "qwen2": byte_level(model, split(QWEN2), normalizers.NFC()),
        "digits": byte_level(model, pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)])),
        "odd_added": odd_added(model),
        "sentencepiece": sentencepiece_bpe(False),
        "metaspace": sentencepiece_bpe(True),
        "unigram": unigram({"type": "NFKC"}),
        "unigram_charsmap": unigram(charsmap_json),
        "unigram_bytes": unigram(None, byte_fallback=True),
    }
    all_.update(splits(few_characters()))
    for name, t in all_.items():
        file = json.loads(t.to_str())
        (OUT / (name + ".json")).write_text(json.dumps(file, ensure_ascii=False, separators=(",", ":")) + "\n")
    write("cases.json", {"made_by": "tokenizers " + tokenizers.__version__, "strings": STRINGS, "tokenizers": {n: cases(t) for n, t in all_.items()}})
    write("chat.json", chat_cases())


if __name__ == "__main__":
    sys.exit(main())
