"""Manual pages and completions: from the option tables, whole, and as real shells and a real man read them."""
import os
import re
import shutil
import subprocess
import unittest

from cli import SACCADE, TIMEOUT_S, Case, Terminal, main, saccade

COMMANDS = "ask", "inspect", "bench", "eval", "compare", "tune", "reproduce", "caption", "serve", "calibrate", "quantize"


def options_of(command):
    return set(re.findall(r"^ .{5}(--[a-z-]+)", saccade(command, "--help").stdout, re.M))


class Manual(Case):
    @unittest.skipUnless(shutil.which("man"), "needs man-db")
    def test_pages_render_without_a_warning_and_hold_every_option(self):
        for command in None, *COMMANDS:
            page = saccade("manual", *[command] * bool(command))
            self.assertEqual((page.returncode, page.stderr), (0, ""))
            path = self.path("page.1", page.stdout)
            run = subprocess.run(["man", "--warnings", "-l", path], text=True, timeout=TIMEOUT_S, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, env={**os.environ, "MANWIDTH": "80", "LC_ALL": "C", "MANPAGER": "cat"})
            self.assertEqual((run.returncode, run.stderr), (0, ""), command)
            shown = re.sub(".\b", "", run.stdout)
            if command:
                self.assertEqual(options_of(command) - set(re.findall(r"--[a-z-]*[a-z]", shown)), set(), command)

    def test_a_page_stands_beside_the_program_for_each_command(self):
        folder = os.path.join(os.path.dirname(SACCADE), "generated/pages")
        if not os.path.isdir(folder):
            self.skipTest("not run from a build folder")
        listed = re.findall(r"^  (\w+) +[a-z]", saccade("--help").stdout, re.M)
        self.assertLessEqual(set(COMMANDS), set(listed))
        for command in COMMANDS:
            with open(os.path.join(folder, f"saccade-{command}.1"), encoding="utf-8") as f:
                self.assertEqual(f.read(), saccade("manual", command).stdout)

    def test_what_is_refused(self):
        self.assert_refused(saccade("manual", "asl"), 64, "did you mean ask?")
        self.assert_refused(saccade("completion", "tcsh"), 64, "'tcsh'", "bash, zsh or fish")
        self.assert_refused(saccade("completion"), 64, "bash, zsh or fish")


@unittest.skipUnless(shutil.which("bash"), "needs bash")
class Bash(Case):
    def complete(self, line):
        """What bash offers for the last word, as readline splits it."""
        words = re.findall(r"=|[^\s=]+", line) + [""] * line.endswith((" ", "="))
        script = ("source <(\"$0\" completion bash); complete -p saccade >/dev/null || exit 1; COMP_WORDS=(\"$@\"); "
                  "COMP_CWORD=$(($# - 1)); _saccade; printf '%s\\n' \"${COMPREPLY[@]}\"")
        run = subprocess.run(["bash", "--norc", "-c", script, SACCADE, *words], text=True, timeout=TIMEOUT_S,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder)
        self.assertEqual((run.returncode, run.stderr), (0, ""), line)
        return set(run.stdout.split("\n")[:-1]) - {""}

    def test_commands_and_options(self):
        self.assertEqual(self.complete("saccade in"), {"inspect"})
        self.assertLessEqual({*COMMANDS, "help", "manual", "completion"}, self.complete("saccade "))
        for command in COMMANDS:
            self.assertEqual(self.complete(f"saccade {command} --"), options_of(command), command)
        self.assertEqual(self.complete("saccade help "), set(COMMANDS))
        self.assertEqual(self.complete("saccade completion "), {"bash", "zsh", "fish"})

    def test_values(self):
        self.path("a cat.png", b"")
        os.mkdir(self.path("a folder"))
        self.assertEqual(self.complete("saccade ask --prefill mi"), {"minference"})
        self.assertEqual(self.complete("saccade ask --prefill=mi"), {"minference"})
        self.assertIn("dense", self.complete("saccade ask --decode "))
        self.assertEqual(self.complete("saccade ask --image a"), {"a cat.png", "a folder"})
        self.assertEqual(self.complete("saccade eval x.json --videos a"), {"a folder"})
        self.assertEqual(self.complete("saccade ask --seed "), set())
        self.assertEqual(self.complete("saccade caption "), {"a cat.png", "a folder"})

    def test_at_a_prompt(self):
        shell = Terminal("--norc", "-i", program=shutil.which("bash"), environment={"PS1": "$ "})
        at = shell.wait_for("$ ")
        shell.type(f"source <('{SACCADE}' completion bash); echo rea'dy'\n")
        at = shell.wait_for("ready\r\n", at)
        shell.type("saccade ask --num-f\t4\n")
        at = shell.wait_for("--num-frames", at)
        shell.type("exit 0\n")
        self.assertEqual(shell.exit_code(), 0)


class OtherShells(Case):
    @unittest.skipUnless(shutil.which("zsh"), "needs zsh")
    def test_zsh(self):
        self.path("_saccade", saccade("completion", "zsh").stdout)
        shell = Terminal("-f", "-i", program=shutil.which("zsh"), environment={"PS1": "$ ", "HOME": self.folder})
        at = shell.wait_for("$ ")
        shell.type(f"fpath=({self.folder} $fpath); autoload -U compinit; compinit -u -D; echo rea'dy'\n")
        at = shell.wait_for("ready\r\n", at)
        for typed, completed in ("saccade insp", "inspect"), ("saccade ask --num-f", "--num-frames"), \
                                ("saccade ask --prefill mi", "minference"):
            shell.type(typed + "\t")
            at = shell.wait_for(completed, at)
            shell.type("\x15")  # drops the line
        shell.type("exit 0\n")
        self.assertEqual(shell.exit_code(), 0)

    @unittest.skipUnless(shutil.which("fish"), "needs fish")
    def test_fish(self):
        path = self.path("saccade.fish", saccade("completion", "fish").stdout)

        def complete(line):
            run = subprocess.run(["fish", "--no-config", "-c", f"source {path}; complete -C '{line}'"], text=True, timeout=TIMEOUT_S,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder,
                                 env={**os.environ, "HOME": self.folder})
            self.assertEqual((run.returncode, run.stderr), (0, ""), line)
            return {entry.split("\t")[0] for entry in run.stdout.splitlines()}
        self.assertEqual(complete("saccade insp"), {"inspect"})
        for command in COMMANDS:
            self.assertEqual(complete(f"saccade {command} --"), options_of(command), command)
        self.assertEqual(complete("saccade ask --prefill mi"), {"minference"})


if __name__ == "__main__":
    main()
