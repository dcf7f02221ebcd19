"""Many at once: every answer is its own question's, whoever else is answered in the same step. This is also what
runs under ThreadSanitizer."""
import json
import threading
import time

from server import Case, Server, ask, chat_body, is_video, main, questions, read_events


class Parallel(Case):
    def test_answers_are_not_mixed_up(self):
        rows = [r for r in questions() if r["n_frames"] <= 16]
        wrong = []

        def client(number):
            for k in range(2):
                row = rows[(7 * number + 3 * k) % len(rows)]
                stream = (number + k) % 2 == 0
                reply = server.chat(ask(row), stream=stream, logprobs=number % 3 == 0)
                if reply.status != 200:
                    wrong.append((reply.status, reply.text))
                    continue
                if stream:
                    events, done = read_events(reply.text)
                    text = "".join(e["choices"][0]["delta"].get("content", "") for e in events)
                    if not done:
                        wrong.append("no end")
                else:
                    text = reply.json["choices"][0]["message"]["content"]
                if text != row["answer"]:
                    wrong.append((row["question"], row["answer"], text))

        def leaver():
            for _ in range(3):
                body = json.dumps(chat_body(ask(rows[0]), stream=True, ignore_eos=True, max_tokens=7000)).encode()
                with server.connect() as c:
                    c.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
                              + body)
                    c.recv(100)  # it has begun

        def watcher():
            while not ended.is_set():
                server.get("/metrics")
                server.get("/v1/models")
                time.sleep(0.05)

        ended = threading.Event()
        with Server("--slots", "3", "--decoded-mib", "8") as server:
            clients = [threading.Thread(target=client, args=[n]) for n in range(6)]
            others = [threading.Thread(target=leaver), threading.Thread(target=watcher)]
            for t in clients + others:
                t.start()
            for t in clients + others[:1]:
                t.join()
            ended.set()
            others[1].join()
        self.assertEqual(wrong, [])

    def test_a_long_prompt_does_not_hold_up_an_answer(self):
        """Tokens of an answer keep coming while another client's video is read."""
        row = next(r for r in questions() if r["n_frames"] == 64)
        body = json.dumps(chat_body("Hello", stream=True, ignore_eos=True, max_tokens=7000)).encode()
        with Server("--slots", "2") as server, server.connect() as c:
            c.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            self.assertIn(b" 200 ", c.recv(4096))  # its first token is there
            n_before = server.metric("saccade:decode_rows_total")
            answer = server.answer(ask(row), max_tokens=1)
            n_steps = server.metric("saccade:decode_rows_total") - n_before
        self.assertGreater(n_steps, 2)
        self.assertTrue(is_video(row["file"]) and row["answer"].startswith(answer))


if __name__ == "__main__":
    main()
