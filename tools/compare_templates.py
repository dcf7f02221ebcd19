#!/usr/bin/env python3
"""Random chat templates through Jinja2, set up as transformers does it, and through template_probe: the text must
be equal, or both must fail.

    tools/compare_templates.py --probe build/release/template_probe --count 100000 [--seed 1] [--show 10]
"""
import argparse
import json
import random
import subprocess
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(jinja2.ext.Extension):
    """{% generation %} as transformers reads it: the body is written as it is."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_write"), [], [], body).set_lineno(line)

    def _write(self, caller):
        return caller()


def environment():
    """What transformers.utils.chat_template_utils makes."""
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    return env


NAMES = ["a", "b", "c", "xs", "d", "s", "messages", "m", "ns", "nope"]
TEXTS = ["", "x", " ab ", "user", "Ünï 你好", "a\nb", "<|im_end|>", "'q\"", "A-b c", "12", "ß\u00a0"]
FILTERS = ["trim", "upper", "lower", "title", "capitalize", "length", "list", "first", "last", "join(',')", "tojson",
           "tojson(indent=2)", "default('z')", "default('z', true)", "string", "int", "float", "reverse|list", "sort",
           "unique|list", "replace('a', 'b')", "items|list", "map('upper')|list", "map(attribute='role')|join('+')",
           "selectattr('role', 'equalto', 'user')|list", "select('string')|list", "abs", "round", "min", "max",
           "indent(2)", "dictsort", "batch(2)|list", "escape", "reject('none')|list"]
TESTS = ["defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "integer", "boolean",
         "true", "false", "odd", "even", "divisibleby(2)", "in xs", "sameas none", "eq 1", "lower", "float"]
METHODS = ["strip()", "upper()", "split()", "split('a')", "startswith('u')", "endswith(' ')", "replace('a','b')",
           "lstrip('a')", "rstrip()", "title()", "items()", "keys()|list", "values()|list", "get('role')", "get('k', 3)",
           "find('b')", "count('a')", "splitlines()", "isdigit()", "join(['p','q'])", "index(1)", "role", "content", "0"]
OPERATORS = ["+", "-", "*", "//", "/", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]


class Maker:
    def __init__(self, rng):
        self.rng = rng

    def pick(self, options):
        return self.rng.choice(options)

    def value(self, depth):
        kind = self.rng.randrange(9 if depth > 0 else 5)
        if kind == 0:
            return self.pick(NAMES)
        if kind == 1:
            return json.dumps(self.pick(TEXTS), ensure_ascii=False)
        if kind == 2:
            return str(self.rng.randrange(-2, 7))
        if kind == 3:
            return self.pick(["true", "false", "none", "1.5", "0.1", "2e3", "messages", "xs", "d"])
        if kind == 4:
            return self.pick(NAMES)
        if kind == 5:
            return "[" + ", ".join(self.expression(depth - 1) for _ in range(self.rng.randrange(3))) + "]"
        if kind == 6:
            return "{'k': " + self.expression(depth - 1) + ", 'role': " + self.expression(depth - 1) + "}"
        if kind == 7:
            return "(" + self.expression(depth - 1) + ")"
        return "m1(" + self.expression(depth - 1) + ")"

    def expression(self, depth):
        e = self.value(depth)
        kind = self.rng.randrange(12)
        if depth <= 0 or kind < 3:
            return e
        if kind == 3:
            return e + "|" + self.pick(FILTERS)
        if kind == 4:
            return e + "." + self.pick(METHODS)
        if kind == 5:
            return e + self.pick([" is ", " is not "]) + self.pick(TESTS)
        if kind == 6:
            return e + "[" + self.expression(depth - 1) + "]"
        if kind == 7:
            return e + self.pick(["[1:]", "[:-1]", "[::-1]", "[0:2]", "[::2]", "[-1]", "['role']", "[0].role"])
        if kind == 8:
            return f"{e} if {self.expression(depth - 1)} else {self.expression(depth - 1)}"
        if kind == 9:
            return self.pick(["not ", "-", "+"]) + e
        return f"{e} {self.pick(OPERATORS)} {self.expression(depth - 1)}"

    def tag(self, text, bracket="%"):
        return ("{" + bracket + self.pick(["", "", "", "-", "+" if bracket == "%" else ""]) + " " + text + " " +
                self.pick(["", "", "", "-"]) + ("}}" if bracket == "{" else "%}"))

    def body(self, depth):
        return "".join(self.statement(depth) for _ in range(self.rng.randrange(1, 4)))

    def statement(self, depth):
        kind, name = self.rng.randrange(18 if depth > 0 else 7), self.pick(NAMES)
        if kind < 2:
            return self.pick(["text", " ", "\n", "  \n", "é\n  ", "<|a|>\n", "\t"])
        if kind < 5:
            return self.tag(self.expression(2), "{")
        if kind == 5:
            return self.tag(f"set {name} = {self.expression(2)}")
        if kind == 6:
            return self.pick(["{# c #}", "{#- c -#}\n", self.tag(f"set ns.{self.pick('ab')} = {self.expression(1)}")])
        inner = self.body(depth - 1)
        if kind < 9:
            return self.tag(f"if {self.expression(2)}") + inner + self.pick(
                ["", self.tag("else") + self.body(depth - 1), self.tag(f"elif {self.expression(1)}") + self.body(depth - 1)]
            ) + self.tag("endif")
        if kind < 14:
            loop = self.pick(["", "", self.tag(self.pick(["loop.index", "loop.first", "loop.last", "loop.length", "loop.index0",
                             "loop.cycle('x','y')", "loop.revindex", "loop.previtem", "loop.nextitem", "loop.changed(a)"]), "{"),
                              self.tag("if " + self.expression(1)) + self.tag(self.pick(["break", "continue"])) + self.tag("endif")])
            head = self.pick([f"for {name} in {self.pick(['xs', 'messages', 'd', 's', self.expression(1)])}",
                              "for a, b in d.items()", f"for {name} in messages if {self.expression(1)}",
                              f"for {name} in range({self.rng.randrange(5)})"])
            return self.tag(head) + loop + inner + self.pick(["", self.tag("else") + "none"]) + self.tag("endfor")
        if kind == 14:
            return self.tag("macro m1(a, b=2)") + inner + self.tag("endmacro") + self.tag("m1(1)", "{")
        if kind == 15:
            return self.tag(f"set {name}" + self.pick(["", " | upper", " | trim"])) + inner + self.tag("endset")
        if kind == 16:
            return self.tag("filter " + self.pick(["upper", "trim", "replace('a', b)"])) + inner + self.tag("endfilter")
        return self.pick([self.tag("generation") + inner + self.tag("endgeneration"),
                          self.tag(f"with {name} = {self.expression(1)}") + inner + self.tag("endwith")])

    def template(self):
        head = self.pick(["", "{% set ns = namespace(a=1, b='x') %}", "{% macro m1(x, y=1) %}[{{ x }}{{ y }}]{% endmacro %}"])
        return head + "".join(self.statement(3) for _ in range(self.rng.randrange(1, 6)))


def variables(rng):
    text = lambda: rng.choice(TEXTS)
    return {"a": rng.choice([1, 0, True, None, 2.5, text()]), "b": text(), "s": text(), "c": rng.choice([[], {}, [1, [2]]]),
            "xs": [rng.choice([1, 2, 3, text()]) for _ in range(rng.randrange(4))], "d": {"k": text(), "role": 1},
            "messages": [{"role": rng.choice(["user", "assistant"]), "content": text()} for _ in range(rng.randrange(4))]}


def is_exception(text, expected):
    """Known differences: text that shows an address or a generator, integers beyond 64 bits, attributes of numbers."""
    return expected is not None and any(w in expected for w in ("<generator", " object at 0x", "<built-in", "<bound", "<function",
                                                                  "<Macro", "dict_items", "dict_keys", "dict_values",
                                                                  "<class", "<reversed", "range(", "<wrapped"))


def render(env, template, values):
    try:
        return env.from_string(template).render(**values)
    except Exception as error:  # whatever Python makes of it, the template failed
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--probe", required=True)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=5)
    args = parser.parse_args()
    probe = subprocess.Popen([args.probe], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
    env, rng, different, failed, excepted = environment(), random.Random(args.seed), 0, 0, 0
    for _ in range(args.count):
        template, values = Maker(rng).template(), variables(rng)
        expected = render(env, template, values)
        probe.stdin.write(json.dumps({"template": template, "variables": values}) + "\n")
        probe.stdin.flush()
        line = probe.stdout.readline()
        if not line:
            sys.exit(f"the probe ended on {template!r} with {values!r}")
        got = json.loads(line)
        failed += expected is None
        if got.get("text") == expected:
            continue
        if is_exception(template, expected):
            excepted += 1
            continue
        different += 1
        if different <= args.show:
            print(json.dumps({"template": template, "variables": values, "jinja2": expected, "saccade": got}, ensure_ascii=False))
    print(f"{args.count} templates: {different} differ, {failed} fail in Jinja2, {excepted} known exceptions")
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
