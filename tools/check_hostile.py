#!/usr/bin/env python3
"""A server under hostile mixed load: right answers all along, nobody waits for ever, and nothing is kept afterwards.

    SACCADE=build/release/saccade tools/check_hostile.py [--minutes 10] [--bound 120] [--seed 1] [-- OPTION OF saccade serve ...]

At the same time: clients that ask what has a known answer (samples, and texts whose tokens and log probabilities were noted while nobody
else asked), clients that leave (at a byte of the request, at a byte of the reply, or after a while), damaged media, requests that are too
large, bursts that fill the queue, kill -9 of decoding children and of their helper, little room for media, bodies and beginnings, and
times in which the server's address space may not grow. Prints one JSON object; exit 1 when an answer was wrong, a reply none of those that
are documented, a request or /health took longer than its bound, the server died, or memory, descriptors, processes or threads are more at
the end than they were at rest after half of the time (in the first half what was reserved is used for the first time: rows of slots,
workspaces of prompts, heaps)."""
import argparse
import base64
import collections
import contextlib
import http.client
import json
import os
import random
import resource
import signal
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/serve"))
from server import Server, ask, chat_body, is_video, questions, read_events, write_png  # noqa: E402

OPTIONS = ["--ctx", "2048", "--slots", "4", "--queue", "12", "--body-mib", "2", "--bodies-mib", "8", "--decoded-mib", "16", "--vision-cache", "4",
           "--cache-memory", "2", "--receive-seconds", "5", "--decode-seconds", "20", "--request-seconds", "100", "--connections", "200",
           "--picture-pixels", "2000000"]
CONTEXT, HEALTH_BOUND_S, IDLE_S, MEMORY_MIB = 2048, 10, 60, 24
REFUSED = {413, 429, 503}  # too large for what all requests may take, queue full, no room or no memory now
HEAD = {"Content-Type": "application/json"}


class Notes:
    """What all threads count and complain about."""

    def __init__(self):
        self.lock, self.counts, self.faults, self.points = threading.Lock(), collections.Counter(), [], set()
        self.waited, self.health, self.between = [0], [0], [0]
        self.stop, self.pinched = threading.Event(), 0

    def count(self, what, n=1):
        with self.lock:
            self.counts[what] += n

    def fault(self, text):
        with self.lock:
            self.faults.append(text[:400])

    def longest(self, of, seconds, bound, what):
        with self.lock:
            of[0] = max(of[0], seconds)
        if seconds > bound:
            self.fault(f"{what} took {seconds:.1f} s")


