#!/usr/bin/env python3
"""Makes synthetic long-context sets to their published definitions, as long as the model's own tokenizer says.

    tools/make_needles.py OUT.jsonl -m MODEL --tasks ruler --lengths 4096,8192 --samples 20 --essays TEXT
    tools/make_needles.py OUT.jsonl -m MODEL --tasks infinitebench --lengths 131072 --samples 50
    saccade eval OUT.jsonl -m MODEL; saccade compare OUT.jsonl -m MODEL --methods methods.yaml

RULER's 13 tasks (Hsieh et al., arXiv:2404.06654), InfiniteBench's PassKey, Number and KV (Zhang et al., arXiv:2402.13718), and
two more: niah_turns, four needles asked one after the other in one conversation, and mm_text, a needle in a text with pictures
between, as MM-NIAH's retrieval (Wang et al., arXiv:2406.07230) has it. A row is
{id, task, length, input, outputs, metric, max_tokens}, and turns: [{input, outputs}] of questions that follow, or media.

Tokens are counted by `saccade inspect --count-tokens` ($SACCADE, else the saccade that is found). A sample's prompt and answer
have at most `length` tokens; the haystack grows by the official steps while they do. Every sample has a random sequence of
its own (seed, task, length, index), so a set does not change when other tasks join it.

Where this differs from the official scripts: samples are sized one by one, where those size the first and shrink the others;
sentences end at . ! ? and white space, where those use NLTK's punkt; words are wonderwords' where that package is, else the
short list below (then word tasks say so in `words`). The haystack of essays is any text: --essays FILE, for comparable
figures Paul Graham's, as RULER downloads them; qa_1 and qa_2 take SQuAD's dev-v2.0.json (--squad) and HotpotQA's
hotpot_dev_distractor_v1.json (--hotpot). InfiniteBench has fixed counts of filler for 128K tokens; here the length decides.
"""
import argparse
import json
import os
import random
import re
import shutil
import string
import subprocess
import sys
import uuid
from pathlib import Path

NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
NEEDLE = "One of the special magic {kind} for {key} is: {value}."
NIAH = ("{some} special magic {kind} {are} hidden within the following text. Make sure to memorize it. I will quiz you about the "
        "{kind} afterwards.\n{context}\n{question}")
ADJECTIVES = """able ample blunt bold brave brief bright broad calm clean clear clever cold cool crisp curly damp dark deep dense
    dim dry dull eager early easy even faint fair fast fierce fine firm flat fresh full gentle glad grand great happy hard heavy
    hollow honest huge idle keen kind large late lean light little lively long loose loud low lucky mellow mild modest narrow
    neat new noble odd old open pale plain polite proud pure quick quiet rapid rare ready rich ripe rough round royal sharp
    short shy silent simple slim slow small smooth soft solid sour spare steep stiff strange strict strong sudden sweet swift
    tall tame tart thick thin tidy tiny tough true vast vivid warm wide wild wise witty young""".split()
NOUNS = """acorn anchor apple arrow badge barn basket beach bell bench berry bird blade boat bottle bowl branch bread brick bridge
    broom brush bucket button cabin cable candle canyon card castle chair cherry circle cliff clock cloud coast coin comb corner
    cotton crane creek crown cup curtain desk door dragon drum eagle engine farm feather fence field finger flame flag flower
    flute fog forest fork fox frame garden gate glove grape guitar hammer harbor hat hill horn horse island jacket jar kettle
    key kite knife ladder lake lamp leaf lemon letter lion map marble market meadow mirror moon mountain mug needle nest oak
    ocean onion orchard owl paddle palace path pearl pencil piano pillow plate pocket pond poplar river robin roof rope rose
    sail saddle school shadow shell ship shoe silver spoon spring stairs star stone street sugar table tail temple tiger tower
    train tree tunnel valley violin wagon wall water whale wheel willow window wing wolf wood""".split()


def word_lists():
    """(adjectives, nouns, all words, where from), sorted."""
    try:
        import wonderwords
    except ImportError:
        words = ADJECTIVES + NOUNS + [a + n for a in ADJECTIVES for n in NOUNS]
        return sorted(ADJECTIVES), sorted(NOUNS), sorted(set(words)), "own"
    lists = wonderwords.RandomWord()._categories
    get = lambda *names: next(sorted(set(lists[n])) for n in names if n in lists)
    adjectives, nouns, verbs = get("adjectives", "adjective"), get("nouns", "noun"), get("verbs", "verb")
    return adjectives, nouns, sorted(set(adjectives + nouns + verbs)), "wonderwords"


ADJECTIVES_USED, NOUNS_USED, WORDS, WORDS_FROM = word_lists()


