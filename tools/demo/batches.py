"""Batches for training and scoring: scenes as rows for the renderer, questions packed behind a shared prefix of frames."""
import random
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from network import TOKENS_PER_FRAME
from scenes import ASSISTANT, END, ROW_LENGTH, USER, Encoder, letter_drill, make_picture, make_video, picture_question, video_question


@dataclass(frozen=True)
class Layout:
    """How a batch of videos of up to n_frames is cut: videos in it, and room for question tokens of each."""
    n_frames: int
    n_videos: int
    n_ask: int          # 1 + 65 * n_frames + n_ask is a multiple of 8, which the masked attention kernel wants


def _layout(n_frames, n_videos, n_ask):
    return Layout(n_frames, n_videos, n_ask + -(1 + (TOKENS_PER_FRAME + 1) * n_frames + n_ask) % 8)


LAYOUTS = {s.n_frames: s for s in (_layout(1, 96, 208), _layout(2, 64, 200), _layout(4, 48, 256), _layout(8, 32, 320), _layout(16, 16, 480),
                                  _layout(32, 8, 600), _layout(64, 4, 720), _layout(128, 2, 960), _layout(256, 1, 1400))}

# (until this share of the time, {frames: how often}): many small samples first, since the two-step look-ups (number ->
# frame -> shape, answer -> letter) are found there and only then stretched to long videos
PHASES = [(.26, {1: 3, 2: 2, 4: 3}),
          (.45, {1: 3, 2: 1, 4: 3, 8: 2, 16: 2}),
          (.65, {1: 3, 4: 3, 8: 1, 16: 2, 32: 1, 64: 1}),
          (9.0, {1: 3, 4: 2, 8: 1, 16: 2, 32: 1, 64: 1.5, 128: 1, 256: 1})]


@dataclass(frozen=True)
class Mix:
    mc_share: float = .45       # questions asked with four options
    drill_share: float = .08    # options without a picture question
    turn_share: float = .15     # questions asked as a further turn of the one before
    short_share: float = .3     # videos shorter than their batch's frames
    batch_scale: float = 1.     # factor on the videos of a batch


def make_sample(rng, encode, shape, mix):
    """One video (or picture) and as many questions as fit. Returns (rows, n_frames, ids, positions, segments, labels),
    labels being [(place, next token there, weight, question index)] of the answers, and the questions."""
    n = shape.n_frames
    if n > 4 and rng.random() < mix.short_share:
        n = rng.randint(n // 2 + 1, n)
    subject = make_picture(rng) if n == 1 else make_video(rng, n)
    rows = subject.row()[None] if n == 1 else subject.rows
    start = 1 + (TOKENS_PER_FRAME + 1) * n
    ids, positions, segments, labels, questions = [], [], [], [], []
    segment, turns, position = 0, 0, start
    while True:
        if rng.random() < mix.drill_share:
            question = letter_drill(rng)
        else:
            question = (picture_question if n == 1 else video_question)(rng, subject, mix.mc_share)
        again = 0 < turns < 4 and rng.random() < mix.turn_share
        ask = ([USER] if again else []) + encode(question.text) + [ASSISTANT]
        answer = encode(question.answer) + [END]
        if len(ids) + len(ask) + len(answer) > shape.n_ask:
            return (rows, n, ids, positions, segments, labels), questions
        if not again:
            segment, turns, position = segment + 1, 0, start
        turns += 1
        first = len(ids) + len(ask) - 1         # this place predicts the answer's first token
        labels += [(first + i, token, 1 / len(answer), len(questions)) for i, token in enumerate(answer)]
        ids += ask + answer
        positions += range(position, position + len(ask) + len(answer))
        segments += [segment] * (len(ask) + len(answer))
        position += len(ask) + len(answer)
        questions.append(question)


def make_batch(rng, encode, n_frames, mix):
    """Tensors of one batch; the index of the question that each token's prediction belongs to, or -1 [b, n_ask]; the questions."""
    shape = LAYOUTS[n_frames]
    b = max(1, round(shape.n_videos * mix.batch_scale))
    rows = np.zeros((b, n_frames, ROW_LENGTH), np.int16)
    ids, positions, segments, target = (np.zeros((b, shape.n_ask), np.int64) for _ in range(4))
    weight, owner = np.zeros((b, shape.n_ask), np.float32), np.full((b, shape.n_ask), -1)
    prefix, questions = np.zeros(b, np.int64), []
    for i in range(b):
        (r, n, sample_ids, sample_positions, sample_segments, labels), asked = make_sample(rng, encode, shape, mix)
        rows[i, :n], rows[i, n:] = r, r[-1]
        prefix[i] = 1 + (TOKENS_PER_FRAME + 1) * n
        used = len(sample_ids)
        ids[i, :used], positions[i, :used], segments[i, :used] = sample_ids, sample_positions, sample_segments
        for place, token, w, question in labels:
            target[i, place], weight[i, place], owner[i, place] = token, w, len(questions) + question
        questions += asked
    arrays = dict(rows=rows.reshape(b * n_frames, ROW_LENGTH), ids=ids, positions=positions, segments=segments, prefix_lengths=prefix,
                  target=target, weight=weight)
    return {name: torch.from_numpy(a) for name, a in arrays.items()}, owner, questions


class Stream(IterableDataset):
    """Endless batches. Every process draws the number of frames of step s from the same dice, so that processes that
    train together do equal work at each step."""

    def __init__(self, tokenizer_json, mix, progress, seed, rank, phases):
        self.tokenizer_json, self.mix, self.progress, self.seed, self.rank, self.phases = tokenizer_json, mix, progress, seed, rank, phases

    def __iter__(self):
        from tokenizers import Tokenizer
        torch.set_num_threads(1)
        encode = Encoder(Tokenizer.from_str(self.tokenizer_json))
        info = get_worker_info()
        worker, n_workers = (info.id, info.num_workers) if info else (0, 1)
        rng = random.Random(f"{self.seed}-{self.rank}-{worker}-{time.time()}")
        step = worker
        while True:
            weights = next(w for until, w in self.phases if self.progress.value < until)
            n_frames = random.Random(f"{self.seed}-{step}").choices(list(weights), list(weights.values()))[0]
            tensors, _, _ = make_batch(rng, encode, n_frames, self.mix)
            yield n_frames, tensors
            step += n_workers


def stream_batches(tokenizer, mix, progress, seed, rank, n_workers, pin, phases=PHASES):
    data = Stream(tokenizer.to_str(), mix, progress, seed, rank, phases)
    return iter(DataLoader(data, batch_size=None, num_workers=n_workers, prefetch_factor=4 if n_workers else None, pin_memory=pin))
