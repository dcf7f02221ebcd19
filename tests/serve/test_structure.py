"""Answers that must be of a form: JSON schemas as pydantic and strategies draw them, regular expressions, choices, GBNF."""
import json
import math
import random
import re
import typing
import unittest
from concurrent.futures import ThreadPoolExecutor

from server import Case, Server, main, read_events

try:
    import openai
    import pydantic
except ImportError:
    openai = pydantic = None
try:
    import jsonschema
except ImportError:
    jsonschema = None

N_DRAWN = 80


# ---------------------------------------------------------------- drawn schemas, and a check of our own

def draw(rng, depth=0):
    """A schema of any keyword that is taken, not too deep. References go to "#/$defs/..." of the caller."""
    kinds = ["string", "pattern", "format", "integer", "range", "number", "real", "boolean", "null", "enum", "const", "types"]
    if depth < 3:
        kinds += ["object", "object", "array", "tuple", "anyOf", "allOf", "ref", "map"]
    kind = rng.choice(kinds)
    if kind == "string":
        low = rng.randint(0, 3)
        return {"type": "string", "minLength": low, "maxLength": low + rng.randint(0, 4)}
    if kind == "pattern":
        return {"type": "string", "pattern": rng.choice(["^[a-c]{1,3}$", "^(x|yz)+\\d?$", "^\\w{2}-\\d{2}$", "^[^a-z\"]{1,2}$", "^$"])}
    if kind == "format":
        return {"type": "string", "format": rng.choice(["date", "time", "date-time", "uuid", "ipv4", "duration"])}
    if kind == "integer":
        return {"type": "integer"}
    if kind == "range":
        low = rng.randint(-200, 200)
        return {"type": "integer", rng.choice(["minimum", "exclusiveMinimum"]): low, "maximum": low + rng.randint(1, 2000)}
    if kind == "number":
        return {"type": "number"}
    if kind == "real":
        low = round(rng.uniform(-2, 2), 2)
        return {"type": "number", "minimum": low, rng.choice(["maximum", "exclusiveMaximum"]): low + rng.choice([0.5, 0.01, 100])}
    if kind in ("boolean", "null"):
        return {"type": kind}
    if kind == "enum":
        return {"enum": rng.sample(["a", "ab", "abc", 1, 12, None, True, {"k": [1]}, "é\"\\"], rng.randint(1, 5))}
    if kind == "const":
        return {"const": rng.choice(["x", 0, [1, "b"], {}])}
    if kind == "types":
        return {"type": rng.sample(["string", "integer", "null", "boolean"], 2), "maxLength": 3}
    if kind == "object" or kind == "allOf":
        names = rng.sample(["a", "b", "name", "naïve", "x y"], rng.randint(1, 4))
        properties = {n: draw(rng, depth + 1) for n in names}
        schema = {"type": "object", "properties": properties, "required": rng.sample(names, rng.randint(0, len(names))),
                  "additionalProperties": rng.choice([False, False, {"type": "boolean"}])}
        if kind == "object":
            return schema
        schema.pop("additionalProperties")
        return {"allOf": [schema, {"properties": {"own": {"type": "boolean"}}, "required": ["own"]}]}
    if kind == "array":
        low = rng.randint(0, 2)
        return {"type": "array", "items": draw(rng, depth + 1), "minItems": low, "maxItems": low + rng.randint(0, 2)}
    if kind == "tuple":
        items = [draw(rng, depth + 1) for _ in range(rng.randint(1, 2))]
        return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}
    if kind == "map":
        return {"type": "object", "propertyNames": {"enum": ["k1", "k2"]}, "additionalProperties": draw(rng, depth + 1)}
    if kind == "ref":
        return {"$ref": rng.choice(["#/$defs/Tree", "#/$defs/Pair"])}
    return {"anyOf": [draw(rng, depth + 1) for _ in range(rng.randint(2, 3))]}


DEFS = {"Tree": {"type": "object", "properties": {"v": {"type": "boolean"}, "sons": {"type": "array", "items": {"$ref": "#/$defs/Tree"}, "maxItems": 2}},
                 "required": ["v"], "additionalProperties": False},
        "Pair": {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"k": {"const": "p"}, "next": {"$ref": "#/$defs/Pair"}},
                                              "required": ["k", "next"], "additionalProperties": False}]}}
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def is_type(value, name):
    if name in ("integer", "number"):
        return type(value) is int or (type(value) is float and (name == "number" or value.is_integer()))
    return type(value) is TYPES[name]


