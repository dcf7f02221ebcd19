"""The documents a newcomer reads: their commands are run as they stand, their figures are the scoreboard's, their links lead somewhere."""
import glob
import json
import os
import re
import socket
import subprocess
import unittest

from cli import ROOT, SACCADE, TIMEOUT_S, Case, main, questions, saccade

GUIDE, CHOOSING, CONTRIBUTING = "docs/getting-started.md", "docs/choosing.md", "CONTRIBUTING.md"
PAGES = [GUIDE, CHOOSING, CONTRIBUTING, "CHANGELOG.md", "SECURITY.md", "docs/python.md"]


def text_of(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def blocks(path):
    return re.findall(r"^```\n(.*?)^```$", text_of(path), re.M | re.S)


class Commands(Case):
    def tree(self):
        """A folder in which the paths of the tree lead into it, and new files do not."""
        for name in os.listdir(ROOT):
            if name != "build":
                os.symlink(os.path.join(ROOT, name), self.path(name))
        os.mkdir(self.path("build"))
        os.symlink(os.path.dirname(SACCADE), self.path("build/release"))

    def paste(self, commands):
        run = subprocess.run(["bash", "-euo", "pipefail", "-c", commands], text=True, cwd=self.folder, timeout=TIMEOUT_S,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(run.returncode, 0, commands + run.stdout + run.stderr)
        return run.stdout

    def test_getting_started(self):
        self.tree()
        ask, inspect, quantize, caption, serve, compare = blocks(GUIDE)
        asked = re.findall(r'(samples/\S+) .*"(.*)"$', ask, re.M)
        answers = {(row["file"], row["question"]): row["answer"] for row in questions()}
        self.assertEqual(self.paste(ask).splitlines(), [answers[row] for row in asked])
        self.assertIn("parameters", self.paste(inspect))
        self.assertEqual(self.paste(quantize).splitlines()[-1], answers[asked[0]])
        self.paste(caption)
        records = [json.loads(line) for path in glob.glob(self.path("captions/*.jsonl")) for line in text_of(path).splitlines()]
        self.assertEqual(len(records), len(glob.glob("samples/picture000*.png")))
        with socket.socket() as free:  # the page's port may be in use here
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        self.assertEqual(serve.count("8017"), 3)
        answer = json.loads(self.paste(serve.replace("8017", port)).splitlines()[-1])
        self.assertEqual(answer["choices"][0]["message"]["content"], answers[asked[0]])
        self.assertIn("listening on http://127.0.0.1:" + port, text_of(self.path("server.log")))
        self.assertIn("\n| kv=mixed | ", self.paste(compare))

    @unittest.skipUnless(os.path.exists(os.path.join(os.path.dirname(SACCADE), "libsaccade.so")), "built without -DSAC_SHARED=ON")
    def test_contributing(self):
        self.tree()
        for commands in blocks(CONTRIBUTING):
            self.paste(commands)


class Choosing(unittest.TestCase):
    def test_the_table_is_the_scoreboards(self):
        board = text_of("docs/scoreboard.md")
        lines = {}  # method -> (heading -> cell) of the first tables that have both
        for table in re.findall(r"(?:^\|.*\n)+", board, re.M):
            heading, _, *rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in table.strip().splitlines()]
            if "strict, %" in heading and "rows read" in heading and "budget" not in heading[:4]:
                for row in rows:
                    lines.setdefault(row[0], dict(zip(heading, row)))
        options = {}
        for name in "methods.yaml", "methods_steps.yaml":
            for line in re.findall(r"^- \{(.*)\}$", text_of(f"samples/drawn/{name}"), re.M):
                pairs = re.findall(r'(\w+): (?:"([^"]*)"|([^",]+))', line)
                values = {key: quoted or plain for key, quoted, plain in pairs}
                name = values.pop("name")
                options[name] = " ".join(f"--{key} {values[key]}" for key in ("prefill", "kv", "decode", "rope") if key in values)
        rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in re.findall(r"^\| .*`--.*\|$", text_of(CHOOSING), re.M)]
        self.assertGreaterEqual(len(rows), 15)
        for method, given, cache, prompt, steps, points, _ in rows:
            line = lines[method]
            self.assertEqual(given, f"`{options[method]}`")
            self.assertEqual([cache, prompt, steps], [line.get("KV factor", "-"), line.get("FLOPs saved", "-"), line["rows read"]], method)
            self.assertEqual(points, line["to dense, points"].split()[0], method)
            run = saccade("inspect", "--ctx", "1024", *[word for word in given.strip("`").split()])
            if "duo:" not in given:  # it wants what calibrate has measured
                self.assertEqual(run.returncode, 0, run.stderr)
        pairs = re.search(r"leaves out pairs \((.*?) of them\)", text_of(CHOOSING)).group(1)
        self.assertEqual(pairs, lines["MInference vertical-slash"]["pairs saved"])


class Links(unittest.TestCase):
    def test_links_lead_somewhere(self):
        for page in PAGES + ["README.md"]:
            for target in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
                path, _, anchor = target.partition("#")
                if "://" in path:
                    continue
                path = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
                self.assertTrue(os.path.exists(path), f"{page}: {target}")
                if anchor:
                    headings = re.findall(r"^#+ (.*)$", text_of(path), re.M)
                    anchors = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
                    anchors += re.findall(r'<a id="([^"]+)">', text_of(path))
                    self.assertIn(anchor, anchors, f"{page}: {target}")


if __name__ == "__main__":
    main()
