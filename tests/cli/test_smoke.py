"""Every subcommand once, on the demo model: what test.sh without an argument runs."""
import json
import os
import re
import shutil
import sys

from cli import Case, main, saccade, sample

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "serve"))
from server import Server  # noqa: E402

DRAWN = "samples/drawn"


class Smoke(Case):
    def set_of_one_video(self):
        """A question set with the first question about the shortest drawn video."""
        with open(f"{DRAWN}/set.json", encoding="utf-8") as f:
            video = min(json.load(f), key=lambda v: int(v["sub_category"].split()[0]))
        return self.path("set.json", json.dumps([dict(video, questions=video["questions"][:1])]))

    def assert_fine(self, run):
        self.assertEqual((run.returncode, run.stderr), (0, ""))

    def test_help_names_the_subcommands_of_this_file(self):
        commands = re.findall(r"^  ([a-z]+) ", saccade("help").stdout.split("Commands:")[1].split("Examples:")[0], re.M)
        tested = [name[len("test_"):] for name in dir(self) if name.startswith("test_")]
        self.assertEqual(sorted(set(commands) - set(tested)), ["help"])

    def test_ask(self):
        for kind in False, True:
            row = sample(video=kind)
            run = saccade("ask", "--video" if kind else "--image", row["file"], row["question"])
            self.assert_answer(run, row["answer"])

    def test_manual(self):
        self.assertIn(".SH OPTIONS", saccade("manual", "ask").stdout)

    def test_completion(self):
        self.assertIn("complete -F", saccade("completion", "bash").stdout)

    def test_inspect(self):
        run = saccade("inspect")
        self.assert_fine(run)
        self.assertIn("parameters", run.stdout)

    def test_bench(self):
        run = saccade("bench", "--prompt-tokens", "16", "--gen-tokens", "2", "--repeat", "1")
        self.assert_fine(run)
        self.assertIn("decode", run.stdout)

    def test_quantize(self):
        out = self.path("rounded")
        run = saccade("quantize", "models/demo", out, "--format", "w8a16")
        self.assertEqual(run.returncode, 0, run.stderr)
        row = sample(video=False)
        self.assert_answer(saccade("ask", "-m", out, "--image", row["file"], row["question"]), row["answer"])

    def test_eval(self):
        run = saccade("eval", self.set_of_one_video(), "--videos", DRAWN, "--prompt", "open", "--json")
        self.assert_fine(run)
        self.assertEqual(json.loads(run.stdout)["answered"], 1)

    def test_compare(self):
        run = saccade("compare", self.set_of_one_video(), "--videos", DRAWN, "--prompt", "open", "--method", "kv=bf16")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("kv=bf16", run.stdout)

    def test_tune(self):
        with open(f"{DRAWN}/set.json", encoding="utf-8") as f:
            videos = sorted(json.load(f), key=lambda v: int(v["sub_category"].split()[0]))[:2]
        asked = self.path("two.json", json.dumps([dict(v, questions=v["questions"][:1]) for v in videos]))
        run = saccade("tune", asked, "--videos", DRAWN, "--prompt", "open", "--tries", "2", "--minutes", "0", "--out", self.path("out"))
        self.assert_fine(run)
        self.assertIn("Tried 2 settings", run.stdout)

    def test_reproduce(self):
        folder = os.path.dirname(self.set_of_one_video())
        os.rename(os.path.join(folder, "set.json"), os.path.join(folder, "videomme.json"))
        run = saccade("reproduce", "zipvl:table3", "--data", folder, "--videos", DRAWN, "--num-frames", "4", "--prompt", "open")
        self.assert_fine(run)
        self.assertIn("| Fixed ratio |", run.stdout)

    def test_caption(self):
        folder, out = self.path("pictures"), self.path("out")
        os.makedirs(folder)
        shutil.copy(sample(video=False)["file"], folder)
        run = saccade("caption", folder, "--out", out, "--max-tokens", "2")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertTrue(os.listdir(out))

    def test_calibrate(self):
        out = self.path("duo.safetensors")
        run = saccade("calibrate", self.set_of_one_video(), out, "--videos", DRAWN, "--decode", "duo:start=4,recent=40")
        self.assert_fine(run)
        self.assertTrue(os.path.getsize(out))

    def test_serve(self):
        with Server() as server:
            reply = server.request("POST", "/v1/chat/completions", json.dumps(
                {"model": "demo", "max_tokens": 4, "messages": [{"role": "user", "content": "What is this?"}]}))
        self.assertEqual(reply.status, 200, reply.text)
        self.assertGreater(reply.json["usage"]["completion_tokens"], 0)


if __name__ == "__main__":
    main()
