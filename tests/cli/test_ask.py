"""saccade ask: answers, what comes with them, and settings that change them."""
import json
import os
import shutil
import tempfile

from cli import Case, is_video, main, questions, saccade, sample, write_png


def ask_sample(row, *options):
    kind = "--video" if is_video(row["file"]) else "--image"
    return saccade("ask", kind, row["file"], *options, row["question"])


class Answers(Case):
    def test_pictures(self):
        for row in [r for r in questions() if not is_video(r["file"])][:3]:
            with self.subTest(row["question"]):
                self.assert_answer(ask_sample(row), row["answer"])

    def test_video(self):
        row = sample(video=True)
        self.assert_answer(ask_sample(row), row["answer"])

    def test_options_may_follow_the_question(self):
        row = sample(video=False)
        self.assert_answer(saccade("ask", row["question"], "--image", row["file"]), row["answer"])

    def test_further_settings(self):
        row = sample(video=False)
        run = ask_sample(row, "--set", "suppress_tokens=%s" % list(range(256)), "-n", "8")
        self.assertEqual(run.returncode, 0)
        self.assertNotEqual(run.stdout.strip(), row["answer"])
        self.assert_refused(ask_sample(row, "--set", "nonsense=1"), 64, "nonsense")
        self.assert_refused(ask_sample(row, "--set", "suppress_tokens"), 64, "NAME=VALUE")
        self.assert_refused(ask_sample(row, "--set", "max_length=1", "-n", "0"), 64, "max_length")
        banned = ask_sample(row, "--set", "logit_bias=%s" % json.dumps({i: -100 for i in range(256)}), "-n", "8")
        self.assertEqual(banned.stdout, run.stdout)
        self.assert_refused(ask_sample(row, "--set", "presence_penalty=7"), 64, "presence_penalty")
        guided = ask_sample(row, "--set", "guidance_scale=1.0")
        self.assert_answer(guided, row["answer"])
        self.assertEqual(ask_sample(row, "--set", "guidance_scale=-4", "-n", "8").returncode, 0)

    def settings_folder(self, generation, config=None):
        """The model's folder with other settings of generation; None: without the file."""
        path = tempfile.mkdtemp(dir=self.folder)
        model = os.path.abspath(os.environ.get("SACCADE_MODEL", "models/demo"))
        for name in os.listdir(model):
            if name not in ("generation_config.json", "config.json"):
                os.symlink(os.path.join(model, name), os.path.join(path, name))
        with open(os.path.join(model, "config.json")) as f:
            own = json.load(f)
        with open(os.path.join(path, "config.json"), "w") as f:
            json.dump({**own, **(config or {})}, f)
        if generation is not None:
            with open(os.path.join(path, "generation_config.json"), "w") as f:
                json.dump(generation, f)
        return path

    def test_settings_of_the_checkpoint(self):
        row = sample(video=False)
        ask = lambda *folder: ask_sample(row, "-m", self.settings_folder(*folder))
        banned = {"suppress_tokens": list(range(256))}
        self.assert_answer(ask({"suppress_tokens": []}), row["answer"])
        self.assertNotEqual(ask({**banned, "max_new_tokens": 4}).stdout.strip(), row["answer"])
        self.assertNotEqual(ask(None, {**banned, "max_length": 1000}).stdout.strip(), row["answer"])
        self.assert_refused(ask({"num_beams": 4}), 69, "num_beams")
        stopped = ask({"stop_strings": ["e", "o", "a"]}).stdout.strip()
        self.assertRegex(stopped, "[eoa]")  # the token in which one of them comes is the last
        self.assertTrue(row["answer"].strip().startswith(stopped), stopped)
        self.assert_refused(ask({"no_repeat_ngram_size": "x"}), 65, "no_repeat_ngram_size")
        run = ask({"surprise": 3})
        self.assertIn('"surprise" is not known', run.stderr)

    def test_question_from_standard_input(self):
        row = sample(video=False)
        run = saccade("ask", "--image", row["file"], "-", input=row["question"] + "\n")
        self.assert_answer(run, row["answer"])

    def test_model_by_option_and_by_environment(self):
        row = sample(video=False)
        model = os.environ.get("SACCADE_MODEL", "models/demo")
        self.assert_answer(ask_sample(row, "-m", model), row["answer"])
        environment = dict(os.environ, SACCADE_MODEL=self.path("none"))
        run = saccade("ask", "--image", row["file"], row["question"], env=environment)
        self.assert_refused(run, 66, self.path("none"))

    def test_a_format_of_keys_and_values(self):
        row = sample(video=False)
        for kv in "f32", "f16", "bf16":
            self.assert_answer(ask_sample(row, "--kv", kv), row["answer"])

    def test_threads_do_not_change_a_sampled_answer(self):
        row = sample(video=False)
        options = "--temperature", "1.5", "--seed", "7", "--max-tokens", "8"
        one = ask_sample(row, *options, "--threads", "1")
        self.assert_answer(one)
        self.assertEqual(one.stdout, ask_sample(row, *options, "--threads", "2").stdout)


