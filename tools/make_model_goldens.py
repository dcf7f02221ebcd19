#!/usr/bin/env python3
"""Goldens of whole models: what transformers computes for the checkpoints of tests/golden/models and for models/demo.

    tools/make_tiny_models.py            # (re)creates the checkpoints and their goldens
    tools/make_model_goldens.py [NAME]   # goldens only: of one folder, or of all

Needs torch, transformers 5, accelerate, tokenizers, pillow, gguf. What tests/unit/test_parity.c reads:

tests/golden/models/index.json   ["llama_f32", ..., "demo"]
tests/golden/models/NAME/golden.json
    model      folder or .gguf file, from the root of the tree
    cases      [{
        name        for messages
        tolerance   how far logits may be from those below (largest absolute difference)
        text        the prompt, for tokenising; absent where messages are given
        messages    [{"role": ..., "parts": [{"text": ...} | {"image": FILE} | {"frames": [FILE, ...]}]}], files
                    beside index.json, to be rendered in chat_format
        positions   "grid": what follows a video is numbered as transformers from 5.3 on numbers it
        keep_video_marks true: the template's tokens around a video stay around its frames
        chat_format "plain", "saccade", ..., a template's file; null = the one that the model's own files announce
        ids         the prompt as token ids, a visual token as the model's placeholder id
        n_visual    visual tokens among them
        tokens      64 greedy tokens (or up to the end token, which is then the last)
        gaps        for each of them, by how much its logit led; always more than the tolerance, except where weights
                    are quantised
        logits      where in golden.bin: [first float, number of floats], the logits of the prompt's last token
        last_logits the same for the sequence of prompt and all tokens but the last
    }]
tests/golden/models/NAME/golden.bin   f32, little endian

With quantised weights transformers multiplies the dequantised weights by f32 activations, while the runtime, like
llama.cpp, rounds the activations to 8 bits first. Such a model has two cases: as transformers computes it, with a wide
tolerance, and with the inputs of every linear layer rounded in the same way, where only the order of sums (and
a rounding that it tips over now and then) is left.
"""
import functools
import json
import os
import re
import sys

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER = os.path.join(ROOT, "tests", "golden", "models")
N_TOKENS = 64
TEXT = "Three owls sat on the wire; two of them saw 47 mice, the third one slept. Which owl was tired, and why?"
MARKS = "tests/golden/models/marks.jinja"  # a template with tokens around pictures and videos

LLAMA3_ROPE = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 64}

torch.set_grad_enabled(False)
torch.set_num_threads(2)


# ---------------------------------------------------------------- references

def read_json(*path):
    with open(os.path.join(*path)) as f:
        return json.load(f)


def load_weights(folder):
    """Of one file or of several."""
    from safetensors.torch import load_file
    files = sorted(f for f in os.listdir(folder) if f.endswith(".safetensors"))
    return {name: x for f in files for name, x in load_file(os.path.join(folder, f)).items()}


def tokenizer_of(folder):
    from tokenizers import Tokenizer
    return Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))


class TextModel:
    """A text-only checkpoint, or one GGUF file, through transformers."""

    ids = ()  # run so far; those that see, whose first() is their own, have no border to look for

    def __init__(self, path):
        from transformers import AutoConfig, AutoModelForCausalLM
        options = dict(dtype=torch.float32, attn_implementation="eager", experts_implementation="eager")
        if path.endswith(".gguf"):
            folder, name = os.path.split(path)
            config = AutoConfig.from_pretrained(folder, gguf_file=name)
            config.head_dim = head_dim_of(path)  # transformers does not read it for every architecture
            self.model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, config=config, **options)
            if "freqs" in name:
                self.use_llama3_rope()
        else:
            self.model = AutoModelForCausalLM.from_pretrained(path, **options)
        self.tokenizer = tokenizer_of(path) if os.path.isdir(path) else None
        self.model.eval()

    def use_llama3_rope(self):
        """transformers passes over the rope_freqs of a GGUF file; the scaling that these were made from."""
        config = self.model.config
        config.rope_parameters = dict(LLAMA3_ROPE, rope_theta=config.rope_parameters["rope_theta"])
        self.model.model.rotary_emb = type(self.model.model.rotary_emb)(config)

    def step(self, ids, cache):
        """Where LongRoPE's factors change, all tokens are run anew, as transformers' generate does."""
        self.ids = [*(self.ids if cache is not None else ()), *ids]
        border = getattr(self.model.config, "original_max_position_embeddings", None)
        if border and len(self.ids) > border >= len(self.ids) - len(ids):
            ids, cache = self.ids, None
        out = self.model(input_ids=torch.tensor([ids]), past_key_values=cache, use_cache=True)
        return out.logits[0, -1].float(), out.past_key_values

    def prompt(self, case):
        return self.tokenizer.encode(case["text"], add_special_tokens=True).ids, 0

    def first(self, ids, case):
        self.forget_growth()
        return self.step(ids, None)

    def forget_growth(self):
        """Dynamic rope's frequencies stay, in transformers, those of the longest prompt so far."""
        for rope in self.model.modules():
            if getattr(rope, "rope_type", None) == "dynamic":
                rope.inv_freq, rope.max_seq_len_cached = rope.original_inv_freq, rope.original_max_seq_len


def head_dim_of(path):
    from gguf import GGUFReader
    fields = GGUFReader(path).fields
    architecture = fields["general.architecture"].contents()
    return int(fields[architecture + ".attention.key_length"].contents())


class RoundedModel(TextModel):
    """A quantised GGUF file whose linear layers round their inputs as the runtime does."""

    def __init__(self, path):
        from gguf import GGML_QUANT_SIZES, MODEL_ARCH, GGUFReader, get_tensor_name_map
        super().__init__(path)
        reader = GGUFReader(path)
        types = {t.name: t.tensor_type for t in reader.tensors}
        architecture = reader.fields["general.architecture"].contents()
        names = get_tensor_name_map(MODEL_ARCH[architecture.upper()], self.model.config.num_hidden_layers)
        for name, module in self.model.named_modules():
            if isinstance(module, torch.nn.Linear):
                kind = types.get(names.get_name(name) + ".weight", types["token_embd.weight"])
                block = GGML_QUANT_SIZES[kind][0]
                product = linear_q8_1 if kind.name in ("Q4_1", "Q5_1") else linear_rounded
                if block > 1:
                    module.forward = functools.partial(product, module, block=block)


def levels(x, block):
    """Nearest of 255 levels, and the step between them, for blocks of the last axis."""
    blocks = x.reshape(*x.shape[:-1], -1, block)
    largest = blocks.abs().amax(-1, keepdim=True).clamp(min=1e-30)
    return torch.round(blocks * (127 / largest)), largest / 127


def f16(x):
    return x.half().float()


def linear_rounded(module, x, block):
    """Blocks of 32 with an f16 step, or of 256 with an f32 step (ggml's q8_0 and q8_K)."""
    q, step = levels(x, block)
    return F.linear((q * (f16(step) if block == 32 else step)).reshape(x.shape), module.weight, module.bias)


def linear_q8_1(module, x, block):
    """Weights of q4_1 and q5_1 are step * code + minimum. The minimum meets the sum of the block of x, which q8_1 keeps as an f16
    of its own, made with the unrounded step: sum of w x = (as for q8_0) + minimum * (kept sum - sum of the rounded x)."""
    q, step = levels(x, block)
    exact, kept = f16(step) * q.sum(-1, keepdim=True), f16(step * q.sum(-1, keepdim=True))
    minimum = module.weight.reshape(module.out_features, -1, block).amin(-1)  # each block has an element of code 0
    return linear_rounded(module, x, block) + (kept - exact).squeeze(-1) @ minimum.T


class ImageModel(TextModel):
    """LLaVA and LLaVA-NeXT. Pixels by the Pillow backend of the image processor."""

    def __init__(self, path):
        from transformers import AutoModelForImageTextToText, AutoImageProcessor
        self.model = AutoModelForImageTextToText.from_pretrained(path, dtype=torch.float32, attn_implementation="eager",
                                                                 experts_implementation="eager")
        self.model.eval()
        text = self.model.config.text_config
        if text.model_type == "granite":  # as Granite alone, and transformers before 4.52; since then LLaVA-NeXT leaves it out
            self.model.lm_head.register_forward_hook(lambda module, inputs, logits: logits / text.logits_scaling)
        self.tokenizer = tokenizer_of(path)
        self.processor = AutoImageProcessor.from_pretrained(path, backend="pil")
        self.image_token = self.model.config.image_token_id

    def inputs(self, case):
        if not pictures_of(case):
            return {}
        pictures = [Image.open(os.path.join(FOLDER, f)).convert("RGB") for f in pictures_of(case)]
        batch = self.processor(images=pictures, return_tensors="pt")
        return {k: batch[k] for k in ("pixel_values", "image_sizes") if k in batch}

    def prompt(self, case):
        inputs = self.inputs(case)
        counts = [len(f) for f in self.model.get_image_features(**inputs).pooler_output] if inputs else []
        return pieces_to_ids(self.tokenizer, render(case), counts, self.image_token), sum(counts)

    def first(self, ids, case):
        out = self.model(input_ids=torch.tensor([ids]), use_cache=True, **self.inputs(case))
        return out.logits[0, -1].float(), out.past_key_values


