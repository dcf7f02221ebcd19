"""How concentrated a model's attention is, and a training term that concentrates it.

Two views of one layer's weights A [heads, queries, keys] of a prompt:
rows     how few keys one query needs: the share of its weight on the strongest fifth of the keys it may see
columns  how few keys all queries need together: the share of the sums over queries and heads on the strongest fifth.
         A method that keeps one set of tokens a layer (ZipVL) lives on this one.
"""
import math

import torch

from network import Network

STRONGEST = .2
TAU = .975          # ZipVL's threshold (He et al., arXiv:2410.08584, section 4.1)
ZIPVL_PROBES = 64   # recent ones, and as many random ones (its appendix A)


class WatchedNetwork(Network):
    """The network with an eye on each layer's attention. watch = "term": hidden() leaves the mean entropies of some queries'
    weights in self.entropies [layers][rows, columns], in 0..1 (1: even). watch = "shares": it leaves the figures of shares_of
    for the first question of each video in self.shares [layers][videos]."""

    def __init__(self, model, newline, compiled=True, n_probes=32):
        super().__init__(model, newline, compiled)
        self.n_probes, self.watch = n_probes, None

    def hidden(self, frames, batch):
        self.entropies, self.shares, self.batch = [], [], batch
        return super().hidden(frames, batch)

    def _attend(self, q, k, v, n_prefix, mask):
        if self.watch == "term":
            self.entropies.append(self._entropies(q, k, n_prefix, mask))
        elif self.watch == "shares":
            self.shares.append([shares_of(q[i][:, place], k[i][:, place]) for i, place in enumerate(self._prompts(n_prefix))])
        return super()._attend(q, k, v, n_prefix, mask)

    def _entropies(self, q, k, n_prefix, mask):
        """Of n_probes queries in the frames and as many in the questions, all drawn anew: (mean entropy of a query's weights
        over its logarithm of keys, the same of the sums over queries and heads on the frames' keys)"""
        (b, n_heads, n_all, d), n_kv = q.shape, k.shape[1]
        dev, lengths = q.device, self.batch["prefix_lengths"]
        video = (torch.rand(b, self.n_probes, device=dev) * lengths[:, None]).long()
        asked = (torch.rand(b, self.n_probes, device=dev) * (n_all - n_prefix)).long()
        rows = torch.cat([video, n_prefix + asked], 1)
        counts = torch.cat([torch.ones_like(video), self.batch["segments"].gather(1, asked).clamp(max=1)], 1).float()   # not padding
        probes = q.gather(2, rows[:, None, :, None].expand(-1, n_heads, -1, d)).view(b, n_kv, -1, rows.shape[1], d)
        before = torch.arange(n_all, device=dev) <= video[:, :, None]
        allowed = torch.cat([before, mask[:, 0].gather(1, asked[:, :, None].expand(-1, -1, n_all)) == 0], 1)
        score = (probes @ k[:, :, None].mT).float() * d ** -.5
        log_weight = score.masked_fill(~allowed[:, None, None], -1e9).log_softmax(-1)
        weight = log_weight.exp()
        of_row = -(weight * log_weight).sum(-1).mean((1, 2)) / allowed.sum(-1).clamp(min=2).log()      # [b, probes]
        of_row = (of_row * counts).sum() / counts.sum()
        column = (weight * counts[:, None, None, :, None]).sum((1, 2, 3))[:, :n_prefix]
        column = column / column.sum(-1, keepdim=True)
        of_column = (-(column * (column + 1e-12).log()).sum(-1) / lengths.log()).mean()
        return torch.stack([of_row, of_column])

    def _prompts(self, n_prefix):
        """For each video the places of its frames and of its first question, up to the token that begins the answer"""
        for length, segment, weight in zip(self.batch["prefix_lengths"].tolist(), self.batch["segments"], self.batch["weight"]):
            end = int(((segment == 1) & (weight > 0)).nonzero()[0]) + 1
            yield torch.cat([torch.arange(length), n_prefix + (segment[:end] == 1).nonzero().flatten().cpu()]).to(segment.device)


@torch.no_grad()
def shares_of(q, k):
    """q [heads, n, d], k [kv heads, n, d] of one prompt and layer. Returns shares [rows of the random queries, rows of the recent ones,
    columns on the strongest fifth; keys that ZipVL keeps at TAU], of ZipVL's probes."""
    (n_heads, n, d), n_kv = q.shape, k.shape[0]
    n_recent = min(ZIPVL_PROBES, n)
    places = torch.cat([torch.randperm(n, device=q.device)[:ZIPVL_PROBES], torch.arange(n - n_recent, n, device=q.device)])
    score = (q[:, places].view(n_kv, -1, len(places), d) @ k[:, None].mT).float().flatten(0, 1) * d ** -.5
    visible = torch.arange(n, device=q.device) <= places[:, None]
    weight = score.masked_fill(~visible, -torch.inf).softmax(-1)
    strongest = weight.sort(-1, descending=True).values.cumsum(-1)
    last = ((places + 1) * STRONGEST).ceil().long() - 1
    of_row = strongest.gather(-1, last.expand(n_heads, -1)[..., None])[..., 0].mean(0)
    column = weight.sum((0, 1)).sort(descending=True).values.cumsum(-1) / weight.sum()
    kept = (int((column < TAU).sum()) + 1) / n
    return [of_row[:-n_recent].mean().item(), of_row[-n_recent:].mean().item(), column[math.ceil(STRONGEST * n) - 1].item(), kept]


SHARE_NAMES = ["rows of random queries", "rows of recent queries", "columns", "kept by ZipVL"]


@torch.no_grad()
def measure_shares(network, pixels, batch, dtype):
    """Means over the videos of a batch: [layers][4], see shares_of"""
    network.watch = "shares"
    network.hidden(network.frames(pixels, dtype), batch)
    network.watch = None
    return [[sum(column) / len(column) for column in zip(*of_layer)] for of_layer in network.shares]


def format_shares(title, shares):
    """A Markdown table, one column a layer and their mean"""
    lines = [f"| {title} | " + " | ".join(str(i) for i in range(len(shares))) + " | mean |", "|---" * (len(shares) + 2) + "|"]
    for name, values in zip(SHARE_NAMES, zip(*shares)):
        lines.append(f"| {name} | " + " | ".join(f"{v:.3f}" for v in [*values, sum(values) / len(values)]) + " |")
    return "\n".join(lines)
