"""What a stream tells of how far its request is, what layers kept, and the files of the page as the server gives them."""
import gzip
import http.client

from server import Case, Server, ask, chat_body, main, media_part, questions, read_events

VIDEO = next(r for r in questions() if r["n_frames"] == 64)


class Progress(Case):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--request-methods")

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    def stream(self, content, **own):
        reply = self.server.chat(content, stream=True, stream_options={"include_usage": True}, saccade=own)
        self.assertEqual(reply.status, 200, reply.text)
        events, done = read_events(reply.text)
        self.assertTrue(done)
        return events

    def test_stages(self):
        """In order, none behind the answer's beginning; frames as many as there are."""
        events = self.stream([media_part("samples/picture0000.png"), *ask(VIDEO)], progress=True)
        told = [e["saccade"]["progress"] for e in events if "progress" in e.get("saccade", {})]
        n = len(told)
        self.assertTrue(all("saccade" in e and e["choices"] == [] and e["usage"] is None for e in events[:n]), "progress comes first")
        stages = list(dict.fromkeys(t["stage"] for t in told))
        self.assertEqual(stages, ["queue", "decode", "vision", "prefill"])
        of_video = [t for t in told if t["stage"] == "decode" and t["medium"] == 1]
        self.assertEqual((of_video[0]["done"], of_video[-1]["done"]), (1, 64))
        self.assertEqual({t["total"] for t in of_video}, {64})
        self.assertEqual([t["medium"] for t in told if t["stage"] == "decode"][0], 0)
        for stage in stages[1:]:
            done = [t["done"] for t in told if t["stage"] == stage and t.get("medium", 1) == 1 and t["total"] != 1]
            self.assertEqual(done, sorted(done), stage)
        self.assertTrue(all(0 <= t["done"] <= t["total"] for t in told if t["stage"] != "queue"), told)
        text = "".join(c["delta"].get("content", "") for e in events for c in e["choices"])
        self.assertEqual(text, self.server.answer([media_part("samples/picture0000.png"), *ask(VIDEO)]))

    def test_refusals(self):
        """Where it cannot be told, it is refused; where nobody asks, nothing is told."""
        for more in {}, {"stream": False}:
            reply = self.server.chat("Hello", saccade={"progress": True}, **more)
            self.assertEqual((reply.status, reply.json["error"]["param"]), (400, "progress"))
        reply = self.server.post("/v1/responses", {"input": "Hello", "stream": True, "saccade": {"progress": True}})
        self.assertEqual(reply.status, 400)
        reply = self.server.chat("Hello", saccade={"place_layers": True})
        self.assertEqual((reply.status, reply.json["error"]["param"]), (400, "place_layers"))
        self.assertTrue(all(e["choices"] or e["usage"] for e in self.stream("Hello")))

    def test_failure_behind_progress(self):
        """A picture that cannot be decoded: the stream has begun, and ends with an event."""
        broken = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, {"type": "text", "text": "What?"}]
        reply = self.server.post("/v1/chat/completions", chat_body(broken, stream=True, saccade={"progress": True}))
        events, done = read_events(reply.text)
        self.assertEqual((reply.status, done), (200, False))
        self.assertIn("content[0]", events[-1]["error"]["message"])

    def test_layers(self):
        """Each layer's cells, and their share over all layers, tell the same."""
        content = [media_part("samples/picture0005.png"), {"type": "text", "text": "Describe the image."}]
        frames = self.server.chat(content, saccade={"places": True, "place_layers": True, "prefill": "zipvl:min=0,tau=0.8"}).json["saccade"]["frames"]
        self.assertEqual(len(frames), 1)
        kept, layers, n = frames[0]["kept"], frames[0]["layers"], len(frames[0]["kept"])
        bits = [[1] * n if text is None else [int(b) for b in f"{int(text, 16):0{4 * len(text)}b}"[:n]] for text in layers]
        self.assertTrue(any(text for text in layers), "no layer left anything out")
        for i in range(n):
            self.assertAlmostEqual(kept[i], sum(b[i] for b in bits) / len(bits), delta=0.002)
        dense = self.server.chat(content, saccade={"places": True, "place_layers": True}).json["saccade"]["frames"][0]
        self.assertEqual((set(dense["kept"]), set(dense["layers"])), ({1.0}, set()) if not dense["layers"] else ({1.0}, {None}))
        self.assertNotIn("layers", self.server.chat(content, saccade={"places": True}).json["saccade"]["frames"][0])

    def test_page(self):
        """All files of the page, small together, and what they may do."""
        n_sent = n_text = 0
        names = ["", *(f"page/{n}" for n in ("page.css", "page.js", "markdown.js", "overlay.js", "parts.js", "store.js", "stream.js",
                                             "picture0000.png", "picture0005.png", "drawn031_12.mp4"))]
        for name in names:
            plain = self.raw("/" + name, {})
            packed = self.raw("/" + name, {"Accept-Encoding": "br, gzip;q=0.5"})
            is_text = "." not in name or name.endswith(("css", "js"))
            self.assertEqual(packed[1].get("Content-Encoding"), "gzip" if is_text else None, name)
            self.assertEqual(gzip.decompress(packed[2]) if is_text else packed[2], plain[2], name)
            self.assertIsNone(self.raw("/" + name, {"Accept-Encoding": "gzip;q=0, identity"})[1].get("Content-Encoding"))
            policy = plain[1]["Content-Security-Policy"]
            self.assertIn("default-src 'none'; script-src 'self'; style-src 'self';", policy)
            self.assertNotIn("unsafe", policy)
            self.assertNotIn("http", policy)
            n_sent += len(packed[2])
            n_text += len(plain[2]) if is_text else 0
        print(f"the page: {n_sent} bytes sent with its examples, {n_text} of text before gzip")
        self.assertLess(n_sent, 60000)
        self.assertLess(n_text, 60000)
        self.assertEqual(self.raw("/page/none.js", {})[0], 404)
        self.assertEqual(self.raw("/page/../page.js", {})[0], 404)

    def raw(self, path, headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        connection.putrequest("GET", path, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        reply = connection.getresponse()
        data = reply.read()
        connection.close()
        return reply.status, reply.headers, data

    def test_what_a_page_is_told(self):
        own = self.server.get("/v1/models").json["data"][0]["saccade"]
        self.assertEqual((own["vision"], own["request_methods"]), (True, True))
        self.assertIn("zipvl", own["methods"]["prefill"]["names"])
        self.assertIn("int4", own["methods"]["kv"]["names"])


if __name__ == "__main__":
    main()