class OneVision(ImageModel):
    """LLaVA-OneVision: pictures of a conversation together, as its processor takes them from a chat; videos by the video
    processor, which is torchvision's."""

    def __init__(self, path):
        from transformers import AutoVideoProcessor
        super().__init__(path)
        self.videos = AutoVideoProcessor.from_pretrained(path)

    def inputs(self, case):
        parts = [p for m in case.get("messages", []) for p in m["parts"]]
        pictures = [open_picture(p["image"]) for p in parts if "image" in p]
        frames = [[open_picture(f) for f in p["frames"]] for p in parts if "frames" in p]
        batch = dict(self.processor(images=[pictures], return_tensors="pt")) if pictures else {}
        if frames:
            pixels = [torch.stack([torch.from_numpy(np.asarray(f)).permute(2, 0, 1) for f in v]) for v in frames]
            batch.update(self.videos(videos=pixels, return_tensors="pt", do_sample_frames=False))
        return {k: v for k, v in batch.items() if k != "video_metadata"}

    def counts(self, batch):
        """Rows of the pictures, and of the videos."""
        own = lambda *keys: {k: batch[k] for k in keys if k in batch}
        pictures = own("pixel_values", "image_sizes", "batch_num_images")
        videos = own("pixel_values_videos")
        return ([len(f) for f in self.model.get_image_features(**pictures).pooler_output] if pictures else [],
                [len(f) for f in self.model.get_video_features(**videos).pooler_output] if videos else [])

    def prompt(self, case):
        pictures, videos = map(iter, self.counts(self.inputs(case)))
        kinds = [i for m in case.get("messages", []) for p in m["parts"] for i in ("image", "frames") if i in p]
        counts = [next(pictures if k == "image" else videos) for k in kinds]
        tokens = [self.config.image_token_id if k == "image" else self.config.video_token_id for k in kinds]
        return with_tokens(pieces_to_ids(self.tokenizer, render(case, joined=True), counts, IMAGE_MARK), tokens), sum(counts)

    @property
    def config(self):
        return self.model.config


class NextVideo(OneVision):
    """LLaVA-NeXT-Video. Videos of a conversation have one number of frames: transformers takes them as one array."""

    def __init__(self, path):
        from transformers.models.llava_next_video.video_processing_llava_next_video import LlavaNextVideoVideoProcessor
        ImageModel.__init__(self, path)
        self.videos = LlavaNextVideoVideoProcessor.from_pretrained(path)  # by its class: one of the two files may be missing

    def inputs(self, case):
        parts = [p for m in case.get("messages", []) for p in m["parts"]]
        pictures = [open_picture(p["image"]) for p in parts if "image" in p]
        videos = [torch.stack([torch.from_numpy(np.asarray(open_picture(f))).permute(2, 0, 1) for f in p["frames"]])
                  for p in parts if "frames" in p]
        batch = dict(self.processor(images=pictures, return_tensors="pt")) if pictures else {}
        if videos:
            batch.update(self.videos(videos=videos, return_tensors="pt", do_sample_frames=False))
        return {k: batch[k] for k in ("pixel_values", "image_sizes", "pixel_values_videos") if k in batch}


class InternVL(ImageModel):
    """InternVL by transformers' own processor; pictures by its Pillow backend, videos are torchvision's. Where a case
    names no chat format, the folder's template writes the conversation."""

    def __init__(self, path):
        from transformers import AutoVideoProcessor, InternVLProcessor, PreTrainedTokenizerFast
        super().__init__(path)
        names = {"start_image_token": "<img>", "end_image_token": "</img>", "context_image_token": "<IMG_CONTEXT>",
                 "video_token": "<video>"}
        if os.path.exists(os.path.join(path, "tokenizer_config.json")):
            names.update(read_json(path, "tokenizer_config.json")["extra_special_tokens"])
        self.video = names["video_token"]
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=os.path.join(path, "tokenizer.json"), extra_special_tokens=names)
        with open(os.path.join(path, "chat_template.jinja")) as f:
            template = f.read()
        length = read_json(path, "processor_config.json")["image_seq_length"]
        self.whole = InternVLProcessor(self.processor, tokenizer, AutoVideoProcessor.from_pretrained(path),
                                       image_seq_length=length, chat_template=template)

    def text(self, case):
        if case.get("chat_format", "plain") is not None:
            parts = [p for m in case.get("messages", []) for p in m["parts"] if "text" not in p]
            marks = iter(["<IMG_CONTEXT>" if "image" in p else self.video for p in parts])
            return "".join(next(marks) if p is IMAGE_MARK else p for p in render(case, joined=True))
        kinds = {"image": "image", "frames": "video", "text": "text"}
        messages = [{"role": m["role"], "content": [{"type": kinds[k], k: v} for p in m["parts"] for k, v in p.items()]}
                    for m in case["messages"]]
        return self.whole.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)

    def inputs(self, case):
        parts = [p for m in case.get("messages", []) for p in m["parts"]]
        pictures = [open_picture(p["image"]) for p in parts if "image" in p]
        videos = [torch.stack([torch.from_numpy(np.asarray(open_picture(f))).permute(2, 0, 1) for f in p["frames"]])
                  for p in parts if "frames" in p]
        batch = self.whole(text=self.text(case), images=pictures or None, videos=videos or None, return_tensors="pt")
        return {k: batch[k] for k in ("input_ids", "pixel_values") if k in batch}

    def prompt(self, case):
        ids = self.inputs(case)["input_ids"][0].tolist()
        return ids, sum(i == self.image_token for i in ids)

    def first(self, ids, case):
        out = self.model(use_cache=True, **self.inputs(case))
        return out.logits[0, -1].float(), out.past_key_values


class InternVLChat(ImageModel):
    """InternVL in the original code's layout, which transformers has no class for: the weights are those of the folder in
    transformers' layout that config.json names. Tiles and texts by the rules of the model cards' load_image, load_video and
    chat, written anew."""

    MEAN, STD = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    SYSTEM = "你是书生·万象，英文名是InternVL，是由上海人工智能实验室、清华大学及多家合作单位联合开发的多模态大语言模型。"

    def __init__(self, path):
        from transformers import AutoModelForImageTextToText
        self.config = read_json(path, "config.json")
        twin = os.path.join(FOLDER, self.config["_name_or_path"])
        self.model = AutoModelForImageTextToText.from_pretrained(twin, dtype=torch.float32, attn_implementation="eager",
                                                                 experts_implementation="eager")
        self.model.eval()
        self.tokenizer = tokenizer_of(path)
        self.image_token = self.tokenizer.token_to_id("<IMG_CONTEXT>")
        side = self.config["vision_config"]["image_size"] // self.config["vision_config"]["patch_size"]
        self.n_rows = int(side ** 2 * self.config["downsample_ratio"] ** 2)

    def tiles(self, picture, most):
        size, low = self.config["vision_config"]["image_size"], self.config["min_dynamic_patch"]
        if not self.config["dynamic_image_size"]:
            most = 1
        low = min(low, most)
        shape, area = picture.width / picture.height, picture.width * picture.height
        grids = {(w, h) for w in range(1, most + 1) for h in range(1, most + 1) if low <= w * h <= most}
        best, least = (1, 1), float("inf")
        for w, h in sorted(grids, key=lambda g: g[0] * g[1]):
            difference = abs(shape - w / h)
            if difference < least or difference == least and area > 0.5 * size * size * w * h:
                best, least = (w, h), difference
        whole = picture.resize((size * best[0], size * best[1]))
        out = [whole.crop((x * size, y * size, (x + 1) * size, (y + 1) * size)) for y in range(best[1]) for x in range(best[0])]
        return out + [picture.resize((size, size))] if self.config["use_thumbnail"] and len(out) > 1 else out

    def media(self, case):
        """For each picture and video its list of pictures' tiles."""
        for part in (p for m in case.get("messages", []) for p in m["parts"]):
            if "image" in part:
                yield part, [self.tiles(open_picture(part["image"]), self.config["max_dynamic_patch"])]
            if "frames" in part:
                yield part, [self.tiles(open_picture(f), 1) for f in part["frames"]]

    def text(self, case):
        if "text" in case:
            return case["text"]
        shown, plain = self.media(case), case["chat_format"] == "plain"
        mark = lambda tiles: "<img>" + "<IMG_CONTEXT>" * (self.n_rows * len(tiles)) + "</img>\n"
        out, turns = "", list(case["messages"])
        if not plain and turns[0]["role"] != "system":
            turns.insert(0, {"role": "system", "parts": [{"text": self.SYSTEM}]})
        for m in turns:
            out += "" if plain else f"<|im_start|>{m['role']}\n"
            for part in m["parts"]:
                if "text" in part:
                    out += part["text"]
                    continue
                pictures = next(shown)[1]
                out += "".join((f"Frame{i + 1}: " if "frames" in part else "") + mark(t) for i, t in enumerate(pictures))
            out += "" if plain else "<|im_end|>\n"
        return out + ("" if plain else "<|im_start|>assistant\n")

    def inputs(self, case):
        tiles = [t for _, pictures in self.media(case) for p in pictures for t in p]
        if not tiles:
            return {}
        pixels = torch.stack([torch.from_numpy(np.array(t)).float() / 255 for t in tiles])
        return {"pixel_values": ((pixels - self.MEAN) / self.STD).permute(0, 3, 1, 2)}

    def prompt(self, case):
        ids = self.tokenizer.encode(self.text(case), add_special_tokens=True).ids
        return ids, ids.count(self.image_token)


