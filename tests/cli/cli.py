"""What the tests of the command share: running it, a terminal to run it in, small pictures, and the report.

The binary is $SACCADE (build/release/saccade otherwise). The tests run in the root of the source tree, wherever they
are started. They use the Python standard library only.
"""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest
import zlib

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SACCADE = os.path.abspath(os.environ.get("SACCADE", os.path.join(ROOT, "build/release/saccade")))
os.chdir(ROOT)
STATE = tempfile.TemporaryDirectory()  # where chats keep their history
PASTE_MODE = re.compile("\033\\[\\?2004[hl]")
TIMEOUT_S = int(os.environ.get("SACCADE_TEST_TIMEOUT", 400))  # a sanitizer build on a busy machine is slow; a hang is still found


def saccade(*arguments, **options):
    """Runs the command; no terminal anywhere. Text in and out."""
    options.setdefault("stdin", subprocess.DEVNULL if "input" not in options else None)
    if options["stdin"] is None:
        del options["stdin"]
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    return subprocess.run([SACCADE, *map(str, arguments)], text=True, timeout=TIMEOUT_S, **options)


def questions():
    """The sample questions: [{"file": "samples/...", "question": ..., "answer": ...}]."""
    rows = []
    with open("samples/questions.jsonl", encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                row = json.loads(line)
                if not os.path.exists(row["file"]):
                    row["file"] = os.path.join("samples", row["file"])
                rows.append(row)
    return rows


def is_video(path):
    return path.endswith((".mp4", ".mkv", ".webm", ".mov"))


def sample(video):
    """The first question about a picture, or about a video."""
    return next(row for row in questions() if is_video(row["file"]) == video)


def write_png(path, width=40, height=30, colour=(200, 30, 30), claim=None):
    """A picture of one colour; claim: the size that its header states instead."""
    return write_pixels(path, width, height, bytes(colour) * width * height, claim)


def write_pixels(path, width, height, rgb, claim=None):
    """A picture of height rows of width pixels, three bytes each."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + rgb[3 * width * y:3 * width * (y + 1)] for y in range(height))
    size = claim or (width, height)
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", *size, 8, 2, 0, 0, 0))
                + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))
    return path


class Terminal:
    """The command on a pseudo-terminal of its own, so that Ctrl-C works as it does for a person."""

    def __init__(self, *arguments, environment=None, program=SACCADE, size=None):
        self.raw = b""
        self.seen = ""  # less what turns bracketed paste on and off
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            if size:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.environ.update({"TERM": "xterm", "SACCADE_PICTURES": "none", "XDG_STATE_HOME": STATE.name, **(environment or {})})
            try:
                os.execv(program, [program, *map(str, arguments)])
            finally:
                os._exit(127)

    def read(self, seconds):
        """More of the screen, or False when nothing comes within the time or the command is gone."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # Linux says so when the other side is closed
            return False
        self.raw += data
        self.seen = PASTE_MODE.sub("", self.raw.decode("utf-8", "replace"))
        return bool(data)

    def wait_for(self, text, start=0):
        """Reads until the text is on the screen after `start`; returns the place behind it."""
        end = time.monotonic() + TIMEOUT_S
        while text not in self.seen[start:]:
            if not self.read(max(0.0, end - time.monotonic())):
                raise AssertionError(f"{text!r} did not appear; the screen: {self.seen[start:]!r}")
        return self.seen.index(text, start) + len(text)

    def type(self, text):
        os.write(self.fd, text.encode())

    def exit_code(self):
        """Reads to the end; the exit code, or minus the signal."""
        end = time.monotonic() + TIMEOUT_S
        while self.read(max(0.0, end - time.monotonic())):
            pass
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Case(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.folder = self._folder.name

    def tearDown(self):
        self._folder.cleanup()

    def path(self, name, content=None):
        path = os.path.join(self.folder, name)
        if content is not None:
            with open(path, "wb") as f:
                f.write(content if isinstance(content, bytes) else content.encode())
        return path

    def assert_answer(self, run, answer=None):
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertTrue(run.stdout.endswith("\n"), run.stdout)
        if answer is not None:
            self.assertEqual(run.stdout, answer + "\n")

    def assert_refused(self, run, code, *needles):
        """One line that holds the needles, an exit code, and nothing on standard output."""
        self.assertEqual(run.stdout or "", "")
        self.assertRegex(run.stderr, r"\Asaccade: [^\n]+\n\Z")
        for needle in needles:
            self.assertIn(needle, run.stderr)
        self.assertEqual(run.returncode, code, run.stderr)


class Result(unittest.TextTestResult):
    """One line a test in cmocka's manner, which test.sh counts."""

    def _line(self, word, test):
        print(f"[{word}] {test.id().split('.', 1)[1]}", flush=True)

    def startTest(self, test):
        super().startTest(test)
        self._n_bad = len(self.failures) + len(self.errors)
        self._line(" RUN      ", test)

    def stopTest(self, test):
        if len(self.failures) + len(self.errors) > self._n_bad:
            self._line("  FAILED  ", test)
        elif self.skipped and self.skipped[-1][0] is test:
            self._line("  SKIPPED ", test)
            print("  " + self.skipped[-1][1])
        else:
            self._line("       OK ", test)
        super().stopTest(test)


def main():
    runner = unittest.TextTestRunner(resultclass=Result, verbosity=0, stream=sys.stdout)
    result = runner.run(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"]))
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if result.testsRun == len(result.skipped) else 0)
