"""Captions and evaluation over Ray: actors that each do parts of a job, killed or not.

    from saccade.integrations.ray import caption, evaluate
    caption(["photos"], out="captions", shards=64, workers=8)
    evaluate("set.json", out="run", shards=16, workers=4, options=["--num-frames", "32"])

The parts are run by the command `saccade`, whose journals lie in `out` (a folder that all nodes see). An actor that dies takes its command with
it; Ray starts another, which goes on after the last item in the journal. So nothing is lost and nothing is done twice, and results are the bytes of
one plain run. Called again with the same arguments, a job that was stopped goes on.

Within a pipeline of rows, Captioner answers about pictures that are rows themselves:

    ray.data.read_images("photos").map_batches(Captioner, fn_constructor_kwargs={"model": "/models/qwen", "ctx": 4096}, batch_size=8, concurrency=2)
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import Any

import ray

DONE = (0, 75)  # 75: some items are error lines, which the report counts
AGAIN = (74, 71)  # the part is still locked by a process that is ending, or memory was short
TRIES, WAIT_S = 30, 1.0
PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Ray ends what a dead actor has begun, too, but not at once, and not in every version."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def run(words: Sequence[str], env: dict[str, str] | None = None) -> str:
    """Runs the command, again where that helps; its standard output."""
    code, said = 0, ""
    for _ in range(TRIES):
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, preexec_fn=die_with_parent
        )
        out, said = process.communicate()
        code = process.returncode
        if code in DONE:
            return out
        if code not in AGAIN and code >= 0:
            break
        time.sleep(WAIT_S)
    last = (said.strip().splitlines() or ["it said nothing"])[-1]
    raise RuntimeError(f"{' '.join(words[:3])} ... ended with {code}: {last}")


class Part:
    """An actor of Ray Data that runs a command for each row."""

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        for words in batch["words"]:
            run(json.loads(str(words)))
        return {"n": [1] * len(batch["words"])}


def run_parts(commands: Sequence[Sequence[str]], workers: int, resources: dict[str, Any]) -> None:
    rows = [{"words": json.dumps(list(words))} for words in commands]
    parts = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(
        Part, batch_size=1, concurrency=workers, max_restarts=-1, max_task_retries=-1, **resources
    )
    n = sum(row["n"] for row in parts.take_all())
    assert n == len(rows), (n, len(rows))


def caption(
    inputs: Sequence[str],
    out: str,
    *,
    shards: int,
    workers: int,
    options: Sequence[str] = (),
    formats: Sequence[str] = (),
    command: str = "saccade",
    **resources: Any,
) -> None:
    """Describes what `saccade caption` takes (a folder, a manifest, tar shards) in so many parts, and merges the results in `out`.

    options: further ones of the command (["-m", MODEL, "--ask", TEXT]). formats: of the results. resources: of each actor (num_cpus=8,
    num_gpus=1). Raises RuntimeError with the command's own line where a part cannot be done."""
    paths = [os.path.abspath(path) for path in inputs]
    common = [command, "caption", *paths, "--out", os.path.abspath(out), "--quiet", *options]
    run_parts([[*common, "--shard", f"{i}/{shards}"] for i in range(shards)], workers, resources)
    run([command, "caption", "merge", os.path.abspath(out), *(word for name in formats for word in ("--format", name))])


def evaluate(
    questions: str,
    out: str,
    *,
    shards: int,
    workers: int,
    videos: str | None = None,
    options: Sequence[str] = (),
    command: str = "saccade",
    **resources: Any,
) -> dict[str, Any]:
    """Asks a question set (a .json in Video-MME's schema) in parts of whole videos; result.json in `out` is that of one run of `saccade eval`.
    Returns the scores, as `saccade eval --score --json` prints them."""
    with open(questions, encoding="utf-8") as f:
        rows = json.load(f)
    where = os.path.abspath(videos or os.path.dirname(os.path.abspath(questions)))
    shards = max(1, min(shards, len(rows)))
    commands, results = [], []
    for i in range(shards):
        folder = os.path.join(os.path.abspath(out), f"shard-{i:05}-of-{shards:05}")
        os.makedirs(folder, exist_ok=True)
        part = rows[i * len(rows) // shards : (i + 1) * len(rows) // shards]
        write(os.path.join(folder, "set.json"), part)
        commands.append([command, "eval", os.path.join(folder, "set.json"), "--videos", where, "--out", os.path.join(folder, "run"), "--quiet", *options])
        results.append(os.path.join(folder, "run", "result.json"))
    run_parts(commands, workers, resources)
    merged = []
    for path in results:
        with open(path, encoding="utf-8") as f:
            merged += json.load(f)
    asked, answered = ([(row["video_id"], q["question_id"]) for row in of for q in row["questions"]] for of in (rows, merged))
    if asked != answered:
        raise RuntimeError(f"{out}: {len(asked)} questions were to be asked, {len(answered)} are in the parts, or in another order")
    path = os.path.join(out, "result.json")
    write(path, merged)
    scores: dict[str, Any] = json.loads(run([command, "eval", "--score", path, "--json"]))
    return scores


def write(path: str, value: Any) -> None:
    """Whole or not at all, as the command writes JSON. A file with these contents already is left alone."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            if f.read() == text:
                return
    with open(path + ".part", "w", encoding="utf-8") as f:
        f.write(text)
    os.replace(path + ".part", path)


def picture_of(value: Any) -> Any:
    """A cell of a column: an array, bytes, or numpy's text."""
    return value if isinstance(value, bytes) or len(getattr(value, "shape", ())) == 3 else str(value)


class Captioner:
    """An actor of Ray Data: adds the column `caption` to rows with a column of pictures (arrays, bytes of files or paths). A row that cannot be
    answered gets None and its reason in the column `error`."""

    def __init__(
        self, model: str = "models/demo", *, ask: str = "Describe the image.", column: str = "image", batch_size: int = 8, max_tokens: int = 128,
        threads: int = 0, device: str | None = None, **session: Any
    ) -> None:
        from .. import Batch, Model

        self.ask, self.column, self.max_tokens = ask, column, max_tokens
        self.batch = Batch(Model(model, threads=threads, device=device), batch_size, **session)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        from .. import Error, Image

        asked = ([{"role": "user", "content": [Image(picture), self.ask]}] for picture in map(picture_of, batch[self.column]))
        answers = self.batch.generate(asked, return_errors=True, max_tokens=self.max_tokens, temperature=0.0)
        failed = [isinstance(answer, Error) for answer in answers]
        return {
            **batch,
            "caption": [None if bad else str(answer) for bad, answer in zip(failed, answers)],
            "error": [str(answer) if bad else None for bad, answer in zip(failed, answers)],
        }
