#!/usr/bin/env python3
"""Grows the demo model into a deeper one whose attention is as concentrated as that of published vision-language models.

    torchrun --nproc-per-node 4 train_sharp.py OUT --minutes 7.5        on four accelerators of one machine
    train_sharp.py OUT --tiny --minutes 2                               a trial of every step on a processor

The model starts from models/demo (grow.py) and is trained on drawn pictures and videos: short ones first, then up to 256 frames
(16,640 tokens). To the loss of the answers comes the mean entropy of attention over layers, of one query's weights and of the sums
over queries (concentration.py). Its factor rises while the answers' loss stays below --keep-below and falls otherwise, so that
attention becomes as concentrated as the answers allow, down to --floors. OUT receives a Hugging Face checkpoint in float16 (again with each report)
with the demo's tokenizer and templates, concentration.md, accuracy.json, train.log and the file `saved`, written last.
"""
import random
import shutil
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from transformers import LlavaForConditionalGeneration

from batches import LAYOUTS, Mix, make_batch
from concentration import WatchedNetwork, format_shares, measure_shares
from grow import grow
from measure import format_table, gap_to_library, measure, to_device
from training import REPO, Run, Trainer, make_parser, rate, save

DEMO_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "preprocessor_config.json", "processor_config.json",
              "generation_config.json")

# (until this share of the time, {frames: how often}): the parts that were added settle on short videos
PHASES = [(.15, {1: 3, 2: 1, 4: 3, 8: 2, 16: 2}),
          (.4, {1: 2, 4: 2, 8: 2, 16: 3, 32: 2, 64: 2}),
          (9.0, {1: 2, 4: 1, 8: 1, 16: 2, 32: 2, 64: 3, 128: 2, 256: 1.5})]
TINY_PHASES = [(9.0, {1: 1, 2: 1})]


def parse_arguments():
    p = make_parser(__doc__, minutes=7.5, layers=12, intermediate=640, adamw_lr=8e-4, batch_scale=.5, seed=1, final_batches=.3)
    p.add_argument("--init", type=Path, default=REPO / "models/demo", help="checkpoint to grow from")
    p.add_argument("--start-factor", type=float, default=.01, help="of the entropies in the loss, at first")
    p.add_argument("--most-factor", type=float, default=.2, help="where it stops to rise")
    p.add_argument("--least-factor", type=float, default=.01, help="where it stops to fall")
    p.add_argument("--floors", type=float, nargs=2, default=(.2, .5), metavar=("ROWS", "COLUMNS"),
                   help="entropies (1: even) below which a layer's are not pressed further")
    p.add_argument("--keep-below", type=float, default=.06, help="loss of the answers up to which the factor rises (less towards the end)")
    p.add_argument("--log-seconds", type=float, default=10.)
    p.add_argument("--tiny", action="store_true", help="few and short videos, on a processor")
    p.add_argument("--plain", action="store_true", help="neither compile nor record CUDA graphs: slow, should these fail")
    p.add_argument("--every", type=int, default=20, help="steps between looks at the clock and the loss")
    args = p.parse_args()
    if args.tiny:
        args.batch_scale, args.workers, args.plain, args.final_batches, args.warmup_steps, args.every = .02, 1, True, .05, 20, 2
    return args


