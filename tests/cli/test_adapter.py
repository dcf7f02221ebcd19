"""saccade --adapter: what users of LoRA adapters meet."""
import json
import os
import shutil
import tempfile

from cli import Case, main, saccade

MODEL = "tests/golden/models/llama_f32"
ADAPTERS = "tests/golden/adapters/llama_f32/"
Q8 = "tests/golden/models/gguf_llama_q8_0/q8_0.gguf"
QUESTION = ["-n", "12", "--temperature", "0", "Which owl was tired?"]


class Adapter(Case):
    def answer(self, *arguments):
        run = saccade("ask", *arguments, "--json", *QUESTION)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        return json.loads(run.stdout)

    def test_answers_change_and_the_report_says_why(self):
        plain, adapted = self.answer("-m", MODEL), self.answer("-m", MODEL, "--adapter", ADAPTERS + "dora")
        self.assertNotEqual(plain["text"], adapted["text"])
        self.assertNotIn("adapters", plain["model"])
        one, = adapted["model"]["adapters"]
        self.assertEqual((one["path"], one["kind"], one["scale"], one["rank"], one["tensors"]),
                         (ADAPTERS + "dora", "dora", 1, 2, 42))
        self.assertRegex(one["fingerprint"], r"\A[0-9a-f]{16}\Z")
        self.assertEqual(self.answer("-m", MODEL, "--adapter", ADAPTERS + "attention:0")["text"], plain["text"])

    def test_a_folder_of_an_adapter_stands_for_its_base(self):
        self.assertEqual(self.answer("-m", ADAPTERS + "dora")["text"],
                         self.answer("-m", MODEL, "--adapter", ADAPTERS + "dora")["text"])

    def test_a_config_file_may_name_several(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.yaml")
            with open(path, "w") as f:
                f.write(f'model: {MODEL}\nadapter: ["{ADAPTERS}dora", "{ADAPTERS}head:0.5"]\n')
            scales = [a["scale"] for a in self.answer("--config", path)["model"]["adapters"]]
            self.assertEqual(scales, [1, 0.5])

    def test_inspect_lists_adapters_and_their_keys(self):
        run = saccade("inspect", MODEL, "--adapter", ADAPTERS + "dora", "--keys")
        self.assertRegex(run.stdout, r"adapters +" + ADAPTERS + r"dora \(dora of rank 2, 42 tensors, .*, scale 1\)")
        self.assertRegex(run.stdout, r"adapter_config.json +use_dora +honoured")

    def test_one_that_is_kept_apart(self):
        apart = self.answer("-m", MODEL, "--adapter", "owl=" + ADAPTERS + "scaled:0.5")
        one, = apart["model"]["adapters"]
        self.assertEqual((one["name"], one["path"], one["scale"]), ("owl", ADAPTERS + "scaled", 0.5))
        merged = self.answer("-m", MODEL, "--adapter", ADAPTERS + "scaled:0.5")
        self.assertNotIn("name", merged["model"]["adapters"][0])
        self.assertEqual(apart["text"], merged["text"])
        run = saccade("inspect", MODEL, "--adapter", "owl=" + ADAPTERS + "scaled")
        self.assertRegex(run.stdout, r"adapters +owl = " + ADAPTERS + r"scaled \(lora of rank 2")

    def test_beside_a_quantised_model(self):
        gguf = "tests/golden/adapters/gguf_llama_f32/gguf_linear.gguf"
        texts = [self.answer("-m", Q8, *spec)["text"] for spec in ([], ["--adapter", gguf], ["--adapter", "x=" + gguf])]
        self.assertNotEqual(texts[0], texts[1])
        self.assertEqual(texts[1], texts[2])

    def test_what_is_not_kept_apart(self):
        for name, why in ("dora", "lora_magnitude_vector is DoRA's"), ("saved_norms", "input_layernorm.weight is for no matrix"), \
                         ("saved_mlp", "gate_proj.weight replaces a matrix"), ("embedding", "is for no matrix"):
            run = saccade("inspect", MODEL, "--adapter", f"x={ADAPTERS}{name}")
            self.assertEqual((run.returncode, run.stdout, run.stderr.count("\n")), (69, "", 1))
            self.assertIn(why, run.stderr)
            self.assertIn(f"which is not kept apart: merge the adapter into a model in f32, f16 or bf16 (--adapter {ADAPTERS}{name}, ",
                          run.stderr)
        run = saccade("ask", "-m", MODEL, "--adapter", f"x={ADAPTERS}layer", "--adapter", f"y={ADAPTERS}layers", *QUESTION)
        self.assertEqual((run.returncode, run.stdout, run.stderr.count("\n")), (64, "", 1))
        self.assertIn("one that is kept apart is used at a time", run.stderr)

    def test_what_cannot_be_done_is_said_in_one_line(self):
        with tempfile.TemporaryDirectory() as outer:
            folder = os.path.join(outer, "adapter")
            shutil.copytree(ADAPTERS + "attention", folder)
            path = os.path.join(folder, "adapter_config.json")
            with open(path) as f:
                config = json.load(f)

            def refused(code, *needles, model=MODEL, spec=folder, **changes):
                with open(path, "w") as f:
                    json.dump({**config, **changes}, f)
                run = saccade("inspect", model, "--adapter", spec)
                self.assertEqual((run.returncode, run.stdout), (code, ""))
                self.assertEqual(run.stderr.count("\n"), 1)
                for needle in needles:
                    self.assertIn(needle, run.stderr)
            refused(69, "adapter_config.json", '"lora_bias" is true', "merge_and_unload", lora_bias=True)
            refused(69, "adapter_config.json", '"peft_type" LOHA is not supported', peft_type="LOHA")
            refused(65, "adapter_model.safetensors", "gives it rank 3", r=3)
            refused(65, "adapter_config.json", "no such module", "q_proj", target_modules=["k_proj", "v_proj", "o_proj"])
            refused(65, "adapter_config.json", '"target_modules": pattern "("', target_modules="(")
            refused(65, "which does not go with rank 2", model="tests/golden/models/qwen2_yarn")
            refused(69, "goes with Hugging Face folders", model="tests/golden/models/gguf_llama_f32/f32.gguf")
            gguf = "tests/golden/adapters/gguf_llama_f32/gguf_linear.gguf"
            refused(69, "a GGUF adapter goes with a GGUF model", spec=gguf)
            refused(65, 'architecture "llama", and the model is "qwen2"', model="tests/golden/models/gguf_qwen2_f32/f32.gguf",
                    spec=gguf)
            embedding = "tests/golden/adapters/gguf_llama_f32/gguf_embedding.gguf"
            refused(69, "f32, f16 or bf16", "in q8_0", model=Q8, spec=embedding)
            refused(65, "an adapter; give its base as the model", model=gguf)
            refused(66, "no such folder", "adapter_config.json", spec="nowhere")
            refused(64, "give DIR or DIR:SCALE", spec=folder + ":much")
            with open(path, "w") as f:
                json.dump({**config, "new_idea": 3}, f)
            run = saccade("inspect", MODEL, "--adapter", folder)
            self.assertEqual(run.returncode, 0)
            self.assertIn('adapter_config.json: "new_idea": not known here, without effect', run.stderr)
            self.assertEqual(run.stderr.count("\n"), 1)

    def test_a_tied_head_without_its_part(self):
        """peft saves what it tied to the embedding too: a file without it is cut."""
        tied = os.path.join(os.path.dirname(os.path.dirname(ADAPTERS)), "qwen3_tied")
        with tempfile.TemporaryDirectory() as outer:
            folder = os.path.join(outer, "adapter")
            shutil.copytree(os.path.join(tied, "tying"), folder)
            path = os.path.join(folder, "adapter_model.safetensors")
            with open(path, "rb") as f:
                data = f.read()
            end = 8 + int.from_bytes(data[:8], "little")
            header = {k: v for k, v in json.loads(data[8:end]).items() if "lm_head" not in k}
            text = json.dumps(header).encode()
            with open(path, "wb") as f:
                f.write(len(text).to_bytes(8, "little") + text + data[end:])
            run = saccade("inspect", "tests/golden/models/qwen3_tied", "--adapter", folder)
            self.assertEqual((run.returncode, run.stdout, run.stderr.count("\n")), (65, "", 1))
            self.assertIn('adapter_model.safetensors: "ensure_weight_tying" is true', run.stderr)

    def test_two_that_replace_one_tensor(self):
        both = ["--adapter", ADAPTERS + "saved_norms", "--adapter", ADAPTERS + "saved_norms"]
        self.assertEqual(saccade("inspect", MODEL, *both).returncode, 0)  # with the same numbers
        with tempfile.TemporaryDirectory() as outer:
            folder = os.path.join(outer, "adapter")
            shutil.copytree(ADAPTERS + "saved_norms", folder)
            path = os.path.join(folder, "adapter_model.safetensors")
            with open(path, "rb") as f:
                data = bytearray(f.read())
            data[8 + int.from_bytes(data[:8], "little")] ^= 1
            with open(path, "wb") as f:
                f.write(data)
            run = saccade("inspect", MODEL, *both[:2], "--adapter", folder)
            self.assertEqual(run.returncode, 65)
            self.assertIn("is replaced by another adapter too", run.stderr)

    def test_a_replacement_of_another_shape_names_its_file(self):
        with tempfile.TemporaryDirectory() as outer:
            folder = os.path.join(outer, "adapter")
            shutil.copytree(ADAPTERS + "saved_norms", folder)
            path = os.path.join(folder, "adapter_model.safetensors")
            with open(path, "rb") as f:
                data = f.read()
            end = 8 + int.from_bytes(data[:8], "little")
            header = json.loads(data[8:end])
            name = next(n for n in header if n.endswith("norm.weight"))
            n, = header[name]["shape"]
            header[name]["shape"] = [2, n // 2]
            text = json.dumps(header).encode()
            with open(path, "wb") as f:
                f.write(len(text).to_bytes(8, "little") + text + data[end:])
            run = saccade("inspect", MODEL, "--adapter", folder)
            self.assertEqual((run.returncode, run.stdout, run.stderr.count("\n")), (65, "", 1))
            self.assertIn(f"adapter_model.safetensors: tensor {name} has shape [2, {n // 2}]", run.stderr)


if __name__ == "__main__":
    main()
