#!/usr/bin/env python3
"""Converts Video-MME's published table (one Parquet file, a question a row) once to the JSON that `saccade eval` reads.

    pip install pyarrow
    tools/convert_videomme.py videomme/test-00000-of-00001.parquet videomme.json

The table is for academic research and may not be passed on; neither may what this makes of it. Rows are grouped by video_id, in
their order. Nothing is repaired: what `saccade eval` would refuse it refuses with file, line and field (one video is one line)."""
import argparse
import json
import sys

VIDEO = ["video_id", "duration", "domain", "sub_category", "url", "videoID"]
QUESTION = ["question_id", "task_type", "question", "options", "answer"]


def group(rows):
    """One object a video, with its questions; rows of one video must agree about it."""
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


def write(videos, path):
    with open(path, "w", encoding="utf-8") as out:
        out.write("[\n" + ",\n".join(json.dumps(v, ensure_ascii=False) for v in videos) + "\n]\n")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("parquet")
    p.add_argument("json")
    args = p.parse_args()
    try:
        import pyarrow.parquet
    except ImportError:
        sys.exit("pyarrow is needed: pip install pyarrow")
    videos = group(pyarrow.parquet.read_table(args.parquet).to_pylist())
    write(videos, args.json)
    print(f"{sum(len(v['questions']) for v in videos)} questions about {len(videos)} videos")


if __name__ == "__main__":
    main()
