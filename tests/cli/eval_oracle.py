"""Scoring rules written from their definition, in double precision, for the whole way through the command: POPE's
evaluate.py, MVBench's and MLVU's check_ans, StreamingBench's first letter, MMBench's circles; GSM8K as lm-eval's filters, GQA and
MME as lmms-eval's tasks, LongBench's metrics.py with rouge 1.0.1 and fuzzywuzzy, InfiniteBench's compute_scores.py with rouge_score.
Used by test_eval_sets.py and test_eval_rules.py."""

import collections
import difflib
import re
import string


def pope_answer(text):
    """The first sentence without commas; a word No, no or not makes it no."""
    words = text.split(".")[0].replace(",", "").split(" ")
    return "no" if {"No", "no", "not"} & set(words) else "yes"


def pope(pairs):
    """(label, response) pairs to accuracy, precision, recall, F1, yes ratio."""
    said = [(label == "yes", pope_answer(text) == "yes") for label, text in pairs]
    tp, fp = sum(a and b for a, b in said), sum(b and not a for a, b in said)
    tn, fn = sum(not a and not b for a, b in said), sum(a and not b for a, b in said)
    precision, recall = tp / (tp + fp) if tp + fp else 0, tp / (tp + fn) if tp + fn else 0
    return {
        "score": (tp + tn) / len(said),
        "precision": precision,
        "recall": recall,
        "F1": 2 * precision * recall / (precision + recall) if precision + recall else 0,
        "yes ratio": (tp + fp) / len(said),
    }


def mvbench(letter, response):
    """The response goes on from "(": its first line's first word against "(b)", either way, with one of the letters a to g."""
    line = response.strip().split("\n")[0]
    word = (line if line.startswith("(") else "(" + line).lower().split(" ")[0]
    right = f"({letter.lower()})"
    return any(c in word for c in "abcdefg") and (word.replace(".", "") in right or right in word)


def mlvu(letter, response):
    """The character before the first closing bracket, or the whole response."""
    if ")" in response:
        at = response.index(")")
        response = response[at - 1 : at]
    return response == letter


def first_letter(letter, response):
    return response.lstrip(" \t\r\n")[:1] == letter


def circular(rows):
    """{index: right} to the mean over circles: all whose index is the same but for millions."""
    circles = {}
    for index, right in rows.items():
        circles[index % 1000000] = circles.get(index % 1000000, True) and right
    return sum(circles.values()) / len(circles)


# ---------------------------------------------------------------- GSM8K


def gsm8k(target, response, cot=False):
    """(strict, flexible) of lm-eval 0.4's two filters and its exact_match."""

    def same(said):
        a, b = (re.sub(r"\.$", "", re.sub(r"(?s).*#### ", "", t.replace(",", "").replace("$", ""))).lower() for t in (said, target))
        return a == b

    strict = re.search(r"The answer is (-?[0-9.,]+)." if cot else r"#### (-?[0-9.,]+)", response)
    flexible = re.findall(r"(-?[$0-9.,]{2,})|(-?[0-9]+)", response)
    return (
        bool(strict) and same(strict.group(1).strip()),
        bool(flexible) and same((flexible[-1][0] or flexible[-1][1]).strip()),
    )


# ---------------------------------------------------------------- pictures


def gqa(answer, response):
    def plain(t):
        return t.strip().lower().translate(str.maketrans("", "", string.punctuation))

    return plain(response) == plain(answer)


def mme_answer(response):
    t = response.lower().strip().replace(".", "")
    if len(t) == 1:
        return {"y": "yes", "n": "no"}.get(t, "other")
    return "yes" if "yes" in t[:4] else "no" if "no" in t[:4] else "other"


def mme(rows):
    """[(category, picture, label, response)] to points of each category: 100 (accuracy + accuracy+)."""
    right = collections.defaultdict(lambda: collections.defaultdict(list))
    for category, picture, label, response in rows:
        right[category][picture].append(mme_answer(response) == label.lower())
    points = {}
    for category, pictures in right.items():
        answers = [r for p in pictures.values() for r in p]
        points[category] = 100 * sum(answers) / len(answers) + 100 * sum(all(p) for p in pictures.values()) / len(pictures)
    return points


