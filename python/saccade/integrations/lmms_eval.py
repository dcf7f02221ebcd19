"""Saccade as a model of lmms-eval (0.7). The wheel registers it, so after `pip install .` it is there by name:

    python -m lmms_eval --model saccade --model_args model=models/demo,ctx=4096,num_frames=16 --tasks mme --batch_size 4

batch_size conversations are answered side by side. Other model_args are settings of the session (kv, prefill, decode, rope ...)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lmms_eval.api.instance import GenerationResult, TokenCounts
from lmms_eval.api.model import lmms

from .. import Answer, Batch, Image, Model, Video
from ._sampling import sampling_of


class Saccade(lmms):
    is_simple = False  # requests carry whole messages, with pictures and videos where they belong

    def __init__(
        self,
        model: str = "models/demo",
        *,
        batch_size: int | str = 1,
        max_batch_size: int | None = None,
        device: str | None = None,
        threads: int = 0,
        num_frames: int = 0,
        fps: float = 0,
        max_frames: int = 0,
        max_new_tokens: int = 1024,
        **session: Any,
    ) -> None:
        super().__init__()
        size = int(max_batch_size or 1) if batch_size == "auto" else int(batch_size)
        self.model = Model(model, device=None if device in (None, "cpu") else str(device), threads=int(threads))
        self.batch = Batch(self.model, size, **session)
        self.max_new_tokens = int(max_new_tokens)
        self.frames: dict[str, Any] = {"num_frames": int(num_frames), "fps": float(fps), "max_frames": int(max_frames)}

    def conversation(self, request: Any) -> list[dict[str, Any]]:
        """The messages of a request: (context, doc_to_messages, generation settings, doc id, task, split)."""
        _, doc_to_messages, _, doc_id, task, split = request.args
        return [
            {"role": message["role"], "content": [self.part(part) for part in parts_of(message["content"])]}
            for message in doc_to_messages(self.task_dict[task][split][doc_id])
        ]

    def part(self, part: dict[str, Any]) -> Any:
        if part["type"] == "text":
            return part["text"]
        if part["type"] == "image":
            return Image(part["url"])
        if part["type"] == "video":
            if part.get("start_time") is not None or part.get("end_time") is not None:
                raise ValueError("a part of a video cannot be asked about: cut the file")
            return Video(part["url"], **self.frames)
        raise ValueError(f"a message has a part of the type {part['type']!r}: there are text, image and video")

    def generate_until(self, requests: list[Any]) -> list[Any]:
        results: list[Any] = [None] * len(requests)
        for settings, indices in runs(requests, self.max_new_tokens):
            answers = self.batch.generate((self.conversation(requests[i]) for i in indices), **settings)
            for i, answer in zip(indices, answers):
                assert isinstance(answer, Answer)  # an error would have been raised
                counts = TokenCounts(input_tokens=answer.n_prompt_tokens, output_tokens=len(answer.tokens))
                results[i] = GenerationResult(text=answer.text, token_counts=counts)
                self.cache_hook.add_partial("generate_until", (requests[i].args[0], requests[i].args[2]), answer.text)
        return results

    def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
        raise NotImplementedError("saccade answers generate_until tasks; take the task's generation form")

    def generate_until_multi_round(self, requests: list[Any]) -> list[str]:
        raise NotImplementedError("saccade answers generate_until tasks; this one asks in several rounds")


def parts_of(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def runs(requests: list[Any], max_tokens: int) -> Iterator[tuple[dict[str, Any], list[int]]]:
    """Requests by their settings, in the order in which these come first."""
    groups: dict[str, tuple[dict[str, Any], list[int]]] = {}
    for i, request in enumerate(requests):
        settings = sampling_of(request.args[2], max_tokens)
        groups.setdefault(repr(sorted(settings.items())), (settings, []))[1].append(i)
    yield from groups.values()


def manifest() -> Any:
    """What lmms-eval's registry loads (entry point group lmms_eval.models)."""
    from lmms_eval.models.registry_v2 import ModelManifest

    return ModelManifest("saccade", chat_class_path=f"{__name__}.Saccade")
