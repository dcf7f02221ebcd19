"""Tool calls and reasoning: the forms that chat templates write, read from answers, whole and streamed."""
import json
import os
import unittest

from server import Case, Server, main, read_events

try:
    import openai
except ImportError:
    openai = None

TEMPLATES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "templates")
LOOK = {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {
    "type": "object", "properties": {"far": {"type": "boolean"}, "n": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["far", "n"],
    "additionalProperties": False}}}
SAY = {"type": "function", "function": {"name": "say", "parameters": {
    "type": "object", "properties": {"word": {"enum": ["ja", "nein"]}}, "required": ["word"]}}}
SILENT = {"chat_template_kwargs": {"enable_thinking": False}}  # the form's template closes the reasoning, so that none comes
NAMED = {"type": "function", "function": {"name": "look"}}


def server(template, *options):
    return Server("--chat", os.path.join(TEMPLATES, template + ".jinja"), *options)


def body(**more):
    return {"messages": [{"role": "user", "content": "What is this?"}], "max_tokens": 400, "temperature": 1.0, "seed": 1, **more}


def gather(events):
    """The message that a stream's deltas add up to, and why it ended."""
    text, reasoning, calls, reason = "", "", [], None
    for choice in (c for e in events for c in e["choices"]):
        delta = choice["delta"]
        text += delta.get("content") or ""
        reasoning += delta.get("reasoning_content") or ""
        assert delta.get("reasoning_content") == delta.get("reasoning")
        for call in delta.get("tool_calls", []):
            if "id" in call:
                assert call["index"] == len(calls) and call["function"]["arguments"] == ""
                calls.append({"id": call["id"], "name": call["function"]["name"], "arguments": ""})
            else:
                calls[call["index"]]["arguments"] += call["function"]["arguments"]
        reason = choice["finish_reason"] or reason
    return text, reasoning, calls, reason


