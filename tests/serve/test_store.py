"""Beginnings of prompts that no slot holds any more: found in memory, and in files by a server that was started again."""
import os
import signal
import tempfile
import threading
import unittest

from server import Case, Server, ask, main, questions, saccade


def rows():
    """A video, and media of others that take its slot."""
    all_rows = questions()
    video = next(r for r in all_rows if r["n_frames"] == 16)
    return video, [r for r in all_rows if r["n_frames"] == 1][:2]


class Store(Case):
    def ask(self, server, row):
        reply = server.chat(ask(row), logprobs=True)
        self.assertEqual(reply.status, 200, reply.text)
        usage, choice = reply.json["usage"], reply.json["choices"][0]
        self.assertEqual(choice["message"]["content"], row["answer"])
        return usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"], choice["logprobs"]

    def test_no_slot_holds_it(self):
        video, others = rows()
        for options, finds in ((), True), (("--cache-memory", "0"), False), (("--no-sharing",), False), (("--kv", "kivi"), False):
            with self.subTest(options), Server("--slots", "1", *options) as server:
                cached, n, said = self.ask(server, video)
                self.assertEqual(cached, 0)
                for row in others:
                    self.ask(server, row)
                cached, _, again = self.ask(server, video)
                self.assertEqual(said, again)
                self.assertTrue(cached >= n - 9 - 63 if finds else cached <= 1, (cached, n))  # all begin alike
                if "--no-sharing" not in options:
                    hits = server.metric("vllm:external_prefix_cache_hits_total")
                    self.assertTrue(cached - 1 <= hits <= cached if finds else hits == 0, (hits, cached))
                    self.assertEqual(server.metric("saccade:store_memory_bytes") > 0, finds)

    def test_a_restart_finds_it(self):
        video, others = rows()
        with tempfile.TemporaryDirectory() as folder:
            options = "--slots", "1", "--cache-dir", os.path.join(folder, "rows")
            with Server(*options) as server:
                _, n, said = self.ask(server, video)
            with Server(*options) as server, Server(*options, "--kv", "f32") as other:
                cached, _, again = self.ask(server, video)
                self.assertEqual(said, again)
                self.assertGreaterEqual(cached, n - 9 - 63)
                self.assertEqual(server.metric("saccade:store_disk_tokens_total"), cached)
                self.assertEqual(self.ask(other, video)[0], 0)  # rows of another format
            self.assertEqual(os.stat(options[-1]).st_mode & 0o777, 0o700)
            self.assertFalse([f for f in os.listdir(options[-1]) if not f.endswith(".rows")])

    def test_a_server_that_is_killed(self):
        video, others = rows()
        with tempfile.TemporaryDirectory() as folder:
            options = "--slots", "1", "--cache-dir", folder
            said = None
            for wait_s in 0.05, 0.2, 0.5, 1:
                server = Server(*options)
                asking = threading.Thread(target=lambda s=server: self.try_to_ask(s, video))
                asking.start()
                asking.join(wait_s)
                server.stop(signal.SIGKILL)
                asking.join()
                with Server(*options) as server:  # and no line about files that are damaged
                    _, _, again = self.ask(server, video)
                    self.assertEqual(said or again, again)
                    said = again

    @staticmethod
    def try_to_ask(server, row):
        try:
            server.chat(ask(row))
        except OSError:
            pass  # it was killed
        except Exception as e:  # noqa: BLE001 - a reply that breaks off is as good
            if "IncompleteRead" not in repr(e) and "BadStatusLine" not in repr(e):
                raise

    def test_what_makes_no_sense(self):
        for options, word in ((("--no-sharing", "--cache-dir", "x"), "--no-sharing"),
                              (("--no-sharing", "--cache-memory", "9"), "--no-sharing"),
                              (("--cache-memory", "0", "--cache-dir", "x"), "--cache-memory 0"), (("--cache-disk", "9"), "--cache-dir"),
                              (("--cache-dir", "/dev/null/x"), "/dev/null/x")):
            with self.subTest(options):
                run = saccade("serve", "--port", "0", *options)
                self.assertNotEqual(run.returncode, 0)
                self.assertIn(word, run.stderr)
                self.assertEqual(len(run.stderr.strip().splitlines()), 1, run.stderr)


if __name__ == "__main__":
    main()
