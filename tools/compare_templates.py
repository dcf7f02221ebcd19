#!/usr/bin/env python3
"""Random chat templates through Jinja2, set up as transformers does it, and through template_probe: the text must
be equal, or both must fail.

    tools/compare_templates.py --probe build/release/template_probe --count 100000 [--seed 1] [--show 10] [--jobs 2]
    tools/compare_templates.py --golden tests/golden/templates.json   (what tests/unit/test_template.c reads; needs the
                                                                       probe, too, to leave out what is refused)

Counted apart, because llm/text/template/template.h tells of them and the error names them: integers beyond 64 bits,
filters, tags and attributes that are not there, the text of what Python shows by its address, slices of constants,
wide fields.
"""
import argparse
import concurrent.futures
import datetime
import json
import random
import subprocess
import sys
import tempfile

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from template_cases import CASES
from template_maker import variables
from template_statements import TemplateMaker, damaged
from template_stress import NameMaker, TextMaker, ValueMaker

BATCH = 500


class Generation(jinja2.ext.Extension):
    """{% generation %} as transformers reads it: the body is written as it is."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_write"), [], [], body).set_lineno(line)

    def _write(self, caller):
        return caller()


class TemplateDict:
    """dict as transformers gives it to templates."""

    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)

    def fromkeys(self, *args, **kwargs):
        return dict.fromkeys(*args, **kwargs)


class TemplateNamespace(jinja2.utils.Namespace):
    """namespace as transformers gives it to templates: no names that begin with _."""

    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        attributes = dict(*args, **kwargs)
        for name in attributes:
            TemplateNamespace._check_name(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name, value):
        TemplateNamespace._check_name(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def _check_name(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(name)


def environment():
    """What transformers.utils.chat_template_utils makes; the clock stands at 0."""
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: datetime.datetime.fromtimestamp(0).strftime(format)
    env.globals["dict"] = TemplateDict()
    env.globals["namespace"] = TemplateNamespace
    return env


REFUSED = ("beyond 64 bits", "cannot be used in a chat template here", "Python would show its address",
           "a constant of type",
           "is wider than 1000")


def known(got):
    """The refusal of template.h that an error tells of, or None."""
    return next((what for what in REFUSED if what in got.get("error", "")), None)


def make_template(rng):
    """Most are whole templates; some try names in scopes, some single operations."""
    kind = rng.random()
    if kind < 0.16:
        made = NameMaker(rng).template()
        return damaged(rng, made) if rng.random() < 0.04 else made
    if kind < 0.22:
        return TextMaker(rng).template()
    return ValueMaker(rng).template() if kind < 0.32 else TemplateMaker(rng).template()


def render(env, template, values):
    """(text, error)"""
    try:
        return env.from_string(template).render(**values), None
    except Exception as error:  # whatever Python makes of it, the template failed
        return None, f"{type(error).__name__}: {error}"


def probe_all(probe, cases):
    """What template_probe makes of the cases."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as f:
        for template, values in cases:
            f.write(json.dumps({"template": template, "variables": values}) + "\n")
        f.flush()
        f.seek(0)
        run = subprocess.run([probe], stdin=f, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    lines = run.stdout.decode("utf-8").split("\n")[:-1]
    if len(lines) != len(cases):
        sys.exit(f"the probe ended with {run.returncode} on {cases[len(lines)]!r}: {run.stderr[-2000:]!r}")
    return [json.loads(line) for line in lines]


def compare_batch(probe, seed, first, count):
    """(compared, failing in Jinja2, known differences by kind, differences)"""
    env, cases, apart, different, failed = environment(), [], {}, [], 0
    for i in range(first, first + count):
        rng = random.Random(seed * 1000003 + i)
        cases.append((make_template(rng), variables(rng)))
    for (template, values), got in zip(cases, probe_all(probe, cases)):
        expected, error = render(env, template, values)
        failed += expected is None
        if got.get("text") == expected:
            continue
        kind = known(got)
        if kind:
            apart[kind] = apart.get(kind, 0) + 1
        else:
            different.append({"template": template, "variables": values, "jinja2": expected if error is None else error,
                              "saccade": got})
    return count, failed, apart, different


def write_golden(path, probe, seed, count):
    """Short templates and what Jinja2 makes of them: null where it fails. Those that are refused are left out."""
    env, cases, rng = environment(), [], random.Random(seed)
    given = [variables(rng) for _ in range(8)]
    for template in CASES:
        cases.append([template, render(env, template, given[len(cases) % len(given)])[0]])
    while len(cases) < count:
        maker = rng.choices([NameMaker, TextMaker, ValueMaker, None], [2, 1, 2, 5])[0]
        template = maker(rng).template() if maker else TemplateMaker(rng, wrong=0.02).template(most=5, depth=2)
        text = render(env, template, given[len(cases) % len(given)])[0]
        shown = text or ""
        is_refused = text is not None and known(probe_all(probe, [(template, given[len(cases) % len(given)])])[0])
        if 20 < len(template) < 400 and len(shown) < 1000 and not is_refused:
            cases.append([template, text])
    with open(path, "w", encoding="utf-8") as f:
        f.write('{"variables": [\n' + ",\n".join(json.dumps(v) for v in given) + '],\n"cases": [\n')
        f.write(",\n".join(json.dumps(c) for c in cases) + "]}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--probe", default="build/release/template_probe")
    parser.add_argument("--golden", metavar="FILE", help="write the cases of the unit test instead")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    if args.golden:
        write_golden(args.golden, args.probe, args.seed, 800)
        return
    total, failed, apart, n_different = 0, 0, {}, 0
    with concurrent.futures.ProcessPoolExecutor(args.jobs) as pool:
        jobs = [pool.submit(compare_batch, args.probe, args.seed, i, min(BATCH, args.count - i))
                for i in range(0, args.count, BATCH)]
        for job in jobs:
            count, n_failed, kinds, different = job.result()
            total, failed = total + count, failed + n_failed
            for kind, n in kinds.items():
                apart[kind] = apart.get(kind, 0) + n
            for one in different[:max(0, args.show - n_different)]:
                print(json.dumps(one, ensure_ascii=False))
            n_different += len(different)
    told = ", ".join(f"{n} {kind}" for kind, n in sorted(apart.items())) or "none"
    print(f"{total} templates: {n_different} differ; {total - failed} render in Jinja2, {failed} fail; known apart: {told}")
    sys.exit(n_different > 0)


if __name__ == "__main__":
    main()
