"""saccade reproduce: every table of samples/reproduce is read, runs or says what it lacks; figures beside the paper's; bad files."""
import glob
import json
import os
import re

from cli import Case, main, saccade

DRAWN = "samples/drawn"


class Reproduce(Case):
    def data(self):
        """Tiny samples of each format."""
        with open(f"{DRAWN}/set.json", encoding="utf-8") as f:
            videos = sorted(json.load(f), key=lambda v: int(v["sub_category"].split()[0]))[:2]
        self.path("videomme.json", json.dumps([dict(v, questions=v["questions"][:2]) for v in videos]))
        rows = [dict(id=f"{task}-{length}", task=task, length=length, input="What is it? It is", outputs=[out], metric=metric, max_tokens=2)
                for length in (4096, 8192) for task, metric, out in (("vt", "all", "never"), ("cwe", "part", "e"))]
        self.path("ruler.jsonl", "".join(json.dumps(r) + "\n" for r in rows))
        self.path("infinitebench.jsonl", "".join(json.dumps(dict(rows[0], id=t, task=t, metric=m)) + "\n" for t, m in (
            ("passkey", "number"), ("number_string", "number"), ("kv_retrieval", "word"))))
        return self.folder

    def reproduce(self, table, *more):
        return saccade("reproduce", table, "--data", self.data(), "--videos", DRAWN, "--num-frames", "4", "--prompt", "open", "--threads",
                       "1", *more)

    def test_every_table(self):
        n_run = 0
        for path in sorted(glob.glob("samples/reproduce/*.yaml")):
            paper = os.path.basename(path)[:-5]
            with open(path, encoding="utf-8") as f:
                text = f.read()
            names = re.findall(r"^- name: (\S+)", text, re.M)
            self.assertTrue(names)
            for name in names:
                run = self.reproduce(f"{paper}:{name}", "--json", "--limit", "1")
                if run.returncode == 69:
                    self.assertIn("cannot be run yet", run.stderr)
                    continue
                self.assertEqual((run.returncode, run.stderr), (0, ""), name)
                result = json.loads(run.stdout)
                n_run += 1
                self.assertTrue(all(not r["refused"] for r in result["rows"]), (name, result))
                printed = [v["paper"] for r in result["rows"] for v in r["figures"].values() if v["paper"] is not None]
                self.assertGreater(len(printed), 8)
                self.assertTrue(any(v["ours"] is not None for r in result["rows"] for v in r["figures"].values()), name)
        self.assertGreaterEqual(n_run, 10)

    def test_figures(self):
        out = self.path("out")
        run = self.reproduce("zipvl:table3", "--out", out)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        with open(os.path.join(out, "reproduce.json"), encoding="utf-8") as f:
            rows = {r["name"]: r["figures"] for r in json.load(f)["rows"]}
        self.assertEqual(rows["Full"]["kept"], {"ours": 100, "paper": 100})
        self.assertAlmostEqual(rows["Fixed ratio"]["kept"]["ours"], 42.1, delta=0.2)  # a whole number of tokens
        self.assertEqual((rows["Fixed ratio"]["overall"]["paper"], rows["ZipVL, tau 0.975"]["overall"]["paper"]), (51.1, 52.4))
        videos = json.loads(saccade("compare", os.path.join(self.folder, "videomme.json"), "--videos", DRAWN, "--num-frames", "4",
                                    "--prompt", "open", "--threads", "1", "--json", "--method", "prefill=zipvl:ratio=0.421,min=0").stdout)
        self.assertAlmostEqual(rows["Fixed ratio"]["overall"]["ours"], 100 * videos["rows"][1]["accuracy"]["value"])
        for text in "LongVA-7B there", "4 frames here, 128 there", "- Fixed ratio: prefill=zipvl:ratio=0.421,min=0":
            self.assertIn(text, run.stdout)
        # a run that was cut short goes on
        journal, = glob.glob(os.path.join(out, "journals", "dense*"))
        with open(journal, "rb") as f:
            whole = f.read()
        with open(journal, "wb") as f:
            f.write(whole[:-40])
        self.assertEqual(self.reproduce("zipvl:table3", "--out", out).stdout, run.stdout)

    def test_needles(self):
        rows = json.loads(self.reproduce("tokenselect:table2", "--json").stdout)["rows"]
        self.assertEqual(rows[-1]["name"], "TokenSelect 4K+4K")
        self.assertEqual(rows[-1]["figures"]["131072"], {"ours": None, "paper": 54.28})
        self.assertEqual(rows[0]["figures"]["4096"]["paper"], 90.74)
        for r in rows:
            lengths = [r["figures"][n]["ours"] for n in ("4096", "8192")]
            self.assertAlmostEqual(r["figures"]["avg"]["ours"], sum(lengths) / 2)

    def test_what_could_not_be_asked(self):
        """As compare: said, and the exit code tells."""
        data = self.data()
        self.path("long.jsonl", json.dumps(dict(id="1", input="What is it? " * 99, outputs=["x"])) + "\n")
        for set_file, figure in ("videomme.json", "overall"), ("long.jsonl", "avg"):
            text = (f"paper: P\nsource: S\ntables:\n- {{name: t, says: s, model: m, set: {set_file}, figures: [{figure}], "
                    "rows: [{name: a, paper: [1]}]}\n")
            table = self.path("x.yaml", text) + ":t"
            run = saccade("reproduce", table, "--data", data, "--videos", data, "--limit", 1, "--ctx", 64)
            self.assertEqual(run.returncode, 75, (run.stdout, run.stderr))
            self.assertRegex(run.stderr, r"\Asaccade: .* could not be asked; the first: .*\n\Z")

    def test_bad_input(self):
        bomb = "a: &a [" + ",".join(["x"] * 40) + "]\n"
        for name, of in zip("bcdefg", "abcdef"):  # four thousand million texts
            bomb += f"{name}: &{name} [" + ",".join(["*" + of] * 40) + "]\n"
        table = "paper: P\nsource: S\ntables:\n- {name: t, says: s, model: m, set: videomme.json, figures: [overall], rows: [%s]}\n"
        for text, code, says in (
                (table % "{name: a, kv: int4, paper: [1]}", 78, "the first row must be dense"),
                (table % "{name: a, paper: [1, 2]}", 78, "as many figures"),
                (table % "{name: a, paper: [x]}", 78, "a number or - is expected"),
                (table % "{name: a, paper: [1], budget: 3}", 78, "unknown key 'budget'"),
                (table % "{name: a, paper: [1]}, {name: a, kv: int4, paper: [1]}", 78, "named 'a'"),
                (table.replace("videomme", "../x") % "{name: a, paper: [1]}", 78, "leaves --data"),
                (table.replace("rows: [%s]", "rows: []"), 78, "rows are missing"),
                (table.replace("set:", "videos: ../x, set:") % "{name: a, paper: [1]}", 78, "videos: '../x' leaves --data"),
                (table.replace("set:", "frames: 8x, set:") % "{name: a, paper: [1]}", 78, "frames: a number is expected"),
                ("a: &a [x]\nb: *a\n" + table % "{name: a, paper: [1]}", 78, "aliases"), (bomb, 78, "aliases"),
                ("paper: [", 78, "not YAML"), ("tables: []", 78, "paper and source"),
                (table.replace("name: t", "name: u") % "{name: a, paper: [1]}", 64, "has no table 't'; it has u")):
            run = self.reproduce(self.path("x.yaml", text) + ":t")
            self.assertEqual((run.returncode, len(run.stderr.splitlines())), (code, 1), run.stderr)
            self.assertIn(says, run.stderr)
        for arguments, code, says in ((["nine:t"], 66, "no such paper here (there are adore, "),
                                      (["../reproduce/zipvl:table3"], 66, "no such paper"), (["z" * 5000 + ".yaml:t"], 66, "names no file"), ([], 64, "one table is expected"),
                                      (["zipvl:table3"], 64, "--data DIR is missing: where videomme.json lies"),
                                      (["zipvl:table3", "--data", "nowhere"], 66, "nowhere")):
            run = saccade("reproduce", *arguments)
            self.assertEqual((run.returncode, len(run.stderr.splitlines())), (code, 1), run.stderr)
            self.assertIn(says, run.stderr)


if __name__ == "__main__":
    main()
