"""--request-log: a line of JSON for each request, with what it took and none of its text; and the metrics that count the same."""
import json
import os
import re
import subprocess
import tempfile

from server import SACCADE, Case, Server, ask, main, sample


class RequestLog(Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "requests.jsonl")

    def tearDown(self):
        self.folder.cleanup()

    def lines(self):
        with open(self.path, encoding="utf-8") as f:
            return [json.loads(line) for line in f]

    def test_drafts(self):
        """What was guessed, in the usage of three APIs and by vLLM's names of metrics."""
        text, more = "hello " * 30, {"temperature": 0, "ignore_eos": True}
        with Server("--slots", "1", "--draft", "lookup") as server:
            def ask_for(path, **body):
                reply = server.post(path, {**body, **more})
                self.assertEqual(reply.status, 200, reply.text)
                return reply.json["usage"]
            chat = {"messages": [{"role": "user", "content": text}], "max_tokens": 60}
            several = ask_for("/v1/chat/completions", **chat, n=2)
            plain = ask_for("/v1/completions", prompt=text, max_tokens=60)
            response = ask_for("/v1/responses", input=text, max_output_tokens=60)
            reply = server.post("/v1/chat/completions", {**chat, **more, "stream": True, "stream_options": {"include_usage": True}})
            stream = json.loads(reply.text.strip().split("\n\n")[-2].removeprefix("data: "))["usage"]
            drafts, guessed, taken = (server.metric(f"vllm:spec_decode_num_{name}_total") for name in ("drafts", "draft_tokens", "accepted_tokens"))
            page = server.get("/metrics").text
        self.assertEqual((several["completion_tokens"], response["output_tokens"]), (120, 60))
        said = [u["completion_tokens_details"] for u in (several, plain, stream)] + [response["output_tokens_details"]]
        self.assertEqual(sum(d["accepted_prediction_tokens"] for d in said), taken)
        self.assertEqual(sum(d["accepted_prediction_tokens"] + d["rejected_prediction_tokens"] for d in said), guessed)
        self.assertTrue(all(d["accepted_prediction_tokens"] > 0 for d in said), said)
        self.assertEqual(said[0]["accepted_prediction_tokens"], 2 * said[2]["accepted_prediction_tokens"])
        self.assertTrue(taken / 7 <= drafts <= guessed, (drafts, guessed, taken))
        places = re.findall(r'vllm:spec_decode_num_accepted_tokens_per_pos_total{.*,position="(\d+)"} (\d+)', page)
        self.assertEqual([int(place) for place, _ in places], list(range(len(places))))
        each = [int(n) for _, n in places]
        self.assertEqual(sum(each), taken)
        self.assertEqual(each, sorted(each, reverse=True)) # a guess is looked at when all before it in the pass were right
        self.assertTrue(2 <= len(each) <= 7 and each[0] <= drafts and each[-1] > 0, (each, drafts))

    def test_lines(self):
        with open(self.path, "w", encoding="utf-8") as f:
            f.write('{"id": "of another run"}\n')
        row = sample(video=False)
        with Server("--slots", "1", "--api-key", "secret", "--request-log", self.path) as server:
            key = {"Authorization": "Bearer secret"}
            body = {"messages": [{"role": "user", "content": ask(row)}], "temperature": 0}
            whole = server.post("/v1/chat/completions", body, headers=key).json
            server.post("/v1/chat/completions", {**body, "stream": True, "max_tokens": 1}, headers=key)
            server.post("/v1/completions", {"prompt": ["a b c", "d"], "n": 2, "max_tokens": 2, "ignore_eos": True}, headers=key)
            server.post("/v1/chat/completions", {**body, "top_p": 7}, headers=key)
            server.post("/v1/messages", {"messages": [{"role": "hidden words", "content": "a"}], "max_tokens": 1}, headers=key)
            server.post("/v1/chat/completions", body)
            server.get("/nowhere/%22%0a%ff", headers=key)
            server.get("/v1/models", headers=key)
            server.request("OPTIONS", "/v1/models")
            server.post("/tokenize", {"prompt": "a b"}, headers=key)
        lines = self.lines()
        self.assertEqual(lines[0], {"id": "of another run"})
        first, stream, several, wrong, empty, stranger, nowhere, models, options, tokens = lines[1:]
        usage = whole["usage"]
        self.assertEqual((first["id"], first["model"], first["stream"], first["status"], first["media"]), (whole["id"], "demo", False, 200, 1))
        self.assertEqual((first["prompt_tokens"], first["completion_tokens"]), (usage["prompt_tokens"], usage["completion_tokens"]))
        self.assertEqual((first["method"], first["path"], first["client"], first["finish_reason"]),
                         ("POST", "/v1/chat/completions", "127.0.0.1", "stop"))
        self.assertTrue(0 <= first["queue_s"] < first["first_token_s"] <= first["total_s"], first)
        self.assertRegex(first["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertEqual((stream["stream"], stream["finish_reason"], stream["completion_tokens"]), (True, "length", 1))
        self.assertGreater(stream["cached_tokens"], 0)
        self.assertEqual((several["completion_tokens"], several["id"][:5]), (8, "cmpl-"))
        self.assertEqual((wrong["status"], wrong["error"]), (400, "invalid_request"))
        self.assertEqual((empty["status"], empty["path"]), (400, "/v1/messages"))
        self.assertEqual((stranger["status"], stranger["error"]), (401, "invalid_api_key"))
        self.assertEqual((nowhere["status"], nowhere["path"]), (404, None))
        self.assertEqual((models["status"], models["method"], options["status"], tokens["status"]), (200, "GET", 405, 200))
        with open(self.path, encoding="utf-8") as f:
            text = f.read()
        self.assertFalse(any(secret in text for secret in ("secret", "hidden words", row["question"], "base64", "a b c")))

    def test_a_client_that_leaves(self):
        with Server("--slots", "1", "--request-log", self.path) as server:
            line = server.connect()
            body = json.dumps({"messages": [{"role": "user", "content": "x"}], "max_tokens": 5000, "ignore_eos": True, "stream": True})
            line.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            line.recv(100)
            line.close()
            server.wait_for(lambda: server.n_requests() == 0 and os.path.getsize(self.path) > 0, "the request does not end")
        self.assertEqual([(x["status"], x["left"]) for x in self.lines()], [(200, True)])

    def test_files_that_cannot_be_written(self):
        command = [SACCADE, "serve", "--port", "0", "--request-log", os.path.join(self.folder.name, "no", "file")]
        end = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        self.assertNotEqual(end.returncode, 0)
        self.assertIn("--request-log", end.stderr)
        server = Server("--slots", "1", "--request-log", "/dev/full", check=False)
        for _ in range(3):
            self.assertEqual(server.chat("x", max_tokens=1).status, 200)
        code, errors = server.stop()
        self.assertEqual((code, errors.count("--request-log")), (0, 1), errors)

    def test_metrics(self):
        with Server("--slots", "1", "--queue", "0") as server:
            row = sample(video=False)
            for _ in range(2):
                server.answer(ask(row), max_tokens=3)
            for old, new in (("gpu_prefix_cache_queries_total", "prefix_cache_queries_total"), ("gpu_prefix_cache_hits_total", "prefix_cache_hits_total"),
                             ("gpu_cache_usage_perc", "kv_cache_usage_perc")):
                self.assertEqual(server.metric("vllm:" + old), server.metric("vllm:" + new))
            self.assertEqual((server.metric("vllm:mm_cache_queries_total"), server.metric("vllm:mm_cache_hits_total")), (2, 1))
            self.assertEqual(server.metric("vllm:prompt_tokens_cached_total"), server.metric("vllm:prefix_cache_hits_total"))
            self.assertGreater(server.metric("vllm:prompt_tokens_cached_total"), 0)
            self.assertEqual(server.metric("vllm:request_time_per_output_token_seconds_count"), 2)
            held = server.connect()
            body = json.dumps({"messages": [{"role": "user", "content": "x"}], "max_tokens": 4000, "ignore_eos": True, "stream": True})
            held.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            held.recv(100)
            self.assertEqual(server.chat("x", max_tokens=1).status, 429)
            held.close()
            text = server.get("/metrics").text
            self.assertTrue(re.search(r'^vllm:admission_rejections_total\{engine="0",model_name="demo",reason="queue_full"\} 1$', text, re.M), text)


if __name__ == "__main__":
    main()
