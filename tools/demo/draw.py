#!/usr/bin/env python3
"""Draws fresh pictures (PNG, JPEG) and videos (H.264 in MP4) with questions and right answers, from a seed.

    draw.py OUT --pictures 500 --videos 100 --seed 1

OUT/questions.jsonl has one line for each question: {file, kind, n_frames, question_type, question, answer}.
One drawn frame is one video frame. The scene fills the centre square of a picture, which is what the model sees.
"""
import argparse
import json
import random
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import torch
from PIL import Image

from render import Renderer
from scenes import PICTURE_KINDS, VIDEO_KINDS, make_picture, make_video, picture_question, video_question

PICTURE_SIZES = [(112, 112), (224, 224), (336, 336), (448, 448), (640, 480), (480, 640), (300, 200)]
VIDEO_SIZES = [(112, 112), (224, 224), (320, 240)]
VIDEO_LENGTHS = [4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256]


class Painter:
    """Frames as uint8 [height, width, 3]; one renderer for each side."""

    def __init__(self):
        self.renderers = {}

    def frame(self, row, size, noise=0.):
        side = min(size)
        if side not in self.renderers:
            self.renderers[side] = Renderer(side)
        renderer = self.renderers[side]
        row = row[:2 + 4 * int((row[2::4] >= 0).sum())]     # no time for absent items
        square = renderer(torch.from_numpy(row[None]), noise)[0].round().byte().permute(1, 2, 0).numpy()
        left, top = (size[0] - side) // 2, (size[1] - side) // 2
        return np.pad(square, ((top, size[1] - side - top), (left, size[0] - side - left), (0, 0)), mode="edge")

    def frames(self, rows, size):
        """A frame that repeats the one before it is not drawn again, as in a still shot."""
        frame = None
        for i, row in enumerate(rows):
            if i == 0 or (row != rows[i - 1]).any():
                frame = self.frame(row, size)
            yield frame


def write_video(path, frames, size, fps, crf):
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=Fraction(fps), options={"crf": str(crf), "preset": "medium"})
        stream.width, stream.height, stream.pix_fmt = size[0], size[1], "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())


def write_picture(path, frame, quality):
    image = Image.fromarray(frame)
    if path.suffix == ".jpg":
        image.save(path, quality=quality, subsampling="4:2:0")
    else:
        image.save(path, optimize=True)


def ask(rng, subject, kinds, make, mc_share, n):
    """n different questions, over kinds in turn so that rare ones are not missed; those with options come last"""
    kinds, asked = list(kinds), {}
    rng.shuffle(kinds)
    for i in range(20 * n):
        question = make(rng, subject, mc_share, kinds[i % len(kinds)])
        asked.setdefault(question.text, question)
        if len(asked) == n:
            break
    return sorted(asked.values(), key=lambda q: q.kind.endswith("_mc"))


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("out", type=Path)
    p.add_argument("--pictures", type=int, default=20)
    p.add_argument("--videos", type=int, default=4)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--questions-per-picture", type=int, default=3)
    p.add_argument("--questions-per-video", type=int, default=8)
    p.add_argument("--mc-share", type=float, default=.5, help="share of questions with four options, where the kind has them")
    p.add_argument("--picture-sizes", type=sizes, default=PICTURE_SIZES, metavar="WxH,...")
    p.add_argument("--video-sizes", type=sizes, default=VIDEO_SIZES, metavar="WxH,...")
    p.add_argument("--lengths", type=lambda s: [int(n) for n in s.split(",")], default=VIDEO_LENGTHS, metavar="N,...",
                   help="numbers of frames, in turn")
    args = p.parse_args()
    rng, painter = random.Random(args.seed), Painter()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    with open(args.out / "questions.jsonl", "w") as out:
        def note(path, kind, n_frames, questions):
            for q in questions:
                print(json.dumps(dict(file=path.name, kind=kind, n_frames=n_frames, question_type=q.kind, question=q.text,
                                      answer=q.answer)), file=out)
        for i in range(args.pictures):
            scene = make_picture(rng)
            path = args.out / f"picture{i:04d}.{rng.choice(['png', 'png', 'jpg'])}"
            frame = painter.frame(scene.row(), rng.choice(args.picture_sizes), rng.choice([0., 0., 3.]))
            write_picture(path, frame, rng.randint(70, 95))
            note(path, "picture", 1, ask(rng, scene, PICTURE_KINDS, picture_question, args.mc_share, args.questions_per_picture))
        for i in range(args.videos):
            n_frames = args.lengths[i % len(args.lengths)]
            video = make_video(rng, n_frames)
            path, size = args.out / f"video{i:04d}_{n_frames}.mp4", rng.choice(args.video_sizes)
            write_video(path, painter.frames(video.rows, size), size, rng.choice([1, 2, 4]), rng.randint(18, 28))
            note(path, "video", n_frames, ask(rng, video, VIDEO_KINDS, video_question, args.mc_share, args.questions_per_video))


def sizes(text):
    return [tuple(int(n) for n in s.split("x")) for s in text.split(",")]


if __name__ == "__main__":
    main()
