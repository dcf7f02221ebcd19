#!/usr/bin/env python3
"""Draws pictures and videos to be captioned, with the truth, from a seed.

    draw_captions.py /tmp/drawn --pictures 2000 --videos 100 --seed 11
    saccade caption /tmp/drawn/items.jsonl --out /tmp/captions
    score_captions.py /tmp/drawn/truth.jsonl /tmp/captions/captions.jsonl

OUT/items.jsonl is a manifest for `saccade caption`: pictures, asked as the demo model was trained to describe them, and videos,
each with one question. OUT/truth.jsonl has the right text for each id. Folders of 1,000 files each.
"""
import argparse
import json
import random
from pathlib import Path

import torch

from draw import PICTURE_SIZES, Painter, write_picture, write_video
from scenes import make_picture, make_video, video_question

SIZES = [(112, 112), (224, 224)]
LENGTHS = [4, 6, 8, 12, 16, 24, 32]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("out", type=Path)
    p.add_argument("--pictures", type=int, default=2000)
    p.add_argument("--videos", type=int, default=100)
    p.add_argument("--seed", type=int, default=11)
    args = p.parse_args()
    rng, painter = random.Random(args.seed), Painter()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    with open(args.out / "items.jsonl", "w") as items, open(args.out / "truth.jsonl", "w") as truth:
        def note(path, media, prompt, text):
            name = str(path.relative_to(args.out))
            print(json.dumps({"id": name, media: name, "prompt": prompt}), file=items)
            print(json.dumps({"id": name, "media": media, "text": text}), file=truth)
        for i in range(args.pictures):
            scene = make_picture(rng)
            path = args.out / f"pictures{i // 1000:02d}" / f"{i:06d}.{rng.choice(['png', 'jpg'])}"
            path.parent.mkdir(exist_ok=True)
            write_picture(path, painter.frame(scene.row(), rng.choice(PICTURE_SIZES), rng.choice([0., 0., 3.])), rng.randint(70, 95))
            note(path, "image", "Describe the image.", scene.describe())
        for i in range(args.videos):
            n_frames = LENGTHS[i % len(LENGTHS)]
            video = make_video(rng, n_frames)
            path = args.out / f"videos{i // 1000:02d}" / f"{i:06d}.mp4"
            path.parent.mkdir(exist_ok=True)
            size = rng.choice(SIZES)
            write_video(path, painter.frames(video.rows, size), size, rng.choice([1, 2, 4]), rng.randint(18, 28))
            question = video_question(rng, video, 0.)
            note(path, "video", question.text, question.answer)
    print(f"{args.pictures} pictures, {args.videos} videos in {args.out}")


if __name__ == "__main__":
    main()
