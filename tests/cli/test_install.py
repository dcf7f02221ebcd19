"""cmake --install puts down what a user needs, and another project can take the source tree in."""
import os
import re
import shutil
import subprocess
import unittest

from cli import SACCADE, TIMEOUT_S, Case, main

BUILD = os.path.dirname(SACCADE)
CMAKE = shutil.which("cmake")


def cmake(*arguments):
    return subprocess.run([CMAKE, *arguments], text=True, timeout=TIMEOUT_S, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)


@unittest.skipUnless(CMAKE and os.path.exists(os.path.join(BUILD, "CMakeCache.txt")), "not run from a build folder")
class Install(Case):
    def test_the_installed_command_finds_its_model(self):
        prefix = self.path("prefix")
        run = cmake("--install", BUILD, "--prefix", prefix)
        self.assertEqual(run.returncode, 0, run.stdout)
        for name in ["bin/saccade", "include/saccade/saccade.h", "include/saccade/status.h", "include/saccade/api.h",
                     "share/saccade/demo/config.json", "share/doc/saccade/LICENSE", "share/man/man1/saccade-ask.1",
                     "share/bash-completion/completions/saccade", "share/zsh/site-functions/_saccade",
                     "share/saccade/reproduce/zipvl.yaml", "share/fish/vendor_completions.d/saccade.fish"]:
            self.assertTrue(os.path.exists(os.path.join(prefix, name)), name)
        environment = {k: v for k, v in os.environ.items() if k != "SACCADE_MODEL"}
        run = subprocess.run([os.path.join(prefix, "bin/saccade"), "inspect", "--json"], text=True, cwd=self.folder,
                             timeout=TIMEOUT_S, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(os.path.join(prefix, "share/saccade/demo"), run.stdout)
        # and the papers' tables: those that lie there, not the tree's
        with open(os.path.join(prefix, "share/saccade/reproduce/own.yaml"), "w", encoding="utf-8") as f:
            f.write("paper: P\nsource: S\ntables:\n- {name: t, lacks: what this test has}\n")
        for table, code, says in ("own:t", 69, "P t cannot be run yet: what this test has"), ("none:t", 66, "(there are adore, own, "):
            run = subprocess.run([os.path.join(prefix, "bin/saccade"), "reproduce", table], text=True, cwd=self.folder, timeout=TIMEOUT_S,
                                 env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual(run.returncode, code, run.stderr)
            self.assertIn(says, run.stderr)

    @unittest.skipUnless(shutil.which("ninja"), "needs ninja: its file of rules is read")
    def test_a_project_takes_the_source_tree_in(self):
        self.path("main.c", "#include <saccade/saccade.h>\nint main(void) { return 0; }\n")
        self.path("CMakeLists.txt", f"""cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C)
set(SAC_TESTS ON)
add_subdirectory("{os.getcwd()}" saccade)
add_executable(user main.c)
target_link_libraries(user PRIVATE saccade)
""")
        run = cmake("-G", "Ninja", "-S", self.folder, "-B", self.path("build"), "-DCMAKE_BUILD_TYPE=Debug")
        self.assertEqual(run.returncode, 0, run.stdout)
        with open(self.path("build/build.ninja"), encoding="utf-8") as f:
            scripts = set(re.findall(r"-P (\S+/embed_\w+\.cmake)", f.read()))
        self.assertTrue(scripts)
        for script in scripts:
            self.assertTrue(os.path.exists(script), script)


if __name__ == "__main__":
    main()
