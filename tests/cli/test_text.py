"""saccade eval --text and saccade inspect --attention: the demo model is no reader of texts, so what is told and
that it is told again is tested, not what is found."""
import json
import math
import re
import xml.etree.ElementTree

from cli import Case, main, saccade, sample

TEXT = "The cat sat on the mat and looked at the moon. " * 30
METHODS = {"prefill", "kv", "decode", "rope", "reduce", "kept_ratio", "attention_flops_saved", "attention_pairs_saved",
           "decode_rows_read", "decode_rows", "decode_budget", "prefill_mass", "decode_mass", "select_share", "selection_cache_hits",
           "kv_bytes_per_token", "kv_factor"}
SVG = "{http://www.w3.org/2000/svg}"


class Text(Case):
    def eval(self, *arguments):
        run = saccade("eval", "--json", *arguments)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        out = json.loads(run.stdout)
        self.assertEqual(set(out["methods"]), METHODS)
        self.assertTrue(math.isfinite(out["nll"]) and out["nll"] > 0)
        self.assertGreater(out["seconds_prefill"], 0)
        self.assertGreater(out["seconds_decode"], 0)
        return out

    def again(self, *arguments):
        """Two runs, the second with one thread, which differ in times only."""
        one, two = self.eval(*arguments), self.eval(*arguments, "--threads", "1")
        for out in one, two:
            del out["seconds_prefill"], out["seconds_decode"], out["methods"]["select_share"]
        self.assertEqual(one, two)
        return one

    def test_perplexity(self):
        out = self.again("--text", self.path("a.txt", TEXT), "--length", "96", "--tail", "24", "--samples", "3")
        self.assertEqual((out["length"], out["tail"], out["samples"]), (96, 24, 3))
        self.assertTrue(out["task"].endswith("a.txt"))
        self.assertAlmostEqual(math.log(out["perplexity"]), out["nll"], 6)
        self.assertEqual((out["methods"]["prefill"], out["methods"]["decode_rows_read"]), ("dense", 1))
        self.assertAlmostEqual(out["methods"]["decode_rows"], (73 + 95) / 2)  # 23 steps, each with its own row
        self.assertNotIn("found", out)

    def test_windows_are_as_many_as_there_are(self):
        out = self.eval("--text", self.path("a.txt", TEXT[:200]), "--length", "40", "--tail", "4", "--samples", "99")
        self.assertGreaterEqual(out["samples"], 1)
        self.assertLessEqual(out["samples"], 5)

    def test_methods_change_what_is_told(self):
        text = self.path("a.txt", TEXT)
        shape = "--text", text, "--length", "160", "--tail", "24", "--samples", "1"
        dense = self.eval(*shape)
        out = self.eval(*shape, "--prefill", "zipvl:min=0,tau=0.7", "--decode", "quest:page=8,budget=32,skip=0")
        self.assertLess(out["methods"]["kept_ratio"], 1)
        self.assertLessEqual(out["methods"]["decode_rows"], 32)
        self.assertNotEqual(out["nll"], dense["nll"])

    def test_a_prompt_of_one_token_is_a_prompt(self):
        text = self.path("a.txt", TEXT)
        rows = []
        for tail in "63", "62":
            out = self.eval("--text", text, "--length", "64", "--tail", tail, "--samples", "1", "--decode",
                            "h2o:heavy=20,recent=20")
            rows.append(out["methods"]["decode_rows"])
            self.assertGreater(out["methods"]["kv_bytes_per_token"], 0)
        self.assertLess(abs(rows[0] - rows[1]), 1)
        self.assertGreater(rows[0], 20)

    def test_passkey(self):
        out = self.again("--text", "passkey", "--length", "400", "--samples", "3", "--seed", "5")
        self.assertEqual((out["task"], out["length"], out["samples"], out["pairs"]), ("passkey", 400, 3, 0))
        self.assertTrue(0 <= out["found"] <= 1)
        depths = out["found_by_depth"]
        self.assertEqual([i for i, found in enumerate(depths) if found is not None], [0, 5, 9])
        self.assertAlmostEqual(sum(found for found in depths if found is not None) / 3, out["found"])
        self.assertNotIn("perplexity", out)

    def test_keys_and_values(self):
        full = self.again("--text", "kv", "--length", "400", "--samples", "2")
        some = self.again("--text", "kv", "--length", "400", "--samples", "2", "--pairs", "3")
        self.assertEqual((full["pairs"], some["pairs"]), (0, 3))
        self.assertNotEqual(full["nll"], some["nll"])  # filler is not pairs

    def test_a_table_for_people(self):
        run = saccade("eval", "--text", "kv", "--length", "300", "--samples", "1")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        for needle in "task     kv, 1 prompt of 300 tokens", "methods  prefill dense", "found    ", "decode   ":
            self.assertIn(needle, run.stdout)

    def test_refusals(self):
        text = self.path("short.txt", "Too short.")
        for needle, arguments, code in [
                ("too short", ["--text", "kv", "--length", "256", "--pairs", "200"], 64),
                ("too short", ["--text", "passkey", "--length", "20"], 64),
                ("asks for windows of 512", ["--text", text, "--length", "512"], 64),
                ("--tail 64 must be less", ["--text", text, "--length", "64", "--tail", "64"], 64),
                ("--out is for a question set", ["--text", "passkey", "--out", self.path("out")], 64),
                ("--prompt is for a question set", ["--prompt=open", "--text", "passkey"], 64),
                ("--retry is for a question set", ["--text", "passkey", "--retry"], 64),
                ("--tail is for --text", ["samples/drawn/set.json", "--tail", "64"], 64),
                ("none.txt", ["--text", self.path("none.txt")], 66)]:
            with self.subTest(arguments):
                self.assert_refused(saccade("eval", *arguments), code, needle)


    def test_a_settings_file_may_hold_options_of_sets(self):
        config = self.path("run.yaml", f"eval: {{prompt: open, out: {self.path('out')}, length: 300, samples: 1}}\n")
        run = saccade("eval", "--config", config, "--text", "passkey")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertIn("task     passkey, 1 prompt of 300 tokens", run.stdout)


