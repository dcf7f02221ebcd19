#!/usr/bin/env python3
"""Draws broken chat templates and checks what `saccade inspect` says of each.

    tools/check_bad_templates.py [--command build/asan/saccade] [--n 120] [--seed 1] [--show]

A template as published families write it, or a generated one, is damaged and stands in a model's folder. The command
must open it with code 0 where the damage does no harm, or end with code 65 and one line on stderr that names the file,
the line in it and what to do. Prints what falls short; ends with 1 then.
"""
import json
import os
import random
import re
import shutil
import sys

from chat_templates import TEMPLATES
from check_bad_configs import check_all
from template_statements import TemplateMaker, damaged

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODEL = os.path.join(ROOT, "tests", "golden", "models", "llama_f32")
ENDS = ["{% if x %}", "{% endif %}", "{{ messages.no_such() }}", "{{ 1 // 0 }}", "{{ s|no_such }}", "{% include 'x' %}", "{{ 'a",
        "{# a", "{% macro m() %}", "{{ messages.append(1) }}", "{{ undefined_name.x }}", "{{ messages + 1 }}", "{% block a %}",
        "{{ messages|urlencode }}", "{{ 'x'.encode() }}", "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{{ 'x' * 999999999 }}", "{{ messages is no_such }}", "{% set a.b = 1 %}"]


def broken(rng):
    if rng.random() < 0.4:
        return TemplateMaker(rng, damage=1).template()
    text = rng.choice([e["template"] for e in TEMPLATES.values() if isinstance(e["template"], str)])
    if rng.random() < 0.5:
        return rng.choice(ENDS) + text if rng.random() < 0.5 else text + rng.choice(ENDS)
    return damaged(rng, text)


def write(rng, folder, text):
    """The name of the file that holds the template."""
    name = rng.choice(["chat_template.jinja", "chat_template.json"])
    with open(os.path.join(folder, name), "w", encoding="utf-8", newline="") as f:
        f.write(text if name.endswith(".jinja") else json.dumps({"chat_template": text}))
    return name


def fault(run, name):
    """What is wrong with the answer, or None."""
    lines = run.stderr.split("\n")[:-1]
    if "Sanitizer" in run.stderr or "runtime error:" in run.stderr:
        return "a sanitizer's report"
    if run.returncode not in (0, 65):
        return f"exit code {run.returncode}"
    if run.returncode == 0:
        return None if len(lines) <= 1 else "more than one line"
    if len(lines) != 1 or not lines[0].startswith("saccade: "):
        return f"{len(lines)} lines"
    if name not in lines[0] or not re.search(r" line \d+", lines[0]):
        return "no file or no line is named"
    if "; " not in lines[0] or len(lines[0]) > 600 or re.search(r"[\x00-\x1f\x7f]", lines[0]):
        return "no remedy, control codes, or very long"
    return None


def draw(rng, outer):
    folder = os.path.join(outer, "model")
    shutil.copytree(MODEL, folder)
    name = write(rng, folder, broken(rng))
    return ["inspect", folder], name, lambda run: fault(run, name)


if __name__ == "__main__":
    sys.exit(check_all("templates", 120, draw))
