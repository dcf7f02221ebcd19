"""--kv-events-config: which beginnings of prompts are kept, told over ZeroMQ as vLLM tells it, here to pyzmq and msgpack."""
import json
import subprocess
import tempfile
import time
import unittest

from server import SACCADE, Case, Server, ask, main, sample

try:
    import msgpack
    import zmq
except ImportError:
    zmq = None

NAMES = {"BlockStored": ["block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name", "extra_keys"],
         "BlockRemoved": ["block_hashes", "medium"], "AllBlocksCleared": []}


def has_zmq():
    end = subprocess.run([SACCADE, "serve", "--port", "0", "--kv-events-config", '{"enable_kv_cache_events": true, "endpoint": "x"}'],
                         capture_output=True, text=True, timeout=300, check=False)
    return "no libzmq" not in end.stderr


class Subscriber:
    """What comes, as one form of events: dicts with a "type"."""

    def __init__(self, endpoint=None, topic=b""):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.SUB)
        self.socket.setsockopt(zmq.SUBSCRIBE, topic)
        self.socket.setsockopt(zmq.RCVTIMEO, 200)
        self.port = None
        if endpoint:
            self.socket.connect(endpoint)
        else:
            self.port = self.socket.bind_to_random_port("tcp://127.0.0.1")
        self.frames, self.events = [], []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close(0)
        self.context.term()

    def read(self):
        while True:
            try:
                self.frames.append(self.socket.recv_multipart())
            except zmq.Again:
                return self.events
            self.events += decode(self.frames[-1][2])


def decode(payload):
    batch = msgpack.unpackb(payload)
    if isinstance(batch, dict):
        assert set(batch) == {"ts", "events", "data_parallel_rank"}, batch
        stamp, events, rank = batch["ts"], batch["events"], batch["data_parallel_rank"]
    else:
        stamp, events, rank = batch
        events = [{"type": e[0], **dict(zip(NAMES[e[0]], e[1:]))} for e in events]
    assert rank == 0 and abs(stamp - time.time()) < 1000
    return events


def index(events):
    """What is there after them, by hash: a router's view. Parents come before children."""
    there = {}
    for e in events:
        if e["type"] == "AllBlocksCleared":
            there = {}
        elif e["type"] == "BlockStored":
            parent, (block,) = e["parent_block_hash"], e["block_hashes"]
            assert parent is None or parent in there, e
            assert len(e["token_ids"]) == e["block_size"] == 64 and e["medium"] == "CPU", e
            there[block] = e
        else:
            for block in e["block_hashes"]:
                there.pop(block, None)  # of what was told before the subscriber came
    return there


def chain(there, block):
    """All tokens up to a block's end."""
    ids = []
    while block is not None:
        ids = there[block]["token_ids"] + ids
        block = there[block]["parent_block_hash"]
    return ids


