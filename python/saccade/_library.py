"""libsaccade.so, opened once: the wheel's own, or the one that $SACCADE_LIBRARY names."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any

from . import _abi


class Error(Exception):
    """What the library refused or could not do, in one line. status: "NOT_FOUND", "BAD_ARGUMENT" ..., as in status.h."""

    def __init__(self, status: str, text: str) -> None:
        super().__init__(text)
        self.status = status


def _open() -> ctypes.CDLL:
    path = os.environ.get("SACCADE_LIBRARY") or os.path.join(os.path.dirname(__file__), "libsaccade.so")
    library = ctypes.CDLL(path)
    for name, (result, arguments) in _abi.FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    version = library.sac_version().decode()
    if not version.startswith(_abi.VERSION):
        raise ImportError(f"{path} is version {version}; this package is for {_abi.VERSION}*")
    return library


lib = _open()


def failure(status: int, error: _abi.Error) -> Error:
    return Error(lib.sac_status_name(status).decode(), error.text.decode("utf-8", "replace"))


def check(function: Any, *arguments: Any) -> None:
    """Calls it with an error of its own behind the arguments; raises what it says."""
    error = _abi.Error()
    status = function(*arguments, ctypes.byref(error))
    if status:
        raise failure(status, error)


def encoded(text: str | os.PathLike[str] | None) -> bytes | None:
    """What C reads as a text: UTF-8; of a path the system's bytes."""
    if text is None:
        return None
    data = os.fsencode(text) if isinstance(text, os.PathLike) else text.encode("utf-8", "surrogateescape")
    if b"\0" in data:
        raise ValueError("a text or path with a NUL character in it")
    return data


def text_list(texts: Sequence[str]) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * len(texts))(*map(encoded, texts))
