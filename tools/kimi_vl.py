"""Kimi-VL for the goldens of models (make_model_goldens.py). transformers has no class for it, but one for Kimi K2.5
(Kimi_K25ForConditionalGeneration), whose tower and projector are the same for what has one frame, and whose language model is
DeepSeek-V3's too: a folder is written anew with that model's names, and transformers loads it as it loads a published one, with
the channels of queries and keys put where its own rotations want them. Pictures and prompts by the rules of the published folders'
image_processing_kimi_vl.py and processing_kimi_vl.py, written anew; the grids are checked against K2.5's image processor."""
import json
import math
import os
import tempfile

import numpy as np
import torch
from PIL import Image

import make_model_goldens as goldens

PAD = "<|media_pad|>"
N_CONTROL = 256  # ids behind the ranks
PATTERN = "|".join([  # of tokenization_moonshot.py
    r"[\p{Han}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])


def open_tiktoken(folder):
    """tiktoken's own encoding of a folder's tiktoken.model."""
    import tiktoken
    from tiktoken.load import load_tiktoken_bpe
    ranks = load_tiktoken_bpe(os.path.join(folder, "tiktoken.model"))
    named = goldens.read_json(folder, "tokenizer_config.json")["added_tokens_decoder"]
    special = {named.get(str(i), {"content": f"<|reserved_token_{i}|>"})["content"]: i for i in range(len(ranks), len(ranks) + N_CONTROL)}
    return tiktoken.Encoding("kimi", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=special)


def write_tiktoken(folder, ranks, names, **keys):
    """ranks: the tokens' bytes in their order; names: of the first control tokens."""
    import base64
    with open(os.path.join(folder, "tiktoken.model"), "wb") as f:
        f.write(b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(ranks)))
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
        json.dump({"added_tokens_decoder": {str(len(ranks) + i): {"content": name, **flags} for i, name in enumerate(names)},
                   "auto_map": {"AutoTokenizer": ["tokenization_moonshot.TikTokenTokenizer", None]}, **keys,
                   "tokenizer_class": "TikTokenTokenizer"}, f, indent=1)


def k25_name(name):
    for a, b in (("multi_modal_projector.pre_norm", "mm_projector.pre_norm"), ("multi_modal_projector.linear_1", "mm_projector.proj.0"),
                 ("multi_modal_projector.linear_2", "mm_projector.proj.2")):
        name = name.replace(a, b)
    return name


def k25_config(config):
    vision = dict(config["vision_config"], model_type="kimi_k25_vision")
    for axis in ("height", "width"):
        vision["pos_emb_" + axis] = vision.pop("init_pos_emb_" + axis)
    return {"architectures": ["Kimi_K25ForConditionalGeneration"], "model_type": "kimi_k25", "vision_config": vision,
            "text_config": {"model_type": "deepseek_v3", **config["text_config"]}, "projection_hidden_size": vision["hidden_size"],
            "image_token_id": config["media_placeholder_token_id"], "video_token_id": config["text_config"]["vocab_size"],
            "tie_word_embeddings": config["tie_word_embeddings"]}


def open_k25(path):
    from safetensors.torch import save_file
    from transformers import Kimi_K25ForConditionalGeneration
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump(k25_config(goldens.read_json(path, "config.json")), f)
        tensors = goldens.load_weights(path)
        save_file({k25_name(k): v for k, v in tensors.items()}, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
        model, report = Kimi_K25ForConditionalGeneration.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager", output_loading_info=True)
    left = [k for kind in ("missing_keys", "unexpected_keys", "mismatched_keys") for k in report[kind] if k != "lm_head.weight"]
    assert not left, left
    return model.eval()


def drawn(picture, patch, limit, square):
    """A picture at its size on black in whole squares."""
    (w, h), cells = picture.size, lambda side: side // patch
    if cells(w) * cells(h) > limit:
        scale = math.sqrt(limit / (cells(w) * cells(h)))
        picture = picture.resize((int(w * scale), int(h * scale)), Image.Resampling.BICUBIC)
    canvas = Image.new("RGB", [-(-side // square) * square for side in picture.size])
    canvas.paste(picture, (0, 0))
    return canvas


class KimiVL(goldens.TextModel):
    """Frames of a video are pictures."""

    def __init__(self, path):
        self.model = open_k25(path)
        self.tokenizer = open_tiktoken(path)
        self.own = goldens.read_json(path, "preprocessor_config.json")
        self.image_token = self.model.config.image_token_id
        with open(os.path.join(path, "chat_template.jinja")) as f:
            self.template = f.read()

    def pixels(self, picture):
        """[patches][3][patch][patch] of a picture, and its grid."""
        (w, h), patch = picture.size, self.own["patch_size"]
        canvas = drawn(picture, patch, self.own["in_token_limit"], 2 * patch)
        x = torch.from_numpy(np.array(canvas)).float() / 255
        x = ((x - torch.tensor(self.own["image_mean"])) / torch.tensor(self.own["image_std"])).permute(2, 0, 1)
        grid = [1, canvas.height // patch, canvas.width // patch]
        self.check(w, h, grid)
        rows = x.reshape(3, grid[1], patch, grid[2], patch).permute(1, 3, 0, 2, 4).reshape(-1, 3, patch, patch)
        return rows, grid

    def check(self, w, h, grid):
        from transformers.models.kimi_k25.image_processing_kimi_k25 import navit_resize
        patch = self.own["patch_size"]
        _, padded = navit_resize(h, w, patch, 2, self.own["in_token_limit"], 512)
        small = w < patch or h < patch  # whose patches K2.5 counts as one
        assert small or [1, padded[0] // patch, padded[1] // patch] == grid, (w, h, padded, grid)

    def batch(self, case):
        made = [self.pixels(goldens.open_picture(f)) for f in goldens.pictures_of(case)]
        if not made:
            return {}
        return {"pixel_values": torch.cat([rows for rows, _ in made]), "image_grid_thw": torch.tensor([grid for _, grid in made])}

    def text(self, case):
        if case.get("chat_format") == "plain":
            return "".join(PAD if p is goldens.IMAGE_MARK else p for p in goldens.render(case))
        import jinja2
        chat = []
        for m in case["messages"]:
            content = []
            for p in m["parts"]:
                content += [{"type": "text", **p}] if "text" in p else [{"type": "image"}] * len(p.get("frames", [0]))
            chat.append({"role": m["role"], "content": content})
        return jinja2.Environment().from_string(self.template).render(messages=chat, add_generation_prompt=True)

    def prompt(self, case):
        if "text" in case:
            return self.tokenizer.encode(case["text"], allowed_special="all"), 0
        counts = [int(t * h * w) // 4 for t, h, w in self.batch(case).get("image_grid_thw", [])]
        pieces = self.text(case).split(PAD)
        assert len(pieces) == len(counts) + 1
        text = pieces[0] + "".join(PAD * n + piece for n, piece in zip(counts, pieces[1:]))
        return self.tokenizer.encode(text, allowed_special="all"), sum(counts)

    def first(self, ids, case):
        out = self.model(input_ids=torch.tensor([ids]), use_cache=True, **self.batch(case))
        return out.logits[0, -1].float(), out.cache

    def step(self, ids, cache):
        out = self.model(input_ids=torch.tensor([ids]), cache=cache, use_cache=True)
        return out.logits[0, -1].float(), out.cache
