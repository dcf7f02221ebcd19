"""The demo model's forward pass, written out over the parameters of transformers' LlavaForConditionalGeneration.

It equals the library's own (train.py checks that at the end) and is laid out for many questions about one video: the
frames are a shared prefix, and every question sees the prefix and itself, never another question. So 48 questions cost
one video, and no answer can be copied from an earlier turn.
"""
import torch
import torch.nn.functional as F
from transformers import CLIPVisionConfig, LlavaConfig, LlavaForConditionalGeneration, Qwen2Config

from scenes import END, IMAGE, PAD, USER

SIDE, PATCH, TOKENS_PER_FRAME, HEAD_DIM = 112, 14, 64, 64
ROPE_THETA = 1e6


def make_model(n_layers, intermediate, hidden=384, n_heads=6, n_kv_heads=2):
    vision = CLIPVisionConfig(hidden_size=256, intermediate_size=1024, num_hidden_layers=6, num_attention_heads=4,
                              image_size=SIDE, patch_size=PATCH, projection_dim=256)
    text = Qwen2Config(vocab_size=512, hidden_size=hidden, intermediate_size=intermediate, num_hidden_layers=n_layers,
                       num_attention_heads=n_heads, num_key_value_heads=n_kv_heads, max_position_embeddings=32768,
                       rope_theta=ROPE_THETA, tie_word_embeddings=True, bos_token_id=None, eos_token_id=END, pad_token_id=PAD)
    config = LlavaConfig(vision_config=vision, text_config=text, image_token_index=IMAGE, vision_feature_layer=-1,
                         vision_feature_select_strategy="default", image_seq_length=TOKENS_PER_FRAME,
                         projector_hidden_act="gelu", tie_word_embeddings=True)
    return LlavaForConditionalGeneration(config)


# ---- the parts that work token by token: compiled once for any number of tokens. x [tokens, width]

def rms_norm(x, weight):
    return F.rms_norm(x.float(), (x.shape[-1],), weight.float(), 1e-6).to(x.dtype)


def linear(x, weight, bias=None):
    return F.linear(x, weight.to(x.dtype), None if bias is None else bias.to(x.dtype))


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


def decoder_in(x, norm, wq, bq, wk, bk, wv, bv, cos, sin):
    h = rms_norm(x, norm)
    cos, sin = cos[:, None].to(x.dtype), sin[:, None].to(x.dtype)
    q = rotate(linear(h, wq, bq).view(x.shape[0], -1, HEAD_DIM), cos, sin)
    k = rotate(linear(h, wk, bk).view(x.shape[0], -1, HEAD_DIM), cos, sin)
    return q, k, linear(h, wv, bv).view(x.shape[0], -1, HEAD_DIM)


def decoder_out(x, attended, wo, norm, w_gate, w_up, w_down):
    x = x + linear(attended, wo)
    h = rms_norm(x, norm)
    return x + linear(F.silu(linear(h, w_gate)) * linear(h, w_up), w_down)


def tower_in(x, ln_w, ln_b, wq, bq, wk, bk, wv, bv):
    h = F.layer_norm(x.float(), (x.shape[-1],), ln_w, ln_b, 1e-5).to(x.dtype)
    return linear(h, wq, bq), linear(h, wk, bk), linear(h, wv, bv)


def tower_out(x, attended, wo, bo, ln_w, ln_b, w1, b1, w2, b2):
    x = x + linear(attended, wo, bo)
    h = F.layer_norm(x.float(), (x.shape[-1],), ln_w, ln_b, 1e-5).to(x.dtype)
    h = linear(h, w1, b1)
    return x + linear(h * torch.sigmoid(1.702 * h), w2, b2)


