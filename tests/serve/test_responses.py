"""OpenAI's /v1/responses: items in, items and numbered events out; as the `openai` package parses them, where it is installed."""
import json
import os
import unittest

from server import Case, Server, data_uri, is_video, main, questions, sample

try:
    import openai
    from openai.types.responses import Response, ResponseStreamEvent
    import pydantic
except ImportError:
    openai = None

TEMPLATE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "templates", "hermes.jinja")
LOOK = {"type": "function", "name": "look", "description": "Looks.", "strict": True, "parameters": {
    "type": "object", "properties": {"far": {"type": "boolean"}}, "required": ["far"], "additionalProperties": False}}
SILENT = {"chat_template_kwargs": {"enable_thinking": False}}
SHOWN = {"choice": ['<tool_call>\n{"name": "look", "arguments": {"far": true}}\n</tool_call>']}
THOUGHT = {"choice": ["<think>\nit is far\n</think>\n\nyes, far"]}


def read(reply):
    """The events of a stream; each has its name twice, and they are numbered."""
    events = []
    for block in reply.split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if not lines:
            continue
        assert len(lines) == 2 and lines[0].startswith("event: ") and lines[1].startswith("data: "), block
        event = json.loads(lines[1][6:])
        assert event["type"] == lines[0][7:], block
        events.append(event)
    return events


def build(events):
    """The output that a stream's deltas add up to, by the order that the API has."""
    output, opened = [], None
    for event in events:
        kind = event["type"].removeprefix("response.")
        if kind == "output_item.added":
            assert opened is None and event["output_index"] == len(output)
            opened = event["item"]
            output.append(opened)
        elif kind == "content_part.added":
            assert event["item_id"] == opened["id"] and event["content_index"] == len(opened["content"])
            opened["content"].append(event["part"])
        elif kind in ("output_text.delta", "reasoning_text.delta"):
            assert event["item_id"] == opened["id"]
            opened["content"][event["content_index"]]["text"] += event["delta"]
        elif kind in ("output_text.done", "reasoning_text.done"):
            assert event["text"] == opened["content"][event["content_index"]]["text"]
        elif kind == "content_part.done":
            opened["content"][event["content_index"]] = event["part"]
        elif kind == "function_call_arguments.delta":
            opened["arguments"] += event["delta"]
        elif kind == "function_call_arguments.done":
            assert event["arguments"] == opened["arguments"]
        elif kind == "output_item.done":
            output[-1], opened = event["item"], None
    assert opened is None
    return output


def plain(output):
    """Items without what differs from one request to the next."""
    return [{k: v for k, v in item.items() if k not in ("id", "call_id")} for item in output]


