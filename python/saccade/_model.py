"""Model and Session: a model that is open, and conversations with it."""

from __future__ import annotations

import array
import ctypes
import os
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import _abi, _inner
from ._async import AsyncStream, in_thread
from ._calls import Callbacks, LogitsFn, Sampling, floats_at
from ._library import check, encoded, lib, text_list
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


class Model:
    """A model, read once and shared by its sessions, of several threads too.

    path: a Hugging Face folder or a .gguf file. device: "cpu", "cuda", "cuda:1". adapters: LoRA, "DIR" or "DIR:SCALE";
    as "NAME=DIR" kept apart, for sessions to choose (Session.set_adapter). mmproj: the vision half of a .gguf model, or
    "none"; None: a file mmproj*.gguf beside it. weights: what matrices are rounded to while they are loaded, "q8_0"."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        device: str | None = None,
        activations: str | None = None,
        threads: int = 0,
        chat: str | None = None,
        tokenizer: str | None = None,
        adapters: Sequence[str] = (),
        mmproj: str | os.PathLike[str] | None = None,
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

    def tokenize(self, text: str, *, add_special: bool = False, parse_special: bool = False) -> list[int]:
        """The tokens of a text without chat format. add_special: with those that begin a text; parse_special: what is written as
        a control token is one."""
        data, n = text.encode("utf-8", "surrogateescape"), ctypes.c_size_t()
        ids = (ctypes.c_int32 * (len(data) + 16))()
        while True:
            check(lib.sac_tokenize_text, self._open(), data, len(data), add_special, parse_special, ids, len(ids), _byref(n))
            if n.value <= len(ids):
                return ids[: n.value]
            ids = (ctypes.c_int32 * n.value)()

    def detokenize(self, tokens: Sequence[int], *, skip_special: bool = True) -> str:
        ids, n = (ctypes.c_int32 * len(tokens))(*tokens), ctypes.c_size_t()
        text = ctypes.create_string_buffer(16 * len(ids) + 16)
        while True:
            check(lib.sac_detokenize_ids, self._open(), ids, len(ids), skip_special, text, len(text), _byref(n))
            if n.value < len(text):
                return text.raw[: n.value].decode("utf-8", "replace")
            text = ctypes.create_string_buffer(n.value + 1)

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
    draft: "lookup", "sparse:budget=1024", "model:PATH" or "eagle3:PATH", as --draft in docs/command.md."""

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
        self._views: list[weakref.ref[Any]] = []
        self._turn = 0
        config = _abi.SessionConfig()
        lib.sac_session_config_default(_byref(config))
        config.n_ctx, config.guidance = ctx, guidance
        config.kv, config.prefill, config.decode = encoded(kv), encoded(prefill), encoded(decode)
        config.rope, config.reduce, config.draft = encoded(rope), encoded(reduce), encoded(draft)
        check(lib.sac_session_create, _byref(self._handle), model._open(), _byref(config))
        model._sessions.add(self)

    def generate(
        self, messages: Sequence[Mapping[str, Any]], *, logits: LogitsFn | None = None, **sampling: Any
    ) -> Answer:
        """Answers a conversation: [{"role": "user", "content": [Image("cat.jpg"), "What is this?"]}], given whole each time;
        what the session holds of it is used again. A str among the content is text. logits: called before a token is chosen,
        with the floats [vocab] where they lie; it may change them, -inf for what may not come. sampling: see Sampling."""
        return self._generate(Callbacks(logits), messages, sampling)

    def _generate(
        self, callbacks: Callbacks, messages: Sequence[Mapping[str, Any]], sampling: Mapping[str, Any]
    ) -> Answer:
        conversation, settings = Conversation(messages), Sampling(self.model, sampling)
        result = _abi.Result()
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

    def stream(
        self, messages: Sequence[Mapping[str, Any]], *, logits: LogitsFn | None = None, **sampling: Any
    ) -> Stream:
        """The same, piece by piece: for piece in session.stream(messages): ..."""
        return Stream(self, messages, sampling, Callbacks(logits))

    async def agenerate(self, messages: Sequence[Mapping[str, Any]], *, logits: LogitsFn | None = None, **sampling: Any) -> Answer:
        """generate() for asyncio: the loop goes on meanwhile, and a task that is cancelled ends the call."""
        callbacks = Callbacks(logits)
        return await in_thread(callbacks, self._generate, callbacks, messages, sampling)

    def astream(self, messages: Sequence[Mapping[str, Any]], *, logits: LogitsFn | None = None, **sampling: Any) -> AsyncStream:
        """stream() for asyncio: async for piece in session.astream(messages): ..."""
        return AsyncStream(lambda callbacks: Stream(self, messages, sampling, callbacks), Callbacks(logits))

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

    async def aask(
        self,
        text: str,
        images: Sequence[Picture | Image] = (),
        videos: Sequence[Any] = (),
        *,
        system: str | None = None,
        **settings: Any,
    ) -> Answer:
        """ask() for asyncio."""
        return await self.agenerate(question(text, images, videos, system), **settings)

    def prefill(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Runs a conversation as a prompt and leaves the logits of its last token; see logits."""
        conversation, callbacks = Conversation(messages), Callbacks()
        with self._one_thread():
            self._turn += 1
            callbacks.call(
                lib.sac_session_prefill, self._open(), conversation.array, conversation.n, _byref(callbacks.c)
            )

    def append(self, tokens: Sequence[int], out: Any = None) -> None:
        """Appends tokens to what the session holds, as prompts and answers are run. out: a buffer of float32 [tokens][vocab], a numpy
        array for example, that gets the logits of each; otherwise only the last one's are made."""
        ids = (ctypes.c_int32 * len(tokens))(*tokens)
        floats = None
        if out is not None:
            view, wanted = memoryview(out), (len(ids), self.model.info["vocab"])
            if view.format not in ("f", "<f") or view.shape != wanted or not view.c_contiguous or view.readonly:
                raise ValueError(f"out is {view.format} {view.shape}: give a writable, contiguous float32 {wanted}")
            floats = (ctypes.c_float * (wanted[0] * wanted[1])).from_buffer(out)
        with self._one_thread():
            self._turn += 1
            check(lib.sac_session_append, self._open(), ids, len(ids), floats)

    def embed(
        self, what: str | Sequence[Mapping[str, Any]], *, generation_prompt: bool = False, normalize: bool = True
    ) -> array.array[float]:
        """The vector of a text, or of a conversation with pictures and videos: the hidden state of its last token behind the final norm,
        float32 [hidden], divided by its length unless told otherwise. For models trained to give one; as of the server's
        /v1/embeddings. generation_prompt: the template opens the model's turn, and its last token counts."""
        with self._one_thread():
            self._turn += 1
            return _inner.embed(self, what, generation_prompt, normalize)

    def kept(self, messages: Sequence[Mapping[str, Any]]) -> _inner.Kept:
        """Runs a conversation as a prompt, from its beginning, as prefill() does, and says which tokens each layer's attention kept, and
        which cell of which picture or frame each stands for."""
        with self._one_thread():
            self._turn += 1
            return _inner.kept(self, messages)

    @property
    def logits(self) -> memoryview[float] | None:
        """Those of the last token that was run: float32 [vocab] where the library has them, for numpy.asarray without a copy. The
        session's next call overwrites them, and it cannot be closed while a view is in use. None: nothing was run."""
        address = lib.sac_session_logits(self._open())
        if not address:
            return None
        floats, view = floats_at(address, self.model.info["vocab"])
        floats.session = self  # type: ignore[attr-defined]  # which lives as long as the view
        self._views = [weakref.ref(floats), *(r for r in self._views if r() is not None)]
        return view.toreadonly()

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
            if any(view() is not None for view in self._views):
                raise BufferError("a view of the session's logits is in use: take a copy of what is kept")
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

    def __init__(
        self,
        session: Session,
        messages: Sequence[Mapping[str, Any]],
        sampling: Mapping[str, Any],
        callbacks: Callbacks,
    ) -> None:
        self.answer: Answer | None = None
        self._session, self._done = session, False
        self._callbacks = callbacks
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
