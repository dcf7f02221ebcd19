#!/usr/bin/env python3
"""Converts a benchmark's published table (Parquet) once to what `saccade eval` reads: JSON for Video-MME, JSONL otherwise.

    pip install pyarrow
    tools/convert_eval.py videomme test-00000-of-00001.parquet videomme.json
    tools/convert_eval.py mmmu validation-*.parquet mmmu.jsonl
    tools/convert_eval.py tempcompass --task yes_no test-00000-of-00001.parquet yes_no.jsonl
    tools/convert_eval.py mme MME_Benchmark/color/*.txt mme.jsonl        (MME's own files need no pyarrow)

Most tables may not be passed on; neither may what this makes of them. Pictures become base64, fields get the names that they
have in the benchmark's own files. Nothing is repaired: what `saccade eval` would refuse it refuses with file, row and field."""

import argparse
import ast
import base64
import json
import os
import re
import sys

VIDEO = ["video_id", "duration", "domain", "sub_category", "url", "videoID"]
QUESTION = ["question_id", "task_type", "question", "options", "answer"]

# Fields that have another name in the tables on Hugging Face: {theirs: official}.
RENAMED = {
    "pope": {"question": "text", "answer": "label"},
    "chartqa": {"image": "imgname", "question": "query", "answer": "label"},
    "mmbench": {"L2-category": "l2-category"},
    "coco": {"answer": "captions"},
    "mlvu": {"video_name": "video", "task_type": "question_type"},
}
SETS = [
    "videomme",
    "mvbench",
    "mlvu",
    "longvideobench",
    "egoschema",
    "nextqa",
    "tempcompass",
    "streamingbench",
    "mmmu",
    "mmbench",
    "textvqa",
    "docvqa",
    "chartqa",
    "pope",
    "scienceqa",
    "coco",
    "vqav2",
    "gqa",
    "mme",
]


def group(rows):
    """Video-MME: one object a video, with its questions; rows of one video must agree about it."""
    videos = {}
    for number, row in enumerate(rows, 1):
        missing = [k for k in VIDEO + QUESTION if row.get(k) is None]
        if missing:
            sys.exit(f"row {number}: {missing[0]} is missing")
        fields = {k: row[k] for k in VIDEO}
        video = videos.setdefault(row["video_id"], dict(fields, questions=[]))
        if any(video[k] != fields[k] for k in VIDEO):
            sys.exit(f"row {number}: video {row['video_id']} differs from an earlier row")
        video["questions"].append({k: row[k] for k in QUESTION})
    return list(videos.values())


def plain(value):
    """Pictures ({"bytes", "path"}, or bytes) as base64."""
    if isinstance(value, dict) and "bytes" in value:
        value = value["bytes"] if value["bytes"] is not None else value.get("path")
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def list_of(text):
    """A list, or a text of one in Python's notation."""
    return ast.literal_eval(text) if isinstance(text, str) else list(text)


def fit(name, row, task):
    """What is more than a name."""
    if name == "mmmu":
        row["options"] = list_of(row["options"])
        if isinstance(row["answer"], str) and row["answer"].startswith("["):
            row["answer"] = [str(a) for a in list_of(row["answer"])]
    if name == "chartqa":
        row["label"] = row["label"][0] if isinstance(row["label"], list) else row["label"]
    if name == "coco":
        row["image_id"] = int(re.findall(r"\d+", str(row.pop("question_id")))[-1])
    if name == "egoschema":
        row["q_uid"] = row.pop("video_idx")
        row.update({f"option {i}": re.sub(r"^[A-E]\. ", "", o) for i, o in enumerate(row.pop("option"))})
        if row.get("answer") not in (None, ""):
            row["truth"] = int(row.pop("answer"))
    if name == "longvideobench" and "candidates" not in row:
        row["candidates"] = [row[f"option{i}"] for i in range(5) if row.get(f"option{i}") not in (None, "N/A")]
    if name in ("tempcompass", "mvbench") and task:
        row["task"] = task
    return row


def convert(name, rows, task=None):
    """The rows as the command reads them."""
    out = []
    for row in rows:
        row = {RENAMED.get(name, {}).get(k, k): plain(v) for k, v in row.items()}
        out.append(fit(name, {k: v for k, v in row.items() if v is not None or name == "scienceqa"}, task))
    return out


def mme_text(path):
    """Rows of one of MME's own files: CATEGORY.txt with a line a question (picture, question, answer between tabs), or the file beside
    a picture, which has no picture's name in it. The folder, or the file's name, is the category."""
    folder, name = os.path.split(path)
    stem = os.path.splitext(name)[0]
    with open(path, encoding="utf-8-sig") as f:
        fields = [line.rstrip("\r\n").split("\t") for line in f if line.strip()]
    for number, row in enumerate(fields, 1):
        if len(row) not in (2, 3):
            sys.exit(f"{path}:{number}: two or three fields between tabs are expected, found {len(row)}")
        alone = len(row) == 2  # beside its picture, in the folder of its category or below it
        parts = [p for p in folder.split(os.sep) if p not in ("questions_answers_YN", "images", "")]
        category = (parts[-1] if parts else "") if alone else stem
        pictures = [stem + e for e in (".jpg", ".png") if os.path.exists(os.path.join(folder, stem + e))]
        picture = (pictures[0] if pictures else stem) if alone else row[0]
        yield dict(question_id=f"{category}/{picture}", category=category, question=row[-2], answer=row[-1])


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("set", choices=SETS)
    p.add_argument("--task", help="of a table that does not name its task (TempCompass, MVBench: the file's or configuration's name)")
    p.add_argument("parquet", nargs="+")
    p.add_argument("out")
    args = p.parse_args()
    if args.out.endswith(".parquet"):
        sys.exit(f"{args.out}: the last word is the file to write, a .json or .jsonl")
    texts = args.set == "mme" and all(path.endswith(".txt") for path in args.parquet)
    try:
        import pyarrow.parquet
    except ImportError:
        if not texts:
            sys.exit("pyarrow is needed: pip install pyarrow")
    n = 0
    with open(args.out + ".part", "w", encoding="utf-8") as out:
        if args.set == "videomme":
            rows = [r for path in args.parquet for r in pyarrow.parquet.read_table(path).to_pylist()]
            out.write("[\n" + ",\n".join(json.dumps(v, ensure_ascii=False) for v in group(rows)) + "\n]\n")
            n = len(rows)
        elif texts:
            for row in (r for path in args.parquet for r in mme_text(path)):
                out.write(json.dumps(row, ensure_ascii=False) + "\n")
                n += 1
        else:
            for path in args.parquet:
                for batch in pyarrow.parquet.ParquetFile(path).iter_batches(256):
                    for row in convert(args.set, batch.to_pylist(), args.task):
                        out.write(json.dumps(row, ensure_ascii=False) + "\n")
                        n += 1
    os.replace(args.out + ".part", args.out)  # whole or not at all
    print(f"{n} questions")


if __name__ == "__main__":
    main()