class SharpTrainer(Trainer):
    """A step's result is the vector [answers' loss, share of answers' tokens that are right, entropies by layer: rows, then columns]"""

    def __init__(self, network, paint, optimiser, process, factor, floors, plain):
        super().__init__(network, paint, optimiser, process)
        self.floors = torch.tensor(floors, device=process.device)
        self.plain = plain
        self.factor = torch.tensor(factor, device=process.device)       # a tensor, so that a CUDA graph reads its value of the day

    def gradient(self, batch):
        self.optimiser.zero()
        with torch.no_grad():
            pixels = self.paint(batch["rows"])
        self.network.watch = "term"
        dtype = torch.bfloat16 if self.process.device.type == "cuda" else torch.float32
        logits = self.network.logits(pixels, batch, dtype)
        self.network.watch = None
        weight = batch["weight"].flatten()
        loss = F.cross_entropy(logits.flatten(0, 1), batch["target"].flatten(), reduction="none")
        loss = (loss * weight).sum() / weight.sum()
        entropies = torch.stack(self.network.entropies)
        n_prefix = batch["rows"].shape[0] / batch["ids"].shape[0] * 65
        long = min(1., n_prefix / 1000)         # a short prompt has little to leave out
        (loss + self.factor * long * (entropies - self.floors).relu().sum(1).mean()).backward()
        self.network.entropies = []             # nothing of a recorded step is held on to
        asked = weight > 0
        right = ((logits.argmax(-1) == batch["target"]).flatten() & asked).sum() / asked.sum()
        return torch.cat([torch.stack([loss.detach(), right]), entropies.detach().T.flatten()])

    def step(self, n_frames, tensors, scale):
        if not self.plain:
            return super().step(n_frames, tensors, scale)
        said = self.gradient(to_device(tensors, self.process.device))
        self.optimiser.average_gradient(self.process.count)
        self.optimiser.scale.fill_(scale)
        self.update()
        return said


