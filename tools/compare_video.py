#!/usr/bin/env python3
"""Compares Saccade's frames of video files with PyAV's: which are chosen, their times, their pixels.

    tools/compare_video.py build/release/video_probe FILE...      (needs av and numpy)

The reference is plain PyAV: container.decode(video=0), frame.time, frame.to_ndarray(format="rgb24"), with frames chosen
by the rule that vision/video/sampling.h states. Exits with 1 when a choice or a time differs; pixel differences are reported
(PyAV brings its own FFmpeg, whose conversion to RGB may be of another version)."""

import json
import math
import subprocess
import sys
import tempfile

import av
import numpy as np

REQUESTS = [{"num_frames": 1}, {"num_frames": 8}, {"num_frames": 32}, {"num_frames": 10000}, {"fps": 0.5}, {"fps": 2},
            {"fps": 7.3}, {"fps": 2, "max_frames": 4}, {"num_frames": 16, "fps": 1}, {}]


def choose(total, rate, num_frames=None, fps=None, max_frames=None):
    n = total
    if num_frames:
        n = min(n, num_frames)
    if fps:
        n = min(n, max(1, math.floor(total / rate * fps)))
    if max_frames:
        n = min(n, max_frames)
    return np.linspace(0, total - 1, n, dtype=int).tolist()


def probe(program, path, request, *more):
    args = [program]
    for key, value in request.items():
        args += ["--" + key.replace("_", "-"), str(value)]
    out = subprocess.run(args + [*more, path], capture_output=True, text=True)
    if out.returncode:
        raise SystemExit(f"{path}: {out.stderr.strip()}")
    lines = [json.loads(line) for line in out.stdout.splitlines()]
    return lines[0], lines[1:-1], lines[-1]


def reference(path):
    """Frames a second, and the time of every frame (None where the file has none)."""
    with av.open(path) as container:
        rate = float(container.streams.video[0].average_rate or 0)
        times = [frame.time for frame in container.decode(video=0)]
    if len(times) > 1 and None not in times and times[-1] > times[0]:
        measured = (len(times) - 1) / (times[-1] - times[0])
        if not measured / 1.5 < rate < measured * 1.5:
            rate = measured
    return rate, times


def pixels(path, wanted):
    with av.open(path) as container:
        for i, frame in enumerate(container.decode(video=0)):
            if i in wanted:
                yield frame.to_ndarray(format="rgb24")


def compare_pixels(program, path, indices):
    """Number of frames that are equal to the bit, share of values that differ, largest and mean difference."""
    request = {"num_frames": len(indices)}
    with tempfile.NamedTemporaryFile() as raw:
        _, frames, _ = probe(program, path, request, "--rotate", "none", "--raw", raw.name)
        ours = np.fromfile(raw.name, dtype=np.uint8)
    equal, differ, largest, total, count, at = 0, 0, 0, 0, 0, 0
    for theirs, frame in zip(pixels(path, set(indices)), frames):
        size = frame["width"] * frame["height"] * 3
        mine = ours[at:at + size].reshape(theirs.shape).astype(int)
        at += size
        delta = np.abs(mine - theirs)
        equal += not delta.any()
        differ += np.count_nonzero(delta)
        largest = max(largest, int(delta.max()))
        total += int(delta.sum())
        count += size
    return equal, differ / count, largest, total / count


def main(program, paths):
    bad = 0
    for path in paths:
        rate, times = reference(path)
        faults = []
        for request in REQUESTS:
            if len(times) > 1000 and not request:
                continue
            info, frames, _ = probe(program, path, request)
            indices = choose(len(times), rate, **request)
            if [f["frame"] for f in frames] != indices:
                faults.append(f"{request}: frames {[f['frame'] for f in frames]}, PyAV {indices}")
            elif [f["time_s"] for f in frames] != [i / rate if times[i] is None else times[i] for i in indices]:
                faults.append(f"{request}: times {[f['time_s'] for f in frames]}, PyAV {[times[i] for i in indices]}")
        indices = choose(len(times), rate, num_frames=8)
        equal, share, largest, mean = compare_pixels(program, path, indices)
        name = path.rsplit("/", 1)[-1]
        print(f"{name}: {len(times)} frames at {rate:g}/s, {info['codec']} {info['pixel_format']}: "
              f"{'frames and times equal for ' + str(len(REQUESTS)) + ' requests' if not faults else 'DIFFERS'}; "
              f"pixels: {equal} of {len(indices)} frames identical, {100 * share:.3f} % of values differ, "
              f"at most {largest}, mean {mean:.4f}")
        for fault in faults:
            print("  " + fault)
        bad += bool(faults)
    print(f"{len(paths) - bad} of {len(paths)} files agree with PyAV {av.__version__}")
    return bad > 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    raise SystemExit(main(sys.argv[1], sys.argv[2:]))
