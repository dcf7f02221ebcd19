"""The calls of Session and Batch for asyncio: the library works in a thread of its own, the loop goes on. A task that is cancelled ends
its call, and has ended only when the session is free again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ._calls import Callbacks

if TYPE_CHECKING:
    from ._model import Answer, Stream

T = TypeVar("T")


async def in_thread(callbacks: Callbacks, function: Callable[..., T], *arguments: Any) -> T:
    """Runs a function whose calls of the library have these callbacks."""
    future = asyncio.get_running_loop().run_in_executor(None, function, *arguments)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        callbacks.stop = True
        await asyncio.wait([future])
        future.exception()  # CANCELLED, which is no news
        raise


class AsyncStream(AsyncIterator[str]):
    """The pieces of an answer as they come: async for piece in session.astream(messages). answer: what has come, once they have ended."""

    def __init__(self, begin: Callable[[Callbacks], Stream], callbacks: Callbacks) -> None:
        self._begin: Callable[[Callbacks], Stream] | None = begin
        self._callbacks = callbacks
        self._stream: Stream | None = None

    @property
    def answer(self) -> Answer | None:
        return self._stream.answer if self._stream else None

    async def __anext__(self) -> str:
        if self._begin is not None:
            begin, self._begin = self._begin, None
            self._stream = await in_thread(self._callbacks, begin, self._callbacks)
        if self._stream is None:  # its beginning failed
            raise StopAsyncIteration
        try:
            piece: str | None = await in_thread(self._callbacks, next, self._stream, None)
        except asyncio.CancelledError:
            self._stream.close()
            raise
        if piece is None:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        """Ends the answer where it is; it stays in the session."""
        self._begin = None
        if self._stream is not None:
            self._stream.close()

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.aclose()
