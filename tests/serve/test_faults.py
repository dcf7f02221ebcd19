"""Clients and media that go wrong: each is refused or survived with the right status, the server still answers
afterwards, and nothing is left open."""
import concurrent.futures
import contextlib
import http.client
import http.server
import json
import os
import resource
import select
import signal
import socket
import subprocess
import threading
import time

from server import (HANG_S, SACCADE, Case, Server, ask, chat_body, data_uri, is_video, main, media_part, questions, read_events, saccade,
                    sample, write_png)

PICTURE = sample(video=False)
ENDLESS = 7000  # tokens: seconds on any machine, and nearly all that a slot holds


def head(path="/v1/chat/completions", **fields):
    lines = [f"POST {path} HTTP/1.1", "Host: localhost"] + [f"{k.replace('_', '-')}: {v}" for k, v in fields.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def whole(content, **more):
    body = json.dumps(chat_body(content, **more)).encode()
    return head(Content_Type="application/json", Content_Length=len(body)) + body


def read_reply(connection):
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while b"\r\n\r\n" not in data or (b"chunked" not in data and b"}" not in data[-3:]):
            piece = connection.recv(65536)
            if not piece:
                break
            data += piece
    return data


def children(pid):
    out = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(p) for p in out.stdout.split()]


def kill_children(pid):
    """How many there were. The kernel's own list is read, which is sooner than ps."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            found = f.read().split()
    except FileNotFoundError:  # a kernel without it
        found = children(pid)
    n = 0
    for child in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(child), signal.SIGKILL)
            n += 1
    return n


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def is_locked_in(pid):
    """A decoding child that has given up its rights: it decodes from here on."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as f:
            return "Seccomp:\t2" in f.read()
    except (FileNotFoundError, ProcessLookupError):
        return False


