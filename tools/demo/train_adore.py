#!/usr/bin/env python3
"""Trains ADORE's controller (sparse/controller.h) for the demo model and writes OUT/adore.safetensors.

    train_adore.py --out models/demo --minutes 4        half of the time collects labels, half trains
    train_adore.py --evaluate models/demo/adore.safetensors --seed 99      a trained one, over new sequences

Recipe: Zhang et al., arXiv:2407.02328, section 2.2 and appendix B. The model runs over whole sequences with full attention.
In every layer each query lists the K/2 keys that it looks at most (mean over heads); the K tokens that are in most lists,
over all layers, are labelled 1. The controller sees the tokens' input embeddings only. BCE, Adam 5e-3, times 0.98 every
2000 steps, 8:2 split, the weights with the best F1 on the held-out part are kept.

--labels paper lets the queries of the whole sequence count, as the paper does; answers, the default and how the demo's file
was made, only those after the first <|assistant|>, which are what a cache is kept for. The paper does not say how heads are
taken together (their mean here), nor what a position is divided by: the longest sequence of the training, or --unit; the file
says which, and --evaluate does as the file says. Gradients are clipped at 1, which is not in the paper.

Half of the sequences are videos with several questions and their right answers, half are one question and what the model goes
on to say when nothing ends its answer (greedily or sampled), since the demo model's own answers are short.
"""
import argparse
import json
import random
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import DynamicCache, LlavaForConditionalGeneration

from network import TOKENS_PER_FRAME, Network
from render import Renderer, draw_rough
from scenes import ASSISTANT, END, USER, Encoder, make_picture, make_video, picture_question, video_question

OPEN_QUESTIONS = {1: ["Describe the image.", "What number is written?", "How many shapes are there?"],
                  2: ["How many numbers appear?", "Which number appears first?", "Which number appears last?",
                      "What shape is at the end of the video?", "What color is the shape at the start of the video?"]}


def parse_arguments():
    repo = Path(__file__).resolve().parents[2]
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    result = p.add_mutually_exclusive_group(required=True)
    result.add_argument("--out", type=Path, help="folder for adore.safetensors")
    result.add_argument("--evaluate", type=Path, metavar="FILE", help="measure this controller, train none")
    p.add_argument("--minutes", type=float, default=4., help="in all, loading aside")
    p.add_argument("--model", type=Path, default=repo / "models/demo")
    p.add_argument("--hidden", type=int, default=128, help="width of the controller's state")
    p.add_argument("--k", type=int, default=96, help="tokens of a sequence that are labelled 1")
    p.add_argument("--frames", type=int, nargs="+", default=[1, 4, 8, 12], help="frames of a sequence's picture or video")
    p.add_argument("--text", type=int, nargs=2, default=[160, 640], help="tokens after the frames, least and most")
    p.add_argument("--samples", type=int, default=4000, help="stop collecting after this many sequences")
    p.add_argument("--batch", type=int, default=16, help="sequences at a time")
    p.add_argument("--feature", choices=["abs", "rel"], default="abs", help="position that the controller sees")
    p.add_argument("--unit", type=float, default=0, help="tokens that positions are divided by; 0: the longest sequence's")
    p.add_argument("--labels", choices=["answers", "paper"], default="answers", help="whose queries' lists count")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--threads", type=int, default=0, help="of the CPU; 0: torch's choice")
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return p.parse_args()


class Controller(torch.nn.Module):
    """Names and layouts are those that models/token_controller.c reads."""

    def __init__(self, width, hidden):
        super().__init__()
        self.gru = torch.nn.GRU(width, hidden, batch_first=True)
        self.position = torch.nn.Linear(1, hidden)
        self.inner = torch.nn.Linear(hidden, hidden)
        self.outer = torch.nn.Linear(hidden, 1)

    def forward(self, x, position):
        """x [b, n, width], position [b, n] scalars; logits [b, n]"""
        z, _ = self.gru(x)
        return self.outer(torch.tanh(self.inner(self.position(position[..., None]) + z)))[..., 0]


# ---- sequences and their labels

