"""/v1/embeddings: a vector for each prompt, of texts, token ids and conversations with pictures."""
import base64
import json
import math
import os
import struct
import unittest

from server import MODEL, Case, Server, ask, main, sample

try:
    import openai
except ImportError:
    openai = None

TEXTS = ["Is the star red?", "How many circles are in the picture?", "ja"]


def head():
    """The demo model's output matrix, which is that of its input: rows of floats."""
    for name in sorted(n for n in os.listdir(MODEL) if n.startswith("model") and n.endswith(".safetensors")):
        with open(os.path.join(MODEL, name), "rb") as f:
            size, = struct.unpack("<Q", f.read(8))
            header = json.loads(f.read(size))
            tensor = header.get("language_model.model.embed_tokens.weight")
            if not tensor:
                continue
            f.seek(8 + size + tensor["data_offsets"][0])
            n, width = tensor["shape"]
            halves = struct.unpack(f"<{n * width}H", f.read(2 * n * width))
            values = struct.unpack(f"<{n * width}f", struct.pack(f"<{n * width}I", *(h << 16 for h in halves)))
            return [values[i * width:(i + 1) * width] for i in range(n)]
    raise AssertionError("no output matrix")


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


class Embeddings(Case):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--slots", "2")

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    def embed(self, **body):
        reply = self.server.post("/v1/embeddings", body)
        self.assertEqual(reply.status, 200, reply.text)
        self.assertEqual([d["index"] for d in reply.json["data"]], list(range(len(reply.json["data"]))))
        return reply.json

    def vector(self, **body):
        return self.embed(**body)["data"][0]["embedding"]

    def test_they_are_what_the_head_reads(self):
        """Log probabilities of the next token are the output matrix times the vector, times its length, up to what makes them one."""
        rows = head()
        ids = self.server.post("/tokenize", {"prompt": TEXTS[0]}).json["tokens"]
        vector = self.vector(input=ids)
        self.assertAlmostEqual(dot(vector, vector), 1, delta=1e-5)
        shown = {}
        for forced in range(300, 306):
            body = {"prompt": ids, "max_tokens": 1, "temperature": 0, "allowed_token_ids": [forced, 310], "logprobs": 2}
            shown[forced] = self.server.post("/v1/completions", body).json["choices"][0]["logprobs"]
        texts = {i: self.server.post("/detokenize", {"tokens": [7, i]}).json["prompt"] for i in (*range(300, 306), 310)}
        lengths = []
        for forced, lists in shown.items():
            top = lists["top_logprobs"][0]
            names = sorted(top, key=lambda t: not texts[forced].endswith(t))
            difference = top[names[0]] - top[names[1]]
            lengths.append(difference / (dot(rows[forced], vector) - dot(rows[310], vector)))
        self.assertTrue(all(length > 0 and abs(length / lengths[0] - 1) < 0.02 for length in lengths), lengths)

    def test_texts(self):
        """One by one, together, as ids, and again out of the prefix cache."""
        alone = [self.vector(input=t) for t in TEXTS]
        together = self.embed(model="demo", input=TEXTS, user="a")
        self.assertEqual([d["embedding"] for d in together["data"]], alone)
        self.assertEqual(together["usage"]["prompt_tokens"], sum(self.embed(input=t)["usage"]["prompt_tokens"] for t in TEXTS))
        ids = [self.server.post("/tokenize", {"prompt": t}).json["tokens"] for t in TEXTS]
        self.assertEqual([d["embedding"] for d in self.embed(input=ids)["data"]], alone)
        self.assertEqual([self.vector(input=t) for t in reversed(TEXTS)], alone[::-1])
        for i in range(len(TEXTS)):
            for k in range(i):
                self.assertLess(dot(alone[i], alone[k]), 0.9999)
        self.assertEqual(len(self.embed(input=["a"] * 200)["data"]), 200)

    def test_base64(self):
        for text in TEXTS:
            plain = self.embed(input=text, encoding_format="float")["data"][0]["embedding"]
            packed = base64.b64decode(self.embed(input=text, encoding_format="base64")["data"][0]["embedding"], validate=True)
            self.assertEqual(len(packed), 4 * len(plain))
            for a, b in zip(struct.unpack(f"<{len(plain)}f", packed), plain):
                self.assertAlmostEqual(a, b, delta=1e-6)

    def test_conversations(self):
        rows = [sample(video=False), sample(video=True)]
        vectors = [self.vector(messages=[{"role": "user", "content": ask(row)}]) for row in rows]
        again = [self.vector(messages=[{"role": "user", "content": ask(row)}]) for row in rows]
        self.assertEqual(vectors, again)
        self.assertTrue(all(abs(math.sqrt(dot(v, v)) - 1) < 1e-5 for v in vectors))
        self.assertLess(dot(*vectors), 0.9999)
        open_turn = self.embed(messages=[{"role": "user", "content": ask(rows[0])}], add_generation_prompt=True)
        closed = self.embed(messages=[{"role": "user", "content": ask(rows[0])}])
        self.assertGreater(open_turn["usage"]["prompt_tokens"], closed["usage"]["prompt_tokens"])
        self.assertGreater(closed["usage"]["visual_tokens"], 0)

    def test_many(self):
        """So much JSON that it is made beside the steps of others."""
        before = self.server.metric("saccade:long_answers_total")
        self.embed(input="a")
        self.assertEqual(self.server.metric("saccade:long_answers_total"), before)
        one, many = self.vector(input="a"), self.embed(input=["a"] * 300)
        self.assertEqual(self.server.metric("saccade:long_answers_total"), before + 1)
        self.assertEqual([d["embedding"] for d in many["data"]], [one] * 300)

    def test_answers_stay_what_they_were(self):
        row = sample(video=False)
        for _ in range(3):
            self.vector(messages=[{"role": "user", "content": ask(row)}])
            self.assertEqual(self.server.answer(ask(row)), row["answer"])

    def test_what_is_refused(self):
        for body, param in (({}, "input"), ({"input": "x", "messages": []}, "input"), ({"input": ""}, "input"), ({"input": []}, "input"),
                            ({"input": 7}, "input"), ({"input": [["x"]]}, "input"), ({"input": [1 << 30]}, "input"), ({"input": {}}, "input"),
                            ({"input": ["a"] * 2049}, "input"), ({"input": "x", "encoding_format": "hex"}, "encoding_format"),
                            ({"input": "x", "dimensions": 8}, "dimensions"), ({"input": "x", "temperature": 1}, "temperature"),
                            ({"input": "x", "stream": True}, "stream"), ({"input": "x", "saccade": {"places": True}}, "places"),
                            ({"messages": [{"role": "user", "content": "x"}], "saccade": {"places": True}}, "places"), ({"input": "x", "prompt": "y"}, "prompt"), ({"input": "x", "max_tokens": 3}, "max_tokens"),
                            ({"messages": "x"}, "messages"), ({"messages": [{"role": "user"}]}, "messages[0].content")):
            reply = self.server.post("/v1/embeddings", body)
            self.assertEqual((reply.status, reply.json["error"]["param"]), (400, param), (body, reply.text))
        reply = self.server.post("/v1/embeddings", {"input": [5] * 9000})
        self.assertEqual((reply.status, reply.json["error"]["code"]), (400, "context_length_exceeded"))
        for body, status in ((b"", 400), (b"[]", 400), (("[" * 5000).encode(), 400), (b'{"input": [' + b"{}," * 900000 + b"{}]}", 413)):
            self.assertEqual(self.server.request("POST", "/v1/embeddings", body).status, status)
        self.assertEqual(self.server.post("/v1/completions", {"prompt": "x", "input": "y"}).json["error"]["code"], "unknown_field")

    @unittest.skipUnless(openai, "the Python package openai is not installed")
    def test_the_package(self):
        """It asks for base64 by itself."""
        with openai.OpenAI(base_url=self.server.url + "/v1", api_key="x", max_retries=0) as client:
            reply = client.embeddings.create(model="demo", input=TEXTS)
            self.assertEqual(len(reply.data), 3)
            for a, b in zip(reply.data[0].embedding, self.vector(input=TEXTS[0])):
                self.assertAlmostEqual(a, b, delta=1e-6)


if __name__ == "__main__":
    main()