class Counter:
    """Tokens of texts, by a process that stays."""

    def __init__(self, program, model):
        arguments = [program, "inspect", "--count-tokens", *(["-m", model] if model else [])]
        self.process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, text):
        self.process.stdin.write(json.dumps(text) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit("tokens cannot be counted: see the line above")
        return int(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


# ---------------------------------------------------------------- needles in a haystack

def make(rng, kind):
    if kind == "numbers":
        return str(rng.randint(10 ** 6, 10 ** 7 - 1))
    if kind == "uuids":
        return str(uuid.UUID(int=rng.getrandbits(128), version=4))
    return f"{rng.choice(ADJECTIVES_USED)}-{rng.choice(NOUNS_USED)}"


def distinct(rng, kind, n):
    found = []
    while len(found) < n:
        v = make(rng, kind)
        if v not in found:
            found.append(v)
    return found


def insert_in_text(rng, words, n, needles):
    """Between sentences, at as many of 40 depths as there are needles."""
    sentences = re.split(r"(?<=[.!?])\s+", " ".join(words[i % len(words)] for i in range(n)))
    depths = rng.sample([round(100 * i / 39) for i in range(40)], len(needles))
    at = sorted(int(len(sentences) * d / 100) for d in depths)
    parts = []
    for begin, end, needle in zip([0, *at], [*at, len(sentences)], [*needles, None]):
        parts += [" ".join(sentences[begin:end])] + ([needle] if needle else [])
    return " ".join(p for p in parts if p)


def niah_context(rng, haystack, n, needles, kind_key, kind_value, data):
    if haystack == "essay":
        return insert_in_text(rng, data.essays, n, needles)
    lines = [NOISE] * n if haystack == "noise" else [
        NEEDLE.format(kind=kind_value, key=make(rng, kind_key), value=make(rng, kind_value)) for _ in range(n)]
    for at, needle in zip(sorted(rng.sample(range(n), len(needles)), reverse=True), needles):
        lines.insert(at, needle)
    return "\n".join(lines)


def niah_question(kind, queries, one):
    listed = ", ".join(queries[:-1]) + ", and " + queries[-1] if len(queries) > 1 else queries[0]
    kind = kind[:-1] if one else kind
    question = f"What {'is' if one else 'are all'} the special magic {kind} for {listed} mentioned in the provided text?"
    return question + f" The special magic {kind} for {listed} mentioned in the provided text {'is' if one else 'are'}"


def niah(haystack, kind_key="words", kind_value="numbers", keys=1, values=1, queries=1, turns=False):
    def build(rng, n, data):
        n_keys = max(keys, queries)
        names = distinct(rng, kind_key, n_keys)
        magic = [distinct(rng, kind_value, values) for _ in names]
        needles = [NEEDLE.format(kind=kind_value, key=k, value=v) for k, vs in zip(names, magic) for v in vs]
        rng.shuffle(needles)
        context = niah_context(rng, haystack, n, needles, kind_key, kind_value, data)
        asked = rng.sample(range(n_keys), n_keys if turns else queries)
        groups = [[i] for i in asked] if turns else [asked]
        one = values * (1 if turns else queries) == 1
        rows = [dict(input=niah_question(kind_value, [names[i] for i in g], one), outputs=[v for i in g for v in magic[i]])
                for g in groups]
        text = NIAH.format(some="A" if one else "Some", are="is" if one else "are", context=context,
                           kind=kind_value[:-1] if one else kind_value, question=rows[0]["input"])
        return dict(input=text, outputs=rows[0]["outputs"], **(dict(turns=rows[1:]) if turns else {}))
    return dict(build=build, step=500 if haystack == "essay" else 25, first=keys * values * queries, tokens=128, metric="all",
                needs="essays" if haystack == "essay" else None)


# ---------------------------------------------------------------- variables, words, documents

def vt_text(rng, n_noise, hops, letters):
    names = []
    while len(names) < hops + 1:
        v = "".join(rng.choices(string.ascii_uppercase, k=letters))
        if v not in names:
            names.append(v)
    value = str(rng.randint(10000, 99998))
    chain = [f"VAR {names[0]} = {value}"] + [f"VAR {b} = VAR {a} " for a, b in zip(names, names[1:])]
    lines = [NOISE + "\n"] * n_noise
    if len(lines) <= len(chain):
        lines = [s.strip() + "." for s in NOISE.split(".") if s.strip()] * n_noise
    for k, at in enumerate(sorted(rng.sample(range(len(lines)), len(chain)))):
        lines.insert(at + k, chain[k])
    context = " ".join(lines).replace(". \n", ".\n")
    text = ("Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n" + context +
            f"\nQuestion: Find all variables that are assigned the value {value} in the text above."
            " Answer: According to the chain(s) of variable assignment in the text above,"
            f" {hops + 1} variables are assgined the value {value}, they are: ")  # as the official prompt spells it
    return text, names


def vt(rng, n, data):
    example, names = vt_text(rng, 5, 4, 3)
    text, outputs = vt_text(rng, n, 4, 5)
    return dict(input=f"{example} {' '.join(names)}\n\n\n\n{text}", outputs=outputs)


def cwe_text(rng, n, often, seldom):
    words = rng.sample(WORDS, min(n, len(WORDS)))
    listed = words[:10] * often + words[10:] * seldom
    rng.shuffle(listed)
    context = " ".join(f"{i + 1}. {w}" for i, w in enumerate(listed))
    return ("Below is a numbered list of words. In these words, some appear more often than others. Memorize the ones that "
            f"appear most often.\n{context}\nQuestion: What are the 10 most common words in the above list? Answer: The top 10 "
            "words that appear most often in the list are:"), words[:10]


def cwe(rng, n, data):
    short = data.length < 4096
    example, said = cwe_text(rng, 20 if short else 40, 3 if short else 10, 1 if short else 3)
    text, outputs = cwe_text(rng, n, 6 if short else 30, 1 if short else 3)
    said = " ".join(f"{i + 1}. {w}" for i, w in enumerate(said))  # right behind the colon, as in the official prompt
    return dict(input=f"{example}{said}\n{text}", outputs=outputs)


def zeta2(terms=100000):
    return sum(1 / k ** 2 for k in range(1, terms)) + 1 / terms


def fwe(rng, n, data):
    size = max(data.length // 50, 4)
    words = []
    while len(words) < size:
        w = "".join(rng.choices(string.ascii_lowercase, k=6))
        if w not in words:
            words.append(w)
    words[0] = "..."  # the most frequent is noise
    listed = [w for k, w in enumerate(words, 1) for _ in range(int(n * k ** -2.0 / data.zeta))]
    rng.shuffle(listed)
    return dict(input="Read the following coded text and track the frequency of each coded word. Find the three most frequently "
                f"appeared coded words. {' '.join(listed)}\nQuestion: Do not provide any explanation. Please ignore the dots "
                "'....'. What are the three most frequently appeared words in the above coded text? Answer: According to the "
                "coded text above, the three most frequently appeared words are:", outputs=words[1:4])


def read_squad(path):
    data = json.loads(Path(path).read_text())["data"]
    documents = sorted({p["context"] for d in data for p in d["paragraphs"]})
    at = {d: i for i, d in enumerate(documents)}
    return documents, [dict(query=q["question"], outputs=[a["text"] for a in q["answers"]], needed=[at[p["context"]]],
                            near=[at[o["context"]] for o in d["paragraphs"] if o["context"] != p["context"]])
                       for d in data for p in d["paragraphs"] for q in p["qas"] if not q.get("is_impossible")]


def read_hotpot(path):
    data = json.loads(Path(path).read_text())
    text = lambda title, lines: f"{title}\n{''.join(lines)}"
    documents = sorted({text(*c) for d in data for c in d["context"]})
    at = {d: i for i, d in enumerate(documents)}
    return documents, [dict(query=d["question"], outputs=[d["answer"]], needed=[at[text(*c)] for c in d["context"]], near=[])
                       for d in data]


def qa(which):
    def build(rng, n, data):
        documents, questions = getattr(data, which)
        q = questions[data.index % len(questions)]
        chosen, more = list(q["needed"]), n - len(q["needed"])
        near = [i for i in dict.fromkeys(q["near"]) if i not in chosen]
        if more > len(near):
            others = [i for i in range(len(documents)) if i not in set(chosen + near)]
            chosen += near + rng.sample(others, min(more - len(near), len(others)))
        elif more > 0:
            chosen += rng.sample(near, more)
        rng.shuffle(chosen)
        context = "\n\n".join(f"Document {k + 1}:\n{documents[i]}" for k, i in enumerate(chosen))
        only = "Answer the question based on the given documents. Only give me the answer and do not output any other words."
        return dict(input=f"{only}\n\nThe following are given documents.\n\n{context}\n\n{only}\n\nQuestion: {q['query']} Answer:",
                    outputs=q["outputs"])
    return dict(build=build, step=10, first=1, tokens=32, metric="part", needs=which)


# ---------------------------------------------------------------- pictures in a text

def mm_text(rng, n, data):
    """MM-NIAH's retrieval with a needle in the text: a document of sentences with a picture behind every so many words."""
    place, item = rng.choice(NOUNS_USED), rng.choice(NOUNS_USED)
    value = f"{rng.choice(ADJECTIVES_USED)} {item}"
    text = insert_in_text(rng, data.essays, n, [f"The hidden thing near the {place} is the {value}."]).split(" ")
    parts, media = [], []
    for at in range(0, len(text), data.words_per_picture):
        parts.append(" ".join(text[at:at + data.words_per_picture]))
        if at + data.words_per_picture < len(text):
            media.append(data.pictures[rng.randrange(len(data.pictures))])
            parts.append("<image>")
    question = f"What is the hidden thing near the {place}? Please answer the question using a single word or phrase."
    return dict(input="You are given interleaved text and pictures. Please answer the question based on them.\n\n" +
                "\n".join(parts) + f"\n\nQuestion: {question}", outputs=[value], **(dict(media=media) if media else {}))


# ---------------------------------------------------------------- InfiniteBench

def hidden(what, key_of, prompt):
    def build(rng, n, data):
        key = key_of(rng)
        at = round(data.depth * n)
        lines = [NOISE] * at + [f"The {what} is {key}. Remember it. {key} is the {what}."] + [NOISE] * (n - at)
        return dict(input=f"{prompt}\n\n{chr(10).join(lines)}\n\nWhat is the {what}?\n\nThe {what} is", outputs=[key])
    return build


def ten_digits(rng):
    """Five digits, and five times one of those before again."""
    digits = [str(rng.randint(0, 9)) for _ in range(5)]
    for k in range(5):
        at = rng.randint(0, 4 + k)
        digits.insert(at, digits[at])
    return "".join(digits)


def kv_retrieval(rng, n, data):
    pairs = [(make(rng, "uuids"), make(rng, "uuids")) for _ in range(n)]
    key, value = pairs[min(int(data.depth * n), n - 1)]
    return dict(input="Extract the value corresponding to the specified key in the JSON object below.\n\nJSON data:\n" +
                json.dumps(dict(pairs)) + f'\n\nKey: "{key}"\nThe value associated with the specified key is: ', outputs=[value])


HIDDEN = ("There is an important info hidden inside a lot of irrelevant text. Find it{}. I will quiz you about the important information "
          "there.")
RULER = {
    "niah_single_1": niah("noise"),
    "niah_single_2": niah("essay"),
    "niah_single_3": niah("essay", kind_value="uuids"),
    "niah_multikey_1": niah("essay", keys=4),
    "niah_multikey_2": niah("needle"),
    "niah_multikey_3": niah("needle", kind_key="uuids", kind_value="uuids"),
    "niah_multivalue": niah("essay", values=4),
    "niah_multiquery": niah("essay", queries=4),
    "vt": dict(build=vt, step=10, first=5, tokens=30, metric="all", needs=None),
    "cwe": dict(build=cwe, step=10, first=11, tokens=120, metric="all", needs=None),
    "fwe": dict(build=fwe, step=32, first=64, tokens=50, metric="all", needs=None),
    "qa_1": qa("squad"),
    "qa_2": qa("hotpot"),
}
INFINITEBENCH = {
    "passkey": dict(build=hidden("pass key", lambda r: "".join(str(r.randint(0, 9)) for _ in range(5)),
                                 HIDDEN.format(" and memorize them")), step=5, first=1, tokens=6, metric="number", needs=None),
    "number_string": dict(build=hidden("sequence of digits", ten_digits, HIDDEN.format("")), step=5, first=1, tokens=12,
                          metric="number", needs=None),
    "kv_retrieval": dict(build=kv_retrieval, step=5, first=2, tokens=50, metric="word", needs=None),
}
MORE = {
    "niah_turns": niah("noise", keys=4, turns=True),
    "mm_text": dict(build=mm_text, step=50, first=50, tokens=16, metric="all", needs="pictures"),
}
TASKS = {**RULER, **INFINITEBENCH, **MORE}
GROUPS = {"ruler": list(RULER), "infinitebench": list(INFINITEBENCH), "all": list(TASKS)}


# ---------------------------------------------------------------- samples

class Data:
    """What tasks build from: texts, and which sample it is."""
    essays = squad = hotpot = pictures = None
    picture_tokens = words_per_picture = 0
    zeta = zeta2()
    length = index = 0
    depth = 0.


def tokens_of(task, sample, data, count):
    """Of prompt and answers, and of turns all that is said."""
    texts = [sample["input"], *sample["outputs"]] + [t for turn in sample.get("turns", []) for t in (turn["input"], *turn["outputs"])]
    return (count(" ".join(texts)) + task["tokens"] * (1 + len(sample.get("turns", [])))
            + data.picture_tokens * len(sample.get("media", [])))


def make_sample(name, task, length, index, n_samples, seed, data, count):
    """With the largest haystack that fits, a multiple of the step; None where no sample does."""
    data.length, data.index = length, index
    step = task["step"] if length >= 4096 or task["step"] != 25 else 5  # as the official script steps
    data.depth = index / (n_samples - 1) if n_samples > 1 else 0.5
    build = lambda k: task["build"](random.Random(f"{seed}:{name}:{length}:{index}"), task["first"] + k * step, data)
    fits = lambda k: tokens_of(task, build(k), data, count) <= length
    if not fits(0):
        return None
    low, high = 0, 1
    while fits(high) and high * step < 16 * length:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    sample = build(low)
    uses_words = name in ("cwe", "niah_turns") or (name.startswith("niah") and name != "niah_multikey_3")
    return dict(id=f"{name}-{length}-{index}", task=name, length=length, **sample, metric=task["metric"], max_tokens=task["tokens"],
                **(dict(words=WORDS_FROM) if uses_words else {}))


def chosen_tasks(text):
    names = [n for part in text.split(",") for n in GROUPS.get(part, [part])]
    for n in names:
        if n not in TASKS:
            sys.exit(f"--tasks {n}: ruler, infinitebench, all or one of {', '.join(TASKS)} is expected")
    return list(dict.fromkeys(names))


def read_data(args, names):
    data = Data()
    if args.essays:
        text = Path(args.essays).read_text()
        text = json.loads(text)["text"] if args.essays.endswith(".json") else text
        data.essays = re.sub(r"\s+", " ", text).strip().split(" ")
    data.squad = read_squad(args.squad) if args.squad else None
    data.hotpot = read_hotpot(args.hotpot) if args.hotpot else None
    if args.pictures:
        beside = Path(args.out).resolve().parent
        files = sorted(f for f in Path(args.pictures).resolve().iterdir() if f.suffix in (".png", ".jpg", ".jpeg"))
        if not files or beside not in [*files[0].parents]:
            sys.exit(f"--pictures {args.pictures}: a folder of .png or .jpg below that of the set is expected")
        data.pictures = [str(f.relative_to(beside)) for f in files] if data.essays else None
        data.picture_tokens, data.words_per_picture = args.picture_tokens, args.words_per_picture
    lacking = [n for n in names if TASKS[n]["needs"] and not getattr(data, TASKS[n]["needs"])]
    if lacking and not args.skip:
        sys.exit(f"{', '.join(lacking)}: give --{' and --'.join(dict.fromkeys(TASKS[n]['needs'] for n in lacking))}, or --skip them")
    return data, [n for n in names if n not in lacking]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("out")
    p.add_argument("-m", "--model", help="whose tokenizer counts (the demo model)")
    p.add_argument("--tasks", default="ruler", help="ruler, infinitebench, all, or names with commas")
    p.add_argument("--lengths", default="4096", help="tokens of prompt and answer, with commas")
    p.add_argument("--samples", type=int, default=20, help="of each task and length; RULER takes 500")
    p.add_argument("--seed", type=int, default=42)
    p.add_argument("--essays", help="a text, or RULER's PaulGrahamEssays.json")
    p.add_argument("--squad", help="dev-v2.0.json")
    p.add_argument("--hotpot", help="hotpot_dev_distractor_v1.json")
    p.add_argument("--pictures", help="of mm_text, which wants --essays too: a folder below that of the set")
    p.add_argument("--picture-tokens", type=int, default=64, help="of a picture to this model (saccade inspect tells)")
    p.add_argument("--words-per-picture", type=int, default=200)
    p.add_argument("--skip", action="store_true", help="leave out tasks whose files are not given, or that do not fit")
    args = p.parse_args()
    data, names = read_data(args, chosen_tasks(args.tasks))
    program = os.environ.get("SACCADE") or shutil.which("saccade") or "build/release/saccade"
    count = Counter(program, args.model)
    with open(args.out + ".part", "w") as out:
        for length in map(int, args.lengths.split(",")):
            for name in names:
                for i in range(args.samples):
                    sample = make_sample(name, TASKS[name], length, i, args.samples, args.seed, data, count)
                    if sample:
                        print(json.dumps(sample), file=out)
                    elif not args.skip:
                        sys.exit(f"{name}: {length} tokens are too few for the shortest sample; --skip leaves it out")
    os.replace(args.out + ".part", args.out)  # whole or not at all
    count.close()


if __name__ == "__main__":
    main()
