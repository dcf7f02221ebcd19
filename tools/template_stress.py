"""Random chat templates that try what ordinary ones rarely meet: NameMaker's few names set and read in scopes within
scopes, ValueMaker's filters, tests, methods and operators on values of every kind, TextMaker's white space. Used by
compare_templates.py."""
from template_maker import JSON_FORMS, LITERALS, SLICES

NAMES = ["a", "b", "c", "s", "a", "b"]
LAZY = ["xs|map('upper')", "mixed|select", "nums|reject('odd')", "messages|map(attribute='role')", "rows|map('first')",
        "xs|unique", "xs|batch(2)",
        "nums|slice(2)", "d|items", "mixed|map('abs')", "mixed|map('nope')", "messages|selectattr('n', 'nope')",
        "[[], 1]|unique", "n|map('upper')"]


class NameMaker:
    """Statements around a handful of names. What is printed is short, and undefined names print nothing."""

    def __init__(self, rng):
        self.rng, self.count, self.macros = rng, 0, []

    def pick(self, options):
        return options[int(self.rng.random() * len(options))]

    def chance(self, p):
        return self.rng.random() < p

    def name(self):
        return self.pick(NAMES)

    def literal(self):
        self.count += 1
        return f"'{self.count}'"

    def value(self):
        return self.pick([self.literal, self.literal, self.name, lambda: f"{self.name()} ~ {self.literal()}",
                          lambda: f"[{self.name()}, {self.name()}]|string",
                          lambda: f"{self.name()}|default({self.literal()})", lambda: f"ns.{self.name()}",
                          lambda: f"({self.name()} if flag else {self.name()})",
                          lambda: f"{self.name()} or {self.name()}", lambda: "(loop.index if loop is defined)",
                          lambda: f"{self.name()}|upper"])()

    def shown(self):
        return "{{ " + self.pick([self.name(), self.name(), self.name(), f"{self.name()} is defined",
                                  f"[{self.name()}, {self.name()}]", f"ns.{self.name()}",
                                  f"{self.name()} ~ '.' ~ {self.name()}", "(loop.index if loop is defined)",
                                  "loop is defined", "(loop.previtem if loop is defined)", "varargs", "kwargs",
                                  f"{self.name()}|upper"]) + " }}"

    def condition(self):
        return self.pick(["flag", "not flag", self.name(), f"{self.name()} is defined", f"{self.name()} == '1'",
                          "loop is defined and loop.first", "ns.a", "n > 2"])

    def body(self, depth):
        return "".join(self.statement(depth) for _ in range(self.rng.randrange(1, 4)))

    def statement(self, depth):
        if depth <= 0 or self.chance(0.45):
            return self.pick([self.shown, self.shown, self.set_, self.set_, self.set_, self.call, lambda: "|"])()
        return self.pick([self.if_, self.if_, self.for_, self.for_, self.recursive, self.macro, self.macro,
                          self.call_block, self.set_block, self.with_,
                          self.filter_, self.generation])(depth - 1)

    def set_(self):
        if self.chance(0.06):
            return self.pick([f"{{% set {self.name()} = {self.value()}, %}}",
                              f"{{% set (a, b) = {self.name()}, {self.literal()} %}}",
                              f"{{% print {self.value()}, a %}}",
                              f"{{% set {self.name()} = {self.literal()}, {self.name()} %}}",
                              f"{{{{ {self.value()}, {self.name()} }}}}"])
        if self.chance(0.15):
            return f"{{% set {self.name()}, {self.pick(['a', 'c'])} = {self.value()}, {self.value()} %}}"
        if self.chance(0.2):
            return f"{{% set ns.{self.name()} = {self.value()} %}}"
        return f"{{% set {self.name()} = {self.value()} %}}"

    def call(self):
        if not self.macros:
            return self.shown()
        name = self.pick(self.macros)
        if self.chance(0.2):
            rest = self.pick(["*xs", "*[a, b]", "**{'a': 1}", "*(1,), **{'b': s}", "a, *nums", "**{}", "*missing",
                              "caller=a", "a=1, **{'b': 2}"])
            return f"{{% if {name} is defined and {name} is callable %}}{{{{ {name}({rest}) }}}}{{% endif %}}"
        arguments = ", ".join(self.pick([self.value, self.value,
                                         lambda: f"{self.pick(['a', 'b', 'zz'])}={self.value()}"])() for _ in range(self.rng.randrange(3)))
        if "=" in arguments:
            arguments = arguments.split("=")[0].split(",")[-1].strip() + "=" + self.literal()
        return f"{{% if {name} is defined and {name} is callable %}}{{{{ {name}({arguments}) }}}}{{% endif %}}"

    def if_(self, depth):
        text = f"{{% if {self.condition()} %}}" + self.body(depth)
        if self.chance(0.3):
            text += f"{{% elif {self.condition()} %}}" + self.body(depth)
        return text + ("{% else %}" + self.body(depth) if self.chance(0.5) else "") + "{% endif %}"

    def for_(self, depth):
        target, over = self.pick([(self.name(), "xs"), (self.name(), "nums"), ("a, b", "rows"),
                                  ("b, (a, c)", "[[1, [2, 3]], [4, (5, 6)]]"), (self.name(), "range(3)"),
                                  ("a, c", "d.items()"), (self.name(), "xs|map('upper')"),
                                  (self.name(), "xs|batch(2)"), (self.name(), self.name()),
                                  (self.name(), self.pick(LAZY)), ("b, a", "d|dictsort"),
                                  ("a, b", "messages|groupby('role')"), (self.name(), "messages")])
        test = self.pick(["", "", "", f" if {self.condition()}", f" if {self.name()}", f" if {self.name()} is defined",
                          " if ns.a != 'q'"])
        text = f"{{% for {target} in {over}{test} %}}"
        if self.chance(0.25):
            text += "{{ " + self.pick(["loop.index", "loop.length", "loop.last", "loop.nextitem", "loop.previtem",
                                       "loop.revindex", "loop.revindex0", "loop.first", "loop",
                                       "loop.cycle(1, 2)", "loop.changed(a)", "loop|length", "loop.depth"]) + " }}"
        if self.chance(0.2):
            text += f"{{% if {self.pick([self.condition(), 'loop.index == 2'])} %}}{self.pick(['{% break %}', '{% continue %}'])}{{% endif %}}"
        text += self.body(depth)
        return text + ("{% else %}" + self.body(depth) if self.chance(0.3) else "") + "{% endfor %}"

    def recursive(self, depth):
        name = self.pick(["a", "b", "q"])
        test = self.pick(["", "", f" if ({self.name()} is defined)", " if flag", f" if {name}.name"])
        again = f"{{% if {name}.children %}}({{{{ loop({name}.children) }}}}){{% endif %}}"
        parts = [again, "{{ loop.depth }}{{ loop.index0 }}", self.body(depth)]
        self.rng.shuffle(parts)
        return f"{{% for {name} in tree{test} recursive %}}{''.join(parts)}" + ("{% else %}" + self.body(depth) if self.chance(0.2) else "") + "{% endfor %}"

    def macro(self, depth):
        name = self.pick(["m", "w", "a"]) if self.chance(0.1) else f"m{len(self.macros)}"
        parameters = self.pick(["", "", "a", "b='x'", "a, b=a", "a=b", "c=s, b=c", "a, b, c='z'", "caller='k'",
                                "b='1', caller=none"])
        outer, self.macros = self.macros, list(self.macros)
        text = f"{{% macro {name}({parameters}) %}}" + self.body(depth)
        text += self.pick(["", "", "", "{{ caller() if caller }}", "{{ varargs }}", "{{ kwargs }}",
                           "{{ caller(a) if caller }}"]) + "{% endmacro %}"
        self.macros = outer + [name]
        return text

    def call_block(self, depth):
        name = self.pick(self.macros or ["m"])
        given = self.pick(["", "", "", "(b)", "(b='e')", "(a, b=a)"])
        return f"{{% if {name} is defined and {name} is callable %}}{{% call{given} {name}({self.pick(['', '', 'a', 's'])}) %}}{self.body(depth)}{{% endcall %}}{{% endif %}}"

    def set_block(self, depth):
        return f"{{% set {self.name()}{self.pick(['', '', ' | upper', ' | trim'])} %}}{self.body(depth)}{{% endset %}}"

    def with_(self, depth):
        more = f", {self.name()} = {self.value()}" if self.chance(0.4) else ""
        return f"{{% with {self.name()} = {self.value()}{more} %}}{self.body(depth)}{{% endwith %}}"

    def filter_(self, depth):
        return f"{{% filter {self.pick(['upper', 'trim', 'default(a)', 'replace(s, b)', 'title'])} %}}{self.body(depth)}{{% endfilter %}}"

    def generation(self, depth):
        return "{% generation %}" + self.body(depth) + "{% endgeneration %}"

    def template(self):
        self.count, self.macros = 0, []
        return "{% set ns = namespace(a='q', b=none) %}" + "".join(self.statement(3) + self.pick(["", "\n", " "]) for _ in range(self.rng.randrange(2, 6)))


