"""Texts that are long, or large once they are parsed: they are measured before they take memory, and where nobody waits for it."""
from server import Case, Server, chat_body, main

MIB, CONTEXT = 1 << 20, 3000
LONG = "a!b?" * (280_000 // 4)  # more than the readers of requests look at themselves; each byte is a token


def turn(role, content, **more):
    return {"role": role, "content": content, **more}


class LongTexts(Case):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--ctx", CONTEXT, "--slots", "1", "--chat", "tests/serve/templates/hermes.jinja")

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    def refused(self, path, body, status, words):
        reply = self.server.post(path, body)
        self.assertEqual(reply.status, status, reply.text[:300])
        self.assertIn(words, reply.text)
        return reply

    def test_what_no_context_holds(self):
        """By its bytes, before anybody looks for tokens."""
        text = "a!b?" * (400_000 // 4)
        tool = {"type": "function", "function": {"name": "f", "description": text}}
        words = "bytes of text, more than the context of 3000 tokens can hold"
        for path, body in (("/v1/chat/completions", chat_body(text)), ("/v1/completions", {"prompt": ["red", text]}),
                           ("/v1/embeddings", {"input": text}), ("/v1/rerank", {"query": "red", "documents": [text]}),
                           ("/v1/chat/completions", chat_body("x", tools=[tool]))):
            reply = self.refused(path, body, 400, words)
            self.assertEqual(reply.json["error"]["code"], "context_length_exceeded")

    def test_what_has_too_many_tokens(self):
        """They are found by the threads that decode media, not by the model's."""
        for path, body in (("/v1/chat/completions", chat_body(LONG)), ("/v1/completions", {"prompt": LONG, "max_tokens": 1}),
                           ("/v1/score", {"queries": "red", "documents": [{"content": [{"type": "text", "text": LONG}]}]})):
            reply = self.refused(path, body, 400, "tokens of text, the context 3000")
            self.assertEqual(reply.json["error"]["code"], "context_length_exceeded")
        self.refused("/v1/chat/completions", chat_body(LONG, stream=True), 400, "tokens of text, the context 3000")
        with Server("-m", "tests/golden/models/gemma3", "--ctx", CONTEXT, "--slots", "1", "--chat", "tests/serve/templates/hermes.jinja") as begins:
            for server, first in (self.server, None), (begins, 2):  # as many as there are, with a begin token that the template does not write
                body = {"messages": [turn("user", LONG)]}
                told = server.post("/tokenize", body).json
                self.assertEqual(told["tokens"][0] if first else None, first)
                self.assertIn(f"has {told['count']} tokens of text", server.post("/v1/chat/completions", body).text)

    def test_long_but_not_in_the_prompt(self):
        """A variable that the template does not write."""
        short = self.server.chat("What moves?", max_tokens=4).json
        long = self.server.chat("What moves?", max_tokens=4, chat_template_kwargs={"unused": LONG + LONG}).json
        for key in "choices", "usage":
            self.assertEqual(long[key][0] if key == "choices" else long[key]["prompt_tokens"],
                             short[key][0] if key == "choices" else short[key]["prompt_tokens"])

    def test_reasoning_that_the_template_leaves_out(self):
        """Within an earlier turn's text, of more bytes than the context can hold."""
        with Server("--ctx", CONTEXT, "--slots", "1", "--chat", "tests/serve/templates/thinking.jinja") as server:
            said = []
            for thought in "so", LONG + LONG:
                messages = [turn("user", "x"), turn("assistant", f"<think>{thought}</think>y"), turn("user", "What moves?")]
                reply = server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 4, "temperature": 0})
                self.assertEqual(reply.status, 200, reply.text[:300])
                said.append((reply.json["choices"], reply.json["usage"]["prompt_tokens"]))
            self.assertEqual(said[1], said[0])

    def test_tokens_that_are_told(self):
        for text, names in ('a "b"\n' * 9, True), (LONG, False):
            reply = self.server.post("/tokenize", {"prompt": text, "return_token_strs": names}).json
            self.assertEqual((len(reply["tokens"]), reply["max_model_len"]), (reply["count"], CONTEXT))
            self.assertEqual(reply["token_strs"] and "".join(reply["token_strs"]), text if names else None)
        counted = self.server.post("/v1/messages/count_tokens", {"messages": [turn("user", LONG)]}).json["input_tokens"]
        self.assertEqual(counted, self.server.post("/tokenize", {"messages": [turn("user", LONG)]}).json["count"])
        self.assertGreater(counted, len(LONG))
        before = self.server.memory_kib()
        text = "a!b?" * (MIB + 1)
        for path, body in ("/tokenize", {"prompt": text, "return_token_strs": True}), ("/tokenize", {"messages": [turn("user", text)]}):
            self.refused(path, body, 413, "of at most 4194304 are told at a time")
        large = b'{"messages": [{"role": "user", "content": "' + b"a" * (26 * MIB) + b'"}]}'
        for path in "/tokenize", "/detokenize", "/v1/messages/count_tokens":
            reply = self.server.request("POST", path, large)
            self.assertEqual(reply.status, 413, reply.text[:300])
            self.assertIn("the body has", reply.text)
        self.assertLess(self.server.memory_kib() - before, 100 << 10)

    def test_texts_that_hold_trees(self):
        """A string of the body takes its bytes; parsed it would take a hundred times as many."""
        before, tree = self.server.memory_kib(), "[" + "{}," * (MIB // 3) + "{}]"
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": tree}}
        messages = [turn("user", "x"), turn("assistant", None, tool_calls=[call]), turn("tool", "x", tool_call_id="c")]
        self.refused("/v1/chat/completions", {"messages": messages}, 413, "'messages[1].tool_calls': the arguments have too many values")
        for field in "guided_json", "json_schema":
            self.refused("/v1/chat/completions", chat_body("x", **{field: tree}), 413, f"'{field}' has too many values")
        item = {"type": "function_call", "call_id": "c", "name": "f", "arguments": tree}
        self.refused("/v1/responses", {"input": [turn("user", "x"), item]}, 413, "the arguments have too many values")
        self.assertLess(self.server.memory_kib() - before, 50 << 10)

    def test_trees_of_all_calls(self):
        """The bound is the request's: of these texts three fit. They take of the room for bodies, too."""
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "[" + "{}," * 50000 + "{}]"}}
        messages = [turn("user", "x")] + [turn("assistant", None, tool_calls=[call]), turn("tool", "x", tool_call_id="c")] * 4
        self.refused("/v1/chat/completions", {"messages": messages}, 413, "'messages[7].tool_calls': the arguments have too many values")
        with Server("--slots", "1", "--body-mib", "1", "--bodies-mib", "16") as small:
            reply = small.post("/v1/chat/completions", {"messages": messages[:3]})
            self.assertEqual((reply.status, reply.json["error"]["message"]), (413, "the calls' arguments take more memory than all requests may"))


if __name__ == "__main__":
    main()
