"""A report's page in a browser: nothing leaves the page, it fits a phone, its charts are drawn, it is dark where the system is, and
it can be printed. Chromium is driven by its own protocol; screenshots are left in the test's folder.

    browser_test.py CHROMIUM
"""

import asyncio
import base64
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

import aiohttp

sys.path.insert(0, str(pathlib.Path(os.environ["DDPM_SOURCE_DIR"]) / "tests" / "support"))
from ddpm_run import ddpm, make_dataset, write_config  # noqa: E402

CHROMIUM = sys.argv.pop(1)
WORK = pathlib.Path.cwd()
TIMEOUT_S = 60
LONG = "era5_downscaling_edm_bs256_lr2e4_with_a_name_that_no_phone_is_wide_enough_for"


class Tab:
    """One page of the browser, and what it has asked of the network."""

    def __init__(self, socket):
        self.socket, self.number, self.requests, self.loaded = socket, 0, [], False

    async def next(self):
        message = json.loads((await self.socket.receive(timeout=TIMEOUT_S)).data)
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        self.loaded = self.loaded or message.get("method") == "Page.loadEventFired"
        return message

    async def call(self, method, **parameters):
        self.number += 1
        await self.socket.send_json({"id": self.number, "method": method, "params": parameters})
        while True:
            message = await self.next()
            if message.get("id") == self.number:
                assert "error" not in message, message
                return message["result"]

    async def value(self, expression):
        answer = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return answer["result"]["value"]

    async def open(self, path):
        await self.call("Network.enable")
        await self.call("Page.enable")
        await self.call("Page.navigate", url=path.as_uri())
        while not self.loaded:
            await self.next()

    async def resize(self, width):
        await self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        await asyncio.sleep(0.5)  # charts follow the width

    async def screenshot(self, name):
        shot = await self.call("Page.captureScreenshot", captureBeyondViewport=True)
        (WORK / name).write_bytes(base64.b64decode(shot["data"]))


@contextlib.asynccontextmanager
async def opened(path):
    profile = WORK / "profile"
    shutil.rmtree(profile, ignore_errors=True)
    browser = subprocess.Popen(
        [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
         "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        end = time.monotonic() + TIMEOUT_S
        active = profile / "DevToolsActivePort"
        while not active.exists() or len(active.read_text().split()) < 2:
            assert time.monotonic() < end and browser.poll() is None, "the browser does not start"
            await asyncio.sleep(0.1)
        port = active.read_text().split()[0]
        async with aiohttp.ClientSession() as session:
            async with session.put(f"http://127.0.0.1:{port}/json/new?about:blank") as answer:
                target = await answer.json()
            async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                tab = Tab(socket)
                await tab.open(path)
                yield tab
    finally:
        os.killpg(browser.pid, signal.SIGKILL)
        browser.wait()


class Browser(unittest.IsolatedAsyncioTestCase):
    @classmethod
    def setUpClass(cls):
        dataset, held_out = make_dataset(WORK / "squares"), make_dataset(WORK / "held-out", 12)
        runs = [WORK / "first", WORK / LONG]
        for run in runs:
            shutil.rmtree(run, ignore_errors=True)
            ddpm("train", write_config(
                WORK / "run.toml", run, dataset, train={"steps": 12}, data={"validation": str(held_out)}, validation={"every_steps": 2},
                sample={"every_steps": 6, "count": 4, "scheduler": "ddim", "steps": 2}, logging={"every_steps": 1, "norms": True},
            ))  # fmt: skip
            ddpm("sample", "--model", run, "--steps", 2, "--count", 12, "--output", WORK / "drawn.npy")
            ddpm("eval", "samples", WORK / "drawn.npy", "--against", WORK / "drawn.npy", "--data", dataset,
                 "--output", run / "evaluation" / "samples.json")  # fmt: skip
        cls.page = WORK / "report.html"
        ddpm("report", *runs, "--output", cls.page)
        cls.charts = len(json.loads(ddpm("report", *runs, "--json").stdout)["charts"])

    async def test_a_page_asks_for_nothing_and_draws_its_charts(self):
        async with opened(self.page) as tab:
            await tab.resize(1280)
            await tab.screenshot("wide.png")
            self.assertEqual(await tab.value("document.querySelectorAll('#charts .uplot canvas').length"), self.charts)
            await tab.value("document.querySelectorAll('details').forEach((one) => { one.open = true; }); 0")
            self.assertEqual({url for url in tab.requests if not url.startswith(("file:", "data:"))}, set())

    async def test_nothing_is_wider_than_the_screen(self):
        async with opened(self.page) as tab:
            for width in (400, 768, 1280):
                await tab.resize(width)
                self.assertLessEqual(await tab.value("document.documentElement.scrollWidth"), width)
                wide = await tab.value(
                    "Array.from(document.querySelectorAll('#charts canvas')).filter((one) => one.clientWidth > innerWidth).length")
                self.assertEqual(wide, 0, f"charts at {width}")
            await tab.resize(400)
            await tab.screenshot("phone.png")

    async def test_it_is_dark_where_the_system_is(self):
        ground = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number).reduce((a, b) => a + b)"
        async with opened(self.page) as tab:
            await tab.resize(1280)
            light = await tab.value(ground)
            await tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
            self.assertLess(await tab.value(ground), 150)
            self.assertGreater(light, 600)
            await asyncio.sleep(0.5)
            await tab.screenshot("dark.png")

    async def test_it_can_be_printed(self):
        async with opened(self.page) as tab:
            printed = base64.b64decode((await tab.call("Page.printToPDF", preferCSSPageSize=True))["data"])
        self.assertTrue(printed.startswith(b"%PDF"))
        (WORK / "printed.pdf").write_bytes(printed)
        pages = printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page ")
        self.assertLess(pages, 30)


if __name__ == "__main__":
    unittest.main()
