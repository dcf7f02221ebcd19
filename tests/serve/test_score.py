"""/v1/score and /v1/rerank: how alike texts and pictures are, by the vectors that /v1/embeddings gives of them."""
import math
import os

from server import Case, Server, ask, main, media_part, sample

QUERY = "Is the star red?"
TEXTS = ["How many circles are in the picture?", "The star is red.", "ja", "Is the star red?"]
PICTURE = media_part(sample(video=False)["file"])


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


class Scores(Case):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--slots", "2")

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    def post(self, path, **body):
        reply = self.server.post(path, body)
        self.assertEqual(reply.status, 200, reply.text)
        return reply.json

    def vectors(self, **body):
        return [d["embedding"] for d in self.post("/v1/embeddings", **body)["data"]]

    def wanted(self, query, texts):
        vectors = self.vectors(input=[query, *texts])
        return [cosine(vectors[0], v) for v in vectors[1:]]

    def near(self, got, want):
        self.assertEqual(len(got), len(want))
        for a, b in zip(got, want):
            self.assertAlmostEqual(a, b, delta=2e-6)

    def scores(self, path="/v1/score", **body):
        reply = self.post(path, **body)
        self.assertEqual((reply["object"], reply["model"], reply["id"][:6]), ("list", "demo", "score-"))
        self.assertEqual([(d["object"], d["index"]) for d in reply["data"]], [("score", i) for i in range(len(reply["data"]))])
        return [d["score"] for d in reply["data"]]

    def test_one_query_for_all(self):
        want = self.wanted(QUERY, TEXTS)
        self.assertAlmostEqual(want[3], 1, delta=1e-6)
        self.assertLess(max(want[:3]), 0.999)
        for first, second in (("queries", "documents"), ("queries", "items"), ("text_1", "text_2"), ("data_1", "data_2")):
            self.near(self.scores(**{first: QUERY, second: TEXTS}), want)
        self.near(self.scores("/score", queries=[QUERY], documents=TEXTS, model="demo", priority=1, user="a", use_activation=True), want)
        self.near(self.scores(text_1=QUERY, text_2=TEXTS[0]), want[:1])
        self.near(self.scores(text_1={"content": [{"type": "text", "text": "Is the"}, {"type": "text", "text": "star"}]}, text_2=TEXTS[0]),
                  self.wanted("Is the\nstar", TEXTS[:1]))

    def test_pairs(self):
        queries = [QUERY, "ja", "A circle", "Nothing"]
        want = [self.wanted(q, [t])[0] for q, t in zip(queries, TEXTS)]
        self.near(self.scores(queries=queries, documents=TEXTS), want)
        usage = self.post("/v1/score", queries=queries, documents=TEXTS)["usage"]
        n = sum(self.server.post("/tokenize", {"prompt": t}).json["count"] for t in queries + TEXTS)
        self.assertEqual(usage, {"prompt_tokens": n, "total_tokens": n, "completion_tokens": 0})

    def test_ranks(self):
        want = self.wanted(QUERY, TEXTS)
        order = sorted(range(4), key=lambda i: -want[i])
        for path in "/v1/rerank", "/v2/rerank", "/rerank":
            reply = self.post(path, query=QUERY, documents=TEXTS)
            self.assertEqual((reply["id"][:7], reply["model"], set(reply["usage"])), ("rerank-", "demo", {"prompt_tokens", "total_tokens"}))
            self.assertEqual([r["index"] for r in reply["results"]], order)
            self.assertEqual([r["document"] for r in reply["results"]], [{"text": TEXTS[i]} for i in order])
            self.near([r["relevance_score"] for r in reply["results"]], [want[i] for i in order])
        self.assertEqual([r["index"] for r in self.post("/v1/rerank", query=QUERY, documents=TEXTS, top_n=2)["results"]], order[:2])
        self.assertEqual(len(self.post("/v1/rerank", query=QUERY, documents=TEXTS, top_n=9)["results"]), 4)
        reply = self.post("/v1/rerank", query=QUERY, documents=TEXTS, return_documents=False)
        self.assertEqual(set(reply["results"][0]), {"index", "relevance_score"})
        same = self.post("/v1/rerank", query="a", documents=["b", "b", "b"])
        self.assertEqual([r["index"] for r in same["results"]], [0, 1, 2])
        self.assertEqual(len(self.post("/v1/rerank", query=QUERY, documents="one")["results"]), 1)

    def test_pictures(self):
        """Each a conversation of its own, with the vector that /v1/embeddings gives of it; texts beside them as they stand."""
        row = sample(video=True)
        contents = [[PICTURE, {"type": "text", "text": "a star"}], ask(row), [PICTURE]]
        vectors = [self.vectors(messages=[{"role": "user", "content": c}])[0] for c in contents]
        plain = self.vectors(input=QUERY)[0]
        documents = [{"content": contents[0]}, QUERY, {"content": contents[1]}, {"content": contents[2]}]
        want = [cosine(plain, v) for v in (vectors[0], plain, vectors[1], vectors[2])]
        self.near(self.scores(queries=QUERY, documents=documents), want)
        self.near(self.scores(queries={"content": contents[2]}, documents=documents), [cosine(vectors[2], v) for v in (vectors[0], plain, vectors[1], vectors[2])])
        reply = self.post("/v1/rerank", query=QUERY, documents=documents, top_n=4)
        shown = {r["index"]: r["document"] for r in reply["results"]}
        self.assertEqual(shown[0], {"multi_modal": [{"type": "image_url"}, {"type": "text", "text": "a star"}]})
        self.assertEqual(shown[1], {"text": QUERY})
        few = {"media_io_kwargs": {"video": {"num_frames": 2}}}
        less = self.post("/v1/score", queries="a", documents={"content": contents[1]}, **few)
        self.assertLess(less["usage"]["prompt_tokens"], self.post("/v1/score", queries="a", documents={"content": contents[1]})["usage"]["prompt_tokens"])

    def test_a_video_has_its_frames_whatever_is_beside_it(self):
        part = media_part(os.path.join(os.path.dirname(sample(video=True)["file"]), "video0002_256.mp4"))
        alone = self.scores(queries=QUERY, documents={"content": [part]})
        beside = [{"content": [part]}, {"content": [part]}, {"content": [part, PICTURE]}]
        self.assertEqual(self.scores(queries=QUERY, documents=beside)[:2], alone * 2)

    def test_many_at_once(self):
        texts = [f"{i} circles" for i in range(400)]
        self.near(self.scores(queries=QUERY, documents=texts), self.wanted(QUERY, texts))
        self.assertEqual(len(self.post("/v1/rerank", query=QUERY, documents=texts, top_n=3)["results"]), 3)

    def refuse(self, path, body, param, code=None):
        reply = self.server.post(path, body)
        self.assertEqual((reply.status, reply.json["error"]["param"]), (400, param), (body, reply.text))
        if code:
            self.assertEqual(reply.json["error"]["code"], code)

    def test_what_is_refused(self):
        both = {"queries": "a", "documents": ["b"]}
        for body, param in (({}, "queries"), ({"queries": "a"}, "queries"), ({"queries": "a", "text_2": "b"}, "queries"), ({**both, "items": ["c"]}, "queries"),
                            ({"queries": [], "documents": "a"}, "queries"), ({"queries": "a", "documents": []}, "documents"),
                            ({"text_1": ["a", "b"], "text_2": ["c"]}, "text_2"), ({"text_1": "a", "text_2": ["b", ""]}, "text_2[1]"),
                            ({"text_1": 7, "text_2": "b"}, "text_1"), ({"text_1": "a", "text_2": [[1, 2]]}, "text_2[0]"),
                            ({"text_1": "a", "text_2": [{"content": []}]}, "text_2[0]"), ({"text_1": "a", "text_2": [{"text": "b"}]}, "text_2[0]"),
                            ({"text_1": "a", "text_2": [{"content": [{"type": "text", "text": ""}]}]}, "text_2[0]"),
                            ({"text_1": "a", "text_2": [{"content": [PICTURE], "role": "user"}]}, "text_2[0]"),
                            ({"text_1": "a", "text_2": [{"content": [{"type": "text", "text": "b", "image_url": "c"}]}]}, "messages[1].content[0].image_url"),
                            ({"queries": "a", "documents": ["b"] * 2048}, "documents"), ({**both, "use_activation": "x"}, "use_activation"),
                            ({**both, "temperature": 1}, "temperature"), ({**both, "top_n": 1}, "top_n"), ({**both, "stream": True}, "stream"),
                            ({**both, "truncate_prompt_tokens": 3}, "truncate_prompt_tokens"), ({**both, "prompt": "x"}, "prompt"),
                            ({**both, "foo": 1}, "foo"), ({**both, "saccade": {"places": True}}, "places"), ({**both, "model": 3}, "model")):
            self.refuse("/v1/score", body, param)
        both = {"query": "a", "documents": ["b"]}
        for body, param in (({}, "query"), ({"query": "a"}, "documents"), ({"query": ["a"], "documents": ["b"]}, "query"), ({**both, "top_n": -1}, "top_n"),
                            ({**both, "top_n": "x"}, "top_n"), ({**both, "return_documents": 1}, "return_documents"), ({**both, "text_1": "a"}, "text_1"),
                            ({"query": "", "documents": ["b"]}, "query"), ({**both, "max_tokens_per_doc": 3}, "max_tokens_per_doc"),
                            ({**both, "truncate_prompt_tokens": 3}, "truncate_prompt_tokens")):
            self.refuse("/v1/rerank", body, param)
        self.refuse("/v1/rerank", {"query": "a", "documents": [{"content": [{"type": "audio_url", "audio_url": {"url": "x"}}]}]}, "messages[1].content[0]")
        reply = self.server.post("/v1/score", {"queries": "a", "documents": ["b " * 9000]})
        self.assertEqual((reply.status, reply.json["error"]["code"]), (400, "context_length_exceeded"))
        reply = self.server.post("/v1/score", {"queries": "a", "documents": ["b"], "model": "other"})
        self.assertEqual(reply.status, 404)
        for body, status in ((b"", 400), (b"[]", 400), (("[" * 5000).encode(), 400), (b'{"queries": "a", "documents": [' + b"{}," * 900000 + b"{}]}", 413)):
            self.assertEqual(self.server.request("POST", "/v1/score", body).status, status)
        self.assertEqual(self.server.get("/v1/rerank").status, 405)

    def test_keys(self):
        with Server("--slots", "1", "--api-key", "secret") as server:
            for path in "/v1/score", "/score", "/v1/rerank", "/v2/rerank", "/rerank":
                self.assertEqual(server.post(path, {"query": "a"}).status, 401)


if __name__ == "__main__":
    main()
