#!/usr/bin/env python3
"""Ten thousand open connections: the server holds them all, answers meanwhile, and keeps nothing of them afterwards.

    SACCADE=build/release/saccade tools/check_connections.py [--connections 10000]

Half of them have sent the beginning of a request. When this process may not open as many files, as many as it may."""
import argparse
import contextlib
import resource
import socket
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/serve"))
from server import Server, ask, sample  # noqa: E402

SPARE = 200  # descriptors for all else, here and in the server
FEW = 2      # descriptors of requests that have just been answered


def file_limit():
    """How many descriptors this process and those that it starts may have, raised as far as it goes."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return 1 << 30 if hard == resource.RLIM_INFINITY else hard


def open_many(server, n):
    """The sockets; fewer than n when the system gives no more."""
    sockets = []
    with contextlib.suppress(OSError):
        for i in range(n):
            s = socket.create_connection(("127.0.0.1", server.port), timeout=60)
            if i % 2:
                s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
            sockets.append(s)
    return sockets


def fill(server, n, row):
    """One round; a line about it, and whether all went well."""
    n_files, kib, began = server.n_descriptors(), server.memory_kib(), time.monotonic()
    sockets = open_many(server, n)
    server.wait_for(lambda: server.n_descriptors() >= n_files + len(sockets) - FEW, "the server does not take them all")
    opened, more_kib, began = time.monotonic() - began, server.memory_kib() - kib, time.monotonic()
    right = server.answer(ask(row)) == row["answer"]
    answered = time.monotonic() - began
    for s in sockets:
        s.close()
    server.wait_for(lambda: server.n_descriptors() <= n_files + FEW, "descriptors stay open")
    right = server.answer(ask(row)) == row["answer"] and right
    line = (f"{len(sockets)} connections open after {opened:.1f} s, {more_kib / 1024:.0f} MiB for them; meanwhile "
            f"{'the right' if right else 'a WRONG'} answer in {answered:.2f} s; when they are closed "
            f"{server.n_descriptors() - n_files:+d} descriptors, {(server.memory_kib() - kib) / 1024:+.1f} MiB")
    return line, right and len(sockets) == n


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--connections", type=int, default=10000)
    wanted = parser.parse_args().connections
    n, row, ok = min(wanted, file_limit() - SPARE), sample(video=False), True
    if n < wanted:
        print(f"this process may open {n + SPARE} files: {n} connections instead of {wanted}")
    with Server("--slots", "1", "--connections", n + SPARE, "--receive-seconds", "3600") as server:
        server.answer(ask(row))
        for _ in range(3):
            kib = server.memory_kib()
            line, good = fill(server, n, row)
            print(line)
            ok = ok and good
        grown = server.memory_kib() - kib  # in the last round: what the first took, later ones use again
    if grown > 4096:
        print(f"the last round left {grown} KiB")
    return 0 if ok and grown <= 4096 else 1


if __name__ == "__main__":
    sys.exit(main())