def children_now(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return [int(p) for p in f.read().split()]
    except FileNotFoundError:
        return children(pid)


def stop_a_child(test, server):
    """A decoding child that stands still, and the connection that waits for it. A video each time that none has seen."""
    helper, = children_now(server.process.pid)
    row = next(r for r in questions() if r["n_frames"] == 256)
    before = children_now(helper)
    with open(row["file"], "rb") as f:
        video = f.read()
    for _ in range(200):
        video += os.urandom(16)
        client = server.connect()
        client.sendall(whole(ask({**row, "file": test.path("v.mp4", video)}), max_tokens=1))
        end = time.monotonic() + 10
        while time.monotonic() < end and not select.select([client], [], [], 0)[0]:
            new = [c for c in children_now(helper) if c not in before and is_locked_in(c)]
            if new:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(new[0], signal.SIGSTOP)
                if not select.select([client], [], [], 0.3)[0] and is_alive(new[0]):
                    return new[0], client
                break
        client.close()
    raise AssertionError("no child was met")


class Faults(Case):
    """One server for all; every test ends with a right answer and the descriptors it began with."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--slots", "2", "--receive-seconds", "2", "--body-mib", "2", "--decode-seconds", "5",
                            "--connections", "300", "--media-root", "samples", "--picture-pixels", "2000000",
                            "--heartbeat-seconds", "0.5")
        cls.server.answer(ask(PICTURE))

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    def setUp(self):
        super().setUp()
        self.n = self.server.n_descriptors()

    def tearDown(self):
        self.assertEqual(self.server.answer(ask(PICTURE)), PICTURE["answer"])
        # connections that the client has closed are noticed a moment later; + what the cache may have taken
        self.server.wait_for(lambda: self.server.n_descriptors() <= self.n + 2, "descriptors stay open")
        super().tearDown()

    def wait_until_idle(self):
        self.server.wait_for(lambda: self.server.n_requests() == 0, "requests of clients that have left go on")

    def wait_until_closed(self, connection):
        """By the server, and not by its usual patience (30 s), which is longer than this one's."""
        connection.settimeout(25)
        with contextlib.suppress(ConnectionError):
            while connection.recv(4096):
                pass
        connection.close()

    def test_a_client_leaves_in_the_middle_of_a_stream(self):
        before = self.server.metric("saccade:requests_cancelled_total")
        for _ in range(5):
            c = self.server.connect()
            c.sendall(whole(ask(PICTURE), stream=True, ignore_eos=True, max_tokens=ENDLESS))
            self.assertIn(b"200 OK", c.recv(4096))
            c.close()
        self.wait_until_idle()
        self.assertEqual(self.server.metric("saccade:requests_cancelled_total"), before + 5)

    def test_a_client_leaves_while_it_waits(self):
        before = self.server.metric("saccade:requests_cancelled_total")
        sockets = [self.server.connect() for _ in range(6)]
        for c in sockets:
            c.sendall(whole(ask(PICTURE), ignore_eos=True, max_tokens=ENDLESS))
        self.server.wait_for(lambda: self.server.n_requests() == 6, "not all came")
        for c in sockets:
            c.close()
        self.wait_until_idle()
        self.assertEqual(self.server.metric("saccade:requests_cancelled_total"), before + 6)

    def test_half_a_body_and_then_nothing(self):
        c = self.server.connect()
        data = whole("Hello")
        c.sendall(data[:-10])
        self.wait_until_closed(c)

    def test_half_a_body_and_gone(self):
        for _ in range(20):
            c = self.server.connect()
            c.sendall(whole("Hello")[:-10])
            c.close()

    def test_a_header_that_drips(self):
        """A line now and then does not lengthen the server's patience: it closes, however long the client goes on."""
        c = self.server.connect()
        c.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n")
        with contextlib.suppress(ConnectionError):
            for _ in range(80):  # 24 s, which is less than the server's usual patience
                c.sendall(b"X: y\r\n")
                if select.select([c], [], [], 0.3)[0]:
                    break
            else:
                self.fail("a header may drip for ever")
            self.assertEqual(c.recv(100), b"")
        c.close()

    def test_a_body_of_ten_gigabytes(self):
        c = self.server.connect()
        c.sendall(head(Content_Length=10 << 30))
        self.assertIn(b" 413 ", read_reply(c))
        c.close()

    def test_a_body_in_chunks_without_end(self):
        c = self.server.connect()
        before = self.server.memory_kib()
        c.sendall(head(Transfer_Encoding="chunked"))
        piece = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        sent = 0
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while sent < 1 << 30:
                c.sendall(piece)
                sent += 65536
        self.assertLess(sent, 64 << 20)
        self.assertLess(self.server.memory_kib() - before, 32 << 10)
        c.close()

    def test_more_connections_than_are_allowed(self):
        """tools/check_connections.py has ten thousand."""
        sockets = []
        with contextlib.suppress(OSError):
            for _ in range(600):
                sockets.append(self.server.connect())
        for c in sockets:
            c.close()

        def answers():
            with contextlib.suppress(OSError, http.client.HTTPException):
                return self.server.get("/health").status == 200
        self.server.wait_for(answers, "no answer after too many connections")

    def test_a_body_of_small_values(self):
        """Refused before it is parsed: each two bytes would take hundreds."""
        before = self.server.memory_kib()
        for piece in b"{},", b"[],", b"1,", b'"",':
            body = b'{"messages": [{"role": "user", "content": "x"}], "x": [' + piece * ((1 << 21) // len(piece) - 50) + b"1]}"
            reply = self.server.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
            self.assertEqual(reply.status, 400 if piece == b"1," else 413, piece)
        self.assertLess(self.server.memory_kib() - before, 200 << 10)

    def test_wrong_words(self):
        for content, words in ("a\0b", "U+0000"), ([0] * 65537, "65537 parts"):
            self.assertIn(words, self.server.chat(content).json["error"]["message"])

    def test_any_byte_of_a_prompt(self):
        """Text completions count bytes; other strings end at U+0000."""
        body = {"model": "demo", "prompt": "red\0blue\0", "max_tokens": 4, "temperature": 0, "echo": True, "logprobs": 0}
        choice = self.server.post("/v1/completions", body).json["choices"][0]
        self.assertTrue(choice["text"].startswith("red\0blue\0"), choice["text"])
        self.assertTrue("".join(choice["logprobs"]["tokens"]).startswith("red\0blue\0"))
        for wrong in {"stop": ["a\0b"]}, {"user": "a\0"}, {"a\0": 1}, {"logit_bias": {"1": ["\0"]}}:
            reply = self.server.post("/v1/completions", {**body, **wrong})
            self.assertEqual((reply.status, "U+0000" in reply.text), (400, True), wrong)

    def test_a_slow_reader(self):
        c = socket.socket()
        c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        c.connect(("127.0.0.1", self.server.port))
        c.sendall(whole(ask(PICTURE), stream=True, ignore_eos=True, max_tokens=150, logprobs=True, top_logprobs=20))
        self.assertEqual(self.server.answer(ask(PICTURE)), PICTURE["answer"])  # others are answered meanwhile
        self.wait_until_idle()  # the answer is made, although nobody reads it
        c.close()

    def test_nonsense(self):
        for data in b"\0" * 5000, b"GET\r\n\r\n", b"POST / HTTP/9.9\r\n\r\n", os.urandom(4096), b"A" * 200000:
            c = self.server.connect()
            with contextlib.suppress(ConnectionError):
                c.sendall(data)
            self.wait_until_closed(c)

    def test_files_outside_the_root(self):
        root = os.path.abspath("samples")
        link = os.path.join(self.folder, "root")
        os.mkdir(link)
        os.symlink("/etc/passwd", os.path.join(link, "out.png"))
        os.symlink("/", os.path.join(link, "up"))
        os.mkfifo(os.path.join(link, "pipe.png"))
        write_png(os.path.join(link, "in.png"))
        os.symlink("in.png", os.path.join(link, "within.png"))
        for url in (f"file://{root}/../README.md", f"file://{root}/%2e%2e/README.md", "file:///etc/passwd",
                    f"file://{root}/../../../../../../etc/passwd", f"file://{root}", f"file://{root}/drawn"):
            self.assertIn(self.server.chat(ask(PICTURE, url)).status, (403, 404), url)
        with Server("--media-root", link) as other:
            for name, status in (("out.png", 403), ("up/etc/passwd", 403), ("pipe.png", 403), ("none.png", 404),
                                 ("in.png", 200), ("within.png", 200)):
                self.assertEqual(other.chat(ask(PICTURE, f"file://{link}/{name}")).status, status, name)

    def test_bombs(self):
        bomb = write_png(self.path("bomb.png"), claim=(60000, 60000))
        reply = self.server.chat(ask({**PICTURE, "file": bomb}))
        self.assertEqual((reply.status, reply.json["error"]["param"]), (400, "messages[0].content[0]"))
        cut = self.path("cut.mp4", open(sample(video=True)["file"], "rb").read()[:3000])
        self.assertEqual(self.server.chat(ask({**PICTURE, "file": cut})).status, 400)
        text = self.path("text.mp4", "#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n")
        self.assertEqual(self.server.chat(ask({**PICTURE, "file": text})).status, 400)

    def test_a_limit_holds_for_pictures_that_are_decoded(self):
        self.assertEqual(self.server.chat(ask(PICTURE), max_tokens=1).status, 200)
        for status, most in (400, 1000), (200, 1 << 30), (400, 1001):
            reply = self.server.chat(ask(PICTURE), max_tokens=1, media_io_kwargs={"image": {"max_pixels": most}})
            self.assertEqual(reply.status, status, reply.text)

    def test_the_decoding_process_is_killed(self):
        helper, = children(self.server.process.pid)
        os.kill(helper, signal.SIGKILL)
        row = next(r for r in questions() if r["file"] != PICTURE["file"] and not is_video(r["file"]))
        self.assertEqual(self.server.answer(ask(row)), row["answer"])
        self.assertNotEqual(children(self.server.process.pid), [helper])

    def test_a_decoding_child_is_killed(self):
        """Until one is met alive: a child is there for some hundredths of a second. Each video is one byte longer than
        the last, so that none is found decoded."""
        helper, = children(self.server.process.pid)
        row = next(r for r in questions() if r["n_frames"] == 256)
        with open(row["file"], "rb") as f:
            video = f.read()
        before, end = self.server.metric("saccade:decoder_crashes_total"), time.monotonic() + HANG_S
        while self.server.metric("saccade:decoder_crashes_total") == before:
            self.assertLess(time.monotonic(), end, "no child was met")
            video += b"\0"
            replies = []
            thread = threading.Thread(target=lambda: replies.append(
                self.server.chat(ask({**row, "file": self.path("v.mp4", video)}), max_tokens=1)))
            thread.start()
            while thread.is_alive() and not kill_children(helper):
                pass
            thread.join()
            self.assertIn(replies[0].status, (200, 400))
        self.assertEqual((replies[0].status, replies[0].json["error"]["code"]), (400, "media_failed"))
        self.assertEqual(children(self.server.process.pid), [helper])

    def test_a_decoding_child_ends_with_its_client(self):
        """A child that stands still would stay for ever; what waits for it is a client that leaves."""
        with Server("--slots", "1", "--decode-seconds", "300", check=False) as server:
            child, client = stop_a_child(self, server)
            self.assertTrue(is_alive(child))
            client.close()
            server.wait_for(lambda: not is_alive(child), "the child outlives its client")
            server.wait_for(lambda: server.n_requests() == 0, "the request goes on")
            self.assertEqual(server.metric("saccade:decoder_crashes_total"), 0)
            self.assertEqual(server.metric("saccade:requests_cancelled_total"), 1)
            self.assertEqual(server.answer(ask(PICTURE)), PICTURE["answer"])

    def test_a_decoding_child_ends_with_the_server(self):
        with Server("--slots", "1", "--decode-seconds", "300", check=False) as server:
            child, client = stop_a_child(self, server)
            server.stop(signal.SIGKILL)
            server.wait_for(lambda: not is_alive(child), "the child outlives the server")
            client.close()

    def test_media_that_never_fit(self):
        """Refused at once: nobody else holds anything that could be waited for."""
        with Server("--slots", "1", "--decoded-mib", "1") as server:
            pictures = [write_png(self.path(f"{i}.png"), 64 + i, 64) for i in range(40)]
            content = [media_part(p) for p in pictures] + [{"type": "text", "text": "What is it?"}]
            reply = server.chat(content)
            self.assertEqual((reply.status, reply.json["error"]["code"]), (413, "media_too_large"), reply.text)

    def test_texts_do_not_wait_for_media(self):
        """Every thread that decodes is held by a child that stands still."""
        with Server("--slots", "4", "--decode-seconds", "300", check=False) as server:
            held = [stop_a_child(self, server) for _ in range(2)]
            self.assertEqual(server.chat("Hello", max_tokens=1).status, 200)
            for child, client in held:
                self.assertTrue(is_alive(child))
                client.close()

    def test_a_heartbeat_while_others_are_served(self):
        """Both slots are taken by answers that last, so the third hears nothing but heartbeats."""
        c = [self.server.connect() for _ in range(3)]
        for s in c[:2]:
            s.sendall(whole(ask(PICTURE), stream=True, ignore_eos=True, max_tokens=ENDLESS))
        self.server.wait_for(lambda: self.server.metric("vllm:num_requests_running") == 2, "they are not answered")
        c[2].sendall(whole(ask(PICTURE), stream=True))
        data = b""
        while b": ping" not in data:
            piece = c[2].recv(65536)
            self.assertNotEqual(piece, b"", data)
            data += piece
        self.assertNotIn(b"data:", data)
        for s in c:
            s.close()
        self.wait_until_idle()

    def test_a_deadline(self):
        reply = self.server.chat(ask(PICTURE), ignore_eos=True, max_tokens=ENDLESS, saccade={"timeout": 0.2})
        self.assertEqual(reply.status, 408)
        self.assertEqual(reply.json["error"]["code"], "timeout")


class Redirects(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/redirect":
            self.send_response(302)
            self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}/picture")
            self.end_headers()
            return
        self.server.hits.append(self.path)
        self.send_response(200)
        self.end_headers()
        with open(PICTURE["file"], "rb") as f:
            self.wfile.write(f.read())

    def log_message(self, *arguments):
        pass


class Fetching(Case):
    def test_private_addresses(self):
        """By number, in all its spellings, and by a name that resolves to one. tools/check_redirect.py has redirects."""
        target = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Redirects)
        target.hits = []
        threading.Thread(target=target.serve_forever, daemon=True).start()
        port = target.server_port
        with Server("--fetch-domain", "*") as server:
            for host in ("127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1", "[::1]", "[::ffff:127.0.0.1]",
                         "0.0.0.0", "169.254.169.254", "10.0.0.1", "[fd00::1]", socket.gethostname()):
                reply = server.chat(ask(PICTURE, f"http://{host}:{port}/redirect"))
                self.assertIn(reply.status, (400, 403), host)
                self.assertIn(reply.json["error"]["code"], ("address_not_allowed", "fetch_failed"), host)
            self.assertEqual(server.chat(ask(PICTURE, "http://user@evil/")).status, 400)
            self.assertEqual(server.answer(ask(PICTURE)), PICTURE["answer"])
        self.assertEqual(target.hits, [])
        with Server("--fetch-domain", "example.org", "--fetch-domain", "*.example.net") as server:
            for host in "example.com", "example.org.evil.com", "evilexample.net", "example.net", "a.example.org":
                reply = server.chat(ask(PICTURE, f"http://{host}/x.png"))
                self.assertEqual((reply.status, reply.json["error"]["code"]), (403, "domain_not_allowed"), host)
        target.shutdown()
        target.server_close()


class Ends(Case):
    def test_sigterm_under_load(self):
        """All that were admitted get their whole answer; who comes later is refused. Two long answers hold both slots
        until then."""
        server = Server("--slots", "2", "--drain-seconds", str(HANG_S))
        rows = [r for r in questions() if not is_video(r["file"])][:6]
        replies, holders, late = [], [server.connect() for _ in range(2)], server.connect()
        for c in holders:
            c.sendall(whole("Hello", stream=True, ignore_eos=True, max_tokens=ENDLESS))
            self.assertIn(b"200 OK", c.recv(4096))
        threads = [threading.Thread(target=lambda row=row: replies.append((row, server.chat(ask(row))))) for row in rows]
        for t in threads:
            t.start()
        server.wait_for(lambda: server.n_requests() == len(holders) + len(rows), "not all came")
        server.process.send_signal(signal.SIGTERM)
        server.wait_for(lambda: server.get("/health").status == 503, "it does not notice")
        late.sendall(whole(ask(PICTURE)))
        reply = read_reply(late)
        self.assertTrue(b" 503 " in reply and b"shutting_down" in reply, reply)
        for c in [late] + holders:
            c.close()
        for t in threads:
            t.join()
        self.assertEqual(server.stop(), (0, ""))
        self.assertEqual(len(replies), len(rows))
        for row, reply in replies:
            self.assertEqual(reply.status, 200, reply.text)
            self.assertEqual(reply.json["choices"][0]["message"]["content"], row["answer"])

    def test_a_drain_that_takes_too_long(self):
        server = Server("--slots", "16", "--drain-seconds", "0.1")
        streams = self.begin_streams(server, 16)
        server.wait_for(lambda: server.metric("vllm:num_requests_running") == 16, "they are not answered")
        self.assertEqual(server.stop(signal.SIGINT), (0, ""))
        self.assert_ended(streams, 503, "cancelled")

    def test_a_second_signal_ends_the_wait(self):
        server = Server("--slots", "1", "--drain-seconds", "3600")
        stream, = self.begin_streams(server, 1)
        server.wait_for(lambda: server.metric("vllm:num_requests_running") == 1, "it is not answered")
        server.process.send_signal(signal.SIGTERM)
        server.wait_for(lambda: server.get("/health").status == 503, "it does not notice")
        self.assertEqual(server.stop(), (0, ""))
        self.assert_ended([stream], 503, "cancelled")

    def test_a_port_that_is_taken(self):
        with Server("--slots", "1") as server:
            second = saccade("serve", "--quiet", "--slots", "1", "--port", server.port)
            self.assert_refused(second, 74, f"port {server.port}", "Address already in use")

    def test_a_media_root_that_is_no_folder(self):
        self.assert_refused(saccade("serve", "--port", "0", "--media-root", self.path("none")), 66,
                            "--media-root " + self.path("none"), "No such file")
        self.assert_refused(saccade("serve", "--port", "0", "--media-root", self.path("file", "x")), 64, "not a folder")

    def test_a_port_that_was_just_used(self):
        """By a server that closed a connection itself, which the kernel then remembers for a minute."""
        with Server("--slots", "1") as server, server.connect() as c:
            c.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            self.assertIn(b" 200 ", c.recv(4096))
            self.assertEqual(server.stop(), (0, ""))
        with Server("--slots", "1", "--port", server.port) as again:
            self.assertEqual(again.port, server.port)

    def test_streams_that_take_too_long(self):
        with Server("--slots", "16") as server:
            for _ in range(2):
                self.assert_ended(self.begin_streams(server, 16, saccade={"timeout": 1}), 408, "timeout")

    def begin_streams(self, server, n, **more):
        """All with much text in each event, and without an end of their own."""
        pool = concurrent.futures.ThreadPoolExecutor(n)
        self.addCleanup(pool.shutdown)
        more = {"stream": True, "ignore_eos": True, "max_tokens": ENDLESS, "temperature": 2, "logprobs": True,
                "top_logprobs": 20, **more}
        return [pool.submit(server.chat, "Hello", **more) for _ in range(n)]

    def assert_ended(self, streams, status, code):
        """By an event that says why. http.client raises where a reply is cut off."""
        for stream in streams:
            reply = stream.result()
            if reply.status != 200:  # before its first token
                self.assertEqual((reply.status, reply.json["error"]["code"]), (status, code))
                continue
            events, done = read_events(reply.text)
            self.assertEqual((done, events[-1]["error"]["code"]), (False, code))
            self.assertNotIn('"finish_reason":"length"', reply.text)

    def test_idle_connections_lock_nobody_out(self):
        """Those of the address that has the most go first; a client of another address is answered."""
        with Server("--slots", "1", "--connections", "20", "--receive-seconds", "3600") as server:
            idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(300)]
            other = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60, source_address=("127.0.0.2", 0))
            for _ in range(2):
                other.request("GET", "/health")
                reply = other.getresponse()
                self.assertEqual((reply.status, reply.read()), (200, b'{"status":"ok"}'))
            self.assertEqual(server.get("/health").status, 200)
            other.close()
            for c in idle:
                c.close()

    def test_http_that_is_not_taken(self):
        with Server("--slots", "1") as server:
            for more, status in ((b"Content-Length: 2\r\nContent-Length: 2\r\n", 400), (b"Host: localhost\r\n", 400),
                                 (b"Transfer-Encoding: gzip\r\n", 501),
                                 (b"Content-Encoding: gzip\r\nContent-Length: 2\r\n", 415)):
                with server.connect() as c:
                    c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" + more + b"\r\n{}")
                    self.assertIn(b" %d " % status, c.recv(4096), more)
            behind = b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"
            for path in b"/v1/completions", b"/nowhere", b"/" + b"a" * 300:  # where the request ends is not for others to say: what is behind is not read
                for more in (b"Content-Length : 2\r\n", b" A: 1\r\n", b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
                             b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", b"Transfer-Encoding: identity\r\n",
                             b"Content-Length\x0b: 2\r\n", b"Transfer-Encoding\x0b: chunked\r\n", b"Content-Length\xe9: 2\r\n",
                             b"Content-Length:\r\n 2\r\n", b"Transfer-Encoding:\r\n chunked\r\n", b"Content: 2\r\n -Length\r\n",
                             b"X: 1\rContent-Length: 2\r\n"):
                    for body in b"2\r\n{}\r\n0\r\n\r\n", b"":
                        with server.connect() as c:
                            c.sendall(b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\n" + more + b"\r\n" + body + behind)
                            reply = b"".join(iter(lambda: c.recv(4096), b""))
                        self.assertIn(b" 501 " if more == b"Transfer-Encoding: identity\r\n" else b" 400 ", reply, more)
                        self.assertEqual((reply.count(b"HTTP/1.1"), b"Connection: close" in reply, b"version" in reply), (1, True, False), reply)
            self.assertEqual(server.get("/health%00x").status, 404)
            reply = server.get("/v1/completions")
            self.assertEqual((reply.status, reply.headers["Allow"]), (405, "POST, OPTIONS"))
            reply = server.request("PUT", "/v1/files/x")
            self.assertEqual((reply.status, reply.headers["Allow"]), (405, "GET, DELETE, OPTIONS"))

    def test_times_that_are_none(self):
        """Positions of Qwen2.5-VL's frames are counted by them."""
        with Server("-m", "tests/golden/models/qwen2_5_vl", "--slots", "1", "--ctx", "512") as server:
            part = {"urls": [data_uri(f"tests/golden/models/frame{i}.png") for i in range(4)]}
            for times, words in (([0, 1, 2, 1e13], "frame 3 is at 1e+13 s"), ([-1e308, 0, 1, 2], "frame 0 is at -1e+308 s"),
                                 ([0, 1e9, 2e9, 3e9], "are 2e+09 s apart"), ([1.7e9, 1.7e9 + 1, 1.7e9 + 2, 1.7e9 + 3], None)):
                reply = server.chat([{"type": "video_frames", "video_frames": {**part, "timestamps": times}}], model=None, max_tokens=1)
                self.assertEqual(reply.status, 400 if words else 200, reply.text)
                self.assertIn(words or "choices", reply.text)

    def test_clients_that_leave_in_the_middle_of_a_request(self):
        """Their connections are given back long before the server's patience ends, also where the end comes in one
        packet with the last bytes."""
        with Server("--slots", "1", "--receive-seconds", "3600") as server:
            before = server.n_descriptors()
            for more_comes in (socket.MSG_MORE, 0) * 10:
                with server.connect() as c:
                    c.sendall(whole("Hello")[:-10], more_comes)
            self.assertEqual(server.get("/health").status, 200)  # those before it have been taken in, too
            server.wait_for(lambda: server.n_descriptors() <= before, "connections stay open")

    def test_a_full_queue(self):
        with Server("--slots", "1", "--queue", "2") as server:
            waiting = [server.connect() for _ in range(3)]
            for c in waiting:
                c.sendall(whole(ask(PICTURE), stream=True, ignore_eos=True, max_tokens=ENDLESS))
            server.wait_for(lambda: server.n_requests() == 3, "not all came")
            reply = server.chat("Hello")
            self.assertEqual((reply.status, reply.json["error"]["type"]), (429, "rate_limit_error"))
            self.assertGreater(int(reply.headers["Retry-After"]), 0)
            time.sleep(3)  # no answer ends: the next end is probably as far away as the beginning
            self.assertGreaterEqual(int(server.chat("Hello").headers["Retry-After"]), 3)
            for c in waiting:
                c.close()

    def ask_from(self, server, address, body):
        """The reply's status, asked from another address of this machine: another client."""
        c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=HANG_S, source_address=(address, 0))
        c.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        reply = c.getresponse()
        reply.read()
        c.close()
        return reply.status

    def test_long_answers_of_one_client_leave_a_slot(self):
        """To others that ask now and then: a short question is answered while both long ones go on."""
        short = chat_body("Hello", max_tokens=1)
        with Server("--slots", "2") as server:
            self.assertEqual(self.ask_from(server, "127.0.0.2", short), 200)
            long = [server.connect() for _ in range(2)]
            for n, c in enumerate(long):
                c.sendall(whole("Hello", ignore_eos=True, max_tokens=ENDLESS, n=16))
                server.wait_for(lambda n=n: server.n_requests() == n + 1, "it does not come")
                server.wait_for(lambda: server.metric("vllm:num_requests_running") >= 1, "it is not answered")
            for _ in range(5):
                self.assertEqual(self.ask_from(server, "127.0.0.2", short), 200)
            server.wait_for(lambda: server.metric("vllm:num_requests_running") == 1, "both long ones are answered")
            self.assertEqual(server.n_requests(), 2)
            for c in long:
                c.close()

    def test_one_client_does_not_fill_the_queue(self):
        with Server("--slots", "1", "--queue", "15") as server:
            held = [server.connect() for _ in range(14)]
            for c in held:
                c.sendall(whole("Hello", stream=True, ignore_eos=True, max_tokens=ENDLESS, n=16))
            server.wait_for(lambda: server.n_requests() == 14, "not all came")
            reply = server.chat("Hello")
            self.assertEqual((reply.status, reply.json["error"]["code"]), (429, "client_queue_full"))
            self.assertGreater(int(reply.headers["Retry-After"]), 0)
            other = socket.create_connection(("127.0.0.1", server.port), source_address=("127.0.0.2", 0))
            other.sendall(whole("Hello", stream=True, ignore_eos=True, max_tokens=ENDLESS))
            server.wait_for(lambda: server.n_requests() == 15, "another client is refused")
            for c in held + [other]:
                c.close()

    def test_too_few_descriptors(self):
        """Said at the start. A port that is no address' own ends the server as soon as it has said it."""
        command = f"ulimit -n 64; exec {SACCADE} serve --quiet --slots 1 --port 0 --host 203.0.113.1"
        run = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=HANG_S, check=False)
        self.assertIn("ulimit -n", run.stderr)

    def test_a_client_that_waits_for_each_answer(self):
        """It never meets its own last request: where only one may be under way, none is refused."""
        with Server("--slots", "1", "--queue", "0") as server:
            kept = http.client.HTTPConnection("127.0.0.1", server.port, timeout=HANG_S)
            for _ in range(100):
                kept.request("POST", "/v1/chat/completions", json.dumps(chat_body("Hello", max_tokens=1)))
                reply = kept.getresponse()
                self.assertEqual((reply.status, reply.read()[:11]), (200, b'{"id":"chat'))
                with server.connect() as c:
                    c.sendall(whole("Hello", max_tokens=1, stream=True))
                    data = b""
                    while b"[DONE]" not in data:
                        piece = c.recv(65536)
                        self.assertTrue(piece and b" 429 " not in piece, data + piece)
                        data += piece
            kept.close()

    def test_a_list_of_uploads_in_pages(self):
        """And all of them again after a restart; two parts 'file' are not one."""
        def part(name, value):
            return (f'--bbb\r\nContent-Disposition: form-data; name="{name}"'
                    + ('; filename="x"' if name == "file" else "") + f"\r\n\r\n{value}\r\n").encode()

        def upload(*parts):
            return server.request("POST", "/v1/files", b"".join(parts) + b"--bbb--\r\n",
                                  {"Content-Type": "multipart/form-data; boundary=bbb"})
        folder = self.path("uploads")
        with Server("--slots", "1", "--upload-dir", folder) as server:
            ids = [upload(part("purpose", p), part("file", "AAA")).json["id"] for p in "abaab"]
            for wrong, param in ((upload(part("file", "AAA"), part("file", "BBB")), "file"),
                                 (upload(part("purpose", "x" * 64), part("file", "AAA")), "purpose"),
                                 (server.get("/v1/files?limit=0"), "limit"), (server.get("/v1/files?order=up"), "order")):
                self.assertEqual((wrong.status, wrong.json["error"]["param"]), (400, param))
            self.assertEqual(server.get("/v1/files?after=file-x").status, 404)
        with Server("--slots", "1", "--upload-dir", folder) as server:
            for order in "asc", "desc":
                got, after = [], ""
                while True:
                    page = server.get(f"/v1/files?limit=2&order={order}{after}").json
                    got += [f["id"] for f in page["data"]]
                    after = "&after=" + page["last_id"]
                    if not page["has_more"]:
                        break
                self.assertEqual((len(got), sorted(got)), (5, sorted(ids)))
            self.assertEqual(len(server.get("/v1/files?purpose=b").json["data"]), 2)
            server.request("DELETE", "/v1/files/" + ids[0])
            self.assertEqual(len(server.get("/v1/files").json["data"]), 4)

    def test_a_full_disk_for_uploads(self):
        """A limit of file sizes stands for the full disk: writing fails half way in the same manner."""
        def body(n):
            return (b"--bbb\r\nContent-Disposition: form-data; name=\"file\"; filename=\"x\"\r\n\r\n" + b"x" * n
                    + b"\r\n--bbb--\r\n")
        kind = {"Content-Type": "multipart/form-data; boundary=bbb"}
        folder = self.path("uploads")
        with Server("--upload-dir", folder, "--uploads-mib", "3") as server:
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
            reply = server.request("POST", "/v1/files", body(2 << 20), kind)
            self.assertEqual((reply.status, reply.json["error"]["code"]), (507, "disk_full"))
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (1 << 40, resource.RLIM_INFINITY))
            self.assertEqual(server.request("POST", "/v1/files", body(2 << 20), kind).status, 200)
            reply = server.request("POST", "/v1/files", body(2 << 20), kind)
            self.assertEqual((reply.status, reply.json["error"]["code"]), (507, "uploads_full"))
            self.assertEqual(len(os.listdir(folder)), 2)  # the one that came whole, and its description


if __name__ == "__main__":
    main()
