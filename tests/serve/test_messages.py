"""Anthropic's /v1/messages: blocks in, blocks and events out; as the `anthropic` package parses them, where it is installed."""
import base64
import json
import mimetypes
import os
import unittest

from server import Case, Server, main, sample
from test_responses import SHOWN, SILENT, THOUGHT, read

try:
    import anthropic
    from anthropic.types import Message, RawMessageStreamEvent
    import pydantic
except ImportError:
    anthropic = None

TEMPLATE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "templates", "hermes.jinja")
LOOK = {"name": "look", "description": "Looks.", "input_schema": {
    "type": "object", "properties": {"far": {"type": "boolean"}}, "required": ["far"], "additionalProperties": False}}


def turn(content, role="user"):
    return {"role": role, "content": content}


def source(path):
    with open(path, "rb") as f:
        return {"type": "base64", "media_type": mimetypes.guess_type(path)[0], "data": base64.b64encode(f.read()).decode()}


def build(events):
    """The message that a stream's events add up to, by the order that the API has."""
    message = events[0]["message"]
    assert events[0]["type"] == "message_start" and events[-1]["type"] == "message_stop" and message["content"] == []
    opened, arguments = None, ""
    for event in events[1:-1]:
        if event["type"] == "content_block_start":
            assert opened is None and event["index"] == len(message["content"])
            opened, arguments = event["content_block"], ""
            message["content"].append(opened)
        elif event["type"] == "content_block_delta":
            assert event["index"] == len(message["content"]) - 1
            delta = event["delta"]
            if delta["type"] == "input_json_delta":
                arguments += delta["partial_json"]
            else:
                opened[delta["type"].removesuffix("_delta")] += delta[delta["type"].removesuffix("_delta")]
        elif event["type"] == "content_block_stop":
            if opened["type"] == "tool_use":
                opened["input"] = json.loads(arguments)
            opened = None
        else:
            assert event["type"] == "message_delta" and opened is None
            message.update(event["delta"])
            message["usage"].update(event["usage"])
    return message


def plain(message):
    """Without what differs from one request to the next."""
    content = [{k: v for k, v in block.items() if k != "id"} for block in message["content"]]
    usage = {k: v for k, v in message["usage"].items() if "input" not in k and k != "media"}
    return {**{k: v for k, v in message.items() if k != "id"}, "content": content, "usage": usage}


