"""saccade quantize, and --weights: what is written answers as rounding at load does, however often it was killed; and what is refused."""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import time

from cli import SACCADE, Case, main, saccade, sample

DEMO = os.path.join("models", "demo")
MODELS = os.path.join("tests", "golden", "models")


def size_of(path):
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(d, n)) for d, _, names in os.walk(path) for n in names)


def is_at_work(part):
    """Something is in it, so it is locked."""
    return bool(os.listdir(part)) if os.path.isdir(part) else os.path.exists(part) and os.path.getsize(part) > 0


def marked(state):
    """Bytes that a run has put on the disk for good."""
    try:
        with open(state, encoding="utf-8") as f:
            return int(f.read().split()[1])
    except (OSError, IndexError):
        return 0


class Quantize(Case):
    def quantize(self, *words, code=0):
        run = saccade("quantize", *words, "--threads", "1")
        self.assertEqual(run.returncode, code, run.stderr)
        if code:
            self.assertEqual(run.stdout, "")
            self.assertEqual(len(run.stderr.strip().split("\n")), 1, run.stderr)
        return run

    def answer(self, model, *words):
        run = saccade("ask", "-m", model, *words, "--json", "--threads", "1")
        self.assertEqual(run.returncode, 0, run.stderr)
        return json.loads(run.stdout)

    def test_a_folder_sees_and_answers_as_rounding_at_load_does(self):
        row = sample(video=False)
        for name in "w4a16", "fp8", "int8":
            out = self.path(name)
            run = self.quantize(DEMO, out, "--format", name)
            self.assertEqual(int(re.search(r"(\d+) bytes", run.stdout)[1]), size_of(out))
            written = self.answer(out, "--image", row["file"], row["question"])
            rounded = self.answer(DEMO, "--weights", name, "--image", row["file"], row["question"])
            self.assertEqual(written["text"], rounded["text"])
            self.assertEqual(rounded["model"]["weights"], name)
            for file in "tokenizer.json", "tokenizer_config.json", "preprocessor_config.json", "chat_template.jinja":
                with open(os.path.join(DEMO, file), "rb") as a, open(os.path.join(out, file), "rb") as b:
                    self.assertEqual(a.read(), b.read())

    def test_what_is_packed_is_not_ignored(self):
        """Libraries take each pattern of the list for what it says, whatever names are around a layer."""
        for name in "smolvlm", "idefics3", "llava", "qwen2_5_vl":
            out = self.path(name)
            self.quantize(os.path.join(MODELS, name), out, "--format", "w4a16:g=16" if name != "llava" else "w4a16:g=8")
            with open(os.path.join(out, "config.json"), encoding="utf-8") as f:
                ignored = json.load(f)["quantization_config"]["ignore"]
            modules, packed = set(), set()
            for file in glob.glob(os.path.join(out, "*.safetensors")):
                with open(file, "rb") as f:
                    tensors = json.loads(f.read(int.from_bytes(f.read(8), "little")))
                packed |= {n.removesuffix(".weight_packed") for n in tensors if n.endswith(".weight_packed")}
                modules |= {n.removesuffix(".weight") for n in tensors if re.search(r"layers\..*proj\.weight$", n)}
            is_ignored = lambda m: any(re.match(p[3:], m) if p.startswith("re:") else p == m for p in ignored)
            self.assertTrue(packed, name)
            self.assertEqual([m for m in packed if is_ignored(m)], [], name)
            self.assertEqual([m for m in modules if not is_ignored(m)], [], name)

    def perplexity(self, text, model, *words, samples="2"):
        run = saccade("eval", "-m", model, "--text", text, "--length", "48", "--samples", samples, "--tail", "20", "--json", "-t", "1", *words)
        self.assertEqual(run.returncode, 0, run.stderr)
        return float(re.search(r'"perplexity": ([\d.]+)', run.stdout)[1])

    def test_gguf_files_compute_what_their_folders_do(self):
        """Rope's scalings, biases, norms of heads, numbers on three axes, a begin token: the metadata says them all."""
        text = self.path("text.txt")
        with open("LICENSE", encoding="utf-8") as f, open(text, "w", encoding="utf-8") as out:
            out.write(f.read(3000))
        for name in "llama_f32", "llama_llama3", "llama_yarn", "llama_linear", "mistral", "qwen2", "qwen3", "qwen2_vl", "qwen3_vl":
            folder, out = os.path.join(MODELS, name), self.path(name + ".gguf")
            self.quantize(folder, out, "--format", "f16")
            want, got = self.perplexity(text, folder, "--weights", "f16"), self.perplexity(text, out)
            # llama's files have queries and keys in another order, so sums differ in their last bits
            near = 2e-4 if name.startswith("llama") or name == "mistral" else 0
            self.assertLessEqual(abs(want - got), near * want, name)

    def test_matrices_of_one_tensor_are_rounded_with_it(self):
        """GLM-4's gate and up: rounded once, in the layout of either, and each reads its rows with their scales."""
        text = self.path("text.txt")
        with open("LICENSE", encoding="utf-8") as f, open(text, "w", encoding="utf-8") as out:
            out.write(f.read(3000))
        folder = os.path.join(MODELS, "glm4")
        plain = self.perplexity(text, folder, samples="12")
        for name, near in ("int8", 0.05), ("fp8", 0.1), ("w8a16:g=8", 0.05), ("w4a16:g=8", 0.5):
            out = self.path("glm4-" + name.partition(":")[0])
            self.quantize(folder, out, "--format", name)
            want, got = self.perplexity(text, folder, "--weights", name, samples="12"), self.perplexity(text, out, samples="12")
            self.assertEqual(want, got, name)
            self.assertNotEqual(got, plain, name)
            self.assertLess(abs(got / plain - 1), near, name)

    def test_a_killed_run_goes_on(self):
        out = self.path("model")
        command = [SACCADE, "quantize", DEMO, out, "--format", "fp8", "--threads", "1", "-q"]
        for _ in range(3):
            run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            end = time.monotonic() + 60
            while time.monotonic() < end and not os.path.exists(out + ".part") and run.poll() is None:
                time.sleep(0.001)
            time.sleep(0.1)
            run.send_signal(signal.SIGKILL)
            run.wait()
            if os.path.exists(out):
                break
        self.quantize(DEMO, out, "--format", "fp8") if not os.path.exists(out) else None
        other = self.path("other")
        self.quantize(DEMO, other, "--format", "fp8")
        self.assertFalse(os.path.exists(out + ".part"))
        self.assertEqual(sorted(os.listdir(out)), sorted(os.listdir(other)))
        for file in os.listdir(other):
            with open(os.path.join(out, file), "rb") as a, open(os.path.join(other, file), "rb") as b:
                self.assertEqual(a.read(), b.read(), file)

    def test_a_killed_file_goes_on(self):
        """Again and again, each time a little further; other formats are told what is there."""
        out, whole = self.path("model.gguf"), self.path("whole.gguf")
        state, done = out + ".part.state", 0
        for _ in range(4):
            run = subprocess.Popen([SACCADE, "quantize", DEMO, out, "--format", "q5_k_m", "--threads", "1", "-q"])
            end = time.monotonic() + 60
            while time.monotonic() < end and marked(state) <= done and run.poll() is None:
                time.sleep(0.001)
            run.send_signal(signal.SIGKILL)
            run.wait()
            if os.path.exists(out):
                break
            self.assertGreater(marked(state), done)
            done = marked(state)
            self.assertIn("is left of a run with another", self.quantize(DEMO, out, "--format", "q4_k_m", code=64).stderr)
        if not os.path.exists(out):
            told = json.loads(self.quantize(DEMO, out, "--format", "q5_k_m", "--json").stdout)
            self.assertEqual(told["bytes_taken_up"], done)
        self.quantize(DEMO, whole, "--format", "q5_k_m")
        with open(out, "rb") as a, open(whole, "rb") as b:
            self.assertEqual(a.read(), b.read())
        self.assertFalse(os.path.exists(out + ".part") or os.path.exists(state))

    def test_ctrl_c_says_what_is_kept(self):
        for name, scheme, advice in ("model", "fp8", "; run again to go on"), ("model.gguf", "q8_0", "; run again to go on"):
            run = subprocess.Popen([SACCADE, "quantize", DEMO, self.path(name), "--format", scheme, "--threads", "1"], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
            self.assertIn(scheme, run.stdout.readline())  # the plan
            run.send_signal(signal.SIGINT)
            self.assertEqual((run.communicate()[1], run.returncode), (f"saccade: cancelled{advice}\n", 130))
            self.assertFalse(os.path.exists(self.path(name)))

    def test_a_second_run_keeps_off(self):
        """The first is stopped while it writes; the second says so and leaves all as it is, and the first ends well."""
        for name, scheme in ("model.gguf", "q8_0"), ("model", "fp8"):
            out = self.path(name)
            first = subprocess.Popen([SACCADE, "quantize", DEMO, out, "--format", scheme, "--threads", "1", "-q"])
            try:
                end = time.monotonic() + 60
                while time.monotonic() < end and not is_at_work(out + ".part") and first.poll() is None:
                    time.sleep(0.0005)
                first.send_signal(signal.SIGSTOP)
                self.assertTrue(os.path.exists(out + ".part"))
                second = self.quantize(DEMO, out, "--format", scheme, "--quiet", code=74)
                self.assertIn(f"another run writes {out}.part", second.stderr)
                self.assertTrue(os.path.exists(out + ".part"))
            finally:
                first.send_signal(signal.SIGCONT)
                self.assertEqual(first.wait(), 0)
            self.assertFalse(os.path.exists(out + ".part"))
            self.quantize(DEMO, self.path("other-" + name), "--format", scheme)
            self.assertEqual(subprocess.run(["diff", "-r", out, self.path("other-" + name)], check=False).returncode, 0)

    def test_json_and_quiet(self):
        told = json.loads(self.quantize(DEMO, self.path("a.gguf"), "-f", "q4_k_m", "--json").stdout)
        self.assertEqual(told["bytes"], size_of(self.path("a.gguf")))
        self.assertEqual((told["rounded"], told["left"], told["without_vision"]), (64, 0, True))
        self.assertEqual(self.quantize(DEMO, self.path("b.gguf"), "-f", "q8_0", "--quiet").stdout, "")

    def test_what_rounding_at_load_leaves_is_told(self):
        run = saccade("inspect", "-m", os.path.join(MODELS, "smolvlm"), "--weights", "w4a16:g=16", "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stderr, r"--weights w4a16:g=16: \d+ matrices stay as they are.*down_proj")
        self.assertIn('"weights_left"', run.stdout)
        run = saccade("ask", "-m", os.path.join(MODELS, "smolvlm"), "--weights", "w4a16", "x")
        self.assertEqual(run.returncode, 69)
        self.assertRegex(run.stderr, r"rows of 32 elements .* group of 128; give a smaller one, w4a16:g=N")

    def test_refusals(self):
        out = self.path("out")
        for words, code, says in (
                ((DEMO, out), 64, "--format is missing"), ((DEMO, "--format", "fp8"), 64, "are expected"),
                ((DEMO, out, "--format", "q4"), 64, "not known"), ((DEMO, out, "--format", "q4_0"), 64, ".gguf"),
                ((DEMO, out + ".gguf", "--format", "w4a16"), 64, "folder"), (("no/such/one/there", out, "--format", "fp8"), 66, "no such"),
                ((DEMO, DEMO, "--format", "fp8"), 64, "there already"),
                ((os.path.join(MODELS, "packed_ct_w4"), out, "--format", "fp8"), 69, "quantised already"),
                ((os.path.join(MODELS, "qwen3_moe"), out + ".gguf", "--format", "q8_0"), 69, "6 experts a layer"),
                ((os.path.join(MODELS, "smollm3"), out + ".gguf", "--format", "q8_0"), 69, "every fourth layer without rope"),
                ((DEMO, os.path.join(out, "none", "there.gguf"), "--format", "q8_0"), 74, "cannot be written"),
                ((os.path.join(MODELS, "llama_dynamic"), out + ".gguf", "--format", "q8_0"), 69, "rope_scaling")):
            self.assertIn(says, self.quantize(*words, code=code).stderr)
        run = saccade("ask", "-m", os.path.join(MODELS, "packed_ct_w4"), "--weights", "q8_0", "x")
        self.assertEqual(run.returncode, 69)
        self.assertIn("quantised already", run.stderr)
        source = self.path("source")
        shutil.copytree(DEMO, source)
        os.remove(os.path.join(source, "model-00002-of-00003.safetensors"))
        self.assertIn("model-00002", self.quantize(source, out, "--format", "fp8", code=66).stderr)
        self.assertFalse(os.path.exists(out) or os.path.exists(out + ".part"))


if __name__ == "__main__":
    main()