@unittest.skipUnless(zmq and has_zmq(), "needs pyzmq, msgpack, and a build with libzmq")
class KvEvents(Case):
    def serve(self, subscriber, *options, **config):
        config = {"enable_kv_cache_events": True, "endpoint": f"tcp://127.0.0.1:{subscriber.port}", **config}
        server = Server("--slots", "1", "--kv-events-config", json.dumps(config), *options)
        for i in range(600):  # what is told before a subscriber is there is not sent to it
            server.post("/v1/completions", {"prompt": [40 + i % 200] * 70, "max_tokens": 1})
            if subscriber.read():
                break
        while subscriber.frames:
            subscriber.frames.clear()
            subscriber.read()
        subscriber.events.clear()
        return server

    def ids(self, server, text):
        return server.post("/tokenize", {"prompt": text}).json["tokens"]

    def test_blocks_come_and_are_the_prompts(self):
        for encoding in "array", "map":
            with Subscriber() as subscriber:
                with self.serve(subscriber, encoding=encoding, topic="kv@here@demo") as server:
                    first = self.ids(server, "a star and a circle " * 60)[:200]
                    second = first[:128] + self.ids(server, "quite another thing " * 60)[:100]
                    for ids in first, second, first:
                        server.post("/v1/completions", {"prompt": ids, "max_tokens": 1})
                    server.wait_for(lambda: len(index(subscriber.read())) >= 4, "no blocks come")
                    time.sleep(0.5)
                    there = index(subscriber.read())
                    chains = [chain(there, b) for b in there]
                    for ids in first, second:
                        for n in range(64, len(ids) + 1, 64):
                            self.assertEqual(chains.count(ids[:n]), 1, (n, len(chains)))
                    self.assertEqual(len(there), 4)
                    self.assertTrue(all(e["lora_id"] is None and e["lora_name"] is None and "extra_keys" not in e for e in there.values()))
                    total = server.metric("saccade:kv_events_total")
                    server.post("/v1/completions", {"prompt": [49] * 70, "max_tokens": 1})
                    server.wait_for(lambda: len(subscriber.read()) == 5, "no block comes")
                    self.assertEqual(server.metric("saccade:kv_events_total"), total + 1)
                self.assertEqual(index(subscriber.read()), {})
                self.assertEqual([f[0] for f in subscriber.frames], [b"kv@here@demo"] * len(subscriber.frames))
                self.assertEqual([int.from_bytes(f[1], "big") for f in subscriber.frames], 
                                 list(range(int.from_bytes(subscriber.frames[0][1], "big"), int.from_bytes(subscriber.frames[-1][1], "big") + 1)))
                self.assertEqual(isinstance(msgpack.unpackb(subscriber.frames[0][2]), dict), encoding == "map")

    def test_media_are_told_apart(self):
        rows = [sample(video=False), sample(video=True)]
        with Subscriber() as subscriber, self.serve(subscriber) as server:
            for row in rows:
                server.answer(ask(row))
            server.wait_for(lambda: len([e for e in subscriber.read() if e.get("extra_keys")]) >= 2, "no blocks of media come")
            time.sleep(0.5)
            there = index(subscriber.read())
            keys = [tuple(e["extra_keys"][0]) for e in there.values() if e.get("extra_keys")]
            self.assertGreaterEqual(len({k for key in keys for k in key}), 2)
            self.assertTrue(all(len(k) == 16 for key in keys for k in key))
            before = len(subscriber.events)
            server.answer(ask(rows[0]))
            time.sleep(0.5)
            self.assertEqual(len(subscriber.read()), before)

    def test_blocks_that_go(self):
        """More than the memory holds; what is left is what the store holds."""
        with Subscriber() as subscriber, self.serve(subscriber, "--cache-memory", "1") as server:
            for i in range(30):
                server.post("/v1/completions", {"prompt": [50 + (7 * k + i * 13) % 300 for k in range(2000)], "max_tokens": 1})
            server.wait_for(lambda: server.metric("saccade:store_dropped_blocks_total") > 0, "nothing is dropped")
            time.sleep(0.5)
            dropped = server.metric("saccade:store_dropped_blocks_total")
            there = index(subscriber.read())
            self.assertEqual(sum(e["type"] == "BlockRemoved" for e in subscriber.events), dropped)
            self.assertGreater(len(there), 0)
            self.assertEqual(server.metric("saccade:kv_events_dropped_total"), 0)

    def test_blocks_from_disk(self):
        """A server that is started again tells of those that it takes out of files, under the same hashes."""
        with tempfile.TemporaryDirectory() as folder:
            found = []
            for _ in range(2):
                with Subscriber() as subscriber, self.serve(subscriber, "--cache-dir", folder) as server:
                    ids = [50 + 7 * k % 300 for k in range(300)]
                    server.post("/v1/completions", {"prompt": ids, "max_tokens": 1})
                    server.wait_for(lambda: len(index(subscriber.read())) >= 4, "no blocks come")
                    found.append(index(subscriber.read()))
                    disk = server.metric("saccade:store_disk_tokens_total")
            self.assertGreater(disk, 0)
            self.assertEqual(set(found[0]), set(found[1]))

    def test_replay(self):
        """From a number on; of what is no request nothing comes, and the server goes on."""
        with tempfile.TemporaryDirectory() as folder, Subscriber() as subscriber:
            with self.serve(subscriber, replay_endpoint=f"ipc://{folder}/replay") as server:
                for i in range(5):
                    server.post("/v1/completions", {"prompt": [50 + i * 3 + k % 300 for k in range(150)], "max_tokens": 1})
                    time.sleep(0.2)
                server.wait_for(lambda: len(index(subscriber.read())) >= 10, "no blocks come")
                numbers = [int.from_bytes(f[1], "big") for f in subscriber.frames]
                self.assertGreater(len(numbers), 3)
                wrong = subscriber.context.socket(zmq.DEALER)
                wrong.connect(f"ipc://{folder}/replay")
                for frames in [b"x"], [b"", b"short"], [b"", b"12345678", b"more"], [b"x" * 200, b"y" * 200], [b"x" * 5000]:
                    wrong.send_multipart(frames)
                for start in numbers[0], numbers[2], numbers[-1] + 5:
                    dealer = subscriber.context.socket(zmq.DEALER)
                    dealer.setsockopt(zmq.RCVTIMEO, 20000)
                    dealer.connect(f"ipc://{folder}/replay")
                    dealer.send_multipart([b"", start.to_bytes(8, "big")])
                    got = []
                    while True:
                        empty, number, payload = dealer.recv_multipart()
                        self.assertEqual(empty, b"")
                        if number == b"\xff" * 8:
                            break
                        got.append((int.from_bytes(number, "big"), payload))
                    dealer.close(0)
                    self.assertEqual(got, [(int.from_bytes(f[1], "big"), f[2]) for f in subscriber.frames if int.from_bytes(f[1], "big") >= start])
                wrong.close(0)

    def test_a_bound_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            config = {"enable_kv_cache_events": True, "endpoint": f"ipc://{folder}/events"}
            with Server("--slots", "1", "--kv-events-config", json.dumps(config)) as server, Subscriber(f"ipc://{folder}/events") as subscriber:
                def come():
                    server.post("/v1/completions", {"prompt": [int(time.monotonic() * 1000) % 300 + 40 for k in range(100)], "max_tokens": 1})
                    return subscriber.read()
                server.wait_for(come, "nothing comes")

    def test_what_is_refused(self):
        on = {"enable_kv_cache_events": True}
        for text, word in (("{", "JSON"), ("[]", "JSON"), (json.dumps({**on, "endpoints": "x"}), "'endpoints'"), (json.dumps({**on, "hwm": 0}), "'hwm'"),
                           (json.dumps({**on, "hwm": "x"}), "'hwm'"), (json.dumps({**on, "publisher": "kafka"}), "'publisher'"),
                           (json.dumps({**on, "endpoint": ""}), "'endpoint'"), (json.dumps({**on, "endpoint": "carrier-pigeon://x"}), "carrier-pigeon"),
                           (json.dumps({**on, "topic": "x" * 300}), "'topic'"), (json.dumps({"enable_kv_cache_events": 1}), "'enable_kv_cache_events'"),
                           (json.dumps({**on, "encoding": "json"}), "'encoding'")):
            end = subprocess.run([SACCADE, "serve", "--port", "0", "--kv-events-config", text], capture_output=True, text=True, timeout=300, check=False)
            self.assertNotEqual(end.returncode, 0, text)
            self.assertIn("--kv-events-config", end.stderr)
            self.assertIn(word, end.stderr)
        for option in ("--no-sharing",), ("--cache-memory", "0"):
            end = subprocess.run([SACCADE, "serve", "--port", "0", "--kv-events-config", json.dumps(on), *option], capture_output=True, text=True,
                                 timeout=300, check=False)
            self.assertIn("--kv-events-config", end.stderr)
        for off in {"enable_kv_cache_events": False}, {**on, "publisher": "null"}, {}:
            with Server("--slots", "1", "--kv-events-config", json.dumps(off)) as server:
                self.assertEqual(server.metric("saccade:kv_events_total"), 0)


if __name__ == "__main__":
    main()
