"""What the tests of the server share: starting the real one on loopback, requests, and the samples.

The binary is $SACCADE (build/release/saccade otherwise); tests run in the root of the source tree.
"""
import base64
import http.client
import json
import mimetypes
import os
import re
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from cli import SACCADE, Case, is_video, main, questions, saccade, sample, write_pixels, write_png  # noqa: E402,F401

MODEL = os.environ.get("SACCADE_MODEL", "models/demo")
HANG_S = 400  # a sanitizer build on a busy machine is slow; what has not happened by then will not happen


class Server:
    """saccade serve on a free port, ended (and looked at) when the with block is left."""

    def __init__(self, *options, check=True, environment=None):
        self.check = check
        command = [SACCADE, "serve", "--quiet", "--port", "0", "--ctx", "8192", *map(str, options)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=environment)
        self.lines = []
        self.port = self._wait_for_port()
        self.wait_for(lambda: self.get("/health").status == 200, "the model does not answer")

    def _wait_for_port(self):
        for line in self.process.stderr:
            self.lines.append(line)
            found = re.search(r"listening on http://127\.0\.0\.1:(\d+)", line)
            if found:
                return int(found.group(1))
        raise AssertionError(f"the server did not start: {''.join(self.lines)}")

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        code, errors = self.stop()
        if kind is None and self.check and (code != 0 or errors):
            raise AssertionError(f"the server ended with {code}: {errors}")

    def stop(self, signal_number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(signal_number)
        try:
            errors = self.process.communicate(timeout=HANG_S)[1]
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError("the server does not end: " + self.process.communicate()[1]) from None
        return self.process.returncode, errors

    def request(self, method, path, body=None, headers=None, timeout=HANG_S):
        """The reply, with .status, .headers, .text and .json."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            reply = connection.getresponse()
            reply.text = reply.read().decode()
            try:
                reply.json = json.loads(reply.text)
            except ValueError:
                reply.json = None
            return reply
        finally:
            connection.close()

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def post(self, path, body, **more):
        headers = {"Content-Type": "application/json", **more.pop("headers", {})}
        return self.request("POST", path, json.dumps(body), headers, **more)

    def chat(self, content, **more):
        return self.post("/v1/chat/completions", chat_body(content, **more))

    def answer(self, content, **more):
        reply = self.chat(content, **more)
        if reply.status != 200:
            raise AssertionError(f"{reply.status}: {reply.text}")
        return reply.json["choices"][0]["message"]["content"]

    def n_descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def memory_kib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))

    def wait_for(self, true, what):
        """Returns when true() is; the test fails with `what` when that never comes."""
        end = time.monotonic() + HANG_S
        while not true():
            if time.monotonic() > end:
                raise AssertionError(what)
            time.sleep(0.01)

    def n_requests(self):
        """Those that run or wait; an answer leaves the count before its last byte is sent."""
        return self.metric("vllm:num_requests_running") + self.metric("vllm:num_requests_waiting")

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=HANG_S)

    def metric(self, name):
        """The sum over a metric's lines."""
        found = re.findall(rf"^{re.escape(name)}{{[^}}]*}} (\S+)$", self.get("/metrics").text, re.M)
        if not found:
            raise AssertionError(f"no metric {name}")
        return sum(map(float, found))


def chat_body(content, **more):
    return {"model": "demo", "messages": [{"role": "user", "content": content}], "temperature": 0, **more}


def data_uri(path):
    kind = mimetypes.guess_type(path)[0]
    with open(path, "rb") as f:
        return f"data:{kind};base64,{base64.b64encode(f.read()).decode()}"


def media_part(path, url=None):
    kind = "video_url" if is_video(path) else "image_url"
    return {"type": kind, kind: {"url": url or data_uri(path)}}


def ask(row, url=None):
    """The content of a sample question: the file, then the question."""
    return [media_part(row["file"], url), {"type": "text", "text": row["question"]}]


def read_events(reply):
    """The JSON of a stream's events, and whether [DONE] came."""
    events, done = [], False
    for line in reply.split("\n"):
        if line.startswith("data: "):
            if line == "data: [DONE]":
                done = True
            else:
                events.append(json.loads(line[6:]))
    return events, done
