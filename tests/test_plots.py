"""Pictures say what the table says, on the axes they are given."""

import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from jaxsim.result import Result
from tests.report.results import requests_of, result_of


@pytest.fixture(scope="module")
def result() -> Result:
    return result_of(slo={"ttft_s": {"p99": 1.0}})


def test_cdf(result: Result) -> None:
    ax = result.plot.cdf(("ttft_s", "queue_s"))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["TTFT", "queue"]
    values, shares = ax.lines[0].get_data()
    ttft = result.requests.ttft_s[:, 20:]
    assert np.interp(np.median(ttft), values, shares) == pytest.approx(0.5, abs=0.01)


def test_percentiles(result: Result) -> None:
    ax = result.plot.percentiles("ttft_s")
    assert [label.get_text() for label in ax.get_xticklabels()][:3] == ["P50", "P90", "P99"]
    assert ax.lines[1].get_ydata()[0] == 1.0  # the limit
    nines, values = ax.lines[0].get_data()
    assert np.interp(2, nines, values) == pytest.approx(result.summary["ttft_s"]["p99"], rel=0.02)


@pytest.mark.parametrize(("metric", "phases"), [("ttft_s", 2), ("e2e_s", 3)])
def test_breakdown(result: Result, metric: str, phases: int) -> None:
    ax = result.plot.breakdown(metric)
    assert len(ax.patches) == phases * 4
    mean = sum(bar.get_width() for bar in ax.patches[3::4])
    assert mean >= result.summary[metric]["p99"]


def test_timeline(result: Result) -> None:
    ax = result.plot.timeline(1)
    assert ax.lines[0].get_ydata().max() > 0 and ax.get_xlim()[1] >= np.nanmax(result.requests.finish_s[1])
    with pytest.raises(IndexError):
        result.plot.timeline(4)


def test_tail(result: Result) -> None:
    ax = result.plot.tail("tpot_s")
    assert "requests with TPOT of" in ax.get_xlabel() and len(ax.patches) >= 4


def test_draws_where_it_is_told(result: Result) -> None:
    for draw in (
        result.plot.cdf,
        result.plot.percentiles,
        result.plot.breakdown,
        result.plot.timeline,
        result.plot.tail,
    ):
        ax = Figure().add_subplot()
        assert draw(ax=ax) is ax


@pytest.mark.parametrize("format", ["png", "svg"])
def test_files(result: Result, tmp_path: Path, format: str) -> None:
    written = result.plot.save(tmp_path / "plots", format)
    assert {path.suffix for path in written} == {f".{format}"} and len(written) == 9
    assert all(path.stat().st_size > 3000 for path in written)


def test_unknown_metrics_and_no_requests(result: Result) -> None:
    with pytest.raises(ValueError, match="metric must be one of ttft_s, tpot_s, e2e_s, queue_s, not 'itl_s'"):
        result.plot.percentiles("itl_s")
    with pytest.raises(ValueError, match="kept only its summary"):
        _ = result_of(keep=False).plot


def test_little_to_draw() -> None:
    small = result_of(requests_of(seeds=1, requests=3), warmup=0)
    for draw in (small.plot.cdf, small.plot.percentiles, small.plot.breakdown, small.plot.timeline, small.plot.tail):
        draw()


def test_matplotlib_is_not_loaded_beforehand() -> None:
    import subprocess

    code = "import sys, jaxsim.result; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