class Network:
    def __init__(self, model, newline, compiled=True):
        self.model, self.newline = model, newline
        base = model.model
        self.tower, self.projector, self.decoder = base.vision_tower, base.multi_modal_projector, base.language_model
        self.embedding = self.decoder.get_input_embeddings().weight
        self.n_kv_groups = model.config.text_config.num_attention_heads // model.config.text_config.num_key_value_heads

        # compiled for training only: scoring is too short to be worth another compilation
        self.compiled = {f: torch.compile(f, dynamic=True) for f in (decoder_in, decoder_out, tower_in, tower_out)} if compiled else {}

    def _run(self, f, *args):
        return (self.compiled.get(f, f) if torch.is_grad_enabled() else f)(*args)

    def frames(self, pixels, dtype):
        """pixels [n, 3, SIDE, SIDE] normalised; returns [n, TOKENS_PER_FRAME, width of the decoder]"""
        n, side = pixels.shape[0], SIDE // PATCH
        e = self.tower.embeddings
        patches = pixels.view(n, 3, side, PATCH, side, PATCH).permute(0, 2, 4, 1, 3, 5).reshape(n, side * side, -1).to(dtype)
        x = linear(patches, e.patch_embedding.weight.flatten(1))
        x = torch.cat([e.class_embedding.to(dtype).expand(n, 1, -1), x], 1) + e.position_embedding.weight.to(dtype)
        ln = self.tower.pre_layrnorm
        n_tokens, width = x.shape[1], x.shape[2]
        x = F.layer_norm(x.float(), (width,), ln.weight, ln.bias, 1e-5).to(dtype).reshape(n * n_tokens, width)
        for layer in self.tower.encoder.layers:
            a, m = layer.self_attn, layer.mlp
            qkv = self._run(tower_in, x, layer.layer_norm1.weight, layer.layer_norm1.bias, a.q_proj.weight, a.q_proj.bias,
                                a.k_proj.weight, a.k_proj.bias, a.v_proj.weight, a.v_proj.bias)
            q, k, v = (t.view(n, n_tokens, -1, 64).transpose(1, 2) for t in qkv)
            o = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n * n_tokens, width)
            x = self._run(tower_out, x, o, a.out_proj.weight, a.out_proj.bias, layer.layer_norm2.weight, layer.layer_norm2.bias,
                               m.fc1.weight, m.fc1.bias, m.fc2.weight, m.fc2.bias)
        x = x.view(n, n_tokens, width)[:, 1:]
        p = self.projector
        return linear(F.gelu(linear(x, p.linear_1.weight, p.linear_1.bias)), p.linear_2.weight, p.linear_2.bias)

    def hidden(self, frames, batch):
        """frames [b * n_frames, TOKENS_PER_FRAME, width]; returns the decoder's output at the question tokens [b, n_ask, width]"""
        b, n_ask = batch["ids"].shape
        width, dtype, dev = frames.shape[-1], frames.dtype, frames.device
        n_frames = frames.shape[0] // b

        table = self.embedding.to(dtype)
        newline = table[self.newline].expand(b, n_frames, 1, width)
        video = torch.cat([frames.view(b, n_frames, TOKENS_PER_FRAME, width), newline], 2).flatten(1, 2)
        # a product with one-hot rows: its gradient is a product too, where a look-up's is a sort that a CUDA graph may not hold
        asked = (batch["ids"][..., None] == torch.arange(table.shape[0], device=dev)).to(dtype) @ table
        x = torch.cat([table[USER].expand(b, 1, width), video, asked], 1)
        n_prefix, n_all = 1 + video.shape[1], x.shape[1]
        positions = torch.cat([torch.arange(n_prefix, device=dev).expand(b, -1), batch["positions"]], 1).reshape(-1)
        angle = positions[:, None].float() * ROPE_THETA ** (-torch.arange(0, HEAD_DIM, 2, device=dev).float() / HEAD_DIM)
        cos, sin = torch.cat([angle, angle], 1).cos(), torch.cat([angle, angle], 1).sin()
        mask = question_mask(batch["segments"], batch["prefix_lengths"], n_prefix, dtype)
        x = x.reshape(b * n_all, width)
        for layer in self.decoder.layers:
            a, m = layer.self_attn, layer.mlp
            qkv = self._run(decoder_in, x, layer.input_layernorm.weight, a.q_proj.weight, a.q_proj.bias, a.k_proj.weight,
                                  a.k_proj.bias, a.v_proj.weight, a.v_proj.bias, cos, sin)
            q, k, v = (t.view(b, n_all, -1, HEAD_DIM).transpose(1, 2) for t in qkv)
            o = self._attend(q, k, v, n_prefix, mask).transpose(1, 2).reshape(b * n_all, -1)
            x = self._run(decoder_out, x, o, a.o_proj.weight, layer.post_attention_layernorm.weight, m.gate_proj.weight,
                                 m.up_proj.weight, m.down_proj.weight)
        return rms_norm(x.view(b, n_all, width)[:, n_prefix:], self.decoder.norm.weight)

    def _attend(self, q, k, v, n_prefix, mask):
        k, v = k.repeat_interleave(self.n_kv_groups, 1), v.repeat_interleave(self.n_kv_groups, 1)
        video = F.scaled_dot_product_attention(q[:, :, :n_prefix], k[:, :, :n_prefix], v[:, :, :n_prefix], is_causal=True)
        asked = F.scaled_dot_product_attention(q[:, :, n_prefix:], k, v, attn_mask=mask)
        return torch.cat([video, asked], 2)

    def logits(self, pixels, batch, dtype):
        """For each question token, the logits of the next one: [b, n_ask, vocabulary], float32"""
        return linear(self.hidden(self.frames(pixels, dtype), batch), self.embedding).float()


def question_mask(segments, prefix_lengths, n_prefix, dtype):
    """0 where a question token may look, -inf elsewhere: [b, 1, n_ask, n_prefix + n_ask]. Segment 0 is padding, which
    looks at the prefix and itself so that no row is empty."""
    b, n_ask = segments.shape
    dev = segments.device
    to_prefix = (torch.arange(n_prefix, device=dev) < prefix_lengths[:, None])[:, None].expand(b, n_ask, n_prefix)
    causal = torch.ones(n_ask, n_ask, dtype=torch.bool, device=dev).tril()
    to_self = (segments[:, :, None] == segments[:, None]) & causal
    allowed = torch.cat([to_prefix, to_self], 2)[:, None]
    return torch.zeros((), device=dev, dtype=dtype).masked_fill(~allowed, float("-inf"))