class Responses(Case):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--slots", "2")
        cls.tools = Server("--slots", "1", "--chat", TEMPLATE)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)
        cls.tools.__exit__(None, None, None)

    def ask(self, server, **body):
        """Whole and streamed, which are to be the same."""
        reply = server.post("/v1/responses", {"temperature": 0, **body})
        self.assertEqual(reply.status, 200, reply.text)
        whole = reply.json
        events = read(server.post("/v1/responses", {"temperature": 0, "stream": True, **body}).text)
        self.assertEqual([e["sequence_number"] for e in events], list(range(len(events))))
        self.assertEqual([e["type"] for e in events[:2]], ["response.created", "response.in_progress"])
        self.assertEqual((events[0]["response"]["status"], events[0]["response"]["output"]), ("in_progress", []))
        last = events[-1]
        self.assertEqual(last["type"], "response." + whole["status"])
        self.assertEqual(build(events), last["response"]["output"])
        self.assertEqual(plain(last["response"]["output"]), plain(whole["output"]))
        self.assertEqual(last["response"]["usage"]["output_tokens"], whole["usage"]["output_tokens"])
        if openai:
            Response.model_validate(whole)
            for event in events:
                pydantic.TypeAdapter(ResponseStreamEvent).validate_python(event)
        return whole

    def refuse(self, param, server=None, status=400, **body):
        reply = (server or self.server).post("/v1/responses", {"input": "x", "max_output_tokens": 1, **body})
        self.assertEqual((reply.status, reply.json["error"]["param"]), (status, param), (body, reply.text))
        self.assertNotIn("\n", reply.json["error"]["message"])
        return reply.json["error"]

    def test_text(self):
        whole = self.ask(self.server, input="Hello", max_output_tokens=4, metadata={"a": "b"}, store=True)
        self.assertEqual((whole["object"], whole["id"][:5], whole["store"], whole["metadata"]), ("response", "resp_", False, {"a": "b"}))
        usage = whole["usage"]
        self.assertEqual(usage["total_tokens"], usage["input_tokens"] + usage["output_tokens"])
        chat = self.server.chat("Hello", max_tokens=4).json
        self.assertEqual(whole["output"][0]["content"][0]["text"], chat["choices"][0]["message"]["content"])
        self.assertEqual(usage["input_tokens"], chat["usage"]["prompt_tokens"])
        items = self.ask(self.server, input=[{"role": "user", "content": [{"type": "input_text", "text": "Hello"}]}], max_output_tokens=4)
        self.assertEqual(plain(items["output"]), plain(whole["output"]))

    def test_pictures_and_videos(self):
        for video in False, True:
            row = sample(video=video)
            part = {"type": "input_video", "video_url": data_uri(row["file"])} if video else \
                   {"type": "input_image", "image_url": data_uri(row["file"]), "detail": "auto"}
            whole = self.ask(self.server, input=[{"type": "message", "role": "user", "content": [part, {"type": "input_text", "text": row["question"]}]}])
            self.assertEqual(whole["output"][0]["content"][0]["text"], row["answer"])
            self.assertEqual(whole["status"], "completed")
            self.assertGreater(whole["usage"]["visual_tokens"], 0)

    def test_a_cut_answer(self):
        row = next(r for r in questions() if not is_video(r["file"]) and r["question_type"] == "caption")
        part = {"type": "input_image", "image_url": data_uri(row["file"])}
        whole = self.ask(self.server, max_output_tokens=2, input=[{"role": "user", "content": [part, {"type": "input_text", "text": row["question"]}]}])
        self.assertEqual((whole["status"], whole["incomplete_details"]), ("incomplete", {"reason": "max_output_tokens"}))
        self.assertEqual(whole["output"][-1]["status"], "incomplete")

    def test_logprobs(self):
        body = {"input": "Hello", "max_output_tokens": 4, "allowed_token_ids": [300, 301, 302], "temperature": 1, "seed": 1}
        whole = self.ask(self.server, include=["message.output_text.logprobs"], top_logprobs=2, **body)
        part = whole["output"][0]["content"][0]
        self.assertEqual(("".join(e["token"] for e in part["logprobs"]).strip(), len(part["logprobs"])), (part["text"].strip(), 4))
        self.assertTrue(all(len(e["top_logprobs"]) == 2 for e in part["logprobs"]))
        self.assertNotIn("logprobs", self.ask(self.server, **body)["output"][0]["content"][0])

    def test_formats(self):
        schema = {"type": "object", "properties": {"far": {"type": "boolean"}}, "required": ["far"], "additionalProperties": False}
        text = {"format": {"type": "json_schema", "name": "sight", "strict": True, "schema": schema}}
        whole = self.ask(self.server, input="Hello", text=text, max_output_tokens=100)
        self.assertEqual(set(json.loads(whole["output"][0]["content"][0]["text"])), {"far"})
        self.assertEqual(whole["text"], text)
        whole = self.ask(self.server, input="Hello", text={"format": {"type": "json_object"}, "verbosity": "medium"}, max_output_tokens=60, seed=1)
        self.assertTrue(whole["output"][0]["content"][0]["text"].lstrip().startswith("{"))
        self.ask(self.server, input="Hello", text={"format": {"type": "text"}}, max_output_tokens=2)

    def test_calls_and_reasoning(self):
        whole = self.ask(self.tools, input="Look.", tools=[LOOK], structured_outputs=SHOWN, **SILENT)
        item = whole["output"][0]
        self.assertEqual((len(whole["output"]), item["type"], item["name"], json.loads(item["arguments"])), (1, "function_call", "look", {"far": True}))
        self.assertEqual((whole["tools"], whole["tool_choice"]), ([LOOK], "auto"))
        named = {"type": "function", "name": "look"}
        whole = self.ask(self.tools, input="Look.", tools=[LOOK], tool_choice=named, seed=1, max_output_tokens=200, parallel_tool_calls=False, **SILENT)
        self.assertEqual((whole["tool_choice"], whole["parallel_tool_calls"], whole["output"][0]["name"]), (named, False, "look"))
        whole = self.ask(self.tools, input="Look.", structured_outputs=THOUGHT, **SILENT)
        self.assertEqual([i["type"] for i in whole["output"]], ["reasoning", "message"])
        self.assertEqual(whole["output"][0]["content"][0], {"type": "reasoning_text", "text": "it is far"})
        self.assertEqual(whole["output"][1]["content"][0]["text"], "yes, far")
        self.assertGreater(whole["usage"]["output_tokens_details"]["reasoning_tokens"], 0)

    def test_turns(self):
        """What came out goes in again, as the chat that it stands for."""
        first = self.ask(self.tools, input="Look.", tools=[LOOK], structured_outputs=SHOWN, **SILENT)
        call = first["output"][0]
        items = [{"role": "user", "content": "Look."}, *first["output"], {"type": "function_call_output", "call_id": call["call_id"], "output": "a star"},
                 {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
                 {"type": "message", "role": "assistant", "id": "m", "status": "completed",
                  "content": [{"type": "output_text", "text": "A star.", "annotations": []}]},
                 {"role": "user", "content": "Far?"}]
        whole = self.ask(self.tools, input=items, instructions="Be short.", tools=[LOOK], max_output_tokens=2)
        self.assertEqual(whole["instructions"], "Be short.")
        function = {"name": "look", "description": "Looks.", "parameters": LOOK["parameters"]}
        messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Look."},
                    {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "look", "arguments": call["arguments"]}}]},
                    {"role": "tool", "tool_call_id": "c", "content": "a star"},
                    {"role": "assistant", "reasoning_content": "hm", "content": "A star."}, {"role": "user", "content": "Far?"}]
        chat = self.tools.post("/v1/chat/completions", {"messages": messages, "tools": [{"type": "function", "function": function}], "max_tokens": 2})
        self.assertEqual(whole["usage"]["input_tokens"], chat.json["usage"]["prompt_tokens"])

    def test_reasoning_that_others_gave(self):
        """A summary stands for the content where that is not given; what is sealed is not left out in silence."""
        def tokens(*items):
            whole = self.ask(self.tools, input=[*items, {"role": "assistant", "content": "A."}, {"role": "user", "content": "Far?"}], max_output_tokens=1)
            return whole["usage"]["input_tokens"]
        told = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "so it is far"}]}
        short = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "so it is far"}], "encrypted_content": "gAAA"}
        both = {**short, "content": told["content"], "summary": [{"type": "summary_text", "text": "other words, and many more of them"}]}
        empty = {"type": "reasoning", "id": "rs_1", "summary": [], "content": None, "encrypted_content": ""}
        self.assertEqual([tokens(short), tokens(both), tokens(empty)], [tokens(told), tokens(told), tokens()])
        self.assertGreater(tokens(told), tokens())
        error = self.refuse("input[0]", input=[{"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}, {"role": "user", "content": "a"}])
        self.assertEqual(error["code"], "unsupported")
        self.refuse("input[0]", input=[{"type": "reasoning", "summary": "x"}])
        self.refuse("input[0]", input=[{"type": "reasoning", "summary": [{"type": "summary_text"}]}])

    def test_an_error_within_a_stream(self):
        body = {"input": "x", "max_output_tokens": 7900, "ignore_eos": True, "stream": True, "saccade": {"timeout": 3}}
        text = self.server.post("/v1/responses", body).text
        last = text.rstrip().split("\n\n")[-1].split("\n")
        self.assertEqual((last[0], json.loads(last[1][6:])["error"]["code"]), ("event: error", "timeout"))

    def test_what_is_refused(self):
        for name, value in {"previous_response_id": "resp_1", "conversation": "c", "prompt": {"id": "p"}, "max_tool_calls": 1, "messages": [],
                            "max_tokens": 3, "response_format": {}, "n": 2, "background": True, "truncation": "auto", "logprobs": True,
                            "include": ["file_search_call.results"], "reasoning": {"effort": "low"}, "tools": [{"type": "web_search"}],
                            "stream_options": {"include_usage": True}}.items():
            self.assertEqual(self.refuse(name, **{name: value})["code"], "unsupported")
        self.assertEqual(self.refuse("inptu", inptu="x")["code"], "unknown_field")
        for name, value in {"instructions": [], "max_output_tokens": 0, "text": [], "tool_choice": {"type": "x"}, "include": "x",
                            "top_logprobs": "x", "temperature": "hot", "top_p": 3, "tools": {}}.items():
            self.refuse(name, **{name: value})
        self.refuse("text.format", text={"format": {"type": "json_schema", "name": "a"}})
        for items, param in (([], "input"), (7, "input"), (None, "input"), ([7], "input[0]"), ([{"type": "item_reference", "id": "x"}], "input[0]"),
                             ([{"content": "x", "type": "message"}], "input[0]"), ([{"role": "user"}], "input[0].content"),
                             ([{"role": "user", "content": [7]}], "input[0].content[0]"),
                             ([{"role": "user", "content": [{"type": "input_text"}]}], "input[0].content[0]"),
                             ([{"role": "user", "content": [{"type": "input_file", "file_id": "x"}]}], "input[0].content[0]"),
                             ([{"role": "user", "content": [{"type": "input_image"}]}], "input[0].content[0]"),
                             ([{"type": "function_call", "name": "x"}], "input[0]"), ([{"type": "function_call_output", "output": "x"}], "input[0]"),
                             ([{"type": "reasoning", "content": 3}], "input[0]")):
            self.refuse(param, input=items)
        self.assertEqual(self.server.post("/v1/responses", {}).json["error"]["param"], "input")
        deep = '{"input": ' + "[" * 5000 + "]" * 5000 + "}"
        for body, status in ((b"", 400), (b"[]", 400), (b'{"input": "a', 400), (deep.encode(), 400), (b'{"input": [' + b"{}," * 400000 + b"{}]}", 413)):
            reply = self.server.request("POST", "/v1/responses", body, {"Content-Type": "application/json"})
            self.assertEqual(reply.status, status, reply.text[:200])
            self.assertIn("message", reply.json["error"])
        self.assertEqual(self.server.get("/v1/responses").status, 405)

    @unittest.skipUnless(openai, "the Python package openai is not installed")
    def test_the_package(self):
        class Sight(pydantic.BaseModel):
            far: bool
        with openai.OpenAI(base_url=self.tools.url + "/v1", api_key="x", max_retries=0) as client:
            reply = client.responses.create(model="demo", input="Hello", max_output_tokens=4, temperature=0)
            self.assertIsInstance(reply.output_text, str)
            parsed = client.responses.parse(model="demo", input="Hello", text_format=Sight, max_output_tokens=100, extra_body=SILENT)
            self.assertIsInstance(parsed.output_parsed.far, bool)
            with client.responses.stream(model="demo", input="Look.", tools=[LOOK], temperature=0,
                                         extra_body={"structured_outputs": SHOWN, **SILENT}) as stream:
                kinds = [event.type for event in stream]
                final = stream.get_final_response()
            self.assertEqual(json.loads(final.output[0].arguments), {"far": True})
            self.assertEqual((kinds[0], kinds[-1]), ("response.created", "response.completed"))
            with self.assertRaises(openai.BadRequestError) as caught:
                client.responses.create(model="demo", input="x", previous_response_id="resp_1")
            self.assertEqual(caught.exception.param, "previous_response_id")


if __name__ == "__main__":
    main()
