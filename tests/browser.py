"""A headless Chromium, driven over its DevTools protocol: pages opened, what went wrong noted.

Needs a Chromium that is installed (`find`) and websocket-client; nothing is downloaded.
"""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import websocket

SECONDS = 60  # without an answer
# QUIC off and no traffic of the browser's own: a test talks to this machine alone.
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update --disable-dev-shm-usage "
    "--hide-scrollbars --remote-debugging-port=0"
).split()


def find() -> str | None:
    """The program, under one of its usual names."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for path in map(shutil.which, names) if path and _starts(path)), None)


def _starts(program: str) -> bool:
    """Whether it is a browser, and not a stub that tells how to install one."""
    asked = subprocess.run([program, "--version"], capture_output=True, check=False)
    return asked.returncode == 0


class Page:
    """One tab."""

    def __init__(self, address: str) -> None:
        self._socket = websocket.create_connection(address, timeout=SECONDS, suppress_origin=True)
        self._numbers = itertools.count(1)
        self._events: list[dict[str, Any]] = []
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call("Network.setCacheDisabled", cacheDisabled=True)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Answer to one command of the protocol."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == number:
                assert "error" not in message, (method, message["error"])
                return message["result"]
            self._events.append(message)

    def resize(self, width: int, *, dark: bool = False) -> None:
        """A window of that width in CSS pixels; below 500 it is a phone's."""
        phone = width < 500
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": phone}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, url: str) -> None:
        """Load a page to its end; `requests` and `problems` then speak of this page."""
        self._events.clear()
        self.call("Page.navigate", url=url)
        self._wait("Page.loadEventFired")

    def run(self, expression: str) -> Any:
        """Value of JavaScript, awaited where it is a promise."""
        done = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    @property
    def requests(self) -> list[str]:
        """Addresses that the page asked for."""
        return [event["request"]["url"] for event in self._of("Network.requestWillBeSent")]

    @property
    def problems(self) -> list[str]:
        """Failed requests, exceptions, and whatever the console calls an error or a warning."""
        answers = [event["response"] for event in self._of("Network.responseReceived")]
        said = self._of("Runtime.consoleAPICalled")
        logged = [event["entry"] for event in self._of("Log.entryAdded")]
        return [
            *(event["errorText"] for event in self._of("Network.loadingFailed")),
            *(f"{a['status']} {a['url']}" for a in answers if a["status"] >= 400),
            *(str(event["exceptionDetails"]) for event in self._of("Runtime.exceptionThrown")),
            *(str(event["args"]) for event in said if event["type"] in ("error", "warning")),
            *(entry["text"] for entry in logged if entry["level"] in ("error", "warning")),
        ]

    def _of(self, method: str) -> list[dict[str, Any]]:
        return [event["params"] for event in self._events if event["method"] == method]

    def _wait(self, method: str) -> None:
        limit = time.monotonic() + SECONDS
        while not self._of(method):
            assert time.monotonic() < limit, f"no {method} within {SECONDS} s"
            self._events.append(json.loads(self._socket.recv()))


@contextmanager
def launched(program: str) -> Iterator[Page]:
    """A fresh browser with one tab; its profile is deleted afterwards."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield Page(_address(process, Path(profile, "DevToolsActivePort")))
        finally:
            process.terminate()
            process.wait(timeout=SECONDS)


def _address(process: subprocess.Popen[bytes], port: Path) -> str:
    """Where the tab listens, once the browser has written its port down."""
    limit = time.monotonic() + SECONDS
    while not (port.exists() and port.read_text().count("\n")):
        assert process.poll() is None, f"the browser ended with status {process.returncode}"
        assert time.monotonic() < limit, f"the browser did not start within {SECONDS} s"
        time.sleep(0.05)
    number = port.read_text().split()[0]
    with urllib.request.urlopen(f"http://127.0.0.1:{number}/json/list", timeout=SECONDS) as answer:
        tabs = json.load(answer)
    return next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
