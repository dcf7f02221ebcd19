#!/usr/bin/env python3
"""How long people wait for one another's prompts: seconds to the first token of short texts while a video of 64 and one of 97
frames is decoded, encoded and run; the longest pause between tokens of a running answer while a long prompt is run, and while
four are; a short text that comes behind a queue of videos, of its own client and of another one. Answers and their log
probabilities must be the same as alone.

    SACCADE=build/release/saccade [ROUNDS=3] [PARTS=abd] tools/check_pauses.py [OPTION OF saccade serve ...]"""
import json
import os
import socket
import statistics
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/serve"))
from server import HANG_S, Server, ask, chat_body, questions  # noqa: E402

ROUNDS = int(os.environ.get("ROUNDS", "3"))
THREADS, SLOTS = 2, 6
KEYS = ["one", "two"]  # two clients
NO_END = {str(i): -100 for i in range(5)}  # the demo model's control tokens have no text, and would be sent with a later one
COLORS = ["red", "green", "blue", "white", "black", "pink", "grey", "brown"]


def processor_s(server):
    """Processor time of the server so far, a thread: the machine may be busy with other things."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") / THREADS


class Stream(threading.Thread):
    """A question whose tokens are timed as they come; what they say is read afterwards."""

    def __init__(self, server, content, key=KEYS[0], **more):
        super().__init__()
        self.server, self.used_s = server, []
        body = json.dumps(chat_body(content, stream=True, logprobs=True, ignore_eos=True, logit_bias=NO_END, **more)).encode()
        head = (f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n"
                f"Content-Length: {len(body)}\r\n\r\n").encode()
        self.connection = socket.create_connection(("127.0.0.1", server.port), timeout=HANG_S)
        self.pieces, self.left = [], False
        self.start_s = time.monotonic()
        self.connection.sendall(head + body)
        self.start()

    def run(self):
        try:
            while piece := self.connection.recv(1 << 16):
                self.pieces.append((time.monotonic(), piece))
                self.used_s.append(processor_s(self.server))
        except OSError:
            if not self.left:
                raise
        self.connection.close()

    def leave(self):
        """Nobody waits for it any more."""
        self.left = True
        self.connection.shutdown(socket.SHUT_RDWR)
        self.join()

    def times_s(self):
        """Of the pieces that brought tokens."""
        return [self.pieces[i][0] for i in self.of_tokens()]

    def of_tokens(self):
        return [i for i, (_, piece) in enumerate(list(self.pieces)) if b'"logprobs":{' in piece or b'"logprobs": {' in piece]

    def first_s(self):
        self.join()
        times = self.times_s()
        if not times:
            raise AssertionError(b"".join(p for _, p in self.pieces)[:400])
        return times[0] - self.start_s

    def said(self):
        """[(text, logarithms)] of the tokens."""
        text = b"".join(piece for _, piece in self.pieces).decode(errors="replace")
        found = []
        for line in text.split("\n"):
            line = line.strip()
            if line.startswith("data: {") and line.endswith("}"):
                for choice in json.loads(line[6:]).get("choices", []):
                    if choice.get("logprobs"):
                        found.append((choice["delta"].get("content"), choice["logprobs"]))
        return found


def videos():
    """Questions about a video of 64 frames, and about 97 frames of a longer one."""
    rows = questions()
    shorter = next(r for r in rows if r["n_frames"] == 64)
    longer = next(r for r in rows if r["n_frames"] > 97)
    return (64, ask(shorter), {}), (97, ask(longer), {"media_io_kwargs": {"video": {"num_frames": 97}}})


def long_text(i, n_words=6000):
    """A prompt that takes a while, begins as no other, and is nearly all the language model's."""
    return f"{COLORS[i]} " * n_words


def serve(options):
    keys = [word for key in KEYS for word in ("--api-key", key)]
    return Server("--slots", SLOTS, "--threads", THREADS, "--queue", 64, "--ctx", 12288, *keys, *options)


class Report:
    def __init__(self):
        self.same = True

    def check(self, want, got):
        """As far as both go, but for what ends an answer: who leaves has not heard all."""
        n = min(len(want), len(got)) - 1
        self.same = self.same and n > 0 and want[:n] == got[:n]


def alone_of(server, content, more):
    """Seconds to a video's first token on an idle server, and to those of texts; what was said of the video."""
    alone = Stream(server, content, max_tokens=4, **more)
    alone_s, idle_s = alone.first_s(), []
    for i in range(5):
        text = Stream(server, f"What is {i}?", KEYS[1], max_tokens=4)
        idle_s.append(text.first_s())
    return alone_s, idle_s, alone.said()


