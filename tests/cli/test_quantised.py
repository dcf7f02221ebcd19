"""Checkpoints with quantised weights: what inspect shows of them, and what is refused, each in one line by its name."""
import json
import os
import shutil
import struct

from cli import Case, main, saccade

MODELS = os.path.join("tests", "golden", "models")
Q, DOWN = "model.layers.0.self_attn.q_proj.", "model.layers.1.mlp.down_proj."


def read_tensors(path):
    with open(path, "rb") as f:
        data = f.read()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    header.pop("__metadata__", None)
    return {k: [v["dtype"], v["shape"], data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]]]
            for k, v in header.items()}


def write_tensors(path, tensors):
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(t[2] for t in tensors.values()))


class Quantised(Case):
    def model(self, base, change=None, **config):
        """A copy of a tiny checkpoint: tensors as `change` leaves them, other values in its quantization_config."""
        folder = self.path("model")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(os.path.join(MODELS, "packed_" + base), folder)
        path = os.path.join(folder, "config.json")
        with open(path, encoding="utf-8") as f:
            content = json.load(f)
        content["quantization_config"].update(config)
        with open(path, "w", encoding="utf-8") as f:
            json.dump(content, f)
        if change:
            tensors = read_tensors(os.path.join(folder, "model.safetensors"))
            change(tensors)
            write_tensors(os.path.join(folder, "model.safetensors"), tensors)
        return folder

    def refused(self, code, needle, base, change=None, **config):
        with self.subTest(base=base, needle=needle):
            self.assert_refused(saccade("inspect", self.model(base, change, **config)), code, needle)

    def unused(self, base, change=None, **config):
        """What inspect lists as without effect."""
        run = saccade("inspect", self.model(base, change, **config), "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        return [k["key"] for k in json.loads(run.stdout)["unknown_keys"]]

    def test_inspect_shows_format_and_bytes(self):
        for base, name, n_bytes in (("awq", "awq", 2048), ("gptq_8", "gptq_8", 4096), ("ct_w4", "packed_4", 2048),
                                    ("ct_fp8", "fp8", 4096), ("nf4_nested", "nf4", 2048), ("llm_int8", "i8", 4096),
                                    ("ct_nvfp4", "fp4", 2048), ("ct_mxfp4", "fp4", 2048), ("modelopt_nvfp4", "fp4", 2048),
                                    ("hqq", "hqq_4", 2048)):
            with self.subTest(base=base):
                run = saccade("inspect", os.path.join(MODELS, "packed_" + base), "--tensors", "--json")
                tensors = {t["name"]: t for t in json.loads(run.stdout)["tensors"]}
                q = tensors[Q + "weight"]
                self.assertEqual((q["dtype"], q["shape"], q["bytes"]), (name, [64, 64], n_bytes))

    def test_configurations(self):
        for code, needle, base, config in [
            (69, '"bits" other than 4: not supported with AWQ', "awq", {"bits": 8}),
            (69, '"version" other than gemm', "awq", {"version": "gemv"}),
            (69, '"zero_point" false', "awq", {"zero_point": False}),
            (69, '"frobnicate" is not known', "awq", {"frobnicate": 1}),
            (65, '"group_size" is 0', "awq", {"group_size": 0}),
            (65, '"group_size" is 1099511627776', "awq", {"group_size": 1 << 40}),
            (69, '"bits" other than 4 and 8', "gptq_4", {"bits": 3}),
            (69, '"checkpoint_format" other than', "gptq_4", {"checkpoint_format": "marlin"}),
            (69, '"dynamic" that changes modules', "gptq_4", {"dynamic": {"+:.*": {"bits": 8}}}),
            (69, '"kv_cache_scheme" other than floats of 8 bits', "ct_w4", {"kv_cache_scheme": {"num_bits": 8}}),
            (69, "weights quantised with compressed-tensors are not supported", "ct_w4", {"format": "marlin-24"}),
            (69, '"activation_scheme" other than dynamic and static', "fp8_block", {"activation_scheme": "frozen"}),
            (65, "weight has no input_scale beside it", "fp8_block", {"activation_scheme": "static"}),
            (69, '"scale_fmt" other than float', "fp8_block", {"scale_fmt": "ue8m0"}),
            (65, '"weight_block_size" must be two sizes', "fp8_block", {"weight_block_size": [0, 128]}),
            (65, '"weight_block_size" must be two sizes', "fp8_block", {"weight_block_size": [128, 1 << 50]}),
            (69, '"quant_algo" other than FP8', "modelopt_fp8", {"quant_algo": "W4A8_AWQ"}),
            (69, '"kv_cache_scheme" other than floats of 8 bits', "modelopt_fp8", {"kv_cache_scheme": {"num_bits": 8, "type": "int"}}),
            (65, "is quantised, and", "modelopt_fp8", {"ignore": ["q_proj"]}),
            (69, '"quant_algo" other than FP8', "modelopt_nvfp4", {"quant_algo": "NVFP4_AWQ"}),
            (69, '"group_size" other than 16', "modelopt_nvfp4", {"group_size": 32}),
            (65, '"group_size" is 1099511627776', "modelopt_nvfp4", {"group_size": 1 << 40}),
            (69, '"kv_cache_scheme" other than floats of 8 bits', "modelopt_nvfp4", {"kv_cache_scheme": {"num_bits": 4, "type": "float"}}),
            (69, '"kv_cache_scheme" other than floats of 8 bits', "modelopt_nvfp4", {"kv_cache_scheme": "NVFP4"}),
            (65, "is quantised, and", "modelopt_nvfp4", {"ignore": ["q_proj"]}),
            (69, '"dequantize" is not known', "ct_w4", {"dequantize": True}),
            (69, '"dequantize" is not known', "ct_fp8", {"dequantize": True}),
            (69, '"dequantize" is not known', "modelopt_fp8", {"dequantize": True}),
            (69, '"dequantize" is not known', "awq", {"dequantize": True}),
            (65, '"dequantize" ', "ct_nvfp4", {"dequantize": 1}),
            (69, '"bnb_4bit_quant_type" other than nf4', "nf4", {"bnb_4bit_quant_type": "fp4"}),
            (69, 'needs either "load_in_4bit" or "load_in_8bit"', "nf4", {"load_in_8bit": True}),
            (65, "is quantised, and", "llm_int8", {"llm_int8_skip_modules": ["q_proj"]}),
            (69, '"frobnicate" is not known', "llm_int8", {"frobnicate": 1}),
        ]:
            self.refused(code, needle, base, **config)

    def test_bitsandbytes_without_a_method(self):
        """Folders of its first versions say "load_in_8bit" alone."""
        self.assertEqual(saccade("inspect", self.model("llm_int8", quant_method=None)).returncode, 0)
        self.refused(69, "quantised with an unnamed method", "llm_int8", quant_method=None, load_in_8bit=False)

    def test_modelopt_in_a_file_of_its_own(self):
        """Older exports: config.json says nothing of its weights."""
        for code, needle, more in [(0, "", {}),
                                   (0, "", {"kv_cache_quant_algo": "FP8"}),
                                   (69, 'model: "quantization" of hf_quant_config.json: "kv_cache_quant_algo" other than floats of 8 bits',
                                    {"kv_cache_quant_algo": "NVFP4"}),
                                   (69, 'hf_quant_config.json: "quant_algo" other than FP8', {"quant_algo": "W4A8_AWQ", "group_size": 128}),
                                   (65, 'is quantised, and "quantization" of hf_quant', {"exclude_modules": ["q_proj"]}),
                                   (69, 'hf_quant_config.json: "frobnicate" is not known', {"frobnicate": 1}),
                                   (69, "f8_e4m3", {"quant_algo": None})]:
            with self.subTest(needle=needle):
                folder = self.model("modelopt_fp8")
                path = os.path.join(folder, "config.json")
                with open(path, encoding="utf-8") as f:
                    content = json.load(f)
                del content["quantization_config"]
                with open(path, "w", encoding="utf-8") as f:
                    json.dump(content, f)
                said = {"quant_algo": "FP8", "kv_cache_quant_algo": None, "exclude_modules": ["lm_head"], **more}
                with open(os.path.join(folder, "hf_quant_config.json"), "w", encoding="utf-8") as f:
                    json.dump({"producer": {"name": "modelopt", "version": "0.29.0"}, "quantization": said}, f)
                run = saccade("inspect", folder)
                if code:
                    self.assert_refused(run, code, needle)
                else:
                    self.assertIn("fp8", run.stdout)

    def test_a_file_left_beside_floats(self):
        folder = self.path("model")
        shutil.copytree(os.path.join(MODELS, "llama_f32"), folder)
        with open(os.path.join(folder, "hf_quant_config.json"), "w", encoding="utf-8") as f:
            json.dump({"quantization": {"quant_algo": "W4A8_AWQ", "group_size": 128}}, f)
        run = saccade("inspect", folder)
        self.assertEqual(run.returncode, 0, run.stderr)

    def configured(self, name):
        """A model's folder, and what its config.json says."""
        folder = self.model(name)
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
            return folder, json.load(f)

    def ask_as(self, folder, content, quantization):
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
            json.dump({**content, "quantization_config": quantization}, f)
        return saccade("ask", "-m", folder, "--max-tokens", "8", "--temperature", "0", "hello")

    def says_the_same(self, folder, content, quantization):
        own, other = self.ask_as(folder, content, content["quantization_config"]), self.ask_as(folder, content, quantization)
        self.assertEqual((own.returncode, other.returncode), (0, 0), other.stderr)
        self.assertTrue(own.stdout.strip())
        self.assertEqual(own.stdout, other.stdout)

    def test_static_fp8_without_blocks(self):
        """AutoFP8 and vLLM: no weight_block_size, and weight_scale in the place of weight_scale_inv."""
        folder, content = self.configured("modelopt_fp8")
        said = {"quant_method": "fp8", "activation_scheme": "static", "ignored_layers": ["lm_head"]}
        self.says_the_same(folder, content, said)
        self.assert_refused(self.ask_as(folder, content, {**said, "activation_scheme": "dynamic"}), 69,
                            "input_scale beside it, and activations are dynamic")

    def test_dynamic_fp8_without_blocks(self):
        """vLLM's folders of an "activation_scheme" dynamic: the same numbers as compressed-tensors' with a scale a token."""
        folder, content = self.configured("ct_fp8_tensor")
        content["quantization_config"]["config_groups"]["group_0"]["input_activations"] = {
            "num_bits": 8, "type": "float", "strategy": "token", "dynamic": True}
        said = {"quant_method": "fp8", "activation_scheme": "dynamic", "ignored_layers": ["lm_head"]}
        self.says_the_same(folder, content, said)
        self.assert_refused(self.ask_as(folder, content, {**said, "weight_block_size": [128, 128]}), 65, "has no weight_scale_inv beside it")

    def test_fused_experts_without_scales(self):
        """A tensor with all experts' numbers becomes one a matrix, beside which are no scales."""
        folder = self.path("model")
        shutil.copytree(os.path.join(MODELS, "qwen3_moe"), folder)
        path, weights = os.path.join(folder, "config.json"), os.path.join(folder, "model.safetensors")
        with open(path, encoding="utf-8") as f:
            content = json.load(f)
        content["quantization_config"] = {"quant_method": "bitsandbytes", "load_in_8bit": True}
        with open(path, "w", encoding="utf-8") as f:
            json.dump(content, f)
        n, k, hidden = content["num_experts"], content["moe_intermediate_size"], content["hidden_size"]
        tensors = {name: t for name, t in read_tensors(weights).items() if ".mlp.experts." not in name}
        for layer in (0, 2):
            name = f"model.layers.{layer}.mlp.experts."
            tensors[name + "gate_up_proj"] = ["I8", [n, 2 * k, hidden], bytes(2 * n * k * hidden)]
            tensors[name + "down_proj"] = ["I8", [n, hidden, k], bytes(n * k * hidden)]
        write_tensors(weights, tensors)
        self.assert_refused(saccade("inspect", folder), 65, "gate_proj.weight has no SCB beside it")
        scales = {"model.layers.0.mlp.experts.0.gate_proj.SCB": ["F32", [k], struct.pack("<f", 1) * k]}
        write_tensors(weights, {**tensors, **scales})
        self.assert_refused(saccade("inspect", folder), 65, "gate_proj.SCB has no weight in i8 beside it")

    def test_groups_of_compressed_tensors(self):
        four = {"num_bits": 4, "type": "int", "group_size": 32}
        for needle, change in [
            ("a group without \"weights\"", {"group_1": {}}),
            ('"input_activations"', {"group_0": {"weights": four, "input_activations": {"num_bits": 8, "dynamic": False}}}),
            ('"actorder"', {"group_0": {"weights": {**four, "actorder": "group"}}}),
            ("packed weights of another type", {"group_0": {"weights": {**four, "num_bits": 3}}}),
        ]:
            base = {"group_0": {"weights": four}}
            self.refused(69, needle, "ct_w4", config_groups={**base, **change})
        self.refused(69, 'more than 64 entries in "config_groups"', "ct_w4", config_groups={f"group_{i}": {"weights": four} for i in range(65)})
        patterns = {"weights": four, "targets": ["re:.*proj"] * 257}
        self.refused(69, 'more than 256 patterns in "targets"', "ct_w4", config_groups={"group_0": patterns})

    def test_several_groups(self):
        """A group a module by its targets, with a format and sizes of its own."""
        first, folders = "model.layers.0.", {}
        for base in ("ct_w4", "ct_w8", "ct_fp8", "ct_w8a8", "ct_nvfp4"):
            with open(os.path.join(MODELS, "packed_" + base, "config.json"), encoding="utf-8") as f:
                quantization = json.load(f)["quantization_config"]
            folders[base] = (quantization["config_groups"]["group_0"], quantization["format"],
                             read_tensors(os.path.join(MODELS, "packed_" + base, "model.safetensors")))

        def mixed(one, other, targets=(["re:model\\.layers\\.0\\..*"], ["Linear"]), **config):
            """Layer 0 of one folder, the rest of another, with the groups of both."""
            def change(t):
                for name in [n for n in t if n.startswith(first)]:
                    t.pop(name)
                t.update({n: v for n, v in folders[one][2].items() if n.startswith(first)})
            groups = {name: {**folders[base][0], "format": folders[base][1], "targets": target}
                      for name, base, target in zip(("b", "a"), (one, other), targets)}
            return self.model(other, change, **{"format": "mixed-precision", "config_groups": groups, **config})

        def types(folder):
            run = saccade("inspect", folder, "--tensors", "--json")
            self.assertEqual(run.returncode, 0, run.stderr)
            tensors = {t["name"]: t["dtype"] for t in json.loads(run.stdout)["tensors"]}
            return tensors[Q + "weight"], tensors[DOWN + "weight"]

        for one, other, want in (("ct_w4", "ct_w8", ("packed_4", "packed_8")), ("ct_fp8", "ct_w4", ("fp8", "packed_4")),
                                 ("ct_nvfp4", "ct_fp8", ("fp4", "fp8")), ("ct_w8a8", "ct_nvfp4", ("i8", "fp4")),
                                 ("ct_w8", "ct_w8a8", ("packed_8", "i8"))):
            with self.subTest(one=one, other=other):
                self.assertEqual(types(mixed(one, other)), want)
                run = saccade("ask", "-m", self.path("model"), "--max-tokens", "4", "--temperature", "0", "hello")
                self.assertEqual(run.returncode, 0, run.stderr)
        for base in ("ct_w4", "ct_w8a8", "ct_nvfp4"):
            with self.subTest(base=base):
                answers = [saccade("ask", "-m", folder, "--max-tokens", "8", "--temperature", "0", "hello")
                           for folder in (os.path.join(MODELS, "packed_" + base), mixed(base, base))]
                self.assertEqual(answers[0].stdout, answers[1].stdout)
                self.assertEqual(answers[1].returncode, 0, answers[1].stderr)
        names = [first + n for n in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj",
                                     "mlp.up_proj", "mlp.down_proj")]
        self.assertEqual(types(mixed("ct_w4", "ct_w8", (names, ["re:.*proj"]))), ("packed_4", "packed_8"))
        for code, needle, targets in [
            (69, 'down_proj.weight_packed is a target of two "config_groups", b and a', (["re:.*"], ["re:.*proj"])),
            (69, 'down_proj.weight_packed is a target of two "config_groups", b and a', (["Linear"], ["Linear"])),
            (65, 'a target of none of several "config_groups"', (["re:.*layers.0.*q_proj"], ["re:.*layers.1.*"])),
            (69, "a class other than Linear, Qwen2MLP", (["re:.*layers.0.*"], ["Qwen2MLP"])),
            (65, '"targets": pattern "(": ', (["re:("], ["Linear"])),
            (65, '"targets": pattern "\\C": ', (["re:\\C"], ["Linear"])),
            (65, 'a target of none of several "config_groups"', (["q_proj"], ["re:.*layers.1.*"])),
            (65, '"targets" must be a list of names', ([3], ["Linear"])),
            (65, "does not hold the [64, 96]", (["Linear"], ["re:.*layers.0.*"])),
        ]:
            with self.subTest(targets=targets):
                self.assert_refused(saccade("inspect", mixed("ct_w4", "ct_w8", targets)), code, needle)

    def test_groups_of_fp4(self):
        for code, base, needle, more in [
            (69, "ct_nvfp4", "symmetric floats of 4 bits in groups of 16: not supported with NVFP4", {"group_size": 32}),
            (69, "ct_mxfp4", "symmetric floats of 4 bits in groups of 32: not supported with MXFP4", {"group_size": 16}),
            (69, "ct_mxfp4", "symmetric floats of 4 bits", {"num_bits": 8}),
            (69, "ct_nvfp4", "symmetric floats of 4 bits", {"type": "int"}),
            (69, "ct_nvfp4", "symmetric floats of 4 bits", {"symmetric": False}),
            (65, "ct_nvfp4", '"group_size" is 1099511627776', {"group_size": 1 << 40}),
            (65, "ct_nvfp4", '"group_size" is -7', {"group_size": -7}),
        ]:
            weights = {"num_bits": 4, "type": "float", "symmetric": True, "group_size": 32 if base == "ct_mxfp4" else 16, **more}
            self.refused(code, needle, base, config_groups={"group_0": {"weights": weights}})
        four = {"num_bits": 4, "type": "float", "group_size": 16}
        groups = {"group_0": {"weights": four, "input_activations": {**four, "dynamic": "local"}}}
        self.assertEqual(self.unused("ct_nvfp4", config_groups=groups), ["activations in 4 bits"])
        self.assertEqual(self.unused("ct_nvfp4", config_groups=groups, dequantize=True), [])
        self.assertEqual(self.unused("ct_nvfp4"), [])
        eight = {"weights": {"num_bits": 8, "type": "float", "strategy": "channel"}, "format": "float-quantized", "targets": ["re:.*none"]}
        groups = {"group_0": {**groups["group_0"], "targets": ["Linear"], "format": "nvfp4-pack-quantized"}, "group_1": eight}
        run = saccade("inspect", self.model("ct_nvfp4", config_groups=groups, dequantize=True, format="mixed-precision"))
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_activations_in_four_bits(self):
        """Weights are read alone, and a line says so; the answer is that of a folder that says not to round them."""
        answers = []
        for said, line in (({}, 'saccade: quantization_config: "activations in 4 bits": not known here, without effect'), ({"dequantize": True}, "")):
            run = saccade("ask", "-m", self.model("modelopt_nvfp4", **said), "--max-tokens", "4", "hello")
            self.assertEqual(run.returncode, 0, run.stderr)
            answers.append(run.stdout)
            self.assertIn(line, run.stderr)
            self.assertEqual("without effect" in run.stderr, bool(line))
        self.assertEqual(*answers)
        self.assertEqual(self.unused("modelopt_nvfp4", quant_algo="W4A16_NVFP4"), [])

    def test_kinds_of_hqq(self):
        weights = {"nbits": 4, "group_size": 32, "axis": 1, "view_as_float": False}
        for code, needle, config in [
            (69, '"nbits" other than 4', {"weight_quant_params": {**weights, "nbits": 3}}),
            (69, '"axis" other than 1', {"weight_quant_params": {**weights, "axis": 0}}),
            (69, '"view_as_float"', {"weight_quant_params": {**weights, "view_as_float": True}}),
            (69, '"channel_wise" false', {"weight_quant_params": {**weights, "channel_wise": False}}),
            (69, "scales and zeros that are quantised", {"weight_quant_params": weights, "zero_quant_params": {"nbits": 8}}),
            (69, '"offload_meta"', {"weight_quant_params": weights, "offload_meta": True}),
            (69, '"frobnicate" is not known', {"weight_quant_params": weights, "frobnicate": 1}),
            (69, '"nbits" other than 4', {"self_attn.q_proj": {"weight_quant_params": {**weights, "nbits": 8}}}),
            (69, '"quant_config" without', {"self_attn.q_proj": {}}),
            (69, 'no "quant_config"', None),
        ]:
            self.refused(code, needle, "hqq", quant_config=config)
        self.refused(65, "is quantised, and", "hqq", skip_modules=["q_proj"])
        by_name = {"self_attn.q_proj": {"weight_quant_params": weights}, "mlp.up_proj": None}
        self.assertEqual(saccade("inspect", self.model("hqq", quant_config=by_name)).returncode, 0)

    def test_modules_that_are_left_alone(self):
        """Both spellings of a module's name; a listed one that is quantised all the same is a contradiction."""
        for names in (["self_attn"], ["model.layers.0"], ["layers.0.self_attn.q_proj"], ["q_proj"]):
            self.refused(65, "is quantised, and", "awq", modules_to_not_convert=names)
        for names in (["layers.00"], ["proj"], ["visual"], []):
            with self.subTest(names=names):
                folder = self.model("awq", modules_to_not_convert=names)
                self.assertEqual(saccade("inspect", folder).returncode, 0)

    def test_damaged_tensors(self):
        def without(name):
            return lambda t: t.pop(name)

        def shape(name, *dims):
            return lambda t: t[name].__setitem__(1, list(dims))

        def put(name, at, data):
            def change(t):
                t[name][2] = t[name][2][:at] + data + t[name][2][at + len(data):]
            return change

        def add(name, *tensor):
            return lambda t: t.__setitem__(name, list(tensor))

        one = struct.pack("<f", 1)
        nan16, nan32 = b"\x00\x7e", struct.pack("<f", float("nan"))
        for code, needle, base, change in [
            (65, Q + "qweight has no scales beside it", "awq", without(Q + "scales")),
            (65, DOWN + "qweight has no qzeros beside it", "awq", without(DOWN + "qzeros")),
            (65, Q + "scales is f16 [64, 2]", "awq", shape(Q + "scales", 64, 2)),
            (65, Q + "qzeros is i32 [8, 2]", "awq", shape(Q + "qzeros", 8, 2)),
            (65, Q + "qweight has 8 inputs, no multiple", "awq", shape(Q + "qweight", 8, 64)),
            (65, Q + "scales has a scale that is not finite", "awq", put(Q + "scales", 6, nan16)),
            (65, Q + "g_idx puts input 3 into group 2, of 2 groups", "gptq_4", put(Q + "g_idx", 12, b"\x02\0\0\0")),
            (65, Q + "g_idx puts input 0 into group -1", "gptq_4", put(Q + "g_idx", 0, b"\xff" * 4)),
            (65, Q + "g_idx is not i32 [64]", "gptq_4", shape(Q + "g_idx", 8, 8)),
            (65, Q + "qzeros is i32", "gptq_8", shape(Q + "qzeros", 16, 2)),
            (65, "does not hold the [64, 65]", "ct_w4", put(Q + "weight_shape", 8, struct.pack("<q", 65))),
            (65, "does not hold the [-1, 64]", "ct_w4", put(Q + "weight_shape", 0, struct.pack("<q", -1))),
            (65, Q + "weight_zero_point is i32", "ct_w4_zeros", shape(Q + "weight_zero_point", 2, 8)),
            (65, Q + "weight_scale has a scale that is not finite", "ct_fp8", put(Q + "weight_scale", 4, nan32)),
            (65, Q + "weight_scale has a scale that is not finite", "ct_mxfp4", put(Q + "weight_scale", 5, b"\xfd")),
            (69, Q + "weight_packed has zeros or an order of inputs beside it", "ct_nvfp4", add(Q + "weight_zero_point", "F32", [1], one)),
            (65, Q + "weight has a weight_scale_inv and a weight_scale beside it", "fp8_static", add(Q + "weight_scale", "F32", [1], one)),
            (65, Q + "weight_scale is f32 [32, 2]", "ct_fp8", shape(Q + "weight_scale", 32, 2)),
            (65, Q + "weight_scale_inv is f32", "fp8_block", shape(Q + "weight_scale_inv", 2, 3)),
            (65, Q + "activation_scale is nan, no scale", "fp8_static", put(Q + "activation_scale", 0, nan32)),
            (65, Q + "activation_scale is 0, no scale", "fp8_static", put(Q + "activation_scale", 0, bytes(4))),
            (65, Q + "activation_scale is f32 [2]", "fp8_static", lambda t: t.__setitem__(
                Q + "activation_scale", ["F32", [2], bytes(8)])),
            (65, Q + "input_scale is i32 []", "ct_w8a8_static", lambda t: t[Q + "input_scale"].__setitem__(0, "I32")),
            (65, Q + "weight has no input_scale beside it", "ct_w8a8_static", without(Q + "input_scale")),
            (69, Q + "weight has an input_zero_point beside it", "ct_w8a8_static", lambda t: t.__setitem__(
                Q + "input_zero_point", ["I8", [1], b"\3"])),
            (69, "input_scale beside it, and activations are dynamic", "ct_fp8", lambda t: t.__setitem__(
                Q + "input_scale", ["F32", [1], b"\0\0\x80?"])),
            (69, "input_scale beside it, and activations are dynamic", "ct_w8a8", add(Q + "input_scale", "F32", [1], one)),
            (69, "activation_scale beside it, and activations are dynamic", "ct_fp8", add(Q + "activation_scale", "F32", [1], one)),
            (65, "an input_scale and an activation_scale", "fp8_static", add(Q + "input_scale", "F32", [], one)),
            (65, "an input_scale and an activation_scale", "ct_w8a8_static", add(Q + "activation_scale", "F32", [1], one)),
            (69, Q + "pre_quant_scale: scales of channels ahead", "modelopt_fp8", add(Q + "pre_quant_scale", "F32", [64], one * 64)),
            (65, Q + "weight has no input_scale beside it", "modelopt_fp8", without(Q + "input_scale")),
            (65, Q + "weight_scale has a scale that is not finite", "modelopt_fp8", put(Q + "weight_scale", 0, nan32)),
            (65, Q + "weight_packed has no weight_scale beside it", "ct_nvfp4", without(Q + "weight_scale")),
            (65, Q + "weight_packed has no weight_global_scale beside it", "ct_nvfp4", without(Q + "weight_global_scale")),
            (65, Q + "weight has no weight_scale_2 beside it", "modelopt_nvfp4", without(Q + "weight_scale_2")),
            (65, Q + "weight_scale is f8_e4m3 [32, 8]", "ct_nvfp4", shape(Q + "weight_scale", 32, 8)),
            (65, Q + "weight_scale is u8 [128, 1]", "ct_mxfp4", shape(Q + "weight_scale", 128, 1)),
            (65, Q + "weight_scale is u8 [64, 4]", "ct_nvfp4", lambda t: t[Q + "weight_scale"].__setitem__(0, "U8")),
            (65, "two dimensions of u8 with whole groups of 16", "ct_nvfp4", shape(Q + "weight_packed", 512, 4)),
            (65, "two dimensions of u8 with whole groups of 32", "ct_mxfp4", shape(Q + "weight_packed", 256, 8)),
            (65, Q + "weight_packed is i8, not two dimensions of u8", "ct_nvfp4",
             lambda t: t[Q + "weight_packed"].__setitem__(0, "I8")),
            (65, Q + "weight_scale has a scale that is not finite", "ct_nvfp4", put(Q + "weight_scale", 5, b"\xff")),
            (65, Q + "weight_scale has a scale that is negative", "modelopt_nvfp4", put(Q + "weight_scale", 5, b"\x81")),
            (65, Q + "weight_scale has a scale that is not finite", "ct_mxfp4", put(Q + "weight_scale", 5, b"\xff")),
            (65, Q + "weight_scale has a scale that is not finite", "ct_nvfp4",
             put(Q + "weight_global_scale", 0, struct.pack("<f", 1e-37))),
            (65, Q + "weight_global_scale is nan, no scale", "ct_nvfp4", put(Q + "weight_global_scale", 0, nan32)),
            (65, Q + "weight_global_scale is 0, no scale", "ct_nvfp4", put(Q + "weight_global_scale", 0, bytes(4))),
            (65, Q + "weight_scale_2 is -1, no scale", "modelopt_nvfp4",
             put(Q + "weight_scale_2", 0, struct.pack("<f", -1))),
            (69, Q + "pre_quant_scale: scales of channels ahead", "modelopt_nvfp4",
             add(Q + "pre_quant_scale", "F32", [64], one * 64)),
            (65, Q + "W_q has no scale beside it", "hqq", without(Q + "scale")),
            (65, Q + "W_q has no zero beside it", "hqq", without(Q + "zero")),
            (65, Q + "W_q has no shape beside it", "hqq", without(Q + "shape")),
            (65, Q + "scale is f16 [64, 2]", "hqq", shape(Q + "scale", 64, 2)),
            (65, Q + "zero is f16 [1, 128]", "hqq", shape(Q + "zero", 1, 128)),
            (65, Q + "scale has a scale that is not finite", "hqq", put(Q + "scale", 6, nan16)),
            (65, Q + "zero has a scale that is not finite", "hqq", put(Q + "zero", 6, nan16)),
            (65, "does not hold the [64, 65] that its shape says", "hqq", put(Q + "shape", 8, struct.pack("<q", 65))),
            (65, "does not hold the [-1, 64]", "hqq", put(Q + "shape", 0, struct.pack("<q", -1))),
            (65, "does not hold the [4611686018427387904, 64]", "hqq", put(Q + "shape", 0, struct.pack("<q", 1 << 62))),
            (69, "rows of 32 elements in groups of 64", "hqq", lambda t: [
                t[Q + "W_q"].__setitem__(1, [32, 64]), t[Q + "shape"].__setitem__(2, struct.pack("<qq", 128, 32))]),
            (65, "groups of 32, and a group_size of 1099 beside it", "hqq", put(Q + "group_size", 0, struct.pack("<i", 1099))),
            (69, "W_q: axis is 0 beside it; only 1 is", "hqq", put(Q + "axis", 0, bytes(4))),
            (69, "W_q: nbits is 8 beside it; only 4 is", "hqq", put(Q + "nbits", 0, b"\x08")),
            (69, "another packing than 4bit_u8", "hqq", put(Q + "packing", 0, b"8")),
            (65, "its state says", "nf4", lambda t: t.__setitem__(
                Q + "weight", ["U8", [1024, 1], t[Q + "weight"][2][:1024]])),
            (65, "quant_state.bitsandbytes__nf4", "nf4", put(Q + "weight.quant_state.bitsandbytes__nf4", 0, b"[")),
            (69, "has other levels than nf4's", "nf4", put(Q + "weight.quant_map", 0, nan32)),
            (65, Q + "weight.absmax has a scale that is not finite", "nf4", put(Q + "weight.absmax", 8, nan32)),
            (65, Q + "weight has no SCB beside it", "llm_int8", without(Q + "SCB")),
            (65, Q + "SCB is f32 [8, 8]", "llm_int8", shape(Q + "SCB", 8, 8)),
            (65, Q + "SCB has a scale that is not finite", "llm_int8", put(Q + "SCB", 252, nan32)),
            (65, Q + "weight_format is u8 [1, 1, 2]", "llm_int8", lambda t: t.__setitem__(
                Q + "weight_format", ["U8", [1, 1, 2], b"\0\0"])),
            (69, Q + "weight_format is 2, an order other than", "llm_int8", put(Q + "weight_format", 0, b"\2")),
            (65, Q + "weight has no weight.nested_absmax", "nf4_nested", without(Q + "weight.nested_absmax")),
        ]:
            self.refused(code, needle, base, change)

    def test_scales_of_a_cache(self):
        """They are of keys and values in 8 bits; no cache format reads them, and a line says so."""
        one = ["F32", [1], struct.pack("<f", 1)]
        for base, names in (("modelopt_fp8", ("k_proj.k_scale", "v_proj.v_scale")), ("ct_w8a8", ("k_scale", "v_scale"))):
            with self.subTest(base=base):
                folder = self.model(base, lambda t: [t.__setitem__("model.layers.0.self_attn." + n, one) for n in names])
                run = saccade("ask", "-m", folder, "--max-tokens", "1", "hello")
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertIn('safetensors: "*.k_scale (1)", "*.v_scale (1)": not known here, without effect', run.stderr)
                keys = json.loads(saccade("inspect", folder, "--json").stdout)["unknown_keys"]
                self.assertEqual([k["key"] for k in keys], ["*.k_scale (1)", "*.v_scale (1)"])
        self.assertNotIn("k_scale", saccade("ask", "-m", self.model("ct_w8a8"), "--max-tokens", "1", "hello").stderr)
        scheme = {"dynamic": False, "num_bits": 8, "type": "float"}
        for base in ("modelopt_fp8", "modelopt_nvfp4", "ct_fp8", "ct_w4"):
            four = ["activations in 4 bits"] if base == "modelopt_nvfp4" else []
            self.assertEqual(self.unused(base, kv_cache_scheme=scheme), ["kv_cache_scheme"] + four)
            self.assertEqual(self.unused(base, kv_cache_scheme={}), four)

    def test_zero_points_of_zero(self):
        """compressed-tensors writes them for symmetric activations too."""
        folder = self.model("ct_w8a8_static", lambda t: t.__setitem__(Q + "input_zero_point", ["I8", [1], b"\0"]))
        run = saccade("inspect", folder)
        self.assertEqual(run.returncode, 0, run.stderr)


if __name__ == "__main__":
    main()