class Collector:
    def __init__(self, args):
        self.args, self.device = args, torch.device(args.device)
        tokenizer = Tokenizer.from_file(str(args.model / "tokenizer.json"))
        self.encode = Encoder(tokenizer)
        self.model = LlavaForConditionalGeneration.from_pretrained(args.model, dtype=torch.float32, attn_implementation="eager")
        self.model.eval().to(self.device)
        self.decoder = self.model.model.language_model
        self.network = Network(self.model, self.encode.newline, compiled=False)
        self.table = self.network.embedding.detach()
        self.renderer = Renderer(device=self.device)
        self.rng = random.Random(args.seed)

    def prefixes(self, subjects):
        """Embeddings of <|user|> and the frames, [b, 1 + 65 * frames, width]"""
        rows = torch.stack([torch.from_numpy(s.rows if hasattr(s, "rows") else s.row()[None]) for s in subjects])
        b, n_frames = rows.shape[:2]
        frames = self.network.frames(draw_rough(self.renderer, rows.flatten(0, 1)), torch.float32)
        newline = self.table[self.encode.newline].expand(b, n_frames, 1, -1)
        video = torch.cat([frames.view(b, n_frames, TOKENS_PER_FRAME, -1), newline], 2).flatten(1, 2)
        return torch.cat([self.table[USER].expand(b, 1, -1), video], 1)

    def turns(self, subject, n_text):
        """Ids of questions and right answers up to n_text, and where the first answer begins"""
        ids, first = [], 0
        while True:
            ask = picture_question if not hasattr(subject, "rows") else video_question
            question = ask(self.rng, subject, .45)
            turn = ([USER] if ids else []) + self.encode(question.text) + [ASSISTANT] + self.encode(question.answer) + [END]
            if ids and len(ids) + len(turn) > n_text:
                return ids, first
            first = first or turn.index(ASSISTANT)
            ids += turn

    def go_on(self, prefix, ids, n_text, temperature):
        """What the model says after ids, to n_text tokens, whatever it says: [b, n_text] ids"""
        cache = DynamicCache(config=self.model.config.text_config)
        said = torch.tensor(ids, device=self.device).expand(len(prefix), -1)
        x = torch.cat([prefix, self.table[said]], 1)
        while said.shape[1] < n_text:
            hidden = self.decoder(inputs_embeds=x, past_key_values=cache, use_cache=True).last_hidden_state[:, -1]
            logits = self.model.lm_head(hidden)
            if temperature:
                token = torch.multinomial((logits / temperature).softmax(-1), 1)
            else:
                token = logits.argmax(-1, keepdim=True)
            said, x = torch.cat([said, token], 1), self.table[token]
        return said

    def label(self, x, lengths, first):
        """x [b, n, width]; 1 for the K tokens of each sequence that are in most lists of queries first..length: [b, n]"""
        b, n, _ = x.shape
        k = self.args.k
        counts = torch.zeros(b, n, device=self.device)
        attentions = self.decoder(inputs_embeds=x, output_attentions=True, use_cache=False).attentions
        place = torch.arange(n, device=self.device)
        if self.args.labels == "paper":
            first = torch.zeros_like(first)
        asks = (place >= first[:, None]) & (place < lengths[:, None])
        for attention in attentions:
            best = attention.mean(1).topk(min(k // 2, n), -1)
            listed = asks[..., None] & (best.values > 0)        # a query before place k/2 has fewer keys than that
            counts.scatter_add_(1, best.indices.flatten(1), listed.float().flatten(1))
        counts -= place / (10 * n)              # of equals the earlier one, as a stable order has it
        counts[place >= lengths[:, None]] = -1
        labels = torch.zeros(b, n, device=self.device)
        return labels.scatter_(1, counts.topk(min(k, n), -1).indices, 1.) * (counts > -.5)

    @torch.no_grad()
    def batch(self):
        """[(embeddings [n, width], labels [n])] of args.batch sequences with equally many frames"""
        n_frames, n_text = self.rng.choice(self.args.frames), self.rng.randint(*self.args.text)
        subjects = [make_picture(self.rng) if n_frames == 1 else make_video(self.rng, n_frames) for _ in range(self.args.batch)]
        prefix = self.prefixes(subjects)
        if self.rng.random() < .5:
            said = [self.turns(s, n_text) for s in subjects]
            ids, firsts = [i for i, _ in said], [f for _, f in said]
        else:
            ask = self.encode(self.rng.choice(OPEN_QUESTIONS[min(n_frames, 2)])) + [ASSISTANT]
            ids = self.go_on(prefix, ask, n_text, self.rng.choice([0, .7, 1.])).tolist()
            firsts = [len(ask) - 1] * len(ids)
        n_prefix, longest = prefix.shape[1], max(map(len, ids))
        padded = torch.tensor([i + [END] * (longest - len(i)) for i in ids], device=self.device)
        x = torch.cat([prefix, self.table[padded]], 1)
        lengths = torch.tensor([n_prefix + len(i) for i in ids], device=self.device)
        labels = self.label(x, lengths, torch.tensor(firsts, device=self.device) + n_prefix)
        return [(e[:n].clone(), y[:n].clone()) for e, y, n in zip(x, labels, lengths.tolist())]


# ---- training

def positions(lengths, n, feature, unit, device):
    place = torch.arange(n, device=device).expand(len(lengths), -1)
    if feature == "rel":
        place = torch.tensor(lengths, device=device)[:, None] - place
    return place / unit


def pad(samples, device, feature, unit):
    lengths = [len(y) for _, y in samples]
    n = max(lengths)
    x = torch.stack([F.pad(e, (0, 0, 0, n - len(e))) for e, _ in samples]).to(device)
    y = torch.stack([F.pad(y, (0, n - len(y)), value=-1.) for _, y in samples]).to(device)
    return x, positions(lengths, n, feature, unit, device), y


@torch.no_grad()
def measure(controller, samples, args):
    """Accuracy and F1 at 0.5; the share of labelled tokens among the 2K best of each sequence, as a cache of 2K would hold."""
    right = count = hit = claimed = wanted = held = 0
    for i in range(0, len(samples), args.batch):
        x, position, y = pad(samples[i:i + args.batch], args.device, args.feature, args.unit)
        logits = controller(x, position)
        real, said = y >= 0, logits > 0
        right += (said == (y > 0))[real].sum().item()
        count += real.sum().item()
        hit += (said & (y > 0)).sum().item()
        claimed += (said & real).sum().item()
        wanted += (y > 0).sum().item()
        best = logits.masked_fill(~real, -1e9).topk(min(2 * args.k, y.shape[1]), -1).indices
        held += (y.gather(1, best) > 0).sum().item()
    return dict(accuracy=right / count, f1=2 * hit / max(1, claimed + wanted), held=held / max(1, wanted), positive=wanted / count)


def train(samples, width, args, until):
    n_train = max(1, len(samples) * 8 // 10)
    learn, test = samples[:n_train], samples[n_train:] or samples
    torch.manual_seed(args.seed)
    controller = Controller(width, args.hidden).to(args.device)
    optimiser = torch.optim.Adam(controller.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.StepLR(optimiser, 2000, .98)
    rng, step, best, kept, checked = random.Random(args.seed), 0, dict(f1=-1), None, time.time()
    while True:
        x, position, y = pad(rng.sample(learn, min(args.batch, len(learn))), args.device, args.feature, args.unit)
        loss = F.binary_cross_entropy_with_logits(controller(x, position), y.clamp(min=0), reduction="none")[y >= 0].mean()
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(controller.parameters(), 1.)
        optimiser.step()
        schedule.step()
        step += 1
        over = time.time() > until
        if over or time.time() - checked > max(2., .04 * args.minutes * 60):
            now = measure(controller, test, args)
            print(f"step {step}: loss {loss.item():.4f}, accuracy {now['accuracy']:.4f}, F1 {now['f1']:.4f}, "
                  f"held by 2K {now['held']:.4f}", flush=True)
            if now["f1"] > best["f1"]:
                best, kept = dict(now, step=step), {k: v.detach().cpu().clone() for k, v in controller.state_dict().items()}
            checked = time.time()
        if over:
            return best, kept


def evaluate(samples, width, trained, args):
    """As the file says that it was trained; one that says nothing of a unit was trained with the model's trained length"""
    with safe_open(args.evaluate, "pt") as f:
        said = f.metadata() or {}
    args.feature, args.unit = said.get("feature", "abs"), float(said.get("unit", trained))
    controller = Controller(width, int(said.get("hidden", args.hidden))).to(args.device)
    controller.load_state_dict(load_file(args.evaluate))
    return measure(controller, samples, args)


def report(now, samples, args):
    print(f"accuracy {now['accuracy']:.4f}, F1 {now['f1']:.4f} on {samples} (labelled 1: {now['positive']:.3f}); "
          f"{now['held']:.4f} of the labelled tokens are among the {2 * args.k} best of their sequence")


def main():
    args = parse_arguments()
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    collector = Collector(args)
    text = collector.model.config.text_config
    samples, start = [], time.time()
    while len(samples) < args.samples and time.time() - start < .5 * 60 * args.minutes or len(samples) < 5:
        samples += collector.batch()
    lengths = sorted(len(y) for _, y in samples)
    print(f"{len(samples)} sequences of {lengths[0]} to {lengths[-1]} tokens (median {lengths[len(lengths) // 2]}) in "
          f"{time.time() - start:.0f} s on {args.device}", flush=True)
    if args.evaluate:
        return report(evaluate(samples, text.hidden_size, text.max_position_embeddings, args), "these", args)
    random.Random(args.seed).shuffle(samples)
    args.unit = args.unit or lengths[-1]
    best, weights = train(samples, text.hidden_size, args, start + 60 * args.minutes)
    args.out.mkdir(parents=True, exist_ok=True)
    facts = dict(source="tools/demo/train_adore.py", k=args.k, hidden=args.hidden, feature=args.feature, unit=args.unit,
                 labels=args.labels, sequences=len(samples),
                 accuracy=round(best["accuracy"], 4), f1=round(best["f1"], 4), held=round(best["held"], 4), seed=args.seed)
    save_file({k: v.contiguous() for k, v in weights.items()}, args.out / "adore.safetensors",
              metadata={k: str(v) for k, v in facts.items()})
    report(best, "held-out sequences", args)
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