def matches(value, schema, root):
    """Whether a value is of a schema, by keywords that draw() uses: where jsonschema is not installed, and against it where it is."""
    if schema is True or schema is False:
        return schema
    if "$ref" in schema and not matches(value, root["$defs"][schema["$ref"].split("/")[-1]], root):
        return False
    if "type" in schema:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(is_type(value, n) for n in names):
            return False
    same = lambda a, b: json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)  # noqa: E731
    if "enum" in schema and not any(same(value, v) for v in schema["enum"]):
        return False
    if "const" in schema and not same(value, schema["const"]):
        return False
    if not all(matches(value, s, root) for s in schema.get("allOf", [])) or ("anyOf" in schema and not any(matches(value, s, root) for s in schema["anyOf"])):
        return False
    if isinstance(value, str):
        return (schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 1 << 30)
                and re.search(schema.get("pattern", ""), value) is not None)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return (schema.get("minimum", value) <= value <= schema.get("maximum", value)
                and not value <= schema.get("exclusiveMinimum", -math.inf) and not value >= schema.get("exclusiveMaximum", math.inf))
    if isinstance(value, list):
        first = schema.get("prefixItems", [])
        return (schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 1 << 30) and all(matches(v, s, root) for v, s in zip(value, first))
                and all(matches(v, schema.get("items", True), root) for v in value[len(first):]))
    if isinstance(value, dict):
        named = schema.get("properties", {})
        return (set(schema.get("required", [])) <= set(value) and all(matches(k, schema.get("propertyNames", True), root) for k in value)
                and all(matches(v, named.get(k, schema.get("additionalProperties", True)), root) for k, v in value.items()))
    return True


class Structure(Case):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--slots", "8", "--queue", "64")

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    def choice(self, **more):
        reply = self.server.chat("Describe the image.", **{"max_tokens": 1200, "temperature": 1.5, "seed": 1, **more})
        self.assertEqual(reply.status, 200, reply.text)
        return reply.json["choices"][0]

    def test_drawn_schemas(self):
        """Each answer that came to its end is of its schema, and a stream says the same."""
        def one(seed):
            rng = random.Random(seed)
            schema = draw(rng)
            while set(schema) == {"$ref"} or not schema:
                schema = draw(rng)
            schema = {**schema, "$defs": DEFS}
            form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
            choice = self.choice(response_format=form, seed=seed)
            text = choice["message"]["content"]
            if seed % 4 == 0:
                events, _ = read_events(self.server.chat("Describe the image.", response_format=form, seed=seed, max_tokens=1200, temperature=1.5, stream=True).text)
                self.assertEqual("".join(e["choices"][0]["delta"].get("content", "") for e in events), text)
            if choice["finish_reason"] != "stop":
                return False
            value = json.loads(text)
            self.assertTrue(matches(value, schema, schema), (schema, text))
            if jsonschema:
                jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker(["date", "ipv4", "uuid"])).validate(value)
            return True
        with ThreadPoolExecutor(8) as pool:
            ended = list(pool.map(one, range(N_DRAWN)))
        self.assertGreater(sum(ended), 0.85 * N_DRAWN)

    def test_regular_expressions(self):
        for pattern in "(yes|no), \\d{2,4}", "[A-F0-9]{8}(-[a-z]+){2}!", "\"[^\"\\n]{3,9}\"\\.?":
            for field in ({"structured_outputs": {"regex": pattern}}, {"guided_regex": pattern}):
                choice = self.choice(**field, max_tokens=200)
                if choice["finish_reason"] == "stop":
                    self.assertRegex(choice["message"]["content"], f"^(?:{pattern})$")

    def test_choices(self):
        labels = [f"label {i}" for i in range(300)] + ["étoile", "no"]
        for field in ({"structured_outputs": {"choice": labels}}, {"guided_choice": labels}):
            choice = self.choice(**field)
            self.assertIn(choice["message"]["content"], labels)
            self.assertEqual(choice["finish_reason"], "stop")
        reply = self.server.post("/v1/completions", {"prompt": "x", "guided_choice": ["ja", "nein"], "max_tokens": 20}).json
        self.assertIn(reply["choices"][0]["text"], ["ja", "nein"])

    def test_grammars(self):
        text = 'root ::= item{2,3}\nitem ::= "- " word (" " word)? "\\n"\nword ::= "star" | "cross" | [a-c]{1,2}'
        for field in {"grammar": text}, {"guided_grammar": text}, {"structured_outputs": {"grammar": text}}:
            choice = self.choice(**field)
            self.assertRegex(choice["message"]["content"], r"^(- (star|cross|[a-c]{1,2})( (star|cross|[a-c]{1,2}))?\n){2,3}$")

    def test_other_names_of_a_schema(self):
        schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 3}}, "required": ["n"]}
        for field in ({"guided_json": schema}, {"guided_json": json.dumps(schema)}, {"structured_outputs": {"json": schema}}, {"json_schema": schema},
                      {"response_format": {"type": "json_object", "schema": schema}}):
            self.assertIn(json.loads(self.choice(**field)["message"]["content"]), [{"n": 1}, {"n": 2}, {"n": 3}])
        self.assertIsInstance(json.loads(self.choice(structured_outputs={"json_object": True}, seed=2)["message"]["content"]), dict)

    def test_refusals(self):
        for field, value in {"structured_outputs": {"regex": "("}, "guided_regex": "(?=a)", "guided_choice": [], "guided_json": "{", "json_schema": {"not": {}},
                             "grammar": "root ::= root \"a\" | \"b\"", "guided_grammar": "x"}.items():
            reply = self.server.chat("x", **{field: value})
            self.assertEqual((reply.status, reply.json["error"]["param"]), (400, field), reply.text)
            self.assertNotIn("\n", reply.json["error"]["message"])
        reply = self.server.chat("x", guided_regex="a", response_format={"type": "json_object"})
        self.assertEqual(reply.status, 400)
        many = "\n".join(f"r{i} ::= r{i + 1} | r{i + 1}" for i in range(60)) + "\nr60 ::= \"x\"\nroot ::= r0"
        self.assertIn("too many ways", self.server.chat("x", grammar=many).json["error"]["message"])
        self.assertEqual(self.server.get("/health").status, 200)


