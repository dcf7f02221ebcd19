#!/usr/bin/env python3
"""Golden of the keys that transformers' configuration classes have, for tests/unit/test_config_keys.c.

    tools/make_config_keys.py

Needs transformers and torch. Writes tests/golden/config_keys.json: {place: {key: default}}, where place is the class
as the test names it; under "half" {family: {half of its config: {key: default}}}. Keys of generation are left to make_generation_golden.py.
"""
import inspect
import json
import os

import transformers as t
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil
from transformers.models.glm4v.image_processing_pil_glm4v import Glm4vImageProcessorPil
from transformers.models.glm4v.video_processing_glm4v import Glm4vVideoProcessor
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil
from transformers.models.internvl.video_processing_internvl import InternVLVideoProcessor
from transformers.models.llava.image_processing_pil_llava import LlavaImageProcessorPil
from transformers.models.llava_onevision.image_processing_pil_llava_onevision import LlavaOnevisionImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil
from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil
from transformers.models.llava_next_video.video_processing_llava_next_video import LlavaNextVideoVideoProcessor
from transformers.models.minicpmv4_6.image_processing_pil_minicpmv4_6 import MiniCPMV4_6ImageProcessorPil
from transformers.models.minicpmv4_6.video_processing_minicpmv4_6 import MiniCPMV4_6VideoProcessor
from transformers.models.paddleocr_vl.image_processing_pil_paddleocr_vl import PaddleOCRVLImageProcessorPil
from transformers.models.pixtral.image_processing_pil_pixtral import PixtralImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.qwen2_vl.video_processing_qwen2_vl import Qwen2VLVideoProcessor
from transformers.models.qwen3_vl.video_processing_qwen3_vl import Qwen3VLVideoProcessor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CONFIGS = {"llama": t.LlamaConfig, "mistral": t.MistralConfig, "qwen2": t.Qwen2Config, "qwen3": t.Qwen3Config, "qwen3_moe": t.Qwen3MoeConfig,
           "llava": t.LlavaConfig, "llava_next": t.LlavaNextConfig, "llava_onevision": t.LlavaOnevisionConfig, "llava_next_video": t.LlavaNextVideoConfig,
           "clip": t.CLIPVisionConfig, "siglip": t.SiglipVisionConfig, "qwen2_vl": t.Qwen2VLConfig,
           "qwen2_5_vl": t.Qwen2_5_VLConfig, "qwen3_vl": t.Qwen3VLConfig, "qwen3_vl_moe": t.Qwen3VLMoeConfig,
           "internvl": t.InternVLConfig, "gemma2": t.Gemma2Config, "gemma3_text": t.Gemma3TextConfig, "gemma3": t.Gemma3Config,
           "granite": t.GraniteConfig, "olmo2": t.Olmo2Config, "smollm3": t.SmolLM3Config, "phi3": t.Phi3Config,
           "mixtral": t.MixtralConfig, "olmoe": t.OlmoeConfig, "granitemoe": t.GraniteMoeConfig,
           "granitemoeshared": t.GraniteMoeSharedConfig,
           "ministral": t.MinistralConfig, "ministral3": t.Ministral3Config, "mistral3": t.Mistral3Config, "lighton_ocr": t.LightOnOcrConfig, "pixtral": t.PixtralVisionConfig,
           "glm4": t.Glm4Config, "glm4v": t.Glm4vConfig, "glm4_moe": t.Glm4MoeConfig, "glm4v_moe": t.Glm4vMoeConfig, "glm_ocr": t.GlmOcrConfig, "paddleocr_vl": t.PaddleOCRVLConfig,
           "qwen3_5_text": t.Qwen3_5TextConfig, "qwen3_5": t.Qwen3_5Config,
           "qwen3_5_moe_text": t.Qwen3_5MoeTextConfig, "qwen3_5_moe": t.Qwen3_5MoeConfig,
           "deepseek_v3": t.DeepseekV3Config, "deepseek_v2": t.DeepseekV2Config, "qwen3_next": t.Qwen3NextConfig, "minicpmv4_6": t.MiniCPMV4_6Config}
