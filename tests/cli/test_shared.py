"""libsaccade.so (a build with -DSAC_SHARED=ON): what can be seen in it, and the examples, built with it outside the tree."""
import glob
import os
import re
import shutil
import subprocess
import unittest

from cli import SACCADE, TIMEOUT_S, Case, main, saccade, sample

BUILD = os.path.dirname(SACCADE)
LIBRARY = os.path.join(BUILD, "libsaccade.so")
EXAMPLES = "ask", "describe", "batch", "choose", "pixels"
LIBAV = "libavformat", "libavcodec", "libswscale", "libavutil"


def output(*command, **options):
    return subprocess.run(command, text=True, timeout=TIMEOUT_S, check=True, stdout=subprocess.PIPE, **options).stdout


def has_libav():
    return subprocess.run(["pkg-config", "--exists", *LIBAV], timeout=TIMEOUT_S, check=False).returncode == 0


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
        self.assertIn("[libsaccade.so.0.2]", re.search(r"SONAME.*", output("readelf", "-d", LIBRARY)).group(0))
        self.assertNotIn("TEXTREL", output("readelf", "-d", LIBRARY))

    @unittest.skipUnless(shutil.which("cmake") and shutil.which("pkg-config"), "needs cmake and pkg-config")
    def test_programs_outside_the_tree(self):
        prefix, source, build = self.path("prefix"), self.path("examples"), self.path("build")
        output("cmake", "--install", BUILD, "--prefix", prefix)
        shutil.copytree("examples", source)
        output("cmake", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
        output("cmake", "--build", build)
        self.check(lambda name: [os.path.join(build, name)], {})
        # and without cmake
        where = next(w for w, _, names in os.walk(prefix) if "saccade.pc" in names)
        environment = dict(os.environ, PKG_CONFIG_PATH=where)
        flags = output("pkg-config", "--cflags", "--libs", "saccade", env=environment).split()
        for name in EXAMPLES:
            output(os.environ.get("CC", "cc"), "-std=c11", "-Wall", "-Wextra", "-Werror", os.path.join(source, name + ".c"), "-o",
                   self.path(name), *flags)
        output(os.environ.get("CXX", "c++"), "-std=c++17", "-Wall", "-Wextra", "-Werror", os.path.join(source, "ask.cpp"), "-o",
               self.path("ask_cpp"), *flags)
        if has_libav():
            flags += output("pkg-config", "--cflags", "--libs", *LIBAV).split()
            output(os.environ.get("CC", "cc"), "-std=c11", "-Wall", "-Wextra", "-Werror", os.path.join(source, "frames.c"), "-o",
                   self.path("frames"), *flags)
        self.check(lambda name: [self.path(name)], {"LD_LIBRARY_PATH": os.path.dirname(where)})

    def check(self, program, environment):
        """Each example answers as the command does."""
        options = {"env": {**os.environ, **environment}}
        question, pictures = "What color is the background?", sorted(glob.glob("samples/picture000*.png"))[:3]
        answers = [saccade("ask", "--image", picture, question).stdout for picture in pictures]
        for name in "ask", "describe":
            self.assertEqual(output(*program(name), "models/demo", pictures[0], question, **options), answers[0], name)
        self.assertEqual(output(*program("batch"), "models/demo", question, *pictures, **options),
                         "".join(f"{picture}: {answer}" for picture, answer in zip(pictures, answers)))
        run = subprocess.run([*program("batch"), "models/demo", question, pictures[0], "nosuch.png"], text=True, timeout=TIMEOUT_S,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        self.assertEqual((run.returncode, run.stdout), (66, ""))
        self.assertRegex(run.stderr, r"\Abatch: nosuch.png: [^\n]+\n\Z")
        self.check_others(program, options, pictures, question, answers)

    def check_others(self, program, options, pictures, question, answers):
        # a conversation, in C++
        described = saccade("ask", "--image", pictures[0], "Describe the image.").stdout
        self.assertEqual(output(*program("ask_cpp"), "models/demo", pictures[0], "Describe the image.", question, **options),
                         described + answers[0])
        run = subprocess.run([*program("ask_cpp"), "nosuch", pictures[0], question], text=True, timeout=TIMEOUT_S,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        self.assertEqual((run.returncode, run.stdout), (66, ""))
        self.assertRegex(run.stderr, r"\Aask_cpp: nosuch: [^\n]+\n\Z")
        # a sampler of one's own: what the model would say where it may, else one of the others, and never more than a choice
        answer = answers[0].strip()
        choose = [*program("choose"), "models/demo", pictures[0], question]
        self.assertEqual(output(*choose, "red", answer, "a red thing", **options), answers[0])
        for choices in ["red"], ["red", "blue"], ["Describe", "a red thing"]:
            self.assertIn(output(*choose, *choices, **options).strip(), choices)
        # pixels from memory
        for ground, name in (0, "black"), (128, "gray"), (255, "white"):
            self.assertEqual(output(*program("pixels"), "models/demo", question, *[str(ground)] * 3, **options), name + "\n")
        self.assertEqual(output(*program("pixels"), "models/demo", "What shape is blue?", **options), "square\n")
        # frames of another decoder
        if has_libav():
            row = sample(video=True)
            self.assertEqual(output(*program("frames"), "models/demo", row["file"], row["question"], stderr=subprocess.DEVNULL, **options),
                             row["answer"] + "\n")


if __name__ == "__main__":
    main()
