"""Slots that share memory for keys and values: more of them than it holds contexts. Prompts are short and answers long, so that
four begin and their rows outgrow it: answers give way to earlier ones, and all have the tokens of memory of their own."""
import threading

from server import Case, Server, main

N = 5


def ask(server, k, answers, **more):
    text = f"Number {k}. " + "The quick brown fox jumps over the lazy dog. " * (1 + k % 3)
    reply = server.chat(text, ignore_eos=True, max_tokens=180 + 40 * (k % 2), logprobs=True, **more)
    if reply.status != 200:
        answers[k] = reply.text
        return
    choice = reply.json["choices"][0]
    answers[k] = [(t["token"], t["logprob"]) for t in choice["logprobs"]["content"]]


def ask_all(server):
    answers = {}
    clients = [threading.Thread(target=ask, args=[server, k, answers]) for k in range(N)]
    for c in clients:
        c.start()
    for c in clients:
        c.join()
    return answers


class Pages(Case):
    def test_answers_are_those_of_memory_of_their_own(self):
        with Server("--ctx", "512", "--slots", "4") as server:
            own = ask_all(server)
            self.assertEqual(server.metric("vllm:num_preemptions_total"), 0)
        self.assertEqual({len(a) for a in own.values()}, {180, 220})
        with Server("--ctx", "512", "--slots", "4", "--kv-memory", "3") as server:
            for n in range(10):  # the second finds idle slots that hold the first's rows
                self.assertEqual(ask_all(server), own)
                if n and server.metric("vllm:num_preemptions_total"):
                    break
            else:
                self.fail("no answer gave way to another")
            self.assertLessEqual(server.metric("vllm:kv_cache_usage_perc"), 1)

    def test_packed_rows_give_way_and_come_back(self):
        options = ("--ctx", "512", "--slots", "4", "--kv", "mixed:gap=32,high=8,low=8")
        with Server(*options) as server:
            own = ask_all(server)
        with Server(*options, "--kv-memory", "2") as server:
            for _ in range(10):
                self.assertEqual(ask_all(server), own)
                if server.metric("vllm:num_preemptions_total"):
                    break
            else:
                self.fail("no answer gave way to another")

    def test_who_leaves_while_waiting_leaves_nothing_behind(self):
        with Server("--ctx", "512", "--slots", "4", "--kv-memory", "3", "--request-seconds", "0.5") as server:
            answers = {}
            clients = [threading.Thread(target=ask, args=[server, k, answers], kwargs={"stream": False}) for k in range(N)]
            for c in clients:
                c.start()
            for c in clients:
                c.join()
            server.wait_for(lambda: server.n_requests() == 0, "a request stays")
            server.wait_for(lambda: server.chat("Hello", max_tokens=1).status == 200, "no answer in time")

    def test_a_context_must_fit(self):
        with self.assertRaisesRegex(AssertionError, "a context of 8192 tokens takes .* smaller context"):
            Server("--kv-memory", "12")
        with Server("--kv-memory", "12", "--kv", "kivi:group=16,residual=16") as server:  # in fewer bits it does
            self.assertEqual(server.chat("Hello", max_tokens=1).status, 200)


if __name__ == "__main__":
    main()