class Attention(Case):
    def draw(self, name, *arguments):
        path = self.path(name)
        run = saccade("inspect", "--attention", path, *arguments)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        with open(path, encoding="utf-8") as f:
            return f.read()

    def test_a_picture(self):
        row = sample(video=False)
        arguments = "--image", row["file"], "--prefill", "zipvl:min=0,tau=0.8", row["question"]
        drawn = self.draw("kept.svg", *arguments)
        self.assertEqual(drawn, self.draw("again.svg", *arguments, "--threads", "1"))
        page = xml.etree.ElementTree.fromstring(drawn)
        self.assertEqual(page.tag, SVG + "svg")
        images = page.findall(f".//{SVG}image")
        self.assertTrue(images and all(i.get("href").startswith("data:image/jpeg;base64,") for i in images))
        words = " ".join(t.text or "" for t in page.iter(SVG + "text"))
        self.assertIn(row["question"], words)
        self.assertRegex(words, r"prefill zipvl:tau=0\.8,.*64 of them visual")
        self.assertEqual(len(re.findall(r"\blayer \d+", words)), 9)

    def test_what_is_kept_is_what_is_drawn(self):
        picture = "--image", sample(video=False)["file"], "What is this?"
        some, few = (self.draw(f"{tau}.svg", "--prefill", f"zipvl:min=0,tau={tau}", *picture) for tau in ("0.9", "0.5"))
        words = re.compile(r"<text[^<]*</text>")
        self.assertNotEqual(words.sub("", some), words.sub("", few))

    def test_a_map(self):
        row = sample(video=True)
        arguments = "--map", "--video", row["file"], "--num-frames", "4", row["question"]
        pages = {name: xml.etree.ElementTree.fromstring(self.draw(name + ".svg", *options, *arguments)) for name, options in {
            "zipvl": ("--prefill", "zipvl:min=0,tau=0.8"), "both": ("--prefill", "zipvl:min=0,tau=0.8", "--decode", "twilight:p=0.8"),
            "quest": ("--decode", "quest:budget=64,page=16"), "all": ("--decode", "twilight:p=0.8,union=0")}.items()}
        words = {name: [t.text or "" for t in page.iter(SVG + "text")] for name, page in pages.items()}
        parts = lambda name: [w.split(":")[0] for w in words[name] if "of the prompt's tokens" in w]
        kept, read = "Kept while the prompt was read", "Read while answering, mean of the steps"
        self.assertEqual([parts(n) for n in ("zipvl", "both", "quest", "all")], [[kept], [kept, read], [read], [read]])
        self.assertIn("its 6 query heads", " ".join(words["all"]))
        self.assertIn("4", words["zipvl"])  # the last frame
        for page in pages.values():
            self.assertTrue(page.find(SVG + "title").text and page.find(SVG + "desc").text)
            self.assertTrue([p for p in page.iter(SVG + "path") if p.get("d")])

    def test_refusals(self):
        out = self.path("out.svg")
        self.assert_refused(saccade("inspect", "--map"), 64, "--map wants --attention")
        run = saccade("inspect", "--attention", out, "--map", "--image", sample(video=False)["file"], "--decode", "snapkv:cap=64", "What?")
        self.assert_refused(run, 64, "left out no tokens to show")
        self.assert_refused(saccade("inspect", "--attention", out, "What?"), 64, "--attention wants one question")
        run = saccade("inspect", "--attention", out, "--image", self.path("none.png"), "What?")
        self.assert_refused(run, 66, "none.png")
        row = sample(video=False)
        for prefill in "dense", "zipvl":  # the second reads so short a prompt densely
            run = saccade("inspect", "--attention", out, "--image", row["file"], "--prefill", prefill, row["question"])
            self.assert_refused(run, 64, "chose no tokens to show", "zipvl:min=0")


if __name__ == "__main__":
    main()