VALUES = ["s", "t", "n", "k", "f", "flag", "nothing", "xs", "nums", "messages", "d", "m0", "mixed", "rows", "tools",
          "missing", "d.missing", "''", "'a'", "'Ab c'", "' x '",
          "'12'", "'0x1f'", "'1_0'", "'3.5'", "'-1e3'", "'٣'", "'½'", "'²'", "'三'", "'ß'", "'<b>'|safe", "'a&b'|e",
          "0", "1", "-1", "7", "2.5", "-0.0", "1e16", "0.1", "true",
          "false", "none", "[]", "[1, 2]", "[3, 1.5, true]", "['b', 'A']", "[none]", "[none, none]", "[[1], [2]]",
          "[[], []]", "(1,)", "()", "(1, 'a')", "{}", "{'a': 1}",
          "{1: 2, none: 3}", "{'b': 2, 'a': [1]}", "range(3)", "range(0)", "range(5, 0, -2)", "d.keys()", "d.values()",
          "d.items()", "{}.items()", "range", "dict", "s.upper",
          "d.get", "ns", "mac", "('nan' ~ t[:0])|float", "('inf' ~ t[:0])|float", "xs|first", "messages[0]",
          "{'a': {'b': [1, {'c': 2}]}}", "'a\\nb\\n'", "'%s'", "'{}'", "xs[:1]"] + LAZY
