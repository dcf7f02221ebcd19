"""Answers over HTTP, as a program that speaks plain HTTP gets them."""
import json
import os

from server import Case, Server, ask, chat_body, data_uri, is_video, main, media_part, questions, read_events, sample


class Chat(Case):
    @classmethod
    def setUpClass(cls):
        cls.uploads = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"saccade-test-{os.getpid()}")
        cls.server = Server("--media-root", "samples", "--upload-dir", cls.uploads)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)
        for name in os.listdir(cls.uploads):
            os.unlink(os.path.join(cls.uploads, name))
        os.rmdir(cls.uploads)

    def test_pictures_by_data_uri(self):
        for row in [r for r in questions() if not is_video(r["file"])][:4]:
            with self.subTest(row["question"]):
                self.assertEqual(self.server.answer(ask(row)), row["answer"])

    def test_video_by_data_uri_and_by_file(self):
        row = sample(video=True)
        self.assertEqual(self.server.answer(ask(row)), row["answer"])
        url = "file://" + os.path.abspath(row["file"])
        self.assertEqual(self.server.answer(ask(row, url)), row["answer"])

    def test_uploaded_file(self):
        row = sample(video=True)
        with open(row["file"], "rb") as f:
            content = f.read()
        body = (b"--xyz\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nvision\r\n"
                b"--xyz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.mp4\"\r\n\r\n"
                + content + b"\r\n--xyz--\r\n")
        reply = self.server.request("POST", "/v1/files", body, {"Content-Type": "multipart/form-data; boundary=xyz"})
        self.assertEqual(reply.status, 200, reply.text)
        file = reply.json
        self.assertEqual((file["object"], file["bytes"], file["filename"], file["purpose"]),
                         ("file", len(content), "a.mp4", "vision"))
        self.assertEqual(self.server.answer(ask(row, file["id"])), row["answer"])
        self.assertIn(file["id"], [f["id"] for f in self.server.get("/v1/files").json["data"]])
        self.assertEqual(self.server.get("/v1/files/" + file["id"]).json["id"], file["id"])
        self.assertTrue(self.server.request("DELETE", "/v1/files/" + file["id"]).json["deleted"])
        self.assertEqual(self.server.chat(ask(row, file["id"])).status, 404)
        self.assertEqual(self.server.get("/v1/files/" + file["id"]).status, 404)

    def test_usage_and_shape(self):
        row = sample(video=True)
        reply = self.server.chat(ask(row)).json
        self.assertEqual(reply["object"], "chat.completion")
        self.assertTrue(reply["id"].startswith("chatcmpl-"))
        self.assertEqual(reply["choices"][0]["finish_reason"], "stop")
        usage = reply["usage"]
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"])
        self.assertGreater(usage["prompt_tokens"], usage["visual_tokens"])
        self.assertEqual(usage["completion_tokens_details"], {"reasoning_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0})
        self.assertEqual(usage["frames"], row["n_frames"])
        self.assertEqual(len(usage["media"][0]["timestamps"]), row["n_frames"])

    def test_stream(self):
        row = next(r for r in questions() if r["question_type"] == "caption")
        body = chat_body(ask(row), stream=True, stream_options={"include_usage": True})
        reply = self.server.post("/v1/chat/completions", body)
        self.assertEqual(reply.headers["Content-Type"], "text/event-stream; charset=utf-8")
        events, done = read_events(reply.text)
        self.assertTrue(done)
        self.assertEqual(events[0]["choices"][0]["delta"]["role"], "assistant")
        text = "".join(e["choices"][0]["delta"].get("content", "") for e in events if e["choices"])
        self.assertEqual(text, row["answer"])
        self.assertGreater(len(events), 5)
        self.assertEqual(events[-2]["choices"][0]["finish_reason"], "stop")
        self.assertEqual(events[-1]["choices"], [])
        self.assertGreater(events[-1]["usage"]["completion_tokens"], 5)
        self.assertEqual(len({e["id"] for e in events}), 1)

    def test_frames_of_a_video_are_chosen(self):
        row = sample(video=True)
        reply = self.server.chat(ask(row), media_io_kwargs={"video": {"num_frames": 4, "key_frames": True}}).json
        self.assertRegex(reply["usage"]["media"][0]["rule"], r": \d key frames$")
        reply = self.server.chat(ask(row), media_io_kwargs={"video": {"key_frames": 1}})
        self.assertEqual((reply.status, reply.json["error"]["param"]), (400, "key_frames"))
        reply = self.server.chat(ask(row), media_io_kwargs={"video": {"num_frames": 4}}).json
        self.assertEqual(reply["usage"]["frames"], 4)
        reply = self.server.chat(ask(row), mm_processor_kwargs={"max_pixels": 112 * 112 * 3}).json
        self.assertEqual(reply["usage"]["frames"], 3)

    def test_a_video_of_many_frames(self):
        """Its table of frames is long enough for libc to sort it in other memory, which asks the system for more."""
        row = next(r for r in questions() if r["n_frames"] == 256)
        reply = self.server.chat(ask(row), media_io_kwargs={"video": {"num_frames": 4}})
        self.assertEqual(reply.status, 200, reply.text)
        self.assertEqual(reply.json["usage"]["media"][0]["source_frames"], 256)

    def test_a_list_of_frames_with_times(self):
        rows = [r for r in questions() if not is_video(r["file"])][:3]
        urls = [data_uri(r["file"]) for r in rows]
        part = {"type": "video_frames", "video_frames": {"urls": urls, "timestamps": [0, 0.5, 2]}}
        reply = self.server.chat([part, {"type": "text", "text": "Does the number 12 appear?"}]).json
        self.assertEqual(reply["usage"]["media"][0]["timestamps"], [0, 0.5, 2])
        self.assertEqual(reply["choices"][0]["message"]["content"], "yes")
        joined = "data:video/jpeg;base64," + ",".join(u.split(",")[1] for u in urls)
        content = [media_part("x.mp4", joined), {"type": "text", "text": "Does the number 12 appear?"}]
        self.assertEqual(self.server.answer(content), "yes")

    def test_several_turns(self):
        row = sample(video=False)
        messages = [{"role": "user", "content": ask(row)}, {"role": "assistant", "content": row["answer"]},
                    {"role": "user", "content": "Does the number 12 appear?"}]
        body = {"model": "demo", "messages": messages, "temperature": 0}
        reply = self.server.post("/v1/chat/completions", body).json
        self.assertEqual(reply["choices"][0]["message"]["content"], "yes")

    def test_length_and_stop(self):
        row = next(r for r in questions() if r["question_type"] == "caption")
        reply = self.server.chat(ask(row), max_tokens=3).json
        self.assertEqual((reply["choices"][0]["finish_reason"], reply["usage"]["completion_tokens"]), ("length", 3))
        reply = self.server.chat(ask(row), stop=[" at the"]).json
        self.assertEqual(reply["choices"][0]["message"]["content"], row["answer"].split(" at the")[0])
        self.assertEqual(reply["choices"][0]["finish_reason"], "stop")

    def test_a_seed_repeats_an_answer(self):
        row = sample(video=False)
        answers = [self.server.answer(ask(row), temperature=2.0, seed=seed, max_tokens=12) for seed in (3, 3, 4, 5)]
        self.assertEqual(answers[0], answers[1])
        self.assertGreater(len(set(answers)), 1)

    def test_models_health_version(self):
        [model] = self.server.get("/v1/models").json["data"]
        self.assertEqual((model["id"], model["object"], model["max_model_len"]), ("demo", "model", 8192))
        self.assertEqual(self.server.get("/v1/models/demo").json["id"], "demo")
        self.assertEqual(self.server.get("/v1/models/other").status, 404)
        self.assertEqual(self.server.get("/health").json, {"status": "ok"})
        self.assertIn("version", self.server.get("/version").json)


class Refusals(Case):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--api-key", "one", "--api-key", "two", "--body-mib", "1")

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    def post(self, body, key="two", **headers):
        return self.server.post("/v1/chat/completions", body, headers={"Authorization": f"Bearer {key}", **headers})

    def assert_refused(self, reply, status, param=None, code=None):
        self.assertEqual(reply.status, status, reply.text)
        error = reply.json["error"]
        self.assertEqual(set(error), {"message", "type", "param", "code"})
        if param:
            self.assertEqual(error["param"], param)
        if code:
            self.assertEqual(error["code"], code)

    def test_keys(self):
        self.assertEqual(self.post(chat_body("Hello")).status, 200)
        self.assert_refused(self.post(chat_body("Hello"), key="three"), 401, code="invalid_api_key")
        self.assert_refused(self.server.post("/v1/chat/completions", chat_body("Hello")), 401)
        self.assert_refused(self.server.get("/v1/models"), 401)
        self.assertEqual(self.server.get("/health").status, 200)

    def test_wrong_values(self):
        for field, value in [("temperature", -1), ("temperature", "hot"), ("top_p", 0), ("max_tokens", 0),
                             ("max_tokens", 1.5), ("n", 0), ("n", 17), ("best_of", 2), ("stop", ""), ("stop", 3), ("stream", "yes"),
                             ("messages", []), ("messages", "Hello"), ("top_logprobs", 2), ("seed", "x"),
                             ("response_format", "json"), ("stop", ["a"] * 17)]:
            with self.subTest(f"{field}={value!r}"):
                self.assert_refused(self.post({**chat_body("Hello"), field: value}), 400, param=field)

    def test_wrong_messages(self):
        for content in [3, [], [{"type": "audio"}], [{"text": "x"}], [{"type": "image_url", "image_url": {}}],
                        [{"type": "image_url", "image_url": {"url": "data:image/png;base64,***"}}],
                        [{"type": "image_url", "image_url": {"url": "data:image/png,xyz"}}],
                        [{"type": "image_url", "image_url": {"url": "gopher://x/"}}],
                        [{"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}}]]:
            with self.subTest(json.dumps(content)[:60]):
                self.assert_refused(self.post(chat_body(content)), 400)
        self.assert_refused(self.post({"messages": [{"role": "wizard", "content": "x"}]}), 400)
        self.assert_refused(self.post({"messages": [{"role": "<|end|>", "content": "x"}]}), 400)
        said = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
        self.assert_refused(self.post({"messages": said}), 400, param="messages")
        self.assertEqual(self.post({"messages": said, "continue_final_message": True, "max_tokens": 2}).status, 200)
        self.assertEqual(self.post({"messages": said, "add_generation_prompt": False, "max_tokens": 2}).status, 200)

    def test_templates(self):
        """What a chat template is told: taken, or refused by name."""
        tools = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
        for fields in [{"tools": [], "tool_choice": "none"}, {"documents": [{"text": "x"}]},
                       {"chat_template_kwargs": {"enable_thinking": False}}, {"saccade": {"parse_special": True}}]:
            with self.subTest(json.dumps(fields)):
                self.assertEqual(self.post({**chat_body("x"), **fields, "max_tokens": 2}).status, 200)
        for field, value in [("tools", {}), ("tools", [1]), ("tools", tools), ("documents", "x"), ("chat_template_kwargs", []), ("tool_choice", "required"),
                             ("tool_choice", {"type": "function"}), ("chat_template", "x"), ("functions", []), ("add_generation_prompt", 1)]:
            with self.subTest(f"{field}={value!r}"):
                self.assert_refused(self.post({**chat_body("x"), field: value}), 400, param=field)
        self.assert_refused(self.post({**chat_body("x"), "chat_template_kwargs": {"messages": []}}), 400)
        self.assert_refused(self.post({**chat_body("x"), "continue_final_message": True, "add_generation_prompt": True}), 400)
        call = {"role": "assistant", "content": "I look.", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}]}
        turns = [{"role": "user", "content": "x"}, call, {"role": "tool", "content": "seen", "tool_call_id": "a"}]
        self.assertEqual(self.post({"messages": turns, "max_tokens": 2}).status, 200)
        self.assert_refused(self.post({"messages": [{"role": "user", "content": "x"}], "model": "other"}), 404,
                            code="model_not_found")

    def test_what_is_off(self):
        for url in "file:///etc/passwd", "http://127.0.0.1/x.png":
            content = [{"type": "image_url", "image_url": {"url": url}}]
            self.assert_refused(self.post(chat_body(content)), 403)

    def test_no_question(self):
        for content in "", " \n", [{"type": "text", "text": ""}]:
            reply = self.post(chat_body(content))
            self.assert_refused(reply, 400)
            self.assertIn("no question", reply.json["error"]["message"])

    def test_bodies(self):
        headers = {"Authorization": "Bearer one"}
        for body in "", "{", "[]", "{\"a\":1,\"a\":2}", "\xff", "{\"model\": \"\\ud800\"}":
            reply = self.server.request("POST", "/v1/chat/completions", body.encode("latin-1"), headers)
            self.assert_refused(reply, 400, code="invalid_json")
            self.assertEqual(reply.json["error"]["message"] == "the body is empty", body == "")
        reply = self.server.request("POST", "/v1/chat/completions", b"x" * (1 << 20) + b"y", headers)
        self.assert_refused(reply, 413)

    def test_paths(self):
        headers = {"Authorization": "Bearer one"}
        self.assert_refused(self.server.get("/v1/nothing", headers=headers), 404)
        self.assert_refused(self.server.get("/v1/chat/completions", headers=headers), 405)
        self.assert_refused(self.server.request("POST", "/v1/files", b"", headers), 403)

    def test_a_prompt_that_does_not_fit(self):
        self.assert_refused(self.post(chat_body("hello " * 20000)), 400, code="context_length_exceeded")

    def test_pages_of_other_sites(self):
        reply = self.post(chat_body("Hello"), Origin="http://evil.example")
        self.assert_refused(reply, 403)
        self.assertNotIn("Access-Control-Allow-Origin", reply.headers)
        self.assertEqual(self.post(chat_body("Hello"), Origin=self.server.url).status, 200)

    def test_a_name_that_is_made_to_point_here(self):
        """Its pages look like the server's own: Origin and Host agree."""
        for host in "evil.example", "127.0.0.1.evil.example", "localhost.evil.example":
            host = f"{host}:{self.server.port}"
            reply = self.post(chat_body("Hello"), Host=host, Origin=f"http://{host}")
            self.assert_refused(reply, 403, code="host_not_allowed")
            self.assert_refused(self.server.get("/health", headers={"Host": host}), 403, code="host_not_allowed")
        for host in "localhost", "LOCALHOST", "127.0.0.1", "[::1]":
            for port in "", f":{self.server.port}":
                self.assertEqual(self.server.get("/health", headers={"Host": host + port}).status, 200, host)


if __name__ == "__main__":
    main()
