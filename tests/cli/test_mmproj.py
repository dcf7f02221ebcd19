"""saccade --mmproj: GGUF models with their vision half beside them, as a user meets them."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

from cli import ROOT, Case, main, saccade

PICTURE = "tests/golden/models/wide.png"
FRAMES = ["tests/golden/models/frame0.png", "tests/golden/models/frame1.png"]


class Mmproj(Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        for name in ("llava", "qwen2_5_vl", "internvl", "smolvlm", "qwen3_vl"):
            subprocess.run([sys.executable, "-B", os.path.join(ROOT, "tools/make_gguf_pair.py"),
                            os.path.join(ROOT, "tests/golden/models", name), cls.path(name)], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.folder.name, *names)

    def answer(self, *arguments):
        run = saccade("ask", *arguments, "--json", "-n", "12", "--temperature", "0", "--kv", "f32", "What is it?")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        return json.loads(run.stdout)

    def test_answers_are_those_of_the_folder(self):
        frames = self.path("frames.txt")
        with open(frames, "w", encoding="utf-8") as f:
            f.writelines(f"{os.path.abspath(name)} {i}\n" for i, name in enumerate(FRAMES))
        for name in ("llava", "qwen2_5_vl", "internvl", "smolvlm", "qwen3_vl"):
            for media in (["--image", PICTURE], ["--frames", frames]):
                with self.subTest(name=name, media=media):
                    pair, twin = (self.answer("-m", self.path(name, m), *media) for m in ("model.gguf", "twin"))
                    self.assertEqual(pair["text"], twin["text"])
                    self.assertEqual(pair["model"]["family"], twin["model"]["family"])
                    self.assertEqual(pair["model"]["mmproj"]["path"], self.path(name, "mmproj.gguf"))
                    self.assertRegex(pair["model"]["mmproj"]["fingerprint"], r"\A[0-9a-f]{16}\Z")
                    self.assertNotIn("mmproj", twin["model"])

    def test_inspect_shows_both_halves(self):
        run = saccade("inspect", self.path("qwen2_5_vl", "model.gguf"), "--keys", "--tensors")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        lines = [line.split() for line in run.stdout.split("\n")]
        self.assertIn(["vision", "half", self.path("qwen2_5_vl", "mmproj.gguf")], lines)
        uses = {words[-2 if words[-1] != "effect" else -3]: words[-1] for words in lines if words[:2] == ["GGUF", "(mmproj)"]}
        self.assertEqual({uses[k] for k in ("clip.vision.n_wa_pattern", "clip.vision.window_size", "clip.vision.image_mean",
                                            "clip.use_silu", "clip.vision.image_max_pixels")}, {"honoured"})
        self.assertEqual(uses["clip.vision.image_size"], "effect")
        self.assertNotIn("unknown", uses.values())
        names = {words[0] for words in lines if words}
        self.assertLessEqual({"v.patch_embd.weight", "mm.2.weight", "blk.0.attn_q.weight"}, names)
        whole, alone = (json.loads(saccade("inspect", self.path("qwen2_5_vl", "model.gguf"), "--json", *more).stdout)
                        for more in ([], ["--mmproj", "none"]))
        self.assertGreater(whole["model"]["weight_bytes"], alone["model"]["weight_bytes"] + 50000)
        self.assertGreater(whole["model"]["parameters"], alone["model"]["parameters"])

    def test_no_key_is_unknown(self):
        for name in ("llava", "qwen2_5_vl", "internvl", "smolvlm", "qwen3_vl"):
            run = saccade("inspect", self.path(name, "model.gguf"), "--json")
            self.assertEqual((run.stderr, json.loads(run.stdout)["unknown_keys"]), ("", []), name)

    def test_the_language_model_alone(self):
        model = self.path("llava", "model.gguf")
        alone = self.answer("-m", model, "--mmproj", "none")
        self.assertEqual(alone["model"]["family"], "llama")
        self.assertNotIn("mmproj", alone["model"])
        run = saccade("ask", "-m", model, "--mmproj", "none", "--image", PICTURE, "What is it?")
        self.assertNotEqual(run.returncode, 0)
        self.assertEqual(run.stderr.count("\n"), 1)

    def test_one_of_several_must_be_named(self):
        with tempfile.TemporaryDirectory() as folder:
            model = shutil.copy(self.path("llava", "model.gguf"), folder)
            for name in ("mmproj-f16.gguf", "mmproj-f32.gguf"):
                shutil.copy(self.path("llava", "mmproj.gguf"), os.path.join(folder, name))
            self.assert_refused(saccade("ask", "-m", model, "x"), 64, "mmproj-f16.gguf, mmproj-f32.gguf", "--mmproj FILE")
            config = os.path.join(folder, "run.yaml")
            with open(config, "w", encoding="utf-8") as f:
                f.write(f"model: {model}\nmmproj: {folder}/mmproj-f16.gguf\n")
            used = self.answer("--config", config, "--image", PICTURE)["model"]["mmproj"]["path"]
            self.assertEqual(used, os.path.join(folder, "mmproj-f16.gguf"))
            os.chdir(folder)
            try:  # a name without a folder
                os.remove("mmproj-f16.gguf")
                self.assertEqual(self.answer("-m", "model.gguf")["model"]["mmproj"]["path"], "mmproj-f32.gguf")
            finally:
                os.chdir(ROOT)

    def test_what_does_not_fit_is_refused(self):
        llava = self.path("llava", "model.gguf")
        other = self.path("qwen2_5_vl", "mmproj.gguf")
        for arguments, status, words in [
            (["-m", llava, "--mmproj", other], 65, ["qwen2_5_vl", "stands on qwen2vl", "is llama"]),
            (["-m", llava, "--mmproj", llava], 65, ["not a vision half"]),
            (["-m", llava, "--mmproj", "/nonexistent"], 66, ["--mmproj /nonexistent: no such file"]),
            (["-m", "tests/golden/models/llava", "--mmproj", other], 64, ["is a folder"]),
            (["-m", other], 69, ["--mmproj"]),
        ]:
            with self.subTest(arguments=arguments):
                self.assert_refused(saccade("ask", *arguments, "x"), status, *words)


if __name__ == "__main__":
    main()