def measure_texts(options, report):
    for n_frames, content, more in videos():
        idle, beside, alone, delayed = [], [], [], []
        for _ in range(ROUNDS):
            with serve(["--vision-cache", 0, *options]) as server:
                alone_s, idle_s, said = alone_of(server, content, more)
                alone.append(alone_s)
                idle += idle_s
            with serve(["--vision-cache", 0, *options]) as server:
                video = Stream(server, content, max_tokens=4, **more)
                i = 0
                while not video.times_s():
                    text = Stream(server, f"And {i} of {COLORS[i % 8]}?", KEYS[1], max_tokens=4)
                    beside.append(text.first_s())
                    i += 1
                    time.sleep(0.03)
                delayed.append(video.first_s())
                report.check(said, video.said())
        print(f"(a) a text beside {n_frames} frames: first token after {statistics.median(beside):.3f} s, at most {max(beside):.3f} s"
              f" ({len(beside)} of them; idle {statistics.median(idle):.3f} s); the video {statistics.median(delayed):.3f} s,"
              f" alone {statistics.median(alone):.3f} s", flush=True)


def gaps_between(times, start_s, end_s):
    """Pauses between tokens that lie in a stretch of time, in part at least."""
    return [b - a for a, b in zip(times, times[1:]) if b > start_s and a < end_s]


def pause_beside(server, prompts, report):
    """The pauses of a running answer from the moment that these prompts come until the last of them answers; the seconds
    to their first tokens; and its longest pause in processor time."""
    running = Stream(server, "Hello", KEYS[1], max_tokens=8000)
    while len(running.times_s()) < 20:
        time.sleep(0.01)
    start_s = time.monotonic()
    asked = [Stream(server, content, max_tokens=2, **more) for content, more in prompts]
    first_s = [a.first_s() for a in asked]
    end_s = start_s + max(first_s)
    running.leave()
    report.check(report.running, running.said())
    used = [running.used_s[i] for i in running.of_tokens() if start_s < running.pieces[i][0] < end_s]
    return gaps_between(running.times_s(), start_s, end_s), max(b - a for a, b in zip(used, used[1:])), first_s


def measure_pauses(options, report):
    with serve(options) as server:
        alone = Stream(server, "Hello", KEYS[1], max_tokens=300)
        alone.join()
        report.running = alone.said()
        gaps = gaps_between(alone.times_s(), 0, 1e30)
    print(f"    tokens of an answer alone: {1000 * statistics.median(gaps):.1f} ms apart")
    (_, content, more), (_, content97, more97) = videos()
    cases = {"(b) a text of 6000 words": [(long_text(0), {})], "(b) 97 frames": [(content97, more97)],
             "(c) four texts of 6000 words": [(long_text(i), {}) for i in range(4)],
             "(c) 64 and 97 frames, two texts": [(content, more), (content97, more97), (long_text(0), {}), (long_text(1), {})]}
    for name, prompts in cases.items():
        longest, used, middle, first = [], [], [], []
        for _ in range(ROUNDS):
            with serve(["--vision-cache", 0, *options]) as server:
                gaps, used_s, first_s = pause_beside(server, prompts, report)
                longest.append(max(gaps))
                used.append(used_s)
                middle.append(statistics.median(gaps))
                first.append(max(first_s))
        print(f"{name} beside an answer: its longest pause {1000 * min(longest):.0f} to {1000 * max(longest):.0f} ms in {ROUNDS} rounds,"
              f" processor time at most {1000 * max(used):.0f}, median {1000 * statistics.median(middle):.1f};"
              f" the last prompt's first token {statistics.median(first):.2f} s", flush=True)


def measure_queue(options):
    """A short text behind eight long prompts, of the client that sent these and of another."""
    for name, key in ("its own client's", KEYS[0]), ("another client's", KEYS[1]):
        waited, last = [], []
        for _ in range(ROUNDS):
            with serve(["--slots", 2, *options]) as server:
                before = [Stream(server, long_text(i, 1500), max_tokens=2) for i in range(8)]
                server.wait_for(lambda s=server: s.metric("vllm:num_requests_waiting") >= 6, "nothing waits")
                waited.append(Stream(server, "Hello", key, max_tokens=2).first_s())
                last.append(max(b.first_s() for b in before))
        print(f"(d) a text behind eight prompts of 1500 words, {name}, two slots: first token after {statistics.median(waited):.2f} s"
              f" (the last prompt's {statistics.median(last):.2f} s)", flush=True)


def main():
    options, report = sys.argv[1:], Report()
    parts = os.environ.get("PARTS", "abd")
    if "a" in parts:
        measure_texts(options, report)
    if "b" in parts:
        measure_pauses(options, report)
    if "d" in parts:
        measure_queue(options)
    print(f"answers and log probabilities {'the same' if report.same else 'DIFFER'}")
    return 0 if report.same else 1


if __name__ == "__main__":
    sys.exit(main())