class Json(Case):
    def ask(self, *arguments):
        run = saccade("ask", "--json", *arguments)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        return json.loads(run.stdout)

    def test_fields_of_a_picture(self):
        row = sample(video=False)
        out = self.ask("--image", row["file"], "--temperature", "0.0", "--seed", "5", row["question"])
        self.assertEqual(out["text"], row["answer"])
        self.assertEqual(out["finish_reason"], "stop")
        self.assertEqual(out["model"]["family"], "llava")
        self.assertEqual(out["settings"]["sampling"]["seed"], 5)
        self.assertEqual(out["settings"]["session"]["kv"], "f16")
        usage = out["usage"]
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"])
        self.assertGreater(usage["prompt_tokens"], usage["visual_tokens"])
        self.assertGreater(usage["completion_tokens"], 0)
        [media] = out["media"]
        self.assertEqual((media["kind"], media["file"], media["frames"]), ("image", row["file"], 1))
        self.assertEqual(media["tokens"], usage["visual_tokens"])
        timings = out["timings"]
        for part in "load_s", "media_s", "vision_s", "prefill_s", "decode_s", "first_token_s", "total_s":
            self.assertGreaterEqual(timings[part], 0, part)
        self.assertGreaterEqual(timings["total_s"], timings["first_token_s"])
        memory = out["memory"]
        self.assertEqual(sum(memory["parts"].values()), memory["session_bytes"])

    def test_sampling_of_a_video(self):
        row = sample(video=True)
        out = self.ask("--video", row["file"], "--num-frames", "4", row["question"])
        [media] = out["media"]
        self.assertEqual((media["kind"], media["frames"]), ("video", 4))
        self.assertRegex(media["rule"], r"num_frames[ =]4")
        self.assertEqual(len(media["timestamps"]), 4)
        self.assertEqual(media["timestamps"], sorted(media["timestamps"]))
        self.assertLessEqual(media["timestamps"][-1], media["duration_s"])
        self.assertEqual(out["settings"]["video"]["num_frames"], 4)
        self.assertEqual(media["tokens"], 4 * (media["tokens"] // 4))

    def test_key_frames(self):
        [media] = self.ask("--video", "samples/video0002_256.mp4", "--num-frames", "6", "--key-frames", "What is shown?")["media"]
        self.assertEqual(media["timestamps"], [0, 39, 89, 149, 203, 250])
        self.assertEqual(media["rule"], "6 of 256 frames by num_frames 6: 6 key frames")
        [media] = self.ask("--video", "samples/video0000_16.mp4", "--key-frames", "What is shown?")["media"]
        self.assertEqual(media["timestamps"], [0, 6])

    def test_frames_of_a_list_keep_their_times(self):
        lines = ["# frame and time", ""]
        for i in range(3):
            write_png(self.path(f"frame {i}.png"), colour=(80 * i, 0, 90))
            lines.append(f"frame {i}.png\t{0.5 * i + 2}")
        out = self.ask("--frames", self.path("list.txt", "\n".join(lines)), "What is first?")
        [media] = out["media"]
        self.assertEqual((media["kind"], media["timestamps"]), ("frames", [2.0, 2.5, 3.0]))

    def test_frames_of_a_folder_in_order_of_number(self):
        folder = os.path.join(self.folder, "frames")
        os.mkdir(folder)
        for i in 2, 10, 1:
            write_png(os.path.join(folder, f"{i}.png"), width=10 * i, height=10)
        shutil.copyfile(__file__, os.path.join(folder, "notes.txt"))
        [media] = self.ask("--frames", folder, "--num-frames", "3", "What is first?")["media"]
        self.assertEqual(media["frames"], 3)
        self.assertEqual(media["width"], 10)
        self.assertEqual(media["timestamps"], [0, 1, 2])

    def test_media_in_the_order_given(self):
        a, b = write_png(self.path("a.png"), 50, 20), write_png(self.path("b.png"), 20, 50)
        out = self.ask("--image", b, "--image", a, "--image", b, "What is this?")
        self.assertEqual([m["file"] for m in out["media"]], [b, a, b])
        self.assertEqual([m["width"] for m in out["media"]], [20, 50, 20])

    def test_the_limit_of_tokens(self):
        row = sample(video=False)
        out = self.ask("--image", row["file"], "--max-tokens", "1", "What is in the picture?")
        if out["finish_reason"] == "length":
            self.assertEqual(out["usage"]["completion_tokens"], 1)
        else:
            self.assertLessEqual(out["usage"]["completion_tokens"], 1)

    def test_a_stop_text_ends_the_answer(self):
        row = sample(video=False)
        whole = self.ask("--image", row["file"], row["question"])["text"]
        stop = whole[len(whole) // 2:]
        out = self.ask("--image", row["file"], "--stop", "never said", "--stop", stop, row["question"])
        self.assertEqual(out["text"], whole[:whole.index(stop)])
        self.assertEqual(out["finish_reason"], "stop")
        self.assertEqual(out["settings"]["sampling"]["stop"], ["never said", stop])

    def test_an_empty_answer_has_a_line_end(self):
        row = sample(video=False)
        whole = self.ask("--image", row["file"], row["question"])["text"]
        self.assert_answer(saccade("ask", "--image", row["file"], "--stop", whole, row["question"]), "")


class Methods(Case):
    def ask(self, *options):
        row = sample(video=True)
        run = saccade("ask", "--json", "--video", row["file"], "--num-frames", "8", *options, row["question"])
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        return json.loads(run.stdout)

    def test_dense(self):
        out = self.ask()
        did = out["methods"]
        self.assertEqual((did["prefill"], did["kv"], did["decode"], did["rope"], did["reduce"]),
                         ("dense", "f16", "dense", "model", "none"))
        self.assertEqual((did["kept_ratio"], did["attention_flops_saved"], did["decode_rows_read"]), (1, 0, 1))
        self.assertEqual(set(did["kept_by_layer"]), {1})
        self.assertEqual(did["kv_factor"], 1)
        self.assertTrue(0 <= did["select_share"] <= 1)
        self.assertIsNone(did["decode_mass"])
        tokens = did["kv_bytes"] / did["kv_bytes_per_token"]
        usage = out["usage"]
        self.assertTrue(usage["prompt_tokens"] <= tokens <= usage["total_tokens"], tokens)

    def test_drafts_change_no_answer(self):
        repeat = "--set", "min_new_tokens=60", "-n", "60"  # the answer repeats itself
        plain, drafted = self.ask(*repeat), self.ask(*repeat, "--draft", "lookup:n=3,most=7")
        self.assertEqual(plain["text"], drafted["text"])
        self.assertNotIn("drafted_tokens", plain["usage"])
        self.assertTrue(0 < drafted["usage"]["accepted_tokens"] <= drafted["usage"]["drafted_tokens"])
        self.assertEqual(drafted["settings"]["session"]["draft"], "lookup:most=7,n=3,least=2")
        sparse = self.ask(*repeat, "--draft", "sparse:adapt=0,budget=64,page=8,most=4")
        self.assertEqual(plain["text"], sparse["text"])
        self.assertTrue(0 < sparse["usage"]["accepted_tokens"] <= sparse["usage"]["drafted_tokens"])
        with tempfile.TemporaryDirectory() as folder:  # the demo's language model in 8 bits drafts for the demo
            small = os.path.join(folder, "q8.gguf")
            self.assertEqual(saccade("quantize", os.path.join("models", "demo"), small, "--format", "q8_0", "--quiet").returncode, 0)
            draft = "--draft", f"model:adapt=0,most=4,{small}"
            self.assertEqual(plain["text"], self.ask(*repeat, *draft)["text"])  # about a picture, which the draft does not see
            words = [json.loads(saccade("ask", "--json", *repeat, *more, "Describe the image.").stdout) for more in ((), draft)]
            self.assertEqual(words[0]["text"], words[1]["text"])
            self.assertTrue(20 < words[1]["usage"]["accepted_tokens"] <= words[1]["usage"]["drafted_tokens"])
            said = saccade("inspect", "--draft", f"model:{small}").stdout
            for part in "draft model's sequence", "draft model's workspace":
                self.assertIn(part, said)
        self.assert_refused(saccade("ask", "--draft", "sparse:method=h2o", "q"), 69, "it drops rows")
        self.assert_refused(saccade("ask", "--draft", "model:models/demo", "q"), 69, "has a vision half")
        self.assert_refused(saccade("ask", "--draft", "lookup", "--kv", "int4", "q"), 69, "KV format int4")
        self.assert_refused(saccade("ask", "--draft", "eagle", "q"), 64, "none, lookup")

    def test_lines_are_those_that_run(self):
        out = self.ask("--prefill", "zipvl:min=0,tau=0.8", "--kv", "mixed")
        did, asked = out["methods"], out["settings"]["session"]
        self.assertEqual((asked["prefill"], asked["kv"]), ("zipvl:min=0,tau=0.8", "mixed"))
        self.assertRegex(did["prefill"], r"\Azipvl:tau=0\.8,recent=64,.*min=0")
        self.assertRegex(did["kv"], r"\Amixed:high=4,low=2,")
        layers = did["kept_by_layer"]
        self.assertAlmostEqual(did["kept_ratio"], sum(layers) / len(layers), 6)
        self.assertTrue(all(0 < kept <= 1 for kept in layers) and min(layers) < 0.9, layers)
        self.assertTrue(0 < did["attention_flops_saved"] < 1)
        self.assertTrue(0 < did["select_share"] < 1)
        self.assertGreater(did["kv_factor"], 2)

    def test_rows_of_steps(self):
        did = self.ask("--decode", "quest:budget=64,skip=0")["methods"]
        self.assertRegex(did["decode"], r"\Aquest:page=16,budget=64,skip=0,heads=sum,every=1\Z")
        self.assertTrue(48 < did["decode_rows"] <= 64, did["decode_rows"])  # of the last page what there is
        self.assertLess(did["decode_rows_read"], 0.3)

    def test_a_prompt_below_the_break_even_length_is_read_densely(self):
        for line, is_short in ("zipvl", True), ("zipvl:min=0", False), ("dense", False):
            did = self.ask("--prefill", line)["methods"]
            self.assertIs(did["prefill_is_short"], is_short)
            self.assertEqual(did["kept_ratio"] == 1, line != "zipvl:min=0")

    def test_a_method_that_is_off_says_so(self):
        out = self.ask("--prefill", "zipvl:tau=1", "--decode", "quest:budget=100000")
        self.assertEqual(out["settings"]["session"]["decode"], "quest:budget=100000")
        self.assertEqual((out["methods"]["prefill"], out["methods"]["decode"]), ("dense", "dense"))


class Config(Case):
    def test_a_file_and_options_over_it(self):
        config = self.path("run.yaml", "sampling: {seed: 3, top_k: 9}\nsession: {ctx: 2048, kv: bf16}\njson: true\n")
        row = sample(video=False)
        run = saccade("ask", "--top-k", "4", "--config", config, "--image", row["file"], row["question"])
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        out = json.loads(run.stdout)["settings"]
        self.assertEqual((out["sampling"]["seed"], out["sampling"]["top_k"]), (3, 4))
        self.assertEqual((out["session"]["ctx"], out["session"]["kv"]), (2048, "bf16"))

    def test_the_sample_file_is_valid(self):
        row = sample(video=True)
        run = saccade("ask", "--config", "samples/run.yaml", "--video", row["file"], row["question"])
        self.assert_answer(run, row["answer"])


if __name__ == "__main__":
    main()
