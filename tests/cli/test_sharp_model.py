"""models/sharp: its attention is concentrated, and a method that lives on that leaves most pairs of a prompt out without losing an answer."""
import json
import os
import subprocess
import tempfile
import unittest

from cli import SACCADE

SAFE = "zipvl:min=0,skip=2,side=band,tau=0.99,random=256"


class SharpModel(unittest.TestCase):
    def test_few_tokens_are_enough(self):
        with open("samples/drawn/set.json") as f:
            videos = [v for v in json.load(f) if v["sub_category"].startswith("16 ")][:1]
        self.assertTrue(videos)
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "set.json"), "w") as f:
                json.dump(videos, f)
            done = subprocess.run([SACCADE, "compare", os.path.join(folder, "set.json"), "--videos", "samples/drawn", "--prompt", "open", "-m", "models/sharp",
                                   "--fast", "-t", "2", "-q", "--method", "prefill=" + SAFE, "--method", "prefill=zipvl:min=0",
                                   "--out", os.path.join(folder, "out")], capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(folder, "out", "compare.json")) as f:
                dense, safe, paper = json.load(f)["rows"]
        self.assertEqual((dense["correct"], safe["correct"]), (dense["questions"], safe["questions"]))
        self.assertGreater(safe["methods"]["attention_pairs_saved"], .6)
        self.assertLess(paper["methods"]["kept_ratio"], .2)


if __name__ == "__main__":
    unittest.main()
