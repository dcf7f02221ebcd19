#!/usr/bin/env python3
"""Tries the pictures of a chat in real terminals: xterm (sixel), mlterm (sixel and iTerm2's protocol), kitty and foot.

    tools/try_terminals.py [--shots FOLDER] [TERMINAL ...]

Each is started in Xvfb with a chat about a picture of four colours. The terminal is to be known, or asked, by the chat itself.
What Xvfb shows is read from its frame buffer: the picture must be there once, with its colours and proportions, whole, below the
lines before it and above the prompt. Then /quit is typed: had an answer of the terminal's got into the line, it would not end the chat.

Needs Debian's xvfb, xdotool, and of xterm, mlterm, kitty (libgl1-mesa-dri draws it), foot (within weston) those that are to be tried.
Without names, all that are installed. Exit codes: 0 all is well, 1 something is not, 77 nothing can be tried here."""
import argparse
import functools
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zlib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SACCADE = os.path.abspath(os.environ.get("SACCADE", os.path.join(ROOT, "build/release/saccade")))
SCREEN = 800, 600
COLOURS = (200, 30, 40), (30, 160, 60), (40, 70, 200), (230, 190, 30)  # of the quarters, left to right, then down
PICTURE = 120, 80
FROM_PALETTE = 55  # how far a channel of a pixel may be off: sixels have six levels, 51 apart, and are dithered
LIMIT_S = 60
WESTON = ["weston", "--backend=x11-backend.so", "--no-config", "--width={}".format(SCREEN[0]), "--height={}".format(SCREEN[1]), "--socket=wayland-tried"]
# name: (programs, command that the chat's is put behind, what the environment says beside)
TERMINALS = {
    "xterm": (["xterm"], ["xterm", "-ti", "vt340", "-xrm", "*numColorRegisters: 256", "-e"], {}),
    "mlterm": (["mlterm"], ["mlterm", "-e"], {}),
    "mlterm-iterm2": (["mlterm"], ["mlterm", "-e"], {"SACCADE_PICTURES": "iterm2"}),  # it shows such pictures, and nothing says so
    "kitty": (["kitty"], ["kitty", "--config", "NONE", "-o", "remember_window_size=no", "-o", "update_check_interval=0"], {}),
    "foot": (["foot", "weston"], ["foot", "--config=/dev/null"], {"WAYLAND_DISPLAY": "wayland-tried"}),
}


def write_picture(path):
    width, height = PICTURE
    rows = b"".join(b"\0" + bytes(COLOURS[y * 2 // height * 2]) * (width // 2) + bytes(COLOURS[y * 2 // height * 2 + 1]) * (width // 2)
                    for y in range(height))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) +
                chunk(b"IEND", b""))


def pixels_of(data):
    """Rows of (red, green, blue), of the XWD file that Xvfb keeps."""
    header = struct.unpack(">25I", data[:100])
    size, width, height, bits, line, colours = header[0], header[4], header[5], header[11], header[12], header[19]
    if bits != 32:
        raise SystemExit(f"Xvfb shows {bits} bits a pixel")
    at = size + 12 * colours
    rows = [data[at + y * line:at + y * line + 4 * width] for y in range(height)]
    return [list(zip(row[2::4], row[1::4], row[0::4])) for row in rows]


@functools.lru_cache(None)
def quarter_of(pixel):
    for i, colour in enumerate(COLOURS):
        if all(abs(a - b) <= FROM_PALETTE for a, b in zip(pixel, colour)):
            return i
    return None


def look(rows):
    """What is wrong with the picture on the screen, or None."""
    places = [[] for _ in COLOURS]
    for y, row in enumerate(rows):
        for x, pixel in enumerate(row):
            found = quarter_of(pixel)
            if found is not None:
                places[found].append((x, y))
    if not all(places):
        return "no picture"
    boxes = [(min(x for x, _ in p), min(y for _, y in p), max(x for x, _ in p) + 1, max(y for _, y in p) + 1) for p in places]
    (left, top, right, bottom), width, height = (boxes[0][0], boxes[0][1], boxes[3][2], boxes[3][3]), PICTURE[0], PICTURE[1]
    across, down = right - left, bottom - top
    if abs(across * height - down * width) > 2 * max(width, height) or not width / 2 <= across <= 2 * width:
        return f"{across} x {down} pixels of a picture of {width} x {height}"
    for i, box in enumerate(boxes):
        want = left + i % 2 * across / 2, top + i // 2 * down / 2, left + (1 + i % 2) * across / 2, top + (1 + i // 2) * down / 2
        if any(abs(a - b) > 2 for a, b in zip(box, want)):
            return f"colour {i} at {box}, not {tuple(map(round, want))}"
        area = (box[2] - box[0]) * (box[3] - box[1])
        if len(places[i]) < 0.8 * area:  # a palette's colours are dithered
            return f"colour {i} fills {len(places[i]) / area:.0%} of its quarter"
        means = [sum(rows[y][x][c] for y in range(box[1], box[3]) for x in range(box[0], box[2])) / area for c in range(3)]
        if any(abs(a - b) > 8 for a, b in zip(means, COLOURS[i])):
            return f"colour {i} is {tuple(map(round, means))} in the mean, not {COLOURS[i]}"
    above, below = [rows[y][left:left + 300] for y in range(max(0, top - 40), top)], [rows[y][left:left + 100] for y in range(bottom, min(len(rows), bottom + 60))]
    for where, strip in ("above", above), ("below", below):
        if sum(len(set(row)) > 1 for row in strip) < 5:
            return f"no text {where} it"
    return None


