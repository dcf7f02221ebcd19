"""LlavaQwenForCausalLM with "spatial_unpad" (LLaVA-OneVision, LLaVA-Video), which transformers has no class for.

The language model, the tower and pictures are those of transformers' LLaVA-OneVision, into whose layout a folder is brought;
frames are made here, by the rules of the authors' code (LLaVA-NeXT, llava_arch.py) and of LLaVA-Video's paper
(arXiv:2410.02713), written anew: SigLIP's processor squeezes each into a tile with Pillow, the projector's rows are made fewer
by "mm_spatial_pool_mode", and "mm_newline_position" says where newlines stand among them."""
import json
import os
import shutil
import tempfile

import torch
import torch.nn.functional as F

from make_model_goldens import LongVA, OneVision, open_picture, read_json, tokenizer_of

NAMES = (  # from transformers' layout to the original's
    ("model.language_model.", "model."), ("model.vision_tower.", "model.vision_tower.vision_tower.vision_model."),
    ("model.multi_modal_projector.linear_1.", "model.mm_projector.0."), ("model.multi_modal_projector.linear_2.", "model.mm_projector.2."))


def renamed(name, pairs):
    for a, b in pairs:
        if name.startswith(a):
            return b + name[len(a):]
    return name


def to_flat(name):
    return renamed(name, NAMES)


def to_twin(name):
    """The longest beginning counts: all the original's names begin alike."""
    pairs = sorted(((b, a) for a, b in NAMES), key=lambda p: -len(p[0]))
    return name if name == "model.image_newline" else renamed(name, pairs)


def flat_config(whole, **keys):
    """config.json of the original layout, and that of its tower, which has a last layer that is never run."""
    vision = dict(whole["vision_config"], num_hidden_layers=whole["vision_config"]["num_hidden_layers"] + 1)
    return {
        **whole["text_config"], "architectures": ["LlavaQwenForCausalLM"], "model_type": "llava",
        "image_aspect_ratio": whole.get("vision_aspect_ratio", "anyres_max_9"), "image_grid_pinpoints": whole["image_grid_pinpoints"],
        "image_token_index": 151646, "mm_hidden_size": vision["hidden_size"], "mm_newline_position": "one_token",
        "mm_patch_merge_type": "spatial_unpad", "mm_projector_type": "mlp2x_gelu", "mm_resampler_type": None,
        "mm_spatial_pool_mode": "bilinear", "mm_vision_select_feature": "patch", "mm_vision_select_layer": -2,
        "mm_vision_tower": "google/siglip-so400m-patch14-384", "rope_scaling": None, "use_mm_proj": True, **keys}, vision


def write_twin(path, folder):
    """The folder in transformers' layout."""
    from safetensors.torch import load_file, save_file
    flat, vision = read_json(path, "config.json"), read_json(path, "vision_tower", "config.json")
    text = {k: v for k, v in flat.items() if not k.startswith(("mm_", "image_")) and k not in ("architectures", "use_mm_proj")}
    size = vision["image_size"]
    common = {"size": {"height": size, "width": size}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    files = {
        "config.json": {
            "architectures": ["LlavaOnevisionForConditionalGeneration"], "model_type": "llava_onevision",
            "text_config": {**text, "model_type": "qwen2"}, "tie_word_embeddings": flat.get("tie_word_embeddings", False),
            "vision_config": dict(vision, num_hidden_layers=vision["num_hidden_layers"] - 1), "vision_feature_layer": -1,
            "vision_feature_select_strategy": "full", "vision_aspect_ratio": flat["image_aspect_ratio"],
            "image_grid_pinpoints": flat["image_grid_pinpoints"], "image_token_index": 1, "video_token_index": 2},
        "preprocessor_config.json": {"image_processor_type": "LlavaOnevisionImageProcessor", **common,
                                     "image_grid_pinpoints": flat["image_grid_pinpoints"]}}
    for name, content in files.items():
        with open(os.path.join(folder, name), "w") as f:
            json.dump(content, f)
    shutil.copy(os.path.join(path, "tokenizer.json"), folder)
    weights = load_file(os.path.join(path, "model.safetensors"))
    save_file({to_twin(k): v for k, v in weights.items()}, os.path.join(folder, "model.safetensors"))


def with_newlines(rows, newline, position):
    """rows [frames][h][w][d] as [n][d]."""
    n, h, w, d = rows.shape
    if position == "grid":
        return torch.cat([rows, newline.expand(n, h, 1, d)], 2).reshape(-1, d)
    if position == "frame":
        return torch.cat([rows.reshape(n, h * w, d), newline.expand(n, 1, d)], 1).reshape(-1, d)
    rows = rows.reshape(-1, d)
    return torch.cat([rows, newline[None]]) if position == "one_token" else rows


class LlavaVideo(OneVision):
    IMAGE = LongVA.IMAGE
    first = LongVA.first

    def prompt(self, case):
        """With the authors' sentence behind a video, where the configuration has it; frames stand half a second apart."""
        if not self.flat.get("add_time_instruction"):
            return LongVA.prompt(self, case)
        case = json.loads(json.dumps(case))
        for m in case.get("messages", []):
            said = []
            for p in m["parts"]:
                if "frames" in p:
                    times = [i / 2 for i in range(len(p["frames"]))]
                    said.append(f"The video lasts for {times[-1]:.2f} seconds, and {len(times)} frames are uniformly sampled from it. These "
                                f"frames are located at {','.join(f'{t:.2f}s' for t in times)}.Please answer the following questions "
                                "related to this video.\n")
            texts = [p for p in m["parts"] if "text" in p]
            if said:
                texts[0]["text"] = "".join(said) + texts[0]["text"]
        return LongVA.prompt(self, case)

    def __init__(self, path):
        from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil
        self.flat = read_json(path, "config.json")
        with tempfile.TemporaryDirectory() as twin:
            write_twin(path, twin)
            super().__init__(twin)
        self.tokenizer = tokenizer_of(path)
        size = self.config.vision_config.image_size
        self.squeeze = SiglipImageProcessorPil(size={"height": size, "width": size}, image_mean=[0.5] * 3, image_std=[0.5] * 3)

    def video(self, frames):
        inner = self.model.model
        pixels = torch.cat([self.squeeze(images=[f], return_tensors="pt")["pixel_values"] for f in frames])
        rows = inner.multi_modal_projector(inner.vision_tower(pixels, output_hidden_states=True).hidden_states[-1])
        n, side, d = len(rows), round(rows.shape[1] ** 0.5), rows.shape[2]
        grid = rows.view(n, side, side, d).permute(0, 3, 1, 2)
        half = -(-side // 2)
        is_average = self.flat["mm_spatial_pool_mode"] == "average"
        grid = F.avg_pool2d(grid, 2) if is_average else F.interpolate(grid, size=(half, half), mode="bilinear")
        return with_newlines(grid.permute(0, 2, 3, 1), inner.image_newline, self.flat.get("mm_newline_position", "one_token"))

    def items(self, case):
        """For each placeholder its visual rows."""
        parts = [p for m in case.get("messages", []) for p in m["parts"] if "text" not in p]
        pictures = [open_picture(p["image"]) for p in parts if "image" in p]
        batch = dict(self.processor(images=[pictures], return_tensors="pt")) if pictures else {}
        batch = {k: batch[k] for k in ("pixel_values", "image_sizes", "batch_num_images") if k in batch}
        shown = iter(self.model.get_image_features(**batch).pooler_output if batch else ())
        return [next(shown) if "image" in p else self.video([open_picture(f) for f in p["frames"]]) for p in parts]
