"""What programs linked with libsaccade.so rely on is what tests/golden/libsaccade.abi says (tools/check_abi.sh), and a change is caught:
planted in the headers of a library that has all their functions and does nothing."""
import os
import re
import shutil
import subprocess
import unittest

from cli import SACCADE, TIMEOUT_S, Case, main

LIBRARY = os.path.join(os.path.dirname(SACCADE), "libsaccade.so")
CC = os.environ.get("CC", "cc")
DECLARATION = re.compile(r"^(?!#|typedef)[^\n(=;{}]*\bsac_\w+\([^;{}]*\);", re.M)

# (what it says, what stands in saccade.h, what would stand there)
PLANTED = [
    ("data member insertion", "    bool no_rotate;", "    double speed;\n    bool no_rotate;"),
    ("size changed from", "    double fps;", "    float fps;"),
    ("type of 'double rope_theta'", "    double rope_theta;", "    int64_t rope_theta;"),
    ("name of 'sac_model_info::max_context' changed", "    int64_t max_context;", "    int64_t context;"),
    ("enumerator insertion", "    SAC_PART_TEXT", "    SAC_PART_SOUND,\n    SAC_PART_TEXT"),
    ("1 Removed", "SAC_API const char *sac_version(void);", ""),
    ("1 Added", "SAC_API const char *sac_version(void);", "SAC_API int sac_age(void);\nSAC_API const char *sac_version(void);"),
    ("return type changed", "SAC_API void sac_model_free(sac_model *m);", "SAC_API int sac_model_free(sac_model *m);"),
    ("in pointed to type 'function type", "typedef void (*sac_progress_fn)(void *ctx,", "typedef void (*sac_progress_fn)(double ctx,"),
]


def check(*arguments):
    return subprocess.run(["tools/check_abi.sh", *arguments], text=True, timeout=TIMEOUT_S, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)


@unittest.skipUnless(shutil.which("abidw") and shutil.which(CC), "needs abigail-tools and a C compiler")
class Abi(Case):
    def stub(self, was="", would_be=""):
        """A library of the headers' functions, after a change to them; and the folder of the headers."""
        headers = self.path("include/saccade")
        shutil.rmtree(headers, ignore_errors=True)
        shutil.copytree("include/saccade", headers)
        with open(os.path.join(headers, "saccade.h"), encoding="utf-8") as f:
            text = f.read()
        self.assertIn(was, text)
        with open(os.path.join(headers, "saccade.h"), "w", encoding="utf-8") as f:
            f.write(text.replace(was, would_be, 1))
        source = "#include <saccade/saccade.h>\n"
        for name in "status.h", "saccade.h":
            with open(os.path.join(headers, name), encoding="utf-8") as f:
                for declaration in DECLARATION.findall(re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)):
                    source += declaration.rstrip(";") + " { __builtin_trap(); }\n"
        library = self.path("libsaccade.so")
        subprocess.run([CC, "-std=c11", "-g", "-shared", "-fPIC", "-Wl,-soname,libsaccade.so.0.2", "-I", self.path("include"),
                        self.path("stub.c", source), "-o", library], check=True, timeout=TIMEOUT_S)
        return library, headers

    @unittest.skipUnless(os.path.exists(LIBRARY), "built without -DSAC_SHARED=ON")
    def test_the_library_is_what_is_kept(self):
        run = check(LIBRARY)
        self.assertEqual((run.returncode, run.stdout), (0, ""))

    def test_the_headers_are_what_is_kept(self):
        run = check(*self.stub())
        self.assertEqual((run.returncode, run.stdout), (0, ""))

    def test_changes_are_caught(self):
        for says, was, would_be in PLANTED:
            with self.subTest(would_be):
                run = check(*self.stub(was, would_be))
                self.assertEqual(run.returncode, 1, run.stdout)
                self.assertIn(says, run.stdout)
                self.assertIn("tools/check_abi.sh --renew", run.stdout)

    def test_a_library_without_debug_information_is_refused(self):
        library, headers = self.stub()
        subprocess.run(["strip", "--strip-debug", library], check=True, timeout=TIMEOUT_S)
        run = check(library, headers)
        self.assertEqual(run.returncode, 65, run.stdout)
        self.assertIn("no debug information", run.stdout)


if __name__ == "__main__":
    main()
