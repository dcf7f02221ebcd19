"""Saccade as a model of VLMEvalKit, which has no plug-ins: a line before its run.py adds one. In the root of its checkout:

    python -c "from saccade.integrations.vlmevalkit import register; register('saccade', model='/models/qwen', ctx=16384)
    import runpy; runpy.run_path('run.py', run_name='__main__')" --model saccade --data MMBench_DEV_EN

Further arguments are settings of the session (kv, prefill, decode ...) and of sampling (max_tokens, temperature ...)."""

from __future__ import annotations

import functools
from typing import Any

from vlmeval.vlm.base import BaseModel

from .. import Image, Model, Video
from ._sampling import LENGTHS, SAME, sampling_of


class Saccade(BaseModel):
    INTERLEAVE = True
    VIDEO_LLM = True
    allowed_types = ["text", "image", "video"]

    def __init__(
        self, model: str = "models/demo", *, device: str | None = None, threads: int = 0, nframe: int = 0, fps: float = 0, **settings: Any
    ) -> None:
        super().__init__()
        sampling = {name: settings.pop(name) for name in list(settings) if name in (*SAME, *LENGTHS, "stop", "do_sample", "num_beams")}
        self.sampling = sampling_of(sampling, 2048)
        self.session = Model(model, device=device, threads=threads).session(**settings)
        self.nframe, self.fps = nframe, fps  # a data set of videos sets those that are not 0 to its own

    def generate_inner(self, message: list[dict[str, Any]], dataset: str | None = None) -> str:
        content = [self.part(part) for part in message]
        return self.session.generate([{"role": "user", "content": content}], **self.sampling).text

    def part(self, part: dict[str, Any]) -> Any:
        if part["type"] == "image":
            return Image(part["value"])
        if part["type"] == "video":
            return Video(part["value"], num_frames=self.nframe or 0, fps=self.fps or 0)
        return str(part["value"])


def register(name: str, **settings: Any) -> None:
    """Makes the model known to VLMEvalKit under a name."""
    from vlmeval.config import supported_VLM

    supported_VLM[name] = functools.partial(Saccade, **settings)
