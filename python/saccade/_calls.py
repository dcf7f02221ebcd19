"""A call of the library: its settings, what it calls while it works, and where numbers lie."""

from __future__ import annotations

import contextlib
import ctypes
import json
import weakref
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any

from . import _abi
from ._library import Error, check, lib, text_list

if TYPE_CHECKING:
    from ._model import Model

_byref = ctypes.byref
LogitsFn = Callable[["memoryview[float]"], Any]


class Sampling:
    """How tokens are chosen: the checkpoint's settings, and over them those given by name (as in docs/command.md: max_tokens,
    temperature, top_k, top_p, min_p, repetition_penalty, seed, stop, ignore_eos, presence_penalty, frequency_penalty, and
    any other that generation_config.json may have)."""

    def __init__(self, model: Model, settings: Mapping[str, Any]) -> None:
        self.c = _abi.Sampling()
        self._controls = ctypes.c_void_p()
        lib.sac_sampling_of_model(model._open(), _byref(self.c))
        check(lib.sac_controls_of_model, _byref(self._controls), model._open())
        weakref.finalize(self, lib.sac_controls_free, self._controls)
        self.c.controls = self._controls
        plain = {
            name
            for name, kind, *_ in _abi.Sampling._fields_
            if kind in (ctypes.c_int, ctypes.c_double, ctypes.c_uint64, ctypes.c_bool)
        }
        for name, value in settings.items():
            if name == "stop":
                self._stop = text_list([value] if isinstance(value, str) else list(value))
                self.c.stop, self.c.n_stop = self._stop, len(self._stop)
            elif name in plain - {"logprobs", "top_logprobs"}:
                setattr(self.c, name, value)
            else:
                check(lib.sac_controls_set, self._controls, name.encode(), json.dumps(value).encode())


class Callbacks:
    """What the library calls while it works: pieces of text are collected, logits handed to a function of the user's, and an
    exception (Ctrl-C's too) ends the call and is raised behind it. stop, set by another thread, ends it with CANCELLED."""

    def __init__(self, logits: LogitsFn | None = None) -> None:
        self.pieces: list[str] = []
        self.stop = False
        self._change = logits
        self._raised: BaseException | None = None
        self._watch = self._watched()
        next(self._watch)
        self.c = _abi.Events(text=_abi.TextFn(self._text), stopped=_abi.StoppedFn(self._watch.send))
        if logits is not None:
            self.c.logits = _abi.LogitsFn(self._logits)

    def _text(self, _ctx: Any, utf8: int, n_bytes: int) -> bool:
        try:
            self.pieces.append(ctypes.string_at(utf8, n_bytes).decode("utf-8", "replace"))
        except BaseException as e:
            self._raised = e
        return self._raised is None

    def _logits(self, _ctx: Any, logits: Any, n_vocab: int) -> None:
        if self._raised is not None or self._change is None:
            return
        try:
            floats, view = floats_at(ctypes.addressof(logits.contents), n_vocab)
            self._change(view)
            alive = weakref.ref(floats)
            del floats
            with contextlib.suppress(BufferError):  # an array stands on it
                view.release()
            if alive() is not None:
                raise BufferError("the logits lie there for the call alone: take a copy of what is kept")
        except BaseException as e:
            self._raised = e

    def _watched(self) -> Generator[bool, Any, None]:
        """Whether to end the call, again and again. A generator, because the interpreter raises Ctrl-C as soon as it runs: here
        that is within the try, in a function it would be before."""
        while True:
            try:
                while True:
                    yield self._raised is not None or self.stop
            except GeneratorExit:
                return
            except BaseException as e:
                self._raised = e

    def call(self, function: Any, *arguments: Any) -> None:
        try:
            check(function, *arguments)
        except Error:
            if self._raised is None:
                raise
        if self._raised is not None:
            raise self._raised


def floats_at(address: int, n: int) -> tuple[ctypes.Array[ctypes.c_float], memoryview[float]]:
    """n floats where they lie, and a view of them that numpy.asarray takes without a copy; it holds the first."""
    floats = (ctypes.c_float * n).from_address(address)
    return floats, memoryview(floats).cast("B").cast("f")