PIECES = ["a", "b ", " ", "  ", "\t", "\n", "\n\n", "\r\n", "\r", " \n ", "\x0b", "\x0c", "\u00a0", "\u2028", "\x1c",
          "\x85", "\u3000", "{", "}", "%", "#", "{ {", "é"]


class TextMaker:
    """White space of every kind around tags with and without signs."""

    def __init__(self, rng):
        self.rng = rng

    def pick(self, options):
        return options[int(self.rng.random() * len(options))]

    def tag(self, text):
        signs = ["", "", "", "-", "+"]
        return "{%" + self.pick(signs) + self.pick(["", " ", "\n",
                                                    "\t "]) + text + self.pick([" ", "\n", "  "]) + self.pick(signs) + "%}"

    def text(self):
        return "".join(self.pick(PIECES) for _ in range(self.rng.randrange(4)))

    def part(self, depth):
        return self.pick([self.text, self.text,
                          lambda: "{{" + self.pick(["", "-"]) + self.pick([" s ", "1", " '\\n' ", "s\n"]) + self.pick(["", "-"]) + "}}",
                          lambda: "{#" + self.pick(["", "-", "+"]) + self.pick([" c ", "", "\n", "{{ x }}", " {% if"]) + self.pick(["", "-", "+"]) + "#}", lambda: self.tag("set q = 1"),
                          lambda: self.tag("raw") + self.text() + self.pick(["{{ x }}", "{% if %}", "", "{# #}"]) + self.text() + self.tag("endraw"),
                          lambda: self.tag("if flag") + self.body(depth - 1) + self.tag("endif"),
                          lambda: self.tag("for x in [1, 2]") + self.body(depth - 1) + self.tag("endfor"),
                          lambda: self.tag("set z") + self.body(depth - 1) + self.tag("endset") + "{{ z }}",
                          lambda: self.tag("generation") + self.body(depth - 1) + self.tag("endgeneration")])()

    def body(self, depth):
        return "".join(self.part(depth) for _ in range(self.rng.randrange(1, 5))) if depth > 0 else self.text()

    def template(self):
        return self.body(3)