class LongVA(TextModel):
    """LongVA has no class in transformers: Qwen2 and CLIP from there, joined by the rules of its paper and code
    (arXiv:2406.16852): the tower's chosen hidden state without the class token, the projector, then a 2 x 2 average
    of each tile's grid; a picture's tiles follow one another without the overview tile, a video's frames too."""

    IMAGE = -200

    def __init__(self, path):
        from safetensors.torch import load_file
        from transformers import CLIPVisionConfig, CLIPVisionModel, Qwen2Config, Qwen2ForCausalLM
        self.config = config = read_json(path, "config.json")
        tower = os.path.join(path, "vision_tower")
        vision = read_json(tower, "config.json")
        weights = load_file(os.path.join(path, "model.safetensors"))
        own = "model.vision_tower.vision_tower."
        if not any(k.startswith(own) for k in weights):
            weights.update({own + k: v for k, v in load_file(os.path.join(tower, "model.safetensors")).items()})
        text = {k: v for k, v in config.items() if not k.startswith("mm_") and k not in ("model_type", "architectures")}
        self.model = Qwen2ForCausalLM(Qwen2Config(**text, attn_implementation="eager")).float().eval()
        self.tower = CLIPVisionModel(CLIPVisionConfig(**vision, attn_implementation="eager")).float().eval()
        strict_load(self.tower, {k.removeprefix(own).removeprefix("vision_model."): v
                                 for k, v in weights.items() if k.startswith(own)}, "post_layernorm")
        strict_load(self.model, {k: v for k, v in weights.items() if "vision_tower" not in k and "mm_projector" not in k},
                    "lm_head")
        self.model.tie_weights()
        self.projector = [weights[f"model.mm_projector.{i}.{n}"].float() for i in (0, 2) for n in ("weight", "bias")]
        self.tokenizer = tokenizer_of(path)
        self.size = vision["image_size"]
        self.side = vision["image_size"] // vision["patch_size"]

    def clip(self, picture):
        from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
        p = CLIPImageProcessorPil(size={"shortest_edge": self.size}, crop_size={"height": self.size, "width": self.size})
        return p(images=[picture], return_tensors="pt")["pixel_values"]

    def features(self, pictures):
        pixels = torch.cat([self.clip(p) for p in pictures])
        hidden = self.tower(pixels, output_hidden_states=True).hidden_states[self.config["mm_vision_select_layer"]][:, 1:]
        w1, b1, w2, b2 = self.projector
        x = torch.nn.functional.gelu(hidden @ w1.T + b1) @ w2.T + b2
        n, _, d = x.shape
        grid = x.view(n, self.side, self.side, d).permute(0, 3, 1, 2)
        pooled = torch.nn.functional.avg_pool2d(grid, self.config["mm_spatial_pool_stride"])
        return pooled.permute(0, 2, 3, 1).reshape(-1, d)

    def tiles(self, picture):
        best = best_resolution(picture.size, self.config["image_grid_pinpoints"])
        padded = fit_and_pad(picture, best)
        return [padded.crop((x, y, x + self.size, y + self.size))
                for y in range(0, best[1], self.size) for x in range(0, best[0], self.size)]

    def items(self, case):
        """For each placeholder its visual rows."""
        out = []
        for part in (p for m in case.get("messages", []) for p in m["parts"]):
            if "image" in part:
                out.append(self.features(self.tiles(Image.open(os.path.join(FOLDER, part["image"])).convert("RGB"))))
            if "frames" in part:
                out.append(self.features([Image.open(os.path.join(FOLDER, f)).convert("RGB") for f in part["frames"]]))
        return out

    def prompt(self, case):
        counts = [len(f) for f in self.items(case)]
        return pieces_to_ids(self.tokenizer, render(case, joined=True), counts, self.IMAGE), sum(counts)

    def first(self, ids, case):
        ids = torch.tensor(ids)
        rows = self.model.get_input_embeddings()(ids.clamp(min=0))
        visual = self.items(case)
        if visual:
            rows[ids == self.IMAGE] = torch.cat(visual)
        out = self.model(inputs_embeds=rows[None], use_cache=True)
        return out.logits[0, -1].float(), out.past_key_values


