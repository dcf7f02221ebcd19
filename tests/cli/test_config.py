"""What a checkpoint's files say: broken ones get one line and a code, unknown keys are named, paths are understood."""
import json
import os
import random
import shutil
import sys

from cli import Case, main, saccade

sys.path.insert(0, "tools")
import check_bad_configs as bad  # noqa: E402


class Config(Case):
    def model(self, base, name="model", **changes):
        """A copy of a tiny checkpoint whose config.json has other values."""
        folder = self.path(name)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(os.path.join(bad.MODELS, base), folder)
        path = os.path.join(folder, "config.json")
        with open(path, encoding="utf-8") as f:
            config = json.load(f)
        config.update(changes)
        with open(path, "w", encoding="utf-8") as f:
            json.dump(config, f)
        return folder

    def test_broken_files(self):
        rng = random.Random(20)
        for i in range(24):
            folder = self.path(f"broken{i}")
            base, name = bad.make(rng, folder)
            with self.subTest(i, base=base, name=name):
                run = saccade("inspect", folder)
                self.assertIsNone(bad.fault(run, folder, name), run.stderr)

    def test_unknown_keys_are_named_once(self):
        folder = self.model("llama_f32", frobnicate=3, rope_scaling={"type": "linear", "factor": 2, "odd": 1})
        run = saccade("inspect", folder, "--json")
        self.assertEqual(run.stderr, 'saccade: config.json: "frobnicate", "rope_scaling.odd": not known here, '
                                     "without effect (inspect --keys)\n")
        self.assertEqual([k["key"] for k in json.loads(run.stdout)["unknown_keys"]], ["frobnicate", "rope_scaling.odd"])
        lines = saccade("inspect", folder, "--keys").stdout.split("\n")
        uses = {words[1]: " ".join(words[2:]) for words in map(str.split, lines) if words[:1] == ["config.json"]}
        found = [uses[k] for k in ("frobnicate", "hidden_size", "bos_token_id")]
        self.assertEqual(found, ["unknown", "honoured", "no effect"])

    def test_known_checkpoints_are_silent(self):
        for base in bad.BASES:
            self.assertEqual(saccade("inspect", os.path.join(bad.MODELS, base)).stderr, "", base)

    def test_what_is_not_done_is_refused_by_name(self):
        quantised = [("quantization_config", {"quant_method": m}, m) for m in ("aqlm", "quip", "quark", "eetq")]
        for base, key, value, needle in [
            *[("llama_f32", k, v, f"weights quantised with {n}") for k, v, n in quantised],
            ("llama_f32", "mlp_bias", True, '"mlp_bias" is true; only false is supported'),
            ("llama_f32", "model_type", "llava_llama", "hf download llava-hf/llava-1.5-7b-hf"),
            ("longva", "mm_patch_merge_type", "spatial", "neither LongVA's unires nor"),
            ("llava_video", "add_faster_video", True, '"add_faster_video" is true; only false is supported'),
            ("longva", "add_time_instruction", True, '"add_time_instruction" is true; under "mm_patch_merge_type" unires only false'),
            ("llava_video", "mm_newline_position", "row", '"mm_newline_position" is "row"'),
            ("llava_next_video", "spatial_pool_mode", "conv", '"spatial_pool_mode" is "conv"'),
            ("longva", "image_aspect_ratio", "pad", '"image_aspect_ratio" is "pad"'),
        ]:
            with self.subTest(base=base, key=key, value=value):
                changes = {key: value, **({"architectures": None} if key == "model_type" else {})}
                self.assert_refused(saccade("inspect", self.model(base, **changes)), 69, "config.json", needle)

    def test_incomplete_downloads(self):
        folder = self.model("llava")
        shard = os.path.join(folder, "model-00001-of-00002.safetensors")
        for size in (50000, 500, 0):
            os.truncate(shard, size)
            self.assert_refused(saccade("inspect", folder), 65, shard, "download incomplete")
        os.remove(shard)
        self.assert_refused(saccade("inspect", folder), 66, shard, "download incomplete")
        pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n"
        for name in ("model.safetensors.index.json", "config.json"):
            path = self.path("model/" + name, pointer)
            self.assert_refused(saccade("inspect", folder), 65, path, "git lfs pull")
        self.assert_refused(saccade("inspect", self.path("x.gguf", pointer)), 65, "x.gguf", "git lfs pull")

    def test_paths(self):
        cache = self.path("models--org--name")
        os.makedirs(os.path.join(cache, "refs"))
        self.path("models--org--name/refs/main", "0123abc\n")
        self.assert_refused(saccade("inspect", cache), 66, "snapshots/0123abc", "download incomplete")
        self.model("llama_f32", "models--org--name/snapshots/0123abc")
        self.assertEqual(saccade("inspect", cache).returncode, 0)
        self.path("models--org--name/refs/main", "../../..\n")
        self.assert_refused(saccade("inspect", cache), 65, "refs/main", "not the name of a snapshot")
        self.assert_refused(saccade("inspect", "some-org/no-such-model"), 66, "hf download some-org/no-such-model")
        for name in ("config.json", "model.safetensors"):
            self.assert_refused(saccade("inspect", os.path.join(bad.MODELS, "llama_f32", name)), 65,
                                "give the folder that it is in")


if __name__ == "__main__":
    main()