OF_KIND = {
    "str": (["s", "t", "'a'", "'Ab c'", "' x '", "'12'", "'-1e3'", "'٣½²三'", "'ß'", "'<b>'|safe", "'a&b'|e",
             "'a\\nb\\n'", "'%s'", "'{} {0}'", "m0.role", "'1_0'"],
            ["capitalize", "center", "count", "default", "e", "first", "float", "forceescape", "format", "indent",
             "int", "join", "last", "length", "list", "lower", "map", "max",
             "replace", "reverse", "safe", "string", "title", "tojson", "trim", "unique", "upper", "sort", "batch",
             "select"]),
    "num": (["n", "k", "f", "0", "7", "-1", "2.5", "-0.0", "1e16", "true", "loop_none|default(3)"],
            ["abs", "round", "int", "float", "string", "tojson", "default", "format", "center"]),
    "list": (["xs", "nums", "messages", "mixed", "rows", "[3, 1.5, true]", "['b', 'A']", "[[1], [2]]", "(1, 2)", "()",
              "range(5, 0, -2)", "d.keys()", "d.items()", "[none, none]"]
             + LAZY[:9], ["batch", "count", "first", "groupby", "join", "last", "length", "list", "map", "max", "min",
                          "reject", "rejectattr", "reverse", "select", "selectattr",
                          "slice", "sort", "string", "sum", "tojson", "unique", "default", "items"]),
    "dict": (["d", "m0", "{}", "{'b': 2, 'a': [1]}", "{1: 2, 3: 'x'}", "dict(d, q=1)", "messages[0]"],
             ["dictsort", "items", "length", "list", "string", "tojson", "first", "last", "join", "sort", "map",
              "select", "reverse", "unique", "attr", "default", "format"])}
