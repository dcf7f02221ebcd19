"""Random chat templates that mostly render: every expression is made for a type, from the names that are in sight.

Used by compare_templates.py and make_template_golden.py. A Maker takes a random.Random: equal seeds make equal
templates. A few expressions are of a wrong type and a few templates are damaged, because errors must agree, too.
"""

TEXTS = ["", "x", " ab ", "user", "Ünï 你好", "a\nb", "<|im_end|>", "'q\"", "A-b c", "12", "ß\u00a0", "  lead", "tail \n",
         "a,b,,c", "MiXed caSe", "tab\there", "{{ x }}", "3.5", "-7", "İı", "ǆ", "e\u0301", "\u2028", "\u0000",
         "\U0001f600!", "ΑΣ Σ' ΌΣΟΣ", "ﬁn ŉ ǅ",
         "\\n", "a b  c\n\n d", "<b>&amp;", "%s", "0x1f", "_1"]
LITERALS = ["''", "'a'", '"b c"', "'\\n'", "'\\t|'", "'ü'", "'\\u00e9'", "'<|x|>'", "'it\\'s'", '"q\'"', "'a,b,c'",
            "'Aa Bb'",
            "' pad '", "'\\\\'", "'one' 'two'", "'user'", "'%d'", "'a\nb'", "'\\x41'", "'\\q'"]
INTS = ["0", "1", "2", "3", "7", "-1", "-2", "10", "0x1F", "0b101", "0o17", "1_000", "00"]
FLOATS = ["0.5", "1.0", "2.5", "1e3", "0.1", "-1.5", "1e16", "1e-7", "3.14159", "1_0.5", "1E2"]
WORDS = ["a", "b", "x", "item", "part", "val"]


class Scope:
    """Names in sight and their types."""

    def __init__(self, outer=None):
        self.types = dict(outer.types) if outer else {}
        self.macros = dict(outer.macros) if outer else {}
        self.loop = outer.loop if outer else False
        self.caller = outer.caller if outer else False
        self.breakable = outer.breakable if outer else False

    def of(self, kind):
        return [name for name, k in self.types.items() if k == kind]


GIVEN = {"s": "str", "t": "str", "bos_token": "str", "n": "int", "k": "int", "f": "float", "flag": "bool",
         "nothing": "none", "xs": "list:str", "nums": "list:int", "messages": "list:msg", "d": "dict", "m0": "msg",
         "tree": "list:node", "tools": "list:any", "mixed": "list:any", "rows": "list:list"}


def variables(rng):
    """What the templates of Maker are given."""
    def text():
        return rng.choice(TEXTS)

    def message():
        m = {"role": rng.choice(["system", "user", "assistant", "tool"]), "content": text()}
        if rng.random() < 0.3:
            m["n"] = rng.randrange(5)
        return m

    def node(depth):
        return {"name": text(), "children": [node(depth - 1) for _ in range(rng.randrange(3) if depth else 0)]}
    messages = [message() for _ in range(rng.choice([1, 2, 3, 3, 4]))]
    return {"s": text(), "t": text(), "bos_token": "<s>", "n": rng.randrange(-3, 20), "k": rng.randrange(1, 5),
            "f": rng.choice([0.0, 1.5, -2.25, 1e20, 0.1, 3.0, 2.5, 1e-5]), "flag": rng.random() < 0.5, "nothing": None,
            "xs": [text() for _ in range(rng.randrange(5))],
            "nums": [rng.randrange(-5, 9) for _ in range(rng.randrange(5))],
            "messages": messages, "d": {"k": text(), "role": text(), "z": text(), "A": text()}, "m0": messages[0],
            "tree": [node(2) for _ in range(rng.randrange(1, 3))],
            "rows": [[rng.randrange(4), text()] for _ in range(rng.randrange(4))],
            "mixed": [rng.choice([1, "a", None, True, 2.5, [1], {"a": 1}, ""]) for _ in range(rng.randrange(5))],
            "tools": [{"type": "function", "function": {"name": "f",
                                                        "parameters": {"b": [1, 2.5, None], "a": {"x": text()}}}}]}