class Progress:
    """What the steps said since the last line of the log, and the factor that follows from it"""

    def __init__(self, args, process, trainer):
        self.args, self.process, self.trainer = args, process, trainer
        self.factor, self.loss, self.n_steps, self.n_tokens = args.start_factor, None, 0, 0
        self.since, self.last, self.sums = time.time(), {}, None

    def add(self, n_frames, tensors, said):
        self.last[n_frames] = said
        self.sums = said.clone() if self.sums is None else self.sums + said
        self.n_steps += 1
        b, n_ask = tensors["ids"].shape
        self.n_tokens += b * (1 + 65 * n_frames + n_ask) * self.process.count

    def steer(self, rate):
        """Called every args.every steps by all processes alike: moves the factor by the mean loss of the lengths that came lately.
        As the rate falls so does the loss that is allowed, to 0.3 of it: the answers settle last."""
        allowed = self.args.keep_below * (.3 + .7 * rate)
        loss = self.process.mean(sum(v[0].item() for v in self.last.values()) / len(self.last))
        self.loss = loss if self.loss is None else .8 * self.loss + .2 * loss
        self.factor *= 1.03 if self.loss < allowed else .95 if self.loss < 4 * allowed else .8
        self.factor = min(self.args.most_factor, max(self.args.least_factor, self.factor))
        self.trainer.factor.fill_(self.factor)

    def line(self):
        mean, seconds = (self.sums / self.n_steps).tolist(), time.time() - self.since
        rows, columns = mean[2:2 + (len(mean) - 2) // 2], mean[2 + (len(mean) - 2) // 2:]
        text = (f"{self.n_steps / seconds:.1f} steps/s, {self.n_tokens / seconds / 1e6:.2f} M tokens/s, loss {mean[0]:.4f} right {mean[1]:.4f} ("
                + " ".join(f"{f}:{v[0].item():.3f}" for f, v in sorted(self.last.items())) + f") factor {self.factor:.4f}, entropy of rows "
                + " ".join(f"{v:.2f}" for v in rows) + ", of columns " + " ".join(f"{v:.2f}" for v in columns))
        self.n_steps, self.n_tokens, self.sums, self.since = 0, 0, None, time.time()
        return text


class Held:
    """Videos apart from training on which concentration is looked at, in the first process"""

    def __init__(self, network, paint, encode, process, lengths):
        self.network, self.paint, self.batches = network, paint, {}
        for n_frames in lengths if process.rank == 0 else ():
            tensors, _, _ = make_batch(random.Random(f"held-{n_frames}"), encode, n_frames, Mix(batch_scale=2 / LAYOUTS[n_frames].n_videos))
            self.batches[n_frames] = to_device(tensors, process.device)
        self.dtype = torch.bfloat16 if process.device.type == "cuda" else torch.float32

    @torch.no_grad()
    def shares(self, n_frames):
        batch = self.batches[n_frames]
        return measure_shares(self.network, self.paint(batch["rows"]), batch, self.dtype)


def train(run, trainer, held, report):
    """Steps until the clock says stop; returns how many. Every args.every steps all processes agree on the time that has passed."""
    args, process, progress = run.args, run.process, run.progress
    start = last_report = last_line = time.time()
    watch, step = Progress(args, process, trainer), 0
    while True:
        if step % args.every == 0:
            if step:
                watch.steer(rate(args, step, progress.value))
            progress.value = process.mean(time.time() - start) / (args.minutes * 60)
            if progress.value >= 1:
                return step
            if step and process.mean(time.time() - last_line) > args.log_seconds:
                run.log(f"{time.time() - start:.0f}s step {step} " + watch.line())
                for n_frames in list(held.batches)[:1]:
                    run.log("  share of the strongest fifth by layer, rows/columns (kept by ZipVL): "
                            + " ".join(f"{(s[0] + s[1]) / 2:.2f}/{s[2]:.2f}({s[3]:.2f})" for s in held.shares(n_frames)))
                last_line = time.time()
            if step and process.mean(time.time() - last_report) > args.report_seconds:
                report(f"{time.time() - start:.0f}s step {step}")
                last_report = time.time()
        n_frames, tensors = next(run.batches)
        watch.add(n_frames, tensors, trainer.step(n_frames, tensors, rate(args, step, progress.value)))
        step += 1


def write(model, args):
    save(model, args.out, torch.float16)
    for name in DEMO_FILES:
        shutil.copyfile(args.init / name, args.out / name)
    (args.out / "saved").write_text(f"{time.time():.0f}\n")


def main():
    args = parse_arguments()
    run = Run(args, args.init / "tokenizer.json", Mix(batch_scale=args.batch_scale), phases=TINY_PHASES if args.tiny else PHASES)
    process = run.process
    old = LlavaForConditionalGeneration.from_pretrained(args.init, dtype=torch.float32).eval()
    torch.manual_seed(args.seed)
    model = grow(old, args.layers, args.intermediate, run.encode).to(process.device).train()
    model.model.vision_tower.post_layernorm.requires_grad_(False)      # LLaVA takes the features before it
    process.spread(model)
    network = WatchedNetwork(model, run.encode.newline, compiled=not args.plain)
    run.open(model, "float16")
    log = run.log
    trainer = SharpTrainer(network, run.paint, run.optimiser, process, args.start_factor, args.floors, args.plain)
    dtype = torch.bfloat16 if process.device.type == "cuda" else torch.float32
    held = Held(network, run.paint, run.encode, process, (4,) if args.tiny else (16, 64, 256))
    for n_frames in held.batches:
        log(format_shares(f"at first, {n_frames} frames", held.shares(n_frames)))

    def report(headline):
        log(headline)
        if process.rank == 0:
            write(model, args)
        for n_frames in held.batches:
            log(format_shares(f"{n_frames} frames", held.shares(n_frames)))
        sizes = {1: 1, 4: 1} if args.tiny else {1: 1, 4: 1, 16: 2, 64: 3, 256: 2}
        table, _ = measure(network, run.paint, run.encode, run.rng, sizes, run.mix, dtype, process)
        run.log_table(table)
        process.spread(model)       # should rounding ever have led the copies apart

    start = time.time()
    n_steps = train(run, trainer, held, report)
    seconds = round(time.time() - start)
    run.round_weights(torch.float16)
    if process.rank == 0:
        write(model, args)
    tables = [format_shares(f"{n_frames} frames", held.shares(n_frames)) for n_frames in held.batches]
    if process.rank == 0:
        (args.out / "concentration.md").write_text("\n\n".join(tables) + "\n")
    log("\n".join(tables))
    sizes = run.score_sizes({1: 8, 4: 8} if args.tiny else {1: 8, 4: 8, 16: 12, 64: 24, 128: 24, 256: 30})
    table, _ = measure(network, run.paint, run.encode, run.rng, sizes, Mix(drill_share=0., turn_share=0., batch_scale=args.batch_scale), dtype,
                       process)
    log(format_table(table))
    log(f"largest logit gap to transformers: {gap_to_library(network, run.tokenizer, process):.2e}")
    run.write_accuracy(table, steps=n_steps, train_seconds=seconds, processes=process.count)
    if process.rank == 0:
        (args.out / "saved").write_text(f"{time.time():.0f}\n")
    process.close()


if __name__ == "__main__":
    main()
