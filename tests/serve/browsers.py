"""Chromium by its DevTools protocol and Firefox by WebDriver BiDi, with nothing but Python: what the tests of the page need of them."""
import base64
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import time

START_S = 60
WAIT_S = 120


class WebSocket:
    """The client's side of one connection: texts of JSON."""

    def __init__(self, url):
        host, port, path = re.fullmatch(r"ws://([^:/]+):(\d+)(/.*)?", url).groups()
        self.socket = socket.create_connection((host, int(port)), timeout=WAIT_S)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((f"GET {path or '/'} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                             f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n").encode())
        self.file = self.socket.makefile("rb")
        status = self.file.readline()
        if b" 101 " not in status:
            raise OSError(f"no WebSocket: {status!r}")
        while self.file.readline().strip():
            pass

    def send(self, value):
        data, mask = json.dumps(value).encode(), os.urandom(4)
        n = len(data)
        head = bytes([0x81]) + (bytes([0x80 | n]) if n < 126 else struct.pack("!BH", 0xFE, n) if n < 65536 else struct.pack("!BQ", 0xFF, n))
        masked = int.from_bytes(data, "little") ^ int.from_bytes((mask * (n // 4 + 1))[:n], "little")
        self.socket.sendall(head + mask + masked.to_bytes(n, "little"))

    def receive(self):
        data = b""
        while True:
            first, n = self.file.read(2)
            n &= 0x7F
            if n > 125:
                n = int.from_bytes(self.file.read(2 if n == 126 else 8), "big")
            piece = self.file.read(n)
            if first & 0x0F == 8:
                raise OSError("the browser has closed the connection")
            if first & 0x0F in (0, 1):
                data += piece
                if first & 0x80:
                    return json.loads(data)

    def close(self):
        self.file.close()
        self.socket.close()


class Browser:
    """What both have in common. A page is shown as wide and high as is asked; what it asks of others than the server is in `outside`."""

    def __init__(self, command, profile):
        self.profile = profile
        self.outside, self.errors = [], []
        self.n = 0
        self.log = open(os.path.join(profile, "log"), "w+", encoding="utf-8", errors="replace")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                        env={**os.environ, "HOME": profile, "XDG_RUNTIME_DIR": profile, "TMPDIR": profile, "MOZ_HEADLESS": "1"})

    def wait_for_line(self, pattern):
        end = time.monotonic() + START_S
        while time.monotonic() < end and self.process.poll() is None:
            with open(self.log.name, encoding="utf-8", errors="replace") as f:
                found = re.search(pattern, f.read())
            if found:
                return found.group(1)
            time.sleep(0.05)
        raise OSError(f"{self.name} does not start")

    def call(self, method, **params):
        self.n += 1
        self.line.send({"id": self.n, "method": method, "params": params, **self.address})
        while True:
            reply = self.line.receive()
            if reply.get("id") == self.n:
                if "error" in reply:
                    raise AssertionError(f"{self.name}: {method}: {reply['error']} {reply.get('message', '')}")
                return reply["result"]
            self.event(reply.get("method"), reply.get("params"))

    def saw_request(self, url):
        if not url.startswith((self.origin, self.origin.replace("127.0.0.1", "localhost"), "data:", "blob:", "about:", "chrome:", "resource:")):
            self.outside.append(url)

    def wait(self, expression, what, seconds=WAIT_S):
        """Until the expression is true."""
        end = time.monotonic() + seconds
        while True:
            value = self.run(f"return !!({expression})")
            if value:
                return
            if time.monotonic() > end:
                raise AssertionError(f"{self.name}: {what}: not within {seconds} s")
            time.sleep(0.05)

    def close(self):
        try:
            self.line.close()
        except (OSError, AttributeError):
            pass
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.profile, ignore_errors=True)


class Chromium(Browser):
    name = "Chromium"
    binaries = ("chromium", "google-chrome", "google-chrome-stable", "chrome")
    address = {}

    def __init__(self, binary, origin):
        self.origin = origin
        profile = tempfile.mkdtemp(prefix="saccade-chromium-")
        super().__init__([binary, "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
                          "--disable-background-networking", "--disable-component-update", "--disable-sync", "--mute-audio",
                          "--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream",
                          "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"], profile)
        try:
            self.line = WebSocket(self.wait_for_line(r"DevTools listening on (ws://\S+)"))
            target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
            session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
            self.address = {"sessionId": session}
            for domain in "Page", "Runtime", "Network", "Log":
                self.call(domain + ".enable")
        except BaseException:
            self.close()
            raise

    def event(self, method, params):
        if method == "Network.requestWillBeSent":
            self.saw_request(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(params["exceptionDetails"].get("exception", {}).get("description", "an error"))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error" and "/favicon.ico" not in params["entry"].get("url", ""):
            self.errors.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, scheme):
        """As the system of the reader has it."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'", "the page is not loaded")

    def run(self, code, *values):
        """The value of an async function's body; it finds `values` in `args`."""
        reply = self.call("Runtime.evaluate", expression=f"(async args => {{ {code} }})({json.dumps(values)})", awaitPromise=True, returnByValue=True,
                          userGesture=True)
        if "exceptionDetails" in reply:
            raise AssertionError(f"{self.name}: {reply['exceptionDetails']['exception'].get('description')}: {code[:200]}")
        return reply["result"].get("value")

    def press(self, *keys):
        codes = {"Enter": ("Enter", 13, "\r"), "Tab": ("Tab", 9, ""), "Escape": ("Escape", 27, "")}
        for key in keys:
            name, code, text = codes.get(key, (key, ord(key[0].upper()), key))
            down = {"type": "keyDown" if text else "rawKeyDown", "key": name, "windowsVirtualKeyCode": code, "text": text}
            self.call("Input.dispatchKeyEvent", **down)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=name, windowsVirtualKeyCode=code)

    def picture(self):
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])


