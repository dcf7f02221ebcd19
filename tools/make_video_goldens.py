#!/usr/bin/env python3
"""Makes tests/golden/video: tiny videos (ffmpeg), what PyAV makes of them, and numpy's and Pillow's answers.

    tools/make_video_goldens.py [--keep]     (needs ffmpeg with x264, x265 and vpx; av, numpy, pillow)

Every frame of the videos is grey of a brightness that tells its number, with a white upper left quarter and a tint in the
lower half, so that a wrong frame, a wrong turn and a wrong conversion all show. --keep makes only the answers anew."""

import json
import math
import pathlib
import subprocess
import sys

import av
import numpy as np
from PIL import Image

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/video"

VIDEOS = {  # name: (frames, size, options)
    "bframes.mp4": (60, "64x48", "-c:v libx264 -bf 3 -g 20 -sc_threshold 0 -movflags +faststart"),
    "fragmented.mp4": (40, "64x48", "-c:v libx264 -bf 2 -g 10 -sc_threshold 0 -movflags frag_keyframe+empty_moov"),
    "vfr.mkv": (40, "64x48", "-vf select='not(mod(n,3))+lt(n,8)' -vsync vfr -c:v libx264 -bf 2 -g 15"),
    "open_gop.ts": (40, "64x48", "-c:v mpeg2video -bf 2 -g 9 -flags -cgop -q:v 4"),
    "full_range.mp4": (8, "64x48", "-c:v libx264 -colorspace bt709 -color_primaries bt709 -color_trc bt709 "
                       "-vf scale=in_range=tv:out_range=pc:out_color_matrix=bt709 -pix_fmt yuvj420p"),
    "ten_bit.mp4": (12, "64x48", "-c:v libx265 -pix_fmt yuv420p10le -x265-params log-level=none:keyint=6:bframes=2 -tag:v hvc1"),
    "hidden.webm": (40, "70x50", "-c:v libvpx -auto-alt-ref 1 -lag-in-frames 16 -g 30 -b:v 40k"),
    "vp9.webm": (30, "71x49", "-c:v libvpx-vp9 -g 12 -b:v 40k -cpu-used 8"),
    "bframes.avi": (30, "64x48", "-c:v mpeg4 -bf 2 -g 10 -q:v 6"),
    "picture.gif": (5, "33x21", "-f gif"),
    "one_frame.mp4": (1, "64x48", "-c:v libx264"),
    "refused.mov": (2, "32x16", "-c:v cinepak"),
}
REFUSED = ["refused.mov", "sound.m4a"]


def ffmpeg(*args):
    subprocess.run(["ffmpeg", "-hide_banner", "-loglevel", "error", "-y", "-bitexact", *args], check=True, cwd=FOLDER)


def make_videos():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, (n_frames, size, options) in VIDEOS.items():
        draw = ("geq=lum='if(lt(X,W/2)*lt(Y,H/2),235,20+mod(N*37,200))':cb='128+40*gte(Y,H/2)':cr='128-30*gte(Y,H/2)'")
        options = options.split()
        if "-vf" in options:
            at = options.index("-vf")
            draw += "," + options[at + 1]
            del options[at:at + 2]
        ffmpeg("-f", "lavfi", "-i", f"color=black:size={size}:rate=25,format=yuv444p,{draw},format=yuv420p", "-frames:v", str(n_frames), "-threads", "1",
               *options, name)
    for name, degrees in (("rotated.mp4", "90"), ("upside_down.mp4", "180")):
        ffmpeg("-i", "one_frame.mp4", "-c", "copy", "-metadata:s:v", "rotate=" + degrees, name)
    ffmpeg("-f", "lavfi", "-i", "sine=frequency=440:duration=0.2", "-c:a", "aac", "-b:a", "16k", "sound.m4a")


def blocks(frame):
    """Mean colour of 4 x 4 blocks: enough to tell frames, turns and conversions apart."""
    h, w = frame.shape[0] // 4, frame.shape[1] // 4
    means = frame[:4 * h, :4 * w].reshape(4, h, 4, w, 3).mean(axis=(1, 3))
    return [int(v) for v in np.rint(means).ravel()]


def describe(name):
    with av.open(str(FOLDER / name)) as container:
        stream = container.streams.video[0]
        frames = list(container.decode(video=0))
        return {
            "file": name, "codec": stream.codec_context.codec.canonical_name, "width": stream.width, "height": stream.height,
            "fps": float(stream.average_rate or 0), "rotation": -frames[0].rotation % 360,
            "times": [frame.time for frame in frames],
            "blocks": [blocks(frame.to_ndarray(format="rgb24")) for frame in frames],
        }


def sampling():
    """numpy's linspace and the rule for fps, as index lists folded into one number: sum of index[i] * (i + 1)."""
    rng = np.random.default_rng(0)
    pairs = [(t, n) for t in range(1, 41) for n in range(1, t + 1)]
    pairs += [(int(t), int(rng.integers(1, min(t, 2000) + 1))) for t in rng.integers(41, 300000, 800)]
    linspace = [[t, n, int((np.linspace(0, t - 1, n, dtype=int) * np.arange(1, n + 1)).sum())] for t, n in pairs]
    rates = [24, 25, 30, 60, 24000 / 1001, 30000 / 1001, 60000 / 1001, 12.5, 14.985, 7]
    fps = []
    for _ in range(1500):
        total, rate = int(rng.integers(1, 5000)), float(rng.choice(rates))
        wanted = float(rng.choice([0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 12, 15, 24, 25, 30, rate, 100]))
        fps.append([total, rate, wanted, max(1, min(total, math.floor(total / rate * wanted)))])
    return {"linspace": linspace, "fps": fps}


def still_pictures():
    y, x = np.mgrid[0:23, 0:37]
    rgba = np.stack([x * 6, y * 11, (x * y) % 256, 255 - x * 5], axis=-1).astype(np.uint8)
    picture = Image.fromarray(rgba, "RGBA")
    picture.save(FOLDER / "lossless.webp", lossless=True, exact=True)
    picture.convert("RGB").save(FOLDER / "lossy.webp", quality=60)
    picture.save(FOLDER / "lossy_alpha.webp", quality=80)
    turned = [picture.convert("RGB").rotate(a) for a in (0, 90)]
    turned[0].save(FOLDER / "animated.webp", save_all=True, append_images=turned[1:], quality=70)
    names = ["lossless.webp", "lossy.webp", "lossy_alpha.webp", "animated.webp"]
    for name in names:
        (FOLDER / name).with_suffix(".rgb").write_bytes(Image.open(FOLDER / name).convert("RGB").tobytes())
    return [{"file": n, "width": 37, "height": 23} for n in names]


def main():
    if "--keep" not in sys.argv:
        make_videos()
    names = [n for n in VIDEOS if n not in REFUSED] + ["rotated.mp4", "upside_down.mp4"]
    golden = {"videos": [describe(n) for n in names], "pictures": still_pictures(), **sampling()}
    lines = [f'"{key}": [\n' + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]" for key, rows in golden.items()]
    (FOLDER / "golden.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