FILTERS = {"abs": [""], "attr": ["('role')", "('upper')", "('x')"], "batch": ["(2)", "(2, 'f')", "(0)", "(3, none)"],
           "capitalize": [""], "center": ["", "(5)", "(width=7)"],
           "count": [""], "default": ["", "('z')", "('z', true)", "(default_value=1)"], "d": ["('y', boolean=true)"],
           "dictsort": ["", "(true)", "(by='value')", "(false, 'key', true)"],
           "e": [""], "escape": [""], "first": [""], "float": ["", "(1.5)", "(default='x')"], "forceescape": [""],
           "format": ["", "(1)", "(s, n)", "(a=1)"],
           "groupby": ["('role')", "(0)", "('n', default=1)", "('role', case_sensitive=true)", "('a.b')"],
           "indent": ["", "(2)", "(2, true)", "('>')", "(first=true, blank=true)"],
           "int": ["", "(5)", "(default=none)", "(0, 16)", "(base=0)", "(0, 1)", "(0, 2)"], "items": [""],
           "join": ["", "(',')", "(', ', 'role')", "(attribute=0)"], "last": [""],
           "length": [""], "list": [""], "lower": [""], "map": ["('upper')", "(attribute='role')", "('default', 'x')",
                                                                "(attribute='n', default=3)", "('int')", "", "('list')",
                                                                "('join', '-')", "(attribute=0)", "('abs')",
                                                                "('string')", "('length')", "('attr', 'role')"],
           "max": ["", "(attribute='role')", "(true)"], "min": ["", "(case_sensitive=true)", "(attribute=0)"],
           "reject": ["", "('none')", "('string')", "('odd')", "('nope')"],
           "rejectattr": ["('role')", "('n', 'defined')", "('role', 'eq', 'user')", "(0)", ""],
           "replace": ["('a', 'b')", "('', '-')", "('a', '', 1)", "(1, 2)", "('b', 'c', count=1)"],
           "reverse": [""], "round": ["", "(1)", "(-1)", "(2, 'floor')", "(method='ceil')", "(none)", "(0, 'nope')"],
           "safe": [""],
           "select": ["", "('none')", "('gt', 1)", "('in', xs)", "('defined')", "('mapping')"],
           "selectattr": ["('role')", "('n', 'defined')", "('role', 'in', ['user'])", "('0')"],
           "slice": ["(2)", "(3, 'f')", "(-1)", "(0)"], "sort": ["", "(true)", "(case_sensitive=true)",
                                                                 "(attribute='role')", "(attribute='role,content')",
                                                                 "(attribute=0)", "(true, true, none)"],
           "string": [""], "sum": ["", "(start=1)", "('n')", "(attribute=0)", "(start=[])"], "title": [""],
           "tojson": [f[6:] for f in JSON_FORMS] + ["(indent=none)", "(separators=',:')"],
           "trim": ["", "('a')", "(none)", "(chars=' ')"],
           "unique": ["", "(true)", "(attribute='role')", "(attribute=0)"], "upper": [""]}
TESTS = ["boolean", "callable", "defined", "divisibleby(2)", "divisibleby 0", "eq 1", "equalto('a')", "escaped",
         "even", "false", "filter", "float", "ge(1)", "greaterthan 0", "gt 'a'",
         "in xs", "in d", "in 'abc'", "in mixed", "integer", "iterable", "le 2", "lessthan(3)", "lower", "lt none",
         "mapping", "ne 1", "none", "number", "odd", "sameas none",
         "sameas false", "sequence", "string", "test", "true", "undefined", "upper", "in d.keys()", "in range(3)",
         "== 1", "in (xs|map('upper'))"]
METHODS = ["capitalize()", "casefold()", "center(9)", "center(8, '*')", "count('a')", "count(1)", "endswith('b')",
           "endswith(('a', 'c'))", "expandtabs()", "find('b')", "format()",
           "format(1, a=2)", "get('role')", "get('x', 1)", "get(1)", "index('a')", "index(1)", "isalnum()",
           "isalpha()", "isascii()", "isdecimal()", "isdigit()", "isidentifier()",
           "islower()", "isnumeric()", "isprintable()", "isspace()", "istitle()", "isupper()", "items()", "join(xs)",
           "join('ab')", "keys()", "ljust(4)", "lower()", "lstrip('a')",
           "partition('b')", "removeprefix('A')", "removesuffix('c')", "replace('a', 'b')", "replace('', '.', 2)",
           "rfind('a')", "rindex('b')", "rjust(5, '0')", "rpartition(' ')",
           "rsplit()", "rsplit(' ', 1)", "rstrip()", "split()", "split(',')", "split('a', 1)", "split(sep=' ')",
           "split(none)", "splitlines()", "splitlines(true)", "startswith('A')",
           "startswith('b', 1)", "strip()", "strip('a')", "swapcase()", "title()", "upper()", "values()", "zfill(5)",
           "copy()", "role", "x", "a", "0", "name", "append(1)", "pop()",
           "strip(chars='a')", "get(key='a')", "get('a', default=1)", "upper(1)", "startswith(prefix='a')",
           "update({})", "clear", "__class__", "format_map(d)", "start", "stop",
           "step", "real", "imag", "bit_length()", "fromkeys(xs)", "encode", "arguments", "caller",
           "catch_kwargs"]
