#!/usr/bin/env python3
"""How long the sentences of the documents are: words a sentence, in the mean and at most, of README and each page of docs/.

    tools/measure_docs.py [--most 20] [--show N] [PAGE ...]

Code, tables, headings and picture lines are left out. What stands between backticks is one word, a link counts as its text. A sentence ends with
. ! or ? before a space, or with its paragraph or list item. --most: exit 1 where a page's mean is not below it. --show: each page's N longest."""
import argparse
import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGES = ["README.md", *sorted(os.path.relpath(page, ROOT) for page in glob.glob(os.path.join(ROOT, "docs/*.md")))]
ABBREVIATIONS = re.compile(r"\b(e\.g|i\.e|etc|vs|al|sec|fig|no|approx)\.(?=\s)", re.I)


def paragraphs(text):
    """The prose of a page: paragraphs and list items, a line each."""
    text = re.sub(r"^( *)```.*?^\1```[^\n]*$", "\n", text, flags=re.M | re.S)
    text = re.sub(r"<!--.*?-->|^<svg.*?</svg>", "", text, flags=re.S)
    lines = []
    for line in text.splitlines():
        if re.match(r"\s*(\||#|!\[|<\w|</|---|===)", line):
            lines.append("")
        elif re.match(r"\s*([*+-]|\d+\.) ", line):
            lines += ["", re.sub(r"^\s*([*+-]|\d+\.) ", "", line)]
        else:
            lines.append(line)
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", "\n".join(lines)) if part.strip()]


def sentences(text):
    """The sentences of a page: lists of words."""
    out = []
    for part in paragraphs(text):
        part = re.sub(r"`[^`]*`", "code", part)
        part = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", part)
        part = ABBREVIATIONS.sub(r"\1", part)
        for sentence in re.split(r"(?<=[.!?])[\"')*]*\s+", part):
            words = [word for word in sentence.split() if re.search(r"\w", word)]
            if words:
                out.append(words)
    return out


def measure(path):
    with open(path, encoding="utf-8") as f:
        found = sentences(f.read())
    return found, sum(map(len, found)) / max(1, len(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pages", nargs="*", help="README and docs/*.md otherwise")
    parser.add_argument("--most", type=float, help="refuse a mean that is not below this")
    parser.add_argument("--show", type=int, default=0, help="print the longest sentences")
    options = parser.parse_args()
    too_long = False
    print(f"{'page':28} sentences  mean  longest  above 40")
    for page in options.pages or PAGES:
        found, mean = measure(page if options.pages else os.path.join(ROOT, page))
        longest = sorted(found, key=len, reverse=True)
        over = options.most is not None and mean >= options.most
        too_long |= over
        print(f"{page:28} {len(found):9} {mean:5.1f} {len(longest[0]) if longest else 0:8} {sum(len(s) > 40 for s in found):9}{'  too long' if over else ''}")
        for words in longest[:options.show]:
            print(f"    {len(words)}: {' '.join(words)}")
    return 1 if too_long else 0


if __name__ == "__main__":
    sys.exit(main())
