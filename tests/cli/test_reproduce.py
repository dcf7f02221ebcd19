"""saccade reproduce: every table of samples/reproduce is read, runs or says what it lacks; figures beside the paper's; bad files."""
import glob
import json
import os
import re

import eval_oracle
from cli import Case, main, saccade

DRAWN = "samples/drawn"
SPEEDS = [("zipvl", "figure6a"), ("zipvl", "figure6b"), ("tokenselect", "table6"), ("twilight", "figure8"), ("adore", "table3"), ("adore", "table4"),
          ("adore", "figure3")]


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
        self.data_of_pictures()
        self.data_of_texts()
        return self.folder

    def put(self, folder, name, content):
        os.makedirs(os.path.join(self.folder, folder), exist_ok=True)
        self.path(os.path.join(folder, name), content)

    def data_of_pictures(self):
        with open("samples/picture0001.jpg", "rb") as f:
            picture = f.read()
        for folder, name in (("val2014", "COCO_val2014_000000000042.jpg"), ("chartqa/png", "1.png"), ("train_images", "1.jpg"), ("images", "1.jpg"),
                             ("mme/color", "1.jpg")):
            self.put(folder, name, picture)
        self.path("v2_OpenEnded_mscoco_val2014_questions.json",
                  json.dumps(dict(questions=[dict(image_id=42, question="What is it?", question_id=1)], data_subtype="val2014")))
        answers = [dict(answer="red" if i else "a circle", answer_id=i + 1) for i in range(10)]
        self.path("v2_mscoco_val2014_annotations.json", json.dumps(dict(annotations=[dict(question_id=1, answers=answers)])))
        self.put("chartqa", "test_human.json", json.dumps([dict(imgname="1.png", query="How much?", label="12")]))
        self.path("TextVQA_0.5.1_val.json",
                  json.dumps(dict(data=[dict(question_id=1, question="What?", image_id="1", answers=["12"] * 10)])))
        self.path("testdev_balanced_questions.json", json.dumps({"1": dict(imageId="1", question="What?", answer="red", isBalanced=True)}))
        self.path("mme.jsonl", "".join(json.dumps(dict(question_id="color/1.jpg", category="color", question=q, answer=a)) + "\n" for q, a in (
            ("Is it red? Please answer yes or no.", "Yes"), ("Is it blue? Please answer yes or no.", "No"))))

    def data_of_texts(self):
        self.path("gsm8k_test.jsonl", json.dumps(dict(question="What is 2 + 2?", answer="2 + 2 = 4\n#### 4")) + "\n")
        self.path("passkey.jsonl", json.dumps(dict(id="1", task="passkey", length=131072, input="The key is", outputs=["1"], metric="number")) + "\n")
        for name in eval_oracle.LONGBENCH:
            row = dict(input="What is it?", context="It is red. ", answers=["red", "Paragraph 1", "段落1"], length=9, dataset=name,
                       all_classes=["red"], _id="1")
            self.put("longbench", name + ".jsonl", json.dumps(row) + "\n")
        for name in ("passkey number_string kv_retrieval longbook_sum_eng longbook_qa_eng longbook_choice_eng longbook_qa_chn longdialogue_qa_eng "
                     "code_debug code_run math_find").split():
            row = dict(id=0, context="It is red. ", input="The smallest number of func_1(2) is", answer=["red"], options=["red", "b", "c", "d"])
            if name in ("code_run", "math_find"):
                row["answer"] = [3]
            self.put("infinitebench", name + ".jsonl", json.dumps(row) + "\n")

    def reproduce(self, table, *more):
        """Of Video-MME asked about drawn videos in a few words."""
        videos = re.match("zipvl:table[23]$|zipvl:table2-64$|/", table)
        of_videos = ["--videos", DRAWN, "--num-frames", "4", "--prompt", "open"] if videos else []
        return saccade("reproduce", table, "--data", self.data(), *of_videos, "--threads", "1", *more)

    def test_every_table(self):
        n_run, whole = 0, ("table1", "table2", "table3", "longbench", "table1-mme")  # of others a question is enough
        for path in sorted(glob.glob("samples/reproduce/*.yaml")):
            paper = os.path.basename(path)[:-5]
            with open(path, encoding="utf-8") as f:
                text = f.read()
            names = re.findall(r"^- name: (\S+)", text, re.M)
            self.assertTrue(names)
            for name in names:
                ctx = "64" if (paper, name) in SPEEDS else "4096"
                run = self.reproduce(f"{paper}:{name}", "--json", *([] if name in whole else ["--limit", "1"]), "--max-tokens", "2", "--ctx", ctx)
                if run.returncode == 69:
                    self.assertIn("cannot be run yet", run.stderr)
                    continue
                self.assertEqual((run.returncode, run.stderr), (0, ""), name)
                result = json.loads(run.stdout)
                n_run += 1
                self.assertTrue(all(not r["refused"] for r in result["rows"]), (name, result))
                for row in result["rows"]:
                    if not any("@" in f for f in row["figures"]):  # speeds at lengths beyond --ctx are left out
                        self.assertTrue(any(v["ours"] is not None for v in row["figures"].values()), (name, row))
                if name in whole and (paper, name) not in SPEEDS:
                    printed = [f for r in result["rows"] for f, v in r["figures"].items() if v["paper"] is not None]
                    self.assertGreater(len(printed), 3)
                    missing = [f for r in result["rows"] for f, v in r["figures"].items() if v["ours"] is None]
                    self.assertTrue(not missing or name == "table2", (name, missing))  # lengths and durations that the samples lack
        self.assertGreaterEqual(n_run, 50)

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

    def test_speeds(self):
        """Without a set: each figure is measured once, and a job that was cut short goes on with what it has."""
        text = ("paper: P\nsource: S\ntables:\n- {name: t, says: s, model: m, figures: [prefill@64, step@64, tokens_s@8, memory@64, memory@512, prefill@4096], "
                "rows: [{name: a, paper: [1, 2, 3, 4, 5, 6]}, {name: b, kv: int4, paper: [1, 2, 3, 4, 5, -]}]}\n")
        table, out = self.path("x.yaml", text) + ":t", self.path("out")
        first = saccade("reproduce", table, "--threads", "1", "--ctx", "512", "--out", out, "--json")
        self.assertEqual((first.returncode, first.stderr), (0, ""))
        rows = {r["name"]: {f: v["ours"] for f, v in r["figures"].items()} for r in json.loads(first.stdout)["rows"]}
        for row in rows.values():
            self.assertTrue(all(row[f] > 0 for f in ("prefill@64", "step@64", "tokens_s@8")))
            self.assertGreater(row["memory@512"], row["memory@64"])
            self.assertIsNone(row["prefill@4096"])  # beyond --ctx
        self.assertGreater(rows["a"]["memory@512"], rows["b"]["memory@512"])  # four bits are less than sixteen
        with open(os.path.join(out, "speed.jsonl"), "r+", encoding="utf-8") as f:
            lines = f.read().splitlines(keepends=True)
            self.assertEqual(len(lines), 1 + 10)
            f.seek(0)
            f.writelines([*lines[:6], lines[6][:9]])
            f.truncate()
        again = json.loads(saccade("reproduce", table, "--threads", "1", "--ctx", "512", "--out", out, "--json").stdout)
        then = {f: v["ours"] for f, v in again["rows"][0]["figures"].items()}
        self.assertEqual({f: round(v, 7) if v else v for f, v in then.items()}, {f: round(v, 7) if v else v for f, v in rows["a"].items()})
        other = self.path("y.yaml", text.replace("int4", "int8")) + ":t"
        for changed in [other], [table, "--prefill-chunk", "64"]:
            run = saccade("reproduce", *changed, "--threads", "1", "--ctx", "512", "--out", out)
            self.assertEqual((run.returncode, len(run.stderr.splitlines())), (78, 1))
            self.assertIn("begun with other settings", run.stderr)

    def test_list(self):
        run = saccade("reproduce", "--list")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        tables = json.loads(saccade("reproduce", "--list", "--json").stdout)
        names = {f"{os.path.basename(p)[:-5]}:{n}" for p in glob.glob("samples/reproduce/*.yaml") for n in re.findall(
            r"^- name: (\S+)", open(p, encoding="utf-8").read(), re.M)}
        self.assertEqual({t["table"] for t in tables}, names)
        self.assertEqual(len(tables), len(names))
        for t, line in zip(tables, run.stdout.splitlines()):
            self.assertTrue(line.startswith(t["table"] + " "))
            self.assertIn("not yet: " + t["lacks"] if "lacks" in t else t["says"], line)
        self.assertIn("x:t", saccade("reproduce", "--list", self.path("x.yaml", "tables: [{name: t, says: s}]")).stdout)
        self.assert_refused(saccade("reproduce", "--list", "zipvl", "twilight"), 64, "--list takes no table")
        self.assert_refused(saccade("reproduce", "--list", self.path("y.yaml", "a: [")), 78, "not YAML")

    def test_only(self):
        """Questions of other datasets are left out; a set with none of those that are asked is refused."""
        table = "paper: P\nsource: S\ntables:\n- {name: t, says: s, model: m, set: longbench, only: [%s], figures: [score, %s], rows: [{name: a, paper: [1, 2]}]}\n"
        run = self.reproduce(self.path("x.yaml", table % ("lcc, qasper", "lcc")) + ":t", "--json", "--max-tokens", "1", "--prompt", "bare")
        self.assertEqual((run.returncode, json.loads(run.stdout)["questions"]), (0, 2), run.stderr)
        run = self.reproduce(self.path("x.yaml", table % ("lcc, nothing", "lcc")) + ":t", "--max-tokens", "1", "--prompt", "bare")
        self.assertIn("- 1 of 2 data sets are not here: nothing; score is the mean of the others", run.stdout)
        for only, code, says in (("nothing", 65, "has nothing of what the table asks"), ("", 78, "only: a list of texts"), ("[a]", 78, "only: a list of texts")):
            run = self.reproduce(self.path("x.yaml", table % (only, "lcc")) + ":t", "--prompt", "bare")
            self.assertEqual((run.returncode, len(run.stderr.splitlines())), (code, 1), run.stderr)
            self.assertIn(says, run.stderr)

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
                (table.replace("set: videomme.json, ", "") % "{name: a, paper: [1]}", 78, "set is missing, and 'overall' is not measured"),
                (table.replace("set: videomme.json, ", "benchmark: gsm8k, ") % "{name: a, paper: [1]}", 78, "set is missing"),
                (table.replace("set:", "benchmark: nine, set:") % "{name: a, paper: [1]}", 64, "'nine' is not known"),
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
