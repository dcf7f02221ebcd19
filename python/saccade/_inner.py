"""What a prompt leaves inside the model: its embedding, and which tokens attention kept."""

from __future__ import annotations

import array
import ctypes
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _abi
from ._calls import Callbacks, Sampling
from ._library import check, lib
from ._messages import Conversation

if TYPE_CHECKING:
    from ._model import Session

_byref = ctypes.byref


@dataclass(frozen=True)
class Place:
    """Where a visual token comes from: a cell of a tile's grid. A tile is a frame of a video, or a part of a picture."""

    media: int  # the first picture or video of the conversation is 0
    tile: int
    row: int
    column: int
    rows: int
    columns: int


@dataclass(frozen=True)
class Kept:
    """What each layer's prefill method kept of a prompt."""

    n_tokens: int
    layers: list[list[int]]  # of each layer with keys and values, the positions that took part in attention, ascending
    places: list[Place | None]  # of each token; None: text, and embeddings that stand for no pixels

    @property
    def share(self) -> float:
        """Of all layers, the mean share of tokens."""
        return sum(map(len, self.layers)) / max(1, self.n_tokens * len(self.layers))


def embed(session: Session, what: str | Sequence[Mapping[str, Any]], generation_prompt: bool, normalize: bool) -> array.array[float]:
    vector = array.array("f", bytes(4 * session.model.info["hidden"]))
    floats = (ctypes.c_float * len(vector)).from_buffer(vector)
    callbacks, handle = Callbacks(), session._open()
    lib.sac_session_keep_hidden(handle, floats)
    try:
        if isinstance(what, str):
            text, settings = what.encode("utf-8", "surrogateescape"), Sampling(session.model, {})
            callbacks.call(lib.sac_session_begin_text, handle, text, len(text), _byref(settings.c), _byref(callbacks.c))
            lib.sac_session_end(handle, _byref(_abi.Result()))
        else:
            conversation = Conversation(what)
            check(lib.sac_session_set_chat, handle, _byref(_abi.ChatOptions(no_generation_prompt=not generation_prompt)))
            callbacks.call(lib.sac_session_prefill, handle, conversation.array, conversation.n, _byref(callbacks.c))
    finally:
        lib.sac_session_keep_hidden(handle, None)
        check(lib.sac_session_set_chat, handle, None)
    if not all(map(math.isfinite, vector)):
        raise ValueError("the model's hidden state is not finite: the prompt has no embedding")
    length = math.sqrt(math.fsum(v * v for v in vector))
    return array.array("f", (v / length for v in vector)) if normalize and length > 0 else vector


def kept(session: Session, messages: Sequence[Mapping[str, Any]]) -> Kept:
    conversation, callbacks, handle = Conversation(messages), Callbacks(), session._open()
    told: dict[int, set[int]] = {}

    def tell(_ctx: Any, layer: int, tokens: Any, n_kept: int, _n_tokens: int) -> None:
        told.setdefault(layer, set()).update(tokens[:n_kept])

    observer = _abi.KeptFn(tell)
    lib.sac_session_reset(handle)
    lib.sac_session_observe_kept(handle, observer, None)
    try:
        callbacks.call(lib.sac_session_prefill, handle, conversation.array, conversation.n, _byref(callbacks.c))
    finally:
        lib.sac_session_observe_kept(handle, _abi.KeptFn(), None)
    n_tokens = lib.sac_session_token_places(handle, None, 0)
    places = (_abi.TokenPlace * n_tokens)()
    lib.sac_session_token_places(handle, places, n_tokens)
    report, n_layers = _abi.LayerReport(), 0
    while lib.sac_session_layer_stats(handle, n_layers, _byref(report)):
        n_layers += 1
    return Kept(
        n_tokens,
        [sorted(told[i]) if i in told else list(range(n_tokens)) for i in range(n_layers)],
        [None if p.tile < 0 else Place(*(getattr(p, name) for name, _ in p._fields_)) for p in places],
    )