class Firefox(Browser):
    name = "Firefox"
    binaries = ("firefox-esr", "firefox")
    address = {}

    def __init__(self, binary, origin):
        self.origin = origin
        profile = tempfile.mkdtemp(prefix="saccade-firefox-")
        settings = {"media.navigator.streams.fake": True, "media.navigator.permission.disabled": True, "app.update.enabled": False,
                    "datareporting.policy.dataSubmissionEnabled": False, "browser.shell.checkDefaultBrowser": False, "remote.active-protocols": 1, "ui.useOverlayScrollbars": 1,
                    "toolkit.telemetry.enabled": False, "network.captive-portal-service.enabled": False, "network.connectivity-service.enabled": False}
        with open(os.path.join(profile, "user.js"), "w", encoding="ascii") as f:
            for name, value in settings.items():
                f.write(f"user_pref({json.dumps(name)}, {json.dumps(value)});\n")
        super().__init__([binary, "--headless", "--no-remote", "--profile", profile, "--remote-debugging-port", "0", "about:blank"], profile)
        try:
            self.line = WebSocket(self.wait_for_line(r"WebDriver BiDi listening on (ws://\S+)") + "/session")
            self.call("session.new", capabilities={})
            self.call("session.subscribe", events=["network.beforeRequestSent", "log.entryAdded"])
            self.context = self.call("browsingContext.getTree")["contexts"][0]["context"]
        except BaseException:
            self.close()
            raise

    def event(self, method, params):
        if method == "network.beforeRequestSent":
            self.saw_request(params["request"]["url"])
        elif method == "log.entryAdded" and params["level"] == "error":
            self.errors.append(params["text"])

    def size(self, width, height):
        self.call("browsingContext.setViewport", context=self.context, viewport={"width": width, "height": height}, devicePixelRatio=1)

    def open(self, url):
        self.call("browsingContext.navigate", context=self.context, url=url, wait="complete")

    def run(self, code, *values):
        reply = self.call("script.evaluate", expression=f"(async args => JSON.stringify(await (async () => {{ {code} }})()))({json.dumps(values)})",
                          target={"context": self.context}, awaitPromise=True, userActivation=True)
        if reply["type"] != "success":
            raise AssertionError(f"{self.name}: {reply['exceptionDetails']['text']}: {code[:200]}")
        value = reply["result"].get("value")
        return json.loads(value) if value else None

    def press(self, *keys):
        codes = {"Enter": "\ue006", "Tab": "\ue004", "Escape": "\ue00c"}
        actions = [{"type": kind, "value": codes.get(k, k)} for k in keys for kind in ("keyDown", "keyUp")]
        self.call("input.performActions", context=self.context, actions=[{"type": "key", "id": "keys", "actions": actions}])

    def picture(self):
        return base64.b64decode(self.call("browsingContext.captureScreenshot", context=self.context)["data"])


def find(kind):
    """The path of a browser that is installed, or None."""
    return next(filter(None, map(shutil.which, kind.binaries)), None)
