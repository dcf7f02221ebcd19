#!/usr/bin/env python3
"""Draws a question set in Video-MME's schema, with its videos (H.264 in MP4), from a seed.

    draw_videomme.py samples/drawn --seed 5

OUT/set.json is the annotation, with the videos beside it: short, medium and long by their number of frames (one drawn
frame is one video frame). Each video has one question of each kind, so that every question has four options, A to D. The words
of the questions are those of the demo model's training (scenes.py), and `saccade eval --prompt open` asks them as it was trained.
"""
import argparse
import json
import random
from pathlib import Path

import torch

from draw import Painter, write_video
from scenes import COLOR_NAMES, COUNT_WORDS, SHAPES, VIDEO_KINDS, make_video, some_numbers, video_question

# Kind of question -> task type of Video-MME. "Does the number 42 appear?" is left out: it has two answers, not four.
TASKS = {"needle_shape": "Object Recognition", "needle_color": "Attribute Perception", "needle_number": "OCR Problems",
         "count_numbers": "Counting Problem", "first_number": "Temporal Perception", "last_number": "Temporal Perception",
         "first_color": "Attribute Perception", "last_shape": "Object Recognition"}
assert set(TASKS) == set(VIDEO_KINDS) - {"number_appears"}
LENGTHS = {"short": [4, 8, 12, 16], "medium": [24, 32, 48], "long": [64, 96, 128]}
SIZES = [(112, 112), (224, 224)]


def options_of(rng, question, video):
    """Four texts, the right one among them, and its letter."""
    task, right = TASKS[question.kind], question.answer
    if task == "Counting Problem":
        texts = COUNT_WORDS[1:5]
    elif task in ("OCR Problems", "Temporal Perception"):       # the video's other numbers first, then some that share a digit
        others = [str(s.number) for s in video.numbered] + some_numbers(rng, int(right))
        texts = [right] + [n for n in dict.fromkeys(others) if n != right][:3]
    else:
        pool = SHAPES if task == "Object Recognition" else COLOR_NAMES
        texts = [right] + rng.sample([t for t in pool if t != right], 3)
    rng.shuffle(texts)
    return [f"{letter}. {text}" for letter, text in zip("ABCD", texts)], "ABCD"[texts.index(right)]


def questions_of(rng, video, video_id):
    """One question of each kind; another needle where a number came with two equal shapes (see video_question)."""
    asked, rows = set(), []
    for kind in TASKS:
        for _ in range(20):
            question = video_question(rng, video, 0., kind)
            if question.text not in asked:
                break
        if question.text in asked:
            continue
        asked.add(question.text)
        options, answer = options_of(rng, question, video)
        rows.append(dict(question_id=f"{video_id}-{len(rows) + 1}", task_type=TASKS[question.kind], question=question.text,
                         options=options, answer=answer))
    return rows


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("out", type=Path)
    p.add_argument("--seed", type=int, default=5)
    p.add_argument("--videos-per-duration", type=int, default=14)
    p.add_argument("--short", type=lengths, default=LENGTHS["short"], metavar="N,...", help="numbers of frames, in turn")
    p.add_argument("--medium", type=lengths, default=LENGTHS["medium"], metavar="N,...")
    p.add_argument("--long", type=lengths, default=LENGTHS["long"], metavar="N,...")
    args = p.parse_args()
    rng, painter, videos = random.Random(args.seed), Painter(), []
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    for turn in range(args.videos_per_duration):        # durations in turn, so that the first N questions are a fair part
        for duration in LENGTHS:
            of_duration = getattr(args, duration)
            n_frames, size = of_duration[turn % len(of_duration)], SIZES[turn % 2]
            video, video_id = make_video(rng, n_frames), f"{len(videos) + 1:03d}"
            name = f"drawn{video_id}_{n_frames}"
            write_video(args.out / f"{name}.mp4", painter.frames(video.rows, size), size, rng.choice([1, 2, 4]),
                        rng.randint(18, 28))
            videos.append(dict(video_id=video_id, duration=duration, domain=f"Drawn at {size[0]}x{size[1]}",
                               sub_category=f"{n_frames} frames", videoID=name, questions=questions_of(rng, video, video_id)))
    with open(args.out / "set.json", "w") as out:
        out.write("[\n" + ",\n".join(json.dumps(v) for v in videos) + "\n]\n")
    print(f"{sum(len(v['questions']) for v in videos)} questions about {len(videos)} videos, "
          f"{sum(f.stat().st_size for f in args.out.glob('*.mp4')) / 1e6:.2f} MB")


def lengths(text):
    return [int(n) for n in text.split(",")]


if __name__ == "__main__":
    main()