STR_METHODS = ["strip()", "lstrip()", "rstrip()", "strip('a ')", "lstrip('\\n')", "rstrip('.b')", "upper()", "lower()",
               "title()", "capitalize()", "swapcase()", "replace('a', 'b')", "replace('', '-')", "replace('a', '', 1)",
               "removeprefix('a')", "removesuffix('b')", "ljust(5)", "rjust(4, '.')", "center(6)", "zfill(4)",
               "casefold()",
               "replace(' ', '_', 1)", "center(7, '*')", "expandtabs()", "expandtabs(4)"]
STR_FILTERS = ["trim", "upper", "lower", "title", "capitalize", "replace('a', 'b')", "replace('', 'z', 2)", "string",
               "indent",
               "indent(2)", "indent(2, true)", "indent(width=3, first=true, blank=true)", "indent('> ')", "center(9)",
               "reverse",
               "default('z')", "default('z', true)", "d('y', boolean=true)", "trim('ab')", "first|default('')",
               "last|default('')", "safe", "e", "escape",
               "forceescape"]
INT_OF_STR = ["find('a')", "count('a')", "rfind('b')", "count('')", "find('a', 1)", "find('', 2)", "rfind('')",
              "count('a', 1, -1)"]
BOOL_OF_STR = ["startswith('a')", "endswith('\\n')", "isdigit()", "isalpha()", "isalnum()", "isspace()", "isupper()",
               "islower()",
               "istitle()", "isnumeric()", "isdecimal()", "isascii()", "isidentifier()", "isprintable()",
               "startswith(('a', '<'))",
               "startswith('b', 1)", "endswith(('c', ' '), 0, 2)"]
LIST_OF_STR = ["split()", "split(',')", "split(' ', 1)", "rsplit('b', 1)", "splitlines()", "splitlines(true)",
               "rsplit()",
               "partition(',')|list", "rpartition('b')|list", "split('\\n')", "split(none, 1)", "rsplit(none, 2)",
               "split(sep=',', maxsplit=1)"]
VALUE_TESTS = ["defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "integer",
               "boolean", "true",
               "false", "float", "callable", "escaped", "sameas none", "sameas true", "eq 1", "equalto('user')",
               "ne none", "in xs",
               "in mixed", "filter", "test"]
JSON_FORMS = ["tojson", "tojson(indent=2)", "tojson(ensure_ascii=true)", "tojson(separators=(',', ':'))",
              "tojson(sort_keys=true)",
              "tojson(indent='\\t', sort_keys=true)", "tojson(false, 1)", "tojson(indent=0)"]
BRACES = [("{}", "any"), ("{0}-{0}", "any"), ("{}{}", "any"), ("{a}", "none"), ("{{}}{!r}", "any"), ("{0!s}", "any"),
          ("{:>5}", "str"),
          ("{:05d}", "int"), ("{:.2f}", "float"), ("{:,}", "int"), ("{a!r:^9}", "none"), ("{:<4}|", "int"),
          ("{:*^7}", "str"),
          ("{:+}", "int"), ("{:x}", "int"), ("{:#X}", "int"), ("{:b}", "int"), ("{:8.3f}", "float"), ("{:e}", "float"),
          ("{:g}", "float"),
          ("{:.3}", "str"), ("{:%}", "float"), ("{:_}", "int"), ("{: }", "int"), ("{:=+6}", "int"), ("{:6}", "float"),
          ("{0!a}", "str"),
          ("{0[0]}", "list:str"), ("{0[role]}", "msg"), ("{:.1}", "float"), ("{:s}", "str"), ("{:,.2f}", "float"),
          ("{:n}", "int"),
          ("{:c}", "int"), ("{:{a}}", "str"), ("{:010.1f}", "float"), ("{:}", "float"), ("{:5}", "bool"),
          ("{:o}", "int")]
DIVISORS = ["2", "3", "7", "-4", "k", "2.5", "-0.5"]
SLICES = ["[1:]", "[:-1]", "[::-1]", "[0:2]", "[::2]", "[-2:]", "[:]", "[5:]", "[-1:0:-1]", "[:n]", "[k:]", "[none:2]",
          "[::-2]",
          "[1:4:2]", "[-9:9]", "[3:1]", "[:-9]", "[:: k]"]


