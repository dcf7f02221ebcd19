#!/usr/bin/env python3
"""Eight questions at once about one 64-frame video, with and without rows that slots take over from one another: tokens of
prompts that were run, and seconds to the first tokens. Answers and their log probabilities must be the same.

    SACCADE=build/release/saccade tools/check_shared_video.py [OPTION OF saccade serve ...]"""
import json
import statistics
import sys
import threading
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/serve"))
from server import Server, ask, chat_body, questions  # noqa: E402

QUESTIONS = ["How many numbers appear?", "Describe the video.", "What is the first number?", "What is the last number?",
             "Which colors are there?", "Is there any text?", "What happens in the middle?", "What comes after the first number?"]


class Asker(threading.Thread):
    """Asks, and keeps the seconds to the first token, the answer and its log probabilities."""

    def __init__(self, server, row):
        super().__init__()
        body = chat_body(ask(row), stream=True, logprobs=True, max_tokens=100, ignore_eos=True, stream_options={"include_usage": True})
        self.request = urllib.request.Request(server.url + "/v1/chat/completions", json.dumps(body).encode(),
                                              {"Content-Type": "application/json"})
        self.first_s, self.said, self.n_prompt = None, [], 0
        self.start_s = time.monotonic()
        self.start()

    def run(self):
        for line in urllib.request.urlopen(self.request):
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if event.get("usage"):
                self.n_prompt = event["usage"]["prompt_tokens"]
            for choice in event["choices"]:
                if choice["delta"].get("content") and self.first_s is None:
                    self.first_s = time.monotonic() - self.start_s
                self.said.append((choice["delta"].get("content"), choice.get("logprobs")))


def measure(options):
    """[askers], tokens that were run for them, tokens taken over."""
    row = next(r for r in questions() if r["n_frames"] == 64)
    with Server("--slots", "8", *options) as server:
        askers = [Asker(server, dict(row, question=q)) for q in QUESTIONS]
        for a in askers:
            a.join()
        return askers, server.metric("saccade:prefilled_tokens_total"), server.metric("saccade:shared_tokens_total")


def report(name, askers, n_run):
    longest, first = max(a.n_prompt for a in askers), sorted(a.first_s for a in askers)
    print(f"{name}: {sum(a.n_prompt for a in askers)} tokens in 8 prompts, {n_run:.0f} run, {n_run / longest:.2f} times one prompt;"
          f" first token after {first[0]:.3f} s, mean {statistics.mean(first):.3f}, last {first[-1]:.3f} s")


def main():
    options = sys.argv[1:]
    apart, n_apart, _ = measure(["--no-sharing", *options])
    together, n_together, n_shared = measure(options)
    report("without sharing", apart, n_apart)
    report("with sharing", together, n_together)
    same = [a.said for a in apart] == [b.said for b in together]
    print(f"{n_shared:.0f} tokens taken over; answers and log probabilities {'the same' if same else 'DIFFER'}")
    return 0 if same and n_together < n_apart / 4 else 1


if __name__ == "__main__":
    sys.exit(main())