class Display:
    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="saccade-terminals.")
        self.jobs = []
        out, given = os.pipe()
        self.start(["Xvfb", "-displayfd", str(given), "-screen", "0", "{}x{}x24".format(*SCREEN), "-nolisten", "tcp", "-fbdir", self.folder.name],
                   dict(os.environ), pass_fds=[given])
        os.close(given)
        with os.fdopen(out) as f:
            number = f.readline().strip()
        if not number:
            raise SystemExit("Xvfb does not start")
        home = os.path.join(self.folder.name, "home")
        os.mkdir(home, 0o700)
        kept = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG", "LC_ALL", "ASAN_OPTIONS", "UBSAN_OPTIONS")}
        self.environment = {"LC_ALL": "C.UTF-8", **kept, "DISPLAY": ":" + number, "HOME": home, "XDG_RUNTIME_DIR": home, "XDG_STATE_HOME": home,
                            "LIBGL_ALWAYS_SOFTWARE": "1", "NO_AT_BRIDGE": "1"}
        self.picture = os.path.join(self.folder.name, "four.png")
        write_picture(self.picture)
        return self

    def start(self, command, environment, **options):
        self.jobs.append(subprocess.Popen(command, env=environment, cwd=ROOT, start_new_session=True, stdin=subprocess.DEVNULL,
                                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options))
        return self.jobs[-1]

    def end(self, job):
        try:
            os.killpg(job.pid, signal.SIGTERM)
            job.wait(10)
        except ProcessLookupError:
            pass
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        self.jobs.remove(job)

    def __exit__(self, *_):
        for job in self.jobs[::-1]:
            self.end(job)
        self.folder.cleanup()

    def shown(self):
        with open(os.path.join(self.folder.name, "Xvfb_screen0"), "rb") as f:
            return f.read()

    def keys(self, *words):
        subprocess.run(["xdotool", *words], env=self.environment, check=True)

    def attempt(self, name, shots):
        """What is wrong in this terminal, or None."""
        _, command, more = TERMINALS[name]
        environment = {**self.environment, **more}
        inside = [self.start(WESTON, environment)] if "WAYLAND_DISPLAY" in more else []
        for _ in range(100):
            if not inside or os.path.exists(os.path.join(environment["XDG_RUNTIME_DIR"], "wayland-tried")):
                break
            time.sleep(0.1)
        code = os.path.join(self.folder.name, name + ".code")
        chat = ["sh", "-c", '"$1" ask --image "$2"; echo $? >"$3.new"; mv "$3.new" "$3"', "sh", SACCADE, self.picture, code]
        job = self.start([*command, *chat], environment)
        try:
            end = time.monotonic() + LIMIT_S
            wrong, before, looked = "no picture", None, None
            while wrong and time.monotonic() < end and job.poll() is None:
                time.sleep(0.3)
                data = self.shown()
                if data == before and data != looked:  # it is not being drawn any more
                    wrong, looked = look(pixels_of(data)), data
                before = data
            if shots and before:
                with open(os.path.join(shots, name + ".ppm"), "wb") as f:
                    f.write(b"P6\n%d %d\n255\n" % SCREEN + bytes(v for row in pixels_of(before) for pixel in row for v in pixel))
            if wrong:
                return wrong
            self.keys("mousemove", "200", "200", "type", "/quit\n")
            while not os.path.exists(code):
                if time.monotonic() > end:
                    return "/quit does not end the chat"
                time.sleep(0.1)
            with open(code, encoding="ascii") as f:
                said = f.read().strip()
            return None if said == "0" else f"the chat ended with {said}"
        finally:
            for one in [job, *inside]:
                self.end(one)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shots", help="what the screen showed, a PPM file a terminal")
    parser.add_argument("terminals", nargs="*", metavar="TERMINAL", help=", ".join(TERMINALS))
    args = parser.parse_args()
    for name in args.terminals:
        if name not in TERMINALS:
            print(f"tools/try_terminals.py: no terminal {name!r}: there are {', '.join(TERMINALS)}", file=sys.stderr)
            sys.exit(64)
    there = [name for name, (programs, _, _) in TERMINALS.items() if all(map(shutil.which, programs))]
    missing = [p for p in ("Xvfb", "xdotool") if not shutil.which(p)] + [name for name in args.terminals if name not in there]
    if missing or not there:
        print("skipped: needs " + ", ".join(missing or ["one of " + ", ".join(TERMINALS)]))
        sys.exit(77)
    if args.shots:
        os.makedirs(args.shots, exist_ok=True)
    failed = 0
    with Display() as display:
        for name in args.terminals or there:
            start = time.monotonic()
            wrong = display.attempt(name, args.shots)
            failed += wrong is not None
            print(f"{name}: {wrong or 'the picture is shown, and /quit ends the chat'} ({time.monotonic() - start:.1f} s)", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