class Maker:
    def __init__(self, rng, wrong=0.006, damage=0.04):
        self.rng, self.wrong, self.damage = rng, wrong, damage
        self.scope = Scope()
        self.counter = 0

    # ---- helpers ----
    def pick(self, options):
        return options[int(self.rng.random() * len(options))]

    def chance(self, p):
        return self.rng.random() < p

    def name(self):
        self.counter += 1
        return self.pick(WORDS) + (str(self.counter) if self.chance(0.7) else "")

    # ---- expressions ----
    def expr(self, kind, depth=2):
        if self.chance(self.wrong):
            kind = self.pick(["str", "int", "float", "bool", "list:str", "dict", "none", "undefined", "list:int"])
        if kind == "any":
            kind = self.pick(["str", "str", "int", "float", "bool", "list:str", "list:int", "dict", "none", "list:any",
                              "undefined"])
        if kind == "undefined":
            return self.pick(["missing", "d.missing", "m0['nope']", "xs[99]", "messages[7]", "(1 if false)"])
        if depth <= 0:
            return self.leaf(kind)
        if self.chance(0.05):
            return "(" + self.expr(kind, depth) + ")"
        if self.chance(0.05):
            return f"({self.chain(kind, depth - 1)} if {self.chain('bool', depth - 1)} else {self.expr(kind, depth - 1)})"
        maker = getattr(self, "make_" + kind.replace(":", "_"), None)
        return maker(depth) if maker and self.chance(0.8) else self.leaf(kind)

    def leaf(self, kind):
        names = self.scope.of(kind)
        if names and self.chance(0.65):
            return self.pick(names)
        if kind == "str":
            return self.pick(LITERALS) if self.chance(0.7) else self.pick(["m0.role", "m0['content']", "messages[0].role", "d.k",
                                                                         "d['z']", "m0.content", "messages[-1]['content']"])
        if kind == "list:list":
            return "rows"
        return {"int": lambda: self.pick(INTS), "float": lambda: self.pick(FLOATS),
                "bool": lambda: self.pick(["true", "false", "True", "False"]),
                "none": lambda: self.pick(["none", "None"]),
                "list:str": lambda: self.pick(["['a', 'b']", "[]", "['b', 'A', 'a']", "xs", "('p', 'q')|list",
                                               "[s, t]"]),
                "list:int": lambda: self.pick(["[1, 2, 3]", "[3, 1, 2, 1]", "nums", "range(4)|list",
                                               "range(1, 9, 3)|list", "[n, k]"]),
                "list:msg": lambda: "messages",
                "list:any": lambda: self.pick(["mixed", "tools", "[1, 'a', none]", "[[1], [2, 3]]"]),
                "list:node": lambda: "tree",
                "msg": lambda: self.pick(["m0", "messages[0]", "messages[-1]", "messages|first"]),
                "dict": lambda: self.pick(["d", "{'a': 1}", "{}", "{'k': s, 'j': n}", "dict(a=1, b=s)",
                                           "{1: 'x', none: 2}", "tools[0]"]),
                "iter": lambda: "xs"}[kind]()

    def chain(self, kind, depth):
        """An operand that may be followed by . [ |."""
        e = self.expr(kind, depth)
        return e if e.isidentifier() or (e[0] in "([" and e[-1] in ")]" and e.count("(") + e.count("[") == 1) else f"({e})"

    def make_str(self, depth):
        kind, d = self.rng.randrange(20), depth - 1
        if kind < 3:
            return f"{self.chain('str', d)}.{self.pick(STR_METHODS)}"
        if kind < 6:
            return f"{self.chain('str', d)}|{self.pick(STR_FILTERS)}"
        if kind == 6:
            return f"{self.expr('str', d)} + {self.expr('str', d)}"
        if kind == 7:
            return f"{self.expr('any', d)} ~ {self.expr('any', d)}" + (f" ~ {self.expr('str', d)}" if self.chance(0.3) else "")
        if kind == 8:
            return self.chain("str", d) + self.pick(SLICES)
        if kind == 9:
            return self.chain(self.pick(["list:str", "list:int", "list:any"]),
                              d) + "|join" + self.pick(["", "(',')", "(s)", "(' | ')"])
        if kind == 10:
            return f"{self.chain(self.pick(['any', 'list:any', 'dict', 'str']), d)}|{self.pick(JSON_FORMS)}"
        if kind == 11:
            return f"{self.pick(LITERALS)}.join({self.expr('list:str', d)})"
        if kind == 12:
            return self.percent(d)
        if kind == 13:
            form, first = self.pick(BRACES)
            return f"'{form}'.format({self.expr(first, d)}, {self.expr('str', d)}, a={self.expr('str', d)})"
        if kind == 14:
            return f"{self.chain('any', d)}|string"
        if kind == 15 and self.scope.macros:
            return self.call_macro(d)
        if kind == 16:
            return f"{self.expr('str', d)} {self.pick(['or', 'and'])} {self.expr('str', d)}"
        if kind == 17:
            return f"{self.chain('str', d)} * {self.pick(['2', '3', '0', '-1', 'k'])}"
        if kind == 18:
            return self.pick(["messages|map(attribute='role')|join(',')",
                              "messages|selectattr('role', 'equalto', 'user')|map(attribute='content')|join",
                              "strftime_now('%d %b %Y')", "strftime_now('%Y-%m-%d %H:%M:%S')",
                              "strftime_now('%A %B %j %y %I %p %% %U é')",
                              "messages|map(attribute='n', default=0)|join('+')", "d|dictsort|join",
                              "d.items()|list|string", "xs|map('upper')|join('-')", "m0|attr('role')",
                              "namespace(a=1).a|string",
                              "(range(3)|string)", "(d.keys()|string)", "xs|sort|first|default('none')", 
                               "joiner('|')()", "m0.get('role')", "d.get('zz', 'dd')", 
                              "messages|groupby('role')|map('first')|join(',')", "xs|batch(2)|list|string",
                              "xs|slice(2, 'f')|list|string"])
        return self.chain("list:str", d) + self.pick(["|first|default('q')", "|last|default('q')", "[0]|default('q')",
                                                      "[-1]|default('q')"])

    def percent(self, d):
        form, kinds = self.pick([("'%s'", ["any"]), ("'%s=%s'", ["str", "any"]), ("'%d'", ["int"]),
                                 ("'%05.2f'", ["float"]),
                                 ("'%r'", ["any"]), ("'%x|%X'", ["int", "int"]), ("'%-6s|'", ["str"]),
                                 ("'%6s'", ["str"]),
                                 ("'%%%s'", ["str"]), ("'%e'", ["float"]), ("'%g'", ["float"]), ("'%+d'", ["int"]),
                                 ("'%c'", ["int"]),
                                 ("'%.3s'", ["str"]), ("'%i%%'", ["float"]), ("'%#o'", ["int"]), ("'%5.3d'", ["int"]),
                                 ("'%a'", ["str"]),
                                 ("'%*d'", ["int", "int"]), ("'% d'", ["int"]), ("'%#x'", ["int"]),
                                 ("'%#.3g'", ["float"])])
        if self.chance(0.1):
            return f"'%(a)s %(b)s' % {{'a': {self.expr('any', d)}, 'b': {self.expr('str', d)}}}"
        return f"{form} % ({', '.join(self.expr(k, d) for k in kinds)}{',' if len(kinds) == 1 else ''})"

    def reckon(self, a, b, operators, d):
        op = self.pick(operators)
        right = self.chain(b, d) if op in "+-*" or self.chance(0.03) else self.pick([x for x in DIVISORS if b == "float" or "." not in x])
        return f"{self.chain(a, d)} {op} {right}"

    def make_int(self, depth):
        kind, d = self.rng.randrange(12), depth - 1
        if kind < 4:
            return self.reckon("int", "int", ["+", "-", "*", "//", "%"], d)
        if kind == 4:
            return f"{self.chain(self.pick(['list:str', 'str', 'dict', 'list:msg']), d)}|{self.pick(['length', 'count'])}"
        if kind == 5:
            return f"{self.chain('str', d)}.{self.pick(INT_OF_STR)}"
        if kind == 6:
            return f"{self.chain(self.pick(['str', 'float', 'any']), d)}|int" + self.pick(["", "", "(5)", "(default=7)", "(0, 16)"])
        if kind == 7:
            return f"{self.pick(['-', '+', '- '])}{self.chain('int', d)}"
        if kind == 8:
            return f"{self.chain('list:int', d)}|{self.pick(['sum', 'first|default(0)', 'max|default(0)', 'min|default(1)', 'sum(start=4)'])}"
        if kind == 9 and self.scope.loop:
            return self.pick(["loop.index", "loop.index0", "loop.revindex", "loop.revindex0", "loop.length",
                              "loop.depth", "loop.depth0"])
        if kind == 10:
            return f"{self.pick(['2', '3', '-2', 'k'])} ** {self.pick(['2', '3', '0', '1'])}"
        return self.chain(self.pick(["int", "float"]), d) + self.pick(["|abs|int", "|round|int"])

    def make_float(self, depth):
        kind, d = self.rng.randrange(6), depth - 1
        if kind < 2:
            return self.reckon(self.pick(["float", "int"]), "float", ["+", "-", "*", "/", "/", "//", "%"], d)
        if kind == 2:
            return f"{self.chain('any', d)}|float" + self.pick(["", "(1.5)", "(default=2.0)"])
        if kind == 3:
            return f"{self.chain('float', d)}|round" + self.pick(["", "(1)", "(2, 'floor')", "(method='ceil')",
                                                                  "(0, 'common')", "(-1)"])
        if kind == 4:
            return f"{self.chain('int', d)} / {self.pick(['2', '3', '7', '-4'])}"
        return f"{self.chain('float', d)} ** {self.pick(['2', '1', '3', '0'])}"

    def make_bool(self, depth):
        kind, d = self.rng.randrange(14), depth - 1
        if kind < 3:
            a = self.pick(["int", "float", "str"])
            b = a if a == "str" else self.pick(["int", "float"])
            return f"{self.chain(a, d)} {self.pick(['<', '<=', '>', '>='])} {self.chain(b, d)}"
        if kind < 6:
            return f"{self.chain('any', d)} {self.pick(['==', '!='])} {self.chain('any', d)}"
        if kind == 6:
            return f"{self.chain('any', d)} is {self.pick(['', '', 'not '])}{self.pick(VALUE_TESTS)}"
        if kind == 7:
            return f"{self.expr('str', d)} {self.pick(['in', 'not in'])} {self.chain(self.pick(['str', 'list:str', 'dict', 'list:any']), d)}"
        if kind == 8:
            return f"{self.expr('bool', d)} {self.pick(['and', 'or'])} {self.expr('bool', d)}"
        if kind == 9:
            return f"not {self.expr(self.pick(['bool', 'any']), d)}"
        if kind == 10:
            return f"{self.chain('str', d)}.{self.pick(BOOL_OF_STR)}"
        if kind == 11:
            return f"{self.chain('int', d)} is {self.pick(['odd', 'even', 'divisibleby(3)', 'divisibleby 2', 'lt 3', 'ge(2)', 'greaterthan 1', 'le 5'])}"
        if kind == 12:
            return f"{self.chain('str', d)} is {self.pick(['lower', 'upper', 'string', 'filter', 'test'])}"
        if self.scope.loop:
            return self.pick(["loop.first", "loop.last", "loop.index is odd", "loop.previtem is defined",
                              "loop.nextitem is undefined",
                              "loop.changed(n)", "not loop.last"])
        return f"{self.chain('int', d)} < {self.chain('int', d)} <= {self.chain('int', d)}"

    def make_list_str(self, depth):
        kind, d = self.rng.randrange(10), depth - 1
        if kind < 2:
            return f"{self.chain('str', d)}.{self.pick(LIST_OF_STR)}"
        if kind == 2:
            return self.chain("list:str", d) + self.pick(SLICES)
        if kind < 5:
            return self.chain("list:str", d) + "|" + self.pick(
                ["sort", "sort(reverse=true)", "sort(case_sensitive=true)", "unique|list", "reverse|list", "list",
                 "map('trim')|list",
                 "map('replace', 'a', 'b')|list", "select|list", "reject('equalto', 'a')|list",
                 "select('in', ['a', 'b'])|list",
                 "map('upper')|map('lower')|list", "reject('none')|list", "map('default', 'x')|list",
                 "unique(true)|list"])
        if kind == 5:
            return f"{self.chain('list:str', d)} + {self.chain('list:str', d)}"
        if kind == 6:
            return self.pick(["messages|map(attribute='role')|list", "d.keys()|list", "d.values()|list", "d|list",
                              "s|list", "d|dictsort|map('first')|list",
                              "messages|map(attribute='content')|map('string')|list",
                              "messages|rejectattr('n', 'defined')|map(attribute='role')|list"])
        if kind == 7:
            return f"[{', '.join(self.expr('str', d) for _ in range(self.rng.randrange(4)))}]"
        if kind == 8:
            return f"{self.chain('list:str', d)} * {self.pick(['2', '0', 'k'])}"
        return f"({self.expr('str', d)}, {self.expr('str', d)})|list"

    def make_list_int(self, depth):
        kind, d = self.rng.randrange(6), depth - 1
        if kind == 0:
            return self.chain("list:int", d) + self.pick(SLICES)
        if kind == 1:
            return self.chain("list:int", d) + "|" + self.pick(["sort", "sort(true)", "unique|list", "reverse|list",
                                                                "map('abs')|list",
                                                              "select('odd')|list", "reject('gt', 2)|list",
                                                              "map('string')|map('int')|list",
                                                              "select('divisibleby', 2)|list",
                                                              "map('round')|map('int')|list"])
        if kind == 2:
            return f"[{', '.join(self.expr('int', d) for _ in range(self.rng.randrange(4)))}]"
        if kind == 3:
            return f"range({self.pick(['3', '0', 'k', '1, k', '5, 0, -2', '-2, 3', '2, 9, k'])})|list"
        if kind == 4:
            return f"{self.chain('list:int', d)} + {self.chain('list:int', d)}"
        return "rows|map('first')|list"

    def make_list_msg(self, depth):
        return self.pick(["messages[1:]", "messages[:-1]", "messages[::-1]",
                          "messages|selectattr('role', 'in', ['user', 'tool'])|list",
                          "messages|rejectattr('role', '==', 'system')|list", "messages|sort(attribute='role')",
                          "messages|selectattr('n')|list",
                          "messages|unique(attribute='role')|list",
                          "messages|sort(attribute='role,content', reverse=true)", "messages + [m0]",
                          "[{'role': 'user', 'content': " + self.expr("str", depth - 1) + "}]",
                          "messages|reverse|list"])

    def make_list_any(self, depth):
        d = depth - 1
        return self.pick([lambda: f"[{self.expr('any', d)}, {self.expr('any', d)}]", lambda: "mixed|select|list",
                          lambda: "mixed|reject('string')|list", lambda: f"({self.expr('any', d)},)|list",
                          lambda: "xs|batch(2, 'pad')|list",
                          lambda: "nums|slice(2)|list", lambda: "d.items()|list", lambda: "d|items|list",
                          lambda: "d|dictsort(by='value')",
                          lambda: "messages|groupby('role')|list", lambda: "d|dictsort(true, 'key', true)",
                          lambda: "mixed" + self.pick(SLICES)])()

    def make_dict(self, depth):
        d = depth - 1
        return self.pick([lambda: f"{{'a': {self.expr('any', d)}, {self.expr('str', d)}: {self.expr('any', d)}}}",
                          lambda: f"dict(a={self.expr('any', d)}, b={self.expr('str', d)})",
                          lambda: "dict(rows)" if self.chance(0.3) else "dict(d)",
                          lambda: "m0", lambda: f"dict({{'q': {self.expr('int', d)}}}, z={self.expr('str', d)})",
                          lambda: "dict(d, k=1)",
                          lambda: "d.copy()"])()

    def call_macro(self, d):
        name = self.pick(list(self.scope.macros))
        kinds = self.scope.macros[name]
        given = [self.expr(k, d) for k in kinds[:self.rng.randrange(len(kinds) + 1)]] if kinds else []
        more = [f"p{len(given)}={self.expr(kinds[len(given)], d)}"] if len(given) < len(kinds) and self.chance(0.4) else []
        return f"{name}({', '.join(given + more)})"
