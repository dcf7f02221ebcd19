"""Saccade from Python: vision-language models on pictures and videos.

    import saccade
    session = saccade.Model("models/demo").session()
    print(session.ask("What is this?", images=["cat.jpg"]))

Calls let go of the interpreter's lock while the model runs, so sessions of several threads run side by side.
"""
from __future__ import annotations

from ._async import AsyncStream
from ._batch import Batch
from ._inner import Kept, Place
from ._library import Error, lib as _lib
from ._messages import Image, Video
from ._model import Answer, Model, Session, Stream

__version__: str = _lib.sac_version().decode()
__all__ = ["Answer", "AsyncStream", "Batch", "Error", "Image", "Kept", "Model", "Place", "Session", "Stream", "Video"]
