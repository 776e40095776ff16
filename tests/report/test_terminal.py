"""The table in the terminal: everything is there, at any width, in colour only for terminals."""

import dataclasses
import io

import numpy as np
import pytest
from rich.console import Console

from jaxsim._status import RequestStatus
from jaxsim.metrics import ServiceClass
from jaxsim.metrics.request_table import STAMPS
from jaxsim.report.figures import figure
from jaxsim.report.terminal import print_summary
from jaxsim.specs import Slo
from tests.metrics.tables import accumulated, random_table, table


def _printed(summary: dict, **settings) -> str:
    file = io.StringIO()
    print_summary(summary, Console(file=file, highlight=False, **settings))
    return file.getvalue()


@pytest.fixture
def summary() -> dict:
    requests = random_table(np.random.default_rng(0), seeds=8, requests=100)
    slo = Slo(ttft_s={"p90": 0.001, "mean": 60}, itl_s={"p50": 10}, attainment=0.5)
    return accumulated(requests, slo=slo, warmup_requests=10).summary()


def test_wide(summary: dict) -> None:
    text = _printed(summary, width=100)
    for word in ("mean", "P50", "P99", "TTFT (ms)", "TPOT (ms)", "ITL (ms)", "E2E (s)", "Queue (ms)"):
        assert word in text
    assert "TTFT P90 ≤ 1 ms: missed:" in text
    assert "TTFT mean ≤ 60 s: met:" in text
    assert "ITL P50 ≤ 10 s: met:" in text
    assert "Attainment ≥ 50 %: " in text
    assert "800: 800 completed, 80 of warm-up not measured" in text
    assert "95 %, from 8 seeds" in text
    assert figure(summary["ttft_s"]["p99"] * 1e3) in text


@pytest.mark.parametrize("width", [30, 40, 60, 80, 200])
def test_any_width_without_colour_or_lost_text(summary: dict, width: int) -> None:
    text = _printed(summary, width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "\x1b" not in text and "…" not in text
    assert figure(summary["ttft_s"]["mean"] * 1e3) in text


def test_colour_in_a_terminal(summary: dict) -> None:
    assert "\x1b[" in _printed(summary, width=80, force_terminal=True, color_system="standard")


def test_plain_standard_output(summary: dict, capsys: pytest.CaptureFixture[str]) -> None:
    print_summary(summary)
    text = capsys.readouterr().out
    assert "TTFT" in text and "\x1b" not in text


def test_nothing_known_is_a_dash_and_warnings_are_literal() -> None:
    requests = table(
        arrival_s=[[0.0, 1.0]], output_tokens=0, instance=-1, status=RequestStatus.REJECTED,
        first_scheduled_s=np.nan, first_token_s=np.nan, finish_s=np.nan,
    )  # fmt: skip
    summary = accumulated(requests, slo=Slo(ttft_s=1.0, tpot_s={"mean": 1.0})).summary()
    summary["kv_utilisation"] = None
    summary["warnings"].append("a [bold]literal[/bold] text")
    for width in (40, 100):
        text = " ".join(_printed(summary, width=width).split())
        assert "-" in text and "unlimited" in text
        assert "nothing measured" in text
    assert "did not complete" in text and "a [bold]literal[/bold] text" in text
    assert "2 of 2 requests rejected" in text
    assert "Intervals" in text and "none" in text


def test_handover_and_preemptions() -> None:
    """A second from asking for memory to landing, and preemptions that matter."""
    plain = random_table(np.random.default_rng(0), seeds=4, requests=100)
    stamps = {name: plain.first_token_s + part for part, name in enumerate(STAMPS)}
    requests = dataclasses.replace(plain, preemptions=plain.preemptions + (plain.request % 4 == 0), **stamps)
    slo = Slo(ttft_s={"p99": 1.0}, ttft_includes_transfer=True)
    summary = accumulated(requests, handover=True, slo=slo).summary()
    text = " ".join(_printed(summary, width=120).split())
    for word in ("TTFT with transfer (s)", "queue for prefill", "wait for the link (s) 1.000", "queue for decode (s)"):
        assert word in text
    assert "TTFT with transfer P99 ≤ 1 s: missed:" in text
    assert "Preemptions 100 (" in text and ", of 25.00 % (" in text
    assert "25 % of requests were preempted for want of KV memory, of which 50 % is in use on average, and" in text


def test_classes() -> None:
    requests = random_table(np.random.default_rng(0), seeds=4, requests=100)
    requests = dataclasses.replace(requests, class_index=(requests.request % 4 == 0).astype(np.int32))
    classes = (ServiceClass("[chat]", Slo(ttft_s=1e-6)), ServiceClass("batch", Slo()))
    text = " ".join(_printed(accumulated(requests, classes=classes, slo=Slo()).summary(), width=100).split())
    assert "Classes [chat]: 75.00 % of requests, attainment 0 % (" in text
    assert "batch: 25.00 % of requests, TTFT P99 " in text
