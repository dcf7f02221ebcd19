#!/usr/bin/env python3
"""Trains the demo model (CLIP tower + projector + Qwen2 decoder in the LLaVA shape) on drawn pictures and videos.

    train.py OUT --minutes 20 --init FOLDER                       on one accelerator
    torchrun --nproc-per-node 4 train.py OUT --minutes 20 ...     on four of one machine

OUT receives a Hugging Face checkpoint (weights in bfloat16 shards, config.json), accuracy.json and train.log.
Prompt: <|user|> (<image>\\n) x frames, question, <|assistant|> answer <|end|>.
"""
import time
from pathlib import Path

import torch
from transformers import LlavaForConditionalGeneration

from batches import Mix
from measure import format_table, gap_to_library, measure
from network import Network, make_model
from training import REPO, Run, Trainer, make_parser, rate, save


def parse_arguments():
    p = make_parser(__doc__, minutes=20., layers=9, intermediate=1024, adamw_lr=1e-3, batch_scale=1., seed=0, final_batches=1.)
    p.add_argument("--init", type=Path, help="folder of a checkpoint to start from; more layers than it has start as identities")
    p.add_argument("--fresh-decoder", action="store_true", help="with --init: take its tower, projector and embeddings only")
    p.add_argument("--tokenizer", type=Path, default=REPO / "models/demo/tokenizer.json")
    p.add_argument("--start-at", type=float, default=0., help="go on at this share of the schedule of frames and rates (with --init)")
    p.add_argument("--stop-at", type=float, default=1., help="stop at this share of it")
    p.add_argument("--mc-share", type=float, default=Mix.mc_share, help="share of questions with four options")
    p.add_argument("--no-compile", action="store_true")
    return p.parse_args()


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


def train(run, trainer, report):
    """Steps until the clock says stop; returns how many. The share of the schedule that has passed is agreed on by all
    processes every 20 steps."""
    args, process, progress = run.args, run.process, run.progress
    start = last_report = time.time()
    step, losses = 0, {}
    while True:
        if step % 20 == 0:
            progress.value = args.start_at + process.mean(time.time() - start) / (args.minutes * 60)
        if progress.value >= args.stop_at:
            return step
        n_frames, tensors = next(run.batches)
        losses[n_frames] = trainer.step(n_frames, tensors, rate(args, step, progress.value))
        step += 1
        if step % 20 == 0 and process.mean(time.time() - last_report) > args.report_seconds:
            report(f"{time.time() - start:.0f}s step {step} loss " + " ".join(f"{f}:{v.item():.3f}" for f, v in sorted(losses.items())))
            last_report = time.time()


def main():
    args = parse_arguments()
    run = Run(args, args.tokenizer, Mix(mc_share=args.mc_share, batch_scale=args.batch_scale), args.start_at)
    process = run.process
    model = initial_model(args).to(process.device).train()
    network = Network(model, run.encode.newline, compiled=not args.no_compile)
    run.open(model, "bfloat16")
    trainer = Trainer(network, run.paint, run.optimiser, process)

    def report(headline):
        run.log(headline)
        table, _ = measure(network, run.paint, run.encode, run.rng, {1: 1, 4: 1, 16: 3, 64: 4}, run.mix, torch.bfloat16, process)
        run.log_table(table)
        if process.rank == 0:
            save(model, args.out)
        process.spread(model)       # should rounding ever have led the copies apart

    start = time.time()
    n_steps = train(run, trainer, report)
    seconds = round(time.time() - start)
    run.round_weights(torch.bfloat16)
    if process.rank == 0:
        save(model, args.out)
    sizes = run.score_sizes({1: 8, 4: 8, 16: 12, 64: 24, 128: 24, 256: 30})
    table, agreement = measure(network, run.paint, run.encode, run.rng, sizes, Mix(drill_share=0., turn_share=0.), torch.bfloat16, process,
                               also_fp32=2)
    run.log(format_table(table))
    gap = gap_to_library(network, run.tokenizer, process)
    run.log(f"float32 chooses the same tokens: {agreement}; largest logit gap to transformers: {gap:.2e}")
    run.write_accuracy(table, steps=n_steps, train_seconds=seconds, processes=process.count, float32_agreement=agreement)
    process.close()


if __name__ == "__main__":
    main()
