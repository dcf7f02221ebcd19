"""The commands of README and docs/, run as they are pasted.

Each page's commands run in order in a copy of the tree in which the names that stand for a reader's own files (MODEL, cat.jpg, photos ...) are
there: the demo model and samples. What cannot run is listed in CANNOT with its reason, and its words are read all the same: subcommands, options
and files of the tree must exist. So are commands within sentences. docs/getting-started.md and CONTRIBUTING.md are run by test_guide.py,
docs/python.md by test_python.py."""
import contextlib
import glob
import json
import os
import re
import shlex
import shutil
import site
import subprocess
import sys
import tarfile
import time
import unittest
import urllib.error
import urllib.request

import pasted_files
from cli import ROOT, SACCADE, TIMEOUT_S, Case, Terminal, main, saccade

PAGES = ["README.md", *sorted(glob.glob("docs/*.md"))]
ELSEWHERE = {"docs/getting-started.md": "test_guide.py", "docs/python.md": "test_python.py"}
CUDA = "a card, and a build with SAC_CUDA"
LONG = "hours on one thread"
# A command -> why it cannot run here. Each must be in some page.
CANNOT = {
    r"git clone": "the network",
    r"\./demo\.sh|\./test\.sh|cmake --preset": "builds; test.sh runs this test",
    r"apt-get install|pip install|cmake --install|cpack|docker |systemctl |kubectl ": "installs, or needs a daemon or a cluster",
    r"sbatch |saccade caption merge /scratch": "a Slurm cluster: tools/check_slurm.py starts one and runs the same file",
    r"hf download": "downloads gigabytes",
    r"tools/compare_transformers\.py|.*--device cuda|text_probe|batch_probe|checkkernels|tools/check_sanitizers": CUDA,
    r"tools/compare_formats\.py": "minutes",
    r"tools/compare_shards\.py|tools/demo/draw_videomme\.py|SACCADE=\S+ tools/check_front\.py|python3 -c .*'test/set": "numpy and Pillow draw its videos; " + LONG,
    r"exec ": "is samples/captions.sbatch, which test_schedulers runs",
    r"python -m lmms_eval|python -c \"from saccade": "PyTorch, gigabytes: test_integrations.py has their interfaces",
}
# What a command says and what the test gives it instead: so many items, or hours.
SHORTER = [
    (r"^(saccade compare (?!.*--limit).*?)( --out \S+)?$", r"\1 --limit 1\2"),
    (r"^(saccade eval (?!--score|.*--answers).*? --out \S+)( .*)?$", r"\1 --limit 2\2"),
    (r"^(saccade tune .*?)(--minutes 20 )?(--out \S+)$", r"\1--limit 12 --tries 2 --minutes 0 --num-frames 2 --fast -t 1 \3"),
    (r"^(saccade reproduce .*--data .*?)( --out \S+)?$", r"\1 --limit 1 --max-tokens 2 -t 1\2"),
    (r"^(saccade reproduce zipvl:table2.*)$", r"\1 --num-frames 4"),
    (r"--lengths 4096,8192,131072 --samples 20", "--lengths 1200 --samples 1 --skip"),
    (r"\{00000\.\.00331\}", "{00000..00001}"),
    (r"--prompt-tokens 2048 --gen-tokens 64 --repeat 5", "--prompt-tokens 64 --gen-tokens 4 --repeat 1"),
    (r"bench --video clip\.mp4 --num-frames 64", r"bench --video clip.mp4 --num-frames 4 --prompt-tokens 64 --gen-tokens 4 --repeat 1"),
    (r"calibrate (.*)--limit 100", r"calibrate \1--limit 1"),
    (r"calibrate (.*)--num-frames 64", r"calibrate \1--num-frames 64 --limit 1"),
    (r"bench -p 512 -n 32 -r 1", "bench -p 64 -n 4 -r 1"),
    (r"^(saccade-parquet .*--out) captions", r"\1 rows-out"),  # others merge what is in captions
    (r"\bcompare SET\b", "compare samples/drawn/set.json"),
]


OF_THE_TREE = ("CMakeLists.txt", "CMakePresets.json", "README.md", "cmake", "demo.sh", "examples", "include", "kernels", "kvquant", "llm",
               "models", "packaging", "pyproject.toml", "python", "runtime", "samples", "sparse", "test.sh", "tests", "tools", "vision")


