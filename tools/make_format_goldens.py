#!/usr/bin/env python3
"""Goldens of the picture formats that a build may be without: tests/golden/vision/formats/.

    pip install pillow==13.0.0 pillow-heif==1.8.1 pillow-jxl-plugin numpy
    tools/make_format_goldens.py

formats/        small TIFF, JPEG 2000, JPEG XL, HEIC and AVIF files; formats.txt has what Pillow (with the plugins of pillow-heif and
                pillow-jxl) makes of them: "file width height checksum", or "file refused". Of those that are decoded with loss, and by
                other versions of a library than the machine's, NAME.png is what Pillow makes of it, and pixels may differ a little.
"""
import io
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pillow_heif
import pillow_jxl  # noqa: F401 (registers itself)
from PIL import Image, ImageOps

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden" / "vision"
pillow_heif.register_heif_opener()


def drawing(width=19, height=13):
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([(x * 13) % 256, (y * 19) % 256, (x * y) % 256, 255 - (x * 9) % 256], -1).astype(np.uint8)


def smooth(width=64, height=48):
    y, x = np.mgrid[0:height, 0:width]
    return Image.fromarray(np.stack([x * 3, y * 4, 200 - x - y], -1).clip(0, 255).astype(np.uint8))


def saved(im, fmt, **options):
    out = io.BytesIO()
    im.save(out, fmt, **options)
    return out.getvalue()


