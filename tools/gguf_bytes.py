"""Metadata of GGUF files as bytes (versions 2 and 3, little endian)."""
import struct


def value(v):
    """A metadata value with its type in front."""
    if isinstance(v, bool):
        return struct.pack("<I?", 7, v)
    if isinstance(v, int):
        return struct.pack("<II", 4, v)
    if isinstance(v, float):
        return struct.pack("<If", 6, v)
    if isinstance(v, str):
        return struct.pack("<I", 8) + text(v)
    if v and isinstance(v[0], bool):
        return struct.pack("<IIQ", 9, 7, len(v)) + bytes(v)
    if v and isinstance(v[0], float):
        return struct.pack(f"<IIQ{len(v)}f", 9, 6, len(v), *v)
    kind, pack = (8, text) if isinstance(v[0], str) else (5, lambda i: struct.pack("<i", i))
    return struct.pack("<IIQ", 9, kind, len(v)) + b"".join(map(pack, v))


def text(s):
    return struct.pack("<Q", len(s.encode())) + s.encode()
