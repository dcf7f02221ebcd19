"""Random chat templates: the statements. Expressions are template_maker.py's."""
from template_maker import GIVEN, LITERALS, Maker, Scope

SPACES = ["text", " ", "\n", "  \n", "é\n  ", "<|a|>\n", "\t", "\n\n", "  ", "a\n    ", " b ", "\r\n", "x\ty\n", "{ ",
          "}", "%", "# "]
BLOCK_FILTERS = ["upper", "trim", "replace('a', s)", "lower|trim", "indent(2)", "title", "trim|upper|replace('B', '')"]
DAMAGES = ["{%", "%}", "{{", "}}", "(", ")", "[", "]", "|", ".", ",", "'", "{#", "#}", " if ", " else ", " is ",
           "not ", "in ", "=",
           "~", "-", "**", "endif", "endfor", "loop", "\\", "\n", "1", "1.", "{% else %}", "{% endif %}",
           "{%- endfor -%}", "*", ":",
           "recursive", "{% raw %}", "{% endraw %}", "{% break %}", "é", "\u00a0", "none", "a.b", "0x", "1e", "_", "$",
           "!", ";", "}"]


class TemplateMaker(Maker):
    def tag(self, text, bracket="%"):
        close = "}}" if bracket == "{" else "%}"
        signs = ["", "", "", "", "-", "-", "+"] if bracket == "%" else ["", "", "", "-"]
        space = self.pick([" ", " ", " ", "", "\n", "  "])
        if text[:1] in "-+" or text[-1:] in "-+}%":
            space = " "
        return "{" + bracket + self.pick(signs) + space + text + space + self.pick(signs) + close

    def inner(self, depth, **changes):
        """A body with a scope of its own."""
        outer, self.scope = self.scope, Scope(self.scope)
        for key, value in changes.items():
            if key == "names":
                self.scope.types.update(value)
            else:
                setattr(self.scope, key, value)
        text = self.body(depth)
        inside, self.scope = self.scope, outer
        if self.chance(0.02):  # a name that may not be set
            outer.types.update(inside.types)
        return text

    def body(self, depth):
        return "".join(self.statement(depth) for _ in range(self.rng.randrange(1, 4)))

    def statement(self, depth):
        kind = self.rng.randrange(30 if depth > 0 else 13)
        if kind < 4:
            return self.pick(SPACES)
        if kind < 9:
            kinds = ["str", "str", "str", "int", "float", "bool", "any", "list:str", "list:int", "dict", "list:any"]
            return self.tag(self.expr(self.pick(kinds), 3), "{")
        if kind < 11:
            return self.assignment()
        if kind == 11:
            return self.pick(["{# c #}", "{#- c -#}\n", "{#+ c #}", "  {# c\n c #}\n", "{% raw %} {{ x }} {% endraw %}",
                              "{%- raw -%}\n{% if %} {%- endraw -%}\n", "{{ '' }}", "{# {{ s }} #}"])
        if kind == 12:
            return self.namespaces()
        return self.pick([self.if_, self.if_, self.if_, self.for_, self.for_, self.for_, self.for_, self.macro,
                          self.set_block,
                          self.filter_block, self.with_, self.generation, self.call_block, self.recursive])(depth - 1)

    def assignment(self):
        if self.chance(0.12):
            a, b, kinds = self.name(), self.name(), [self.pick(["str", "int"]), self.pick(["str", "list:str"])]
            values = ", ".join(self.expr(k, 2) for k in kinds)
            if a != b:
                self.scope.types.update({a: kinds[0], b: kinds[1]})
            return self.tag(f"set {a}, {b} = {values}")
        kind = self.pick(["str", "str", "int", "float", "bool", "list:str", "list:int", "dict", "list:msg", "list:any",
                          "msg"])
        name = self.name() if self.chance(0.8) else self.pick(self.scope.of(kind) or [self.name()])
        text = self.tag(f"set {name} = {self.expr(kind, 3)}")
        self.scope.types[name] = kind
        return text

    def namespaces(self):
        known = self.scope.of("ns")
        if known and self.chance(0.8):
            ns = self.pick(known)
            return self.tag(self.pick([f"set {ns}.a = {self.expr('str', 2)}",
                                       f"set {ns}.n = {ns}.n + {self.expr('int', 1)}",
                                       f"set {ns}.xs = {ns}.xs + [{self.expr('any', 1)}]",
                                       f"set {ns}.new = {self.expr('any', 1)}"])) + \
                self.tag(self.pick([f"{ns}.a", f"{ns}.n", f"{ns}.xs|length", f"{ns}['a']", f"{ns}.new|default('-')",
                                    f"{ns}.xs|join"]), "{")
        name = self.name()
        self.scope.types[name] = "ns"
        return self.tag(f"set {name} = namespace({self.pick(['a=s, n=0', 'dict(a=t), n=1', 'n=k, a=s'])}, xs=[])")

    def condition(self):
        return self.chain(self.pick(["bool", "bool", "bool", "any", "str", "list:str"]), 3)

    def if_(self, depth):
        text = self.tag("if " + self.condition()) + self.inner(depth)
        while self.chance(0.25):
            text += self.tag("elif " + self.condition()) + self.inner(depth)
        if self.chance(0.4):
            text += self.tag("else") + self.inner(depth)
        return text + self.tag("endif")

    def for_(self, depth):
        kind = self.pick(["list:str", "list:str", "list:int", "list:msg", "list:msg", "list:msg", "dict", "str",
                          "range", "pairs", "iter"])
        name, test, over = self.name(), "", None
        names = {name: {"list:msg": "msg", "list:int": "int", "range": "int"}.get(kind, "str")}
        if kind == "range":
            over = f"range({self.pick(['3', '0', 'k', '1, 4', '4, 0, -1'])})"
        elif kind == "pairs":
            other = name + "v"
            name, names = f"{name}, {other}", {name: "str", other: "str"}
            over = self.pick(["d.items()", "d|dictsort", "d|items", "[('a', 'b'), ('c', s)]", "rows"])
        elif kind == "iter":
            over = self.pick(["xs|map('upper')", "xs|select", "xs|reverse", "messages|map(attribute='role')",
                              "xs|unique", "d.values()", "d",
                              "messages|rejectattr('n', 'defined')|map(attribute='content')"])
        else:
            over = self.expr(kind, 2)
            over = f"({over})" if " if " in over else over
        outer, self.scope = self.scope, Scope(self.scope)
        self.scope.types.update(names)
        if self.chance(0.2):
            test = " if " + self.chain("bool", 1) if not self.scope.loop else " if " + self.pick(list(names)) + " is defined"
        self.scope = outer
        uses_loop = self.chance(0.6)
        jump = ""
        if self.chance(0.2):
            jump = self.tag("if " + self.pick(["loop.index > 2", "loop.first", "flag", "loop.last",
                                               self.pick(list(names)) + " == 'a'"])) + \
                self.tag(self.pick(["break", "continue"])) + self.tag("endif")
        shown = self.tag(self.pick(["loop.index", "loop.cycle('x', 'y')", "loop.previtem|default('-')|string",
                                    "loop.nextitem is defined",
                                    "loop.changed(" + self.pick(list(names)) + ")", "loop.length", "loop"]),
                                    "{") if uses_loop and self.chance(0.3) else ""
        text = self.tag(f"for {name} in {over}{test}") + jump + shown + self.inner(depth, names=names, loop=uses_loop)
        if self.chance(0.2):
            text += self.tag("else") + self.inner(depth, loop=False)
        return text + self.tag("endfor")

    def macro(self, depth):
        name = "m" + self.name()
        kinds = [self.pick(["str", "str", "int", "list:str"]) for _ in range(self.rng.randrange(3))]
        parameters, had_default = [], False
        for i, kind in enumerate(kinds):
            had_default = had_default or self.chance(0.7)
            parameters.append(f"p{i}" + (f"={self.leaf(kind)}" if had_default else ""))
        takes_rest, given = self.chance(0.15), {f"p{i}": k for i, k in enumerate(kinds)}
        outer = Scope(self.scope)
        body = self.inner(depth, names=given, loop=False)
        if takes_rest:
            body += self.tag("varargs|join", "{") + self.tag("kwargs|tojson", "{")
        self.scope = outer
        text = self.tag(f"macro {name}({', '.join(parameters)})") + body + self.tag("endmacro")
        if all("=" in p for p in parameters):
            self.scope.macros[name] = kinds
        call = [self.expr(k, 1) for k in kinds]
        if takes_rest:
            call += ["s", "1", f"zz={self.expr('str', 1)}"]
        return text + self.tag(f"{name}({', '.join(call)})", "{")

    def call_block(self, depth):
        name, with_value = "c" + self.name(), self.chance(0.5)
        macro = self.tag(f"macro {name}(v='')") + self.pick(["<", "[\n"]) + self.tag("caller(v)" if with_value else "caller()", "{") + \
            self.pick(["", self.tag("caller(s)" if with_value else "caller()|upper", "{"),
                       self.tag("v", "{")]) + ">" + self.tag("endmacro")
        body = self.inner(depth, names={"cv": "str"} if with_value else {}, loop=False)
        return macro + self.tag(("call(cv) " if with_value else "call ") + f"{name}({self.expr('str', 1)})") + body + self.tag("endcall")

    def set_block(self, depth):
        name = self.name()
        text = self.tag(f"set {name}" + self.pick(["", "", " | upper", " | trim", "|replace('a', 'b')|title"])) + \
            self.inner(depth, loop=False) + self.tag("endset")
        self.scope.types[name] = "str"
        return text

    def filter_block(self, depth):
        return self.tag("filter " + self.pick(BLOCK_FILTERS)) + self.inner(depth) + self.tag("endfilter")

    def with_(self, depth):
        a, b, kind = self.name() + "w", self.name() + "y", self.pick(["str", "int", "list:str"])
        more = f", {b} = {self.expr('str', 1)}" if self.chance(0.4) else ""
        return self.tag(f"with {a} = {self.expr(kind, 2)}{more}") + self.inner(depth, names={a: kind}) + self.tag("endwith")

    def generation(self, depth):
        return self.tag("generation") + self.inner(depth, loop=False) + self.tag("endgeneration")

    def recursive(self, depth):
        name = self.name() + "r"
        if self.chance(0.3):
            n = "w" + self.name()
            return self.tag(f"macro {n}(i)") + self.tag("i", "{") + self.tag("if i > 0") + self.tag(f"{n}(i - 1)", "{") + \
                self.tag("endif") + self.tag("endmacro") + self.tag(f"{n}({self.pick('0123')})", "{")
        return self.tag(f"for {name} in tree recursive") + self.tag(f"{name}.name" + self.pick(["", " ~ loop.depth", " ~ loop.index0"]), "{") + \
            self.inner(depth, loop=False) + self.tag(f"if {name}.children") + "(" + self.tag(f"loop({name}.children)" + self.pick(["", "|trim"]), "{") + ")" + \
            self.tag("endif") + self.tag("endfor")

    def template(self, most=7, depth=3):
        self.scope, self.counter = Scope(), 0
        self.scope.types.update(GIVEN)
        text = "".join(self.statement(depth) for _ in range(self.rng.randrange(2, most)))
        return damaged(self.rng, text) if self.chance(self.damage) else text


def damaged(rng, text):
    """One place of a template changed: what is left is a template only by chance."""
    at, what = rng.randrange(len(text) + 1), DAMAGES[rng.randrange(len(DAMAGES))]
    kind = rng.randrange(3)
    if kind == 0:
        return text[:at] + what + text[at:]
    end = min(len(text), at + rng.randrange(1, 6))
    return text[:at] + (what if kind == 1 else "") + text[end:]