def tiff(order, entries, data):
    """An uncompressed TIFF: {tag: (type, values)}; the pixels come first, behind the header."""
    size = {1: 1, 3: 2, 4: 4}
    code = {1: "B", 3: "H", 4: "I"}
    at = 8 + len(data)
    rest, directory = b"", b""
    first = at + 2 + 12 * len(entries) + 4
    for tag, (kind, values) in sorted(entries.items()):
        raw = struct.pack(order + code[kind] * len(values), *values)
        if len(raw) > 4:
            cell = struct.pack(order + "I", first + len(rest))
            rest += raw
        else:
            cell = raw + b"\0" * (4 - len(raw))
        directory += struct.pack(order + "HHI", tag, kind, len(raw) // size[kind]) + cell
    mark = b"II*\0" if order == "<" else b"MM\0*"
    return mark + struct.pack(order + "I", at) + data + struct.pack(order + "H", len(entries)) + directory + b"\0" * 4 + rest


def plain_tiff(order, width, height, bits, photometric, data, **more):
    entries = {256: (3, [width]), 257: (3, [height]), 258: (3, bits), 259: (3, [1]), 262: (3, [photometric]), 273: (4, [8]),
               277: (3, [len(bits)]), 278: (3, [height]), 279: (4, [len(data)])}
    entries.update({int(k[1:]): v for k, v in more.items()})
    if 322 in entries:  # tiles and no strips
        entries = {tag: v for tag, v in entries.items() if tag not in (273, 278, 279)}
    return tiff(order, entries, data)


def files():
    rgba = drawing()
    rgb = Image.fromarray(rgba[..., :3])
    grey = rgb.convert("L")
    f = {}
    for compression in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits"):
        f[f"rgb_{compression}.tif"] = saved(rgb, "TIFF", compression=compression)
    f["jpeg.tif"] = saved(rgb, "TIFF", compression="jpeg", quality=80)
    f["l.tif"] = saved(grey, "TIFF")
    f["bilevel_group4.tif"] = saved(rgb.convert("1"), "TIFF", compression="group4")
    f["palette.tif"] = saved(rgb.quantize(16), "TIFF")
    f["rgba.tif"] = saved(Image.fromarray(rgba, "RGBA"), "TIFF")
    f["la.tif"] = saved(Image.fromarray(rgba, "RGBA").convert("LA"), "TIFF")
    f["cmyk.tif"] = saved(Image.fromarray(rgba, "CMYK"), "TIFF", compression="tiff_lzw")
    words = np.arange(9 * 5, dtype=np.uint16).reshape(5, 9) * 9
    f["l16.tif"] = saved(Image.fromarray(words), "TIFF")
    deep = (np.arange(9 * 5 * 3, dtype=np.uint32) * 480 % 65536).astype(np.uint16)
    f["rgb16_be.tif"] = plain_tiff(">", 9, 5, [16] * 3, 2, deep.astype(">u2").tobytes())
    f["rgb16_le.tif"] = plain_tiff("<", 9, 5, [16] * 3, 2, deep.astype("<u2").tobytes())
    f["white_is_zero_4.tif"] = plain_tiff("<", 9, 5, [4], 0, bytes(range(25)))
    f["grey_2.tif"] = plain_tiff(">", 9, 5, [2], 1, bytes(range(40, 55)))
    f["planes.tif"] = plain_tiff("<", 5, 4, [8] * 3, 2, bytes(range(60)), t284=(3, [2]), t273=(4, [8, 28, 48]), t279=(4, [20] * 3))
    f["associated.tif"] = plain_tiff("<", 5, 4, [8] * 4, 2, bytes((i * 37) % 200 for i in range(80)), t338=(3, [1]))
    tile = bytes((i * 7) % 256 for i in range(16 * 16 * 2))
    f["tiles.tif"] = plain_tiff("<", 21, 13, [8], 1, tile, t322=(3, [16]), t323=(3, [16]), t324=(4, [8, 264]), t325=(4, [256, 256]))
    for o in (3, 6):
        f[f"orientation{o}.tif"] = plain_tiff("<", 5, 4, [8] * 3, 2, bytes(range(60)), t274=(3, [o]))
    whole = f["rgb_tiff_lzw.tif"]
    f["bad_cut.tif"] = f["rgb_raw.tif"][:-200] if f["rgb_raw.tif"][4:8] == b"\x08\0\0\0" else f["rgb_raw.tif"][:300]
    f["bad_lzw.tif"] = whole[:len(whole) // 2]
    f["bad_huge.tif"] = plain_tiff("<", 60000, 60000, [8] * 3, 2, b"x", t256=(4, [60000]), t257=(4, [60000]))
    f["bad_empty_directory.tif"] = tiff("<", {256: (3, [5])}, b"")

    f["lossless.jp2"] = saved(rgb, "JPEG2000", irreversible=False)
    f["grey.jp2"] = saved(grey, "JPEG2000", irreversible=False)
    f["rgba.jp2"] = saved(Image.fromarray(rgba, "RGBA"), "JPEG2000", irreversible=False)
    f["la.jp2"] = saved(Image.fromarray(rgba, "RGBA").convert("LA"), "JPEG2000", irreversible=False)
    f["i16.jp2"] = saved(Image.fromarray(words), "JPEG2000", irreversible=False)
    f["stream.j2k"] = saved(rgb, "JPEG2000", irreversible=False, no_jp2=True)
    f["tiles.jp2"] = saved(rgb, "JPEG2000", irreversible=False, tile_size=(8, 8))
    f["lossy.jp2"] = saved(smooth(), "JPEG2000", irreversible=True, quality_layers=[20])
    f["bad_cut.jp2"] = f["lossless.jp2"][:-60]
    at = f["stream.j2k"].index(b"\xff\x51")
    f["bad_huge.j2k"] = f["stream.j2k"][:at + 6] + struct.pack(">II", 60000, 60000) + f["stream.j2k"][at + 14:]

    f["lossless.jxl"] = saved(rgb, "JXL", lossless=True)
    f["rgba.jxl"] = saved(Image.fromarray(rgba, "RGBA"), "JXL", lossless=True)
    f["grey.jxl"] = saved(grey, "JXL", lossless=True)
    f["lossy.jxl"] = saved(smooth(), "JXL", quality=80)
    f["bad_cut.jxl"] = f["lossless.jxl"][:-50]

    f["lossy.heic"] = saved(smooth(), "HEIF", quality=80)
    f["alpha.heic"] = saved(smooth().convert("RGBA"), "HEIF", quality=80)
    exif = Image.Exif()
    exif[0x0112] = 6
    f["turned.heic"] = saved(smooth(), "HEIF", quality=80, exif=exif.tobytes())
    f["bad_cut.heic"] = f["lossy.heic"][:-100]
    f["lossy.avif"] = saved(smooth(), "AVIF", quality=80)
    f["alpha.avif"] = saved(smooth().convert("RGBA"), "AVIF", quality=80)
    f["turned.avif"] = saved(smooth(), "AVIF", quality=80, exif=exif.tobytes())
    f["bad_cut.avif"] = f["lossy.avif"][:-100]
    return f


LOSSY = ("lossy.jp2", "lossy.jxl", "lossy.heic", "alpha.heic", "turned.heic", "lossy.avif", "alpha.avif", "turned.avif", "jpeg.tif")


def pillow_pixels(data):
    try:
        return np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB"))
    except Exception:
        return None


def main():
    folder = GOLDEN / "formats"
    folder.mkdir(exist_ok=True)
    lines = ["# file width height checksum of its RGB, or a dash where NAME.png has it, or: file refused"]
    for name, data in sorted(files().items()):
        (folder / name).write_bytes(data)
        a = pillow_pixels(data)
        if (a is None) != name.startswith("bad_"):
            print(f"{name}: {'refused' if a is None else 'read'} by Pillow", file=sys.stderr)
        if a is None:
            lines.append(f"{name} refused")
            continue
        total = f"{zlib.crc32(np.ascontiguousarray(a).tobytes()):08x}"
        if name in LOSSY:
            (folder / (name + ".png")).write_bytes(saved(Image.fromarray(a), "PNG", optimize=True))
            total = "-"
        lines.append(f"{name} {a.shape[1]} {a.shape[0]} {total}")
    (GOLDEN / "formats.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
