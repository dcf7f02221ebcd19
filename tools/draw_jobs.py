"""Runs tasks of draw_cases.py in processes that are forked once torch and transformers are here, one a task."""
import contextlib
import importlib
import json
import os
import signal
import sys
import time
import traceback

import torch

GRACE_S = 25  # for what runs when time is up
EVERY_S = 30  # a line of progress
WARM = ["transformers.models.auto.modeling_auto", "transformers.models.auto.image_processing_auto", "transformers.models.auto.video_processing_auto",
        "transformers.modeling_utils", "transformers.masking_utils", "transformers.video_processing_utils", "transformers.image_processing_backends",
        "torchvision.transforms.v2", "num2words"]


def warm_up():
    """What every process would import again. What is missing is for the family to say that needs it."""
    for name in WARM:
        try:
            importlib.import_module(name)
        except ImportError:
            pass


def begin(task, call, folder, result):
    """A child in a session of its own: its output goes beside its folder, what it returns into the file `result`."""
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()
        log = os.open(folder + ".log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        torch.set_num_threads(1)
        try:
            out = call(task)
        except Exception as e:
            traceback.print_exc()
            out = {"error": f"{type(e).__name__}: {' '.join(str(e).split())[:200]}"}
        sys.stdout.flush()
        with open(result + ".part", "w") as f:
            json.dump(out, f)
        os.rename(result + ".part", result)
        code = 0
    finally:
        os._exit(code)


def end(folder, result, status):
    """What the child returned. Its log stays where something is not right."""
    if os.path.exists(result):
        with open(result) as f:
            out = json.load(f)
        os.remove(result)
    else:
        out = {"error": f"its process ended with {os.waitstatus_to_exitcode(status)}"}
    if out.get("differ") == []:
        os.remove(folder + ".log")
    return out


@contextlib.contextmanager
def stopped(running):
    """Whatever happens, no child stays; what their folders hold is drawn again by the next call."""
    try:
        yield
    finally:
        for pid in running:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def read_done(path):
    """A line that was cut short is of a task that is done again."""
    done = {}
    if os.path.exists(path):
        with open(path) as f:
            for line in f:
                try:
                    one = json.loads(line)
                except ValueError:
                    continue
                done[one["key"]] = one["result"]
    return done


def run(tasks, call, folder_of, options):
    """{key of a task: what call(task) returned, or {"error": ...}}, of all that were done before the time was up."""
    os.makedirs(options.work, exist_ok=True)
    path = os.path.join(options.work, "done.jsonl")
    done = {k: r for k, r in read_done(path).items() if "agree" in r}
    left, running, without = [t for t in tasks if t["key"] not in done], {}, {}
    start = said = time.monotonic()
    warm_up()
    with open(path, "a") as record, stopped(running):
        while left or running:
            late = time.monotonic() - start - 60 * options.minutes
            while left and late < 0 and len(running) < options.jobs:
                task = left.pop(0)
                if task["family"] in without:
                    done[task["key"]] = without[task["family"]]
                    continue
                result = os.path.join(options.work, f"{task['family']}_{task['folder']}.result")
                running[begin(task, call, folder_of(task), result)] = (task, result)
            if late >= 0 and (not running or late > GRACE_S):
                break
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid not in running:
                time.sleep(0.005)
            else:
                task, result = running.pop(pid)
                done[task["key"]] = out = end(folder_of(task), result, status)
                if "missing" in out:
                    without[task["family"]] = out
                record.write(json.dumps({"key": task["key"], "result": out}) + "\n")
                record.flush()
            if time.monotonic() - said > EVERY_S:
                said = time.monotonic()
                print(f"{said - start:.0f} s: {len(done)} of {len(tasks)} folders", file=sys.stderr, flush=True)
    return done
