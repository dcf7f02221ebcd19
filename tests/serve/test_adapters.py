"""Adapters that are kept apart: models of their own to clients, one batch to the server."""
import json
import threading

from server import Case, Server, chat_body, main, read_events, saccade

MODEL = "tests/golden/models/llama_f32"
ADAPTERS = "tests/golden/adapters/llama_f32/"
NAMES = {"owl": ADAPTERS + "attention", "mouse": ADAPTERS + "all_linear:1.5"}
OPTIONS = ["-m", MODEL, "--ctx", "512", *(x for name, path in NAMES.items() for x in ("--adapter", f"{name}={path}"))]
LONG = "Three owls sat on the wire; two of them saw 47 mice, the third one slept. Which owl was tired, and why?"


def lone(question, adapter=None, n=24):
    """What the command answers with the adapter."""
    options = ["--adapter", f"x={NAMES[adapter]}"] if adapter else []
    run = saccade("ask", "-m", MODEL, *options, "-n", str(n), "--temperature", "0", "--json", question)
    if run.returncode:
        raise AssertionError(run.stderr)
    return json.loads(run.stdout)["text"]


class Adapters(Case):
    def answer(self, server, question, adapter=None, **more):
        body = {**chat_body(question, max_tokens=24, temperature=0, **more), "model": adapter or "llama_f32"}
        reply = server.post("/v1/chat/completions", body)
        self.assertEqual(reply.status, 200, reply.text)
        self.assertEqual(reply.json["model"], adapter or "llama_f32")
        return reply.json["choices"][0]["message"]["content"], reply.json["usage"]["prompt_tokens_details"]["cached_tokens"]

    def test_they_are_models_in_the_list(self):
        with Server(*OPTIONS) as server:
            models = server.get("/v1/models").json["data"]
            self.assertEqual([(m["id"], m["root"], m["parent"]) for m in models],
                             [("llama_f32", "llama", None), ("owl", ADAPTERS + "attention", "llama_f32"),
                              ("mouse", ADAPTERS + "all_linear", "llama_f32")])
            self.assertEqual(server.get("/v1/models/mouse").json, models[2])
            unknown = server.get("/v1/models/cat"), server.post("/v1/chat/completions", {**chat_body("Hi"), "model": "cat"})
            for reply in unknown:
                self.assertEqual((reply.status, reply.json["error"]["code"]), (404, "model_not_found"))
                self.assertEqual(reply.json["error"]["message"],
                                 "the model 'cat' is not served here: 'llama_f32', 'owl', 'mouse' are")

    def test_several_at_once_answer_as_each_alone(self):
        with Server(*OPTIONS, "--slots", "6") as server:
            asked = [(adapter, question) for question in (LONG, "Which owl was tired?") for adapter in (None, "owl", "mouse")]
            found = {}

            def ask_one(adapter, question):
                found[adapter, question] = self.answer(server, question, adapter)[0]
            threads = [threading.Thread(target=ask_one, args=a) for a in asked]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertEqual(found, {(adapter, question): lone(question, adapter) for adapter, question in asked})
            self.assertEqual(len(set(found.values())), len(asked))

    def test_rows_of_one_are_not_used_for_another(self):
        with Server(*OPTIONS, "--slots", "1", "--cache-memory", "0") as server:
            for adapter in (None, "owl", "mouse", "owl", None):
                text, n_cached = self.answer(server, LONG, adapter)
                self.assertEqual(n_cached, 0, adapter)
                self.assertEqual(text, lone(LONG, adapter))
                self.assertGreater(self.answer(server, LONG, adapter)[1], 20)

    def test_kept_rows_of_one_are_not_used_for_another(self):
        """What the slot held before is found again, its own adapter's alone."""
        with Server(*OPTIONS, "--slots", "1") as server:
            seen = set()
            for adapter in (None, "owl", "mouse", "owl", None):
                text, n_cached = self.answer(server, LONG, adapter)
                self.assertEqual(n_cached > 20, adapter in seen, (adapter, n_cached))
                self.assertEqual(text, lone(LONG, adapter))
                seen.add(adapter)

    def test_the_slot_that_holds_the_rows_is_found(self):
        """Not another's that shares the words."""
        with Server(*OPTIONS, "--slots", "2") as server:
            for _ in range(2):
                for adapter in ("owl", "mouse"):
                    _, n_cached = self.answer(server, LONG, adapter)
            self.assertGreater(n_cached, 20)
            self.assertGreater(self.answer(server, LONG, "owl")[1], 20)

    def test_streams_and_text_completions(self):
        with Server(*OPTIONS) as server:
            body = {**chat_body(LONG, max_tokens=24, temperature=0, stream=True), "model": "mouse"}
            events, _ = read_events(server.post("/v1/chat/completions", body).text)
            self.assertEqual({e["model"] for e in events}, {"mouse"})
            text = "".join(e["choices"][0]["delta"].get("content") or "" for e in events if e["choices"])
            self.assertEqual(text, lone(LONG, "mouse"))
            raw = [server.post("/v1/completions", {"prompt": "The owl", "max_tokens": 8, "temperature": 0, "model": m}).json
                   for m in ("llama_f32", "owl")]
            self.assertEqual([r["model"] for r in raw], ["llama_f32", "owl"])
            self.assertNotEqual(*(r["choices"][0]["text"] for r in raw))

    def test_names_are_checked_before_anything_is_served(self):
        for adapter, why in ("llama_f32=" + ADAPTERS + "attention", "that is the model's own name"), ("a=nowhere", "no such folder"):
            run = saccade("serve", "-m", MODEL, "--port", "0", "--adapter", adapter)
            self.assertNotEqual(run.returncode, 0)
            self.assertEqual(run.stderr.count("\n"), 1)
            self.assertIn(why, run.stderr)


if __name__ == "__main__":
    main()
