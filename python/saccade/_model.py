"""Model and Session: a model that is open, and conversations with it."""

from __future__ import annotations

import ctypes
import json
import os
import threading
import weakref
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import _abi
from ._library import Error, check, encoded, lib, text_list
from ._messages import Conversation, Image, Picture, question

_byref = ctypes.byref


@dataclass(frozen=True)
class Answer:
    text: str
    finish_reason: str  # "stop", "length"; "cancelled" where a stream was left
    tokens: list[int]
    n_prompt_tokens: int
    n_visual_tokens: int
    n_reused_tokens: int  # of the prompt, in the session from the call before
    seconds: dict[str, float]  # media, vision, prefill, decode, first_token, total

    def __str__(self) -> str:
        return self.text


def answer_of(result: _abi.Result) -> Answer:
    text = ctypes.string_at(result.text, result.n_text_bytes) if result.text else b""
    return Answer(
        text.decode("utf-8", "replace"),
        (result.finish_reason or b"").decode(),
        result.tokens[: result.n_tokens],
        result.n_prompt_tokens,
        result.n_visual_tokens,
        result.n_reused_tokens,
        {name: getattr(result.seconds, name) for name, _ in result.seconds._fields_},
    )


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
    """What the library calls while it works: pieces of text are collected, and an exception (Ctrl-C's too) ends the call and is
    raised behind it."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._raised: BaseException | None = None
        self._watch = self._watched()
        next(self._watch)
        self.c = _abi.Events(text=_abi.TextFn(self._text), stopped=_abi.StoppedFn(self._watch.send))

    def _text(self, _ctx: Any, utf8: int, n_bytes: int) -> bool:
        try:
            self.pieces.append(ctypes.string_at(utf8, n_bytes).decode("utf-8", "replace"))
        except BaseException as e:
            self._raised = e
        return self._raised is None

    def _watched(self) -> Generator[bool, Any, None]:
        """Whether to end the call, again and again. A generator, because the interpreter raises Ctrl-C as soon as it runs: here
        that is within the try, in a function it would be before."""
        while True:
            try:
                while True:
                    yield self._raised is not None
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


class Model:
    """A model, read once and shared by its sessions, of several threads too.

    path: a Hugging Face folder or a .gguf file. device: "cpu", "cuda", "cuda:1". adapters: LoRA, "DIR" or "DIR:SCALE";
    as "NAME=DIR" kept apart, for sessions to choose (Session.set_adapter). mmproj: the vision half of a .gguf model, or
    "none"; None: a file mmproj*.gguf beside it. weights: what matrices are rounded to while they are loaded, "q8_0"."""

    def __init__(
        self,
        path: str | os.PathLike,
        *,
        device: str | None = None,
        activations: str | None = None,
        threads: int = 0,
        chat: str | None = None,
        tokenizer: str | None = None,
        adapters: Sequence[str] = (),
        mmproj: str | os.PathLike | None = None,
        weights: str | None = None,
        fast: bool = False,
        image_min_pixels: int = 0,
        image_max_pixels: int = 0,
        vision_cache_bytes: int | None = None,
    ) -> None:
        self._handle = ctypes.c_void_p()
        self._sessions: weakref.WeakSet[Any] = weakref.WeakSet()
        options = _abi.ModelOptions()
        lib.sac_model_options_default(_byref(options))
        options.n_threads, options.fast = threads, fast
        options.device, options.activations = encoded(device), encoded(activations)
        options.chat_format, options.tokenizer = encoded(chat), encoded(tokenizer)
        apart = [a for a in adapters if "/" not in a.partition("=")[0] and "=" in a]
        adapter_list, kept_list = text_list([a for a in adapters if a not in apart]), text_list(apart)
        options.adapters, options.n_adapters = adapter_list, len(adapter_list)
        options.kept_adapters, options.n_kept_adapters = kept_list, len(kept_list)
        options.mmproj = encoded(mmproj)
        options.weights = encoded(weights)
        options.image_min_pixels, options.image_max_pixels = image_min_pixels, image_max_pixels
        if vision_cache_bytes is not None:
            options.vision_cache_bytes = vision_cache_bytes
        check(lib.sac_model_open, _byref(self._handle), encoded(path), _byref(options))

    @property
    def info(self) -> dict[str, Any]:
        """Family, shapes and types: the fields of sac_model_info by name."""
        info = _abi.ModelInfo()
        lib.sac_model_get_info(self._open(), _byref(info))
        values = {name: getattr(info, name) for name, *_ in info._fields_}
        return {name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()}

    def session(self, **config: Any) -> Session:
        """Session(self, ...)"""
        return Session(self, **config)

    def _open(self) -> ctypes.c_void_p:
        if not self._handle:
            raise ValueError("the model is closed")
        return self._handle

    def close(self) -> None:
        """Gives its memory back, after that of its sessions and batches."""
        for session in list(self._sessions):
            session.close()
        handle, self._handle = self._handle, ctypes.c_void_p()
        lib.sac_model_free(handle)

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            lib.sac_model_free(self._handle)


class Session:
    """A conversation with its keys and values; for one thread at a time (cancel excepted).

    ctx: tokens of prompt and answer, 0 = the model's length. kv, prefill, decode, rope, reduce: methods, as in docs/methods.md.
    draft: "lookup", as --draft in docs/command.md."""

    def __init__(
        self,
        model: Model,
        *,
        ctx: int = 0,
        kv: str | None = None,
        prefill: str | None = None,
        decode: str | None = None,
        rope: str | None = None,
        reduce: str | None = None,
        draft: str | None = None,
        guidance: bool = False,
    ) -> None:
        self.model = model
        self._handle = ctypes.c_void_p()
        self._lock = threading.Lock()
        self._turn = 0
        config = _abi.SessionConfig()
        lib.sac_session_config_default(_byref(config))
        config.n_ctx, config.guidance = ctx, guidance
        config.kv, config.prefill, config.decode = encoded(kv), encoded(prefill), encoded(decode)
        config.rope, config.reduce, config.draft = encoded(rope), encoded(reduce), encoded(draft)
        check(lib.sac_session_create, _byref(self._handle), model._open(), _byref(config))
        model._sessions.add(self)

    def generate(self, messages: Sequence[Mapping[str, Any]], **sampling: Any) -> Answer:
        """Answers a conversation: [{"role": "user", "content": [Image("cat.jpg"), "What is this?"]}], given whole each time;
        what the session holds of it is used again. A str among the content is text. sampling: see Sampling."""
        conversation, settings = Conversation(messages), Sampling(self.model, sampling)
        callbacks, result = Callbacks(), _abi.Result()
        with self._one_thread():
            self._turn += 1
            callbacks.call(
                lib.sac_session_generate,
                self._open(),
                conversation.array,
                conversation.n,
                _byref(settings.c),
                _byref(callbacks.c),
                _byref(result),
            )
            return answer_of(result)

    def stream(self, messages: Sequence[Mapping[str, Any]], **sampling: Any) -> Stream:
        """The same, piece by piece: for piece in session.stream(messages): ..."""
        return Stream(self, messages, sampling)

    def ask(
        self,
        text: str,
        images: Sequence[Picture | Image] = (),
        videos: Sequence[Any] = (),
        *,
        system: str | None = None,
        **sampling: Any,
    ) -> Answer:
        """Answers one question about pictures and videos: generate() without a conversation before it."""
        return self.generate(question(text, images, videos, system), **sampling)

    def cancel(self) -> None:
        """From any thread: the call that runs raises Error with the status CANCELLED."""
        lib.sac_session_cancel(self._open())

    def set_adapter(self, name: str | None) -> None:
        """What comes next is answered with the adapter that the model keeps apart under this name; None: with none."""
        with self._one_thread():
            check(lib.sac_session_set_adapter, self._open(), encoded(name))

    def reset(self) -> None:
        """Forgets the conversation."""
        with self._one_thread():
            self._turn += 1
            lib.sac_session_reset(self._open())

    def close(self) -> None:
        with self._one_thread():
            handle, self._handle = self._handle, ctypes.c_void_p()
            lib.sac_session_free(handle)

    def _open(self) -> ctypes.c_void_p:
        if not self._handle:
            raise ValueError("the session is closed")
        return self._handle

    def _one_thread(self) -> _Exclusive:
        return _Exclusive(self._lock)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            lib.sac_session_free(self._handle)


class _Exclusive:
    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise RuntimeError("the session is in use by another thread: give each thread a session of its own")

    def __exit__(self, *_: Any) -> None:
        self._lock.release()


class Stream(Iterator[str]):
    """The pieces of an answer as they come. answer: what has come, whole once the pieces have ended."""

    def __init__(self, session: Session, messages: Sequence[Mapping[str, Any]], sampling: Mapping[str, Any]) -> None:
        self.answer: Answer | None = None
        self._session, self._done = session, False
        self._callbacks = Callbacks()
        conversation, settings = Conversation(messages), Sampling(session.model, sampling)
        with session._one_thread():
            session._turn += 1
            self._turn = session._turn
            self._callbacks.call(
                lib.sac_session_begin,
                session._open(),
                conversation.array,
                conversation.n,
                _byref(settings.c),
                _byref(self._callbacks.c),
            )

    def __next__(self) -> str:
        pieces = self._callbacks.pieces
        while not pieces and not self._done:
            self._step()
        if not pieces:
            raise StopIteration
        text = "".join(pieces)
        pieces.clear()
        return text

    def _step(self) -> None:
        token, done = ctypes.c_int32(), ctypes.c_bool()
        with self._session._one_thread():
            self._check_turn()
            try:
                self._callbacks.call(
                    lib.sac_session_step, self._session._open(), _byref(self._callbacks.c), _byref(token), _byref(done)
                )
            except BaseException:
                self._end()
                raise
            if done.value:
                self._end()

    def _check_turn(self) -> None:
        if self._turn != self._session._turn:
            raise RuntimeError("the session has been asked something else, which ended this stream")

    def _end(self) -> None:
        result = _abi.Result()
        lib.sac_session_end(self._session._open(), _byref(result))
        self._done, self.answer = True, answer_of(result)

    def close(self) -> None:
        """Ends the answer where it is; it stays in the session."""
        if not self._done:
            with self._session._one_thread():
                self._check_turn()
                self._end()
