"""Every example within a public header compiles. An example is a run of comment lines that begin with " *   " (three
spaces) and hold a semicolon; what it does not declare itself are the parameters of the function it is compiled in.

  python3 tests/headers/test_examples.py COMPILER INCLUDE_FOLDER
"""
import pathlib
import re
import subprocess
import sys

PARAMETERS = ("sac_session *s, const sac_message *messages, size_t n_messages, const sac_sampling *sampling, "
              "const sac_events *events, sac_error *err, sac_result result, const sac_model *model, const unsigned char *rgb")


def examples(text):
    """(line, code) of each."""
    found, block, first = [], [], 0
    for number, line in enumerate(text.splitlines() + [""], 1):
        match = re.match(r" \* {3,}(\S.*)$", line)
        if match and not match.group(1).startswith("- "):
            first = first or number
            block.append(match.group(0)[3:])
            continue
        code = "\n".join(block)
        if ";\n" in code + "\n" and "(" in code:
            found.append((first, code))
        block, first = [], 0
    return found


def compiles(compiler, include, header, code):
    source = (f'#include "saccade/{header}"\n#include <stdio.h>\nvoid example({PARAMETERS});\n'
              f"void example({PARAMETERS}) {{\n(void)s, (void)messages, (void)n_messages, (void)sampling, (void)events, (void)err, "
              f"(void)result, (void)model, (void)rgb;\n{{\n{code}\n}}\n}}\n")
    run = subprocess.run([compiler, "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{include}", "-fsyntax-only", "-x", "c", "-"],
                         input=source, text=True, capture_output=True)
    return run.returncode == 0, run.stderr


def main(compiler, include):
    folder, bad, n = pathlib.Path(include), 0, 0
    for header in sorted((folder / "saccade").glob("*.h")):
        for line, code in examples(header.read_text()):
            good, errors = compiles(compiler, include, header.name, code)
            n, bad = n + 1, bad + (not good)
            print(f"{header}:{line}: {'compiles' if good else 'does not compile'}")
            if not good:
                print(code, errors, sep="\n")
    if n == 0:
        print("no example was found")
    return 1 if bad or n == 0 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
