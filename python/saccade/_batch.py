"""Several answers made side by side, so that every weight is read once a step for all of them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import _abi
from ._library import Error, check, failure, lib
from ._messages import Conversation
from ._async import in_thread
from ._calls import Callbacks, Sampling
from ._model import Answer, Model, Session, answer_of

_byref = ctypes.byref


class Batch:
    """size sessions of one model (each takes a context's memory) and what they share. For one thread at a time."""

    def __init__(self, model: Model, size: int, **config: Any) -> None:
        self._handle = ctypes.c_void_p()
        self._sessions = [Session(model, **config) for _ in range(size)]
        check(lib.sac_batch_create, _byref(self._handle), model._open(), size)
        self._model = model
        model._sessions.add(self)

    def generate(
        self, conversations: Iterable[Sequence[Mapping[str, Any]]], *, return_errors: bool = False, **sampling: Any
    ) -> list[Answer | Error]:
        """The answers to conversations (as Session.generate takes them), in their order, each the one it would get alone. With
        return_errors an Error stands in the list for what failed; otherwise the first is raised."""
        return self._generate(Callbacks(), conversations, return_errors, sampling)

    async def agenerate(
        self, conversations: Iterable[Sequence[Mapping[str, Any]]], *, return_errors: bool = False, **sampling: Any
    ) -> list[Answer | Error]:
        """generate() for asyncio: the loop goes on meanwhile, and a task that is cancelled ends the call."""
        callbacks = Callbacks()
        return await in_thread(callbacks, self._generate, callbacks, list(conversations), return_errors, sampling)

    def _generate(
        self,
        callbacks: Callbacks,
        conversations: Iterable[Sequence[Mapping[str, Any]]],
        return_errors: bool,
        sampling: Mapping[str, Any],
    ) -> list[Answer | Error]:
        if not self._handle:
            raise ValueError("the batch is closed")
        waiting = enumerate(conversations)
        answers: dict[int, Answer | Error] = {}
        free = list(self._sessions)
        running: dict[int, Session] = {}
        settings = Sampling(self._model, sampling)

        def note(index: int, outcome: Answer | Error) -> None:
            answers[index] = outcome
            if isinstance(outcome, Error) and not return_errors:
                raise outcome

        try:
            while True:
                while free and (item := next(waiting, None)) is not None:
                    index, messages = item
                    try:
                        self._begin(free[-1], messages, settings, callbacks)
                    except Error as e:
                        note(index, e)
                        continue
                    running[index] = free.pop()
                if not running:
                    return [answers[i] for i in range(len(answers))]
                for index, outcome in self._step(running, callbacks):
                    free.append(running.pop(index))
                    note(index, outcome)
        finally:
            for session in running.values():
                lib.sac_session_end(session._handle, None)

    @staticmethod
    def _begin(
        session: Session, messages: Sequence[Mapping[str, Any]], settings: Sampling, callbacks: Callbacks
    ) -> None:
        conversation = Conversation(messages)
        callbacks.call(
            lib.sac_session_begin,
            session._open(),
            conversation.array,
            conversation.n,
            _byref(settings.c),
            _byref(callbacks.c),
        )

    def _step(self, running: Mapping[int, Session], callbacks: Callbacks) -> list[tuple[int, Answer | Error]]:
        """One more token for each; those that have ended, with what came."""
        items = (_abi.BatchItem * len(running))()
        for item, session in zip(items, running.values()):
            item.session, item.events = session._handle.value, ctypes.pointer(callbacks.c)
        callbacks.call(lib.sac_batch_step, self._handle, items, len(running))
        ended: list[tuple[int, Answer | Error]] = []
        for item, (index, session) in zip(items, running.items()):
            if not item.status and not item.done:
                continue
            result = _abi.Result()
            lib.sac_session_end(session._handle, _byref(result))
            ended.append((index, failure(item.status, item.error) if item.status else answer_of(result)))
        callbacks.pieces.clear()
        return ended

    def close(self) -> None:
        for session in self._sessions:
            session.close()
        handle, self._handle = self._handle, ctypes.c_void_p()
        lib.sac_batch_free(handle)

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            lib.sac_batch_free(self._handle)