OPERATORS = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]


class ValueMaker:
    """One or two expressions on any values; many are errors."""

    def __init__(self, rng):
        self.rng = rng

    def pick(self, options):
        return options[int(self.rng.random() * len(options))]

    def value(self, depth):
        return self.pick(VALUES + LITERALS) if depth == 0 or self.rng.random() < 0.4 else f"({self.expression(depth - 1)})"

    def arguments(self, form):
        if self.rng.random() < 0.93:
            return form
        given = [self.pick(VALUES) for _ in range(self.rng.randrange(3))]
        return f"({', '.join(given)})"

    def filtered(self, depth):
        if self.rng.random() < 0.2:
            name = self.pick(list(FILTERS))
            return f"{self.operand(depth)}|{name}{self.arguments(self.pick(FILTERS[name]))}"
        values, names = OF_KIND[self.pick(list(OF_KIND))]
        name = self.pick(names)
        return f"({self.pick(values)})|{name}{self.arguments(self.pick(FILTERS[name]))}"

    def operand(self, depth):
        value = self.value(depth)
        return value if value.isidentifier() or value[0] == "(" else f"({value})"

    def expression(self, depth):
        return self.pick([lambda: self.filtered(depth), lambda: self.filtered(depth), lambda: self.filtered(depth),
                          lambda: f"{self.operand(depth)} is {self.pick(['', 'not '])}{self.pick(TESTS)}",
                          lambda: f"{self.operand(depth)}.{self.pick(METHODS)}",
                          lambda: f"{self.operand(depth)}.{self.pick(METHODS)}",
                          lambda: f"{self.operand(depth)} {self.pick(OPERATORS)} {self.operand(depth)}",
                          lambda: f"{self.operand(depth)}[{self.value(0)}]",
                          lambda: f"{self.operand(depth)}{self.pick(SLICES)}",
                          lambda: f"{self.pick(['-', '+', 'not '])}{self.operand(depth)}",
                          lambda: f"[{self.value(depth)}, {self.value(0)}]",
                          lambda: f"{{{self.value(depth)}: {self.value(0)}}}",
                          lambda: f"{self.pick(['dict', 'range', 'namespace', 'joiner'])}({self.value(depth)})",
                          lambda: f"({self.value(depth)}, {self.value(0)})"])()

    def shown(self):
        e = self.filtered(1) if self.rng.random() < 0.5 else self.expression(self.rng.randrange(3))
        return self.pick([f"{{{{ {e} }}}}", f"{{{{ {e} }}}}", f"{{{{ ({e})|list }}}}",
                          f"{{% for x in {e} %}}{{{{ loop.index }}}}{{{{ x }}}},{{% endfor %}}",
                          f"{{% for x in {e} %}}{{{{ x }}}}{{% if loop.last %}}.{{% endif %}}{{% break %}}{{% endfor %}}", f"{{% set q = {e} %}}{{{{ q is defined }}}}",
                          f"{{% set q = {e} %}}{{{{ q }}}}{{{{ q }}}}", f"{{% if {e} %}}y{{% else %}}n{{% endif %}}",
                          f"{{% for x, y in {e} %}}{{{{ y }}}}{{{{ x }}}}{{% endfor %}}",
                          f"{{{{ ({e})|first }}}}", f"{{{{ ({e})|string|length }}}}"])

    def template(self):
        start = "{% set ns = namespace(a=1) %}{% macro mac(a, b=1) %}<{{ a }}>{% endmacro %}"
        return start + "".join(self.shown() for _ in range(self.rng.randrange(1, 3)))
