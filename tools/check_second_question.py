#!/usr/bin/env python3
"""How much sooner the second question about a 64-frame video reaches its first token than the first did; answers are checked.

    SACCADE=build/release/saccade tools/check_second_question.py"""
import json
import sys
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/serve"))
from server import Server, ask, chat_body, questions  # noqa: E402


def first_token(server, row):
    """Seconds to the first piece of the answer, and the answer."""
    body = json.dumps(chat_body(ask(row), stream=True)).encode()
    start, first, text = time.monotonic(), None, ""
    request = urllib.request.Request(server.url + "/v1/chat/completions", body, {"Content-Type": "application/json"})
    for line in urllib.request.urlopen(request):
        if not line.startswith(b"data: {"):
            continue
        for choice in json.loads(line[6:])["choices"]:
            piece = choice["delta"].get("content") or ""
            if piece and first is None:
                first = time.monotonic() - start
            text += piece
    return first, text


def main():
    rows = [r for r in questions() if r["n_frames"] == 64][:2]
    with Server("--slots", "2") as server:
        (a, first), (b, second) = (first_token(server, r) for r in rows)
    right = [first, second] == [r["answer"] for r in rows]
    print(f"first token after {a:.3f} s, of the second question {b:.3f} s: {a / b:.1f} times sooner; answers {'right' if right else 'WRONG'}")
    return 0 if right and a / b >= 5 else 1


if __name__ == "__main__":
    sys.exit(main())