def text_of(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def blocks(page, kinds=("", "bash", "sh")):
    found = re.findall(r"^( *)```(\w*)\n(.*?)^\1```$", text_of(page), re.M | re.S)
    return ["\n".join(line[len(indent):] for line in body.splitlines()) for indent, kind, body in found if kind in kinds]


def commands(block):
    """The commands of a block: lines, with those that a backslash or an open quote continues."""
    out, open_line = [], ""
    for line in [] if block.startswith("{") else block.splitlines():  # JSON is shown in plain blocks, too
        open_line += line
        if open_line.endswith("\\"):
            open_line = open_line[:-1].rstrip() + " "
            continue
        try:
            if shlex.split(open_line, comments=True):
                out.append(open_line)
            open_line = ""
        except ValueError:  # within quotes
            open_line += "\n"
    assert not open_line.strip(), open_line
    return out


def reason(command):
    return next((why for pattern, why in CANNOT.items() if re.match(pattern, command)), None)


_help = {}


def options_of(subcommand):
    if subcommand not in _help:
        run = saccade("help", subcommand)
        assert run.returncode == 0, run.stderr
        _help[subcommand] = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", run.stdout)) | {"--help", "-h"}
    return _help[subcommand]


class Words(unittest.TestCase):
    """Reads a command without running it."""

    def read(self, command):
        words = shlex.split(command.replace("[", " ").replace("]", " "), comments=True)
        while words and re.match(r"\w+=", words[0]):
            words.pop(0)
        if not words:
            return
        name = words[0]
        if name == "sbatch":
            self.assertIn("samples/captions.sbatch", words, command)
            name, words = "saccade", ["saccade", "caption", *words[words.index("samples/captions.sbatch") + 1:]]
        if os.path.basename(name) == "saccade" and len(words) > 1 and re.match(r"[a-z]+$", words[1]):
            if words[1] in ("help", "manual", "completion"):
                return
            known = options_of(words[1])
            for word in words[2:]:
                if re.match(r"--?[a-z]", word):
                    self.assertIn(word.split("=")[0].split(":")[0], known, command)
        elif "/" in name and not name.startswith("build/"):
            self.assertTrue(os.path.isfile(name), command)
            self.assertTrue(len(words) == 1 or os.access(name, os.X_OK), f"{command}: {name} is not executable")
            source = text_of(name)
            if "OPTION OF saccade serve" in source:
                source += " ".join(options_of("serve"))
            own = words[1:words.index("--")] if "--" in words else words[1:]  # the others are for the command that it runs
            for word in own:
                if word.startswith("--"):
                    self.assertIn(word.split("=")[0], source, command)
        elif name == "cmake" and "--preset" in words:
            presets = [preset["name"] for preset in json.loads(text_of("CMakePresets.json"))["configurePresets"]]
            for word, after in zip(words, words[1:]):
                if word == "--preset":
                    self.assertIn(after, presets)
        elif name == "apt-get":
            packages = set(re.findall(r"[\w.+-]{3,}", command)) - {"apt-get", "install", "--no-install-recommends"}
            listed = subprocess.run(["tools/packages.sh", "list", "build"], text=True, stdout=subprocess.PIPE, check=True).stdout.split()
            if "cmake" in packages:
                self.assertEqual(packages, set(listed))
        for path in re.findall(r"(?<![\w/.-])(?:packaging|samples|tools|docs|models/demo)/[\w./-]*\w", command):
            self.assertTrue(os.path.exists(path), f"{command}: {path}")

    def test_commands_that_cannot_run(self):
        unused = set(CANNOT)
        for page in PAGES:
            found = [c for block in blocks(page) for c in commands(block)] + self.inline(page)
            for command in found:
                unused -= {pattern for pattern in CANNOT if re.match(pattern, command)}
                if reason(command):
                    self.read(command)
        self.assertEqual(unused, set(), "in no page any more")

    @staticmethod
    def inline(page):
        text = re.sub(r"^ *```.*?^ *```$", "", text_of(page), flags=re.M | re.S)
        return [" ".join(c.split()) for c in re.findall(
            r"`((?:saccade|build/\S+|tools/[\w/]+\.(?:py|sh)|\./\w+\.sh|pip|docker|kubectl|systemctl|hf|cmake|cpack|text_probe|batch_probe|"
            r"checkkernels)(?: [^`|]*)?)[`|]", text) if not re.match(r"saccade [A-Z\[]|build/<", c)]

    def test_commands_within_sentences(self):
        n = 0
        for page in PAGES:
            for command in self.inline(page):
                with self.subTest(page=page, command=command):
                    self.read(command)
                    n += 1
        self.assertGreater(n, 60)

    def test_tools_are_executable(self):
        tools = [path for kind in ("py", "sh") for path in glob.glob(f"tools/**/*.{kind}", recursive=True) if text_of(path).startswith("#!")]
        self.assertGreater(len(tools), 60)
        self.assertEqual([path for path in tools if not os.access(path, os.X_OK)], [])

    def test_options_that_do_not_exist_are_seen(self):
        for command in "saccade ask --imagee a.png", "tools/check_slurm.py --nothing", "tools/nosuch.py", "cmake --preset nosuch", \
                "sbatch samples/captions.sbatch --oot x", "kubectl apply -k packaging/kubernetes/nosuch":
            with self.assertRaises(AssertionError, msg=command):
                self.read(command)


class Pasted(Case):
    def setUp(self):
        super().setUp()
        for name in OF_THE_TREE:  # nothing that a reader has put beside them
            os.symlink(os.path.join(ROOT, name), self.path(name))
        shutil.copytree("docs", self.path("docs"))  # commands draw its pictures
        for folder in "build", "bin", "photos", "MODEL", "data", "subtitle", "elsewhere":
            os.mkdir(self.path(folder))
        os.symlink(os.path.dirname(SACCADE), self.path("build/release"))
        os.symlink(SACCADE, self.path("bin/saccade"))
        os.symlink(sys.executable, self.path("bin/python3"))
        for name in os.listdir("models/demo"):
            if name != "duo.safetensors":  # calibrate writes it
                os.symlink(os.path.abspath(f"models/demo/{name}"), self.path("MODEL", name))
        for name, source in ("cat.jpg", "picture0001.jpg"), ("cat.png", "picture0000.png"), ("before.png", "picture0000.png"), \
                ("after.png", "picture0003.png"), ("clip.mp4", "video0000_16.mp4"), ("run.yaml", "run.yaml"), \
                ("more.png", "picture0003.png"), ("photos/2024-05.jpg", "picture0001.jpg"), ("photos/a.png", "picture0000.png"), ("photos/b.jpg", "picture0001.jpg"):
            os.symlink(os.path.abspath("samples/" + source), self.path(name))
        self.write("question.txt", "What is this?\n")
        self.write("items.jsonl", '{"image": "photos/a.png", "image_id": 1}\n{"image": "photos/b.jpg", "image_id": 2}\n')
        body = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}], "max_tokens": 4}
        self.write("requests.jsonl", json.dumps({"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": body}) + "\n")
        videos = json.loads(text_of("samples/drawn/set.json"))[:1]
        self.write("videomme.json", json.dumps(videos))
        for video in videos:
            os.symlink(os.path.abspath(f"samples/drawn/{video['videoID']}.mp4"), self.path("data", video["videoID"] + ".mp4"))
            self.write(f"subtitle/{video['videoID']}.srt", "1\n00:00:00,000 --> 00:00:01,000\nHello.\n\n")
        for name in "video0000_16.mp4", "video0001_64.mp4", "video0002_256.mp4":
            for folder in "", "data":
                os.symlink(os.path.abspath("samples/" + name), self.path(folder, name))
        os.symlink(os.path.abspath("samples/calibration.json"), self.path("questions.json"))
        self.write("prompts.jsonl", '{"image": "photos/a.png", "prompt": "What is this?"}\n{"text": "A circle is red."}\n')
        self.write("table.csv", "name,photo\na,photos/a.png\nb,photos/b.jpg\n")
        self.write("methods.yaml", blocks("docs/command.md", ("yaml",))[0])
        self.write("serve.yaml", "serve: {slots: 2}\n")
        for shard in range(2):
            with tarfile.open(self.path(f"cc3m-{shard:05}.tar"), "w") as tar:
                for i in range(2):
                    tar.add("samples/picture0000.png", f"{shard}{i}.png")

        pasted_files.checkpoints(self.folder)
        self.has_arrow = True

    def path(self, *names):
        return super().path(os.path.join(*names))

    def write(self, name, content):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(content)

    def environment(self):
        return {**os.environ, "PATH": self.path("bin") + ":" + os.environ["PATH"], "SACCADE_MODEL": os.path.join(ROOT, "models/demo")}

    def paste(self, command):
        for pattern, instead in SHORTER:
            command = re.sub(pattern, instead, command)
        if command.startswith(pasted_files.NEEDS_ARROW):
            if not self.has_arrow:
                return print("pyarrow is not in build/venv: not run: " + command)
            command = re.sub(r"^tools/", f'"{pasted_files.VENV}" -B tools/', command)
        words = shlex.split(command, comments=True)
        if words[1:2] == ["serve"]:
            with self.server(words) as url:
                return url
        if words[1:2] == ["ask"] and not any(" " in word or word == "-" for word in words[2:]):
            return self.chat(words)
        if words[0] == "saccade-parquet" or (words[1:2] == ["caption"] and "merge" not in words):  # lines of a block show one thing each, in the same folder
            shutil.rmtree(self.path(words[words.index("--out") + 1]), ignore_errors=True)
        run = subprocess.run(["bash", "-euo", "pipefail", "-c", command], text=True, cwd=self.folder, timeout=TIMEOUT_S, env=self.environment(),
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(run.returncode, 0, f"{command}\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
        return run.stdout

    def chat(self, words):
        chat = Terminal(*words[1:2], "-m", "models/demo", environment={"HOME": self.folder})
        chat.wait_for("> ")
        chat.type("/quit\r")
        self.assertEqual(chat.exit_code(), 0, chat.seen)

    @contextlib.contextmanager
    def server(self, words):
        """The server as the page starts it, on a free port of this machine and with folders of the test; its address."""
        for option, value in ("--port", "0"), ("--host", "127.0.0.1"), ("--media-root", "data"), ("--upload-dir", "uploads"):
            if option in words:
                words[words.index(option) + 1] = value
        if "--port" not in words:
            words += ["--port", "0"]
        os.makedirs(self.path("uploads"), exist_ok=True)
        server = subprocess.Popen([SACCADE, *words[1:]], cwd=self.folder, env=self.environment(), text=True, stderr=subprocess.PIPE)
        try:
            lines = []
            for line in server.stderr:
                lines.append(line)
                if "listening on" in line:
                    break
            self.assertTrue(lines and "listening on" in lines[-1], "".join(lines))
            url = re.search(r"http://\S+:\d+", lines[-1]).group(0).replace("0.0.0.0", "127.0.0.1")
            self.assert_healthy(url)
            yield url
        finally:
            server.terminate()
            server.wait(TIMEOUT_S)
            server.stderr.close()

    def assert_healthy(self, url):
        for _ in range(600):
            try:
                with urllib.request.urlopen(url + "/health", timeout=60):
                    return
            except urllib.error.HTTPError as e:
                self.assertEqual(e.code, 503)  # not warm yet
                time.sleep(0.1)
        self.fail(url)

    def page(self, page):
        n = 0
        for block in blocks(page):
            for command in commands(block):
                if not reason(command):
                    with self.subTest(page=page, command=command):
                        self.paste(command)
                        n += 1
        return n

    def test_readme(self):
        self.assertGreaterEqual(self.page("README.md"), 5)

    def test_batch(self):
        self.has_arrow = pasted_files.tables(self.folder)
        pasted_files.link(self.folder, "DIR", "models/demo")
        self.assertGreaterEqual(self.page("docs/batch.md"), 5)

    def test_schedulers(self):
        """The files for Slurm and Kubernetes do their parts of a job, started as the scheduler would."""
        page = text_of("docs/batch.md")
        script = re.search(r"^```bash\n(#!.*?)^```", page, re.M | re.S).group(1)
        self.assertEqual(script.splitlines(), [l for l in text_of("samples/captions.sbatch").splitlines() if not re.match("# ", l)
                                               and not l.startswith("#   ")])
        for part in range(2):
            subprocess.run(["bash", "samples/captions.sbatch", "photos", "--out", "slurm"], check=True, cwd=self.folder, stdout=subprocess.DEVNULL,
                           env={**self.environment(), "SLURM_ARRAY_TASK_ID": str(part), "SLURM_ARRAY_TASK_COUNT": "2",
                                "SLURM_ARRAY_TASK_MIN": "0", "SLURM_ARRAY_TASK_MAX": "1"})
        self.paste("saccade caption merge slurm")
        manifest, = blocks("docs/batch.md", ("yaml",))
        for packages in glob.glob("build/venv/lib/python*/site-packages"):
            site.addsitedir(packages)
        try:
            import kubernetes_validate
            import yaml
        except ImportError:
            self.skipTest("needs kubernetes-validate in build/venv")
        job = yaml.safe_load(manifest)
        kubernetes_validate.validate(job, "1.32", strict=True)
        pod = job["spec"]["template"]["spec"]
        container, = pod["containers"]
        words = container["command"] + container["args"]
        self.assertEqual(words[words.index("--shards") + 1], str(job["spec"]["completions"]))
        self.assertEqual({m["name"] for m in container["volumeMounts"]}, {v["name"] for v in pod["volumes"]})
        places = {m["mountPath"] for m in container["volumeMounts"]}
        self.assertEqual({"/" + w.split("/")[1] for w in words if w.startswith("/")}, places)
        words = ["models/demo" if w.startswith("/models/") else w.replace("/data/", "") for w in words]
        words[words.index("--shards") + 1] = "2"
        for part in range(2):
            subprocess.run(words, check=True, cwd=self.folder, stdout=subprocess.DEVNULL, env={**self.environment(), "JOB_COMPLETION_INDEX": str(part)})
        self.paste("saccade caption merge captions")
        with open(self.path("captions/captions.jsonl"), encoding="utf-8") as f:
            self.assertEqual(len(f.readlines()), 2)

    def test_command(self):
        pair = os.path.join("tests/golden/models", "llava")
        subprocess.run([sys.executable, "-B", "tools/make_gguf_pair.py", pair, self.path("pair")], check=True)
        for name, half in ("Qwen2.5-VL-3B-Instruct-Q4_K_M.gguf", "model"), ("model.gguf", "model"), ("mmproj.gguf", "mmproj"), \
                ("elsewhere/mmproj-f16.gguf", "mmproj"):
            os.symlink(self.path("pair", half + ".gguf"), self.path(name))
        self.paste("saccade quantize MODEL model-f16.gguf --format f16")
        pasted_files.benchmarks(self.folder)
        pasted_files.needles(self.folder)
        pasted_files.papers(self.folder)
        self.assertGreaterEqual(self.page("docs/command.md"), 30)

    def test_scoreboard(self):
        self.assertGreaterEqual(self.page("docs/scoreboard.md"), 4)

    def test_other_pages(self):
        done = {"README.md", "docs/batch.md", "docs/command.md", "docs/scoreboard.md", "docs/server.md", *ELSEWHERE}
        self.has_arrow = pasted_files.tables(self.folder)
        pasted_files.benchmarks(self.folder)
        for page in set(PAGES) - done:
            self.page(page)

    def test_server(self):
        """The server's page: what starts one, what asks it, and the program beside them."""
        page = "docs/server.md"
        started, asked, *others = [c for block in blocks(page) for c in commands(block)]
        for command in others:
            if not reason(command):
                self.paste(command)
        shutil.copy("samples/video0000_16.mp4", self.path("data/clip.mp4"))  # a link would lead out of the root
        with self.server(shlex.split(started)) as url:
            program = blocks(page, ("python",))[0]
            for written, here in ("http://127.0.0.1:8000", url), ("/data/videos", self.path("data")):
                self.assertIn(written, program)
                program = program.replace(written, here)
            python = os.path.join(ROOT, "build/venv/bin/python")
            if os.path.exists(python) and not subprocess.run([python, "-c", "import openai"], stderr=subprocess.DEVNULL).returncode:
                first, call = program.split("\n", 1)
                run = subprocess.run([python, "-c", f"import openai\n{first}\nprint({call.rstrip()}.choices[0].finish_reason)"], text=True,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT_S)
                self.assertEqual((run.stdout, run.returncode), ("stop\n", 0), run.stderr)
        self.assertTrue(asked.startswith("curl localhost:8000/v1/chat/completions "), asked)
        with self.server(["saccade", "serve", "--ctx", "4096"]) as url:
            answer = self.paste(asked.replace("localhost:8000", url.split("//")[1]).replace("curl ", "curl -sf ", 1))
            self.assertEqual(json.loads(answer)["choices"][0]["finish_reason"], "stop")


if __name__ == "__main__":
    main()
