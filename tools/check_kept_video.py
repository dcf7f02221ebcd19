#!/usr/bin/env python3
"""Asks about a 64-frame video, then about others until no slot holds it, then about it again, with and without the store of
beginnings, and once more after a restart with --cache-dir: seconds to the first token, and tokens of the prompt that were
run. Answers and their log probabilities must be the same. Also what storing costs: seconds to the first token of prompts that
find nothing, and of the whole round, with the store and without it in turns, and the server's memory.

    SACCADE=build/release/saccade tools/check_kept_video.py [OPTION OF saccade serve ...]"""
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/serve"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from check_shared_video import QUESTIONS, Asker  # noqa: E402
from server import Server, questions  # noqa: E402

SLOTS, ROUNDS = 2, 5


def prompts():
    """The video three times with other questions, the last two for later; and one about each of some other videos and pictures."""
    rows = questions()
    video = next(r for r in rows if r["n_frames"] == 64)
    others, seen = [], {video["file"]}
    for r in rows:
        if r["file"] not in seen and r["n_frames"] <= 64:
            seen.add(r["file"])
            others.append(r)
    return [dict(video, question=q) for q in QUESTIONS[:3]], others[:2 * SLOTS]


def ask(server, row):
    """What was said, seconds to the first token, tokens that were run and that came out of the store."""
    before = [server.metric(name) for name in ("saccade:prefilled_tokens_total", "vllm:external_prefix_cache_hits_total")]
    a = Asker(server, row)
    a.join()
    after = [server.metric(name) for name in ("saccade:prefilled_tokens_total", "vllm:external_prefix_cache_hits_total")]
    return a.said, a.first_s, after[0] - before[0], after[1] - before[1]


def round_of(options):
    """First answer, second answer, seconds of all the first tokens that find nothing, KiB."""
    (first, again, _), others = prompts()
    with Server("--slots", SLOTS, *options) as server:
        cold = [ask(server, first)]
        cold += [ask(server, r) for r in others]
        return cold[0], ask(server, again), sum(c[1] for c in cold), server.memory_kib(), server.metric("saccade:store_memory_bytes")


def show(name, answer):
    print(f"{name}: first token after {answer[1]:.3f} s, {answer[2]:.0f} tokens run, {answer[3]:.0f} out of the store")


def main():
    options, same = sys.argv[1:], True
    with tempfile.TemporaryDirectory() as folder:
        without, stored = [], []
        for _ in range(ROUNDS):
            without.append(round_of(["--cache-memory", 0, *options]))
            stored.append(round_of(options))
        show("asked first", stored[0][0])
        show("asked again, without the store", without[0][1])
        show("asked again, with it", stored[0][1])
        same = all(a[k][0] == without[0][k][0] for a in without + stored for k in (0, 1))
        cold = [statistics.median(r[2] for r in rounds) for rounds in (without, stored)]
        best = [min(r[2] for r in rounds) for rounds in (without, stored)]
        print(f"first tokens of {1 + len(prompts()[1])} prompts that find nothing: median {cold[0]:.3f} s without, {cold[1]:.3f} s with"
              f" ({100 * (cold[1] / cold[0] - 1):+.1f} %), least {best[0]:.3f} and {best[1]:.3f} ({100 * (best[1] / best[0] - 1):+.1f} %)")
        print(f"{stored[0][4] / 2**20:.1f} MiB in the store; the server {without[0][3] / 1024:.0f} and {stored[0][3] / 1024:.0f} MiB")
        disk = ["--cache-dir", folder, *options]
        round_of(disk)
        (first, again, third), _ = prompts()
        with Server("--slots", SLOTS, *disk) as server:
            restarted = ask(server, again)
            show("after a restart with --cache-dir", restarted)
            print(f"{server.metric('saccade:store_disk_bytes') / 2**20:.1f} MiB on disk")
        same = same and restarted[0] == without[0][1][0]
        found = min(stored[0][1][3], restarted[3])
        small = round_of(["--cache-memory", 2, *options])
        same = same and small[1][0] == without[0][1][0] and small[4] <= 2 << 20
        print(f"with 2 MiB: {small[1][3]:.0f} tokens out of the store, {small[4] / 2**20:.2f} MiB in it")
        with Server("--slots", SLOTS, *disk) as server:
            show("another question after another restart", ask(server, third))
    print(f"answers and log probabilities {'the same' if same else 'DIFFER'}")
    return 0 if same and found > 0.9 * (stored[0][1][2] + stored[0][1][3]) else 1


if __name__ == "__main__":
    sys.exit(main())
