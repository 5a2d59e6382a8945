"""Chromium without a window, driven over its own protocol: pages are opened, keys pressed, pictures taken."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome") or ""
needs_browser = pytest.mark.skipif(
    not CHROMIUM, reason="no chromium in PATH: install Debian's package chromium"
)
_FLAGS = (
    "--headless=new",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--mute-audio",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
    "--remote-allow-origins=*",
)
_SECONDS = 15.0


class Browser:
    """One process of Chromium, with as many tabs as tests want."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._number = 0
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str = "", /, **given: Any) -> Any:
        self._number += 1
        asked = {
            "id": self._number,
            "method": method,
            "params": given,
            **({"sessionId": session} if session else {}),
        }
        self._connection.send(json.dumps(asked))
        while True:
            told = json.loads(self._connection.recv(timeout=_SECONDS))
            if told.get("id") == self._number:
                if "error" in told:
                    raise AssertionError(f"{method}: {told['error']}")
                return told["result"]
            self.events.append(told)

    def drain(self) -> None:
        self.call("Browser.getVersion")

    def tab(self) -> Tab:
        """In a profile of its own: no cookie is shared."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Tab(self, session, context, target)


class Tab:
    """One page."""

    def __init__(self, browser: Browser, session: str, context: str, target: str) -> None:
        self.browser, self._session, self._context, self._target = browser, session, context, target
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")
        self.size(1280)

    def _call(self, method: str, /, **given: Any) -> Any:
        return self.browser.call(method, self._session, **given)

    def size(self, width: int, height: int = 900) -> None:
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def scheme(self, name: str) -> None:
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def bypass_policy(self) -> None:
        """For scripts of tests: the policy of the page lets none in."""
        self._call("Page.setBypassCSP", enabled=True)

    def open(self, url: str) -> None:
        self._call("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        told = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in told:
            raise AssertionError(told["exceptionDetails"])
        return told["result"].get("value")

    def until(self, script: str, seconds: float = _SECONDS) -> Any:
        """Waits until the script gives something true."""
        end = time.monotonic() + seconds
        while True:
            try:
                if (found := self.run(f"!!({script})")) or time.monotonic() > end:
                    assert found, f"not within {seconds} s: {script}"
                    return found
            except AssertionError:
                if time.monotonic() > end:
                    raise
            time.sleep(0.03)

    def text(self) -> str:
        return str(self.run("document.body.innerText"))

    def press(self, key: str) -> None:
        codes = {"Enter": 13, "Escape": 27, "Tab": 9}
        text = key if len(key) == 1 else "\r" if key == "Enter" else ""
        common: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": codes.get(key, ord(key[0].upper()))}
        self._call("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text else {}))
        self._call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text: str) -> None:
        self._call("Input.insertText", text=text)

    def click(self, selector: str) -> None:
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def picture(self, file: Path, *, whole: bool = True) -> None:
        shot = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        if whole:
            box = self._call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": box["width"], "height": min(box["height"], 6000), "scale": 1}
            shot = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(shot["data"]))

    def faults(self) -> list[str]:
        """What the console and the policy of the page complained about."""
        self.browser.drain()
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self._session:
                continue
            given = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(given["exceptionDetails"]))
            if event["method"] == "Log.entryAdded" and given["entry"]["level"] == "error":
                found.append(f"{given['entry']['text']} {given['entry'].get('url', '')}")
            if event["method"] == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning"):
                found.append(str(given["args"]))
        return found

    def hosts(self) -> set[str]:
        """All that the page asked."""
        self.browser.drain()
        asked = set()
        for event in self.browser.events:
            if event.get("sessionId") == self._session and event["method"] == "Network.requestWillBeSent":
                url = event["params"]["request"]["url"]
                if "://" in url:
                    asked.add(url.split("://", 1)[1].split("/", 1)[0])
        return asked

    def close(self) -> None:
        self.browser.call("Target.disposeBrowserContext", browserContextId=self._context)


@contextmanager
def chromium() -> Iterator[Browser]:
    with tempfile.TemporaryDirectory(prefix="segue-browser-", ignore_cleanup_errors=True) as folder:
        flags = [*_FLAGS, f"--user-data-dir={folder}", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        process = subprocess.Popen(  # noqa: S603 - a browser of this machine
            [CHROMIUM, *flags, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            port = Path(folder, "DevToolsActivePort")
            end = time.monotonic() + 30
            while not (port.exists() and port.read_text().count("\n")):
                assert process.poll() is None and time.monotonic() < end, "chromium does not start"
                time.sleep(0.05)
            number, path = port.read_text().splitlines()[:2]
            with connect(
                f"ws://127.0.0.1:{number}{path}", max_size=1 << 28, open_timeout=_SECONDS
            ) as connection:
                yield Browser(connection)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)
