"""Long prompts beside answers and beside other prompts, as clients see it: answers go on, short prompts do not wait for
long ones, a client that leaves while its prompt is run gives its slot back at once. The rules themselves are in
tests/unit/test_scheduler.c, test_admission.c and test_turns.c."""
import json
import threading
import time

from server import Case, Server, ask, chat_body, is_video, main, questions

LONG = "number " * 2000  # a prompt that takes a while, and no media, so that all of it is the language model's
SHORT = "Hello"


def send(server, content, **more):
    """The socket of a request whose reply is read later, or never."""
    body = json.dumps(chat_body(content, **more)).encode()
    c = server.connect()
    c.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
              b"Content-Length: %d\r\n\r\n" % len(body) + body)
    return c


class Reader(threading.Thread):
    """Reads a reply and notes when its pieces came."""

    def __init__(self, connection):
        super().__init__()
        self.connection, self.data, self.times_s = connection, b"", []
        self.start()

    def run(self):
        while piece := self.connection.recv(1 << 16):
            self.data += piece
            self.times_s.append(time.monotonic())
        self.connection.close()

    def choices(self):
        self.join()
        return json.loads(self.data[self.data.index(b"\r\n\r\n") + 4:])["choices"]


class Scheduling(Case):
    def test_an_answer_goes_on_while_a_prompt_is_run(self):
        """Steps are counted, not timed: were there none while the prompt is run, only those at its edges would be seen."""
        with Server("--slots", "2") as server:
            with send(server, SHORT, ignore_eos=True, max_tokens=5000):
                server.wait_for(lambda: server.metric("saccade:decode_rows_total") > 2, "no answer begins")
                prompt = Reader(send(server, LONG, max_tokens=1))
                server.wait_for(lambda: server.metric("vllm:num_requests_running") == 2, "the prompt is not run")
                rows = server.metric("saccade:decode_rows_total")
                prompt.join()
                self.assertGreater(server.metric("saccade:decode_rows_total"), rows + 10)
                server.wait_for(lambda: server.metric("vllm:num_requests_running") == 1, "the prompt's slot is not free")

    def test_an_answer_beside_a_video_is_the_one_alone(self):
        row = next(r for r in questions() if r["n_frames"] == 64)
        self.assertTrue(is_video(row["file"]))
        more = {"ignore_eos": True, "max_tokens": 300, "logprobs": True}
        with Server("--slots", "2") as server:
            alone = Reader(send(server, SHORT, **more)).choices()
            beside = Reader(send(server, SHORT, **more))
            server.wait_for(lambda: server.metric("saccade:decode_rows_total") > 302, "no answer begins")
            self.assertEqual(server.answer(ask(row)), row["answer"])
            beside = beside.choices()
        self.assertEqual([t["token"] for t in beside[0]["logprobs"]["content"]],
                         [t["token"] for t in alone[0]["logprobs"]["content"]])

    def test_rows_of_a_prompt_go_along_with_steps(self):
        """Both answers are the ones alone. A target that any machine meets, so that rows go along however busy it is."""
        more = {"ignore_eos": True, "logprobs": True, "max_tokens": 8}
        prompt = "number " * 400
        with Server("--slots", "2", "--target-itl", "60000") as server:
            alone = Reader(send(server, prompt, **more)).choices()
            self.assertEqual(server.metric("saccade:mixed_prompt_rows_total"), 0)
            with send(server, SHORT, ignore_eos=True, max_tokens=5000):
                server.wait_for(lambda: server.metric("saccade:decode_rows_total") > 12, "no answer begins")
                beside = Reader(send(server, "x " + prompt, **more)).choices()
                rows, steps = (server.metric(f"saccade:mixed_{name}_total") for name in ("prompt_rows", "steps"))
            again = Reader(send(server, "x " + prompt, **more)).choices()
        self.assertGreater(rows, 300)
        self.assertGreater(rows, 16 * (steps - 1))
        self.assertEqual(len(alone), 1)
        self.assertEqual(*([t["logprob"] for t in c[0]["logprobs"]["content"]] for c in (beside, again)))

    def test_who_leaves_while_the_prompt_is_run_frees_the_slot(self):
        with Server("--slots", "2") as server:
            start = time.monotonic()
            server.answer(LONG, max_tokens=1)
            whole_s = time.monotonic() - start
            answering = send(server, SHORT, ignore_eos=True, max_tokens=5000)
            server.wait_for(lambda: server.metric("saccade:decode_rows_total") > 2, "no answer begins")
            before = server.metric("vllm:request_prefill_time_seconds_count")
            with send(server, "a" + 3 * LONG, max_tokens=1000):
                server.wait_for(lambda: server.metric("vllm:num_requests_running") == 2, "the prompt is not run")
            start = time.monotonic()
            server.wait_for(lambda: server.metric("vllm:num_requests_running") == 1, "the slot is not free")
            self.assertLess(time.monotonic() - start, max(whole_s, 0.5))  # the whole prompt takes six times that
            self.assertEqual(server.metric("vllm:request_prefill_time_seconds_count"), before)
            self.assertEqual(server.metric("saccade:requests_cancelled_total"), 1)
            rows = server.metric("saccade:decode_rows_total")
            self.assertTrue(server.answer(SHORT, max_tokens=3, ignore_eos=True) is not None)
            self.assertGreater(server.metric("saccade:decode_rows_total"), rows + 3)  # the answer goes on, too
            answering.close()

    def test_a_short_prompt_goes_before_its_clients_long_ones(self):
        """One slot: of what waits in it, the short one is next, but for the long one whose turn it is."""
        with Server("--slots", "1") as server:
            long = [Reader(send(server, f"{word} " * 1500, max_tokens=2)) for word in ("red", "green", "blue", "white")]
            server.wait_for(lambda: server.metric("vllm:num_requests_waiting") >= 3, "the prompts do not wait")
            short = Reader(send(server, SHORT, max_tokens=2))
            for t in [short, *long]:
                self.assertEqual(len(t.choices()), 1)
            self.assertGreaterEqual(sum(t.times_s[-1] > short.times_s[-1] for t in long), 2)

    def test_priority(self):
        """Lower is earlier, and no answer depends on it."""
        with Server("--slots", "1") as server:
            alone = server.answer("green " * 1500, max_tokens=2)
            long = [Reader(send(server, f"{word} " * 1500, max_tokens=2)) for word in ("red", "blue", "white")]
            server.wait_for(lambda: server.metric("vllm:num_requests_waiting") >= 2, "the prompts do not wait")
            urgent = Reader(send(server, "green " * 1500, max_tokens=2, priority=-1))
            self.assertEqual(urgent.choices()[0]["message"]["content"], alone)
            for t in long:
                t.join()
            self.assertGreaterEqual(sum(t.times_s[-1] > urgent.times_s[-1] for t in long), 2)
            for wrong in ("high", 1.5, [1]):
                reply = server.chat(SHORT, priority=wrong)
                self.assertEqual((reply.status, reply.json["error"]["param"]), (400, "priority"))

    def test_short_prompts_do_not_wait_for_a_long_one(self):
        questions_ = ["What is 2?", "Hello", "And the star?"]
        with Server("--slots", "3") as server:
            alone = [server.answer(q, max_tokens=5) for q in questions_]
            long_alone = server.answer(LONG, max_tokens=5)
        with Server("--slots", "3") as server:
            long = Reader(send(server, LONG, max_tokens=5))
            server.wait_for(lambda: server.metric("vllm:num_requests_running") == 1, "the prompt is not run")
            short = [Reader(send(server, q, max_tokens=5)) for q in questions_]
            for t in [*short, long]:
                t.join()
        self.assertEqual([t.choices()[0]["message"]["content"] for t in short], alone)
        self.assertEqual(long.choices()[0]["message"]["content"], long_alone)
        for t in short:
            self.assertLess(t.times_s[-1], long.times_s[-1])


if __name__ == "__main__":
    main()