# ---------------------------------------------------------------- words in common

CHINESE = "！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～｟｠｢｣､、〃》「」『』【】〔〕〖〗〘〙〚〛〜〝〞〟〰〾〿–—‘’‛“”„‟…‧﹏."


def f1(said, right):
    same = sum((collections.Counter(said) & collections.Counter(right)).values())
    return 2 * same / (len(said) + len(right)) if same else 0.0


def qa_f1(said, right):
    def words(t):
        t = "".join(c for c in t.lower() if c not in string.punctuation)
        return re.sub(r"\b(a|an|the)\b", " ", t).split()

    return f1(words(said), words(right))


def letters_f1(said, right):
    def letters(t):
        return list("".join("".join(c for c in t.lower() if c not in string.punctuation + CHINESE).split()))

    return f1(letters(said), letters(right))


def common(x, y, y_first):
    """Indices in x of the longest common subsequence; where two ways are as long, the one that gives up x's end or y's."""
    t = [[0] * (len(y) + 1) for _ in range(len(x) + 1)]
    for i, a in enumerate(x):
        for j, b in enumerate(y):
            t[i + 1][j + 1] = t[i][j] + 1 if a == b else max(t[i][j + 1], t[i + 1][j])
    out, i, j = [], len(x), len(y)
    while i and j:
        if x[i - 1] == y[j - 1]:
            i, j = i - 1, j - 1
            out.append(i)
        elif t[i - 1][j] > t[i][j - 1] or (not y_first and t[i - 1][j] == t[i][j - 1]):
            i -= 1
        else:
            j -= 1
    return out


def rouge_l(said, right):
    """rouge 1.0.1's summary level, which counts different words."""
    said, right = ([" ".join(p.split()).split(" ") for p in t.split(".") if p] for t in (said, right))
    if not said or not right:
        return 0.0
    both = {r[i] for r in right for s in said for i in common(r, s, True)}
    p, r = len(both) / len({w for s in said for w in s}), len(both) / len({w for s in right for w in s})
    return 2 * p * r / (p + r + 1e-8)


def rouge_l_letters(said, right):
    return rouge_l(*(".".join(" ".join(c for c in p if not c.isspace()) for p in t.split(".")) for t in (said, right)))


def rouge_lsum(said, right):
    said, right = ([re.findall("[a-z0-9]+", p.lower()) for p in t.split("\n") if p] for t in (said, right))
    n, m = sum(map(len, said)), sum(map(len, right))
    left_said, left_right = (collections.Counter(w for s in t for w in s) for t in (said, right))
    hits = 0
    for r in right:
        for i in sorted({i for s in said for i in common(r, s, False)}):
            if left_said[r[i]] > 0 and left_right[r[i]] > 0:
                hits += 1
                left_said[r[i]] -= 1
                left_right[r[i]] -= 1
    return 2 * hits / (n + m) if hits else 0.0


def ratio(said, right):
    """fuzzywuzzy's, without python-Levenshtein."""
    if said == right:
        return 1.0
    return round(100 * difflib.SequenceMatcher(None, said, right).ratio()) / 100 if said and right else 0.0


# ---------------------------------------------------------------- LongBench


def classes(said, right, names):
    found = [n for n in names if n in said]
    i = 0
    while i < len(found):  # its list gets shorter while it is walked along
        if found[i] in right and found[i] != right:
            found.remove(found[i])
        i += 1
    return 1 / len(found) if right in found else 0.0


def share_of_numbers(said, right):
    numbers = re.findall(r"\d+", said)
    return numbers.count(right) / len(numbers) if numbers else 0.0


def code_line(said, right):
    lines = [x for x in said.lstrip("\n").split("\n") if not re.search("`|#|//", x)]
    return ratio(lines[0] if lines else "", right)


def longbench(dataset, answers, response, names=None):
    if dataset in ("trec", "triviaqa", "samsum", "lsht"):
        response = response.lstrip("\n").split("\n")[0]
    rule = {
        "f1": qa_f1,
        "f1_zh": letters_f1,
        "rouge": rouge_l,
        "rouge_zh": rouge_l_letters,
        "class": lambda s, r: classes(s, r, names),
        "count": share_of_numbers,
        "paragraph": lambda s, r: share_of_numbers(s, re.findall(r"Paragraph (\d+)", r)[0]),
        "paragraph_zh": lambda s, r: share_of_numbers(s, re.findall(r"段落(\d+)", r)[0]),
        "code": code_line,
    }[LONGBENCH[dataset]]
    return max(rule(response, a) for a in answers)


