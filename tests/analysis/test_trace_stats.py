"""Statistics of traces and fits to them, against SciPy and against processes whose truth is known."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from jaxsim.analysis import trace_fits
from jaxsim.analysis.trace_describe import describe_trace
from jaxsim.analysis.trace_fit import fit_trace
from jaxsim.analysis.trace_stats import (
    counts_per_window,
    dispersion,
    ks_distance,
    prefix_sharing,
    rank_correlation,
    telling,
)
from jaxsim.config.io import load_scenario, parse_scenario
from jaxsim.workload import Synthetic, Trace
from jaxsim.workload import arrivals as a
from jaxsim.workload import lengths as n
from jaxsim.workload.joint import Correlated, Pairs

LATENCY = {"kind": "linear", "base_s": 0.01}
CLUSTER = {"instances": [{"latency": LATENCY, "scheduler": {"kind": "vllm_v1", "async_scheduling": False}}]}
LOGNORMAL = n.Lognormal(median=400.0, sigma=0.8, min=8, max=4096)
OUTPUT = n.Lognormal(median=150.0, sigma=0.8, min=2, max=2048)


def test_ks_and_rank_correlation_are_scipys():
    random = np.random.default_rng(1)
    first, second = random.integers(0, 20, 500), random.integers(0, 22, 700)
    assert ks_distance(first, second) == pytest.approx(stats.ks_2samp(first, second).statistic, abs=1e-12)
    assert rank_correlation(first, second[:500]) == pytest.approx(stats.spearmanr(first, second[:500]).statistic)
    assert rank_correlation(first, np.ones(500)) == 0.0


def test_dispersion_of_known_counts():
    arrival_s = np.array([5.0, 5.1, 5.2, 6.5, 8.1, 8.5, 9.0])  # 3, 1, 0, 2 in windows of 1 s; the last is an edge
    assert counts_per_window(arrival_s, 1.0).tolist() == [3, 1, 0, 2]
    assert dispersion(arrival_s, 1.0) == pytest.approx(np.var([3, 1, 0, 2], ddof=1) / 1.5)
    assert np.isnan(dispersion(arrival_s, 10.0))
    assert telling((0.1, 1.0, 10.0, 100.0), 2000, 200.0) == [1.0, 10.0]


def test_prefix_sharing_counts_leading_blocks_only():
    blocks = [("a", "b"), ("a", "c"), ("x", "b"), ("a", "b", "d"), ()]
    shared = prefix_sharing(blocks, np.array([1000, 600, 700, 1100, 5]), 512)
    assert shared.shared_token_share == pytest.approx((512 + 1024) / 3405)
    assert (shared.sharing_request_share, shared.distinct_blocks) == (2 / 5, 5)


def test_length_fits_find_their_own_parameters():
    workload = Synthetic(num_requests=5000, arrivals=a.Poisson(rate=1.0), prompt_tokens=LOGNORMAL, output_tokens=OUTPUT)
    drawn = workload.draw([0])
    best = trace_fits.fit_lengths(drawn.prompt_tokens[0])[0]
    assert best.lengths.kind == "lognormal" and best.ks < 0.02
    assert best.lengths.median == pytest.approx(400, rel=0.05) and best.lengths.sigma == pytest.approx(0.8, rel=0.05)
    for lengths in (n.Geometric(mean=40.0), n.Gamma(mean=300.0, cv=0.5)):
        tokens = Synthetic(num_requests=5000, arrivals=a.Poisson(rate=1.0), prompt_tokens=lengths, output_tokens=OUTPUT)
        assert trace_fits.fit_lengths(tokens.draw([0]).prompt_tokens[0])[0].lengths.kind == lengths.kind
    assert trace_fits.fit_lengths(np.full(9, 7))[0] == trace_fits.LengthFit(n.Fixed(value=7), 0.0)


@pytest.mark.parametrize(
    "process",
    [
        a.Poisson(rate=5.0),
        a.Constant(rate=5.0),
        a.Gamma(rate=5.0, cv=2.5),
        a.OnOff(rate_on=20.0, rate_off=1.0, mean_on_s=10.0, mean_off_s=40.0),
    ],
    ids=lambda process: process.kind,
)
def test_arrival_fit_finds_the_process(process):
    workload = Synthetic(num_requests=8000, arrivals=process, prompt_tokens=LOGNORMAL, output_tokens=OUTPUT)
    best = trace_fits.fit_arrivals(workload.draw([1]).arrival_s[0])[0]
    assert best.arrivals.kind == process.kind
    assert best.arrivals.rate_per_s == pytest.approx(process.rate_per_s, rel=0.2)
    assert best.gap_ks < 0.05 and best.dispersion_error < 0.35


@pytest.fixture
def trace(tmp_path):
    def write(requests, name="trace.csv"):
        rows = zip(requests.arrival_s[0], requests.prompt_tokens[0], requests.output_tokens[0], strict=True)
        lines = [f"{float(at)!r},{prompt},{output}\n" for at, prompt, output in rows]
        (tmp_path / name).write_text("arrival_s,prompt_tokens,output_tokens\n" + "".join(lines))
        return Trace(path=tmp_path / name)

    return write


def test_fit_keeps_the_correlation_of_parametric_lengths(trace):
    joint = Correlated(prompt_tokens=LOGNORMAL, output_tokens=OUTPUT, correlation=0.6)
    answer = fit_trace(trace(Synthetic(num_requests=4000, arrivals=a.Poisson(rate=4.0), lengths=joint).draw([2])))
    assert isinstance(answer.workload.lengths, Correlated)
    assert answer.workload.lengths.correlation == pytest.approx(0.6, abs=0.05)
    assert answer.workload.arrivals.kind == "poisson" and answer.workload.num_requests == 4000
    by_name = {row["statistic"]: row for row in answer.rows}
    assert by_name["rank correlation"]["fit"] == pytest.approx(by_name["rank correlation"]["trace"], abs=0.05)
    assert abs(by_name["prompt_tokens p99"]["relative_change"]) < 0.15


def test_fit_resamples_lengths_that_no_distribution_is_close_to(trace, tmp_path):
    """Two kinds of requests, short-long and long-short: neither marginal is unimodal, and they are dependent."""
    kind = np.random.default_rng(3).random(3000) < 0.5
    mixed = Synthetic(num_requests=3000, arrivals=a.Poisson(rate=4.0), prompt_tokens=LOGNORMAL, output_tokens=OUTPUT)
    drawn = mixed.draw([3])
    drawn = dataclasses.replace(
        drawn,
        prompt_tokens=(np.where(kind, 50, 3000) + drawn.prompt_tokens // 100).astype(np.int32),
        output_tokens=(np.where(kind, 900, 20) + drawn.output_tokens // 100).astype(np.int32),
    )
    answer = fit_trace(trace(drawn))
    assert isinstance(answer.workload.lengths, Pairs)
    by_name = {row["statistic"]: row for row in answer.rows}
    assert by_name["rank correlation"]["fit"] == pytest.approx(by_name["rank correlation"]["trace"], abs=0.05)

    written = answer.save(tmp_path / "fitted")
    assert {"workload.yaml", "lengths.csv", "trace_fit.json"} <= {path.name for path in written}
    scenario = (tmp_path / "fitted" / "workload.yaml").read_text()
    (tmp_path / "fitted" / "s.yaml").write_text(
        scenario + "cluster:\n  instances:\n    - latency: {kind: linear, base_s: 0.01}\n"
        "      scheduler: {kind: vllm_v1, async_scheduling: false}\n"
    )
    read = load_scenario(tmp_path / "fitted" / "s.yaml").workload
    assert read.draw([0]).prompt_tokens[0].max() == drawn.prompt_tokens[0].max()
    assert read.arrivals == answer.workload.arrivals


def test_fit_of_a_list_of_lengths_says_that_arrivals_are_made_up(tmp_path):
    (tmp_path / "lengths.csv").write_text(
        "prompt_len,output_len\n" + "".join(f"{i % 7 + 1},{i % 5 + 1}\n" for i in range(70))
    )
    answer = fit_trace(Trace(path=tmp_path / "lengths.csv"))
    assert answer.workload.arrivals == a.Poisson(rate=1.0) and "set the arrivals yourself" in answer.warnings[-1]
    described = describe_trace(Trace(path=tmp_path / "lengths.csv"))
    assert described.span_s is None and "does not say when they arrive" in described.sentences[0]
    assert [row["quantity"] for row in described.rows] == ["prompt (tokens)", "output (tokens)"]


def test_the_fitted_yaml_is_a_workload(trace):
    import yaml

    drawn = Synthetic(
        num_requests=2000, arrivals=a.Gamma(rate=4.0, cv=3.0), prompt_tokens=LOGNORMAL, output_tokens=OUTPUT
    )
    answer = fit_trace(trace(drawn.draw([4])))
    data = yaml.safe_load(answer.to_yaml())
    assert parse_scenario({**data, "cluster": CLUSTER}).workload == answer.workload


def test_describe(trace, tmp_path):
    drawn = Synthetic(num_requests=3000, arrivals=a.Poisson(rate=4.0), prompt_tokens=LOGNORMAL, output_tokens=OUTPUT)
    answer = describe_trace(trace(drawn.draw([5])))
    assert answer.requests == 3000 and answer.rate_per_s == pytest.approx(4, rel=0.1)
    assert answer.gap_cv == pytest.approx(1, abs=0.1) and abs(answer.correlation) < 0.06
    assert set(answer.dispersion) == {1.0, 10.0} and answer.gap_fits[0].ks < 0.03
    assert answer.sentences[1].startswith("Like Poisson: variance/mean of arrivals is ")
    prompt = next(row for row in answer.rows if row["quantity"] == "prompt (tokens)")
    assert prompt["closest"] == "lognormal" and prompt["p50"] == np.median(drawn.draw([5]).prompt_tokens)
    assert answer.save(tmp_path / "out")[0].name == "trace.json"


def test_describe_of_prefixes_classes_and_sessions(tmp_path):
    (tmp_path / "m.jsonl").write_text(
        '{"timestamp": 0, "input_length": 1000, "output_length": 5, "hash_ids": [1, 2], "session_id": "s"}\n'
        '{"timestamp": 9, "input_length": 1000, "output_length": 5, "hash_ids": [1, 3], "session_id": "s"}\n'
    )
    answer = describe_trace(Trace(path=tmp_path / "m.jsonl"))
    assert answer.prefixes.shared_token_share == 0.256 and answer.sessions == 1
    (tmp_path / "c.csv").write_text("arrival_s,prompt_tokens,output_tokens,class\n0,1,1,a\n1,1,1,b\n2,1,1,a\n3,1,1,a\n")
    assert describe_trace(Trace(path=tmp_path / "c.csv")).classes == {"a": 3, "b": 1}
    (tmp_path / "b.csv").write_text("arrival_s,prompt_tokens,output_tokens\n2,1,1\n2,5,1\n")
    assert "all at the same time" in describe_trace(Trace(path=tmp_path / "b.csv")).sentences[0]
