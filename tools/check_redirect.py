#!/usr/bin/env python3
"""A public address that redirects the server's media fetch to a private one, in a network namespace of its own (unshare, ip).

    SACCADE=build/release/saccade tools/check_redirect.py"""
import http.server
import os
import subprocess
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/serve"))
PUBLIC = "93.184.216.34"


class Site(http.server.BaseHTTPRequestHandler):
    """/picture is one; /inside redirects to the same picture on the loopback address, /outside on this one."""

    def do_GET(self):
        self.server.hits.append((self.client_address[0], self.headers["Host"], self.path))
        host = {"/inside": "127.0.0.1", "/outside": PUBLIC}.get(self.path)
        self.send_response(302 if host else 200)
        if host:
            self.send_header("Location", f"http://{host}:{self.server.server_port}/picture")
        body = b"" if host else open("samples/picture0000.png", "rb").read()
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def main():
    if len(sys.argv) == 1:
        setup = f"ip link set lo up && ip addr add {PUBLIC}/32 dev lo && exec {sys.executable} {__file__} inside"
        return subprocess.run(["unshare", "-rn", "sh", "-c", setup], check=False).returncode
    from server import Server, ask, questions
    row = next(r for r in questions() if os.path.basename(r["file"]) == "picture0000.png")
    site = http.server.ThreadingHTTPServer(("0.0.0.0", 0), Site)
    site.hits = []
    threading.Thread(target=site.serve_forever, daemon=True).start()
    ok = True
    with Server("--fetch-domain", "*") as server:
        for path, wanted in ("picture", 200), ("outside", 200), ("inside", 403), ("picture", 200):
            site.hits.clear()
            reply = server.chat(ask(row, f"http://{PUBLIC}:{site.server_port}/{path}"))
            reached = any("127.0.0.1" in host for _, host, _ in site.hits)
            print(f"/{path}: {reply.status}, {len(site.hits)} requests reached the site, {'one' if reached else 'none'} by the private address")
            ok = ok and reply.status == wanted and not reached
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
