#!/usr/bin/env python3
"""Answers a questions.jsonl (see draw.py) with transformers and prints exact match by question and number of frames.

    score_transformers.py FOLDER --model models/demo --answers answers.jsonl

Greedy decoding in float32 on the CPU. Pixels go through the checkpoint's own processor; of a video all frames are used,
in order. The frames of a file are encoded once and their cache is shared by its questions. Answers already in the file
named by --answers are not asked again, so an interrupted run goes on where it stopped.
"""
import argparse
import json
import time
from pathlib import Path

import av
import torch
from PIL import Image
from transformers import AutoProcessor, DynamicCache, LlavaForConditionalGeneration

COLUMNS = [1, 4, 16, 64, 128, 256]      # upper ends of the table's columns


def read_frames(path):
    if path.suffix.lower() in (".mp4", ".mkv", ".webm", ".mov"):
        with av.open(str(path)) as container:
            return [Image.fromarray(f.to_ndarray(format="rgb24")) for f in container.decode(video=0)]
    return [Image.open(path)]


class Answerer:
    def __init__(self, folder):
        self.processor = AutoProcessor.from_pretrained(folder)
        self.model = LlavaForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
        self.end = self.model.generation_config.eos_token_id

    @torch.no_grad()
    def answer(self, frames, questions, max_tokens=128):
        """The model's answers to questions about the same frames."""
        head = "<|user|>" + "<image>\n" * len(frames)
        prefix = self.processor(text=head, images=frames, return_tensors="pt")
        cache, length = DynamicCache(config=self.model.config.text_config), prefix["input_ids"].shape[1]
        self.model(**prefix, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return [self._one(question, cache, length, max_tokens) for question in questions]

    def _one(self, question, cache, length, max_tokens):
        tokenizer = self.processor.tokenizer
        tail = question + "<|assistant|>"
        ids = tokenizer("\n" + tail)["input_ids"][1:]       # as they follow the newline after the last frame
        if cache.get_seq_length() > length:
            cache.crop(length - cache.get_seq_length())     # forget the question before
        chosen, step = [], torch.tensor([ids])
        while len(chosen) < max_tokens:
            logits = self.model(input_ids=step, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
            token = int(logits[0, -1].argmax())
            if token == self.end:
                break
            chosen.append(token)
            step = torch.tensor([[token]])
        return tokenizer.decode(chosen)


def print_table(rows):
    counts = {}
    for r in rows:
        column = next(c for c in COLUMNS if r["n_frames"] <= c)
        c = counts.setdefault((r["question_type"], column), [0, 0])
        c[0] += r["right"]
        c[1] += 1
    print("| question | " + " | ".join("picture" if c == 1 else f"to {c} frames" for c in COLUMNS) + " |")
    print("|---" * (len(COLUMNS) + 1) + "|")
    for kind in sorted({k for k, _ in counts}):
        cells = ["{:.3f} ({})".format(counts[kind, c][0] / counts[kind, c][1], counts[kind, c][1]) if (kind, c) in counts else ""
                 for c in COLUMNS]
        print(f"| {kind} | " + " | ".join(cells) + " |")
    for kind in ("picture", "video"):
        of_kind = [r for r in rows if r["kind"] == kind]
        if of_kind:
            right = sum(r["right"] for r in of_kind)
            print(f"{kind}s: {right} of {len(of_kind)} questions right ({right / len(of_kind):.4f}), "
                  f"{len({r['file'] for r in of_kind})} files")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("folder", type=Path, help="folder with questions.jsonl and the files it names")
    p.add_argument("--model", type=Path, default=Path(__file__).resolve().parents[2] / "models/demo")
    p.add_argument("--answers", type=Path, help="where to write answers (default: FOLDER/answers_transformers.jsonl)")
    p.add_argument("--limit", type=int, help="stop after this many files")
    p.add_argument("--threads", type=int, default=1, help="1 is best on a busy machine")
    p.add_argument("--show-wrong", action="store_true", help="print each wrong answer")
    args = p.parse_args()
    torch.set_num_threads(args.threads)
    answers = args.answers or args.folder / "answers_transformers.jsonl"
    asked = [json.loads(line) for line in open(args.folder / "questions.jsonl")]
    done = {}
    if answers.exists():
        done = {(r["file"], r["question"]): r for r in map(json.loads, open(answers))}
    by_file = {}
    for q in asked:
        by_file.setdefault(q["file"], []).append(q)
    files = list(by_file)[:args.limit]
    answerer, start = None, time.time()
    with open(answers, "a") as out:
        for name in files:
            left = [q for q in by_file[name] if (name, q["question"]) not in done]
            if not left:
                continue
            answerer = answerer or Answerer(args.model)
            frames = read_frames(args.folder / name)
            if len(frames) != left[0]["n_frames"]:
                raise SystemExit(f"{name}: has {len(frames)} frames, questions.jsonl says {left[0]['n_frames']}")
            for q, text in zip(left, answerer.answer(frames, [q["question"] for q in left])):
                done[name, q["question"]] = dict(q, response=text, right=text == q["answer"])
                print(json.dumps(done[name, q["question"]]), file=out, flush=True)
    rows = [done[q["file"], q["question"]] for name in files for q in by_file[name]]
    if not args.limit:      # in the order of the questions, however often the run was interrupted
        answers.write_text("".join(json.dumps(r) + "\n" for r in rows))
    if args.show_wrong:
        for r in rows:
            if not r["right"]:
                print(f"{r['file']} {r['question_type']}: {r['question']!r} wants {r['answer']!r}, got {r['response']!r}")
    print_table(rows)
    print(f"{time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
