#!/usr/bin/env python3
"""Many clients at once against a running server: every answer is checked, delays are measured.

    saccade serve --slots 16 --queue 256 &
    tools/load_server.py --url http://127.0.0.1:8000 --clients 64 --seconds 600 [--max-frames 64] [--pid PID]

Each client asks questions of samples/questions.jsonl in an order of its own, streamed, and compares the text with
the right answer. Prints one JSON object: requests, wrong answers, errors, p50 and p99 of the time to the first
token and between tokens, tokens a second, and with --pid the server's memory every few seconds.
Python's standard library is enough.
"""
import argparse
import base64
import http.client
import json
import os
import random
import re
import sys
import threading
import time
import urllib.parse


def load_questions(max_frames):
    rows = []
    with open("samples/questions.jsonl", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if row["n_frames"] > max_frames:
                continue
            kind = "video_url" if row["kind"] == "video" else "image_url"
            with open(os.path.join("samples", row["file"]), "rb") as f:
                uri = f"data:{row['kind']}/x;base64," + base64.b64encode(f.read()).decode()
            content = [{"type": kind, kind: {"url": uri}}, {"type": "text", "text": row["question"]}]
            body = json.dumps({"messages": [{"role": "user", "content": content}], "temperature": 0, "stream": True})
            rows.append((row, body))
    return rows


class Results:
    def __init__(self):
        self.lock = threading.Lock()
        self.first, self.between, self.whole = [], [], []
        self.answers = self.wrong = self.tokens = 0
        self.errors = []

    def add(self, times, began, right, row, text):
        with self.lock:
            self.answers += 1
            self.tokens += len(times)
            self.whole.append(times[-1] - began if times else 0)
            if times:
                self.first.append(times[0] - began)
            self.between += [b - a for a, b in zip(times, times[1:])]
            if not right:
                self.wrong += 1
                self.errors.append(f"{row['file']}: {row['question']!r} gave {text!r}, not {row['answer']!r}")

    def fail(self, error):
        with self.lock:
            self.errors.append(str(error)[:300])


def ask(address, row, body, results):
    began = time.monotonic()
    connection = http.client.HTTPConnection(*address, timeout=900)
    try:
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        if reply.status != 200:
            results.fail(f"{reply.status}: {reply.read()[:200]}")
            return
        text, times, done = "", [], False
        for line in reply:
            if line.startswith(b"data: [DONE]"):
                done = True
            elif line.startswith(b"data: "):
                event = json.loads(line[6:])
                if "error" in event:
                    results.fail(event["error"])
                    return
                piece = event["choices"][0]["delta"].get("content") if event["choices"] else None
                if piece:
                    text += piece
                    times.append(time.monotonic())
        results.add(times, began, done and text == row["answer"], row, text)
    except (OSError, http.client.HTTPException) as error:
        results.fail(repr(error))
    finally:
        connection.close()


def client(number, address, rows, end, results):
    order = random.Random(number)
    while time.monotonic() < end:
        ask(address, *order.choice(rows), results)


def memory_mib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) / 1024


def percentile(values, share):
    return round(sorted(values)[min(len(values) - 1, int(share * len(values)))], 4) if values else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--max-frames", type=int, default=64)
    parser.add_argument("--pid", type=int)
    options = parser.parse_args()
    parsed = urllib.parse.urlparse(options.url)
    rows, results = load_questions(options.max_frames), Results()
    began = time.monotonic()
    threads = [threading.Thread(target=client, args=(i, (parsed.hostname, parsed.port or 80), rows,
                                                     began + options.seconds, results))
               for i in range(options.clients)]
    for thread in threads:
        thread.start()
    memory = []
    while any(thread.is_alive() for thread in threads):
        time.sleep(1)
        if options.pid:
            memory.append(memory_mib(options.pid))
    seconds = time.monotonic() - began
    report = {"clients": options.clients, "seconds": round(seconds, 1), "answers": results.answers,
              "wrong": results.wrong, "errors": len(results.errors), "answers_per_second": round(results.answers / seconds, 3),
              "pieces_per_second": round(results.tokens / seconds, 2)}
    for name, values in ("first_token_s", results.first), ("between_tokens_s", results.between), ("answer_s", results.whole):
        report[name] = {"p50": percentile(values, 0.5), "p99": percentile(values, 0.99)}
    if memory:
        step = max(1, len(memory) // 12)
        report["memory_mib"] = [round(m, 1) for m in memory[::step]]
    print(json.dumps(report, indent=1))
    for error in results.errors[:10]:
        print(error, file=sys.stderr)
    sys.exit(1 if results.errors or results.answers == 0 else 0)


if __name__ == "__main__":
    main()
