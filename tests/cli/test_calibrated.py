"""saccade quantize --calibrate: prompts as lines, what is told, what an interrupted run leaves, and what is refused."""
import fcntl
import glob
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import time

from cli import SACCADE, Case, main, sample, saccade

DEMO = os.path.join("models", "demo")
MODELS = os.path.join("tests", "golden", "models")
TEXTS = ["The quick brown fox jumps over the lazy dog.", "Seven of these boxes are red and two are blue, he said.",
         "Nothing is at the place that was named until all of it is there.", "0 1 1 2 3 5 8 13 21 34 55 89"]


def files_of(folder):
    out = {}
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as f:
            out[name] = f.read()
    return out


class Calibrated(Case):
    def lines(self, *lines, name="prompts.jsonl"):
        path = self.path(name)
        with open(path, "w", encoding="utf-8") as f:
            f.write("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
        return path

    def quantize(self, *words, code=0):
        run = saccade("quantize", *words, "--threads", "1")
        self.assertEqual(run.returncode, code, run.stderr)
        if code:
            self.assertEqual(run.stdout, "")
            self.assertEqual(len(run.stderr.strip().split("\n")), 1, run.stderr)
        return run

    def test_pictures_and_texts(self):
        """Sizes are told and kept, matrices err less, the rest of the folder is as without prompts."""
        row = sample(video=False)
        prompts = self.lines({"image": os.path.abspath(row["file"]), "prompt": row["question"], "answer": row["answer"]},
                             {"prompt": "What is it?"}, "", {"text": TEXTS[0]}, *TEXTS[1:])
        out, plain = self.path("out"), self.path("plain")
        told = json.loads(self.quantize(DEMO, out, "--format", "w4a16", "--calibrate", prompts, "--json").stdout)
        self.quantize(DEMO, plain, "--format", "w4a16", "-q")
        self.assertEqual(told["bytes"], sum(os.path.getsize(p) for p in glob.glob(out + "/*")))
        self.assertEqual((told["calibration"]["prompts"], told["calibration"]["unseen"]), (6, 0))
        self.assertEqual(told["calibration"]["matrices"], told["rounded"])
        self.assertLess(told["calibration"]["error"], 0.7)
        a, b = files_of(out), files_of(plain)
        self.assertEqual(sorted(a), sorted(b))
        self.assertEqual([n for n in a if a[n] != b[n]], [n for n in a if n.endswith(".safetensors") and n.startswith("model-")])
        run = saccade("ask", "-m", out, "--image", row["file"], row["question"], "-q", "-t", "1")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("calibrated by 2 prompts, ",
                      self.quantize(DEMO, self.path("few"), "--format", "w4a16:g=64", "--calibrate", prompts, "--limit", "2").stdout)

    def test_families_and_formats(self):
        """Norms of heads, fused matrices, experts, linear attention: every matrix is found where the model reads it, but for those of
        latents, of which it reads copies, and experts that no row chose."""
        texts = self.lines(*TEXTS, name="texts.txt")
        for name, scheme, unseen in (("llama_f32", "int8", 0), ("glm4", "fp8", 0), ("qwen3_5", "w8a16:g=8", 0), ("deepseek_v3", "int8", 6),
                                     ("mixtral", "fp8", 0), ("phi3", "w4a16:g=8", 0), ("gemma3", "int8", 0)):
            folder, out = os.path.join(MODELS, name), self.path(name)
            told = json.loads(self.quantize(folder, out, "--format", scheme, "--calibrate", texts, "--json").stdout)["calibration"]
            self.assertLess(told["error"], 0.95, name)
            self.assertEqual(told["unseen"], unseen, (name, told["first_unseen"]))
            self.assertEqual(saccade("inspect", "-m", out).returncode, 0, name)

    def test_gguf_files_too(self):
        """From a folder and from a file the same matrices meet the same columns; the rest of the file stays as it is."""
        texts = self.lines(*TEXTS, name="texts.txt")
        folder = os.path.join(MODELS, "qwen3_vl")
        told = json.loads(self.quantize(folder, self.path("a.gguf"), "--format", "q4_0", "--calibrate", texts, "--json").stdout)
        self.quantize(folder, self.path("plain.gguf"), "--format", "q4_0", "-q")
        self.assertEqual((told["calibration"]["matrices"], told["calibration"]["unseen"], told["calibration"]["error"]), (18, 0, None))
        a, plain = files_of(os.path.dirname(self.path("a.gguf")))["a.gguf"], files_of(os.path.dirname(self.path("a.gguf")))["plain.gguf"]
        self.assertEqual(len(a), len(plain))
        self.assertNotEqual(a, plain)
        self.quantize(folder, self.path("f32.gguf"), "--format", "bf16", "-q")
        self.quantize(self.path("f32.gguf"), self.path("b.gguf"), "--format", "q4_0", "--calibrate", texts, "-q")
        self.assertEqual(saccade("inspect", "-m", self.path("b.gguf")).returncode, 0)

    def test_what_no_row_meets_is_named(self):
        prompts = self.lines({"text": "a"})
        run = self.quantize(os.path.join(MODELS, "qwen3_moe"), self.path("out"), "--format", "int8", "--calibrate", prompts)
        self.assertRegex(run.stdout, r"rounded to nearest: \d+ matrices that no row of the prompts met, or of which .*, the first is .*experts")

    def test_copies_of_all_matrices(self):
        """Tensors that lie at no aligned place are read from copies: nothing can be calibrated, which is no success."""
        folder, out = self.path("odd"), self.path("out")
        shutil.copytree(os.path.join(MODELS, "qwen3_vl"), folder)
        for name in glob.glob(folder + "/*.safetensors"):
            with open(name, "rb") as f:
                data = f.read()
            n = struct.unpack("<Q", data[:8])[0]
            with open(name, "wb") as f:
                f.write(struct.pack("<Q", n + 1) + data[8:8 + n] + b" " + data[8 + n:])
        texts = self.lines(*TEXTS, name="texts.txt")
        for target, scheme in ((out, "int8"), (out, "int8"), (out + ".gguf", "q8_0"), (out + ".gguf", "q4_0")):
            says = "leave --calibrate out" if scheme == "q8_0" else "no matrix is read where the files have it"
            self.assertIn(says, self.quantize(folder, target, "--format", scheme, "--calibrate", texts, "-q", code=69).stderr)
            self.assertFalse(os.path.exists(target))
        run = self.quantize(os.path.join(MODELS, "llama_f32"), out + ".gguf", "--format", "q4_0", "--calibrate", texts, "-q", code=69)
        self.assertIn("rows of whole blocks", run.stderr)

    def test_lines_as_they_stand(self):
        """A line's end is none of its text, whichever system wrote it; blanks before it are."""
        def rows(text):
            with open(self.path("prompts.txt"), "w", encoding="utf-8", newline="") as f:
                f.write(text)
            out = self.path("out" + str(len(os.listdir(os.path.dirname(self.path("out"))))))
            run = self.quantize(os.path.join(MODELS, "llama_f32"), out, "--format", "int8", "--calibrate", self.path("prompts.txt"), "--json")
            return json.loads(run.stdout)["calibration"]["rows"]
        self.assertEqual(rows("a b\r\n\r\n \r\nc d\r\n"), rows("a b\n\n \nc d\n"))
        self.assertEqual(rows("a b\r\nc d"), rows("a b\nc d"))
        self.assertGreater(rows("\ta b\n"), rows("a b\n"))
        self.assertEqual(rows('  {"text": "a b"}\r\n'), rows("a b\n"))

    def test_a_killed_run_goes_on(self):
        """With the layer that it was at; with other prompts it does not."""
        prompts = self.lines(*(" ".join(TEXTS) + " " + t for t in TEXTS))
        command = ["quantize", DEMO, self.path("out"), "--format", "w4a16", "--calibrate", prompts, "--threads", "1"]
        run = subprocess.Popen([SACCADE, *command, "-q"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        part = self.path("out") + ".part"
        end = time.monotonic() + 120
        while time.monotonic() < end and len(glob.glob(part + "/calibrated-*.safetensors")) < 2 and run.poll() is None:
            time.sleep(0.002)
        run.send_signal(signal.SIGKILL)
        run.wait()
        self.assertTrue(os.path.exists(part))
        other = self.lines(*TEXTS, name="other.txt")
        self.assertIn("is left of a run with another", self.quantize(*command[1:6], other, code=64).stderr)
        told = json.loads(self.quantize(*command[1:], "--json").stdout)
        self.assertLess(told["calibration"]["matrices"], told["rounded"])
        whole = self.path("whole")
        self.quantize(DEMO, whole, "--format", "w4a16", "--calibrate", prompts)
        self.assertEqual(files_of(self.path("out")), files_of(whole))
        self.assertFalse(os.path.exists(part))

    def refused_before_prompts(self, out):
        """Which are not so much as read."""
        with open(out + ".gguf.part", "wb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            for words, code, says in (((DEMO, out, "--format", "w5"), 64, "w5"), ((DEMO, out + ".gguf", "--format", "w4a16"), 64, "folder"),
                                      ((DEMO, "tests", "--format", "w4a16"), 64, "there already"),
                                      ((self.path("none"), out, "--format", "w4a16"), 66, "none"),
                                      ((DEMO, out + ".gguf", "--format", "q4_0"), 74, "another run writes")):
                self.assertIn(says, self.quantize(*words, "--calibrate", self.path("no-list"), code=code).stderr)
        os.unlink(out + ".gguf.part")

    def test_refusals(self):
        out = self.path("out")
        for line, says in (({"image": "none.png", "prompt": "x"}, "none.png"), ({"image": 3}, "a file's name"), ({"text": "a", "prompt": "b"}, "alone"),
                           ("{oops", "is no JSON"), ({}, 'expected "image"'),
                           ({"text": "a", "image": "none.gif"}, "alone"), ({"messages": []}, "not known here: messages"),
                           ({"prompt": "a", "images": ["x.png"]}, "not known here: images"),
                           ({"prompt": 1}, "expected a text in prompt")):
            run = self.quantize(DEMO, out, "--format", "w4a16", "--calibrate", self.lines("first", line), code=66 if says == "none.png" else 65)
            self.assertRegex(run.stderr, r"prompts\.jsonl:2: .*" + re.escape(says))
        self.assertIn("no line", self.quantize(DEMO, out, "--format", "w4a16", "--calibrate", self.lines(""), code=65).stderr)
        self.assertIn("such", self.quantize(DEMO, out, "--format", "w4a16", "--calibrate", self.path("none"), code=66).stderr)
        self.assertIn("leave --calibrate out",
                      self.quantize(DEMO, out + ".gguf", "--format", "q8_0", "--calibrate", self.lines("x"), code=69).stderr)
        for option in (("--chat", "chatml"), ("--ctx", "64"), ("--num-frames", "4"), ("--limit", "2")):
            self.assertIn(option[0] + " is of the prompts of --calibrate", self.quantize(DEMO, out, "--format", "w4a16", *option, code=64).stderr)
        self.assertIn("at most 4096", " ".join(saccade("quantize", "--help").stdout.split()))
        self.refused_before_prompts(out)
        long = self.lines(" ".join(TEXTS * 9))
        self.assertRegex(self.quantize(DEMO, out, "--format", "w4a16", "--calibrate", long, "--ctx", "64", code=65).stderr,
                         r"prompts\.jsonl:1: .*64")
        self.assertFalse(os.path.exists(out) or os.path.exists(out + ".part"))


if __name__ == "__main__":
    main()
