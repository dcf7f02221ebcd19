"""tools/check_speed_floor.py over a program that says times as checkkernels does, and no GPU."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "check_speed_floor.py"
SHAPE = "1 x 4608 x 3584, bias"


class SpeedFloor(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.program("nvidia-smi", "print('NVIDIA Card (1) 80GB')")

    def program(self, name, text):
        path = self.folder / name
        path.write_text(f"#!{sys.executable}\nimport pathlib, sys\n{text}\n")
        path.chmod(0o755)
        return path

    def bench(self, *rows, later=None):
        """A program whose rows are (op, variant, microseconds or ''), `later` from the second run on."""
        seen = self.folder / "seen"
        seen.unlink(missing_ok=True)
        self.program("bench", f"""
rows, later, seen = {list(rows)!r}, {later!r}, pathlib.Path({str(seen)!r})
if later is not None and seen.exists(): rows = later
seen.touch()
print("copy 3.00 TB/s (read and written), bf16 product of 8192^3 600 TFLOP/s")
for op, variant, t in rows: print(f"{{op}},{{variant}},{SHAPE},{{t}},1.0,2.0,3.0,4.0,5.0" if t != "" else
                                  f"{{op}},{{variant}},{SHAPE},,,,,,")""")

    def run_tool(self, *options):
        return subprocess.run([sys.executable, "-B", TOOL, self.folder / "bench", "--folder", self.folder / "speed",
                               "--nvidia-smi", self.folder / "nvidia-smi", *options], capture_output=True, text=True)

    def test_times_are_compared(self):
        self.bench(("linear", "gemv", 10.0), ("linear", "lt", ""), ("rope", "cuda", 4.0))
        unknown = self.run_tool()
        self.assertEqual(unknown.returncode, 77, unknown.stderr)
        self.assertIn("NVIDIA_Card_1_80GB.csv", unknown.stdout)
        self.assertEqual(self.run_tool("--record").returncode, 0)
        stored = (self.folder / "speed" / "NVIDIA_Card_1_80GB.csv").read_text()
        self.assertEqual(stored.splitlines()[1:], [f'linear,gemv,"{SHAPE}",10.00', f'rope,cuda,"{SHAPE}",4.00'])
        self.bench(("linear", "gemv", 10.9), ("rope", "cuda", 3.0))
        same = self.run_tool()
        self.assertEqual((same.returncode, same.stdout.splitlines()[-1]), (0, "NVIDIA_Card_1_80GB: 2 rows, 0 too slow, 0 gone"))

    def test_slow_and_missing_rows_are_named(self):
        self.bench(("linear", "gemv", 10.0), ("rope", "cuda", 4.0))
        self.run_tool("--record")
        self.bench(("linear", "gemv", 11.5), ("rope", "cuda", ""))
        run = self.run_tool("--again", "1")
        self.assertEqual(run.returncode, 1)
        self.assertIn(f"linear gemv {SHAPE}: 11.50 us, stored 10.00 us (1.150)", run.stdout)
        self.assertIn(f"rope cuda {SHAPE}: stored, and not timed any more", run.stdout)
        self.assertEqual(self.run_tool("--op", "linear", "--slack", "0.2").returncode, 0)

    def test_a_slow_moment_is_timed_again(self):
        self.bench(("linear", "gemv", 10.0))
        self.run_tool("--record")
        self.bench(("linear", "gemv", 30.0), later=[("linear", "gemv", 10.2)])
        self.assertEqual(self.run_tool().returncode, 0)
        self.bench(("linear", "gemv", 30.0), later=[("linear", "gemv", 10.2)])
        self.assertEqual(self.run_tool("--again", "0").returncode, 1)

    def test_no_times_are_no_success(self):
        self.program("bench", "print('checkkernels: no CUDA card')")
        for options in [], ["--record"]:
            (self.folder / "speed").mkdir(exist_ok=True)
            (self.folder / "speed" / "NVIDIA_Card_1_80GB.csv").write_text("op,variant,shape,median_us\nrope,cuda,x,1\n")
            run = self.run_tool(*options)
            self.assertNotEqual(run.returncode, 0)
            self.assertIn("no times in its output", run.stderr)


if __name__ == "__main__":
    unittest.main()
