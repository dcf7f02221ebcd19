#!/usr/bin/env python3
"""Trains the demo model (CLIP tower + projector + Qwen2 decoder in the LLaVA shape) on drawn pictures and videos.

    train.py OUT --minutes 20 --init FOLDER                       on one accelerator
    torchrun --nproc-per-node 4 train.py OUT --minutes 20 ...     on four of one machine

OUT receives a Hugging Face checkpoint (weights in bfloat16 shards, config.json), accuracy.json and train.log.
Prompt: <|user|> (<image>\\n) x frames, question, <|assistant|> answer <|end|>.
"""
import argparse
import copy
import json
import multiprocessing
import os
import random
import time
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from tokenizers import Tokenizer
from transformers import LlavaForConditionalGeneration

from batches import Mix, stream_batches
from measure import format_table, gap_to_library, measure, to_device
from network import Network, make_model
from optimise import Optimiser
from render import Renderer, draw_rough
from scenes import Encoder

SHARD_BYTES = 14_000_000


def parse_arguments():
    repo = Path(__file__).resolve().parents[2]
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("out", type=Path, help="folder for the checkpoint")
    p.add_argument("--minutes", type=float, default=20., help="how long to train; the schedule follows the clock")
    p.add_argument("--init", type=Path, help="folder of a checkpoint to start from; more layers than it has start as identities")
    p.add_argument("--fresh-decoder", action="store_true", help="with --init: take its tower, projector and embeddings only")
    p.add_argument("--tokenizer", type=Path, default=repo / "models/demo/tokenizer.json")
    p.add_argument("--layers", type=int, default=9, help="of the decoder")
    p.add_argument("--intermediate", type=int, default=1024, help="width inside the decoder's MLP")
    p.add_argument("--muon-lr", type=float, default=2e-3, help="for matrices; 0: AdamW for them too")
    p.add_argument("--adamw-lr", type=float, default=1e-3)
    p.add_argument("--weight-decay", type=float, default=.05)
    p.add_argument("--decay-from", type=float, default=.6, help="share of the time after which the rate falls to 0")
    p.add_argument("--warmup-steps", type=int, default=200)
    p.add_argument("--start-at", type=float, default=0., help="go on at this share of the schedule of frames and rates (with --init)")
    p.add_argument("--stop-at", type=float, default=1., help="stop at this share of it")
    p.add_argument("--batch-scale", type=float, default=1., help="factor on the number of videos in a batch")
    p.add_argument("--mc-share", type=float, default=Mix.mc_share, help="share of questions with four options")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--workers", type=int, default=12, help="processes that make questions, for each accelerator")
    p.add_argument("--report-seconds", type=float, default=60., help="time between accuracy reports (a checkpoint is written with each)")
    p.add_argument("--final-batches", type=float, default=1., help="factor on the size of the accuracy report at the end")
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--no-compile", action="store_true")
    return p.parse_args()


class Process:
    """This process among those that train together (one when torchrun did not start it)."""

    def __init__(self, device):
        self.rank, self.count = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        self.device = torch.device(device)
        if self.count > 1:
            if self.device.type == "cuda":
                self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
                torch.cuda.set_device(self.device)
            dist.init_process_group("nccl" if self.device.type == "cuda" else "gloo")

    def mean(self, value):
        if self.count == 1:
            return value
        t = torch.tensor(float(value), device=self.device)
        dist.all_reduce(t)
        return t.item() / self.count

    def gather(self, value):
        if self.count == 1:
            return [value]
        values = [None] * self.count
        dist.all_gather_object(values, value)
        return values


def initial_model(args):
    torch.manual_seed(args.seed)
    model = make_model(args.layers, args.intermediate)
    if args.init:
        old = LlavaForConditionalGeneration.from_pretrained(args.init, dtype=torch.float32)
        state = {k: v for k, v in old.state_dict().items() if not (args.fresh_decoder and ".language_model.layers." in k)}
        missing, unknown = model.load_state_dict(state, strict=False)
        if unknown:
            raise SystemExit(f"{args.init}: does not fit this model: {unknown[0]} and {len(unknown) - 1} more")
        if not args.fresh_decoder:
            for name in missing:        # a layer that adds nothing yet
                if "o_proj" in name or "down_proj" in name:
                    model.get_parameter(name).data.zero_()
    model.model.vision_tower.post_layernorm.requires_grad_(False)      # LLaVA takes the features before it
    return model


class Trainer:
    """One step: draw, forward, backward, average, update. On an accelerator each part is recorded once as a CUDA graph (one
    for each number of frames) and replayed, since a model this small would otherwise wait for kernel launches."""

    def __init__(self, network, paint, optimiser, process):
        self.network, self.paint, self.optimiser, self.process = network, paint, optimiser, process
        self.graphs, self.update_graph, self.pool = {}, None, None

    def gradient(self, batch):
        self.optimiser.zero()
        with torch.no_grad():
            pixels = self.paint(batch["rows"])
        logits = self.network.logits(pixels, batch, torch.bfloat16)
        loss = F.cross_entropy(logits.flatten(0, 1), batch["target"].flatten(), reduction="none")
        loss = (loss * batch["weight"].flatten()).sum() / batch["weight"].sum()
        loss.backward()
        return loss.detach()

    def update(self):
        self.optimiser.clip(1.)
        self.optimiser.step()

    def _record(self, f):
        """Runs f twice, then records it: (graph, what f returned, to be read after a replay)"""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                f()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"):
            out = f()
        self.pool = self.pool or graph.pool()
        return graph, out

    def _replay_gradient(self, n_frames, tensors):
        if n_frames not in self.graphs:
            held = to_device(tensors, self.process.device)
            self.graphs[n_frames] = held, *self._record(partial(self.gradient, held))
        held, graph, loss = self.graphs[n_frames]
        for name, tensor in tensors.items():
            held[name].copy_(tensor, non_blocking=True)
        graph.replay()
        return loss.clone()         # the graphs share their memory

    def _replay_update(self, scale):
        if not self.update_graph:
            self.optimiser.scale.zero_()        # so that the runs before the recording change nothing but momentum
            self.update_graph, _ = self._record(self.update)
        self.optimiser.scale.fill_(scale)
        self.update_graph.replay()

    def step(self, n_frames, tensors, scale):
        """scale: of the learning rates. Returns the loss (of this process's batch)."""
        cuda = self.process.device.type == "cuda"
        loss = self._replay_gradient(n_frames, tensors) if cuda else self.gradient(tensors)
        self.optimiser.average_gradient(self.process.count)
        if cuda:
            self._replay_update(scale)
        else:
            self.optimiser.scale.fill_(scale)
            self.update()
        return loss


