#!/usr/bin/env python3
"""Goldens of decoding, resizing and image processing: tests/golden/vision/.

    pip install pillow==13.0.0 pillow-heif==1.8.1 numpy torch torchvision transformers==5.17.0
    tools/make_image_goldens.py            # writes them
    tools/make_image_goldens.py --check    # says whether they would change

resize.txt      checksums of 200 resizes by Pillow (three filters; bicubic also in the order of Pillow 12) and by torch
pictures/       small files of every format and oddity, pictures.txt what Pillow makes of them (size, checksum)
qwen2vl.txt     sizes and patch rows of Qwen2-VL's pictures and frames
qwen3vl.txt     those of Qwen3-VL's frames, which depend on their number
kimi_vl.txt     sizes and patch rows of Kimi-VL's pictures
glm4v.txt       those of GLM-4.1V's pictures and frames; glm4v_frames.txt: which frames its code and GLM-4.6V's look at
internvl.txt    tiles of InternVL's pictures and frames, and grids of many sizes
smolvlm.txt     tiles and patch rows of SmolVLM's pictures and frames; smolvlm_frames.txt: which frames its own code looks at
pixtral.txt     patch rows of Pixtral's pictures
minicpmv.txt    crops and patch rows of MiniCPM-V's pictures and frames
processor.json  what transformers' image processors make of pictures: tiles, token counts, order of the tokens
layout.txt      token counts and order of LLaVA-NeXT (transformers' pack_image_features) for many sizes
assets.txt      as pictures.txt, of the pictures in $SACCADE_ASSETS (default ../shared/assets), which are not stored here

Pictures to be resized are not stored: tests/unit/picture_data.h draws the same ones.
"""
import argparse
import io
import json
import math
import os
import random
import struct
import sys
import types
import zlib
from pathlib import Path

import numpy as np
import pillow_heif
import torch
import torch.nn.functional as F
from PIL import Image, ImageOps

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden" / "vision"


# ---- the pictures of picture_data.h ----

def splitmix(seed, n):
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def picture(kind, width, height, seed):
    if kind == 2:
        y, x, c = np.mgrid[0:height, 0:width, 0:3]
        return ((x * 7 + y * 13 + c * 29) & 255).astype(np.uint8)
    noise = (splitmix(seed, width * height * 3) >> np.uint64(56)).astype(np.uint8).reshape(height, width, 3)
    return noise // 128 * np.uint8(255) if kind == 1 else noise


def crc(array):
    return "-" if array is None else f"{zlib.crc32(np.ascontiguousarray(array).tobytes()):08x}"


# ---- resize.txt ----

def torch_resize(array, width, height, mode):
    t = torch.from_numpy(array).permute(2, 0, 1)[None].contiguous()
    try:
        out = F.interpolate(t, (height, width), mode=mode, antialias=True, align_corners=False)
    except RuntimeError as error:  # torch 2.11 stumbles over some pictures of one row or column
        assert "INTERNAL ASSERT FAILED" in str(error)
        return None
    return out[0].permute(1, 2, 0).numpy()


def resize_goldens():
    rng = random.Random(20)
    lines = ["# kind src_w src_h dst_w dst_h seed: lanczos bilinear bicubic, bicubic of Pillow 12, torch bilinear bicubic"]
    for i in range(200):
        src_w, src_h, dst_w, dst_h = (int(math.exp(rng.uniform(0, math.log(400)))) for _ in range(4))
        if i % 10 == 0:
            dst_w = src_w
        if i % 10 == 1:
            dst_h = src_h
        a = picture(i % 3, src_w, src_h, i)
        im = Image.fromarray(a)
        sums = [crc(np.asarray(im.resize((dst_w, dst_h), f)))
                for f in (Image.Resampling.LANCZOS, Image.Resampling.BILINEAR, Image.Resampling.BICUBIC)]
        # One pass at a time leaves Pillow 13 no choice of order: this is what Pillow 12 did in one call.
        sums.append(crc(np.asarray(im.resize((dst_w, src_h), Image.Resampling.BICUBIC)
                                   .resize((dst_w, dst_h), Image.Resampling.BICUBIC))))
        sums += [crc(torch_resize(a, dst_w, dst_h, m)) for m in ("bilinear", "bicubic")]
        lines.append(f"{i % 3} {src_w} {src_h} {dst_w} {dst_h} {i} " + " ".join(sums))
    return "\n".join(lines) + "\n"


# ---- pictures/ ----

def drawing(mode, width=19, height=13):
    y, x = np.mgrid[0:height, 0:width]
    rgba = np.stack([(x * 13) % 256, (y * 19) % 256, (x * y) % 256, 255 - (x * 9) % 256], -1).astype(np.uint8)
    rgba[2:6, 3:9, :3] = (250, 20, 30)
    im = Image.fromarray(rgba, "RGBA")
    return im if mode == "RGBA" else im.convert("RGB").convert(mode) if mode != "LA" else im.convert("LA")


def saved(im, fmt, **options):
    out = io.BytesIO()
    im.save(out, fmt, **options)
    return out.getvalue()


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, depth, color, rows, *extra, interlace=0, tail=b""):
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlace)
    data = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + b"".join(extra) + chunk(b"IDAT", data) + tail
            + chunk(b"IEND", b""))


def tiff_orientation(value, order="<", kind=3):
    mark = b"II*\0" if order == "<" else b"MM\0*"
    cell = struct.pack(order + "HH", value, 0) if kind == 3 else struct.pack(order + "I", value)
    return mark + struct.pack(order + "IH", 8, 1) + struct.pack(order + "HHI", 0x0112, kind, 1) + cell + b"\0" * 4


def bmp(width, height, bits, pixels, compression=0, palette=b"", masks=b"", colors=0, flip=False):
    offset = 54 + len(palette) + len(masks)
    return (b"BM" + struct.pack("<IHHI", offset + len(pixels), 0, 0, offset)
            + struct.pack("<IiiHHIIiiII", 40, width, -height if flip else height, 1, bits, compression, len(pixels), 0, 0,
                          colors, 0) + masks + palette + pixels)


