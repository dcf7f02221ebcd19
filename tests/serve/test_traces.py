"""--otlp-traces-endpoint: a span of each request for an OpenTelemetry collector, here a small HTTP server, by OTLP as JSON."""
import http.server
import json
import subprocess
import threading
import time

from server import SACCADE, Case, Server, ask, main, sample

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Collector:
    """What was posted, by path; replies with the statuses that it is told, the last one again and again."""

    def __init__(self, *statuses, reply=b"{}", hangs=False):
        self.posts, self.statuses, self.reply, self.release = [], list(statuses or [200]), reply, threading.Event()
        if not hangs:
            self.release.set()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.posts.append((self.path, self.headers["Content-Type"], json.loads(body)))
                outer.release.wait(60)
                status = outer.statuses.pop(0) if len(outer.statuses) > 1 else outer.statuses[0]
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", str(len(outer.reply)))
                self.end_headers()
                self.wfile.write(outer.reply)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1/traces"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release.set()
        self.server.shutdown()
        self.server.server_close()

    def spans(self):
        return [s for _, _, post in list(self.posts) for r in post["resourceSpans"] for scope in r["scopeSpans"] for s in scope["spans"]]


def attributes(span):
    def value(v):
        (kind, x), = v.items()
        if kind == "arrayValue":
            return [value(i) for i in x["values"]]
        return int(x) if kind == "intValue" else x
    names = [a["key"] for a in span["attributes"]]
    assert len(set(names)) == len(names), names
    return {a["key"]: value(a["value"]) for a in span["attributes"]}


