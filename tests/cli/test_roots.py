"""The Debian packages, the wheel and the examples in a bare Debian: tools/try_roots.sh with packages of this build; the image that
packaging/docker/Dockerfile makes of them: tools/try_image.sh.
SACCADE_ROOTS="trixie": in bare systems of these suites too, with packages that are built there first (minutes). ./test.sh all sets it."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from cli import SACCADE, Case, main

BUILD = os.path.dirname(SACCADE)
NEEDED = "cpack", "dpkg-shlibdeps", "file", "apt-get"


def codename():
    with open("/etc/os-release", encoding="utf-8") as f:
        found = re.search(r"^VERSION_CODENAME=(\w+)", f.read(), re.M)
    return found.group(1) if found else ""


def run(*command, **options):
    return subprocess.run(command, text=True, timeout=2400, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)


@unittest.skipUnless(all(map(shutil.which, NEEDED)), "needs " + ", ".join(NEEDED))
@unittest.skipUnless(os.path.exists(os.path.join(BUILD, "libsaccade.so")), "built without -DSAC_SHARED=ON")
class Roots(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.packages = tempfile.mkdtemp(prefix="saccade-packages-")
        cls.made = run("cpack", "--config", os.path.join(BUILD, "CPackConfig.cmake"), "-B", cls.packages)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.packages)
        super().tearDownClass()

    def setUp(self):
        super().setUp()
        self.assertEqual(self.made.returncode, 0, self.made.stdout)

    def tries(self, tool, *arguments):
        tried = run(tool, *arguments)
        if tried.returncode in (69, 77):  # no network, no root's rights, no buildah
            self.skipTest(tried.stdout.strip().splitlines()[-1])
        print(re.sub("^", "  ", tried.stdout.strip(), flags=re.M))
        self.assertEqual(tried.returncode, 0, tried.stdout)
        return tried.stdout

    def test_install_ask_build_remove(self):
        of_this = "--suite", codename(), "--packages", self.packages
        others = [suite for suite in os.environ.get("SACCADE_ROOTS", "").split() if suite != codename()]
        for arguments in of_this, *(("--suite", suite, "--quick") for suite in others):
            self.assertIn("removed, and nothing is left", self.tries("tools/try_roots.sh", *arguments))

    def test_image(self):
        told = self.tries("tools/try_image.sh", "--suite", codename(), "--packages", self.packages)
        self.assertIn("it answers, and so does its server", told)


class Tools(Case):
    def test_help_and_what_they_refuse(self):
        for tool in "tools/try_roots.sh", "tools/try_image.sh", "tools/try_aarch64.sh":
            told = run(os.path.abspath(tool), "--help", cwd="/")
            self.assertEqual(told.returncode, 0, told.stdout)
            self.assertIn(tool + " [", told.stdout)
            self.assertNotIn("set -e", told.stdout)
            refused = run(tool, "--nosuch")
            self.assertEqual(refused.returncode, 64, refused.stdout)
            self.assertIn("--nosuch", refused.stdout)


if __name__ == "__main__":
    main()
