"""The page in a headless Chromium: a picture, a question, two answers, colours a round, figures, keyboard, phone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline.answer import generate
from paceline.drafters import method
from paceline.sampling import Sampling
from unit.cli.checkpoint import Shelf
from unit.serve.conftest import NAME, Live

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SHOTS = os.environ.get("PACELINE_SCREENSHOTS")  # a directory to keep pictures of the page in
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed (Debian's package chromium)")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="the extra `dev` is not installed")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def opened(browser: Any, live: Live, **how: Any) -> Any:
    page = browser.new_page(**how)
    page.set_default_timeout(60_000)
    page.faults = []
    page.on("console", lambda message: page.faults.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: page.faults.append(str(error)))
    page.goto(live.url)
    page.get_by_text(NAME, exact=True).wait_for()
    return page


def shot(page: Any, name: str) -> None:
    if SHOTS:
        page.screenshot(path=Path(SHOTS) / f"{name}.png", full_page=True)


def asked(page: Any, shelf: Shelf, tokens: int = 60) -> None:
    page.set_input_files("#file", shelf.picture)
    page.locator("#thumbs img").wait_for()
    page.get_by_label("Question").fill("What is it?")
    page.get_by_text("Settings").click()
    page.get_by_label("Tokens at most").fill(str(tokens))


def test_a_question_is_answered_twice_and_alike(browser: Any, live: Live, shelf: Shelf, target: Any) -> None:
    page = opened(browser, live, viewport={"width": 1200, "height": 900})
    asked(page, shelf)
    shot(page, "asked")
    page.get_by_role("button", name="Ask").click()
    page.get_by_text("Identical to plain decoding: yes").wait_for()
    shot(page, "answered")
    parts = [{"type": "image", "image": str(shelf.picture)}, {"type": "text", "text": "What is it?"}]
    wanted = generate(target, method("lookup")(), [{"role": "user", "content": parts}], Sampling(max_new_tokens=60))
    for side in ("drafted", "plain"):
        assert page.locator(f"#{side}").text_content() == wanted.text
        assert page.locator(f"#{side}-tokens").text_content() == str(wanted.n_tokens)
        assert float(page.locator(f"#{side}-pace").text_content()) > 0
    assert page.locator("#drafted-rounds").text_content() == str(wanted.rounds)
    assert float(page.locator("#drafted-tau").text_content()) == pytest.approx(wanted.tau, abs=0.006)
    assert page.locator("#plain-tau").text_content() == "1.00"
    marks = page.locator("#drafted mark")
    assert marks.count() > 1
    assert len(set(marks.evaluate_all("all => all.map(m => m.className)"))) > 1, "a colour a round"
    assert page.locator("#plain mark").count() == 0
    assert page.faults == []
    page.close()


def test_by_keyboard_in_the_dark_on_a_phone(browser: Any, live: Live, shelf: Shelf) -> None:
    page = opened(browser, live, viewport={"width": 360, "height": 740}, color_scheme="dark")
    asked(page, shelf, 24)
    page.get_by_label("Question").focus()
    page.keyboard.press("Control+Enter")
    page.get_by_text("Identical to plain decoding: yes").wait_for()
    shot(page, "phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360, "nothing sticks out"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 19, 24)"
    unnamed = page.evaluate(
        "[...document.querySelectorAll('input, textarea')].filter(e => !e.labels.length).map(e => e.id)"
    )
    assert unnamed == []
    seen = list[str]()
    page.locator("body").evaluate("document.activeElement.blur()")
    for _ in range(12):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.id"))
    assert {"file", "prompt", "go", "drafted", "plain"} <= set(seen)
    page.close()


def test_faults_are_told_and_an_answer_can_be_stopped(browser: Any, live: Live, shelf: Shelf) -> None:
    page = opened(browser, live)
    page.get_by_label("Question").fill("word " * 900)
    page.get_by_role("button", name="Ask").click()
    page.get_by_text("tokens; this model takes").wait_for()
    asked(page, shelf, 400)
    page.get_by_role("button", name="Ask").click()
    page.locator("#drafted mark").first.wait_for()
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("Stopped.").wait_for()
    assert live.idle(20)
    page.close()