LONGBENCH = {
    **dict.fromkeys("narrativeqa qasper multifieldqa_en hotpotqa 2wikimqa musique triviaqa".split(), "f1"),
    **dict.fromkeys("gov_report qmsum multi_news samsum".split(), "rouge"),
    **dict.fromkeys("dureader vcsum".split(), "rouge_zh"),
    **dict.fromkeys("trec lsht".split(), "class"),
    **dict.fromkeys("lcc repobench-p".split(), "code"),
    "multifieldqa_zh": "f1_zh",
    "passage_count": "count",
    "passage_retrieval_en": "paragraph",
    "passage_retrieval_zh": "paragraph_zh",
}

# ---------------------------------------------------------------- InfiniteBench


def blanked(text, marks):
    return "".join(" " if c in marks else c for c in text)


def behind(said, words, label):
    """Whether what follows the first of the words that is there, less one character, begins with a label; None: none is there."""
    for word in words:
        at = said.find(word)
        if at >= 0:
            return len(said) > at + len(word) and said[at + len(word) + 1 :].startswith(tuple(label))
    return None


def infinite_choice(said, label):
    said = said.strip()
    lone = re.search(r"\b[A-D]\b(?!.*\b[A-D]\b)", said)
    if lone and lone.group(0) in label:
        return True
    if not said or said[0] in "ABCD":
        return bool(said) and said[0] in label
    if said in label:
        return True
    said = re.sub(" +", " ", blanked(said, "\n\"'.,?!{}"))
    found = behind(said, ("answer is:", "answer:", "answer is", "option is"), label)
    if found is not None:
        return found
    words = [w for w in said.split() if w in "ABCD"]
    return bool(words) and words[0] in label


def infinite_debug(said, label):
    said = said.strip()
    lone = re.search(r"\b[A-J]\b(?!.*\b[A-J]\b)", said)
    if lone and lone.group(0) == label[1]:
        return True
    said = re.sub(" +", " ", re.sub("[Oo]ption", " ", blanked(said, "\n`'\"-*")))
    if said.startswith(tuple(label)):
        return True
    return bool(behind(said, ("answer is:", "is:", "answer:", "correct option is:"), label))


def infinite_run(said, label):
    words = blanked(said.strip(), "\n.`'\":").split()
    try:
        return int(words[-1]) == label[0]
    except (IndexError, ValueError):
        return False


def infinite_find(said, label):
    number = re.search(r"[0-9]+\.[0-9]+|[0-9]+", said)
    try:
        return bool(number) and (int if isinstance(label[0], int) else float)(number.group(0)) == label[0]
    except ValueError:  # the script ends there
        return False


def infinite_calc(said, label):
    n = 0
    for a, b in zip(label, map(int, re.findall("[0-9]+", said))):
        if a != b:
            break
        n += 1
    return n / len(label)


def infinitebench(task, label, said):
    number = (re.findall("[0-9]+", said) or [""])[0]
    return float(
        {
            "passkey": lambda: number == label[0],
            "number_string": lambda: number == label[0],
            "kv_retrieval": lambda: label[0] in blanked(said, "\n:\"'.,?!{}").split(),
            "code_run": lambda: infinite_run(said, label),
            "code_debug": lambda: infinite_debug(said, label),
            "longbook_choice_eng": lambda: infinite_choice(said, label),
            "math_find": lambda: infinite_find(said, label),
            "math_calc": lambda: infinite_calc(said, label),
            "longdialogue_qa_eng": lambda: any(x.upper() in said.strip().upper() for x in label),
            "longbook_qa_eng": lambda: max(qa_f1(said, x) for x in label),
            "longbook_qa_chn": lambda: max(letters_f1(said, x) for x in label),
            "longbook_sum_eng": lambda: max(rouge_lsum(said, x) for x in label),
        }[task]()
    )