class Traces(Case):
    def test_spans(self):
        row = sample(video=False)
        with Collector() as collector:
            with Server("--slots", "1", "--otlp-traces-endpoint", collector.url) as server:
                before = time.time()
                whole = server.chat(ask(row), max_tokens=5, top_p=0.5).json
                server.post("/v1/completions", {"prompt": ["secret words", "b"], "n": 2, "max_tokens": 2, "ignore_eos": True, "temperature": 0.25},
                            headers={"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "a=b,c=d"})
                server.chat("x", stream=True, max_tokens=1)
                server.post("/v1/embeddings", {"input": "x"})
                server.chat("x", top_p=7)
                server.post("/v1/messages", {"max_tokens": 7900, "ignore_eos": True, "messages": [{"role": "user", "content": "x"}], "saccade": {"timeout": 0.001}})
                for other in (lambda: server.get("/health"), lambda: server.get("/v1/models"), lambda: server.post("/tokenize", {"prompt": "a"}),
                              lambda: server.get("/nowhere")):
                    other()
                server.wait_for(lambda: server.metric("saccade:trace_spans_total") == 6, "no spans come")
                after = time.time()
                self.assertEqual(server.metric("saccade:trace_spans_dropped_total"), 0)
        self.assertTrue(all(p[:2] == ("/v1/traces", "application/json") for p in collector.posts))
        resource = collector.posts[0][2]["resourceSpans"][0]["resource"]
        self.assertIn({"key": "service.name", "value": {"stringValue": "saccade"}}, resource["attributes"])
        spans = collector.spans()
        first, second, stream, vector, wrong, late = spans
        for span in spans:
            self.assertEqual((span["name"], span["kind"]), ("llm_request", 2))
            self.assertRegex(span["traceId"], "^[0-9a-f]{32}$")
            self.assertRegex(span["spanId"], "^[0-9a-f]{16}$")
            start, end = int(span["startTimeUnixNano"]) / 1e9, int(span["endTimeUnixNano"]) / 1e9
            self.assertTrue(before - 1 < start <= end < after + 1, (before, start, end, after))
            self.assertEqual("parentSpanId" in span, span is second)
        self.assertEqual(len({s["spanId"] for s in spans}), 6)
        self.assertEqual(len({s["traceId"] for s in spans}), 6)
        self.assertEqual((second["traceId"], second["parentSpanId"], second["traceState"]), (TRACE, PARENT, "a=b,c=d"))
        a, usage = attributes(first), whole["usage"]
        self.assertEqual((a["gen_ai.request.id"], a["gen_ai.response.model"], a["gen_ai.request.max_tokens"], a["gen_ai.request.top_p"],
                          a["gen_ai.request.temperature"], a["gen_ai.request.n"]), (whole["id"], "demo", 5, 0.5, 0, 1))
        self.assertEqual((a["gen_ai.usage.prompt_tokens"], a["gen_ai.usage.completion_tokens"], a["saccade.media"]),
                         (usage["prompt_tokens"], usage["completion_tokens"], 1))
        self.assertEqual((a["http.route"], a["http.request.method"], a["http.response.status_code"]), ("/v1/chat/completions", "POST", 200))
        self.assertEqual(a["gen_ai.response.finish_reasons"], [whole["choices"][0]["finish_reason"]])
        self.assertTrue(0 <= a["gen_ai.latency.time_in_queue"] < a["gen_ai.latency.time_to_first_token"] <= a["gen_ai.latency.e2e"], a)
        self.assertAlmostEqual(a["gen_ai.latency.time_in_model_prefill"] + a["gen_ai.latency.time_in_model_decode"],
                               a["gen_ai.latency.time_in_model_inference"], delta=1e-6)
        a = attributes(second)
        self.assertEqual((a["gen_ai.request.n"], a["gen_ai.usage.completion_tokens"], a["gen_ai.request.temperature"]), (2, 8, 0.25))
        self.assertEqual((attributes(stream)["saccade.stream"], attributes(vector)["http.route"]), (True, "/v1/embeddings"))
        self.assertNotIn("gen_ai.latency.time_to_first_token", attributes(vector))
        a = attributes(wrong)
        self.assertEqual((a["http.response.status_code"], a["error.type"], wrong["status"]), (400, "invalid_request", {}))
        self.assertEqual((attributes(late)["error.type"], attributes(late)["http.response.status_code"]), ("timeout", 408))
        self.assertNotIn("secret words", json.dumps(collector.posts))

    def test_who_decides(self):
        """Whoever began the trace said whether it is recorded; a header that is malformed is none."""
        with Collector() as collector:
            with Server("--slots", "1", "--otlp-traces-endpoint", collector.url) as server:
                def ask_with(header):
                    server.post("/v1/completions", {"prompt": "x", "max_tokens": 1}, headers={"traceparent": header})
                ask_with(f"00-{TRACE}-{PARENT}-00")
                good = [f"00-{TRACE}-{PARENT}-03", f"42-{TRACE}-{PARENT}-01-more"]
                bad = ["", "x" * 54, f"00-{TRACE}-{PARENT}-01-more", f"ff-{TRACE}-{PARENT}-01", f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE}-{'0' * 16}-01",
                       f"00-{TRACE.upper()}-{PARENT}-01", f"00-{TRACE}-{PARENT}-0g", f"00-{TRACE}-{PARENT}", f"00-{TRACE}{PARENT}-01" + "0" * 400]
                for header in good + bad:
                    ask_with(header)
                server.wait_for(lambda: server.metric("saccade:trace_spans_total") == len(good + bad), "no spans come")
            spans = collector.spans()
        self.assertEqual([s.get("parentSpanId") for s in spans], [PARENT] * len(good) + [None] * len(bad))
        self.assertTrue(all((s["traceId"] == TRACE) == (i < len(good)) for i, s in enumerate(spans)))

    def test_a_collector_that_fails(self):
        """It is tried twice; what is lost is counted, told of once, and no request waits."""
        for statuses, n_posts, n_sent in (((503, 200), 2, 1), ((400,), 1, 0), ((500,), 1, 0), ((302,), 1, 0), ((503,), 2, 0)):
            with Collector(*statuses) as collector:
                server = Server("--slots", "1", "--otlp-traces-endpoint", collector.url, check=False)
                self.assertEqual(server.chat("x", max_tokens=1).status, 200)
                server.wait_for(lambda: server.metric("saccade:trace_spans_total") + server.metric("saccade:trace_spans_dropped_total") == 1, "no end")
                self.assertEqual((server.metric("saccade:trace_spans_total"), len(collector.posts)), (n_sent, n_posts))
                code, errors = server.stop()
                self.assertEqual((code, errors.count("--otlp-traces-endpoint")), (0, 1 - n_sent), errors)
        with Collector(reply=b'{"partialSuccess": {"rejectedSpans": "1"}}') as collector, Server("--slots", "1", "--otlp-traces-endpoint", collector.url) as server:
            server.chat("x", max_tokens=1)
            server.wait_for(lambda: server.metric("saccade:trace_spans_dropped_total") == 1, "what is rejected does not count")

    def test_a_collector_that_hangs(self):
        """Requests go on, more wait than fit the queue, and the server ends all the same."""
        with Collector(hangs=True) as collector:
            server = Server("--slots", "1", "--otlp-traces-endpoint", collector.url, check=False)
            server.chat("x", max_tokens=1)
            server.wait_for(lambda: collector.posts, "no spans come")
            for _ in range(2100):
                server.post("/v1/completions", {"prompt": 7})
            self.assertGreater(server.metric("saccade:trace_spans_dropped_total"), 40)
            start = time.monotonic()
            code, _ = server.stop()
            self.assertEqual(code, 0)
            self.assertLess(time.monotonic() - start, 30)

    def test_nobody_is_there(self):
        server = Server("--slots", "1", "--otlp-traces-endpoint", "http://127.0.0.1:9/v1/traces", check=False)
        for _ in range(3):
            self.assertEqual(server.chat("x", max_tokens=1).status, 200)
        server.wait_for(lambda: server.metric("saccade:trace_spans_dropped_total") == 3, "what is lost does not count")
        code, errors = server.stop()
        self.assertEqual((code, errors.count("--otlp-traces-endpoint")), (0, 1), errors)

    def test_spans_of_the_last_second(self):
        """They are posted before the server ends."""
        with Collector() as collector:
            with Server("--slots", "1", "--otlp-traces-endpoint", collector.url) as server:
                server.chat("x", max_tokens=1)
            self.assertEqual(len(collector.spans()), 1)

    def test_addresses(self):
        for url in "collector:4317", "ftp://collector/", "", "http://":
            end = subprocess.run([SACCADE, "serve", "--port", "0", "--otlp-traces-endpoint", url], capture_output=True, text=True, timeout=300, check=False)
            self.assertNotEqual(end.returncode, 0)
            self.assertIn("--otlp-traces-endpoint", end.stderr)


if __name__ == "__main__":
    main()
