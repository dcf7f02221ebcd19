"""saccade inspect, bench, help and --version."""
import json
import os
import re
import subprocess

from cli import Case, main, saccade, sample


class Help(Case):
    def test_every_command_has_help_with_examples(self):
        commands = "ask", "inspect", "bench", "eval", "compare", "caption", "serve", "calibrate", "quantize"
        for arguments in ["--help"], ["help"], ["ask", "-h"], *([c, "--help"] for c in commands), *(["help", c] for c in commands):
            with self.subTest(arguments):
                run = saccade(*arguments)
                self.assertEqual((run.returncode, run.stderr), (0, ""))
                self.assertIn("usage: saccade", run.stdout)
                self.assertIn("\nExamples:\n  saccade ", run.stdout)
                self.assertLessEqual(max(map(len, run.stdout.splitlines())), 80)

    def test_version(self):
        run = saccade("--version")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        first, *rest = run.stdout.splitlines()
        found = re.fullmatch(r"saccade \d+\.\d+\.\d+(?: \(commit ([0-9a-f]{12})(-changed)?\))?", first)
        self.assertTrue(found, first)
        if found[1]:  # git may be missing here, or the tree have moved on since the build
            self.assertEqual(subprocess.run(["git", "cat-file", "-t", found[1]], capture_output=True, text=True).stdout, "commit\n")
        about = dict(line.split(None, 1) for line in rest)
        self.assertLessEqual({"compiler", "cpu", "cuda", "ffmpeg", "pictures", "licence"}, set(about))
        self.assertRegex(about["compiler"], r"(gcc|clang) \d+\.")
        video = about["ffmpeg"].split(", ")
        self.assertEqual(about["licence"].split(":")[0],
                         "GPL-3.0-or-later" if video[-1].startswith("GPL") else "Apache-2.0")
        plain = saccade("--version", env={**os.environ, "SAC_VARIANT": "ref"}).stdout
        self.assertIn("\ncpu       plain-c\n", plain)

    def test_the_manual_names_every_option(self):
        with open("docs/command.md", encoding="utf-8") as f:
            manual = f.read()
        for command in "ask", "inspect", "bench":
            for option in re.findall(r"^.{6}(--[a-z-]+)", saccade(command, "--help").stdout, re.M):
                self.assertIn(f"`{option}", manual, command)


class Inspect(Case):
    def test_text(self):
        run = saccade("inspect")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        for needle in "family", "parameters", "chat format", "vision", "memory for a context of", "keys, values":
            self.assertIn(needle, run.stdout)

    def test_weights_of_several_types(self):
        mixed = r"q3_k, 64\.\d kB \(q3_k 71 %, .*\bq5_0 \d %.*\)"
        for model, line in (("gguf_llama_q3_k_m/q3_k_m.gguf", mixed), ("llama_f32", r"f32, \S+ kB")):
            run = saccade("inspect", "-m", "tests/golden/models/" + model)
            self.assertEqual((run.returncode, run.stderr), (0, ""))
            self.assertRegex(run.stdout, r"\nweights +" + line + r"\n")

    def test_json_and_the_plan_at_a_context(self):
        def plan(ctx, kv):
            run = saccade("inspect", "--json", "--tensors", "--ctx", ctx, "--kv", kv)
            self.assertEqual((run.returncode, run.stderr), (0, ""))
            return json.loads(run.stdout)
        small, large = plan(1024, "f16"), plan(2048, "f32")
        language, memory = small["language_model"], small["memory"]
        row = 2 * language["layers"] * language["kv_heads"] * language["head_dim"]  # keys and values of a token
        self.assertEqual(memory["kv_bytes_per_token"], 2 * row)
        self.assertEqual(large["memory"]["kv_bytes_per_token"], 4 * row)
        self.assertEqual((memory["ctx"], large["memory"]["ctx"]), (1024, 2048))
        self.assertEqual(sum(memory["parts"].values()), memory["session_bytes"])
        self.assertGreater(large["memory"]["session_bytes"], memory["session_bytes"])
        self.assertEqual(small["vision"]["tokens_per_frame"] * 0, 0)
        tensors = small["tensors"]
        self.assertGreater(len(tensors), language["layers"])
        self.assertEqual(len({t["name"] for t in tensors}), len(tensors))
        self.assertIn("tensors", saccade("inspect", "--tensors").stdout)


class Bench(Case):
    def bench(self, *arguments):
        run = saccade("bench", "--json", "--repeat", "2", "--gen-tokens", "4", *arguments)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        return json.loads(run.stdout)

    def test_text(self):
        out = self.bench("--prompt-tokens", "64")
        self.assertEqual(sorted(out["parts"]), ["decode", "load", "prefill"])
        self.assertEqual(out["parts"]["prefill"]["work"], 64)
        self.assertEqual(out["parts"]["decode"]["work"], 4)
        self.assertGreater(out["read_bandwidth"], 1e8)
        self.assertGreater(out["parts"]["decode"]["of_bandwidth"], 0)
        self.assertGreater(out["peak_bytes"], out["memory"]["session_bytes"] / 2)

    def test_the_same_answer_drafted(self):
        out = self.bench("--prompt-tokens", "256", "--gen-tokens", "80", "--draft", "lookup")
        self.assertEqual((out["parts"]["decode"]["work"], out["parts"]["drafted"]["work"]), (80, 80))
        self.assertTrue(0 < out["accepted_tokens"] <= out["drafted_tokens"])

    def test_media(self):
        out = self.bench("--video", sample(video=True)["file"], "--num-frames", "4")
        self.assertEqual(list(out["parts"]), ["load", "media", "vision", "pictures", "prefill", "decode"])
        self.assertEqual(out["parts"]["vision"]["work"], 4)
        self.assertEqual(out["parts"]["decode"]["work"], 4)
        self.assertGreater(out["parts"]["vision"]["median_s"], 0)  # not taken from a cache

    def test_pictures_are_counted_by_all_the_time_they_take(self):
        out = self.bench("--video", sample(video=True)["file"], "--num-frames", "4", "--repeat", "1")
        media, vision, pictures = (out["parts"][name] for name in ("media", "vision", "pictures"))
        self.assertAlmostEqual(pictures["median_s"], media["median_s"] + vision["median_s"], places=9)
        self.assertAlmostEqual(pictures["per_s"] * pictures["median_s"], 4, places=6)
        # on a device the tower overlaps with decoding, and neither is a rate
        on_device = out["memory"].get("device_vision_bytes", 0) > 0
        self.assertEqual(["per_s" not in part for part in (media, vision)], [on_device] * 2)

    def test_table_and_plan(self):
        run = saccade("bench", "--prompt-tokens", "16", "--gen-tokens", "2", "--repeat", "1")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertRegex(run.stdout, r"\ndecode .*tokens .*% of the bandwidth\n")
        plan = saccade("bench", "--plan", "--ctx", "512")
        self.assertIn("memory for a context of 512 tokens", plan.stdout)


if __name__ == "__main__":
    main()
