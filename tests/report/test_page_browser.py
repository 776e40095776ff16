"""The report in a real browser: it renders, wide and narrow, light and dark, without errors and without a network."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jaxsim.report.page import write_report
from jaxsim.specs import Slo
from tests import browser
from tests.metrics.test_events import events
from tests.report.results import HOSTILE, result_of

PHONE, DESK = 380, 1100


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    if os.environ.get("JAXSIM_NO_BROWSER"):
        pytest.skip("JAXSIM_NO_BROWSER is set: no page was looked at")
    path = browser.find()
    assert path, browser.MISSING
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    many = {f"{HOSTILE} {'long' * 30}": Slo(ttft_s=1.0), "batch": Slo()}
    results = {
        "plain": (result_of(slo={"ttft_s": {"p99": 60.0}, "tpot_s": {"mean": 60.0}}), events()),
        "hostile": (result_of(name=f"{HOSTILE} {'word' * 40}", classes=many, slo={"ttft_s": 0.01}), None),
        "summary": (result_of(keep=False), None),
    }
    for name, (result, batches) in results.items():
        write_report(result, folder / f"{name}.html", batches)
    return {name: folder / f"{name}.html" for name in results}


@pytest.mark.parametrize(
    ("width", "scheme"), [(PHONE, "light"), (PHONE, "dark"), (760, "light"), (DESK, "light"), (DESK, "dark")]
)
def test_renders(chromium: Any, pages: dict[str, Path], width: int, scheme: str) -> None:
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for name, path in pages.items():
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{name} scrolls sideways"
        for mark in page.query_selector_all("h1, h2, figure, .tile, td"):
            box = mark.bounding_box()
            assert box and box["width"] > 20 and box["x"] >= 0 and box["x"] + box["width"] <= width, name
    assert said == []
    assert asked == [path.as_uri() for path in pages.values()]
    background, text = page.evaluate("['backgroundColor', 'color'].map(name => getComputedStyle(document.body)[name])")
    dark = _lightness(background) < 0.3
    assert dark == (scheme == "dark") and abs(_lightness(background) - _lightness(text)) > 0.6
    context.close()


def test_charts_have_lines_inside_their_frames(chromium: Any, pages: dict[str, Path]) -> None:
    page = chromium.new_page(viewport={"width": DESK, "height": 900})
    page.goto(pages["plain"].as_uri())
    boxes = page.evaluate(
        """[...document.querySelectorAll('svg')].map(svg => [svg.getBoundingClientRect(),
        ...[...svg.querySelectorAll('path, text, circle, rect')].map(part => part.getBoundingClientRect())]
        .map(box => [box.left, box.top, box.right, box.bottom]))"""
    )
    assert len(boxes) == 10
    for frame, *parts in boxes:
        assert parts
        for left, top, right, bottom in parts:
            assert left >= frame[0] - 2 and top >= frame[1] - 2 and right <= frame[2] + 2 and bottom <= frame[3] + 2
    page.close()


def test_prints_in_dark_on_white_with_the_scenario(chromium: Any, pages: dict[str, Path]) -> None:
    page = chromium.new_page(viewport={"width": 760, "height": 900}, color_scheme="dark")
    page.goto(pages["plain"].as_uri())
    page.emulate_media(media="print")
    assert _lightness(page.evaluate("getComputedStyle(document.body).backgroundColor")) == 1
    assert page.query_selector("pre").bounding_box()["height"] > 100
    assert len(page.pdf(format="A4")) > 20_000
    page.close()


def _lightness(colour: str) -> float:
    return sum(int(part) for part in colour.partition("(")[2].rstrip(")").split(",")[:3]) / (3 * 255)
