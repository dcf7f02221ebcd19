"""How evaluation packages say sampling (transformers' names), in Saccade's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SAME = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed", "max_tokens")
LENGTHS = ("max_new_tokens", "max_gen_toks")
# What decides nothing here: how transformers keeps its cache, and how LLaVA's own code cuts pictures.
WITHOUT_EFFECT = ("use_cache", "image_aspect_ratio")


def sampling_of(given: Mapping[str, Any], max_tokens: int) -> dict[str, Any]:
    """The arguments of generate(). What would change the answer and cannot be done raises ValueError."""
    out: dict[str, Any] = {"max_tokens": max_tokens, "temperature": 0.0}
    for name, value in given.items():
        if value is None or name in WITHOUT_EFFECT or name in ("until", "stop", "do_sample"):
            continue
        if name in SAME:
            out[name] = value
        elif name in LENGTHS:
            out["max_tokens"] = int(value)
        elif not (name in ("num_beams", "n") and value == 1):
            raise ValueError(f"generation setting {name}={value!r} is not supported")
    if given.get("do_sample") is False:
        out["temperature"] = 0.0
    elif given.get("do_sample") and given.get("temperature") is None:
        del out["temperature"]  # the checkpoint's own
    until = given.get("until") or given.get("stop") or []
    stop = [text for text in ([until] if isinstance(until, str) else until) if text]
    if stop:
        out["stop"] = stop
    return out