class Messages(Case):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--slots", "2", "--api-key", "secret")
        cls.tools = Server("--slots", "1", "--chat", TEMPLATE)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)
        cls.tools.__exit__(None, None, None)

    def post(self, server, body, path="/v1/messages"):
        return server.post(path, body, headers={"X-Api-Key": "secret", "Anthropic-Version": "2023-06-01"})

    def ask(self, server, messages, **body):
        """Whole and streamed, which are to be the same."""
        body = {"messages": messages, "max_tokens": 200, "temperature": 0, **body}
        reply = self.post(server, body)
        self.assertEqual(reply.status, 200, reply.text)
        whole = reply.json
        events = read(self.post(server, {**body, "stream": True}).text)
        usage = events[0]["message"]["usage"]
        n_input = usage["input_tokens"] + usage["cache_read_input_tokens"]
        self.assertEqual(n_input, whole["usage"]["input_tokens"] + whole["usage"]["cache_read_input_tokens"])
        if anthropic:
            Message.model_validate(whole)
            for event in events:
                pydantic.TypeAdapter(RawMessageStreamEvent).validate_python(event)
        self.assertEqual(plain(build(events)), plain(whole))
        return whole

    def refuse(self, server=None, status=400, kind="invalid_request_error", path="/v1/messages", **body):
        reply = self.post(server or self.server, {"messages": [turn("x")], "max_tokens": 1, **body}, path)
        self.assertEqual((reply.status, reply.json["type"], reply.json["error"]["type"]), (status, "error", kind), (body, reply.text))
        self.assertNotIn("\n", reply.json["error"]["message"])
        return reply.json["error"]["message"]

    def test_text(self):
        whole = self.ask(self.server, [turn("Hello")], max_tokens=4, metadata={"user_id": "a"})
        self.assertEqual((whole["type"], whole["role"], whole["id"][:4], whole["stop_sequence"]), ("message", "assistant", "msg_", None))
        blocks = self.ask(self.server, [turn([{"type": "text", "text": "Hello", "cache_control": {"type": "ephemeral"}}])], max_tokens=4)
        self.assertEqual(blocks["content"], whole["content"])
        with_system = [self.ask(self.tools, [turn("Hello")], system=s, max_tokens=4) for s in ("Be short.", [{"type": "text", "text": "Be short."}])]
        sizes = [m["usage"]["input_tokens"] + m["usage"]["cache_read_input_tokens"] for m in with_system]
        chat = self.tools.post("/v1/chat/completions", {"messages": [{"role": "system", "content": "Be short."}, turn("Hello")], "max_tokens": 1})
        self.assertEqual(sizes, [chat.json["usage"]["prompt_tokens"]] * 2)

    def test_pictures_and_videos(self):
        for kind, video in (("image", False), ("video", True)):
            row = sample(video=video)
            whole = self.ask(self.server, [turn([{"type": kind, "source": source(row["file"])}, {"type": "text", "text": row["question"]}])])
            self.assertEqual(whole["content"], [{"type": "text", "text": row["answer"]}])
            self.assertEqual(whole["stop_reason"], "end_turn")
            self.assertGreater(whole["usage"]["visual_tokens"], 0)
        for wrong in ({"type": "base64", "data": "x"}, {"type": "url"}, {"type": "ftp", "url": "x"}, 7, None):
            self.assertIn("messages[0].content[0]", self.refuse(messages=[turn([{"type": "image", "source": wrong}])]))
        self.refuse(messages=[turn([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "!!"}}])])
        self.refuse(status=403, kind="permission_error", messages=[turn([{"type": "image", "source": {"type": "url", "url": "http://a.invalid/x.png"}}])])

    def test_why_it_ends(self):
        prescribed = {"structured_outputs": {"choice": ["one two three"]}, **SILENT}
        whole = self.ask(self.tools, [turn("Count.")], **prescribed)
        self.assertEqual((whole["content"][0]["text"], whole["stop_reason"]), ("one two three", "end_turn"))
        whole = self.ask(self.tools, [turn("Count.")], stop_sequences=["xyz", "two"], **prescribed)
        self.assertEqual((whole["content"][0]["text"].strip(), whole["stop_reason"], whole["stop_sequence"]), ("one", "stop_sequence", "two"))
        whole = self.ask(self.tools, [turn("Count.")], max_tokens=2, **prescribed)
        self.assertEqual((whole["stop_reason"], whole["usage"]["output_tokens"]), ("max_tokens", 2))

    def test_tools_and_thinking(self):
        whole = self.ask(self.tools, [turn("Look.")], tools=[LOOK], structured_outputs=SHOWN, thinking={"type": "disabled"})
        block = whole["content"][0]
        self.assertEqual((len(whole["content"]), block["type"], block["name"], block["input"], whole["stop_reason"]), (1, "tool_use", "look", {"far": True}, "tool_use"))
        for choice in {"type": "any", "disable_parallel_tool_use": True}, {"type": "tool", "name": "look", "disable_parallel_tool_use": True}:
            whole = self.ask(self.tools, [turn("Look.")], tools=[LOOK], tool_choice=choice, **SILENT)
            self.assertEqual([b["name"] for b in whole["content"]], ["look"])
        whole = self.ask(self.tools, [turn("Look.")], tools=[LOOK], tool_choice={"type": "none"}, structured_outputs=SHOWN, **SILENT)
        self.assertEqual(whole["content"][0]["type"], "text")
        whole = self.ask(self.tools, [turn("Look.")], structured_outputs=THOUGHT, **SILENT)
        self.assertEqual([b["type"] for b in whole["content"]], ["thinking", "text"])
        self.assertEqual((whole["content"][0]["thinking"], whole["content"][1]["text"]), ("it is far", "yes, far"))
        whole = self.ask(self.tools, [turn("Look.")], structured_outputs=THOUGHT, thinking={"type": "disabled"})
        self.assertEqual([b["type"] for b in whole["content"]], ["text"])

    def test_turns(self):
        """What came out goes in again, as the chat that it stands for."""
        call = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"far": True}}
        messages = [turn("Look."), turn([{"type": "thinking", "thinking": "hm", "signature": ""}, {"type": "text", "text": "I look."}, call], "assistant"),
                    turn([{"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "a star"}], "is_error": False},
                          {"type": "text", "text": "Far?"}])]
        whole = self.ask(self.tools, messages, tools=[LOOK], max_tokens=2)
        function = {"name": "look", "parameters": LOOK["input_schema"], "description": "Looks."}
        chat = self.tools.post("/v1/chat/completions", {"max_tokens": 1, "tools": [{"type": "function", "function": function}], "messages": [
            turn("Look."), {"role": "assistant", "reasoning_content": "hm", "content": "I look.",
                            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "look", "arguments": {"far": True}}}]},
            {"role": "tool", "tool_call_id": "a", "content": "a star"}, turn("Far?")]})
        n = whole["usage"]["input_tokens"] + whole["usage"]["cache_read_input_tokens"]
        self.assertEqual(n, chat.json["usage"]["prompt_tokens"])
        counted = self.post(self.tools, {"messages": messages, "tools": [LOOK]}, "/v1/messages/count_tokens")
        self.assertEqual(counted.json, {"input_tokens": n})
        pieces = [{"type": "thinking", "thinking": part, "signature": ""} for part in ("h", "", "m")]
        split = [messages[0], turn([*pieces, *messages[1]["content"][1:]], "assistant"), messages[2]]
        counted = self.post(self.tools, {"messages": split, "tools": [LOOK]}, "/v1/messages/count_tokens")
        self.assertEqual(counted.json, {"input_tokens": n})
        for content in "", None, []:
            result = {"type": "tool_result", "tool_use_id": "toolu_1"}
            if content is not None:
                result["content"] = content
            self.ask(self.tools, [*messages[:2], turn([result])], tools=[LOOK], max_tokens=2)

    def test_what_is_said_besides(self):
        """Warnings, and which patches were looked at, whole and in a stream."""
        row = sample(video=False)
        with Server("--slots", "1", "--lenient-fields", "--prefill", "zipvl:min=0") as server:
            body = {"messages": [turn([{"type": "image", "source": source(row["file"])}, {"type": "text", "text": row["question"]}])],
                    "max_tokens": 3, "max_token": 3, "saccade": {"places": True}, "temperature": 0}
            whole = server.post("/v1/messages", body).json
            events = read(server.post("/v1/messages", {**body, "stream": True}).text)
        end = next(e for e in events if e["type"] == "message_delta")
        self.assertIn("'max_token'", whole["warnings"][0])
        self.assertTrue(whole["saccade"]["frames"])
        self.assertEqual((end["warnings"], len(end["saccade"]["frames"])), (whole["warnings"], len(whole["saccade"]["frames"])))

    def test_an_error_within_a_stream(self):
        """Its last event, in the API's own form."""
        body = {"messages": [turn("x")], "max_tokens": 7900, "ignore_eos": True, "stream": True, "saccade": {"timeout": 3}}
        events = read(self.post(self.server, body).text)
        self.assertEqual((events[0]["type"], events[-1]["type"], events[-1]["error"]["type"]), ("message_start", "error", "timeout_error"))

    def test_prefill(self):
        """The model goes on with a last message of its own."""
        messages = [turn("Hello"), turn("one two", "assistant")]
        whole = self.ask(self.tools, messages, max_tokens=3)
        chat = self.tools.post("/v1/chat/completions", {"messages": messages, "continue_final_message": True, "max_tokens": 3, "temperature": 0})
        self.assertEqual(whole["usage"]["input_tokens"] + whole["usage"]["cache_read_input_tokens"], chat.json["usage"]["prompt_tokens"])
        blocks = self.ask(self.tools, [messages[0], turn([{"type": "text", "text": "one two"}], "assistant")], max_tokens=3)
        self.assertEqual(blocks["content"], whole["content"])

    def test_what_is_refused(self):
        self.assertIn("'max_tokens' is missing", self.refuse(max_tokens=None))
        for name, value in {"container": "x", "mcp_servers": [], "context_management": {}, "stop": "x", "n": 2, "logprobs": True,
                            "response_format": {}, "max_token": 3, "stop_sequences": "x", "tools": {}, "tool_choice": {"type": "x"},
                            "thinking": {"type": "much"}, "output_config": {"effort": "low"}, "output_format": {"type": "x"},
                            "system": 7, "temperature": "hot", "top_k": "x", "max_tokens": 0, "messages": [], "top_p": 3}.items():
            self.assertIn(f"'{name}" if name not in ("output_format",) else "format", self.refuse(**{name: value}))
        for messages, place in (([7], "messages[0].role"), ([turn("x", "system")], "messages[0].role"), ([turn(None)], "messages[0].content"),
                                ([turn([])], "messages[0].content"), ([turn([7])], "messages[0].content[0]"),
                                ([turn([{"type": "text"}])], "messages[0].content[0]"), ([turn([{"type": "document"}])], "messages[0].content[0]"),
                                ([turn("x"), turn([{"type": "tool_use", "id": "a"}], "assistant")], "messages[1].content[0]"),
                                ([turn([{"type": "tool_result"}])], "messages[0].content[0]"),
                                ([turn([{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "tool_use"}]}])], "messages[0].content[0]")):
            self.assertIn(place, self.refuse(messages=messages))
        self.assertIn("tools[0]", self.refuse(tools=[{"name": "a"}]))
        self.assertIn("tools[0]", self.refuse(tools=[{"name": "a", "type": "bash_20250124"}]))
        self.refuse(path="/v1/messages/count_tokens", messages=[turn([{"type": "image", "source": source(sample(video=False)["file"])}])])
        self.refuse(status=404, kind="not_found_error", model="x")
        deep = '{"max_tokens": 1, "messages": ' + "[" * 5000 + "]" * 5000 + "}"
        for body, status in ((b"", 400), (b"[]", 400), (b'{"messages": "a', 400), (deep.encode(), 400), (b'{"messages": [' + b"{}," * 400000 + b"{}]}", 413)):
            for path in "/v1/messages", "/v1/messages/count_tokens":
                reply = self.server.request("POST", path, body, {"Content-Type": "application/json", "X-Api-Key": "secret"})
                self.assertEqual((reply.status, reply.json["type"]), (status, "error"), reply.text[:200])
        for headers, status in ({"Content-Encoding": "gzip"}, 415), ({"Transfer-Encoding": "gzip"}, 501), ({"A B": "c"}, 400):
            reply = self.server.request("POST", "/v1/messages", b"{}", {"X-Api-Key": "secret", **headers})
            self.assertEqual((reply.status, reply.json["type"]), (status, "error"), reply.text)
        for key in {"X-Api-Key": "wrong"}, {"Authorization": "Bearer wrong"}, {}:
            reply = self.server.post("/v1/messages", {"messages": [turn("x")], "max_tokens": 1}, headers=key)
            self.assertEqual((reply.status, reply.json["error"]["type"]), (401, "authentication_error"))

    @unittest.skipUnless(anthropic, "the Python package anthropic is not installed")
    def test_the_package(self):
        with anthropic.Anthropic(base_url=self.tools.url, api_key="x", max_retries=0) as client:
            reply = client.messages.create(model="demo", max_tokens=4, messages=[turn("Hello")])
            self.assertEqual(reply.stop_reason in ("end_turn", "max_tokens"), True)
            with client.messages.stream(model="demo", max_tokens=200, messages=[turn("Look.")], tools=[LOOK],
                                        extra_body={"structured_outputs": SHOWN, **SILENT}) as stream:
                kinds = [event.type for event in stream]
                final = stream.get_final_message()
            self.assertEqual((final.content[0].input, final.stop_reason), ({"far": True}, "tool_use"))
            self.assertEqual(final.usage.output_tokens > 5 and kinds[0] == "message_start", True)
            self.assertGreater(client.messages.count_tokens(model="demo", messages=[turn("Hello")]).input_tokens, 2)
            with self.assertRaises(anthropic.BadRequestError):
                client.messages.create(model="demo", max_tokens=4, messages=[{"role": "user", "content": []}])


if __name__ == "__main__":
    main()