class Load:
    def __init__(self, server, folder, bound):
        self.server, self.bound, self.notes = server, bound, Notes()
        picture = os.path.join(folder, "large.png")
        write_png(picture, 1400, 1400)
        self.large = ask({"file": picture, "question": ""})[:1]
        self.rows = [r for r in questions() if r["n_frames"] <= 16]
        self.texts = []
        self.files = [Path(r["file"]).read_bytes() for r in self.rows if is_video(r["file"])][:8]
        self.pictures = [Path(r["file"]).read_bytes() for r in self.rows if not is_video(r["file"])][:8]

    # ---- one request

    def exchange(self, body, path="/v1/chat/completions"):
        """(status, text), or None where the connection was cut, which only a lack of memory may do."""
        start, pinched = time.monotonic(), self.notes.pinched
        c = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=2 * self.bound)
        try:
            c.request("POST", path, body, HEAD)
            reply = c.getresponse()
            pieces, last = [], time.monotonic()
            while piece := reply.read1(65536):
                now = time.monotonic()
                if pieces:
                    self.notes.longest(self.notes.between, now - last, self.bound, "a pause within a reply")
                pieces.append(piece)
                last = now
            status, text = reply.status, b"".join(pieces).decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            has_memory = pinched % 2 == 0 and self.notes.pinched == pinched
            if has_memory or isinstance(error, TimeoutError):
                self.notes.fault(f"no reply: {error!r}")
            else:
                self.notes.count("cut off without memory")
            return None
        finally:
            c.close()
        self.notes.longest(self.notes.waited, time.monotonic() - start, self.bound, "a request")
        self.notes.count(f"status {status}")
        return status, text

    # ---- clients whose answers are known

    def note_texts(self):
        words = ["red ", "number ", "house and tree ", "what is seen ", "blue "]
        for i in range(12):
            text = words[i % len(words)] * (3 + 3 * i * i)
            body = chat_body(text, max_tokens=16, logprobs=True, ignore_eos=True, temperature=0.7 * (i % 3 == 2), seed=i)
            reply = self.server.post("/v1/chat/completions", body)
            assert reply.status == 200, reply.text
            self.texts.append((body, reply.json["choices"]))

    def fill_slots(self):
        """Every row of every slot is used once: a slot's memory counts as taken then."""
        replies = []
        words = [" ".join((word * CONTEXT).split()[:CONTEXT // 2 - 60]) for word in ("red ", "blue ", "number ", "red blue ")]
        bodies = [json.dumps(chat_body(text, max_tokens=CONTEXT // 2, ignore_eos=True)) for text in words]
        threads = [threading.Thread(target=lambda body=body: replies.append(self.exchange(body))) for body in bodies]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert all(r and r[0] == 200 for r in replies), replies

    def judge(self, reply, is_right, what, media):
        if reply is None:
            return
        status, text = reply
        if '"timeout_error"' in text:  # whole, or the end of a stream
            self.notes.fault(f"TOO SLOW: {what}: {text[-200:]}")
        elif status == 200:
            self.notes.count("answers")
            if not is_right(text):
                self.notes.fault(f"WRONG: {what}: {text}")
        elif status in REFUSED or (media and status == 400 and '"media_failed"' in text):  # its child was killed
            self.notes.count(f"refused: {json.loads(text)['error']['code']}")
            self.notes.stop.wait(0.1)
        else:
            self.notes.fault(f"{status} for {what}: {text}")

    def stream_is_right(self, text, answer):
        events, done = read_events(text)
        errors = [e["error"] for e in events if "error" in e]
        if errors:
            self.notes.count("streams that ended in an error")
            return errors[0].get("code") in ("out_of_memory", "overloaded", "media_failed")
        said = "".join(e["choices"][0]["delta"].get("content") or "" for e in events if e.get("choices"))
        return done and said == answer

    def ask_known(self, dice):
        if dice.random() < 0.4:
            i = dice.randrange(len(self.texts))
            body, choices = self.texts[i]
            reply = self.exchange(json.dumps(body))
            self.judge(reply, lambda text: same_choices(json.loads(text)["choices"], choices, self.notes), f"text {i}", False)
            return
        row = dice.choice(self.rows)
        content = ask(row)
        if dice.random() < 0.3:  # a file that nobody has seen: what comes behind its end is not looked at
            kind = content[0]["type"]
            data = Path(row["file"]).read_bytes() + dice.randbytes(8)
            content[0] = {"type": kind, kind: {"url": f"data:application/octet-stream;base64,{base64.b64encode(data).decode()}"}}
        body = chat_body(content, stream=dice.random() < 0.5)
        is_right = self.stream_is_right if body["stream"] else answer_is_right
        self.judge(self.exchange(json.dumps(body)), lambda text: is_right(text, row["answer"]), row["question"], True)

    # ---- clients that leave

    def request_bytes(self, dice):
        row = dice.choice(self.rows)
        content = "hello " * dice.randint(1, 900) if dice.random() < 0.5 else ask(row)
        body = json.dumps(chat_body(content, stream=dice.random() < 0.7, ignore_eos=True, max_tokens=200)).encode()
        return post_head(body) + body

    def leave(self, dice):
        data = self.request_bytes(dice)
        kind = dice.choice(("request", "reply", "later", "reset"))
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.server.port), timeout=self.bound) as c:
            at = dice.randrange(len(data)) if kind == "request" else dice.randrange(1, 30000) if kind == "reply" else dice.randrange(3000)
            if kind == "reset":
                c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            c.sendall(data[:at] if kind == "request" else data)
            if kind == "reply":
                got = 0
                while got < at and (piece := c.recv(min(4096, at - got))):
                    got += len(piece)
            elif kind != "request":
                self.notes.stop.wait(at / 1000)
        with self.notes.lock:
            self.notes.points.add((kind, at // 16))
        self.notes.count("clients that left")

    # ---- bad media, and what is too large

    def spoil(self, dice):
        data = bytearray(dice.choice(self.files if dice.random() < 0.5 else self.pictures))
        how = dice.randrange(4)
        if how == 0:
            del data[dice.randrange(len(data)):]
        elif how == 1:
            for _ in range(dice.randrange(1, 200)):
                data[dice.randrange(len(data))] = dice.randrange(256)
        elif how == 2:
            data[dice.randrange(len(data)):] = dice.randbytes(dice.randrange(4000))
        else:
            data = bytearray(dice.randbytes(dice.randrange(1, 5000)))
        return bytes(data)

    def send_bad_media(self, dice):
        kind = dice.choice(("image_url", "video_url"))
        uri = f"data:application/octet-stream;base64,{base64.b64encode(self.spoil(dice)).decode()}"
        reply = self.exchange(json.dumps(chat_body([{"type": kind, kind: {"url": uri}}, {"type": "text", "text": "Hello"}], max_tokens=2)))
        if reply and reply[0] not in REFUSED | {200, 400}:
            self.notes.fault(f"{reply[0]} for bad media: {reply[1]}")
        self.notes.count("bad media")

    def send_too_much(self, dice):
        what = dice.randrange(4)
        if what == 0:  # more tokens than a slot holds
            body, allowed = json.dumps(chat_body("word " * 20000, max_tokens=1)), {400}
        elif what == 1:  # a tree of many values
            body, allowed = '{"messages": [{"role": "user", "content": "a"}], "x": [' + "{}," * 400000 + "{}]}", {400, 413}
        elif what == 2:  # pictures that have no room together
            body, allowed = json.dumps(chat_body(self.large * 16 + [{"type": "text", "text": "Hello"}], max_tokens=1)), {400, 413, 200}
        else:  # longer than --body-mib
            body, allowed = json.dumps(chat_body("w" * (3 << 20))), {413}
        with contextlib.suppress(OSError):
            reply = self.exchange(body) if what < 3 else self.send_long(body)
            if reply and reply[0] not in REFUSED | allowed:
                self.notes.fault(f"{reply[0]} for too much ({what}): {reply[1]}")
        self.notes.count("too much")

    def send_long(self, body):
        """The reply may come before the body is sent, and the connection be closed behind it."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=self.bound) as c:
            c.sendall(post_head(body))
            line = c.recv(4096).decode(errors="replace")
        return (int(line.split()[1]), line) if line else None

    def fill_queue(self, dice):
        held = []
        body = json.dumps(chat_body("Hello", stream=True, ignore_eos=True, max_tokens=1500)).encode()
        with contextlib.suppress(OSError):
            for _ in range(20):
                c = socket.create_connection(("127.0.0.1", self.server.port), timeout=self.bound)
                held.append(c)
                c.sendall(post_head(body) + body)
        self.notes.stop.wait(dice.uniform(0.1, 1.5))
        for c in held:
            c.close()
        self.notes.count("bursts")
        self.notes.stop.wait(dice.uniform(3, 8))

    # ---- the machine against it

    def kill_decoders(self, dice):
        """A child for some hundredths of a second: looked for until one is met. Now and then their helper."""
        helpers = children(self.server.process.pid)
        victims = [c for h in helpers for c in children(h)]
        if dice.random() < 0.002:
            victims = helpers
        for pid in victims[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.notes.count("helpers killed" if victims is helpers else "decoders killed")
                self.notes.stop.wait(dice.uniform(0.2, 2))
        self.notes.stop.wait(0.005)

    def pinch(self, dice):
        """Its address space may grow by so little for a while; notes.pinched is odd meanwhile."""
        pid = self.server.process.pid
        self.notes.stop.wait(dice.uniform(5, 15))
        n_bytes = status_kib(pid, "VmSize") * 1024 + dice.choice((0, 1, 4, 16)) * (1 << 20)
        had = resource.prlimit(pid, resource.RLIMIT_AS)
        self.notes.pinched += 1
        resource.prlimit(pid, resource.RLIMIT_AS, (n_bytes, had[1]))
        self.notes.stop.wait(dice.uniform(0.3, 2))
        resource.prlimit(pid, resource.RLIMIT_AS, had)
        time.sleep(0.2)
        self.notes.pinched += 1
        self.notes.count("times without memory")

    def look_at_health(self, _dice):
        start = time.monotonic()
        with contextlib.suppress(OSError, http.client.HTTPException):
            self.server.get("/health", timeout=4 * HEALTH_BOUND_S)
        self.notes.longest(self.notes.health, time.monotonic() - start, HEALTH_BOUND_S, "/health")
        self.notes.stop.wait(0.5)

    # ---- all together

    def run(self, seconds, seed):
        """Memory in MiB, in the course of the time."""
        work = [self.ask_known] * 5 + [self.leave] * 4 + [self.send_bad_media] * 2
        work += [self.send_too_much, self.fill_queue, self.kill_decoders, self.pinch, self.look_at_health]
        self.notes.stop.clear()

        def go_on(what, dice):
            while not self.notes.stop.is_set():
                try:
                    what(dice)
                except Exception as error:  # a fault of the tool is one, too
                    self.notes.fault(f"{what.__name__}: {error!r}")
                    self.notes.stop.wait(1)

        threads = [threading.Thread(target=go_on, args=(what, random.Random(f"{seed} {i}"))) for i, what in enumerate(work)]
        for t in threads:
            t.start()
        memory, end = [], time.monotonic() + seconds
        while time.monotonic() < end and self.server.process.poll() is None:
            time.sleep(min(1, max(0, end - time.monotonic())))
            memory.append(self.server.memory_kib() / 1024)
        self.notes.stop.set()
        for t in threads:
            t.join()
        return memory

    def rest(self):
        """What the server has when nobody asks any more: MiB, descriptors, processes below it, threads."""
        pid, end = self.server.process.pid, time.monotonic() + IDLE_S
        if self.server.process.poll() is not None:
            raise SystemExit(f"the server ended with {self.server.process.returncode}: {self.server.process.stderr.read()[-2000:]}")
        while time.monotonic() < end and (self.server.n_requests() or len(descendants(pid)) > 1):
            time.sleep(0.1)
        if self.server.n_requests():
            self.notes.fault(f"{self.server.n_requests()} requests still run or wait after {IDLE_S} s")
        time.sleep(6)  # connections whose clients have gone are given back by --receive-seconds
        for row in self.rows[:3]:
            reply = self.exchange(json.dumps(chat_body(ask(row))))
            self.judge(reply, lambda text, row=row: answer_is_right(text, row["answer"]), "a question afterwards", False)
        return {"MiB": round(self.server.memory_kib() / 1024, 1), "descriptors": self.server.n_descriptors(), "processes": len(descendants(pid)),
                "threads": status_kib(pid, "Threads")}


def answer_is_right(text, answer):
    return json.loads(text)["choices"][0]["message"]["content"] == answer


def same_choices(got, known, notes):
    """Tokens, and log probabilities to the last bit."""
    tokens = [[[t["token"] for t in c["logprobs"]["content"]] for c in choices] for choices in (got, known)]
    if tokens[0] == tokens[1] and got != known:
        pairs = zip(got[0]["logprobs"]["content"], known[0]["logprobs"]["content"])
        notes.fault(f"log probabilities differ by {max(abs(a['logprob'] - b['logprob']) for a, b in pairs):.1e}")
    return got == known


def post_head(body):
    return ("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode()


def children(pid):
    """Of all its threads: a helper that was killed is started again by whoever needs it."""
    found = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text(encoding="ascii").split())
    return found


def descendants(pid):
    found = children(pid)
    return found + [d for c in found for d in descendants(c)]


def status_kib(pid, name):
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))


def check_rest(notes, first, last):
    if last["MiB"] > first["MiB"] + MEMORY_MIB:
        notes.fault(f"{last['MiB']} MiB, and {first['MiB']} after half of the time")
    for what in "descriptors", "processes", "threads":
        if last[what] > first[what] + (2 if what == "descriptors" else 0):
            notes.fault(f"{last[what]} {what}, and {first[what]} after half of the time")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--bound", type=float, default=120, help="seconds that a request may take, and a pause within its reply")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("more", nargs="*", help="options of saccade serve")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Server(*OPTIONS, *options.more, check=False) as server:
        load = Load(server, folder, options.bound)
        load.note_texts()
        load.fill_slots()
        rests, memory = [load.rest()], []
        for half in range(2):
            memory += load.run(options.minutes * 30, f"{options.seed} {half}")
            rests.append(load.rest())
        notes = load.notes
        check_rest(notes, *rests[1:])
        code, errors = server.stop()
        if code:
            notes.fault(f"the server ended with {code}: {errors[-1000:]}")
    step = max(1, len(memory) // 12)
    print(json.dumps({"minutes": options.minutes, "faults": len(notes.faults), "counts": dict(sorted(notes.counts.items())),
                      "points left at": len(notes.points),
                      "longest s": {"request": round(notes.waited[0], 2), "pause": round(notes.between[0], 2), "/health": round(notes.health[0], 2)},
                      "before": rests[0], "after half of it": rests[1], "at the end": rests[2],
                      "MiB": [round(m) for m in memory[::step]]}, indent=1))
    for text in notes.faults[:20]:
        print(text, file=sys.stderr)
    return 1 if notes.faults or not notes.counts["answers"] else 0


if __name__ == "__main__":
    sys.exit(main())