PROCESSORS = {"clip": CLIPImageProcessorPil, "llava": LlavaImageProcessorPil, "llava_next": LlavaNextImageProcessorPil,
              "llava_onevision": LlavaOnevisionImageProcessorPil, "llava_next_video": LlavaNextVideoVideoProcessor, "siglip": SiglipImageProcessorPil,
              "qwen2_vl": Qwen2VLImageProcessorPil, "qwen2_5_vl": Qwen2VLVideoProcessor, "qwen3_vl": Qwen3VLVideoProcessor, "qwen3_vl_moe": Qwen3VLVideoProcessor,
              "internvl": GotOcr2ImageProcessorPil, "gemma3": Gemma3ImageProcessorPil,
              "mistral3": PixtralImageProcessorPil, "lighton_ocr": PixtralImageProcessorPil, "glm4v": Glm4vImageProcessorPil, "minicpmv4_6": MiniCPMV4_6ImageProcessorPil, "paddleocr_vl": PaddleOCRVLImageProcessorPil, "qwen3_5": Qwen3VLVideoProcessor,
              "qwen3_5_moe": Qwen3VLVideoProcessor}
HALVES = ("text_config", "vision_config")
OWN_HALVES = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "gemma3", "glm4v", "glm4v_moe", "glm_ocr", "paddleocr_vl", "qwen3_5", "qwen3_5_moe")  # whose classes no other family has
OWN_TOWERS = ("internvl", "minicpmv4_6")
ROPE = ["rope_type", "type", "rope_theta", "factor", "partial_rotary_factor", "original_max_position_embeddings",
        "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate", "low_freq_factor",
        "high_freq_factor", "short_factor", "long_factor"]


def plain(value):
    """As JSON writes it, of a list the first item; null for what it cannot write."""
    try:
        value = json.loads(json.dumps(value))
    except TypeError:
        return None
    return value[:1] if isinstance(value, list) else value


def arguments(cls):
    """Named arguments of a class and of those it is derived from, with their defaults."""
    found = {}
    for base in cls.__mro__:
        if "__init__" not in vars(base) or base is object:
            continue
        for p in inspect.signature(base.__init__).parameters.values():
            if p.name != "self" and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL):
                found.setdefault(p.name, None if p.default is p.empty else plain(p.default))
    return found


def config_keys(cls):
    keys = arguments(cls)
    keys.update({k: plain(v) for k, v in cls().to_dict().items()})
    return keys


def processor_keys(cls):
    keys = {k: None for k in vars(cls) if k.startswith("do_")}
    for base in cls.__mro__:
        kwargs = vars(base).get("valid_kwargs")
        for c in getattr(kwargs, "__mro__", [])[:1]:
            keys.update({k: None for k in inspect.get_annotations(c)})
            keys.update({k: None for k in getattr(c, "__annotations__", {})})
    keys.update({k: plain(v) for k, v in cls().to_dict().items()})
    return keys


def main():
    golden = {"config": {k: config_keys(c) for k, c in CONFIGS.items()},
              "preprocessor": {k: processor_keys(c) for k, c in PROCESSORS.items()},
              "rope": {k: None for k in ROPE}}
    for place in golden["config"].values():  # halves have their own tables
        for half in HALVES:
            if half in place:
                place[half] = None
    golden["half"] = {k: {h: config_keys(type(getattr(CONFIGS[k](), h))) for h in HALVES} for k in OWN_HALVES}
    golden["half"].update({k: {"vision_config": config_keys(type(CONFIGS[k]().vision_config))} for k in OWN_TOWERS})
    golden["preprocessor"]["minicpmv4_6"].update(processor_keys(MiniCPMV4_6VideoProcessor))
    golden["preprocessor"]["glm4v"].update(processor_keys(Glm4vVideoProcessor))
    golden["preprocessor"]["llava_next_video"].update(processor_keys(LlavaNextImageProcessorPil))
    golden["preprocessor"]["internvl"].update(processor_keys(InternVLVideoProcessor))
    with open(os.path.join(ROOT, "tests", "golden", "config_keys.json"), "w") as f:
        json.dump(golden, f, indent=1, sort_keys=True)
        f.write("\n")


if __name__ == "__main__":
    main()
