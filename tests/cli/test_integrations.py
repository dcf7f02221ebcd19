"""The Python package in its ecosystem: types, lmms-eval, VLMEvalKit, LangChain, Ray. The other packages are in build/venv (test.sh makes it);
what is not there is skipped. SACCADE_RAY_PICTURES=1000: so many pictures over Ray, 32 otherwise."""
import contextlib
import glob
import json
import os
import random
import re
import signal
import subprocess
import sys

import time
import unittest

from cli import ROOT, SACCADE, TIMEOUT_S, Case, main, sample, saccade, write_png

LIBRARY = os.path.join(os.path.dirname(SACCADE), "libsaccade.so")
VENV = os.path.join(ROOT, "build/venv/bin/python")
N_PICTURES = int(os.environ.get("SACCADE_RAY_PICTURES", "32"))
LIMIT_S = TIMEOUT_S + 3 * N_PICTURES


def environment(**more):
    return {**os.environ, "PYTHONPATH": os.path.join(ROOT, "python"), "SACCADE_LIBRARY": LIBRARY, **more}


def text_of(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def has(*modules):
    return os.path.exists(VENV) and not subprocess.run([VENV, "-c", "import " + ", ".join(modules)], stderr=subprocess.DEVNULL).returncode


def output(*command, **options):
    run = subprocess.run(command, text=True, timeout=TIMEOUT_S, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    if run.returncode:
        raise AssertionError(f"{command}: {run.returncode}\n{run.stdout[-3000:]}{run.stderr[-3000:]}")
    return run.stdout


class Types(Case):
    @unittest.skipUnless(has("mypy"), "needs mypy in build/venv")
    def test_strict(self):
        mypy = [VENV, "-m", "mypy", "--config-file", "../pyproject.toml", "--strict", "--cache-dir", self.path("cache"), "-p", "saccade"]
        self.assertRegex(output(*mypy, cwd="python"), r"no issues found in 1\d source files")
        use = self.path("use.py", "import saccade\nanswer: int = saccade.Model('m').session().ask('q')\n")
        run = subprocess.run([*mypy[:-2], use], cwd="python", env=environment(MYPYPATH=os.path.join(ROOT, "python")), text=True, stdout=subprocess.PIPE)
        self.assertIn('expression has type "Answer"', run.stdout)


@unittest.skipUnless(os.path.exists(LIBRARY), "built without -DSAC_SHARED=ON")
class Evaluation(Case):
    def test_lmms_eval_and_vlmevalkit(self):
        row, video = sample(video=False), sample(video=True)
        said = output(sys.executable, "-B", "tests/cli/python_integrations.py", row["file"], row["question"], row["answer"], video["file"],
                      env=environment())
        self.assertEqual(said, "lmms-eval and VLMEvalKit\n")

    @unittest.skipUnless(has("langchain_openai"), "needs langchain-openai in build/venv")
    def test_langchain(self):
        page = text_of("docs/python.md")
        program, = (p for p in re.findall(r"^```python\n(.*?)^```", page, re.M | re.S) if "langchain" in p)
        server = subprocess.Popen([SACCADE, "serve", "--port", "0", "--ctx", "4096"], text=True, stderr=subprocess.PIPE)
        try:
            url = re.search(r"http://\S+:\d+", server.stderr.readline()).group(0)
            self.assertIn("http://127.0.0.1:8000", program)
            said = output(VENV, "-c", program.replace("http://127.0.0.1:8000", url))
        finally:
            server.terminate()
            server.wait(TIMEOUT_S)
            server.stderr.close()
        row = sample(video=False)
        self.assertEqual(said.splitlines(), [row["answer"]] * 2)


CAPTION = """
import sys
from saccade.integrations.ray import caption
caption(sys.argv[1:2], sys.argv[2], shards=4, workers=2, command=sys.argv[3], options=["-t", "1", "--batch", "4"], formats=["jsonl", "coco"], num_cpus=1)
"""
REST = """
import json, sys
import ray
from saccade.integrations.ray import Captioner, evaluate
photos, questions, out, command, page = sys.argv[1:]
scores = evaluate(questions, out, shards=3, workers=2, videos="samples/drawn", command=command, options=["--prompt", "open", "-t", "1"], num_cpus=1)
rows = ray.data.read_binary_files(photos, include_paths=True).map_batches(
    Captioner, fn_constructor_kwargs={"model": "models/demo", "column": "bytes", "ctx": 2048, "threads": 1}, batch_size=8, concurrency=1).take_all()
exec(page)
try:
    evaluate(questions, out + "-x", shards=1, workers=1, command=command, options=["--no-such-option"], num_cpus=1)
    refused = None
except Exception as e:
    refused = str(e)
json.dump({"scores": scores, "captions": {r["path"].rsplit("/", 1)[1]: (r["caption"], r["error"]) for r in rows}, "refused": refused}, sys.stdout)
"""
START = """
import ray
for left in 2, 1, 0:  # Ray waits half a minute for its own processes, a busy machine may take longer
    try:
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error", _temp_dir=__import__("os").environ["RAY_FOLDER"])
        break
    except Exception:
        ray.shutdown()
        if not left:
            raise
ray.data.DataContext.get_current().enable_progress_bars = False
"""


def work_of(out):
    """(command's process, its parent) of the shards in a folder."""
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                words = f.read().decode().split("\0")
            with open(path.replace("cmdline", "stat"), encoding="utf-8") as f:
                parent = int(f.read().rpartition(")")[2].split()[1])
        except (OSError, UnicodeDecodeError):
            continue
        if words[0] == SACCADE and out in words and "--shard" in words:
            yield int(path.split("/")[2]), parent


def end_of(process):
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


@unittest.skipUnless(os.path.exists(LIBRARY), "built without -DSAC_SHARED=ON")
@unittest.skipUnless(has("ray.data"), "needs ray, pandas and pyarrow in build/venv")
class Ray(Case):
    def start(self, program, *arguments):
        # Ray's sockets want a short path
        return subprocess.Popen([VENV, "-c", START + program, *arguments], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=environment(RAY_FOLDER=self.path("r"), RAY_DATA_DISABLE_PROGRESS_BARS="1", RAY_USAGE_STATS_ENABLED="0"))

    def end(self, job):
        out, said = job.communicate(timeout=LIMIT_S)
        self.assertEqual(job.returncode, 0, out[-2000:] + said[-4000:])
        return out

    def pictures(self, n):
        os.mkdir(self.path("photos"))
        rng = random.Random(5)
        for i in range(n):
            write_png(self.path(f"photos/{i:04}.png"), 30 + i % 7, 30, [rng.randrange(256) for _ in range(3)])
        self.path("photos/broken.png", "no picture")
        return self.path("photos")

    def test_captions_with_an_actor_killed(self):
        photos, plain, out = self.pictures(N_PICTURES), self.path("plain"), self.path("out")
        run = subprocess.run([SACCADE, "caption", photos, "--out", plain, "-t", "1", "-q", "--format", "jsonl", "--format", "coco"], timeout=LIMIT_S,
                             stdout=subprocess.DEVNULL)
        self.assertEqual(run.returncode, 75)  # one file is broken
        job = self.start(CAPTION, photos, out, SACCADE)
        killed = None
        end = time.monotonic() + LIMIT_S
        while killed is None and job.poll() is None and time.monotonic() < end:
            done = sum(text_of(path).count("\n") - 1 for path in glob.glob(out + "/shard-*/journal.jsonl"))
            if done >= 4:
                for killed in work_of(out):
                    os.kill(killed[0], signal.SIGSTOP)  # so that it is gone later because its actor died, not because it was done
                    os.kill(killed[1], signal.SIGKILL)
                    self.addCleanup(end_of, killed[0])
                    break
            time.sleep(0.005)
        self.end(job)
        self.assertIsNotNone(killed, "no actor was seen at work")
        self.assertFalse(os.path.exists(f"/proc/{killed[0]}"), "the command outlived its actor")
        for name in "captions.jsonl", "captions.json":
            with open(os.path.join(plain, name), "rb") as f, open(os.path.join(out, name), "rb") as g:
                self.assertEqual(f.read(), g.read())
        with open(os.path.join(out, "captions.jsonl"), encoding="utf-8") as f:
            ids = [json.loads(line)["id"] for line in f]
        self.assertEqual(ids, sorted(os.listdir(photos)))
        records = [json.loads(line) for path in glob.glob(out + "/shard-*/journal.jsonl") for line in text_of(path).splitlines()[1:]]
        self.assertEqual(sorted(r["id"] for r in records if "id" in r), ids)  # no item was asked twice

    def test_evaluation_and_rows_of_pictures(self):
        photos = self.pictures(6)
        with open("samples/drawn/set.json", encoding="utf-8") as f:
            videos = [v for v in json.load(f) if int(v["sub_category"].split()[0]) <= 12][:5]
        for video in videos:
            video["questions"] = video["questions"][:3]
        questions = self.path("set.json", json.dumps(videos))
        run = saccade("eval", questions, "--videos", "samples/drawn", "--prompt", "open", "-t", "1", "--out", self.path("plain"))
        self.assertEqual(run.returncode, 0, run.stderr)
        page, = re.findall(r"^```python\n(.*?)^```", text_of("docs/batch.md"), re.M | re.S)
        os.mkdir(self.path("good"))
        os.symlink(os.path.join(photos, "0000.png"), self.path("good/0000.png"))
        server = subprocess.Popen([SACCADE, "serve", "--port", "0", "--ctx", "2048"], text=True, stderr=subprocess.PIPE)
        try:
            for written, here in ("http://127.0.0.1:8000", re.search(r"http://\S+:\d+", server.stderr.readline()).group(0)), \
                    ('"photos"', repr(self.path("good"))), ('"captions"', repr(self.path("rows"))):
                self.assertIn(written, page)
                page = page.replace(written, here)
            said = json.loads(self.end(self.start(REST, photos, questions, self.path("run"), SACCADE, page)))
        finally:
            server.terminate()
            server.wait(TIMEOUT_S)
            server.stderr.close()
        rows = [json.loads(line) for path in glob.glob(self.path("rows/*")) for line in text_of(path).splitlines()]
        self.assertEqual([row["caption"] for row in rows], [said["captions"]["0000.png"][0]])
        with open(self.path("plain/result.json"), "rb") as f, open(self.path("run/result.json"), "rb") as g:
            self.assertEqual(f.read(), g.read())
        self.assertEqual(said["scores"], json.loads(saccade("eval", "--score", self.path("plain/result.json"), "--json").stdout))
        self.assertIn("no-such-option", said["refused"])
        captions = said["captions"]
        self.assertEqual(captions.pop("broken.png")[0], None)
        for name, (text, error) in captions.items():
            self.assertIsNone(error)
            self.assertEqual(saccade("ask", "--image", os.path.join(photos, name), "Describe the image.").stdout, text + "\n")
        self.assertEqual(len(captions), 6)


if __name__ == "__main__":
    main()
