"""Builds without the command, or without its serve or caption, and what such a command says."""
import json
import os
import shutil
import subprocess
import unittest

from cli import SACCADE, TIMEOUT_S, Case, main, saccade, sample

CMAKE = shutil.which("cmake")
SMALL = os.path.join(os.path.dirname(SACCADE), "saccade_small")  # what a build without both has

SERVE, CAPTION, BOTH = ("libmicrohttpd", "libcurl"), ("libarchive",), ("libseccomp",)


def cmake(*arguments, **options):
    return subprocess.run([CMAKE, *arguments], text=True, timeout=TIMEOUT_S, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)


@unittest.skipUnless(CMAKE and shutil.which("ninja") and shutil.which("pkg-config"), "needs cmake, ninja and pkg-config")
class Parts(Case):
    """Builds that leave something out, on a machine where what only that needs cannot be found."""

    def configure(self, hidden, *options):
        names = "|".join(f"*{name}*" for name in hidden)
        stub = self.path("pkg-config", f'#!/bin/sh\ncase "$*" in {names}) exit 1 ;; esac\nexec {shutil.which("pkg-config")} "$@"\n')
        os.chmod(stub, 0o755)
        shutil.rmtree(self.path("build"), ignore_errors=True)
        return cmake("-G", "Ninja", "-S", ".", "-B", self.path("build"), *options, env={**os.environ, "PKG_CONFIG": stub})

    def rules(self):
        with open(self.path("build/build.ninja"), encoding="utf-8") as f:
            return f.read()

    def test_a_library_alone(self):
        absent = *SERVE, *CAPTION, *BOTH, "libedit"
        run = self.configure(absent, "-DSAC_COMMAND=OFF", "-DSAC_SHARED=ON")
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertIn("libsaccade.so", self.rules())
        for name in *absent, "runtime/serve", "runtime/app":
            self.assertNotIn(name, self.rules())
        run = cmake("-S", ".", "-B", self.path("build"), "-DSAC_TESTS=ON")
        self.assertNotEqual(run.returncode, 0)
        for part in "COMMAND", "SERVE", "CAPTION":
            self.assertIn(f"The tests need the whole command: give -DSAC_TESTS=OFF or -DSAC_{part}=ON", run.stdout)

    def test_no_serve(self):
        run = self.configure(SERVE, "-DSAC_SERVE=OFF")
        self.assertEqual(run.returncode, 0, run.stdout)
        for name in *SERVE, "runtime/serve", "APP_SERVE":
            self.assertNotIn(name, self.rules())
        for name in *CAPTION, *BOTH, "runtime/app/caption", "APP_CAPTION":
            self.assertIn(name, self.rules())

    def test_no_caption(self):
        run = self.configure(CAPTION, "-DSAC_CAPTION=OFF")
        self.assertEqual(run.returncode, 0, run.stdout)
        for name in *CAPTION, "runtime/app/caption", "APP_CAPTION":
            self.assertNotIn(name, self.rules())
        for name in *SERVE, *BOTH, "runtime/serve", "APP_SERVE":
            self.assertIn(name, self.rules())

    def test_neither(self):
        absent = *SERVE, *CAPTION, *BOTH
        run = self.configure(absent, "-DSAC_SERVE=OFF", "-DSAC_CAPTION=OFF")
        self.assertEqual(run.returncode, 0, run.stdout)
        for name in *absent, "runtime/intake", "saccade_small":
            self.assertNotIn(name, self.rules())
        run = cmake("--build", self.path("build"), "--target", "saccade_command", "--", "-n")
        self.assertEqual(run.returncode, 0, run.stdout)
        with open(self.path("build/compile_commands.json"), encoding="utf-8") as f:  # through ninja all libraries would be built too
            rows = [row for row in json.load(f) if row["file"].endswith("runtime/app/main.c")]
        self.assertEqual(len(rows), 1)
        subprocess.run(rows[0]["command"], shell=True, cwd=rows[0]["directory"], check=True, timeout=TIMEOUT_S)

    def test_what_is_missing_is_named(self):
        run = self.configure((*SERVE, *CAPTION, *BOTH))
        self.assertNotEqual(run.returncode, 0)
        for name in *SERVE, *CAPTION, *BOTH:
            self.assertRegex(run.stdout, rf"{name}\S* is missing: apt-get install {name}")


@unittest.skipUnless(os.path.exists(SMALL), "not run from a build folder")
class Small(Case):
    """The command without them, linked from the libraries of this build."""

    def small(self, *arguments):
        return subprocess.run([SMALL, *arguments], text=True, timeout=TIMEOUT_S, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def test_what_was_left_out_says_how_to_get_it(self):
        for name, needs in ("serve", "libmicrohttpd, libcurl and libseccomp"), ("caption", "libarchive and libseccomp"):
            for words in [name], [name, "--port", "1"], ["help", name], ["manual", name]:
                said = f"this build has no '{name}': build with -DSAC_{name.upper()}=ON, which needs {needs}\n"
                self.assert_refused(self.small(*words), 69, said)
        self.assert_refused(self.small("media-helper", "0"), 64, "unknown command 'media-helper'")

    def test_the_rest_is_there_and_neither_is_offered(self):
        row = sample(video=False)
        self.assert_answer(self.small("ask", "--image", row["file"], row["question"]), row["answer"])
        for words in ["help"], ["completion", "bash"], ["completion", "zsh"], ["completion", "fish"]:
            whole, small = saccade(*words).stdout, self.small(*words).stdout
            for name in "serve", "caption":
                self.assertRegex(whole, rf"\b{name}\b")
                self.assertNotRegex(small, rf"\b{name}\b", words)

    @unittest.skipUnless(shutil.which("readelf"), "needs readelf")
    def test_what_it_is_linked_with(self):
        needed = {program: subprocess.run(["readelf", "-d", program], text=True, check=True, stdout=subprocess.PIPE).stdout
                  for program in (SMALL, SACCADE)}
        for name in *SERVE, *CAPTION, *BOTH:
            self.assertIn(name, needed[SACCADE])
            self.assertNotIn(name, needed[SMALL])


if __name__ == "__main__":
    main()
