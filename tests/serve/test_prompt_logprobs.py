"""Log probabilities of a prompt: 'echo' with 'logprobs' of a text completion, as lm-eval's client asks for them."""
import json
import math
import threading

from server import Case, Server, chat_body, main, read_events

PROMPTS = ["Is the star red? The star is not", "How many circles are in the picture and what colour have they?"]


class PromptLogprobs(Case):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--slots", "2")

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    def complete(self, **more):
        reply = self.server.post("/v1/completions", {"temperature": 0, "ignore_eos": True, **more})
        self.assertEqual(reply.status, 200, reply.text)
        return reply.json

    def ids(self, text):
        return self.server.post("/tokenize", {"prompt": text}).json["tokens"]

    def test_they_are_those_of_steps(self):
        """Each token's is the one that the model gives it behind the tokens before it, asked one by one."""
        ids = self.ids(PROMPTS[0])
        lists = self.complete(prompt=ids, echo=True, logprobs=5, max_tokens=1)["choices"][0]["logprobs"]
        self.assertEqual([len(lists[k]) for k in ("tokens", "token_logprobs", "top_logprobs", "text_offset")], [len(ids) + 1] * 4)
        self.assertEqual((lists["token_logprobs"][0], lists["top_logprobs"][0]), (None, None))
        names = self.server.post("/tokenize", {"prompt": PROMPTS[0], "return_token_strs": True}).json["token_strs"]
        self.assertEqual(lists["tokens"][:-1], names)
        for i in range(1, len(ids)):
            alone = self.complete(prompt=ids[:i], logprobs=20, max_tokens=1)["choices"][0]["logprobs"]
            likeliest = alone["tokens"][0]
            top = lists["top_logprobs"][i]
            self.assertAlmostEqual(top[likeliest], alone["token_logprobs"][0], delta=2e-3)
            self.assertEqual(max(top.values()), top[likeliest])
            self.assertTrue(5 <= len(top) <= 6 and lists["tokens"][i] in top, top)
            self.assertEqual(top[lists["tokens"][i]], lists["token_logprobs"][i])
            if lists["tokens"][i] in alone["top_logprobs"][0]:
                self.assertAlmostEqual(lists["token_logprobs"][i], alone["top_logprobs"][0][lists["tokens"][i]], delta=2e-3)
            self.assertLessEqual(sum(map(math.exp, top.values())), 1.001)

    def test_as_lm_eval_asks(self):
        """The sum over the tokens behind the context, and whether each is the likeliest; without the answer's one token."""
        context, whole = self.ids("Is the star"), self.ids(PROMPTS[0])
        reply = self.complete(prompt=[whole, context], echo=True, logprobs=1, max_tokens=1, seed=1234)
        choices = sorted(reply["choices"], key=lambda c: c["index"])
        self.assertEqual(len(choices), 2)
        lists = choices[0]["logprobs"]
        values, tops = lists["token_logprobs"][len(context):-1], lists["top_logprobs"][len(context):-1]
        self.assertEqual(len(values), len(whole) - len(context))
        self.assertTrue(all(v <= max(t.values()) <= 0 for v, t in zip(values, tops)))
        self.assertLess(sum(values), 0)
        self.assertEqual(reply["usage"]["prompt_tokens"], len(whole) + len(context))

    def test_without_an_answer(self):
        for prompt in PROMPTS[0], self.ids(PROMPTS[0]), PROMPTS:
            whole = self.complete(prompt=prompt, echo=True, logprobs=2, max_tokens=1)["choices"]
            alone = self.complete(prompt=prompt, echo=True, logprobs=2, max_tokens=0, n=2)
            self.assertEqual(alone["usage"]["completion_tokens"], 0)
            self.assertEqual(len(alone["choices"]), 2 * len(whole))
            for i, choice in enumerate(alone["choices"]):
                self.assertEqual((choice["finish_reason"], choice["index"]), ("length", i))
                full = whole[i // 2]["logprobs"]
                self.assertEqual(choice["logprobs"], {k: v[:-1] for k, v in full.items()})
                self.assertTrue(whole[i // 2]["text"].startswith(choice["text"]))
        self.assertEqual(self.complete(prompt=PROMPTS[0], echo=True, max_tokens=0)["choices"][0]["text"], PROMPTS[0])

    def test_the_answer_is_the_same(self):
        for sampled in {}, {"temperature": 1.5, "seed": 4, "n": 3}:
            plain = self.complete(prompt=PROMPTS[1], max_tokens=8, logprobs=1, **sampled)
            scored = self.complete(prompt=PROMPTS[1], max_tokens=8, logprobs=1, echo=True, **sampled)
            for a, b in zip(plain["choices"], scored["choices"]):
                self.assertEqual(PROMPTS[1] + a["text"], b["text"])
                n = len(a["logprobs"]["tokens"])
                self.assertEqual(a["logprobs"]["tokens"], b["logprobs"]["tokens"][-n:])
            self.assertEqual(plain["usage"]["total_tokens"], scored["usage"]["total_tokens"])
            self.assertEqual(scored["usage"]["prompt_tokens_details"]["cached_tokens"], 0)

    def test_rows_of_a_scored_prompt_are_those_of_any(self):
        """So what comes behind them has the same bits, be it the answer or another prompt that begins so."""
        long = " ".join("three red owls and a blue mouse".split() * 8)
        asked = {"max_tokens": 4, "logprobs": 2, "ignore_eos": True}
        other = "zzz " * 30
        for body in {"prompt": long, **asked}, {"prompt": long + " moved", **asked}:
            self.complete(prompt=other, max_tokens=1)
            plain = self.complete(**body)["choices"][0]["logprobs"]
            self.complete(prompt=other, max_tokens=1)
            scored = self.complete(prompt=long, echo=True, **asked)["choices"][0]["logprobs"]
            behind = self.complete(**body)
            self.assertGreater(behind["usage"]["prompt_tokens_details"]["cached_tokens"], 64)
            self.assertEqual(behind["choices"][0]["logprobs"]["top_logprobs"], plain["top_logprobs"])
            if body["prompt"] == long:
                self.assertEqual(scored["top_logprobs"][-4:], plain["top_logprobs"])

    def test_stream(self):
        body = {"prompt": PROMPTS, "echo": True, "logprobs": 1, "max_tokens": 3, "temperature": 0}
        whole = self.complete(**body)["choices"]
        events, done = read_events(self.server.post("/v1/completions", {**body, "ignore_eos": True, "stream": True}).text)
        self.assertTrue(done)
        texts, tokens, offsets = ["", ""], [[], []], [[], []]
        for choice in (c for e in events for c in e["choices"]):
            texts[choice["index"]] += choice["text"]
            tokens[choice["index"]] += (choice["logprobs"] or {}).get("token_logprobs", [])
            offsets[choice["index"]] += (choice["logprobs"] or {}).get("text_offset", [])
        self.assertEqual(texts, [c["text"] for c in whole])
        self.assertEqual(tokens, [c["logprobs"]["token_logprobs"] for c in whole])
        self.assertEqual(offsets, [c["logprobs"]["text_offset"] for c in whole])

    def test_counts_of_each_chunk(self):
        """Of the choice's prompt, in those of its scores too."""
        alone = [len(self.ids(p)) for p in PROMPTS]
        for n in 0, 2:
            body = {"prompt": PROMPTS, "echo": True, "logprobs": 1, "max_tokens": n, "ignore_eos": True, "stream": True,
                    "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
            events, _ = read_events(self.server.post("/v1/completions", body).text)
            counts = [(e["choices"][0]["index"], e["usage"]["prompt_tokens"]) for e in events if e["choices"]]
            self.assertEqual(set(counts), set(enumerate(alone)))

    def test_a_long_stream(self):
        """In parts, as they come, of all choices: together they are the whole answer, which is put into words beside the steps of others."""
        words = " ".join(f"{i} stars" for i in range(400))
        body = {"prompt": [words, "a b c"], "echo": True, "logprobs": 5, "max_tokens": 2, "n": 2, "seed": 5, "temperature": 1}
        before = self.server.metric("saccade:long_answers_total")
        whole = self.complete(**body)["choices"]
        self.assertEqual(self.server.metric("saccade:long_answers_total"), before + 1)
        events, done = read_events(self.server.post("/v1/completions", {**body, "ignore_eos": True, "stream": True}).text)
        self.assertTrue(done)
        got = [{"text": "", "parts": 0, "lists": {k: [] for k in whole[0]["logprobs"]}} for _ in whole]
        for choice in (c for e in events for c in e["choices"]):
            to = got[choice["index"]]
            to["text"] += choice["text"]
            to["parts"] += 1
            for key, values in (choice["logprobs"] or {}).items():
                self.assertLessEqual(len(values), 256)
                to["lists"][key] += values
        self.assertEqual([g["text"] for g in got], [c["text"] for c in whole])
        self.assertEqual([g["lists"] for g in got], [c["logprobs"] for c in whole])
        self.assertGreater(got[0]["parts"], 5 + got[2]["parts"])

    def test_others_go_on(self):
        """Steps of an answer between the pieces of a prompt that is scored; counted, not timed."""
        with Server("--slots", "2", "--target-itl", "5") as server:
            body = json.dumps(chat_body("Hello", ignore_eos=True, max_tokens=7000)).encode()
            with server.connect() as c:
                c.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                server.wait_for(lambda: server.metric("saccade:decode_rows_total") > 2, "no answer begins")
                request = {"prompt": [50 + i % 300 for i in range(2048)], "echo": True, "logprobs": 1, "max_tokens": 0}
                scored = threading.Thread(target=server.post, args=("/v1/completions", request))
                scored.start()
                server.wait_for(lambda: server.metric("vllm:num_requests_running") == 2, "the prompt is not run")
                rows = server.metric("saccade:decode_rows_total")
                scored.join()
                self.assertGreater(server.metric("saccade:decode_rows_total") - rows, 5 * 2048 // 256)

    def test_offsets_are_of_characters(self):
        text = "é ä star ü"
        choice = self.complete(prompt=text, echo=True, logprobs=0, max_tokens=0)["choices"][0]
        lists = choice["logprobs"]
        self.assertTrue(all(0 <= o <= len(text) + 1 for o in lists["text_offset"]), lists)
        for token, at in zip(lists["tokens"], lists["text_offset"]):
            if token.isascii() and token.strip() and "<" not in token:
                self.assertIn(token.strip(), text[max(at - 1, 0):at + len(token) + 1])

    def test_what_is_refused(self):
        for body, param in (({"max_tokens": 0}, "max_tokens"), ({"max_tokens": -1, "echo": True}, "max_tokens"),
                            ({"echo": "yes"}, "echo"), ({"echo": True, "logprobs": 99}, "logprobs"),
                            ({"echo": True, "suffix": "x"}, "suffix")):
            reply = self.server.post("/v1/completions", {"prompt": "a", **body})
            self.assertEqual((reply.status, reply.json["error"]["param"]), (400, param), body)
        reply = self.server.post("/v1/completions", {"prompt": [5] * 9000, "echo": True, "logprobs": 1})
        self.assertEqual((reply.status, reply.json["error"]["code"]), (400, "context_length_exceeded"))
        several = {"prompt": [[5] * 100, [6] * 3100], "echo": True, "logprobs": 20, "n": 16, "max_tokens": 0}
        reply = self.server.post("/v1/completions", several)
        self.assertEqual((reply.status, "a request" in reply.json["error"]["message"]), (400, True), reply.text[:300])
        self.assertEqual(self.server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "max_tokens": 0}).status, 400)
        with Server("--slots", "1", "--prefill", "fastv") as packed:
            reply = packed.post("/v1/completions", {"prompt": [5] * 600, "echo": True, "logprobs": 1, "max_tokens": 1})
            self.assertEqual((reply.status, reply.json["error"]["code"]), (400, "unsupported"))


if __name__ == "__main__":
    main()
