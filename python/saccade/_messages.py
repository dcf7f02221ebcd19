"""Conversations as the library takes them: pictures and videos of many kinds, and messages around them."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

from . import _abi
from ._library import encoded

Picture = Union[str, "os.PathLike[str]", bytes, Any]  # Any: a Pillow image, or an array as numpy has them


@dataclass(frozen=True)
class Image:
    """A picture: the path of a file, the bytes of one, a Pillow image, or an array [height][width][3] of uint8 (RGB).

    An array is read where it lies, not copied. Of a Pillow image the pixels are taken as they are: a file's orientation
    (EXIF) is applied where the path or the bytes are given."""

    source: Picture


@dataclass(frozen=True)
class Video:
    """A video: a path, the bytes of a file, a list of pictures (paths or bytes, or Pillow images or arrays, all of one size), or an
    array [frames][height][width][3].

    Which frames are looked at: the smallest of what is given, as in docs/command.md. times: seconds of each frame of a
    list or an array; otherwise one a second."""

    source: Any
    fps: float = 0
    num_frames: int = 0
    max_frames: int = 0
    max_pixels: int = 0
    key_frames: bool = False
    times: Sequence[float] | None = None


class Conversation:
    """Messages in C's structs. Whatever these point to lives as long as this object."""

    def __init__(self, messages: Sequence[Mapping[str, Any]]) -> None:
        self._kept: list[Any] = []
        self.n = len(messages)
        self.array = (_abi.Message * max(1, self.n))(*map(self._message, messages))

    def _keep(self, value: Any) -> Any:
        self._kept.append(value)
        return value

    def _message(self, message: Mapping[str, Any]) -> _abi.Message:
        content = message.get("content")
        parts = [content] if isinstance(content, (str, Image, Video)) else list(content or [])
        fields = {key: value for key, value in message.items() if key not in ("role", "content")}
        array = self._keep((_abi.Part * max(1, len(parts)))(*map(self._part, parts)))
        return _abi.Message(
            role=encoded(message["role"]),
            parts=array,
            n_parts=len(parts),
            fields=json.dumps(fields).encode() if fields else None,
        )

    def _part(self, part: Any) -> _abi.Part:
        if isinstance(part, str):
            return _abi.Part(kind=_abi.PART_TEXT, text=encoded(part))
        if isinstance(part, Video):
            return self._video(part)
        return self._picture(part.source if isinstance(part, Image) else part)

    def _file(self, kind: int, source: Any) -> _abi.Part | None:
        """Of a path or of bytes; None where it is neither."""
        if isinstance(source, (str, os.PathLike)):
            return _abi.Part(kind=kind, path=encoded(source))
        if isinstance(source, (bytes, bytearray, memoryview)):
            data = self._keep(bytes(source))
            return _abi.Part(kind=kind, bytes=ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p), n_bytes=len(data))
        return None

    def _picture(self, source: Picture) -> _abi.Part:
        file = self._file(_abi.PART_IMAGE, source)
        if file is not None:
            return file
        image: Any = source
        if hasattr(image, "tobytes") and hasattr(image, "convert"):  # Pillow's
            width, height = image.size
            data = self._keep(image.convert("RGB").tobytes())
            address = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p)
            return _abi.Part(kind=_abi.PART_PIXELS, pixels=_abi.Pixels(width=width, height=height, rgb=address))
        return _abi.Part(kind=_abi.PART_PIXELS, pixels=self._array(source, 3))

    def _array(self, source: Any, n_dims: int) -> _abi.Pixels:
        """Of an array that says where its bytes are (numpy's __array_interface__)."""
        about = getattr(source, "__array_interface__", None)
        if about is None:
            raise TypeError(f"a picture or video cannot be of type {type(source).__name__}")
        shape, strides = about["shape"], about.get("strides")
        if about["typestr"] != "|u1" or len(shape) != n_dims or shape[-1] != 3:
            wanted = "[frames][height][width][3]" if n_dims == 4 else "[height][width][3]"
            raise ValueError(f"an array of {about['typestr']} {list(shape)}: give uint8 {wanted}")
        height, width = shape[-3:-1]
        row = strides[-3] if strides else 3 * width
        if strides and (
            strides[-1] != 1
            or strides[-2] != 3
            or row < 3 * width
            or (n_dims == 4 and shape[0] > 1 and strides[0] != height * row)
        ):
            raise ValueError(
                "an array whose pixels do not follow one another in memory: give numpy.ascontiguousarray of it"
            )
        self._keep(source)
        return _abi.Pixels(
            width=width, height=height, rgb=about["data"][0], row_bytes=row, n_frames=shape[0] if n_dims == 4 else 0
        )

    def _video(self, video: Video) -> _abi.Part:
        options = _abi.VideoOptions(
            fps=video.fps, num_frames=video.num_frames, max_frames=video.max_frames, max_pixels=video.max_pixels,
            key_frames=video.key_frames
        )
        part = self._file(_abi.PART_VIDEO, video.source)
        if part is not None and video.times is not None:
            raise ValueError("times are those of a list of pictures or of an array; a video file has its own")
        if part is None and isinstance(video.source, (list, tuple)):
            part = self._frames(video)
        elif part is None:
            pixels = self._array(video.source, 4)
            times = self._times(video, pixels.n_frames)
            pixels.time_s = self._keep((ctypes.c_double * len(times))(*times))
            part = _abi.Part(kind=_abi.PART_PIXELS, pixels=pixels)
        part.video = options
        return part

    def _frames(self, video: Video) -> _abi.Part:
        times = self._times(video, len(video.source))
        if video.source and self._file(_abi.PART_IMAGE, video.source[0]) is None:
            return self._decoded(video.source, times)
        frames = self._keep((_abi.Frame * max(1, len(times)))())
        for frame, source, seconds in zip(frames, video.source, times):
            file = self._file(_abi.PART_IMAGE, source)
            if file is None:
                raise TypeError("some frames are files, others decoded: give one kind")
            frame.path, frame.bytes, frame.n_bytes, frame.time_s = file.path, file.bytes, file.n_bytes, seconds
        return _abi.Part(kind=_abi.PART_FRAMES, frames=frames, n_frames=len(times))

    def _decoded(self, pictures: Sequence[Any], times: Sequence[float]) -> _abi.Part:
        """Of decoded pictures of one size, copied one behind the other."""
        frames = [self._picture(picture) for picture in pictures]
        if any(frame.kind != _abi.PART_PIXELS for frame in frames):
            raise TypeError("some frames are decoded, others files: give one kind")
        width, height = frames[0].pixels.width, frames[0].pixels.height
        data = bytearray()
        for frame in frames:
            pixels = frame.pixels
            if (pixels.width, pixels.height) != (width, height):
                raise ValueError(f"frames of {width}x{height} and {pixels.width}x{pixels.height}: all must be of one size")
            for y in range(height):
                data += ctypes.string_at(pixels.rgb + y * (pixels.row_bytes or 3 * width), 3 * width)
        copy = self._keep((ctypes.c_uint8 * len(data)).from_buffer(data))
        seconds = self._keep((ctypes.c_double * len(times))(*times))
        pixels = _abi.Pixels(
            width=width, height=height, rgb=ctypes.addressof(copy), n_frames=len(frames), time_s=seconds
        )
        return _abi.Part(kind=_abi.PART_PIXELS, pixels=pixels)

    @staticmethod
    def _times(video: Video, n: int) -> list[float]:
        times = [float(i) for i in (range(n) if video.times is None else video.times)]
        if len(times) != n:
            raise ValueError(f"{len(times)} times for {n} frames")
        return times


def question(
    text: str, images: Sequence[Picture | Image], videos: Sequence[Any], system: str | None
) -> list[dict[str, Any]]:
    """The messages of one question about pictures and videos, which come before it in the order given."""
    content = [i if isinstance(i, Image) else Image(i) for i in images] + [
        v if isinstance(v, Video) else Video(v) for v in videos
    ]
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system is not None else []
    return [*messages, {"role": "user", "content": [*content, text]}]
