"""The report as a page: what it says first, that texts are only ever texts, and that it is whole without a table."""

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from jaxsim._status import RequestStatus
from jaxsim.report.html import Markup, tag
from jaxsim.report.page import html_report, write_report
from jaxsim.result import Result
from jaxsim.specs import Slo
from tests.metrics.tables import table
from tests.metrics.test_events import events
from tests.report.results import HOSTILE, requests_of, result_of

VOID = {"meta", "br", "link", "hr"}


class Reader(HTMLParser):
    """Checks that elements are closed in order, and collects texts by element."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.texts: dict[str, list[str]] = {}
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, name: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(name)
        if name not in VOID:
            self.open.append(name)

    def handle_endtag(self, name: str) -> None:
        assert self.open.pop() == name

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data.replace("\xa0", " "))


def headline(result: Result) -> tuple[str, str]:
    """The mood of the first sentence, and the sentence."""
    page = html_report(result)
    Reader(page)
    mood, sentence = re.search(r'<h1 class="(.*?)">(.*?)</h1>', page).groups()
    return mood, sentence


@pytest.mark.parametrize(
    ("slo", "expected"),
    [
        ({"ttft_s": {"p90": 60.0}}, ("good", "The SLO is kept.")),
        ({"ttft_s": {"p99": 0.001}, "tpot_s": {"mean": 60}}, ("bad", "The SLO is missed.")),
        ({"attainment": 0.5, "ttft_s": 0.001}, ("bad", "The SLO is missed.")),
    ],
)
def test_the_answer_comes_first(slo: dict, expected: tuple[str, str]) -> None:
    assert headline(result_of(slo=slo)) == expected


def test_answers_that_are_not_certain() -> None:
    mean = result_of().summary["ttft_s"]["mean"]
    assert headline(result_of(slo={"ttft_s": {"mean": mean * 1.001}})) == ("unsure", "The SLO seems to be kept.")
    assert headline(result_of(slo={"ttft_s": {"mean": mean * 0.999}})) == ("bad", "The SLO seems to be missed.")


def test_answers_without_a_promise() -> None:
    mood, sentence = headline(result_of())
    assert mood == "" and sentence.startswith("The P99 of TTFT is ")
    stopped = result_of()
    stopped.summary["seeds_incomplete"] = 1
    assert headline(stopped) == ("bad", "The simulation did not finish.")


def test_a_class_may_miss_what_all_keep() -> None:
    result = result_of(slo={"ttft_s": 60.0}, classes={"chat": Slo(ttft_s=60.0), "batch": Slo(e2e_s=0.001)})
    assert headline(result) == ("bad", "The SLO is missed.")
    assert "batch: E2E P99" in html_report(result)


def test_texts_stay_texts() -> None:
    result = result_of(
        name=HOSTILE, classes={HOSTILE: Slo(), "b": Slo()}, notices=[HOSTILE], input_hashes={HOSTILE: "0"}
    )
    result.summary["warnings"].append(HOSTILE)
    page = html_report(result)
    read = Reader(page)
    assert "script" not in read.seen and "alert" in page and "<b>bold" not in page
    assert HOSTILE in "".join(read.texts["title"])
    assert "http:" not in page and "https:" not in page and "url(" not in page and "@import" not in page


def test_every_section_is_there() -> None:
    page = html_report(result_of(slo={"ttft_s": 1.0}, classes={"a": Slo(), "b": Slo()}), events())
    assert Reader(page).texts["h2"] == [
        "What was promised", "Latencies", "Where the time goes", "Where the tail comes from", "The slowest requests",
        "Classes", "Over time", "Instances", "What arrived", "How this was made",
    ]  # fmt: skip
    assert "KV blocks in use" in page and "Tokens per second" in page
    assert page.count("<svg") == 10


def test_without_a_table_of_requests() -> None:
    read = Reader(html_report(result_of(keep=False)))
    assert read.texts["h2"] == ["Latencies", "How this was made"]
    assert any("kept no table of requests" in text for text in read.texts["p"])


def test_one_seed_of_equal_requests_and_long_runs() -> None:
    equal = table(arrival_s=np.arange(30.0) * 100)
    Reader(html_report(result_of(equal, warmup=0)))
    Reader(html_report(result_of(requests_of(seeds=1, requests=2), warmup=0)))


def test_nothing_completed() -> None:
    lost = table(
        arrival_s=[[0.0, 1.0]], output_tokens=0, instance=-1, status=RequestStatus.REJECTED,
        first_scheduled_s=np.nan, first_token_s=np.nan, finish_s=np.nan,
    )  # fmt: skip
    for slo in ({}, {"ttft_s": 1.0, "attainment": 0.9}):
        assert headline(result_of(lost, slo=slo, warmup=0)) == ("bad", "No request completed.")


def test_slow_requests_are_told_apart() -> None:
    page = html_report(result_of())
    assert page.count("request ") >= 10 and "It waited" in page
    assert re.search(r"was preempted (once|twice|\d times)", page)


def test_file(tmp_path: Path) -> None:
    write_report(result_of(), tmp_path / "report.html")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == html_report(result_of())
    with pytest.raises(OSError):
        write_report(result_of(), tmp_path / "missing" / "report.html")


def test_elements() -> None:
    written = tag("p", "a < b", None, 3, [Markup("<i>"), "90 % of 5 s"], class_="<x>", data_label='"', hidden=None)
    assert written == '<p class="&lt;x&gt;" data-label="&quot;">a &lt; b3<i>90\xa0% of 5\xa0s</p>'