class QwenVL(TextModel):
    """Qwen2-VL and Qwen2.5-VL. Pictures by the Pillow backend of the image processor; videos by the video processor,
    which is torchvision's. Numbers of the rows are given: transformers from 5.3 on lets what follows a video go on at
    the grid's longer side; the models were trained to go on behind the largest number, as its versions before did.
    A case with "positions": "grid" has transformers' own, which are checked against these rules here."""

    def __init__(self, path):
        from transformers import AutoModelForImageTextToText, AutoImageProcessor, AutoVideoProcessor
        self.model = AutoModelForImageTextToText.from_pretrained(path, dtype=torch.float32, attn_implementation="eager",
                                                                  experts_implementation="eager")
        self.model.eval()
        self.tokenizer = tokenizer_of(path)
        self.processor = AutoImageProcessor.from_pretrained(path, backend="pil")
        self.videos = AutoVideoProcessor.from_pretrained(path)
        self.config = self.model.config
        self.seconds = self.config.vision_config.temporal_patch_size / 2  # of a cell; frames are half a second apart

    def inputs(self, case):
        parts = [p for m in case.get("messages", []) for p in m["parts"]]
        pictures = [open_picture(p["image"]) for p in parts if "image" in p]
        frames = [[open_picture(f) for f in p["frames"]] for p in parts if "frames" in p]
        batch = dict(self.processor(images=pictures, return_tensors="pt")) if pictures else {}
        for video in frames:
            pixels = torch.stack([torch.from_numpy(np.asarray(f)).permute(2, 0, 1) for f in video])
            one = self.videos(videos=[pixels], return_tensors="pt", do_sample_frames=False)
            for key in ("pixel_values_videos", "video_grid_thw"):
                batch[key] = torch.cat([batch[key], one[key]]) if key in batch else one[key]
        return batch

    def grids(self, case, batch):
        """(kind, (t, h, w) of merged cells) in the order of the parts; kind 1 is a picture, 2 a video."""
        merge = self.config.vision_config.spatial_merge_size
        pictures, videos = iter(batch.get("image_grid_thw", [])), iter(batch.get("video_grid_thw", []))
        for part in (p for m in case.get("messages", []) for p in m["parts"]):
            if "image" in part or "frames" in part:
                kind = 1 if "image" in part else 2
                t, h, w = next(pictures if kind == 1 else videos).tolist()
                yield kind, (t, h // merge, w // merge)

    def prompt(self, case):
        grids = list(self.grids(case, self.inputs(case)))
        tokens = [self.config.image_token_id if kind == 1 else self.config.video_token_id for kind, _ in grids]
        counts = [t * h * w for _, (t, h, w) in grids]
        ids = pieces_to_ids(self.tokenizer, render(case, joined=True), counts, IMAGE_MARK)
        return with_tokens(ids, tokens), sum(counts)

    def number(self, ids, case, grids):
        """Numbers [3][n] of the rows, and that of the first step."""
        step = getattr(self.config.vision_config, "tokens_per_second", 0)
        next_number, rows, i, grids = 0, [], 0, iter(grids)
        while i < len(ids):
            if ids[i] not in (self.config.image_token_id, self.config.video_token_id):
                rows.append([next_number] * 3)
                next_number, i = next_number + 1, i + 1
                continue
            kind, (t, h, w) = next(grids)
            stride = step * self.seconds if kind == 2 and step and t > 0 and n_frames_of(case) > 1 else 1
            cells = [[next_number + int(a * stride), next_number + b, next_number + c]
                     for a in range(t) for b in range(h) for c in range(w)]
            by_grid = case.get("positions") == "grid"
            next_number = next_number + max(h, w) if by_grid else max(map(max, cells)) + 1
            rows += cells
            i += len(cells)
        return torch.tensor(rows).T, max(map(max, rows)) + 1

    def first(self, ids, case):
        batch = self.inputs(case)
        numbers, self.next_number = self.number(ids, case, list(self.grids(case, batch)))
        tokens = torch.tensor([ids])
        if case.get("positions") == "grid":
            kinds = (tokens == self.config.image_token_id) * 1 + (tokens == self.config.video_token_id) * 2
            seconds = {"second_per_grid_ts": torch.full((8,), self.seconds)} if hasattr(self.config.vision_config, "tokens_per_second") else {}
            own, _ = self.model.model.get_rope_index(tokens, mm_token_type_ids=kinds, **seconds,
                                                     **{k: v for k, v in batch.items() if k.endswith("thw")})
            assert torch.equal(own[:, 0], numbers), "the rule is not transformers'"
        out = self.model(input_ids=tokens, position_ids=numbers[:, None], use_cache=True, **batch)
        return out.logits[0, -1].float(), out.past_key_values

    def step(self, ids, cache):
        out = self.model(input_ids=torch.tensor([ids]), past_key_values=cache, use_cache=True,
                         position_ids=torch.full((3, 1, 1), self.next_number))
        self.next_number += 1
        return out.logits[0, -1].float(), out.past_key_values


def with_tokens(ids, tokens):
    """Each run of IMAGE_MARKs as the next of the tokens."""
    out, before, tokens = [], None, iter(tokens)
    for i in ids:
        if i is IMAGE_MARK and before is not IMAGE_MARK:
            token = next(tokens)
        out.append(token if i is IMAGE_MARK else i)
        before = i
    return out


class Qwen3VL(QwenVL):
    """Qwen3-VL: each step of a video's time stands behind its seconds, as in transformers 4.57, which puts "<0.2 seconds>",
    the start of vision, the step's tokens and the end of vision in the place of the template's start, video token and
    end. From 5.10 on transformers leaves the template's start and end around them all: "keep_video_marks". Numbers of the
    rows are transformers' own."""

    def video(self, t, h, w, n_frames):
        """Texts and tokens of a video of t steps; frames are half a second apart, and a step's time is the middle of its first and last."""
        each = self.config.vision_config.temporal_patch_size
        for step in range(t):
            times = [min(each * step + k, n_frames - 1) / 2 for k in (0, each - 1)]
            yield f"<{sum(times) / 2:.1f} seconds>"
            yield self.config.vision_start_token_id
            yield from [self.config.video_token_id] * (h * w)
            yield self.config.vision_end_token_id

    def prompt(self, case):
        grids = iter(self.grids(case, self.inputs(case)))
        ids, text, n_visual = [], "", 0
        parts = iter([p for m in case.get("messages", []) for p in m["parts"] if "text" not in p])
        for piece in render(case, joined=True):
            if isinstance(piece, str):
                text += piece
                continue
            (kind, (t, h, w)), part = next(grids), next(parts)
            n_visual += t * h * w
            made = [self.config.image_token_id] * (h * w) if kind == 1 else self.video(t, h, w, len(part["frames"]))
            if case["chat_format"] == MARKS and (kind == 1 or case.get("keep_video_marks")):
                made = [self.config.vision_start_token_id, *made, self.config.vision_end_token_id]
            for each in made:
                if isinstance(each, str):
                    text += each
                    continue
                ids += self.tokenizer.encode(text, add_special_tokens=False).ids + [each]
                text = ""
        return ids + self.tokenizer.encode(text, add_special_tokens=False).ids, n_visual

    def first(self, ids, case):
        batch = self.inputs(case)
        tokens = torch.tensor([ids])
        kinds = (tokens == self.config.image_token_id) * 1 + (tokens == self.config.video_token_id) * 2
        numbers, delta = self.model.model.get_rope_index(tokens, kinds, **{k: v for k, v in batch.items() if k.endswith("thw")})
        self.next_number = len(ids) + int(delta[0, 0])
        out = self.model(input_ids=tokens, position_ids=numbers, use_cache=True, **batch)
        return out.logits[0, -1].float(), out.past_key_values


class Glm4v(TextModel):
    """GLM-4.1V, GLM-4.6V and GLM-OCR by their own processors, pictures by the Pillow backend; frames stand half a second apart. Numbers of
    the rows are transformers' own."""

    def __init__(self, path):
        import transformers
        self.model = transformers.AutoModelForImageTextToText.from_pretrained(
            path, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager")
        self.model.eval()
        self.tokenizer = tokenizer_of(path)
        own = transformers.PreTrainedTokenizerFast(tokenizer_object=self.tokenizer)
        with open(os.path.join(path, "chat_template.jinja")) as f:
            template = f.read()
        kind = read_json(path, "preprocessor_config.json")["processor_class"]
        self.processor = getattr(transformers, kind)(
            transformers.AutoImageProcessor.from_pretrained(path, backend="pil"), own,
            transformers.AutoVideoProcessor.from_pretrained(path), chat_template=template)

    def text(self, case):
        if case.get("chat_format") == "plain":
            parts = iter([p for m in case["messages"] for p in m["parts"] if "text" not in p])
            mark = lambda p: "<|image|>" if "image" in p else "<|begin_of_video|><|video|><|end_of_video|>"
            return "".join(mark(next(parts)) if p is IMAGE_MARK else p for p in render(case, joined=True))
        kinds = {"image": "image", "frames": "video", "text": "text"}
        chat = [{"role": m["role"], "content": [{"type": kinds[k], "text": v} for p in m["parts"] for k, v in p.items()]}
                for m in case["messages"]]
        return self.processor.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)

    def inputs(self, case):
        from transformers.video_utils import VideoMetadata
        if "text" in case:
            return {"input_ids": torch.tensor([super().prompt(case)[0]])}
        parts = [p for m in case["messages"] for p in m["parts"]]
        pictures = [open_picture(p["image"]) for p in parts if "image" in p]
        videos = [[open_picture(f) for f in p["frames"]] for p in parts if "frames" in p]
        frames = [torch.stack([torch.from_numpy(np.asarray(f)).permute(2, 0, 1) for f in v + v[-1:] * (len(v) % 2)]) for v in videos]
        about = [VideoMetadata(total_num_frames=len(v), fps=2.0, frames_indices=[min(i, len(v) - 1) for i in range(len(f))])
                 for v, f in zip(videos, frames)]
        more = dict(videos=frames, video_metadata=about, do_sample_frames=False) if videos else {}
        batch = self.processor(text=[self.text(case)], images=pictures or None, return_tensors="pt", **more)
        return {k: v for k, v in batch.items() if k not in ("attention_mask", "video_metadata")}

    def prompt(self, case):
        ids = self.inputs(case)["input_ids"][0].tolist()
        return ids, ids.count(self.model.config.image_token_id)

    def first(self, ids, case):
        batch = self.inputs(case)
        kinds, grids = batch.get("mm_token_type_ids"), {k: v for k, v in batch.items() if k.endswith("thw")}
        numbers, delta = self.model.model.get_rope_index(batch["input_ids"], torch.zeros_like(batch["input_ids"]) if kinds is None
                                                         else kinds, **grids)
        self.next_number = len(ids) + int(delta[0, 0])
        if "pixel_values" in batch and "pixel_values_videos" in batch:
            batch = {"inputs_embeds": self.rows(batch)}
        out = self.model(position_ids=numbers, use_cache=True, **batch)
        return out.logits[0, -1].float(), out.past_key_values

    def rows(self, batch):
        """Of a prompt with pictures and videos, whose rows transformers' forward cannot tell apart: each kind by its own."""
        rows, kinds = self.model.get_input_embeddings()(batch["input_ids"]), batch["mm_token_type_ids"]
        pictures = self.model.get_image_features(batch["pixel_values"], batch["image_grid_thw"]).pooler_output
        videos = self.model.get_video_features(batch["pixel_values_videos"], batch["video_grid_thw"]).pooler_output
        for kind, features in ((1, pictures), (2, videos)):
            rows[kinds == kind] = torch.cat(list(features))
        return rows

    step = QwenVL.step


class PaddleOcr(Glm4v):
    """PaddleOCR-VL by its own processor, pictures by the Pillow backend; frames of a video are pictures."""

    def __init__(self, path):
        import transformers
        self.model = transformers.AutoModelForImageTextToText.from_pretrained(path, dtype=torch.float32, attn_implementation="eager")
        self.model.eval()
        self.tokenizer = tokenizer_of(path)
        with open(os.path.join(path, "chat_template.jinja")) as f:
            template = f.read()
        names = read_json(path, "tokenizer_config.json")["extra_special_tokens"]
        self.processor = transformers.PaddleOCRVLProcessor(
            transformers.AutoImageProcessor.from_pretrained(path, backend="pil"),
            transformers.PreTrainedTokenizerFast(tokenizer_object=self.tokenizer, extra_special_tokens=names), chat_template=template)

    def inputs(self, case):
        if "text" in case:
            return {"input_ids": torch.tensor([TextModel.prompt(self, case)[0]])}
        chat = []
        for m in case["messages"]:
            content = []
            for p in m["parts"]:
                content += [{"type": "text", "text": p["text"]}] if "text" in p else [{"type": "image"}] * len(p.get("frames", [0]))
            chat.append({"role": m["role"], "content": content})
        text = self.processor.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
        pictures = [open_picture(f) for f in pictures_of(case)]
        batch = self.processor(text=[text], images=pictures or None, return_tensors="pt")
        return {k: batch[k] for k in ("input_ids", "pixel_values", "image_grid_thw", "mm_token_type_ids") if k in batch}


class MiniCPMV(TextModel):
    """MiniCPM-V 4.6, prompts by its processor, pictures by the Pillow backend."""

    def __init__(self, path):
        import transformers
        from transformers.models.minicpmv4_6.video_processing_minicpmv4_6 import MiniCPMV4_6VideoProcessor
        self.model = transformers.AutoModelForImageTextToText.from_pretrained(path, dtype=torch.float32, attn_implementation="eager")
        self.model.eval()
        self.tokenizer = tokenizer_of(path)
        names = read_json(path, "tokenizer_config.json")["extra_special_tokens"]
        with open(os.path.join(path, "chat_template.jinja")) as f:
            template = f.read()
        self.processor = transformers.MiniCPMV4_6Processor(
            transformers.AutoImageProcessor.from_pretrained(path, backend="pil"), MiniCPMV4_6VideoProcessor.from_pretrained(path),
            transformers.PreTrainedTokenizerFast(tokenizer_object=self.tokenizer, pad_token="<|endoftext|>",
                                                 extra_special_tokens=names), chat_template=template)
        self.visual = {self.model.config.image_token_id, self.model.config.video_token_id}

    def inputs(self, case):
        if "text" in case:
            return {"input_ids": torch.tensor([super().prompt(case)[0]])}
        parts = [p for m in case["messages"] for p in m["parts"]]
        pictures = [open_picture(p["image"]) for p in parts if "image" in p]
        videos = [torch.stack([torch.from_numpy(np.asarray(open_picture(f))).permute(2, 0, 1) for f in p["frames"]])
                  for p in parts if "frames" in p]
        kinds = {"image": "image", "frames": "video", "text": "text"}
        chat = [{"role": m["role"], "content": [{"type": kinds[k], "text": v} for p in m["parts"] for k, v in p.items()]}
                for m in case["messages"]]
        text = self.processor.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
        more = {"videos": videos, "do_sample_frames": False} if videos else {}
        batch = self.processor(text=[text], images=pictures or None, return_tensors="pt", **more)
        return {k: v for k, v in batch.items() if k in ("input_ids", "pixel_values", "target_sizes", "pixel_values_videos", "target_sizes_videos")}

    def prompt(self, case):
        ids = self.inputs(case)["input_ids"][0].tolist()
        return ids, sum(i in self.visual for i in ids)

    def first(self, ids, case):
        out = self.model(use_cache=True, **self.inputs(case))
        return out.logits[0, -1].float(), out.cache

    def step(self, ids, cache):
        out = self.model(input_ids=torch.tensor([ids]), cache=cache, use_cache=True)
        return out.logits[0, -1].float(), out.cache


class SmolVLM(TextModel):
    """SmolVLM and Idefics3, prompts by their processors; these put pictures and videos into one place, so that their pixels
    are made one by one. Idefics3 has no videos of its own: its frames are SmolVLM's."""

    def __init__(self, path):
        from transformers import AutoImageProcessor, AutoModelForImageTextToText, PreTrainedTokenizerFast
        from transformers import SmolVLMProcessor, SmolVLMVideoProcessor
        self.model = AutoModelForImageTextToText.from_pretrained(path, dtype=torch.float32, attn_implementation="eager")
        self.model.eval()
        self.tokenizer = tokenizer_of(path)
        with open(os.path.join(path, "chat_template.jinja")) as f:
            template = f.read()
        self.processor = SmolVLMProcessor(
            AutoImageProcessor.from_pretrained(path, backend="pil"), PreTrainedTokenizerFast(tokenizer_object=self.tokenizer),
            SmolVLMVideoProcessor.from_pretrained(path), read_json(path, "processor_config.json")["image_seq_len"], template)
        self.processor.image_token_id = self.model.config.image_token_id

    def media(self, case):
        return [p for m in case.get("messages", []) for p in m["parts"] if "text" not in p]

    def video(self, part):
        """Frames that stand half a second apart."""
        from transformers.video_utils import VideoMetadata
        n = len(part["frames"])
        frames = torch.stack([torch.from_numpy(np.asarray(open_picture(f))).permute(2, 0, 1) for f in part["frames"]])
        about = VideoMetadata(total_num_frames=n, fps=2.0, frames_indices=list(range(n)))
        return dict(videos=[frames], video_metadata=[about], do_sample_frames=False)

    def pixels(self, case):
        """[1][pictures][3][side][side] in the order of the prompt."""
        out = []
        for part in self.media(case):
            if "image" in part:
                one = self.processor.image_processor(images=[open_picture(part["image"])], return_tensors="pt")
            else:
                one = self.processor.video_processor(return_tensors="pt", **self.video(part))
            assert one["pixel_attention_mask"].all()
            out.append(one["pixel_values"][0])
        return {"pixel_values": torch.cat(out)[None]} if out else {}

    def prompt(self, case):
        if "text" in case:
            return super().prompt(case)
        kind = lambda p: {"type": "text", "text": p["text"]} if "text" in p else {"type": "image" if "image" in p else "video"}
        chat = [{"role": m["role"], "content": [kind(p) for p in m["parts"]]} for m in case["messages"]]
        text = self.processor.apply_chat_template(chat, add_generation_prompt=True)
        pictures = [open_picture(p["image"]) for p in self.media(case) if "image" in p]
        videos = [self.video(p) for p in self.media(case) if "frames" in p]
        more = {"images": [pictures]} if pictures else {}
        if videos:
            more.update(videos=[v["videos"][0] for v in videos], do_sample_frames=False,
                        video_metadata=[v["video_metadata"][0] for v in videos])
        ids = self.processor(text=[text], return_tensors="pt", **more)["input_ids"][0].tolist()
        return ids, ids.count(self.model.config.image_token_id)

    def first(self, ids, case):
        out = self.model(input_ids=torch.tensor([ids]), use_cache=True, **self.pixels(case))
        return out.logits[0, -1].float(), out.past_key_values


class Gemma3(TextModel):
    """Gemma 3, prompts and pictures by its processor; pan and scan as preprocessor_config.json says, in whose place the
    processor would put its own."""

    def __init__(self, path):
        from transformers import AutoImageProcessor, AutoModelForImageTextToText, AutoTokenizer, Gemma3Processor
        self.model = AutoModelForImageTextToText.from_pretrained(path, dtype=torch.float32, attn_implementation="eager")
        self.model.eval()
        with open(os.path.join(path, "chat_template.jinja")) as f:
            template = f.read()
        self.processor = Gemma3Processor(AutoImageProcessor.from_pretrained(path, backend="pil"), AutoTokenizer.from_pretrained(path),
                                         template, read_json(path, "processor_config.json")["image_seq_length"])
        self.tokenizer = tokenizer_of(path)
        self.pan = {k: v for k, v in read_json(path, "preprocessor_config.json").items() if "pan_and_scan" in k and v is not None}

    def inputs(self, case):
        if "text" in case:
            return {"input_ids": torch.tensor([super().prompt(case)[0]])}
        kind = lambda p: {"type": "text", "text": p["text"]} if "text" in p else {"type": "image"}
        parts = [p for m in case["messages"] for p in m["parts"]]
        pictures = [open_picture(p["image"]) for p in parts if "image" in p]
        chat = [{"role": m["role"], "content": [kind(p) for p in m["parts"]]} for m in case["messages"]]
        is_plain = case["chat_format"] == "plain"
        text = ("".join("<start_of_image>" if p is IMAGE_MARK else p for p in render(case, joined=True)) if is_plain else
                self.processor.apply_chat_template(chat, add_generation_prompt=True))
        batch = self.processor(text=[text], images=[pictures] if pictures else None, return_tensors="pt",
                               add_special_tokens=is_plain, **(self.pan if pictures else {}))
        return {k: batch[k] for k in ("input_ids", "pixel_values", "token_type_ids") if k in batch}

    def prompt(self, case):
        ids = self.inputs(case)["input_ids"][0].tolist()
        return ids, ids.count(self.model.config.image_token_id)

    def first(self, ids, case):
        out = self.model(use_cache=True, **self.inputs(case))
        return out.logits[0, -1].float(), out.past_key_values


class Pixtral(TextModel):
    """Pixtral and Mistral 3, prompts and pictures by their processor; frames of a video are pictures."""

    def __init__(self, path):
        from transformers import AutoImageProcessor, AutoModelForImageTextToText, PixtralProcessor, PreTrainedTokenizerFast
        self.model = AutoModelForImageTextToText.from_pretrained(path, dtype=torch.float32, attn_implementation="eager")
        self.model.eval()
        self.tokenizer = tokenizer_of(path)
        with open(os.path.join(path, "chat_template.jinja")) as f:
            template = f.read()
        said = read_json(path, "processor_config.json")
        self.processor = PixtralProcessor(
            AutoImageProcessor.from_pretrained(path, backend="pil"), PreTrainedTokenizerFast(tokenizer_object=self.tokenizer),
            said["patch_size"], said.get("spatial_merge_size", 1), template)

    def inputs(self, case):
        if "text" in case:
            return {"input_ids": torch.tensor([super().prompt(case)[0]])}
        chat = []
        for m in case["messages"]:
            content = []
            for p in m["parts"]:
                content += [{"type": "text", "text": p["text"]}] if "text" in p else [{"type": "image"}] * len(p.get("frames", [0]))
            chat.append({"role": m["role"], "content": content})
        text = self.processor.apply_chat_template(chat, add_generation_prompt=True)
        pictures = [open_picture(f) for f in pictures_of(case)]
        batch = self.processor(text=[text], return_tensors="pt", **({"images": [pictures]} if pictures else {}))
        return {k: batch[k] for k in ("input_ids", "pixel_values", "image_sizes") if k in batch}

    def prompt(self, case):
        ids = self.inputs(case)["input_ids"][0].tolist()
        n_visual = ids.count(self.model.config.image_token_id)
        if n_visual == 1:
            raise ValueError("transformers' Mistral 3 takes the one row of a lone visual token for its numbers")
        return ids, n_visual

    def first(self, ids, case):
        out = self.model(use_cache=True, **self.inputs(case))
        return out.logits[0, -1].float(), out.past_key_values


class LightOnOcr(Pixtral):
    """LightOnOCR, prompts and pictures by its processor; frames of a video are pictures."""

    def __init__(self, path):
        from transformers import AutoImageProcessor, AutoModelForImageTextToText, LightOnOcrProcessor, PreTrainedTokenizerFast
        self.model = AutoModelForImageTextToText.from_pretrained(path, dtype=torch.float32, attn_implementation="eager")
        self.model.eval()
        self.tokenizer = tokenizer_of(path)
        with open(os.path.join(path, "chat_template.jinja")) as f:
            template = f.read()
        said, names = read_json(path, "processor_config.json"), read_json(path, "tokenizer_config.json")["extra_special_tokens"]
        self.processor = LightOnOcrProcessor(
            AutoImageProcessor.from_pretrained(path, backend="pil"),
            PreTrainedTokenizerFast(tokenizer_object=self.tokenizer, extra_special_tokens=names),
            said["patch_size"], said["spatial_merge_size"], template)

    def prompt(self, case):
        ids = self.inputs(case)["input_ids"][0].tolist()
        return ids, ids.count(self.model.config.image_token_id)


def open_picture(file):
    return Image.open(os.path.join(FOLDER, file)).convert("RGB")


def n_frames_of(case):
    return max(len(p.get("frames", [])) for m in case["messages"] for p in m["parts"])


def strict_load(module, weights, may_miss):
    state = module.load_state_dict({k: v.float() for k, v in weights.items()}, strict=False)
    assert not state.unexpected_keys and all(may_miss in k for k in state.missing_keys), state


def best_resolution(size, pinpoints):
    """(width, height) of the pinpoint that shows most of the picture, then wastes least; pinpoints are (width, height)."""
    width, height = size
    best, best_key = None, None
    for w, h in pinpoints:
        scale = min(w / width, h / height)
        effective = min(int(width * scale) * int(height * scale), width * height)
        key = (effective, effective - w * h)
        if best_key is None or key > best_key:
            best, best_key = (w, h), key
    return best


def fit_and_pad(picture, target):
    """Scaled to touch two sides of the target, centred on black; Pillow's default filter, bicubic."""
    scale_w, scale_h = target[0] / picture.width, target[1] / picture.height
    if scale_w < scale_h:
        size = target[0], min(int(np.ceil(picture.height * scale_w)), target[1])
    else:
        size = min(int(np.ceil(picture.width * scale_h)), target[0]), target[1]
    out = Image.new("RGB", target, (0, 0, 0))
    out.paste(picture.resize(size), ((target[0] - size[0]) // 2, (target[1] - size[1]) // 2))
    return out


# ---------------------------------------------------------------- prompts

IMAGE_MARK = object()


def pictures_of(case):
    return [f for m in case.get("messages", []) for p in m["parts"]
            for f in ([p["image"]] if "image" in p else p.get("frames", []))]


def render(case, joined=False):
    """The conversation as texts and IMAGE_MARKs, in the formats that the goldens use, without the tokens of MARKS."""
    if "text" in case:
        return [case["text"]]
    plain, out = case["chat_format"] in ("plain", MARKS), []
    if case["chat_format"] in TURNS:
        return render_turns(case, *TURNS[case["chat_format"]])
    for m in case["messages"]:
        out.append("" if plain else "<|user|>" if m["role"] == "user" else "<|assistant|>")
        for part in m["parts"]:
            n = 1 if "image" in part or joined else len(part.get("frames", []))
            out += [part["text"]] if "text" in part else [IMAGE_MARK, "\n"] * n
        out.append("" if plain or m["role"] == "user" else "<|end|>")
    return out + ["" if plain else "<|assistant|>"]


TURNS = {  # what stands before a conversation, around a user's and an assistant's turn, and before the answer
    "chatml": ("<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n", ("<|im_start|>user\n", "<|im_end|>\n"),
               ("<|im_start|>assistant\n", "<|im_end|>\n"), "<|im_start|>assistant\n"),
    "vicuna": ("", ("USER: ", " "), ("ASSISTANT: ", " "), "ASSISTANT:"),
}


def render_turns(case, start, user, assistant, end):
    """Pictures and videos stand before a turn's texts, and are one placeholder each."""
    out = [start]
    for m in case["messages"]:
        before, after = user if m["role"] == "user" else assistant
        shown = [piece for p in m["parts"] if "text" not in p for piece in (IMAGE_MARK, "\n")]
        out += [before, *shown, *(p["text"] for p in m["parts"] if "text" in p), after]
    return out + [end]


def pieces_to_ids(tokenizer, pieces, counts, image_token):
    """Text between two pictures is tokenised as one."""
    ids, text, counts = [], "", list(counts)
    for p in pieces + [None]:
        if isinstance(p, str):
            text += p
            continue
        ids += tokenizer.encode(text, add_special_tokens=not ids).ids if text else []
        text = ""
        if p is IMAGE_MARK:
            ids += [image_token] * counts.pop(0)
    return ids


def text_case(name, text=TEXT):
    return {"name": name, "text": text}


def chat_case(name, *parts, chat_format="plain"):
    return {"name": name, "messages": [{"role": "user", "parts": list(parts)}], "chat_format": chat_format}


def question(text="What do you see in it?"):
    return {"text": text}


def image(file):
    return {"image": file}


FOUR_FRAMES = {"frames": ["tall.png", "wide.png", "square.png", "small.png"]}
FRAMES = {"frames": [f"frame{i}.png" for i in range(5)]}
QWEN3_VL = [
    text_case("text only", "Say something about owls."),
    chat_case("one picture", image("wide.png"), question()),
    chat_case("small and long pictures", image("small.png"), question("and"), image("long.png"), question("Which is wider?")),
    chat_case("five frames", FRAMES, question("What happens?")),
    chat_case("picture and frames", image("tall.png"), FRAMES, question("Is it in there?")),
    chat_case("picture and frames in marks", image("tall.png"), FRAMES, question("Is it in there?"), chat_format=MARKS),
    dict(chat_case("marks kept", image("tall.png"), FRAMES, question("Is it in there?"), chat_format=MARKS), keep_video_marks=True),
]
QWEN_VL = [
    text_case("text only", "Say something about owls."),
    chat_case("one picture", image("wide.png"), question()),
    chat_case("small and long pictures", image("small.png"), question("and"), image("long.png"), question("Which is wider?")),
    chat_case("five frames", FRAMES, question("What happens?")),
    chat_case("picture and frames", image("tall.png"), FRAMES, question("Is it in there?")),
    dict(chat_case("five frames, numbered by the grid", FRAMES, question("What happens?")), positions="grid"),
]
ONE_VISION = [
    text_case("text only", "Say something about owls."),
    *[chat_case(n, image(n + ".png"), question()) for n in ("wide", "tall", "square", "small", "long")],
    chat_case("two pictures", image("tall.png"), image("long.png"), question("Which is wider?")),
    chat_case("three pictures", image("small.png"), image("square.png"), image("wide.png"), question("Which is wider?")),
    chat_case("five frames", FRAMES, question("What happens?")),
    chat_case("one frame", {"frames": ["frame2.png"]}, question("What is it?")),
    chat_case("picture and frames", image("tall.png"), FRAMES, question("Is it in there?")),
    chat_case("frames and pictures", FRAMES, image("wide.png"), image("square.png"), question("Is it in there?")),
]
LLAVA_VIDEO = [
    *(c for c in ONE_VISION[:-1] if c["name"] not in ("square", "three pictures")),
    chat_case("two videos and a picture", FRAMES, {"frames": ["tall.png", "wide.png"]}, image("small.png"), question("Which?")),
    {"name": "turns", "chat_format": "chatml", "messages": [
        {"role": "user", "parts": [FRAMES, question("What is it?")]}, {"role": "assistant", "parts": [question("An owl.")]},
        {"role": "user", "parts": [image("tall.png"), question("And this?")]}]},
]
INTERN_VL = [
    text_case("text only", "Say something about owls."),
    *[chat_case(n, image(n + ".png"), question()) for n in ("wide", "tall", "square", "small", "long")],
    chat_case("two pictures", image("tall.png"), question("and"), image("long.png"), question("Which is wider?")),
    chat_case("five frames", FRAMES, question("What happens?")),
    chat_case("one frame", {"frames": ["frame2.png"]}, question("What is it?")),
    chat_case("picture and frames", question("This"), image("wide.png"), FRAMES, question("Is it in there?"), chat_format=None),
    {"name": "turns", "chat_format": None, "messages": [
        {"role": "system", "parts": [question("Be short.")]},
        {"role": "user", "parts": [image("small.png"), question("What is it?")]},
        {"role": "assistant", "parts": [question("An owl.")]},
        {"role": "user", "parts": [question("And this? "), image("tall.png")]}]},
]
SMOL = [
    text_case("text only", "Say something about owls."),
    *[chat_case(n, image(n + ".png"), question(), chat_format=None) for n in ("wide", "tall", "square", "small", "long")],
    chat_case("text before and between", question("This"), image("tall.png"), question("and this"), image("long.png"),
              chat_format=None),
    chat_case("three pictures", image("small.png"), image("square.png"), image("wide.png"), question("Which is wider?"),
              chat_format=None),
    chat_case("five frames", FRAMES, question("What happens?"), chat_format=None),
    chat_case("one frame", question("What is it?"), {"frames": ["frame2.png"]}, chat_format=None),
    chat_case("three narrow frames", {"frames": ["tall.png"] * 3}, question("and?"), chat_format=None),
    chat_case("picture and frames", image("tall.png"), FRAMES, question("Is it in there?"), chat_format=None),
    {"name": "two turns", "chat_format": None, "messages": [
        {"role": "user", "parts": [image("square.png"), question("What is it?")]},
        {"role": "assistant", "parts": [question("An owl.")]}, {"role": "user", "parts": [question("And this?"), FRAMES]}]},
]
GEMMA = [
    text_case("text only", "Say something about owls."),
    *[chat_case(n, image(n + ".png"), question(), chat_format=None) for n in ("wide", "tall", "square", "long")],
    chat_case("text around", question("This"), image("tall.png"), question("and this"), image("long.png"), question("."), chat_format=None),
    chat_case("three pictures", image("small.png"), image("square.png"), image("wide.png"), question("Which is wider?"),
              chat_format=None),
    {"name": "turns", "chat_format": None, "messages": [
        {"role": "system", "parts": [question("Be short.")]},
        {"role": "user", "parts": [image("square.png"), question("What is it?")]},
        {"role": "assistant", "parts": [question("An owl.")]}, {"role": "user", "parts": [question("And this?"), image("wide.png")]}]},
]
PIXTRAL = [
    text_case("text only", "Say something about owls."),
    *[chat_case(n, image(n + ".png"), question(), chat_format=None) for n in ("wide", "small", "long")],
    chat_case("text around", question("This"), image("tall.png"), question("and this"), image("long.png"), question("."), chat_format=None),
    chat_case("three pictures", image("small.png"), image("square.png"), image("wide.png"), question("Which is wider?"),
              chat_format=None),
    chat_case("five frames", FRAMES, question("What happens?"), chat_format=None),
    {"name": "turns", "chat_format": None, "messages": [
        {"role": "system", "parts": [question("Be short.")]},
        {"role": "user", "parts": [image("square.png"), question("What is it?")]},
        {"role": "assistant", "parts": [question("An owl.")]}, {"role": "user", "parts": [question("And this?"), image("wide.png")]}]},
]
GLM = [
    text_case("text only", "Say something about owls."),
    *[chat_case(n, image(n + ".png"), question(), chat_format=None) for n in ("wide", "small", "long")],
    chat_case("three pictures", question("This"), image("tall.png"), question("and this"), image("square.png"), image("wide.png"),
              question("."), chat_format=None),
    chat_case("five frames", FRAMES, question("What happens?"), chat_format=None),
    chat_case("one frame", question("What is it?"), {"frames": ["frame2.png"]}, chat_format=None),
    {"name": "turns", "chat_format": None, "messages": [
        {"role": "system", "parts": [question("Be short.")]},
        {"role": "user", "parts": [image("square.png"), question("What is it?")]},
        {"role": "assistant", "parts": [question("An owl.")]},
        {"role": "user", "parts": [question("And this?"), {"frames": ["frame0.png", "frame3.png"]}, image("small.png")]}]},
]
KIMI = [
    text_case("text only", "Say something about owls."),
    *[chat_case(n, image(n + ".png"), question(), chat_format=None) for n in ("wide", "small", "long")],
    chat_case("text around", question("This"), image("tall.png"), question("and this"), image("square.png"), question("."), chat_format=None),
    chat_case("five frames", FRAMES, question("What happens?"), chat_format=None),
    {"name": "turns", "chat_format": None, "messages": [
        {"role": "system", "parts": [question("Be short.")]},
        {"role": "user", "parts": [image("square.png"), question("What is it?")]},
        {"role": "assistant", "parts": [question("An owl.")]}, {"role": "user", "parts": [question("And this?"), image("wide.png")]}]},
]
MINICPM = [
    text_case("text only", "Say something about owls."),
    *[chat_case(n, image(n + ".png"), question(), chat_format=None) for n in ("wide", "small", "long")],
    chat_case("text around", question("This"), image("tall.png"), question("and this"), image("square.png"), image("wide.png"),
              question("."), chat_format=None),
    chat_case("five frames", FRAMES, question("What happens?"), chat_format=None),
    chat_case("one frame", question("What is it?"), {"frames": ["frame2.png"]}, chat_format=None),
    {"name": "turns", "chat_format": None, "messages": [
        {"role": "system", "parts": [question("Be short.")]},
        {"role": "user", "parts": [image("square.png"), question("What is it?")]},
        {"role": "assistant", "parts": [question("An owl.")]},
        {"role": "user", "parts": [question("And this?"), {"frames": ["frame0.png", "frame1.png", "frame3.png"]}, image("small.png")]}]},
]
NEXT_VIDEO = [
    text_case("text only", "Say something about owls."),
    *[chat_case(n, image(n + ".png"), question()) for n in ("wide", "tall", "small", "long")],
    chat_case("two pictures", image("square.png"), question("and"), image("long.png"), question("Which is wider?")),
    chat_case("five frames", FRAMES, question("What happens?")),
    chat_case("one frame", {"frames": ["frame2.png"]}, question("What is it?")),
    chat_case("three narrow frames", {"frames": ["tall.png"] * 3}, question("and?")),
    chat_case("two videos and a picture", FRAMES, image("tall.png"), FRAMES, question("Which?")),
    {"name": "turns", "chat_format": "vicuna", "messages": [
        {"role": "user", "parts": [FRAMES, question("What is it?")]}, {"role": "assistant", "parts": [question("An owl.")]},
        {"role": "user", "parts": [image("tall.png"), question("And this?")]}]},
]
CASES = {
    "Pixtral": PIXTRAL,
    "MiniCPMV4_6ForConditionalGeneration": MINICPM,
    "Mistral3ForConditionalGeneration": PIXTRAL,
    "LightOnOcrForConditionalGeneration": PIXTRAL,
    "PaddleOCRVLForConditionalGeneration": PIXTRAL,
    "KimiVLForConditionalGeneration": KIMI,
    "Glm4vForConditionalGeneration": GLM,
    "Glm4vMoeForConditionalGeneration": [GLM[0], GLM[5], GLM[7]],
    "GlmOcrForConditionalGeneration": [GLM[0], GLM[1], *GLM[3:]],
    "Glm46VForConditionalGeneration": [GLM[0], GLM[1], *GLM[5:]],
    "Phi3ForCausalLM": [text_case("text"), text_case("twice", TEXT + " " + TEXT)],  # beyond borders of LongRoPE and windows from the first
    "LlavaNextVideoForConditionalGeneration": NEXT_VIDEO,
    "LlavaNextVideoForConditionalGeneration, 3": [NEXT_VIDEO[i] for i in (1, 6, 8, 9, 10)],
    "Gemma3ForConditionalGeneration": GEMMA,
    "InternVLForConditionalGeneration": INTERN_VL,
    "InternVLChatModel": INTERN_VL,
    "SmolVLMForConditionalGeneration": SMOL,
    "Idefics3ForConditionalGeneration": SMOL,
    "LlavaOnevisionForConditionalGeneration": ONE_VISION,
    "original, one_token": ONE_VISION,
    "original, grid": LLAVA_VIDEO,
    **{f"original, {p}": [LLAVA_VIDEO[i] for i in (0, 6, -3, -1)] for p in ("frame", "no_token")},
    "Qwen2VLForConditionalGeneration": QWEN_VL,
    "Qwen2_5_VLForConditionalGeneration": QWEN_VL,
    "Qwen3VLForConditionalGeneration": QWEN3_VL,
    "Qwen3VLMoeForConditionalGeneration": QWEN3_VL,
    "Qwen3_5ForConditionalGeneration": [c for c in QWEN3_VL if c["name"] not in ("five frames", "picture and frames")],
    "Qwen3_5MoeForConditionalGeneration": [c for c in QWEN3_VL if c["name"] == "picture and frames in marks"],
    "LlavaForConditionalGeneration": [
        text_case("text only", "Say something about owls."),
        chat_case("one picture", image("wide.png"), question()),
        chat_case("two pictures", image("tall.png"), image("wide.png"), question("Which is wider?")),
        chat_case("four frames", FOUR_FRAMES, question("What happens?")),
    ],
    "LlavaNextForConditionalGeneration":
        [chat_case(n, image(n + ".png"), question()) for n in ("wide", "tall", "square", "small", "long")],
    "LlavaQwenForCausalLM": [
        text_case("text only", "Say something about owls."),
        chat_case("wide picture", image("wide.png"), question()),
        chat_case("tall picture", image("tall.png"), question()),
        chat_case("four frames", FOUR_FRAMES, question("What happens?")),
    ],
}


# ---------------------------------------------------------------- goldens

def architecture_of(path):
    if path.endswith(".gguf"):
        return "GGUF"
    config = read_json(path, "config.json")
    if config.get("mm_patch_merge_type") == "spatial_unpad":
        return "original, " + config.get("mm_newline_position", "one_token")
    if config["architectures"][0].startswith("LlavaFor") and config["vision_config"].get("model_type") == "pixtral":
        return "Pixtral"
    pool = config.get("spatial_pool_stride", 2)  # of LLaVA-NeXT-Video
    return config["architectures"][0] + ("" if pool == 2 else f", {pool}")


def open_model(path):
    architecture = architecture_of(path)
    if architecture == "LlavaQwenForCausalLM":
        return LongVA(path)
    if architecture.startswith("Qwen2") and "VL" in architecture:
        return QwenVL(path)
    if architecture.startswith(("Glm4", "GlmOcr")) and "Conditional" in architecture:
        return Glm4v(path)
    if architecture.startswith(("Qwen3VL", "Qwen3_5ForConditional", "Qwen3_5MoeForConditional")):
        return Qwen3VL(path)
    if architecture == "InternVLChatModel":
        return InternVLChat(path)
    if architecture.startswith("InternVL"):
        return InternVL(path)
    if architecture.startswith("MiniCPMV"):
        return MiniCPMV(path)
    if architecture.startswith(("SmolVLM", "Idefics3")):
        return SmolVLM(path)
    if architecture == "Gemma3ForConditionalGeneration":
        return Gemma3(path)
    if architecture == "PaddleOCRVLForConditionalGeneration":
        return PaddleOcr(path)
    if architecture == "LightOnOcrForConditionalGeneration":
        return LightOnOcr(path)
    if architecture in ("Pixtral", "Mistral3ForConditionalGeneration"):
        return Pixtral(path)
    if architecture.startswith("LlavaNextVideo"):
        return NextVideo(path)
    if architecture.startswith("LlavaOnevision"):
        return OneVision(path)
    if architecture == "KimiVLForConditionalGeneration":
        from kimi_vl import KimiVL
        return KimiVL(path)
    if architecture.startswith("original"):
        from llava_video import LlavaVideo
        return LlavaVideo(path)
    return ImageModel(path) if architecture.startswith("Llava") else TextModel(path)


class TooClose(Exception):
    pass


def run(model, case, stop_ids=(), min_gap=0.0):
    """Fills ids, tokens, gaps; returns the two rows of logits. TooClose when a token led by less than min_gap."""
    ids, n_visual = model.prompt(case)
    logits, cache = model.first(ids, case)
    first = logits.numpy().copy()
    tokens, gaps = [], []
    while True:
        top = torch.topk(logits, 2)
        gaps.append(round(float(top.values[0] - top.values[1]), 4))
        tokens.append(int(top.indices[0]))
        if gaps[-1] < min_gap:
            raise TooClose
        if len(tokens) == N_TOKENS or tokens[-1] in stop_ids:
            break
        logits, cache = model.step([tokens[-1]], cache)
    case.update(ids=ids, n_visual=n_visual, tokens=tokens, gaps=gaps)
    return first, logits.numpy().copy()


def golden(path, cases=None, stop_ids=(), tokenizer=None, min_gap=0.0, model=None):
    """The cases of golden.json and the floats of golden.bin. model: the path's, where it is open."""
    models = [model or open_model(path)]
    cases = json.loads(json.dumps(cases or CASES.get(architecture_of(path), [text_case("text")])))
    if is_quantised(path):
        models.append(RoundedModel(path))
        cases = [text_case("as transformers"), text_case("activations rounded")]
    values = []
    for i, case in enumerate(cases):
        model = models[i % len(models)]
        model.tokenizer = tokenizer or model.tokenizer
        for key, row in zip(("logits", "last_logits"), run(model, case, stop_ids, min_gap)):
            case[key] = [sum(map(len, values)), len(row)]
            values.append(row.astype("<f4"))
        largest = max(float(np.abs(v).max()) for v in values[-2:])
        case["tolerance"] = 1e-3 if not is_quantised(path) else round((0.04, 0.005)[i] * largest, 3)
    return cases, np.concatenate(values)


def write_golden(name, model_path, cases, values):
    folder = os.path.join(FOLDER, name)
    os.makedirs(folder, exist_ok=True)
    head = {"model": os.path.relpath(model_path, ROOT), "cases": cases}
    text = json.dumps(head, ensure_ascii=False, indent=1)
    text = re.sub(r"\[\s+(-?\d[^\[\]{}]*?)\s+\]", lambda m: "[" + re.sub(r"\s+", " ", m.group(1)) + "]", text)
    with open(os.path.join(folder, "golden.json"), "w") as f:
        f.write(text + "\n")
    values.tofile(os.path.join(folder, "golden.bin"))
    index = read_json(FOLDER, "index.json")
    if name not in index:
        with open(os.path.join(FOLDER, "index.json"), "w") as f:
            json.dump(index + [name], f, indent=1)
    gap = min(min(c["gaps"]) for c in cases)
    print(f"{name}: {len(cases)} cases, smallest gap {gap:.4f}, largest logit {np.abs(values).max():.2f}", flush=True)


def model_path_of(name):
    folder = os.path.join(FOLDER, name)
    files = [f for f in os.listdir(folder) if f.endswith(".gguf")]
    return os.path.join(folder, files[0]) if files else folder


def is_quantised(path):
    return bool(re.search(r"/(q\w+|all)\.gguf$", path))


def make(name):
    if name == "demo":
        return make_demo()
    path = model_path_of(name)
    tokenizer = tokenizer_of(FOLDER) if path.endswith(".gguf") else None
    write_golden(name, path, *golden(path, tokenizer=tokenizer))


def make_demo():
    """The demo model about a picture, and about four pictures as the frames of a video, in its own chat format."""
    path, samples = os.path.join(ROOT, "models", "demo"), os.path.join(ROOT, "samples")
    pictures = [os.path.join(os.path.relpath(samples, FOLDER), f) for f in sorted(os.listdir(samples)) if f.endswith(".png")]
    stop = read_json(path, "generation_config.json")["eos_token_id"]
    cases = [
        chat_case("picture", image(pictures[0]), question("Describe the image."), chat_format=None),
        chat_case("four frames", {"frames": (pictures * 4)[:4]}, question("How many numbers appear?"), chat_format=None),
    ]
    write_golden("demo", path, *golden(path, cases, stop if isinstance(stop, list) else [stop]))


if __name__ == "__main__":
    for each in sys.argv[1:] or read_json(FOLDER, "index.json"):
        make(each)
