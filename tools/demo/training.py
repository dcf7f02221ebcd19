"""What trainings of the demo model share (train.py, train_sharp.py): their processes, a step, the log, and how a run begins and ends."""
import argparse
import copy
import json
import multiprocessing
import os
import random
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from tokenizers import Tokenizer

from batches import PHASES, stream_batches
from measure import to_device
from optimise import Optimiser
from render import Renderer, draw_rough
from scenes import Encoder

REPO = Path(__file__).resolve().parents[2]
SHARD_BYTES = 14_000_000


def make_parser(description, **defaults):
    """A parser with the options that every training has; defaults: of those that differ."""
    p = argparse.ArgumentParser(description=description.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("out", type=Path, help="folder for the checkpoint")
    p.add_argument("--minutes", type=float, help="how long to train; the schedule follows the clock")
    p.add_argument("--layers", type=int, help="of the decoder")
    p.add_argument("--intermediate", type=int, help="width inside the decoder's MLPs")
    p.add_argument("--muon-lr", type=float, default=2e-3, help="for matrices; 0: AdamW for them too")
    p.add_argument("--adamw-lr", type=float)
    p.add_argument("--weight-decay", type=float, default=.05)
    p.add_argument("--decay-from", type=float, default=.6, help="share of the time after which the rate falls to 0")
    p.add_argument("--warmup-steps", type=int, default=200)
    p.add_argument("--batch-scale", type=float, help="factor on the number of videos in a batch")
    p.add_argument("--seed", type=int)
    p.add_argument("--workers", type=int, default=12, help="processes that make questions, for each accelerator")
    p.add_argument("--report-seconds", type=float, default=60., help="time between accuracy reports, each with a checkpoint")
    p.add_argument("--final-batches", type=float, help="factor on the size of the accuracy report at the end")
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.set_defaults(**defaults)
    return p


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

    def spread(self, model):
        """All copies become the first process's."""
        if self.count > 1:
            for p in model.parameters():
                dist.broadcast(p.data, 0)

    def gather(self, value):
        if self.count == 1:
            return [value]
        values = [None] * self.count
        dist.all_gather_object(values, value)
        return values

    def close(self):
        if self.count > 1:
            dist.destroy_process_group()


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


class Run:
    """A training from its beginning to its end. The makers of batches start with it, before the model is on an accelerator; they read the
    share of the schedule that has passed from `progress`."""

    def __init__(self, args, tokenizer, mix, at=0., phases=PHASES):
        self.args, self.mix, self.process = args, mix, Process(args.device)
        self.tokenizer = Tokenizer.from_file(str(tokenizer))
        self.encode = Encoder(self.tokenizer)
        self.progress = multiprocessing.Value("d", at)
        self.batches = stream_batches(self.tokenizer, mix, self.progress, args.seed, self.process.rank, args.workers,
                                      self.process.device.type == "cuda", phases)

    def open(self, model, dtype):
        """dtype: the name of that of the checkpoint"""
        args, process = self.args, self.process
        self.model = model
        self.paint = partial(draw_rough, Renderer(device=process.device))
        self.optimiser = Optimiser(model, args.muon_lr, args.adamw_lr, args.weight_decay)
        args.out.mkdir(parents=True, exist_ok=True)
        self.log = Log(args.out / "train.log", process.rank == 0)
        n_parameters = sum(p.numel() for p in model.parameters())
        self.log(f"{n_parameters} parameters ({n_parameters * 2 / 1e6:.1f} MB as {dtype}), {process.count} process(es), {vars(args)}")
        torch.manual_seed(args.seed * 1000 + process.rank)
        self.rng = random.Random(f"report-{args.seed}-{process.rank}")

    def log_table(self, table):
        for f, row in table.items():
            self.log(f"  {f}: " + " ".join(f"{k}={h / n:.2f}" for k, (h, n) in row.items()))

    def score_sizes(self, sizes):
        return {f: max(1, round(n * self.args.final_batches)) for f, n in sizes.items()}

    def round_weights(self, dtype):
        """So that what is scored is what is saved"""
        self.model.eval()
        with torch.no_grad():
            for p in self.model.parameters():
                p.copy_(p.to(dtype).float())

    def write_accuracy(self, table, **facts):
        if self.process.rank == 0:
            result = dict(facts, accuracy={f: {k: [round(h / n, 4), n] for k, (h, n) in row.items()} for f, row in table.items()})
            (self.args.out / "accuracy.json").write_text(json.dumps(result, indent=1) + "\n")