def save(model, out, dtype=torch.bfloat16):
    half = copy.deepcopy(model).to(dtype)
    half.config.dtype = dtype
    half.save_pretrained(out, max_shard_size=SHARD_BYTES)


class Log:
    """Prints and writes lines, in the first process only."""

    def __init__(self, path, on):
        self.file = open(path, "a") if on else None

    def __call__(self, text):
        if self.file:
            print(text, flush=True)
            print(text, file=self.file, flush=True)


def rate(args, step, share):
    """Factor on the learning rates: a short rise, level, then a straight fall over the last part of the time"""
    return min(1., (step + 1) / args.warmup_steps, max(.01, (1 - share) / (1 - args.decay_from)))


def train(args, process, trainer, batches, progress, report):
    """Steps until the clock says stop; returns how many. The share of the schedule that has passed is agreed on by all
    processes every 20 steps, and read by the makers of batches through `progress`."""
    start = last_report = time.time()
    step, losses = 0, {}
    while True:
        if step % 20 == 0:
            progress.value = args.start_at + process.mean(time.time() - start) / (args.minutes * 60)
        if progress.value >= args.stop_at:
            return step
        n_frames, tensors = next(batches)
        losses[n_frames] = trainer.step(n_frames, tensors, rate(args, step, progress.value))
        step += 1
        if step % 20 == 0 and process.mean(time.time() - last_report) > args.report_seconds:
            report(f"{time.time() - start:.0f}s step {step} loss " + " ".join(f"{f}:{v.item():.3f}" for f, v in sorted(losses.items())))
            last_report = time.time()


def main():
    args = parse_arguments()
    process = Process(args.device)
    tokenizer = Tokenizer.from_file(str(args.tokenizer))
    encode = Encoder(tokenizer)
    mix = Mix(mc_share=args.mc_share, batch_scale=args.batch_scale)
    progress = multiprocessing.Value("d", args.start_at)
    batches = stream_batches(tokenizer, mix, progress, args.seed, process.rank, args.workers, process.device.type == "cuda")

    model = initial_model(args).to(process.device).train()
    network = Network(model, encode.newline, compiled=not args.no_compile)
    paint = partial(draw_rough, Renderer(device=process.device))
    trainer = Trainer(network, paint, Optimiser(model, args.muon_lr, args.adamw_lr, args.weight_decay), process)
    args.out.mkdir(parents=True, exist_ok=True)
    log = Log(args.out / "train.log", process.rank == 0)
    n_parameters = sum(p.numel() for p in model.parameters())
    log(f"{n_parameters} parameters ({n_parameters * 2 / 1e6:.1f} MB as bfloat16), {process.count} process(es), {vars(args)}")
    torch.manual_seed(args.seed * 1000 + process.rank)
    rng = random.Random(f"report-{args.seed}-{process.rank}")

    def report(headline):
        log(headline)
        table, _ = measure(network, paint, encode, rng, {1: 1, 4: 1, 16: 3, 64: 4}, mix, torch.bfloat16, process)
        for f, row in table.items():
            log(f"  {f}: " + " ".join(f"{k}={h / n:.2f}" for k, (h, n) in row.items()))
        if process.rank == 0:
            save(model, args.out)
        if process.count > 1:
            for p in model.parameters():        # should rounding ever have led the copies apart
                dist.broadcast(p.data, 0)

    start = time.time()
    n_steps = train(args, process, trainer, batches, progress, report)
    seconds = round(time.time() - start)
    model.eval()
    with torch.no_grad():
        for p in model.parameters():        # score what is saved: weights rounded to bfloat16
            p.copy_(p.bfloat16().float())
    if process.rank == 0:
        save(model, args.out)
    sizes = {f: max(1, round(n * args.final_batches)) for f, n in {1: 8, 4: 8, 16: 12, 64: 24, 128: 24, 256: 30}.items()}
    table, agreement = measure(network, paint, encode, rng, sizes, Mix(drill_share=0., turn_share=0.), torch.bfloat16, process, also_fp32=2)
    log(format_table(table))
    gap = gap_to_library(network, tokenizer, process)
    log(f"float32 chooses the same tokens: {agreement}; largest logit gap to transformers: {gap:.2e}")
    if process.rank == 0:
        result = dict(steps=n_steps, train_seconds=seconds, processes=process.count, float32_agreement=agreement,
                      accuracy={f: {k: [round(h / n, 4), n] for k, (h, n) in row.items()} for f, row in table.items()})
        (args.out / "accuracy.json").write_text(json.dumps(result, indent=1) + "\n")
    if process.count > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
