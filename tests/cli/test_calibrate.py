"""saccade calibrate: what it measures is what --decode duo reads from the model's folder; and what is refused."""
import json
import os
import struct

from cli import Case, main, saccade

DRAWN = "samples/drawn"
LAYERS, HEADS = 9, 2


def floats(path):
    """The one tensor of a file: its name, shape and numbers."""
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(n))
        data = f.read()
    ((name, t),) = header.items()
    assert t["dtype"] == "F32" and t["data_offsets"] == [0, len(data)], t
    return name, t["shape"], struct.unpack(f"<{len(data) // 4}f", data)


class Calibrate(Case):
    def set(self, n_videos, n_questions):
        with open(f"{DRAWN}/set.json", encoding="utf-8") as f:
            videos = sorted(json.load(f), key=lambda v: int(v["sub_category"].split()[0]))[:n_videos]
        return self.path("set.json", json.dumps([dict(v, questions=v["questions"][:n_questions]) for v in videos]))

    def calibrate(self, *words, code=0):
        run = saccade("calibrate", *words, "--videos", DRAWN, "--prompt", "open", "--threads", "1")
        self.assertEqual(run.returncode, code, run.stderr)
        return run

    def model(self, name):
        """The demo model's folder with another file of heads."""
        folder = self.path(name)
        os.makedirs(folder)
        for file in os.listdir("models/demo"):
            if file != "duo.safetensors":
                os.symlink(os.path.abspath(f"models/demo/{file}"), f"{folder}/{file}")
        return folder

    def write(self, folder, shape, numbers, name="lost", dtype="F32"):
        header = json.dumps({name: {"dtype": dtype, "shape": shape, "data_offsets": [0, 4 * len(numbers)]}}).encode()
        with open(f"{folder}/duo.safetensors", "wb") as f:
            f.write(struct.pack("<Q", len(header)) + header + struct.pack(f"<{len(numbers)}f", *numbers))

    def test_means_over_prompts(self):
        """The mean of two prompts is the mean of what each shows alone, and the file holds what is printed."""
        out, line = self.path("duo.safetensors"), ("--decode", "duo:start=4,recent=40")
        set_path = self.set(1, 2)
        both = json.loads(self.calibrate(set_path, out, "--json", *line).stdout)
        self.assertEqual((both["prompts"], both["failed"]), (2, 0))
        name, shape, numbers = floats(out)
        self.assertEqual((name, shape), ("lost", [LAYERS, HEADS]))
        told = [x for row in both["lost"] for x in row]
        for a, b in zip(numbers, told):
            self.assertAlmostEqual(a, b, 6)
        first = json.loads(self.calibrate(set_path, out, "--json", "--limit", "1", *line).stdout)
        with open(set_path, encoding="utf-8") as f:
            video = json.load(f)[0]
        last = self.path("last.json", json.dumps([dict(video, questions=video["questions"][1:])]))
        second = json.loads(self.calibrate(last, out, "--json", *line).stdout)
        for layer in range(LAYERS):
            for head in range(HEADS):
                mean = (first["lost"][layer][head] + second["lost"][layer][head]) / 2
                self.assertAlmostEqual(both["lost"][layer][head], mean, 8)
        self.assertNotEqual(first["lost"], second["lost"])

    def test_heads_of_the_folder_are_read(self):
        """As many heads stream as the share says, from the first answer on, though the prompt is too short to rank them."""
        folder = self.model("model")
        self.write(folder, [LAYERS, HEADS], [0.9] * 6 + [0.1] * 2 + [0.9] * 10)
        for n, share in (2, 0.12), (1, 0.06), (0, 0.01):
            run = saccade("ask", "-m", folder, "--image", "samples/picture0000.png", "--json", "--max-tokens", "2",
                          "Describe the image.", "--decode", f"duo:start=4,recent=40,window=64,share={share}")
            self.assertEqual(run.returncode, 0, run.stderr)
            told = json.loads(run.stdout)
            n_rows = told["usage"]["prompt_tokens"] + 1
            self.assertAlmostEqual(told["methods"]["decode_rows_read"], 1 - n / (LAYERS * HEADS) * (1 - 44 / n_rows), 6)

    def test_a_file_of_another_model_is_refused(self):
        for i, (shape, numbers, name, dtype, why) in enumerate((
                ([LAYERS, HEADS + 1], [0.5] * 27, "lost", "F32", "shape [9, 3], not [9, 2]"),
                ([LAYERS * HEADS], [0.5] * 18, "lost", "F32", "shape"),
                ([LAYERS, HEADS], [0.5] * 17 + [float("nan")], "lost", "F32", "element 17"),
                ([LAYERS, HEADS], [-0.1] + [0.5] * 17, "lost", "F32", "element 0"),
                ([LAYERS, HEADS], [0.5] * 18, "lost", "I32", "i32, not f32"),
                ([LAYERS, HEADS], [0.5] * 18, "gates", "F32", "no tensor lost"))):
            folder = self.model(f"model{i}")
            self.write(folder, shape, numbers, name, dtype)
            run = saccade("inspect", folder)
            self.assertNotEqual(run.returncode, 0)
            self.assertIn(f"{folder}/duo.safetensors: ", run.stderr)
            self.assertIn(why, run.stderr)
            self.assertEqual(run.stderr.count("\n"), 1)

    def test_what_cannot_be_measured_leaves_the_file_alone(self):
        out = self.path("duo.safetensors", "old")
        set_path = self.set(1, 1)
        for words, why in ((("--decode", "streaming"), "only duo"), (("--decode", "duo:heads=model"), "heads"),
                           (("--decode", "duo:recent=3000"), "long enough"), (("--decode", "duo:share=0"), "dense"),
                           (("--limit", "-1"), "limit")):
            run = saccade("calibrate", set_path, out, "--videos", DRAWN, *words)
            self.assertNotEqual(run.returncode, 0, words)
            self.assertIn(why, run.stderr)
            with open(out, encoding="utf-8") as f:
                self.assertEqual(f.read(), "old")
        run = saccade("calibrate", set_path)
        self.assertEqual(run.returncode, 64)
        self.assertIn("file to write", run.stderr)


if __name__ == "__main__":
    main()
