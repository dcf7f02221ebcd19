"""The Python package: its structs against C's, and its wheel in a new virtual environment, without the network."""
import base64
import ctypes
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request

from cli import SACCADE, TIMEOUT_S, Case, main, sample, saccade

LIBRARY = os.path.join(os.path.dirname(SACCADE), "libsaccade.so")
CC = shutil.which(os.environ.get("CC", "cc"))


def output(*command, **options):
    run = subprocess.run(command, text=True, timeout=TIMEOUT_S, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    if run.returncode:
        raise AssertionError(f"{command}: {run.returncode}\n{run.stdout}{run.stderr}")
    return run.stdout


def load_abi():
    namespace = {"__name__": "abi"}
    with open("python/saccade/_abi.py", encoding="utf-8") as f:
        exec(compile(f.read(), "_abi.py", "exec"), namespace)  # without the package, which opens the library
    return namespace


@unittest.skipUnless(CC, "needs a C compiler")
class Abi(Case):
    def test_structs_are_those_of_the_header(self):
        structs = load_abi()["STRUCTS"]
        lines, wanted = [], []
        for name, struct in structs.items():
            lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
            wanted.append(f"{name} {ctypes.sizeof(struct)}")
            for field, *_ in struct._fields_:
                place = f"offsetof({name}, {field}), sizeof((({name} *)0)->{field})"
                lines.append(f'printf("{name}.{field} %zu %zu\\n", {place});')
                wanted.append(f"{name}.{field} {getattr(struct, field).offset} {getattr(struct, field).size}")
        source = self.path("sizes.c", "#include <saccade/saccade.h>\n#include <stdio.h>\nint main(void) {\n" + "\n".join(lines) + "}\n")
        output(CC, "-std=c11", "-Iinclude", source, "-o", self.path("sizes"))
        self.assertEqual(output(self.path("sizes")).splitlines(), wanted)

    def test_version(self):
        with open("include/saccade/saccade.h", encoding="utf-8") as f:
            self.assertIn(f'#define SAC_VERSION "{load_abi()["VERSION"]}', f.read())


def ready(host):
    try:
        with urllib.request.urlopen(host + "/health", timeout=TIMEOUT_S):
            return True
    except urllib.error.HTTPError:
        return False


def documented():
    """The programs of docs/python.md."""
    with open("docs/python.md", encoding="utf-8") as f:
        return re.findall(r"^```python\n(.*?)^```", f.read(), re.M | re.S)


@unittest.skipUnless(os.path.exists(LIBRARY), "built without -DSAC_SHARED=ON")
class Wheel(Case):
    def test_a_new_environment_answers(self):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "SACCADE"))}
        venv = self.path("venv")
        output(sys.executable, "-m", "venv", "--system-site-packages", venv)  # numpy and Pillow, where they are
        python = os.path.join(venv, "bin/python")
        output(python, "-m", "pip", "install", "--no-index", "--disable-pip-version-check", ".", "--config-settings",
               f"library={LIBRARY}", env=environment)
        row, video = sample(video=False), sample(video=True)
        asked = row["file"], row["question"]
        first, asyncio, *_ = documented()  # the others are run by test_integrations.py
        self.assertEqual([value in first for value in asked], [True, True])
        self.assertEqual(output(python, "-I", "-c", first, env=environment).splitlines(), [row["answer"]] * 4)
        self.assertEqual(output(python, "-I", "-c", asyncio, env=environment).splitlines(), [row["answer"]] * 3)
        self.assertEqual(len(glob.glob(os.path.join(venv, "lib/python*/site-packages/saccade/py.typed"))), 1)
        points = "import importlib.metadata as m; print([p.value for p in m.distribution('saccade').entry_points if p.group == 'lmms_eval.models'])"
        self.assertEqual(output(python, "-I", "-c", points, env=environment), "['saccade.integrations.lmms_eval:manifest']\n")
        self.assertEqual(len(glob.glob(os.path.join(venv, "lib/python*/site-packages/saccade/integrations/*.py"))), 5)
        print("  " + output(python, "-I", "tests/cli/python_checks.py", *asked, row["answer"], video["file"], env=environment).strip())
        output(python, "-m", "pip", "uninstall", "-y", "saccade", env=environment)
        self.assertEqual(glob.glob(os.path.join(venv, "lib/python*/site-packages/saccade*")), [])

    def test_vectors_and_what_was_kept_are_those_of_server_and_command(self):
        row, method, said = sample(video=False), "zipvl:min=0,tau=0.8", "A red circle."
        program = ("import json, saccade, sys; s = saccade.Model('models/demo').session(ctx=4096, prefill=sys.argv[3]); "
                   "m = [{'role': 'user', 'content': [saccade.Image(sys.argv[1]), sys.argv[2]]}]; k = s.kept(m); "
                   "d = saccade.Model('models/demo').session(ctx=4096); "
                   "print(json.dumps([[len(l) / k.n_tokens for l in k.layers], list(d.embed(sys.argv[4])), list(d.embed(m))]))")
        shares, text, picture = json.loads(output(sys.executable, "-c", program, row["file"], row["question"], method, said,
                                                  env={**os.environ, "PYTHONPATH": "python", "SACCADE_LIBRARY": LIBRARY}))
        asked = saccade("ask", "--json", "--prefill", method, "--image", row["file"], row["question"])
        for ours, theirs in zip(shares, json.loads(asked.stdout)["methods"]["kept_by_layer"], strict=True):
            self.assertAlmostEqual(ours, theirs, places=6)
        with open(row["file"], "rb") as f:
            url = "data:image/png;base64," + base64.b64encode(f.read()).decode()
        parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": row["question"]}]
        server = subprocess.Popen([SACCADE, "serve", "--port", "0", "--ctx", "4096"], text=True, stderr=subprocess.PIPE)
        try:
            host = re.search(r"http://\S+:\d+", server.stderr.readline()).group(0)
            until = time.monotonic() + TIMEOUT_S
            while not ready(host):
                self.assertLess(time.monotonic(), until, "the server did not start")
                time.sleep(0.05)
            for vector, body in (text, {"input": said}), (picture, {"messages": [{"role": "user", "content": parts}]}):
                request = urllib.request.Request(host + "/v1/embeddings", json.dumps(body).encode(), {"Content-Type": "application/json"})
                with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                    theirs = json.load(answer)["data"][0]["embedding"]
                self.assertLess(max(abs(a - b) for a, b in zip(vector, theirs, strict=True)), 1e-5)
        finally:
            server.terminate()
            server.wait(TIMEOUT_S)
            server.stderr.close()

    def test_what_the_build_refuses(self):
        run = subprocess.run([sys.executable, "-c", "import sys; sys.path.insert(0, 'python'); import backend; "
                              "backend.build_wheel(sys.argv[1], {'libary': 'x'})", self.folder], text=True, stderr=subprocess.PIPE)
        self.assertEqual(run.returncode, 1)
        self.assertIn("unknown setting 'libary'", run.stderr)
        run = subprocess.run([sys.executable, "-c", "import sys; sys.path.insert(0, 'python'); import backend; backend.build_wheel(sys.argv[1], {})",
                              self.folder], text=True, stderr=subprocess.PIPE, env={**os.environ, "PATH": self.folder})
        self.assertEqual((run.returncode, run.stderr.startswith("cmake is missing: ")), (1, True), run.stderr)
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    main()
