"""What a request can ask of the answer: log probabilities, penalties, bias, JSON schemas, raw text, metrics."""
import json
import math

from server import Case, Server, ask, is_video, main, media_part, questions, read_events, sample


def caption():
    return next(r for r in questions() if r["question_type"] == "caption")


class Settings(Case):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--slots", "2")

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    def test_logprobs(self):
        row = caption()
        choice = self.server.chat(ask(row), logprobs=True, top_logprobs=3).json["choices"][0]
        entries = choice["logprobs"]["content"]
        self.assertEqual("".join(e["token"] for e in entries), row["answer"])
        for e in entries:
            self.assertLessEqual(e["logprob"], 0)
            self.assertEqual(bytes(e["bytes"]).decode(), e["token"])
            self.assertEqual(len(e["top_logprobs"]), 3)
            self.assertEqual(e["top_logprobs"][0]["token"], e["token"])  # greedy
            self.assertLessEqual(sum(math.exp(t["logprob"]) for t in e["top_logprobs"]), 1.001)

    def test_logprobs_of_a_stream(self):
        row = caption()
        whole = self.server.chat(ask(row), logprobs=True).json["choices"][0]["logprobs"]["content"]
        events, _ = read_events(self.server.chat(ask(row), logprobs=True, stream=True).text)
        pieces = [e for c in events for e in ((c["choices"][0]["logprobs"] or {}).get("content") or [])]
        self.assertEqual([p["token"] for p in pieces], [w["token"] for w in whole])

    def test_logprobs_of_control_tokens(self):
        """By their names, so that no two share one; they add nothing to the text."""
        body = {"prompt": "Is the", "max_tokens": 1, "temperature": 0, "logprobs": 1, "ignore_eos": True}
        tokens = []
        for i in range(4):
            choice = self.server.post("/v1/completions", {**body, "logit_bias": {str(i): 100}}).json["choices"][0]
            tokens += choice["logprobs"]["tokens"]
        self.assertEqual((len(set(tokens)), "" in tokens), (4, False), tokens)

    def test_bias_and_penalties(self):
        row = sample(video=False)
        entry = self.server.chat(ask(row), logprobs=True, max_tokens=1).json["choices"][0]["logprobs"]["content"][0]
        row = caption()
        first = self.server.answer(ask(row), max_tokens=48, ignore_eos=True)
        other = self.server.answer(ask(row), max_tokens=48, ignore_eos=True, frequency_penalty=2, presence_penalty=2)
        self.assertNotEqual(first, other)
        # 0 to 511: the bias of every token but one, so that this one comes
        reply = self.server.chat(ask(row), max_tokens=2, logit_bias={str(i): -100 for i in range(511)})
        self.assertEqual(reply.status, 200, reply.text)
        self.assertNotEqual(reply.json["choices"][0]["message"]["content"][:4], first[:4])
        for bias in {"x": 1}, {"1": 200}, {"1": "a"}, {"99999": 1}:
            reply = self.server.chat("x", logit_bias=bias)
            self.assertEqual((reply.status, reply.json["error"]["param"]), (400, "logit_bias"), bias)
        self.assertLessEqual(entry["logprob"], 0)

    def test_allowed_tokens(self):
        """No others come, whatever the model would say; with an end token among them the answer may end."""
        allowed = [300, 301, 302]
        for path, body in (("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}), ("/v1/completions", {"prompt": "x"})):
            reply = self.server.post(path, {**body, "max_tokens": 12, "temperature": 1.5, "seed": 2, "allowed_token_ids": allowed})
            self.assertEqual(reply.status, 200, reply.text)
            choice = reply.json["choices"][0]
            text = choice["text"] if "text" in choice else choice["message"]["content"]
            pieces = [self.server.post("/detokenize", {"tokens": [i]}).json["prompt"] for i in allowed]
            for piece in sorted(pieces, key=len, reverse=True):
                text = text.replace(piece, "")
            self.assertEqual((text.strip(), choice["finish_reason"], reply.json["usage"]["completion_tokens"]), ("", "length", 12))
            for wrong in ["a"], [1 << 30], [-1], {"a": 1}, 7:
                reply = self.server.post(path, {**body, "allowed_token_ids": wrong})
                self.assertEqual((reply.status, reply.json["error"]["param"]), (400, "allowed_token_ids"), wrong)
            reply = self.server.post(path, {**body, "allowed_token_ids": [300, -1]})
            self.assertIn("'allowed_token_ids': token id 1 of the list is not a whole number from 0 to ", reply.json["error"]["message"])

    def test_stop_token_ids(self):
        row = caption()
        whole = self.server.chat(ask(row), max_tokens=12).json["choices"][0]["message"]["content"]
        ids = self.server.post("/tokenize", {"prompt": whole, "add_special_tokens": False}).json["tokens"]
        reply = self.server.chat(ask(row), max_tokens=12, stop_token_ids=[ids[2]]).json
        self.assertEqual(reply["choices"][0]["finish_reason"], "stop")
        self.assertLessEqual(reply["usage"]["completion_tokens"], 3)
        self.assertTrue(whole.startswith(reply["choices"][0]["message"]["content"]))

    def test_further_settings(self):
        row = caption()
        plain = self.server.chat(ask(row), max_tokens=12).json["choices"][0]["message"]["content"]
        banned = self.server.chat(ask(row), max_tokens=12, suppress_tokens=list(range(256))).json
        self.assertNotEqual(plain, banned["choices"][0]["message"]["content"])
        reply = self.server.chat(ask(row), max_tokens=12, stop_strings=[plain[2]]).json["choices"][0]
        content = reply["message"]["content"]  # ends with the token in which the text ends
        self.assertTrue(reply["finish_reason"] == "stop" and plain[2] in content and plain.startswith(content), content)
        self.assertEqual(self.server.chat(ask(row), guidance_scale=1).status, 200)
        for wrong in ({"stop_strings": [""]}, {"guidance_scale": 3}, {"no_repeat_ngram_size": "two"}, {"bad_words_ids": [[]]}, {"suppress_tokens": -1},
                      {"stop_token_ids": [1 << 30]}):
            self.assertEqual(self.server.chat(ask(row), **wrong).status, 400)

    def test_counts_of_each_chunk(self):
        """vLLM's continuous_usage_stats."""
        options = {"include_usage": True, "continuous_usage_stats": True}
        events, _ = read_events(self.server.chat("What moves?", stream=True, stream_options=options, max_tokens=6, n=2, ignore_eos=True).text)
        whole = events.pop()["usage"]
        for i in 0, 1:
            counts = [e["usage"]["completion_tokens"] for e in events if e["choices"][0]["index"] == i]
            self.assertEqual((counts, counts[0], counts[-1]), (sorted(counts), 0, 6))
        for e in events:
            self.assertEqual(e["usage"]["prompt_tokens"], whole["prompt_tokens"])
            self.assertEqual(e["usage"]["total_tokens"], whole["prompt_tokens"] + e["usage"]["completion_tokens"])
        plain, _ = read_events(self.server.chat("What moves?", stream=True, stream_options={"include_usage": True}, max_tokens=6).text)
        self.assertEqual([e["usage"] for e in plain[:-1]], [None] * (len(plain) - 1))

    def test_tokens_of_texts_and_conversations(self):
        """As many as an answer's prompt has; texts come back from them."""
        for path, body, param in (("/tokenize", {"prompt": "x", "with_pieces": True}, "with_pieces"),
                                  ("/tokenize", {"prompt": "x", "parse_special": True}, "parse_special"),
                                  ("/tokenize", {"messages": [], "with_pieces": True}, "with_pieces"),
                                  ("/detokenize", {"tokens": [5], "skip_special_tokens": False}, "skip_special_tokens"),
                                  ("/tokenize", {"prompt": "x", "messages": []}, "messages"),
                                  ("/detokenize", {"tokens": [5], "skip": 1}, "skip")):
            reply = self.server.post(path, body)
            self.assertEqual((reply.status, reply.json["error"]["param"]), (400, param), reply.text)
        for path, body, more in (("/tokenize", {"content": "x"}, {"with_pieces": False, "parse_special": False}),
                                 ("/tokenize", {"messages": [{"role": "user", "content": "x"}]}, {"with_pieces": False}),
                                 ("/detokenize", {"tokens": [5]}, {"skip_special_tokens": True})):
            self.assertEqual(self.server.post(path, {**body, **more}).json, self.server.post(path, body).json)
        self.assertEqual(self.server.post("/tokenize", {"prompt": "x", "model": "nope"}).status, 404)
        self.assertIn("U+0000", self.server.post("/tokenize", {"prompt": "a\0b"}).text)
        for text in "Is the star red?", " two  spaces\n", "é<|end|>":
            reply = self.server.post("/tokenize", {"prompt": text, "add_special_tokens": False, "return_token_strs": True}).json
            self.assertEqual((reply["count"], reply["max_model_len"]), (len(reply["tokens"]), 8192))
            self.assertEqual(len(reply["token_strs"]), reply["count"])
            back = self.server.post("/detokenize", {"tokens": reply["tokens"]}).json
            self.assertEqual((back["prompt"].strip(), back["content"]), (text.strip(), back["prompt"]))
        reply = self.server.post("/tokenize", {"content": "Is the"}).json
        whole = self.server.post("/v1/completions", {"prompt": "Is the", "max_tokens": 1}).json
        self.assertEqual((reply["count"], reply["token_strs"]), (whole["usage"]["prompt_tokens"], None))
        messages = [{"role": "user", "content": "Is the star red?"}, {"role": "assistant", "content": "no"}, {"role": "user", "content": "Why?"}]
        reply = self.server.post("/tokenize", {"model": "demo", "messages": messages}).json
        whole = self.server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 1}).json
        self.assertEqual(reply["count"], whole["usage"]["prompt_tokens"])
        again = self.server.post("/v1/completions", {"prompt": reply["tokens"], "max_tokens": 8, "temperature": 0}).json
        answer = self.server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 8, "temperature": 0}).json
        self.assertEqual(again["choices"][0]["text"], answer["choices"][0]["message"]["content"])
        messages[0]["content"] = "a <|end|> b"
        for path, body, param in [("/tokenize", {"messages": messages}, "messages"), ("/tokenize", {}, "prompt"), ("/tokenize", {"prompt": 3}, "prompt"),
                                  ("/detokenize", {"tokens": [1 << 30]}, "tokens"), ("/detokenize", {"tokens": "x"}, "tokens"),
                                  ("/tokenize", {"messages": [], "x": 1}, "x")]:
            reply = self.server.post(path, body)
            self.assertEqual((reply.status, reply.json["error"]["param"]), (400, param), reply.text)
        self.assertEqual(self.server.request("POST", "/tokenize", "{").status, 400)

    def test_min_tokens(self):
        row = sample(video=False)
        row = next(r for r in questions() if r["answer"] == "yes")
        reply = self.server.chat(ask(row), min_tokens=6, max_tokens=6).json
        self.assertEqual(reply["usage"]["completion_tokens"], 6)
        asked = {"prompt": "Is the star red?", "max_tokens": 6, "temperature": 0, "ignore_eos": True}
        first = self.server.post("/v1/completions", {**asked, "logprobs": 0}).json["choices"][0]["logprobs"]["tokens"][0]
        stop, = self.server.post("/tokenize", {"prompt": first, "add_special_tokens": False}).json["tokens"]
        for least in 0, 3:  # tokens that a request stops at are held back as the model's are
            reply = self.server.post("/v1/completions", {**asked, "stop_token_ids": [stop], "min_tokens": least}).json
            self.assertGreaterEqual(reply["usage"]["completion_tokens"], least)
            self.assertEqual(reply["choices"][0]["finish_reason"] == "stop" and not reply["choices"][0]["text"], least == 0)
        with Server("--slots", "1", "--set", f"stop_token_ids=[{stop}]") as server:  # and so are those of the server's settings
            for least in 0, 3:
                reply = server.post("/v1/completions", {**asked, "min_tokens": least}).json
                self.assertGreaterEqual(reply["usage"]["completion_tokens"], least)
                self.assertEqual(reply["choices"][0]["finish_reason"] == "stop" and not reply["choices"][0]["text"], least == 0)

    def test_no_token_is_left(self):
        for limits in ({"guided_choice": ["yes"], "allowed_token_ids": [5]}, {"guided_choice": ["yes"], "min_tokens": 20},
                       {"suppress_tokens": list(range(512))}):
            reply = self.server.chat("x", max_tokens=8, **limits)
            self.assertEqual(reply.status, 400)
            self.assertIn("the settings of sampling exclude all", reply.json["error"]["message"])

    def answer_json(self, schema, content="Describe the image.", **more):
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        reply = self.server.chat(content, response_format=form, **{"max_tokens": 300, **more})
        self.assertEqual(reply.status, 200, reply.text)
        choice = reply.json["choices"][0]
        self.assertEqual(choice["finish_reason"], "stop", choice)
        return json.loads(choice["message"]["content"])

    def test_schema(self):
        schema = {"type": "object", "additionalProperties": False, "required": ["shape", "n", "big", "tags", "x"],
                  "properties": {"shape": {"enum": ["square", "diamond", "star"]}, "n": {"type": "integer"},
                                 "big": {"type": "boolean"}, "x": {"type": ["null", "number"]},
                                 "tags": {"type": "array", "items": {"type": "string", "maxLength": 5},
                                          "minItems": 1, "maxItems": 3},
                                 "free": {"const": {"a": [1, "b"]}}}}
        for seed in range(6):
            with self.subTest(seed):
                value = self.answer_json(schema, temperature=1.5, seed=seed)
                self.assertLessEqual({"shape", "n", "big", "tags", "x"}, set(value))
                self.assertLessEqual(set(value), {"shape", "n", "big", "tags", "x", "free"})
                self.assertIn(value["shape"], ["square", "diamond", "star"])
                self.assertIs(type(value["n"]), int)
                self.assertIs(type(value["big"]), bool)
                self.assertIn(type(value["x"]), (int, float, type(None)))
                self.assertTrue(1 <= len(value["tags"]) <= 3 and all(len(t) <= 5 for t in value["tags"]))
                self.assertEqual(value.get("free", {"a": [1, "b"]}), {"a": [1, "b"]})

    def test_schema_as_pydantic_writes_it(self):
        """A list of models with an optional one that may contain itself."""
        schema = {"$defs": {"Shape": {"type": "object", "title": "Shape", "required": ["kind", "inner"], "properties": {
                      "kind": {"enum": ["square", "star"], "type": "string"},
                      "inner": {"anyOf": [{"$ref": "#/$defs/Shape"}, {"type": "null"}], "default": None}}}},
                  "type": "object", "required": ["shapes", "n"], "properties": {
                      "shapes": {"type": "array", "items": {"$ref": "#/$defs/Shape"}, "minItems": 1, "maxItems": 2},
                      "n": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}}

        def check(shape):
            self.assertEqual(set(shape), {"kind", "inner"})
            self.assertIn(shape["kind"], ["square", "star"])
            if shape["inner"] is not None:
                check(shape["inner"])
        for seed in range(4):
            value = self.answer_json(schema, temperature=1.5, seed=seed, max_tokens=2000)
            self.assertIn(type(value["n"]), (int, type(None)))
            self.assertTrue(1 <= len(value["shapes"]) <= 2)
            for shape in value["shapes"]:
                check(shape)

    def test_schema_leaves_the_choice_to_the_model(self):
        row = next(r for r in questions() if r["question_type"] == "size")
        value = self.answer_json({"enum": ["large", "small"]}, ask(row))
        self.assertIn(value, ["large", "small"])

    def test_schemas_that_are_refused(self):
        for schema in ({"type": "string", "pattern": "(?=a)b"}, {"anyOf": []}, {"type": "wizard"}, {"$ref": "#/x"}, {"$ref": "#"},
                       {"oneOf": [{"type": "object"}, {"type": "object", "properties": {"a": {}}}]}, {"type": "array", "uniqueItems": True},
                       {"anyOf": [{"type": "null"}], "type": "string"}, {"allOf": [{"type": "null"}, {"type": "string"}]},
                       {"not": {}}, {"type": "string", "format": "colour"}, {"type": "integer", "minimum": 2.1, "maximum": 2.9},
                       {"$defs": {"A": {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "required": ["a"]}},
                        "$ref": "#/$defs/A"},
                       {"enum": []}, {"type": "object", "required": ["a"]}, {"minItems": 2, "maxItems": 1}):
            form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
            reply = self.server.chat("x", response_format=form)
            self.assertEqual(reply.status, 400, schema)
            self.assertEqual(reply.json["error"]["code"], "unsupported_schema")

    def test_text_completion(self):
        body = {"model": "demo", "prompt": "Is the", "max_tokens": 5, "temperature": 0, "logprobs": 2}
        reply = self.server.post("/v1/completions", body).json
        self.assertEqual(reply["object"], "text_completion")
        choice = reply["choices"][0]
        self.assertEqual(len(choice["logprobs"]["tokens"]), reply["usage"]["completion_tokens"])
        self.assertEqual("".join(choice["logprobs"]["tokens"]), choice["text"])
        events, done = read_events(self.server.post("/v1/completions", {**body, "stream": True}).text)
        self.assertTrue(done)
        self.assertEqual("".join(e["choices"][0]["text"] for e in events), choice["text"])
        self.assertEqual(self.server.post("/v1/completions", {"model": "demo", "prompt": []}).status, 400)

    def test_places(self):
        row = sample(video=True)
        reply = self.server.chat(ask(row), saccade={"places": True}).json
        frames = reply["saccade"]["frames"]
        self.assertEqual(len(frames), row["n_frames"])
        self.assertEqual(len(frames[0]["kept"]), frames[0]["rows"] * frames[0]["columns"])
        self.assertEqual([f["time"] for f in frames], reply["usage"]["media"][0]["timestamps"])

    def test_places_of_sliced_frames(self):
        """Tiles have the time of their frame: five of one where it is cut into slices, or one of two."""
        video = [media_part(sample(video=True)["file"]), {"type": "text", "text": "What is it?"}]
        for model, frames in ("minicpmv4_6", [t // 5 for t in range(15)]), ("qwen2_vl", [0, 2]):
            with Server("-m", f"tests/golden/models/{model}", "--slots", "1") as server:
                reply = server.chat(video, model=model, max_tokens=1, media_io_kwargs={"video": {"num_frames": 3}}, saccade={"places": True})
                self.assertEqual(reply.status, 200, reply.text)
                media = reply.json["usage"]["media"][0]
                self.assertEqual(len(media["timestamps"]), 3)
                self.assertEqual([f["time"] for f in reply.json["saccade"]["frames"]], [media["timestamps"][i] for i in frames])

    def test_metrics(self):
        before = self.server.metric("vllm:generation_tokens_total")
        n = self.server.chat(ask(sample(video=True))).json["usage"]["completion_tokens"]
        self.assertEqual(self.server.metric("vllm:generation_tokens_total"), before + n)
        text = self.server.get("/metrics").text
        for line in text.splitlines():
            self.assertRegex(line, r'\A(# (HELP|TYPE) [a-z_:0-9]+ .+|[a-z_:0-9]+\{[^}]*\} [-0-9.e+]+)\Z')
        for name in "vllm:time_to_first_token_seconds_count", "saccade:media_decode_seconds_count":
            self.assertGreater(self.server.metric(name), 0)


class Methods(Case):
    def test_a_request_chooses_its_own(self):
        row = next(r for r in questions() if r["n_frames"] == 16)
        with Server("--slots", "1", "--request-methods") as server:
            for own in {}, {"prefill": "zipvl:min=0,tau=0.9"}, {"decode": "snapkv:cap=512"}, {}, {"kv": "bf16"}:
                reply = server.chat(ask(row), saccade=own)
                self.assertEqual(reply.status, 200, reply.text)
                self.assertEqual(reply.json["choices"][0]["message"]["content"], row["answer"], own)
                kept = reply.json["usage"]["kept_ratio"]
                self.assertLess(kept, 0.99) if "prefill" in own else self.assertEqual(kept, 1)
            for own in {"prefill": "wizard"}, {"kv": "f16:x=1"}, {"decode": 3}:
                self.assertEqual(server.chat(ask(row), saccade=own).status, 400, own)
        with Server() as server:
            self.assertEqual(server.chat("x", saccade={"kv": "f32"}).status, 403)

    def test_videos_have_fewer_tokens(self):
        """The server's reducer and a request's own; 16 frames of 64 tokens, of which so many stay. Asked again, the prompt is in a cache."""
        row = next(r for r in questions() if r["n_frames"] == 16)
        with Server("--slots", "1", "--request-methods", "--reduce", "vidcom2:rate=0.5") as server:
            said = [server.chat(ask(row), saccade=own).json
                    for own in ({"reduce": "none"}, {}, {}, {"reduce": "evs:prune=0.75"}, {"reduce": "flashvid:rate=0.1"})]
            n = [r["usage"]["prompt_tokens"] for r in said]
            self.assertEqual([n[0] - k for k in n], [0, 512, 512, 768, 1024 - 16 * 8])
            self.assertEqual(said[1]["choices"][0]["message"], said[2]["choices"][0]["message"])
            self.assertGreater(said[2]["usage"]["prompt_tokens_details"]["cached_tokens"], 512)
            self.assertEqual(server.chat(ask(row), saccade={"reduce": "evs:prune=2"}).status, 400)


class Prepared(Case):
    """Media are decoded, resized and hashed once, for all who ask about them."""

    def test_once_for_all_choices_and_questions(self):
        row = sample(video=True)
        with Server() as server:
            reply = server.chat(ask(row), n=3, temperature=0)
            self.assertEqual([c["message"]["content"] for c in reply.json["choices"]], [row["answer"]] * 3)
            self.assertEqual(server.answer([ask(row)[0], {"type": "text", "text": "What?"}], max_tokens=1),
                             server.answer([ask(row)[0], {"type": "text", "text": "What?"}], max_tokens=1))
            self.assertEqual(server.metric("saccade:media_resize_seconds_count"), 1)
            self.assertEqual(server.metric("saccade:media_cache_hits_total"), 2)

    def test_a_picture_and_the_same_as_a_frame(self):
        row = sample(video=False)
        picture, text = ask(row)
        frames = {"type": "video_frames", "video_frames": {"urls": [picture["image_url"]["url"]] * 2, "timestamps": [0, 1]}}
        with Server() as server:
            for _ in range(2):
                self.assertEqual(server.answer([picture, text]), row["answer"])
                self.assertEqual(server.chat([frames, text]).json["usage"]["frames"], 2)
            self.assertEqual(server.metric("saccade:media_resize_seconds_count"), 2)


class Choices(Case):
    """Several answers to one prompt, which is run once where the method leaves a prefix that serves any answer."""

    def ask_for(self, server, row, n, **more):
        names = "vllm:prefix_cache_hits_total", "vllm:prompt_tokens_total", "vllm:request_success_total"
        before = [server.metric(name) for name in names]
        reply = server.chat(ask(row), n=n, **more)
        self.assertEqual(reply.status, 200, reply.text)
        return reply.json, [server.metric(name) - b for name, b in zip(names, before)]

    def test_the_prompt_runs_once(self):
        row = next(r for r in questions() if r["n_frames"] == 16)
        for options, reused in ((), True), (("--decode", "snapkv:cap=64"), False):
            with self.subTest(options), Server("--slots", "2", *options) as server:
                reply, (hits, prompt, finished) = self.ask_for(server, row, 3, saccade={"places": True})
                self.assertEqual([c["message"]["content"] for c in reply["choices"]], [row["answer"]] * 3)
                n = reply["usage"]["prompt_tokens"]
                self.assertEqual((prompt, finished), (n, 3))
                if reused:  # the last rows run again, as many as have bits of their own
                    self.assertTrue(2 * (n - 9) <= hits <= 2 * (n - 1), (hits, n))
                else:
                    self.assertEqual(hits, 0)
                self.assertEqual(len(reply["saccade"]["frames"]), 16)
                self.assertEqual(reply["usage"]["prompt_tokens_details"]["cached_tokens"], 0)

    def test_each_matches_the_schema(self):
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {
            "type": "object", "properties": {"a": {"enum": ["x", "y", 3]}, "b": {"type": "boolean"}}, "required": ["a", "b"]}}}
        with Server("--slots", "1") as server:
            reply, _ = self.ask_for(server, sample(video=False), 6, response_format=form, temperature=2, seed=5)
            values = [json.loads(c["message"]["content"]) for c in reply["choices"]]
        self.assertTrue(all(v["a"] in ("x", "y", 3) and v["b"] in (True, False) for v in values))
        self.assertGreater(len(set(map(str, values))), 1)


class Reuse(Case):
    """A second question about the same video starts from what is cached, and is answered as it would be alone."""

    def rows(self):
        rows = [r for r in questions() if is_video(r["file"]) and r["n_frames"] == 16]
        return rows[:2]

    def alone(self, rows, *options):
        answers = []
        for row in rows:
            with Server("--slots", "1", *options) as server:
                answers.append(server.answer(ask(row)))
        return answers

    def check(self, *options, reuse):
        rows = self.rows()
        wanted = self.alone(rows, *options)
        for order in rows, rows[::-1]:
            with Server("--slots", "1", *options) as server:
                replies = [server.chat(ask(row)).json for row in order]
                answers = [r["choices"][0]["message"]["content"] for r in replies]
                self.assertEqual(answers, wanted if order is rows else wanted[::-1])
                cached = replies[1]["usage"]["prompt_tokens_details"]["cached_tokens"]
                visual = replies[1]["usage"]["visual_tokens"]
                self.assertGreaterEqual(cached, visual) if reuse else self.assertLess(cached, visual)

    def test_dense_attention(self):
        self.check(reuse=True)

    def test_a_method_that_depends_on_the_question(self):
        self.check("--decode", "snapkv:cap=64", reuse=False)


if __name__ == "__main__":
    main()
