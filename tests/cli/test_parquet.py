"""saccade-parquet: rows of Parquet files captioned, and given back as Parquet. pyarrow is a package of build/venv (test.sh makes it);
without it the tests are skipped."""
import glob
import json
import os
import shutil
import subprocess
import sys
import unittest

from cli import SACCADE, TIMEOUT_S, Case, main

for packages in glob.glob("build/venv/lib/python*/site-packages"):
    sys.path.append(packages)
try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError:
    pa = None

PICTURES = sorted(glob.glob("samples/picture*"))[:4]


def read(path):
    with open(path, "rb") as f:
        return f.read()


@unittest.skipUnless(pa, "needs pyarrow in build/venv")
class Parquet(Case):
    def run_tool(self, *arguments, code=0):
        env = dict(os.environ, SACCADE=SACCADE, PYTHONPATH=os.pathsep.join(sys.path))
        run = subprocess.run([sys.executable, "python/saccade_parquet.py", *map(str, arguments)], capture_output=True, text=True,
                             timeout=TIMEOUT_S, env=env, check=False)
        self.assertEqual(run.returncode, code, run.stderr)
        return run

    def write(self, name, **columns):
        path = self.path(name)
        pq.write_table(pa.table(columns), path, row_group_size=2)
        return path

    def of_folder(self):
        out = self.path("folder-out")
        shutil.rmtree(self.path("pictures"), ignore_errors=True)
        os.makedirs(self.path("pictures"))
        for p in PICTURES:
            shutil.copy(p, self.path("pictures"))
        subprocess.run([SACCADE, "caption", self.path("pictures"), "--out", out, "--max-tokens", "2", "-q"], check=True,
                       stdout=subprocess.DEVNULL)
        return [json.loads(line)["caption"] for line in read(os.path.join(out, "captions.jsonl")).decode().splitlines()]

    def test_bytes(self):
        want, data, out = self.of_folder(), [read(p) for p in PICTURES], self.path("out")
        structs = pa.array([dict(bytes=data[3], path="x.png"), dict(bytes=None, path="pictures/" + os.path.basename(PICTURES[0]))])
        self.write("a.parquet", image=pa.array([data[0], None, b"no picture", data[1], data[2]], pa.binary()), label=[0, 1, 2, 3, 4])
        self.write("b.parquet", label=["x", "y"], image=structs)
        pattern = self.path("?.parquet")
        self.run_tool(pattern, "--out", out, "--", "--max-tokens", "2", code=75)
        a, b = (pq.read_table(os.path.join(out, name + ".parquet")) for name in "ab")
        self.assertEqual((a.column_names, b.column_names), (["label", "caption", "caption_error"],) * 2)
        self.assertEqual(a["caption"].to_pylist(), [want[0], None, None, want[1], want[2]])
        self.assertEqual(b["caption"].to_pylist(), [want[3], want[0]])
        errors = a["caption_error"].to_pylist()
        self.assertEqual([bool(e) for e in errors], [False, True, True, False, False])
        self.assertIn("holds no picture", errors[1])
        self.assertIn("not a picture", errors[2])
        self.assertEqual(os.listdir(os.path.join(out, "rows")), [n for n in os.listdir(os.path.join(out, "rows")) if n.endswith(".json")])
        # the same again is nothing new; a row that changed is one
        first = read(os.path.join(out, "a.parquet"))
        self.assertIn("all done before", self.run_tool(pattern, "--out", out, "--", "--max-tokens", "2", code=75).stdout)
        self.assertEqual(read(os.path.join(out, "a.parquet")), first)
        self.write("a.parquet", image=pa.array([data[0], data[3], b"no picture", data[1], data[2]], pa.binary()), label=[0, 1, 2, 3, 4])
        run = self.run_tool(pattern, "--out", out, "--keep", "--columns", "image,label", "--", "--max-tokens", "2", "--json", code=75)
        self.assertEqual(json.loads(run.stdout)["this_run"]["captions"], 1)
        a = pq.read_table(os.path.join(out, "a.parquet"))
        self.assertEqual((a["caption"].to_pylist()[1], a["image"].to_pylist()[1]), (want[3], data[3]))
        self.assertTrue(os.path.exists(os.path.join(out, "rows", "a.tar")))

    def test_paths(self):
        want, out = self.of_folder(), self.path("out")
        names = ["pictures/" + os.path.basename(p) for p in PICTURES]
        table = self.write("p.parquet", url=[*names[:2], None, "gone.png"])
        self.run_tool(table, "--media", "url", "--out", out, "--", "--max-tokens", "2", code=75)
        got = pq.read_table(os.path.join(out, "p.parquet"))
        self.assertEqual(got.column_names, ["url", "caption", "caption_error"])
        self.assertEqual(got["caption"].to_pylist(), [want[0], want[1], None, None])
        self.assertIn("No such file", got["caption_error"].to_pylist()[3])

    def test_refusals(self):
        table, other = self.write("x.parquet", n=[1], caption=["a"]), self.write("y.parquet", n=[1], image=[2])
        os.makedirs(self.path("d"))
        shutil.copy(table, self.path("d"))
        bad = self.path("bad.parquet", "PAR1")
        for arguments, code, needle in [
            ([table], 65, "has a column 'caption' already"), ([other], 65, "expected bytes"),
            ([other, "--media", "z"], 65, "no column 'z'"),
            ([other, "--media", "z", "--", "--shard", "0/2"], 64, "not behind --"), ([bad], 65, "not a Parquet file"),
            ([self.path("*.none")], 66, "no such file"), ([table, self.path("d/x.parquet")], 64, "the same name"), ([], 64, "")]:
            run = self.run_tool(*arguments[:1], "--out", self.path("out"), *arguments[1:], code=code)
            self.assertIn(needle, run.stderr)
            self.assertNotIn("Traceback", run.stderr)
        self.assertFalse(os.path.exists(self.path("out")))
        rows = self.write("rows.parquet", image=pa.array([read(PICTURES[0])], pa.binary()))
        before = read(rows)
        self.assertIn("would take the place of the rows", self.run_tool(rows, "--out", os.path.dirname(rows), code=64).stderr)
        self.assertEqual(read(rows), before)


if __name__ == "__main__":
    main()
