"""Scoring rules whose official scripts are in no package, written from their definition, in double precision: POPE's
evaluate.py, MVBench's and MLVU's check_ans, StreamingBench's first letter, MMBench's circles. Used by test_eval_sets.py."""


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