def gif(screen, frame, indices, palette, transparent=None, interlace=0, local=False, clear_every=3):
    """Codes are written uncompressed: a clear code before the table grows."""
    bits, codes, out = 0, 0, bytearray()
    symbols = []
    for i, v in enumerate(indices):
        if i % clear_every == 0:
            symbols.append(8)
        symbols.append(v)
    for s in symbols + [9]:
        codes |= s << bits
        bits += 4
    data = codes.to_bytes((bits + 7) // 8, "little")
    for i in range(0, len(data), 255):
        out += bytes([len(data[i:i + 255])]) + data[i:i + 255]
    table = bytes(v for color in palette for v in color)
    flag = 0x80 | (len(palette).bit_length() - 2)
    head = b"GIF89a" + struct.pack("<HHBBB", *screen, 0 if local else flag, 0, 0) + (b"" if local else table)
    control = b"" if transparent is None else b"!\xf9\x04\x01\0\0" + bytes([transparent]) + b"\0"
    image = b"," + struct.pack("<HHHHB", *frame, (interlace << 6) | (flag if local else 0)) + (table if local else b"")
    return head + control + image + b"\x03" + bytes(out) + b"\0;"


def riff_with(data, name, value):
    """A simple WebP made an extended one, with a metadata chunk."""
    im = Image.open(io.BytesIO(data))
    flags = 8 if name == b"EXIF" else 4
    x = bytes([flags, 0, 0, 0]) + (im.width - 1).to_bytes(3, "little") + (im.height - 1).to_bytes(3, "little")
    body = b"WEBP" + b"VP8X" + struct.pack("<I", 10) + x + data[12:] + name + struct.pack("<I", len(value)) + value
    body += b"\0" * (len(value) & 1)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def picture_files():
    rng = random.Random(5)
    rgb, w, h = drawing("RGB"), 19, 13
    xmp = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="%d"/></x:xmpmeta>'
    colors8 = [(10, 20, 30), (200, 0, 0), (0, 200, 0), (0, 0, 200), (250, 250, 0), (0, 250, 250), (250, 0, 250), (9, 9, 9)]
    f = {}
    for mode in ("RGB", "RGBA", "L", "LA", "1", "P"):
        f[f"png_{mode.lower()}.png"] = saved(drawing(mode), "PNG")
    deep = [bytes(rng.randrange(256) for _ in range(4 * 9)) for _ in range(7)]
    f["png_la16.png"] = png(9, 7, 16, 4, deep)
    f["png_rgb16.png"] = png(6, 7, 16, 2, deep)
    f["png_l16.png"] = png(9, 7, 16, 0, [b"".join(struct.pack(">H", rng.randrange(400)) for _ in range(9)) for _ in range(7)])
    for depth in (1, 2, 4):
        f[f"png_l{depth}.png"] = png(9, 5, depth, 0, [bytes(rng.randrange(256) for _ in range((9 * depth + 7) // 8))
                                                   for _ in range(5)])
    plte = chunk(b"PLTE", bytes(v for c in colors8[:5] for v in c))
    rows = [bytes(rng.randrange(256) for _ in range(5)) for _ in range(5)]
    f["png_p4_short_palette.png"] = png(9, 5, 4, 3, rows, plte, chunk(b"tRNS", b"\0\x80\xff"))
    f["png_p_no_palette.png"] = png(5, 5, 8, 3, rows)
    f["png_rgb_trns.png"] = png(3, 5, 8, 2, [bytes(rng.randrange(256) for _ in range(9)) for _ in range(5)],
                                chunk(b"tRNS", b"\0\1\0\2\0\3"))
    f["png_exif.png"] = saved(rgb, "PNG", exif=b"Exif\0\0" + tiff_orientation(6))
    f["png_exif_last.png"] = png(3, 2, 8, 2, [b"abcdefghi", b"ABCDEFGHI"], tail=chunk(b"eXIf", tiff_orientation(8, ">")))
    f["png_xmp.png"] = png(3, 2, 8, 2, [b"abcdefghi", b"ABCDEFGHI"],
                           chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp % 3))
    f["png_xmp_packed.png"] = png(3, 2, 8, 2, [b"abcdefghi", b"ABCDEFGHI"],
                                  chunk(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + zlib.compress(xmp % 5)))
    raw = tiff_orientation(7, ">").hex().encode()
    f["png_raw_profile.png"] = png(3, 2, 8, 2, [b"abcdefghi", b"ABCDEFGHI"],
                                   chunk(b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(b"\nexif\n%8d\n%s\n" % (len(raw) // 2, raw))))
    data = zlib.compress(b"\0abcdefghi\0ABCDEFGHI")
    f["png_idat_parts.png"] = (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 3, 2, 8, 2, 0, 0, 0))
                               + b"".join(chunk(b"IDAT", data[i:i + 3]) for i in range(0, len(data), 3)) + chunk(b"IEND", b""))
    whole = saved(rgb, "PNG")
    f["png_no_end.png"] = whole[:-12]
    f["bad_png_cut.png"] = whole[:len(whole) // 2]
    f["bad_png_checksum.png"] = whole[:30] + bytes([whole[30] ^ 1]) + whole[31:]
    f["bad_png_data.png"] = whole[:60] + bytes([whole[60] ^ 0x40]) + whole[61:]
    f["bad_png_no_data.png"] = whole[:33] + chunk(b"IEND", b"")

    for sub in (0, 1, 2):
        f[f"jpeg_sub{sub}.jpg"] = saved(rgb, "JPEG", quality=70, subsampling=sub)
    f["jpeg_progressive.jpg"] = saved(rgb, "JPEG", quality=50, progressive=True)
    f["jpeg_restart.jpg"] = saved(rgb, "JPEG", quality=50, restart_marker_blocks=1)
    f["jpeg_grey.jpg"] = saved(drawing("L"), "JPEG", quality=60)
    f["jpeg_cmyk.jpg"] = saved(Image.merge("CMYK", drawing("RGBA").split()), "JPEG", quality=80)
    f["jpeg_ycck.jpg"] = f["jpeg_cmyk.jpg"].replace(b"Adobe\0\x64\0\0\0\0\0", b"Adobe\0\x64\0\0\0\0\2")
    assert f["jpeg_ycck.jpg"] != f["jpeg_cmyk.jpg"]
    small = rgb.resize((5, 3))
    for o in range(1, 9):
        f[f"jpeg_exif{o}.jpg"] = saved(small, "JPEG", quality=40, optimize=True,
                                       exif=b"Exif\0\0" + tiff_orientation(o, "<>"[o % 2], 3 if o < 5 else 4))
    whole = saved(small, "JPEG", quality=40, optimize=True)
    packet = b"http://ns.adobe.com/xap/1.0/\0" + xmp % 6
    f["jpeg_xmp.jpg"] = whole[:2] + b"\xff\xe1" + struct.pack(">H", len(packet) + 2) + packet + whole[2:]
    f["jpeg_bad_exif.jpg"] = saved(small, "JPEG", quality=40, optimize=True, exif=b"Exif\0\0garbage and more")
    f["bad_jpeg_no_end.jpg"] = whole[:-2]
    f["jpeg_damaged.jpg"] = whole[:-9] + b"\x12\x34\x56" + whole[-6:]
    f["bad_jpeg_cut.jpg"] = whole[:-12]
    f["bad_jpeg_header.jpg"] = whole[:100]

    # webp: lossy, lossless, with alpha, turned
    f["webp_lossy.webp"] = saved(rgb, "WEBP", quality=60)
    f["webp_lossless.webp"] = saved(rgb, "WEBP", lossless=True)
    f["webp_alpha.webp"] = saved(drawing("RGBA"), "WEBP", quality=60, exact=True)
    f["webp_alpha_lossless.webp"] = saved(drawing("RGBA"), "WEBP", lossless=True, exact=True)
    f["webp_exif.webp"] = riff_with(saved(small, "WEBP", lossless=True), b"EXIF", tiff_orientation(6))
    f["webp_xmp.webp"] = riff_with(saved(small, "WEBP", lossless=True), b"XMP ", xmp % 8)
    f["bad_webp_cut.webp"] = f["webp_lossy.webp"][:-20]

    indices = [(x * 3 + y) % 8 for y in range(11) for x in range(10)]
    f["gif_plain.gif"] = gif((10, 11), (0, 0, 10, 11), indices, colors8)
    f["gif_interlaced.gif"] = gif((10, 11), (0, 0, 10, 11), indices, colors8, interlace=1)
    f["gif_transparent.gif"] = gif((10, 11), (0, 0, 10, 11), indices, colors8, transparent=2)
    f["gif_part.gif"] = gif((14, 13), (3, 1, 10, 11), indices, colors8, transparent=5, local=True)
    f["gif_part_opaque.gif"] = gif((14, 13), (3, 1, 10, 11), indices, colors8)
    f["gif_beyond_screen.gif"] = gif((4, 4), (3, 1, 10, 11), indices, colors8)
    f["gif_grey_ramp.gif"] = gif((10, 11), (0, 0, 10, 11), indices, [(i, i, i) for i in range(4)])
    f["gif_short_palette.gif"] = gif((10, 11), (0, 0, 10, 11), indices, colors8[:4])
    f["gif_lzw.gif"] = saved(drawing("P", 40, 30), "GIF")
    f["gif_animated.gif"] = saved(drawing("P"), "GIF", save_all=True, append_images=[ImageOps.mirror(drawing("P"))])
    f["bad_gif_cut.gif"] = f["gif_plain.gif"][:-30]
    f["bad_gif_no_frame.gif"] = f["gif_plain.gif"][:13 + 24] + b";"

    f["bmp_24.bmp"] = saved(rgb, "BMP")
    f["bmp_grey.bmp"] = saved(drawing("L", 9, 5), "BMP")
    f["bmp_1.bmp"] = saved(drawing("1"), "BMP")
    f["bmp_32.bmp"] = saved(drawing("RGBA", 9, 5), "BMP")
    bgr0 = b"".join(bytes([b, g, r, 0]) for r, g, b in colors8)
    noise = bytes(rng.randrange(256) for _ in range(200))
    f["bmp_555.bmp"] = bmp(7, 5, 16, noise[:80])
    f["bmp_565.bmp"] = bmp(7, 5, 16, noise[:80], 3, masks=struct.pack("<III", 0xF800, 0x7E0, 0x1F))
    f["bmp_32_masks.bmp"] = bmp(4, 5, 32, noise[:80], 3, masks=struct.pack("<III", 0xFF000000, 0xFF0000, 0xFF00))
    f["bmp_4_top_down.bmp"] = bmp(7, 5, 4, noise[:20], palette=bgr0, colors=8, flip=True)
    f["bmp_rle8.bmp"] = bmp(6, 3, 8, b"\x04\x01\x00\x00\x00\x03\x02\x03\x04\x00\x00\x00\x00\x02\x01\x00\x05\x06\x00\x01", 1,
                            palette=bgr0, colors=8)
    f["bmp_rle4.bmp"] = bmp(6, 2, 4, b"\x06\x12\x00\x00\x00\x05\x34\x56\x70\x00\x01\x11\x00\x01", 2, palette=bgr0, colors=8)
    f["bad_bmp_cut.bmp"] = f["bmp_24.bmp"][:-40]
    f["bad_bmp_rle.bmp"] = bmp(6, 3, 8, b"\x04\x01\x00\x01", 1, palette=bgr0, colors=8)

    big = 100000
    f["bad_png_huge.png"] = png(big, big, 8, 2, [b""])
    f["bad_gif_huge.gif"] = gif((65535, 65535), (0, 0, 65535, 65535), [1, 2], colors8)
    f["bad_bmp_huge.bmp"] = bmp(big, big, 24, b"")
    at = whole.index(b"\xff\xc0")
    f["bad_jpeg_huge.jpg"] = whole[:at + 5] + struct.pack(">HH", 65000, 65000) + whole[at + 9:]
    f["bad_webp_huge.webp"] = (b"RIFF" + struct.pack("<I", 22) + b"WEBPVP8X" + struct.pack("<I", 10) + b"\0\0\0\0"
                               + (big - 1).to_bytes(3, "little") * 2)
    f["bad_empty.png"] = b""
    f["bad_text.png"] = b"this is not a picture, whatever its name says\n"
    return f


def pillow_pixels(data):
    """None where Pillow refuses the file, as load_image of transformers would."""
    try:
        im = Image.open(io.BytesIO(data), formats=["PNG", "JPEG", "GIF", "BMP", "WEBP"])
        return np.asarray(ImageOps.exif_transpose(im).convert("RGB"))
    except Exception:
        return None


def asset_files():
    folder = Path(os.environ.get("SACCADE_ASSETS", "../shared/assets"))
    paths = sorted(p for part in ("odd", "photos") for p in (folder / part).rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): p.read_bytes() for p in paths}


def has_loss_elsewhere(name):
    """HEIC and AVIF: their pixels depend on the version of a library (make_format_goldens.py compares them), their size does not."""
    return name.endswith((".heic", ".avif"))


def picture_goldens(files):
    lines = ["# file width height checksum of its RGB (-: by the library's version), or: file refused"]
    for name, data in sorted(files.items()):
        if has_loss_elsewhere(name):
            size = pillow_heif.open_heif(io.BytesIO(data)).size if name.endswith(".heic") else Image.open(io.BytesIO(data)).size
            lines.append(f"{name} {size[0]} {size[1]} -")
            continue
        a = pillow_pixels(data)
        assert "/" in name or (a is None) == name.startswith("bad_"), name
        lines.append(f"{name} refused" if a is None else f"{name} {a.shape[1]} {a.shape[0]} {crc(a)}")
    return "\n".join(lines) + "\n"


# ---- processor.json ----

RAW = dict(do_rescale=False, do_normalize=False)  # the tiles as uint8; what follows is (pixel / 255 - mean) / std


def transformers_tiles(cls, options, image):
    out = cls(**{**options, **RAW})(Image.fromarray(image), return_tensors="np")["pixel_values"]
    out = out[0] if out.ndim == 5 else out
    assert out.min() >= 0 and out.max() <= 255 and (out == out.astype(np.uint8)).all()
    return out.astype(np.uint8).transpose(0, 2, 3, 1)


def clip_layout(size, patch, extra):
    return np.arange((size // patch) ** 2 + extra, dtype=np.int32)


def next_layout(width, height, pinpoints, size, patch):
    """Row numbers instead of features through transformers' own packing; -1 for the newline."""
    from transformers.models.llava_next.modeling_llava_next import LlavaNextModel, image_size_to_num_patches
    config = types.SimpleNamespace(image_grid_pinpoints=pinpoints,
                                   vision_config=types.SimpleNamespace(image_size=size, patch_size=patch))
    n = image_size_to_num_patches([height, width], pinpoints, size)
    rows = torch.arange(n * (size // patch) ** 2, dtype=torch.float64).view(n, -1, 1)
    packed, _ = LlavaNextModel.pack_image_features(types.SimpleNamespace(config=config), [rows], [[height, width]],
                                                   "default", image_newline=torch.tensor([-1.0], dtype=torch.float64))
    return packed[0][:, 0].numpy().astype(np.int32)


def longva(image, pinpoints, size, patch):
    """LongVA's process_anyres_image and its "unires" packing (LongVA, llava_arch.py and mm_utils.py), from its rules:
    the best pinpoint (width, height); the picture fitted into it by bicubic, in the middle of black; tiles by rows; the
    squeezed base tile is made but never used; every tile's tokens averaged 2 x 2, tiles one after the other."""
    h, w = image.shape[:2]

    def merit(p):
        scale = min(p[0] / w, p[1] / h)
        used = min(int(w * scale) * int(h * scale), w * h)
        return used, -(p[0] * p[1] - used)
    best = max(pinpoints, key=merit)
    scale_w, scale_h = best[0] / w, best[1] / h
    fit = ((best[0], min(math.ceil(h * scale_w), best[1])) if scale_w < scale_h
           else (min(math.ceil(w * scale_h), best[0]), best[1]))
    canvas = Image.new("RGB", best)
    canvas.paste(Image.fromarray(image).resize(fit), ((best[0] - fit[0]) // 2, (best[1] - fit[1]) // 2))
    a = np.asarray(canvas)
    tiles = [a[y:y + size, x:x + size] for y in range(0, best[1], size) for x in range(0, best[0], size)]
    return np.stack(tiles), np.arange(len(tiles) * (size // patch // 2) ** 2, dtype=np.int32)


SIZES = [(1, 1), (1, 90), (200, 3), (55, 56), (57, 56), (61, 97), (97, 61), (100, 100), (333, 31), (31, 333), (120, 240),
         (241, 119), (401, 300), (300, 401)]


def processor_goldens():
    from transformers import CLIPImageProcessor, LlavaImageProcessor, LlavaNextImageProcessor
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
    from transformers.models.llava.image_processing_pil_llava import LlavaImageProcessorPil
    from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil
    mean = CLIPImageProcessor().image_mean
    hf_points = [[56, 112], [112, 56], [112, 112], [168, 56], [56, 168]]
    va_points = [[56 * x, 56 * y] for x in range(1, 4) for y in range(1, 4) if x * y <= 6]
    square = {"height": 56, "width": 56}
    clip = {"size": {"shortest_edge": 56}, "crop_size": square}
    small = {"size": {"shortest_edge": 43}, "crop_size": square}
    exact = {"size": square, "do_center_crop": False}
    tiles = {"size": {"shortest_edge": 56}, "crop_size": square, "image_grid_pinpoints": hf_points}
    groups = [  # name, kind, classes, options, config, extra tokens, video
        ("crop", "clip", CLIPImageProcessor, CLIPImageProcessorPil, clip, {}, 0, False),
        ("class_token", "clip", CLIPImageProcessor, CLIPImageProcessorPil, clip,
         {"vision_feature_select_strategy": "full"}, 1, False),
        ("crop_pads", "clip", CLIPImageProcessor, CLIPImageProcessorPil, small, {}, 0, False),
        ("exact", "clip", CLIPImageProcessor, CLIPImageProcessorPil, exact, {}, 0, False),
        ("llava_pad", "clip", LlavaImageProcessor, LlavaImageProcessorPil, {**clip, "do_pad": True}, {}, 0, False),
        ("anyres", "anyres", LlavaNextImageProcessor, LlavaNextImageProcessorPil, tiles,
         {"image_grid_pinpoints": hf_points}, 0, False),
        ("anyres_video", "anyres", CLIPImageProcessor, CLIPImageProcessorPil, clip, {"image_grid_pinpoints": hf_points}, 0,
         True),
        ("unires", "unires", None, None, clip, {"image_grid_pinpoints": va_points}, 0, False),
        ("unires_video", "unires", None, CLIPImageProcessorPil, clip,
         {"image_grid_pinpoints": str([tuple(p) for p in va_points]), "mm_spatial_pool_stride": 2,
          "mm_spatial_pool_mode": "average"}, 0, True),
    ]
    out = []
    for name, kind, torch_cls, pil_cls, options, config, extra, video in groups:
        named = {"image_processor_type": (torch_cls or CLIPImageProcessor).__name__, **options, **(config if kind == "anyres" else {})}
        for arithmetic in ("pillow", "torchvision"):
            if arithmetic == "torchvision" and torch_cls is None:
                continue
            rows = []
            for i, (w, h) in enumerate(SIZES):
                a = picture(0 if i % 2 else 2, w, h, i)
                cls = torch_cls if arithmetic == "torchvision" else pil_cls
                if name == "unires":
                    result, layout = longva(a, va_points, 56, 14)
                else:
                    result = transformers_tiles(cls, options, a)
                    layout = (next_layout(w, h, hf_points, 56, 14) if name == "anyres" else
                              clip_layout(56, 28 if kind == "unires" else 14, extra))
                rows.append([w, h, 0 if i % 2 else 2, i, len(result), len(layout), crc(result), crc(layout)])
            out.append({"name": name, "kind": kind, "arithmetic": arithmetic, "video": video, "image_size": 56,
                        "patch_size": 14, "preprocessor": named, "config": config, "pictures": rows})
    text = json.dumps({"mean": list(mean), "std": list(CLIPImageProcessor().image_std), "groups": out})
    return text.replace('{"name"', '\n{"name"').replace("[[1, 1", "\n [[1, 1").replace("], [", "],\n  [") + "\n"


# ---- qwen2vl.txt ----

def qwen_goldens():
    """Sizes and patch rows of Qwen2-VL, whose pictures keep their shape: by Pillow (p), by torchvision (t), and frames of
    videos (v), for which transformers has torchvision alone. One frame is repeated, as a picture is."""
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
    from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor
    from transformers.models.qwen2_vl.video_processing_qwen2_vl import Qwen2VLVideoProcessor
    lines = ["# by width height kind seed min_pixels max_pixels rows columns checksum of the patch rows"]
    sizes = [(28, 28), (1, 1), (3, 200), (200, 3), (29, 55), (14, 42), (42, 14), (13, 13), (56, 56), (57, 83), (100, 64), (64, 100),
             (131, 45), (45, 131), (90, 90), (300, 17), (17, 300), (400, 2), (222, 111), (70, 98)]
    for by, cls in (("p", Qwen2VLImageProcessorPil), ("t", Qwen2VLImageProcessor), ("v", Qwen2VLVideoProcessor)):
        for i, (w, h) in enumerate(sizes):
            low, high = ((3136, 12544), (784, 3136), (56 * 56, 28 * 28 * 1280), (1, 5000))[i % 4]
            kind = 0 if i % 2 else 2
            a = picture(kind, w, h, i)
            options = dict(RAW, size={"shortest_edge": low, "longest_edge": high})
            if by == "v":
                batch = cls(**options)(videos=[torch.from_numpy(a.transpose(2, 0, 1).copy())[None]], return_tensors="pt")
                pixels, grid = batch["pixel_values_videos"].numpy(), batch["video_grid_thw"][0].tolist()
            else:
                batch = cls(**options)(images=[Image.fromarray(a)], return_tensors="pt")
                pixels, grid = batch["pixel_values"].numpy(), batch["image_grid_thw"][0].tolist()
            rows = pixels.reshape(-1, 3, 2, 14, 14).transpose(0, 2, 3, 4, 1)
            assert (rows == rows.astype(np.uint8)).all()
            lines.append(f"{by} {w} {h} {kind} {i} {low} {high} {grid[1]} {grid[2]} {crc(rows.astype(np.uint8))}")
    return "\n".join(lines) + "\n"


# ---- qwen3vl.txt ----

def qwen3_goldens():
    """Sizes and patch rows of Qwen3-VL's frames, whose bounds are those of all frames together. All frames are the same."""
    from transformers.models.qwen3_vl.video_processing_qwen3_vl import Qwen3VLVideoProcessor
    lines = ["# frames width height kind seed min_pixels max_pixels rows columns checksum of a step's patch rows"]
    sizes = [(32, 32), (5, 40), (40, 5), (1, 1), (33, 61), (16, 48), (100, 64), (64, 100), (131, 45), (300, 17), (222, 111), (90, 90)]
    for n in (2, 3, 4, 5, 7, 16):
        for i, (w, h) in enumerate(sizes):
            low, high = ((4096, 25165824), (1024, 9000), (30000, 60000), (128, 150000))[(i + n) % 4]
            kind = 0 if i % 2 else 2
            video = torch.from_numpy(picture(kind, w, h, i).transpose(2, 0, 1).copy())[None].repeat(n, 1, 1, 1)
            options = dict(RAW, size={"shortest_edge": low, "longest_edge": high}, do_sample_frames=False,
                           cap_pixels_per_frame=False)
            batch = Qwen3VLVideoProcessor(**options)(videos=[video], return_tensors="pt")
            (t, rows, columns), pixels = batch["video_grid_thw"][0].tolist(), batch["pixel_values_videos"].numpy()
            step = pixels[:rows * columns].reshape(-1, 3, 2, 16, 16).transpose(0, 2, 3, 4, 1)
            assert t == (n + 1) // 2 and (step == step.astype(np.uint8)).all()
            lines.append(f"{n} {w} {h} {kind} {i} {low} {high} {rows} {columns} {crc(step.astype(np.uint8))}")
    return "\n".join(lines) + "\n"


# ---- kimi_vl.txt ----

def kimi_goldens():
    """Sizes and patch rows of Kimi-VL's pictures: by Pillow with the rule of its published folders (p), and by transformers' class of
    Kimi K2.5 (t), whose rule is the same for pictures of a patch and more, with torchvision."""
    import kimi_vl
    from transformers.models.kimi_k25.image_processing_kimi_k25 import Kimi_K25ImageProcessor
    lines = ["# by width height kind seed in_token_limit rows columns checksum of the patch rows"]
    sizes = [(28, 28), (1, 1), (14, 42), (29, 55), (57, 83), (131, 45), (300, 17), (17, 300), (400, 2), (222, 111), (360, 361), (700, 30)]
    for by in "pt":
        for i, (w, h) in enumerate(sizes):
            limit, kind = (4096, 20, 96, 1)[i % 4], 0 if i % 2 else 2
            if by == "t" and min(w, h) < 14:
                continue
            a = picture(kind, w, h, i)
            if by == "p":
                pixels = np.asarray(kimi_vl.drawn(Image.fromarray(a), 14, limit, 28))
                rows, columns = pixels.shape[0] // 14, pixels.shape[1] // 14
                patches = pixels.reshape(rows, 14, columns, 14, 3).transpose(0, 2, 1, 3, 4)
            else:
                batch = Kimi_K25ImageProcessor(**RAW, max_patches=limit)(images=[Image.fromarray(a)], return_tensors="pt")
                _, rows, columns = batch["image_grid_thw"][0].tolist()
                patches = batch["pixel_values"].numpy().reshape(rows, columns, 3, 14, 14).transpose(0, 1, 3, 4, 2)
            assert (patches == patches.astype(np.uint8)).all()
            squares = patches.astype(np.uint8).reshape(rows // 2, 2, columns // 2, 2, 14, 14, 3).transpose(0, 2, 1, 3, 4, 5, 6)
            lines.append(f"{by} {w} {h} {kind} {i} {limit} {rows} {columns} {crc(squares)}")
    return "\n".join(lines) + "\n"


# ---- glm4v.txt ----

def glm_goldens():
    """Sizes and patch rows of GLM-4.1V's pictures by Pillow (p), by torchvision (t), and of videos (v) of so many frames, all the
    same."""
    from transformers.models.glm4v.image_processing_glm4v import Glm4vImageProcessor
    from transformers.models.glm4v.image_processing_pil_glm4v import Glm4vImageProcessorPil
    from transformers.models.glm4v.video_processing_glm4v import Glm4vVideoProcessor
    lines = ["# by frames width height kind seed shortest_edge longest_edge rows columns checksum of a step's patch rows"]
    sizes = [(28, 28), (1, 1), (3, 200), (200, 3), (29, 55), (14, 42), (57, 83), (131, 45), (300, 17), (17, 300), (400, 2), (222, 111)]
    for n, by, cls in ((2, "p", Glm4vImageProcessorPil), (2, "t", Glm4vImageProcessor), (2, "v", Glm4vVideoProcessor),
                       (3, "v", Glm4vVideoProcessor), (4, "v", Glm4vVideoProcessor), (5, "v", Glm4vVideoProcessor), (10, "v", Glm4vVideoProcessor)):
        for i, (w, h) in enumerate(sizes):
            low, high = ((112 * 112, 28 * 28 * 15000), (1568, 6272), (30000, 60000), (1, 12000))[(i + n) % 4]
            kind = 0 if i % 2 else 2
            a, options = picture(kind, w, h, i), dict(RAW, size={"shortest_edge": low, "longest_edge": high})
            if by == "v":
                video = torch.from_numpy(a.transpose(2, 0, 1).copy())[None].repeat(n + n % 2, 1, 1, 1)  # as sample_frames has it
                batch = cls(**options, do_sample_frames=False)(videos=[video], return_tensors="pt")
                pixels, grid = batch["pixel_values_videos"].numpy(), batch["video_grid_thw"][0].tolist()
            else:
                batch = cls(**options)(images=[Image.fromarray(a)], return_tensors="pt")
                pixels, grid = batch["pixel_values"].numpy(), batch["image_grid_thw"][0].tolist()
            step = pixels[:grid[1] * grid[2]].reshape(-1, 3, 2, 14, 14).transpose(0, 2, 3, 4, 1)
            assert (step == step.astype(np.uint8)).all()
            lines.append(f"{by} {n} {w} {h} {kind} {i} {low} {high} {grid[1]} {grid[2]} {crc(step.astype(np.uint8))}")
    return "\n".join(lines) + "\n"


def glm_frame_goldens():
    """Which frames the code of GLM-4.1V (1) and of GLM-4.6V (2) looks at, before the last is repeated for an even number: their
    number, and the sum of index[i] * (i + 1)."""
    from transformers.models.glm46v.video_processing_glm46v import Glm46VVideoProcessor
    from transformers.models.glm4v.video_processing_glm4v import Glm4vVideoProcessor
    from transformers.video_utils import VideoMetadata
    rng, lines = random.Random(5), ["# pace frames rate fps max_duration number sum"]
    drawn = [(rng.choice([1, 2]), int(2 ** rng.uniform(0, 17)), rng.choice([24, 25, 30, 29.97, 23.976, 12.5, 7, 0.5, 60]),
              rng.choice([2, 2, 1, 0.5, 3, 30]), rng.choice([300, 300, 10, 60])) for _ in range(160)]
    drawn += [(k, n, 25, 2, 300) for k in (1, 2) for n in (1, 2, 3, 7500, 7501, 750, 751, 60000, 60001)]
    for pace, total, rate, fps, most in drawn:
        if pace == 2 and int(total / rate * 6) == 0:
            continue  # it finds none
        about = VideoMetadata(total_num_frames=total, fps=rate, duration=total / rate)
        one = Glm4vVideoProcessor(max_duration=most) if pace == 1 else Glm46VVideoProcessor()
        index = list(dict.fromkeys(one.sample_frames(about, fps=fps).tolist()))
        lines.append(f"{pace} {total} {rate} {fps} {most} {len(index)} {sum(x * (i + 1) for i, x in enumerate(index))}")
    return "\n".join(lines) + "\n"


# ---- smolvlm.txt ----

def smolvlm_goldens():
    """Tiles and patch rows of SmolVLM: by Pillow (p), by torchvision (t), and frames of videos (v)."""
    from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil
    from transformers.models.smolvlm.image_processing_smolvlm import SmolVLMImageProcessor
    from transformers.models.smolvlm.video_processing_smolvlm import SmolVLMVideoProcessor
    lines = ["# by width height kind seed longest_edge splits rows columns checksum of the patch rows; tiles of 33 in patches of 4"]
    sizes = [(33, 33), (1, 1), (3, 200), (200, 3), (29, 55), (14, 42), (42, 14), (13, 13), (66, 66), (57, 83), (100, 64), (64, 100),
             (131, 45), (45, 131), (90, 91), (300, 17), (17, 300), (400, 2), (222, 111), (70, 98), (34, 33), (65, 132)]
    for by, cls in (("p", SmolVLMImageProcessorPil), ("t", SmolVLMImageProcessor), ("v", SmolVLMVideoProcessor)):
        for i, (w, h) in enumerate(sizes):
            longest, splits = (132, 99, 65, 33)[i % 4], i % 5 != 4
            kind = 0 if i % 2 else 2
            a = picture(kind, w, h, i)
            options = dict(RAW, size={"longest_edge": longest}, max_image_size={"longest_edge": 33}, resample=1)
            if by == "v":
                batch = cls(**options)(videos=[torch.from_numpy(a.transpose(2, 0, 1).copy())[None]], return_tensors="pt")
                rows = columns = 0
            else:
                batch = cls(**options, do_image_splitting=splits)(images=[Image.fromarray(a)], return_row_col_info=True,
                                                                  return_tensors="pt")
                rows, columns = batch["rows"][0][0], batch["cols"][0][0]
            tiles = batch["pixel_values"][0].numpy()[:, :, :32, :32]
            cut = tiles.reshape(-1, 3, 4, 2, 4, 4, 2, 4).transpose(0, 2, 5, 3, 6, 4, 7, 1)  # squares of 2 x 2 patches
            assert (cut == cut.astype(np.uint8)).all()
            lines.append(f"{by} {w} {h} {kind} {i} {longest} {int(splits)} {rows} {columns} {crc(cut.astype(np.uint8))}")
    return "\n".join(lines) + "\n"


# ---- pixtral.txt ----

def pixtral_goldens():
    """Patch rows of Pixtral's pictures by Pillow (p) and by torchvision (t), in squares of so many patches a side."""
    from transformers.models.pixtral.image_processing_pil_pixtral import PixtralImageProcessorPil
    from transformers.models.pixtral.image_processing_pixtral import PixtralImageProcessor
    lines = ["# by width height kind seed greatest_width greatest_height patch merge, rows and columns of squares, checksum of the patch rows"]
    sizes = [(33, 33), (1, 1), (3, 60), (60, 3), (29, 55), (14, 42), (42, 14), (13, 13), (66, 66), (57, 83), (100, 64), (64, 100), (131, 45),
             (45, 131), (90, 91), (300, 17), (17, 300), (80, 2), (222, 111), (70, 98), (34, 33), (65, 132), (55, 55), (56, 56)]
    for by, cls in (("p", PixtralImageProcessorPil), ("t", PixtralImageProcessor)):
        for i, (w, h) in enumerate(sizes):
            most_w, most_h = ((56, 56), (90, 90), (41, 41), (77, 30))[i % 4]
            patch, merge = ((4, 2), (7, 1), (5, 2), (3, 3))[i // 3 % 4]
            kind, square = 0 if i % 2 else 2, patch * merge
            a = picture(kind, w, h, i)
            size = {"longest_edge": most_w} if most_w == most_h else {"height": most_h, "width": most_w}
            batch = cls(**RAW, size=size)(images=[Image.fromarray(a)], patch_size=square, return_tensors="pt")
            pixels = batch["pixel_values"][0].numpy()
            rows, columns = pixels.shape[1] // square, pixels.shape[2] // square
            cut = pixels.reshape(3, rows, merge, patch, columns, merge, patch).transpose(1, 4, 2, 5, 3, 6, 0)
            assert (cut == cut.astype(np.uint8)).all()
            lines.append(f"{by} {w} {h} {kind} {i} {most_w} {most_h} {patch} {merge} {rows} {columns} {crc(cut.astype(np.uint8))}")
    return "\n".join(lines) + "\n"


# ---- minicpmv.txt ----

def nested(pixels, sizes, patch, side):
    """Patch rows of crops in squares of `side`, and in these of 2, from columns of patches one behind another."""
    rows, at = [], 0
    for h, w in sizes:
        crop = pixels[:, :, at:at + h * w * patch].reshape(3, patch, h, w, patch).transpose(2, 3, 1, 4, 0)
        half = side // 2
        rows.append(crop.reshape(h // side, half, 2, w // side, half, 2, patch, patch, 3).transpose(0, 3, 1, 4, 2, 5, 6, 7, 8).reshape(-1))
        at += h * w * patch
    return np.concatenate(rows)


def minicpmv_goldens():
    """Pictures of MiniCPM-V by Pillow (p), frames (v) by torchvision; then the crops alone (g) of drawn sizes as published files have
    them."""
    from transformers.models.minicpmv4_6.image_processing_pil_minicpmv4_6 import MiniCPMV4_6ImageProcessorPil
    from transformers.models.minicpmv4_6.video_processing_minicpmv4_6 import MiniCPMV4_6VideoProcessor
    lines = ["# by width height kind seed scale slices patch side, columns of the grid, crops, rows and columns of patches of the first and of "
             "the others, checksum of the patch rows"]
    sizes = [(28, 28), (29, 28), (1, 1), (60, 3), (3, 60), (57, 83), (100, 64), (131, 45), (45, 131), (90, 91), (200, 1), (1, 200), (300, 17),
             (61, 34), (23, 50), (222, 111), (40, 40), (33, 65), (120, 80), (7, 9)]
    for by in "pv":
        for i, (w, h) in enumerate(sizes):
            scale, most, patch, mode = ((28, 9, 4, "16x"), (21, 5, 3, "4x"), (50, 4, 5, "16x"), (40, 12, 2, "4x"))[i % 4]
            kind, side = 0 if i % 2 else 2, 2 if mode == "4x" else 4
            a = picture(kind, w, h, i)
            keys = dict(RAW, scale_resolution=scale, max_slice_nums=most, patch_size=patch, downsample_mode=mode)
            if by == "p":
                batch = MiniCPMV4_6ImageProcessorPil(**keys)(images=[Image.fromarray(a)], return_tensors="pt")
                pixels, crops, grid = batch["pixel_values"][0].numpy(), batch["target_sizes"].tolist(), batch["grids"][0]
            else:
                video = torch.from_numpy(a).permute(2, 0, 1)[None]
                keys["do_rescale"] = True  # torch cuts no patches of uint8
                batch = MiniCPMV4_6VideoProcessor(**keys)(videos=[video], do_sample_frames=False, return_tensors="pt", input_data_format="channels_first")
                pixels, crops, grid = np.round(batch["pixel_values_videos"][0].numpy() * 255), batch["target_sizes_videos"].tolist(), batch["grids_videos"][0]
            cut = nested(pixels, crops, patch, side)
            assert (cut == cut.astype(np.uint8)).all()
            (y, x), (v, u) = crops[0], crops[-1]
            lines.append(f"{by} {w} {h} {kind} {i} {scale} {most} {patch} {side} {int(grid[1])} {len(crops)} {y} {x} {v} {u} {crc(cut.astype(np.uint8))}")
    real, rng = MiniCPMV4_6ImageProcessorPil(), random.Random(11)
    for _ in range(120):
        w, h = (int(2 ** rng.uniform(3, 12.5)) for _ in range(2))
        if max(w, h) > 200 * min(w, h):
            continue
        grid = real.get_sliced_grid((h, w), 9, 448)
        first = real.find_best_resize((h, w), 448, 14, "16x", grid is None)
        rest = real.get_refine_size((h, w), grid, 448, 14, "16x", True) if grid else first
        rows, columns = grid or (1, 1)
        crops = rows * columns + 1 if grid else 1
        lines.append(f"g {w} {h} 0 0 448 9 14 4 {columns if grid else 0} {crops} {first[0] // 14} {first[1] // 14} "
                     f"{rest[0] // rows // 14} {rest[1] // columns // 14} -")
    return "\n".join(lines) + "\n"


# ---- smolvlm_frames.txt ----

def smolvlm_frame_goldens():
    """Which frames SmolVLM's own code looks at: their number, and the sum of index[i] * (i + 1)."""
    from transformers.models.smolvlm.video_processing_smolvlm import SmolVLMVideoProcessor
    from transformers.video_utils import VideoMetadata
    processor, rng = SmolVLMVideoProcessor(), random.Random(3)
    lines = ["# frames rate fps max_frames number sum"]
    drawn = [(rng.randint(1, 40000), rng.choice([24, 25, 30, 29.97, 23.976, 12.5, 7, 0.5, 60]), rng.choice([1, 1, 1, 2, 0.5, 0.3]),
              rng.choice([64, 64, 64, 1, 2, 8, 300])) for _ in range(120)]
    drawn += [(1650, 25, 1, 64), (1651, 25, 1, 64), (1649, 25, 1, 64), (75, 30, 1, 64), (45, 30, 1, 64), (15, 30, 1, 64), (1, 1, 1, 64)]
    for total, rate, fps, most in drawn:
        about = VideoMetadata(total_num_frames=total, fps=rate, duration=total / rate)
        index = processor.sample_frames(about, num_frames=most, fps=fps)
        lines.append(f"{total} {rate} {fps} {most} {len(index)} {int((index * np.arange(1, len(index) + 1)).sum())}")
    return "\n".join(lines) + "\n"


# ---- internvl.txt ----

def internvl_goldens():
    """Tiles of InternVL by Pillow (p), by torchvision (t), and frames of videos (v), for which transformers has torchvision
    alone; then the grids (g) of drawn sizes at the real tile of 448."""
    from transformers.models.got_ocr2.image_processing_got_ocr2 import GotOcr2ImageProcessor, get_optimal_tiled_canvas
    from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil
    from transformers.models.internvl.video_processing_internvl import InternVLVideoProcessor
    lines = ["# by width height kind seed min_patches max_patches tiles checksum of the tiles; or g width height min_patches "
             "max_patches columns rows"]
    sizes = [(56, 56), (1, 1), (1, 300), (300, 1), (57, 55), (112, 56), (56, 112), (100, 64), (64, 100), (131, 45), (45, 131),
             (80, 79), (168, 112), (333, 31), (31, 333), (90, 90)]
    size = {"height": 56, "width": 56}
    for by, cls in (("p", GotOcr2ImageProcessorPil), ("t", GotOcr2ImageProcessor), ("v", InternVLVideoProcessor)):
        for i, (w, h) in enumerate(sizes):
            low, high = ((1, 12), (1, 6), (2, 4), (5, 3), (1, 1), (3, 9))[i % 6]
            kind = 0 if i % 2 else 2
            a = picture(kind, w, h, i)
            if by == "v":
                frames = torch.from_numpy(a.transpose(2, 0, 1).copy())[None]
                pixels = cls(size=size, **RAW)(videos=[frames], return_tensors="pt")["pixel_values_videos"][0].numpy()
            else:
                options = dict(RAW, size=size, crop_to_patches=True, min_patches=low, max_patches=high)
                pixels = cls(**options)(images=[Image.fromarray(a)], return_tensors="np")["pixel_values"]
            tiles = pixels.transpose(0, 2, 3, 1)
            assert (tiles == tiles.astype(np.uint8)).all()
            lines.append(f"{by} {w} {h} {kind} {i} {low} {high} {len(tiles)} {crc(tiles.astype(np.uint8))}")
    rng = random.Random(30)
    for i in range(400):
        w, h = (int(math.exp(rng.uniform(0, math.log(5000)))) for _ in range(2))
        low, high = rng.choice([(1, 12), (1, 12), (1, 6), (2, 8), (1, 40), (7, 7), (9, 2)])
        if i % 4 == 0:  # shapes that lie as near to one grid as to another
            h = w = 224 * rng.randint(1, 9)
            w = w * rng.randint(1, 5) // rng.randint(1, 4)
        columns, rows = get_optimal_tiled_canvas((h, w), (448, 448), low, high)
        lines.append(f"g {w} {h} {low} {high} {columns} {rows}")
    return "\n".join(lines) + "\n"


# ---- layout.txt ----

def layout_goldens():
    from transformers.models.llava_next.processing_llava_next import LlavaNextProcessor
    rng = random.Random(7)
    points = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]
    me = types.SimpleNamespace(image_processor=types.SimpleNamespace(image_grid_pinpoints=points), patch_size=14,
                               num_additional_image_tokens=0)
    me._get_unpadded_features = types.MethodType(LlavaNextProcessor._get_unpadded_features, me)
    lines = ["# LLaVA-NeXT, tiles of 336, patches of 14: width height tokens checksum of the order"]
    sizes = [(rng.randint(1, 3000), rng.randint(1, 3000)) for _ in range(150)]
    sizes += [(int(2 ** rng.uniform(0, 12)), int(2 ** rng.uniform(0, 12))) for _ in range(100)]
    sizes += [(336 * a, 336 * b) for a in range(1, 5) for b in range(1, 5)] + [(672, 671), (671, 672), (1, 4000), (4000, 1)]
    for w, h in sizes:
        layout = next_layout(w, h, points, 336, 14)
        count = LlavaNextProcessor._get_number_of_features(me, h, w, 336, 336)
        assert count == len(layout), (w, h, count, len(layout))
        lines.append(f"{w} {h} {len(layout)} {crc(layout)}")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the stored files, write nothing")
    args = parser.parse_args()
    stored = {p.name: p.read_bytes() for p in (GOLDEN / "pictures").glob("*")}
    files = stored if args.check else picture_files()
    made = {GOLDEN / "pictures" / name: data for name, data in files.items()}
    texts = {"resize.txt": resize_goldens(), "pictures.txt": picture_goldens(files), "processor.json": processor_goldens(),
             "layout.txt": layout_goldens(), "qwen2vl.txt": qwen_goldens(), "qwen3vl.txt": qwen3_goldens(),
             "internvl.txt": internvl_goldens(), "pixtral.txt": pixtral_goldens(), "minicpmv.txt": minicpmv_goldens(),
             "smolvlm.txt": smolvlm_goldens(), "smolvlm_frames.txt": smolvlm_frame_goldens(),
             "glm4v.txt": glm_goldens(), "glm4v_frames.txt": glm_frame_goldens(), "kimi_vl.txt": kimi_goldens()}
    if assets := asset_files():
        texts["assets.txt"] = picture_goldens(assets)
    made |= {GOLDEN / name: text.encode() for name, text in texts.items()}
    changed = [p for p, data in made.items() if not p.exists() or p.read_bytes() != data]
    for path in changed:
        print(("differs: " if args.check else "written: ") + str(path.relative_to(GOLDEN)))
        if not args.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(made[path])
    print(f"{len(made)} files, {len(changed)} changed, {sum(map(len, made.values()))} bytes")
    return 1 if args.check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