@unittest.skipUnless(openai, "the Python package openai is not installed")
class Pydantic(Case):
    """Models as clients write them, through client.chat.completions.parse."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="x", max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.__exit__(None, None, None)

    def parse(self, model, **more):
        return self.client.chat.completions.parse(model="demo", messages=[{"role": "user", "content": "Describe the image."}], response_format=model,
                                                  **{"max_tokens": 2500, "temperature": 1.3, "seed": 1, **more}).choices[0].message.parsed

    def test_nested_and_recursive(self):
        class Point(pydantic.BaseModel):
            x: typing.Annotated[int, pydantic.Field(ge=0, le=640)]
            y: typing.Annotated[float, pydantic.Field(ge=0, lt=1)]

        class Cat(pydantic.BaseModel):
            kind: typing.Literal["cat"]
            lives: typing.Annotated[int, pydantic.Field(gt=0, le=9)]

        class Dog(pydantic.BaseModel):
            kind: typing.Literal["dog"]
            name: typing.Annotated[str, pydantic.Field(pattern="^[A-Z][a-z]{1,8}$")]

        class Scene(pydantic.BaseModel):
            title: typing.Annotated[str, pydantic.Field(max_length=12)]
            at: typing.Optional[Point] = None
            animals: typing.Annotated[list[typing.Annotated[typing.Union[Cat, Dog], pydantic.Field(discriminator="kind")]], pydantic.Field(max_length=2)]
            corner: tuple[int, bool]
            inner: typing.Annotated[list["Scene"], pydantic.Field(max_length=1)]

        for seed in range(4):
            scene = self.parse(Scene, seed=seed)
            self.assertIsInstance(scene, Scene)
            self.assertLessEqual(len(scene.animals), 2)

    def test_dates_and_ids(self):
        import datetime
        import uuid

        class Record(pydantic.BaseModel):
            when: datetime.datetime
            day: datetime.date
            key: uuid.UUID
            left: typing.Union[int, str, None]
        for seed in range(2):
            self.assertIsInstance(self.parse(Record, seed=seed), Record)


if __name__ == "__main__":
    main()
