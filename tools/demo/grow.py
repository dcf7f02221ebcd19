"""Makes a deeper model out of a trained one, so that it need not learn everything anew.

Layers are copied into the middle with zero outputs, so they add nothing at first (as LLaMA Pro does; Wu et al., arXiv:2401.02415).
An MLP that is to be narrower keeps the neurons that say most, and its output matrix is fitted anew to what all of them said.
"""
import random

import torch

from batches import Mix, make_batch
from network import TOKENS_PER_FRAME, make_model
from render import Renderer, draw_rough
from scenes import IMAGE, USER


def sources(n_old, n_new):
    """[(layer it comes from, whether it is a copy)] for each new layer: copies spread over the middle"""
    out = []
    for i in range(n_old):
        out.append((i, False))
        out += [(i, True)] * sum((j + 1) * n_old // (n_new - n_old + 1) - 1 == i for j in range(n_new - n_old))
    return out


@torch.no_grad()
def said_by_neurons(model, encode, n_videos=8, n_frames=4, seed=7):
    """For each layer the products of its MLP's neurons [width, width], summed over the tokens of drawn videos with questions"""
    layers = model.model.language_model.layers
    sums = [torch.zeros(2 * [layer.mlp.down_proj.weight.shape[1]]) for layer in layers]

    def add(into):
        def hook(_, inputs):
            said = inputs[0].flatten(0, 1)
            into.add_(said.T @ said)
        return hook

    hooks = [layer.mlp.down_proj.register_forward_pre_hook(add(into)) for layer, into in zip(layers, sums)]
    torch.manual_seed(seed)
    renderer = Renderer()
    batch, _, _ = make_batch(random.Random(seed), encode, n_frames, Mix(turn_share=0., short_share=0., batch_scale=n_videos / 48))
    rows = batch["rows"].view(n_videos, n_frames, -1)
    for i in range(n_videos):
        head = [USER] + ([IMAGE] * TOKENS_PER_FRAME + [encode.newline]) * n_frames
        for segment in (1, 2):                # one question at a time
            asked = batch["ids"][i][batch["segments"][i] == segment].tolist()
            model(input_ids=torch.tensor([head + asked]), pixel_values=draw_rough(renderer, rows[i]))
    for hook in hooks:
        hook.remove()
    return sums


def narrowed(mlp, width, products):
    """State of an MLP of that width, from what its neurons said: [gate, up, down]"""
    gate, up, down = mlp.gate_proj.weight, mlp.up_proj.weight, mlp.down_proj.weight
    if width == down.shape[1]:
        return [gate, up, down]
    kept = (products.diag() * down.square().sum(0)).topk(width).indices.sort().values
    inside = products[kept][:, kept].double()
    inside += inside.diag().mean() * 1e-4 * torch.eye(width)
    fitted = torch.linalg.solve(inside, products[kept].double() @ down.double().T).T
    return [gate[kept], up[kept], fitted.float()]


@torch.no_grad()
def grow(old, n_layers, intermediate, encode):
    """A model of n_layers (no fewer than old has) and MLPs of `intermediate` (no wider), in float32. With the same width it
    computes what old computes."""
    text = old.config.text_config
    if n_layers < text.num_hidden_layers or intermediate > text.intermediate_size:
        raise SystemExit(f"grow: {n_layers} layers with MLPs of {intermediate} do not hold {text.num_hidden_layers} with {text.intermediate_size}")
    model = make_model(n_layers, intermediate, text.hidden_size, text.num_attention_heads, text.num_key_value_heads)
    state = {k: v for k, v in old.state_dict().items() if ".language_model.layers." not in k}
    missing, unknown = model.load_state_dict(state, strict=False)
    if unknown or any(".language_model.layers." not in name for name in missing):
        raise SystemExit(f"grow: not the demo's shape: {(unknown + missing)[0]}")
    old_layers, new_layers = old.model.language_model.layers, model.model.language_model.layers
    products = said_by_neurons(old, encode) if intermediate < text.intermediate_size else [None] * len(old_layers)
    mlps = [narrowed(layer.mlp, intermediate, said) for layer, said in zip(old_layers, products)]
    for layer, (i, is_copy) in zip(new_layers, sources(len(old_layers), n_layers)):
        for part in ("self_attn", "input_layernorm", "post_attention_layernorm"):
            getattr(layer, part).load_state_dict(getattr(old_layers[i], part).state_dict())
        for matrix, values in zip((layer.mlp.gate_proj, layer.mlp.up_proj, layer.mlp.down_proj), mlps[i]):
            matrix.weight.copy_(values)
        if is_copy:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
    return model
