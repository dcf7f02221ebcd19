"""libsaccade.so (a build with -DSAC_SHARED=ON): what can be seen in it, and a program outside the tree that is built with it."""
import os
import re
import shutil
import subprocess
import unittest

from cli import SACCADE, TIMEOUT_S, Case, main, saccade

BUILD = os.path.dirname(SACCADE)
LIBRARY = os.path.join(BUILD, "libsaccade.so")


def output(*command, **options):
    return subprocess.run(command, text=True, timeout=TIMEOUT_S, check=True, stdout=subprocess.PIPE, **options).stdout


def declared():
    names = set()
    for header in "saccade.h", "status.h":
        with open(os.path.join("include/saccade", header), encoding="utf-8") as f:
            text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
        names |= set(re.findall(r"^(?!#|typedef)[^\n(=]*?\b(sac_\w+)\(", text, flags=re.M))
    return names


@unittest.skipUnless(os.path.exists(LIBRARY), "built without -DSAC_SHARED=ON")
class Shared(Case):
    def test_what_can_be_seen(self):
        lines = [line.split() for line in output("nm", "-D", "--defined-only", LIBRARY).splitlines()]
        self.assertEqual({line[-1] for line in lines if line[-2] != "A"}, declared())
        self.assertIn("libsaccade.so.0", re.search(r"SONAME.*", output("readelf", "-d", LIBRARY)).group(0))
        self.assertNotIn("TEXTREL", output("readelf", "-d", LIBRARY))

    @unittest.skipUnless(shutil.which("cmake") and shutil.which("pkg-config"), "needs cmake and pkg-config")
    def test_a_program_outside_the_tree(self):
        prefix, source, build = self.path("prefix"), self.path("examples"), self.path("build")
        output("cmake", "--install", BUILD, "--prefix", prefix)
        shutil.copytree("examples", source)
        output("cmake", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
        output("cmake", "--build", build)
        asked = ["models/demo", "samples/picture0000.png", "What color is the background?"]
        answer = saccade("ask", "--image", *asked[1:]).stdout
        self.assertEqual(output(os.path.join(build, "describe"), *asked), answer)
        # and without cmake
        where = next(w for w, _, names in os.walk(prefix) if "saccade.pc" in names)
        environment = dict(os.environ, PKG_CONFIG_PATH=where)
        flags = output("pkg-config", "--cflags", "--libs", "saccade", env=environment).split()
        program = self.path("described")
        output(os.environ.get("CC", "cc"), "-std=c11", os.path.join(source, "describe.c"), "-o", program, *flags)
        environment["LD_LIBRARY_PATH"] = os.path.dirname(where)
        self.assertEqual(output(program, *asked, env=environment), answer)


if __name__ == "__main__":
    main()