def ask(test, served, **more):
    """Whole and streamed, which are to be the same: the message, its calls' names and arguments, and why it ended."""
    reply = served.post("/v1/chat/completions", body(**more))
    test.assertEqual(reply.status, 200, reply.text)
    choice = reply.json["choices"][0]
    message = choice["message"]
    reply = served.post("/v1/chat/completions", body(stream=True, **more))
    text, reasoning, calls, reason = gather(read_events(reply.text)[0])
    test.assertEqual((message["content"] or "", message.get("reasoning_content", ""), choice["finish_reason"]), (text, reasoning, reason))
    own = [(c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls", [])]
    test.assertEqual(own, [(c["name"], c["arguments"]) for c in calls])
    test.assertTrue(all(call["type"] == "function" for call in message.get("tool_calls", [])))
    return message, own, choice["finish_reason"]


class Forms(Case):
    """Each form, with the demo model, which calls nothing by itself: calls are required, or an answer is prescribed."""

    def ask(self, served, **more):
        return ask(self, served, **more)

    def check_arguments(self, name, text):
        value = json.loads(text)
        if name == "look":
            self.assertEqual(set(value), {"far", "n"})
            self.assertIs(type(value["far"]), bool)
            self.assertTrue(type(value["n"]) is int and 1 <= value["n"] <= 9)
        else:
            self.assertEqual(name, "say")
            self.assertIn(value["word"], ["ja", "nein"])

    def check_form(self, template, id_length, written):
        with server(template) as served:
            for seed in range(2):
                message, calls, reason = self.ask(served, tools=[LOOK, SAY], tool_choice="required", parallel_tool_calls=False, seed=seed, **SILENT)
                self.assertEqual((len(calls), reason, message["content"]), (1, "tool_calls", None))
                self.check_arguments(*calls[0])
                self.assertEqual(len(message["tool_calls"][0]["id"]), id_length)
                message, calls, reason = self.ask(served, tools=[LOOK, SAY], tool_choice=NAMED, seed=seed, max_tokens=200, **SILENT)
                self.assertTrue(calls and all(name == "look" for name, _ in calls))
                if reason == "tool_calls":
                    for call in calls:
                        self.check_arguments(*call)
            exact = {"choice": [written]}
            message, calls, reason = self.ask(served, tools=[LOOK, SAY], structured_outputs=exact, **SILENT)
            self.assertEqual((calls, reason, message["content"]),
                             ([("look", '{"far": true, "n": 3}'), ("say", '{"word": "ja"}')], "tool_calls", None))
            message, calls, reason = self.ask(served, tools=[LOOK, SAY], structured_outputs=exact, parallel_tool_calls=False, **SILENT)
            self.assertEqual((calls, reason), ([("look", '{"far": true, "n": 3}')], "tool_calls"))
            message, calls, reason = self.ask(served, tools=[LOOK], tool_choice="none", structured_outputs=exact, **SILENT)
            self.assertEqual((calls, reason, message["content"]), ([], "stop", written))
            message, calls, reason = self.ask(served, structured_outputs=exact, **SILENT)
            self.assertEqual((calls, message["content"]), ([], written))
            message, calls, reason = self.ask(served, tools=[LOOK, SAY], structured_outputs=exact, max_tokens=len(written) // 2, **SILENT)
            self.assertEqual(reason, "length")
            self.check_history(served, message)

    def check_history(self, served, message):
        """An answer with calls goes back as it came; arguments reach the template as an object, given as one or as its text."""
        sizes = []
        for arguments in '{"far": true, "n": 3}', {"far": True, "n": 3}:
            call = {"id": "abcdef012", "type": "function", "function": {"name": "look", "arguments": arguments}}
            turns = [{"role": "user", "content": "Look."}, {"role": "assistant", "content": None, "tool_calls": [call]},
                     {"role": "tool", "tool_call_id": "abcdef012", "content": "a star"}]
            reply = served.post("/v1/chat/completions", body(messages=turns, tools=[LOOK], max_tokens=2))
            self.assertEqual(reply.status, 200, reply.text)
            sizes.append(reply.json["usage"]["prompt_tokens"])
        self.assertEqual(sizes[0], sizes[1])
        call["function"]["arguments"] = "{"
        reply = served.post("/v1/chat/completions", body(messages=turns, tools=[LOOK]))
        self.assertEqual(reply.status, 400)
        self.assertIn("is not JSON", reply.json["error"]["message"])

    def test_hermes(self):
        self.check_form("hermes", 29, '<tool_call>\n{"name": "look", "arguments": {"far": true, "n": 3}}\n</tool_call>\n'
                                      '<tool_call>\n{"name": "say", "arguments": {"word": "ja"}}\n</tool_call>')

    def test_llama3(self):
        self.check_form("llama3", 29, '{"name": "look", "parameters": {"far": true, "n": 3}}; {"name": "say", "parameters": {"word": "ja"}}')

    def test_mistral(self):
        self.check_form("mistral", 9, '[TOOL_CALLS][{"name": "look", "arguments": {"far": true, "n": 3}}, {"name": "say", "arguments": {"word": "ja"}}]')

    def test_text_beside_calls(self):
        with server("hermes") as served:
            text = 'I look <b>.\n\n<tool_call>{"name": "look", "arguments": {}}</tool_call> So <tool_call>so</tool_call>'
            message, calls, reason = self.ask(served, tools=[LOOK], structured_outputs={"choice": [text]}, **SILENT)
            self.assertEqual((message["content"], calls, reason), ("I look <b>. So <tool_call>so</tool_call>", [("look", "{}")], "tool_calls"))

    def test_several_choices(self):
        with server("hermes") as served:
            more = {"tools": [SAY], "tool_choice": "required", "parallel_tool_calls": False, "n": 3, "seed": 2, **SILENT}
            reply = served.post("/v1/chat/completions", body(**more))
            calls = [c["message"]["tool_calls"] for c in reply.json["choices"]]
            self.assertEqual([len(c) for c in calls], [1, 1, 1])
            self.assertEqual(len({c[0]["id"] for c in calls}), 3)

    def test_refusals(self):
        with server("hermes") as served:
            for more, param in [({"tool_choice": "required"}, "tool_choice"), ({"tools": [LOOK], "tool_choice": "some"}, "tool_choice"),
                                ({"tools": [LOOK], "tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice"),
                                ({"tools": [{"type": "function"}]}, "tools"), ({"tools": [{"type": "web_search"}]}, "tools"),
                                ({"tools": [LOOK] * 129}, "tools"), ({"tools": [LOOK], "parallel_tool_calls": 1}, "parallel_tool_calls"),
                                ({"tools": [{"type": "function", "function": {"name": "x", "parameters": {"not": {}}}}], "tool_choice": "required"}, "tools"),
                                ({"tools": [LOOK], "tool_choice": "required", "response_format": {"type": "json_object"}}, "response_format")]:
                reply = served.post("/v1/chat/completions", body(**more))
                self.assertEqual((reply.status, reply.json["error"]["param"]), (400, param), reply.text)
        with server("hermes", "--tool-parser", "none") as served:
            reply = served.post("/v1/chat/completions", body(tools=[LOOK], tool_choice="required"))
            self.assertEqual(reply.status, 400)
            self.assertIn("--tool-parser", reply.json["error"]["message"])
            self.assertEqual(served.post("/v1/chat/completions", body(tools=[LOOK])).status, 200)
        with Server() as served:  # the demo's own template has no place for them
            reply = served.post("/v1/chat/completions", body(tools=[LOOK]))
            self.assertEqual((reply.status, reply.json["error"]["param"]), (400, "tools"))

    def test_another_parser(self):
        with server("hermes", "--tool-parser", "llama3_json", "--reasoning-parser", "none") as served:
            text = '<think>a</think>{"name": "look", "parameters": {}}'
            message, calls, _ = self.ask(served, tools=[LOOK], structured_outputs={"choice": [text]}, **SILENT)
            self.assertEqual((message["content"], calls), (text, []))
            _, calls, _ = self.ask(served, tools=[LOOK], structured_outputs={"choice": [text[16:]]}, **SILENT)
            self.assertEqual(calls, [("look", "{}")])

    def test_a_client_that_leaves_in_the_middle_of_a_call(self):
        with server("hermes") as served:
            text = {"type": "object", "properties": {"text": {"type": "string", "minLength": 100000}}, "required": ["text"]}
            tool = {"type": "function", "function": {"name": "write", "parameters": text}}
            for _ in range(3):
                request = json.dumps(body(tools=[tool], tool_choice="required", stream=True, max_tokens=4000, **SILENT))
                client = served.connect()
                client.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(request)}\r\n\r\n{request}".encode())
                got = b""
                while b'"arguments":"' not in got.replace(b'"arguments":""', b""):
                    piece = client.recv(65536)
                    self.assertTrue(piece, got[-300:])
                    got += piece
                client.close()
                served.wait_for(lambda: served.n_requests() == 0, "the call goes on without its client")
            _, calls, _ = self.ask(served, tools=[SAY], tool_choice="required", parallel_tool_calls=False, **SILENT)
            self.assertEqual(len(calls), 1)


class Reasoning(Case):
    """What a model thinks, apart from what it says."""

    def test_of_the_model_s_own(self):
        with server("hermes") as served:
            exact = {"choice": ["<think>\nhm, a star\n</think>\n\nA star."]}
            message, _, reason = ask(self, served, structured_outputs=exact, **SILENT)
            self.assertEqual((message["content"], message["reasoning_content"], message["reasoning"], reason), ("A star.", "hm, a star", "hm, a star", "stop"))
            reply = served.post("/v1/chat/completions", body(structured_outputs=exact, include_reasoning=False, **SILENT))
            self.assertEqual(reply.json["choices"][0]["message"], {"role": "assistant", "content": "A star.", "refusal": None})
            self.assertGreater(reply.json["usage"]["completion_tokens_details"]["reasoning_tokens"], 3)
            turns = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "A star.", "reasoning": "hm"}, {"role": "user", "content": "y"}]
            sizes = []
            for field in "reasoning", "reasoning_content", "other":
                turns[1] = {"role": "assistant", "content": "A star.", field: "hm"}
                sizes.append(served.post("/v1/chat/completions", body(messages=turns, max_tokens=1)).json["usage"]["prompt_tokens"])
            self.assertEqual(sizes[0], sizes[1])
            self.assertGreater(sizes[0], sizes[2])

    def test_that_the_prompt_opens(self):
        """A grammar holds behind the reasoning."""
        with server("thinking") as served:
            message, _, reason = ask(self, served, min_tokens=40, max_tokens=40)
            self.assertEqual((message["content"], reason), (None, "length"))
            self.assertGreater(len(message["reasoning_content"]), 20)
            held = {"structured_outputs": {"choice": ["yes", "no"]}, "max_tokens": 60}
            message, _, reason = ask(self, served, **held)
            self.assertEqual((message["content"], reason), (None, "length"))  # it has not come to its end


@unittest.skipUnless(openai, "the Python package openai is not installed")
class Client(Case):
    @classmethod
    def setUpClass(cls):
        cls.server = server("hermes")
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="x", max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.__exit__(None, None, None)

    def test_a_conversation(self):
        messages = [{"role": "user", "content": "Look."}]
        more = {"model": "demo", "tools": [LOOK], "tool_choice": "required", "parallel_tool_calls": False, "seed": 1, "extra_body": SILENT}
        reply = self.client.chat.completions.create(messages=messages, **more)
        [call] = reply.choices[0].message.tool_calls
        self.assertEqual((call.function.name, reply.choices[0].finish_reason), ("look", "tool_calls"))
        messages += [reply.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": json.dumps({"seen": "a star"})}]
        reply = self.client.chat.completions.create(messages=messages, **{**more, "tool_choice": "none"}, max_tokens=5)
        self.assertIsNone(reply.choices[0].message.tool_calls)

    def test_streamed(self):
        with self.client.chat.completions.stream(model="demo", messages=[{"role": "user", "content": "Say."}], tools=[SAY], seed=3,
                                                 tool_choice="required", parallel_tool_calls=False, extra_body=SILENT) as stream:
            for _ in stream:
                pass
            choice = stream.get_final_completion().choices[0]
        self.assertEqual(choice.finish_reason, "tool_calls")
        [call] = choice.message.tool_calls
        self.assertIn(json.loads(call.function.arguments)["word"], ["ja", "nein"])


if __name__ == "__main__":
    main()
