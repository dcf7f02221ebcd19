"""What the documents say about methods and their settings is what the command has; their pictures and the length of their sentences."""
import glob
import os
import re
import shlex
import subprocess
import sys
import unittest
import xml.etree.ElementTree as ET

from cli import SACCADE, Case, main, questions, saccade

OPTIONS = {"prefill": "--prefill", "decode": "--decode", "kv": "--kv", "rope": "--rope", "reduce": "--reduce"}
WITHOUT_SETTINGS = {"dense", "none", "model", "f32", "f16", "bf16"}
SVG = "{http://www.w3.org/2000/svg}"
HEADINGS = {"doublesparse": "Double Sparsity", "duo": "DuoAttention", "streaming": "StreamingLLM", "ntk": "NTK-aware scaling"}


def text_of(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def listed(option, line):
    """The names that a refusal lists: "... there are tau, recent"."""
    said = saccade("ask", option, line, "What?").stderr
    found = re.search(r"there are ([\w, ]+)$", said.strip())
    return set(found.group(1).split(", ")) if found else set()


def sections():
    """Heading -> names that stand alone in a cell of its tables: "| `high`, `low` | 4, 2 | ..."."""
    out = {}
    for part in re.split(r"^## ", text_of("docs/methods.md"), flags=re.M)[1:]:
        heading, _, body = part.partition("\n")
        cells = [c.strip() for row in re.findall(r"^\|(.*)\|$", body, flags=re.M) for c in row.split("|")]
        out[heading] = {name for cell in cells if re.fullmatch(r"`\w+`(, `\w+`)*", cell) for name in re.findall(r"`(\w+)`", cell)}
    return out


class Methods(Case):
    def test_every_setting_is_in_its_table(self):
        documented, known = sections(), {}
        for option in OPTIONS.values():
            names = listed(option, "nothing")
            self.assertTrue(names, option)
            for name in names - WITHOUT_SETTINGS:
                settings = listed(option, name + ":nothing=1")
                self.assertTrue(settings, name)
                known.setdefault(name, set()).update(settings)
        self.assertGreaterEqual(len(known), 20)
        claimed = {}
        for name, settings in known.items():
            heading = [h for h in documented if h.startswith(HEADINGS.get(name, name)) or h.lower().startswith(name) or f"`{name}`" in h]
            self.assertEqual(len(heading), 1, f"docs/methods.md has no section, or several, of {name}")
            self.assertEqual(settings - documented[heading[0]], set(), f"not in docs/methods.md, {heading[0]}: settings of {name}")
            claimed.setdefault(heading[0], set()).update(settings)
        for heading, settings in claimed.items():
            self.assertEqual(documented[heading] - settings, set(), f"docs/methods.md, {heading}: settings that no method has")


class Scoreboard(unittest.TestCase):
    def test_lines_have_the_names_of_their_files(self):
        board = text_of("docs/scoreboard.md")
        shown = set(re.findall(r"^\| ([^|]+?) \|", board, flags=re.M)) - {"method", "cache", "---", "dense"}
        names = {a or b for a, b in re.findall(r'\{name: (?:"([^"]+)"|([^",]+)),', text_of("samples/drawn/methods.yaml"))}
        self.assertEqual(names - shown, set())
        drawn = set(re.findall(r">([^<]+): [\d.]+ %</text>", text_of("docs/images/methods.svg"))) - {"dense"}
        self.assertEqual(drawn - names, set())


class Pictures(Case):
    def test_they_work_on_dark_pages(self):
        for path in glob.glob("docs/images/*.svg"):
            self.assertIn("prefers-color-scheme:dark", text_of(path), path)

    def test_maps_are_real_runs(self):
        """The commands above them draw them; what is kept may differ by processor in the last place."""
        commands = re.findall(r"^saccade (inspect --attention (docs/images/\S+) --map .*)$", text_of("docs/methods.md"), flags=re.M)
        self.assertEqual(len(commands), 4)
        for command, path in commands:
            self.assertLess(os.path.getsize(path), 15_000)
            out = self.path(os.path.basename(path))
            words = shlex.split(command.replace(path, out))
            self.assertEqual(saccade(*words).returncode, 0)
            shown = [[re.sub(r"[\d.]+", "0", "".join(t.itertext())) for t in ET.parse(page).iter(SVG + "text")] for page in (out, path)]
            self.assertEqual(*shown)
            self.assertTrue(ET.parse(path).getroot().find(SVG + "desc").text)

    def test_readmes_picture_is_a_real_run(self):
        out = self.path("saccade.svg")
        subprocess.run([sys.executable, "-B", "tools/make_readme_picture.py", "--out", out], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "SACCADE": SACCADE})
        shown = []
        for path in out, "docs/images/saccade.svg":
            self.assertLess(os.path.getsize(path), 100_000)
            texts = ["".join(t.itertext()) for t in ET.parse(path).iter(SVG + "text")]
            shown.append([texts[0], texts[1], texts[2], texts[-1]])  # what is kept differs by processor in the last place
            self.assertEqual(len(list(ET.parse(path).iter(SVG + "image"))), 8)
        self.assertEqual(*shown)
        row = next(row for row in questions() if row["question"] in shown[0][1])
        self.assertEqual(shown[0][3], row["answer"])


class Sentences(Case):
    def measure(self, *arguments):
        return subprocess.run([sys.executable, "-B", "tools/measure_docs.py", "--most", "20", *arguments], text=True, stdout=subprocess.PIPE)

    def test_they_are_short(self):
        run = self.measure()
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertEqual(len(run.stdout.splitlines()), 1 + 1 + len(glob.glob("docs/*.md")))

    def test_what_counts(self):
        page = self.path("a.md", "# Heading of no account\n\nOne `two three`, [four](five.md). Six\nseven (8.5 nine)!\n\n* ten\n* eleven\n\n"
                                 "| a | table |\n\n```\ncode is not counted. Nor is this.\n```\n")
        run = self.measure(page)
        self.assertEqual(run.stdout.splitlines()[1].split()[1:4], ["4", "2.2", "4"])
        self.assertEqual(self.measure(self.path("b.md", "word " * 20)).returncode, 1)


if __name__ == "__main__":
    main()
