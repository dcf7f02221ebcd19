#!/usr/bin/env python3
"""A real Prometheus scrapes a server under load: it must have nothing to warn of, and find every metric that docs/server.md names.

    SACCADE=build/release/saccade tools/check_prometheus.py [--seconds 15]      (package prometheus)"""
import argparse
import json
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/serve"))
from server import Server, ask, questions  # noqa: E402

CONFIG = """
global: {scrape_interval: 1s}
scrape_configs:
- job_name: saccade
  static_configs: [{targets: ['127.0.0.1:%d']}]
"""


def documented():
    """The names in the tables of the chapter on metrics, without their labels."""
    chapter = Path("docs/server.md").read_text(encoding="utf-8").split("\n## Metrics\n")[1].split("\n## ")[0]
    first_columns = "\n".join(line.split("|")[1] for line in chapter.splitlines() if line.startswith("| `"))
    return set(re.findall(r"`([a-z0-9_:]+)(?:\{[a-z_,]+\})?`", first_columns))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Prometheus:
    def __init__(self, folder, target):
        self.url = f"http://127.0.0.1:{free_port()}"
        config = Path(folder, "prometheus.yml")
        config.write_text(CONFIG % target, encoding="ascii")
        self.process = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
                                         f"--web.listen-address={self.url[7:]}", "--log.level=warn"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def get(self, path, **query):
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=30) as reply:
            return json.load(reply)["data"]

    def value(self, query):
        """Of the one series; None while there is none, or no Prometheus yet."""
        try:
            found = self.get("query", query=query)["result"]
        except OSError:
            return None
        return float(found[0]["value"][1]) if found else None

    def end(self):
        """The warnings and errors that it wrote, but for the one about this signal."""
        self.process.terminate()
        return [line for line in self.process.communicate()[1].splitlines() if "Received SIGTERM" not in line]


def load(server, seconds, clients=4):
    """The number of wrong answers."""
    rows, end, wrong = [r for r in questions() if r["n_frames"] <= 16], time.monotonic() + seconds, []

    def client(k):
        while time.monotonic() < end:
            row = rows[k % len(rows)]
            if server.answer(ask(row)) != row["answer"]:
                wrong.append(row)
            k += 1
    threads = [threading.Thread(target=client, args=[k]) for k in range(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return len(wrong)


def check(server, prometheus, seconds):
    """What is wrong, as lines."""
    server.wait_for(lambda: prometheus.value("up") == 1, "Prometheus does not reach the server")
    wrong = load(server, seconds)
    tokens = server.metric("vllm:generation_tokens_total")
    server.wait_for(lambda: prometheus.value("vllm:generation_tokens_total") == tokens, "the last figures are not scraped")
    scraped = {name for name in prometheus.get("label/__name__/values") if ":" in name}
    bases = scraped | {re.sub("_(count|sum|bucket)$", "", name) for name in scraped}
    named, target = documented(), prometheus.get("targets")["activeTargets"][0]
    failed = prometheus.value("count_over_time(up[1h]) - sum_over_time(up[1h])")
    print(f"{prometheus.value('count_over_time(up[1h])'):.0f} scrapes, {failed:.0f} failed; {len(scraped)} names of series, "
          f"{len(named)} metrics named in the docs; {tokens:.0f} tokens answered meanwhile")
    lines = [f"{wrong} wrong answers"] if wrong else []
    lines += [f"named in the docs, not scraped: {name}" for name in sorted(named - bases)]
    lines += [f"scraped, not named in the docs: {name}" for name in sorted(scraped) if name not in named
              and re.sub("_(count|sum|bucket)$", "", name) not in named]
    if failed or target["health"] != "up" or target["lastError"]:
        lines.append(f"the last scrape: {target['health']}, {target['lastError']!r}")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=15)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder, Server("--slots", "2") as server:
        prometheus = Prometheus(folder, server.port)
        try:
            lines = check(server, prometheus, seconds)
        finally:
            said = prometheus.end()
    lines += [f"Prometheus: {line}" for line in said]
    print("\n".join(lines) if lines else "no warning, no metric missing")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
