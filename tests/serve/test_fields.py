"""Fields that a request may have, and within them: none is dropped in silence."""
from server import Case, Server, ask, main, read_events, sample


class Fields(Case):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--slots", "1")

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    def test_no_field_is_dropped_in_silence(self):
        """Known ones that are not done here, by what they would ask for; typos; and what asks for nothing."""
        for path in "/v1/chat/completions", "/v1/completions":
            body = {"max_tokens": 1, **({"messages": [{"role": "user", "content": "x"}]} if "chat" in path else
                                        {"prompt": "x"})}
            for field, value in {
                    "guided_decoding_backend": "x", "structured_outputs": {"structural_tag": "a"}, "functions": [{}],
                    "suffix": "x", "bad_words": ["a"], "prompt_logprobs": 1, "truncate_prompt_tokens": 3,
                    "use_beam_search": True, "include_stop_str_in_output": True, "modalities": ["text", "audio"],
                    "reasoning_effort": "low", "skip_special_tokens": False}.items():
                reply = self.server.post(path, {**body, field: value})
                self.assertEqual((reply.status, reply.json["error"]["param"], reply.json["error"]["code"]),
                                 (400, field, "unsupported"))
            reply = self.server.post(path, {**body, "max_token": 3})
            self.assertEqual((reply.status, reply.json["error"]["param"], reply.json["error"]["code"]),
                             (400, "max_token", "unknown_field"))
            for field, key, value in (("stream_options", "stream_options.include_usag", {"include_usag": True}),
                                      ("media_io_kwargs", "media_io_kwargs.vide", {"vide": {}}),
                                      ("media_io_kwargs", "media_io_kwargs.video.num_frame", {"video": {"num_frame": 3}}),
                                      ("mm_processor_kwargs", "mm_processor_kwargs.min_pixels", {"min_pixels": 3}),
                                      ("response_format", "response_format.json_schema.schemas", {"json_schema": {"schemas": {}}}),
                                      ("saccade", "saccade.progres", {"progres": True})):
                reply = self.server.post(path, {**body, field: value})
                self.assertEqual((reply.status, reply.json["error"]["param"], reply.json["error"]["code"]), (400, key, "unknown_field"))
            padded = self.server.post(path, {**body, "stream": True, "stream_options": {"include_obfuscation": True}})
            self.assertEqual((padded.status, padded.json["error"]["code"]), (400, "unsupported"))
            nothing = {"stream_options": {"include_obfuscation": False, "other": None}, "user": "a", "metadata": {"a": "b"}, "store": False, "suffix": None,
                       "parallel_tool_calls": True, "modalities": ["text"], "max_token": None, "length_penalty": 1.0}
            reply = self.server.post(path, {**body, **nothing})
            self.assertEqual(reply.status, 200, reply.text)
            self.assertNotIn("warnings", reply.json)
            for given, wanted in ({"fps": 2, "do_sample_frames": True}, 200), ({"do_sample_frames": None}, 200), ({"do_sample_frames": False}, 400):
                reply = self.server.post(path, {**body, "mm_processor_kwargs": given})
                self.assertEqual(reply.status, wanted, reply.text)
            self.assertEqual((reply.json["error"]["param"], reply.json["error"]["code"]), ("mm_processor_kwargs.do_sample_frames", "unsupported"))

    def test_keys_of_parts(self):
        """Those of its type: a picture within a text would be dropped. What known clients send beside is taken."""
        url = ask(sample(video=False))[0]["image_url"]["url"]
        text, frames = {"type": "text", "text": "x"}, {"type": "video_frames", "video_frames": {"urls": [url]}}
        picture = {"type": "image_url", "image_url": {"url": url}}
        for part, key in (({**text, "txt": "y"}, "txt"), ({**text, "image_url": {"url": url}}, "image_url"), ({**text, "video_url": url}, "video_url"),
                          ({**picture, "text": "y"}, "text"), ({**picture, "image_url": {"url": url, "max_pixels": 9}}, "max_pixels"),
                          ({**picture, "image_url": {"url": url, "urls": [url]}}, "urls"), ({**picture, "image_url": {"url": url, "timestamps": [0]}}, "timestamps"),
                          ({"type": "video_url", "video_url": {"url": url, "urls": [url]}}, "urls"), ({**frames, "video_frames": {"urls": [url], "url": url}}, "url")):
            reply = self.server.chat([text, part], max_tokens=1)
            self.assertEqual((reply.status, reply.json["error"]["param"]), (400, "messages[0].content[1]." + key), reply.text)
        listed = {"type": "video_url", "video_url": {"url": "data:video/jpeg;base64," + url.split(",")[1], "timestamps": [0], "detail": "low"}}
        unset = {"text": None, "video_url": "", "cache_control": {"type": "ephemeral"}, "uuid": "u"}  # as rows of a table have them
        for part in {**picture, "image_url": {"url": url, "detail": "low"}, **unset}, {**picture, "image_url": url}, {**unset, **text, "image_url": None}, listed:
            reply = self.server.chat([text, part], max_tokens=1)
            self.assertEqual(reply.status, 200, reply.text)

    def test_schemas_have_a_type(self):
        """Where they have no effect they are refused."""
        schema = {"enum": ["a"]}
        for form in ({"type": "text", "schema": schema}, {"type": "text", "json_schema": {"schema": schema}}, {"json_schema": {"schema": schema}},
                     {"type": "json_object", "json_schema": {"schema": schema}}, {"type": "json_schema", "json_schema": {"schema": schema}, "schema": schema}):
            reply = self.server.chat("x", response_format=form, max_tokens=1)
            self.assertEqual((reply.status, reply.json["error"]["param"]), (400, "response_format"), reply.text)
        for form in {"type": "text", "schema": None}, {"type": "json_object", "schema": schema}, {"type": "json_schema", "json_schema": {"schema": schema}}:
            self.assertEqual(self.server.chat("x", response_format=form, max_tokens=1).status, 200)

    def test_what_is_passed_over_is_named(self):
        with Server("--slots", "1", "--lenient-fields") as lenient:
            reply = lenient.chat([{"type": "text", "text": "x", "txt": "y"}], max_tokens=1, saccade={"a": 1})
            self.assertEqual([w.split("'")[1] for w in reply.json["warnings"]], ["saccade.a", "messages[0].content[0].txt"])
            reply = lenient.chat("x", max_tokens=1, max_token=3)
            self.assertIn("'max_token'", reply.json["warnings"][0])
            events, _ = read_events(lenient.chat("x", max_tokens=1, max_token=3, stream=True).text)
            self.assertIn("'max_token'", events[-1]["warnings"][0])
            self.assertEqual(lenient.chat("x", suffix="a").status, 400)
            messages = [{"role": "user", "content": "x"}]
            for path, body in (("/tokenize", {"prompt": "x"}), ("/tokenize", {"messages": messages, "return_token_strs": True}), ("/detokenize", {"tokens": [5]}),
                               ("/v1/messages/count_tokens", {"messages": messages})):
                self.assertNotIn("warnings", lenient.post(path, body).json)
                self.assertEqual(lenient.post(path, {**body, "max_token": 3}).json["warnings"], reply.json["warnings"])


if __name__ == "__main__":
    main()
