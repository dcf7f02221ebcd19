"""Muon for the matrices inside the layers, AdamW for everything else, over one flat gradient buffer."""
import torch
import torch.distributed as dist


def orthogonalise(g, steps=5):
    """Newton-Schulz iteration towards the nearest orthogonal matrix, for a stack g [n, rows, columns] (Jordan et al., Muon, 2024)."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    wide = x.shape[1] <= x.shape[2]
    if not wide:
        x = x.mT
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(steps):
        s = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(s, s, s, beta=b, alpha=c), x, beta=a)
    return x if wide else x.mT


class Optimiser:
    """step() uses p.grad of every parameter; grads are views of self.gradient, so that several processes average them
    with one call. The rate's scale is a tensor, so that a CUDA graph can hold a step. Muon's update
    has the size of an AdamW update (0.2 RMS; Liu et al., arXiv:2502.16982)."""

    def __init__(self, model, muon_lr, adamw_lr, weight_decay, momentum=.95):
        parameters = [p for p in model.parameters() if p.requires_grad]
        self.gradient = torch.zeros(sum(p.numel() for p in parameters), device=parameters[0].device)
        at = 0
        for p in parameters:
            p.grad = self.gradient[at:at + p.numel()].view_as(p)
            at += p.numel()
        named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        matrices = [p for n, p in named if muon_lr and p.ndim == 2 and "embed" not in n]
        taken = {id(p) for p in matrices}
        rest = [p for p in parameters if id(p) not in taken]
        decayed = [p for p in rest if p.ndim > 1]
        plain = [p for p in rest if p.ndim <= 1]
        self.scale = torch.zeros((), device=self.gradient.device)
        self.adamw_lr = torch.zeros((), device=self.gradient.device)
        cuda = self.gradient.is_cuda
        self.adamw = torch.optim.AdamW([dict(params=decayed, weight_decay=weight_decay), dict(params=plain, weight_decay=0.)],
                                       lr=self.adamw_lr, betas=(.9, .95), fused=cuda, capturable=cuda)
        by_shape = {}
        for p in matrices:
            by_shape.setdefault(p.shape, []).append(p)
        self.groups = [(ps, torch.zeros(len(ps), *shape, device=self.gradient.device)) for shape, ps in by_shape.items()]
        self.muon_lr, self.base_lr, self.weight_decay, self.momentum = muon_lr, adamw_lr, weight_decay, momentum

    def average_gradient(self, n_processes):
        if n_processes > 1:
            dist.all_reduce(self.gradient)
            self.gradient /= n_processes

    def clip(self, limit):
        self.gradient *= (limit / (self.gradient.norm() + 1e-6)).clamp(max=1)

    @torch.no_grad()
    def step(self):
        self.adamw_lr.copy_(self.base_lr * self.scale)
        self.adamw.step()
        for parameters, momentum in self.groups:
            g = torch.stack([p.grad for p in parameters])
            momentum.lerp_(g, 1 - self.momentum)
            update = orthogonalise(g.lerp_(momentum, self.momentum)).float()
            rows, columns = update.shape[1:]
            update *= self.scale * (-self.muon_lr * .2 * max(rows, columns) ** .5)
            torch._foreach_mul_(parameters, 1 - self.scale * (self.muon_lr * self.weight_decay))
            torch._foreach_add_(parameters, list(update.unbind()))

    def zero(self):
        self.gradient.zero_()
