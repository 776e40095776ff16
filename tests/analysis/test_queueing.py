"""Closed forms: against each other, against the textbook, and against the simulation where they are exact."""

import json
import math

import pytest

from jaxsim.analysis import queueing as q
from jaxsim.analysis.scenarios import at_rate, changed
from jaxsim.mean_field import MeanField, mix_of
from jaxsim.simulate import run
from tests.analysis import engines


def form(answer: q.QueueingAnswer, name: str) -> q.ClosedForm:
    return next(f for f in answer.forms if f.name == name)


def test_textbook_values() -> None:
    assert q.erlang_c(1, 0.6) == pytest.approx(0.6)
    assert q.erlang_c(2, 1.0) == pytest.approx(1 / 3)
    assert q.erlang_c(5, 4.0) == pytest.approx(0.5541, abs=1e-4)  # Gross & Harris, Fundamentals of Queueing Theory
    assert q.m_m_c_empty(1, 0.6) == pytest.approx(0.4)
    assert q.m_m_c_empty(2, 1.0) == pytest.approx(1 / 3)
    assert q.m_m_c_empty(500, 3.0) == pytest.approx(math.exp(-3))
    assert q.m_g_1_wait(0.5, 2.0, 0.0) == pytest.approx(1.0)
    assert q.m_g_1_wait(0.5, 2.0, 1.0) == q.m_m_1_wait(0.5, 2.0)
    assert q.m_m_c_wait(1, 0.5, 2.0) == pytest.approx(q.m_m_1_wait(0.5, 2.0))
    for approximation in (q.kingman_wait, q.allen_cunneen_wait):
        assert approximation(1, 0.5, 2.0, 1.0, 1.0) == pytest.approx(2.0)
        assert approximation(3, 3.0, 1.0, 1.0, 1.0) == math.inf
    assert q.allen_cunneen_wait(4, 3.0, 1.0, 1.0, 1.0) == q.m_m_c_wait(4, 3.0, 1.0)


def test_one_slot_is_m_d_1() -> None:
    answer = q.queueing(engines.m_d_1(0.7))
    service = 5 / 64
    assert answer.limit_per_s == pytest.approx(1 / service, rel=1e-5)
    assert form(answer, "M/G/1").queue_s == pytest.approx(0.7 * service / (2 * 0.3), rel=1e-5)
    assert form(answer, "G/G/c Allen-Cunneen").queue_s == pytest.approx(form(answer, "M/G/1").queue_s, rel=1e-5)
    assert form(answer, "M/M/1").tpot_s == pytest.approx(2.0**-6, rel=1e-5)
    assert form(answer, "M/M/c").tpot_s == pytest.approx(2.0**-6)


@pytest.mark.parametrize(("servers", "load"), [(1, 0.6), (4, 0.7)])
def test_slots_and_geometric_outputs_are_m_m_c(servers: int, load: float) -> None:
    answer = q.queueing(engines.m_m_c(servers, load))
    assert answer.limit_per_s == pytest.approx(servers, rel=0.01)
    aligned = 2.0**-7 if servers > 1 else 0.0
    expected = q.m_m_c_wait(servers, servers * load, 1.0)
    assert form(answer, "M/M/c").queue_s == pytest.approx(expected, rel=0.04, abs=aligned)
    assert form(answer, "M/M/c").e2e_s == pytest.approx(expected + 1, rel=0.03)


def test_tokens_one_after_the_other_are_processor_sharing() -> None:
    answer = q.queueing(engines.sharing(0.7))
    assert answer.limit_per_s == pytest.approx(50, rel=0.01)
    assert form(answer, "M/G/1-PS").e2e_s == pytest.approx(0.02 / 0.3, rel=0.03)
    assert form(answer, "mean field").tpot_s == pytest.approx(1e-3 / 0.3, rel=0.03)


@pytest.mark.parametrize(
    ("scenario", "name", "metric", "slack"),
    [
        (engines.m_d_1(0.6, num_requests=1500, seeds=48), "M/G/1", "queue_s", 0.0),
        (engines.m_m_c(3, 0.7, num_requests=1500, seeds=48), "M/M/c", "e2e_s", 2.0**-6),
        (engines.sharing(0.5, num_requests=1500, seeds=48), "M/G/1-PS", "e2e_s", 2e-3),
    ],
    ids=["M/D/1", "M/M/c", "PS"],
)
def test_the_simulation_agrees_where_a_form_is_exact(scenario, name: str, metric: str, slack: float) -> None:
    """Inside the simulation's 95 % interval widened to 99.9 %, up to one iteration and the draw of the mix."""
    closed = getattr(form(q.queueing(scenario), name), metric)
    summary = run(scenario, keep_requests=False).summary[metric]
    half = (summary["mean_ci"][1] - summary["mean_ci"][0]) / 2 * 3.5 / 2
    assert half < 0.1 * closed
    assert abs(summary["mean"] - closed) < half + slack + 0.015 * closed


@pytest.mark.parametrize("asynchronous", [False, True], ids=["synchronous", "asynchronous"])
def test_the_mean_field_follows_the_simulation(asynchronous: bool) -> None:
    """Within 5 % on TPOT and 15 % on TTFT up to 70 % of the limit."""
    base = changed(
        engines.chat(num_requests=1500, seeds=8), {"cluster.instances.0.scheduler.async_scheduling": asynchronous}
    )
    limit = q.queueing(base).limit_per_s
    for share in (0.3, 0.7):
        answer = q.queueing(at_rate(base, share * limit), simulate=True)
        row = next(row for row in answer.rows if row["form"] == "mean field")
        assert abs(row["tpot_s_error"]) < 0.05 and abs(row["ttft_s_error"]) < 0.15


def test_limits_name_what_runs_out() -> None:
    def limited_by(**changes) -> str:
        scenario = engines.chat(**changes)
        return MeanField(scenario.cluster.instances[0], mix_of(scenario)).at(1.0).limited_by

    assert limited_by() == "slots"
    assert limited_by(instance={"kv_cache": {"num_blocks": 100}}) == "kv_cache"
    prompts = engines.one_group(
        rate=1.0,
        prompt={"kind": "fixed", "value": 900},
        output={"kind": "fixed", "value": 2},
        latency={"base_s": 5e-3, "per_token_s": 2e-5},
        scheduler={"max_num_batched_tokens": 256},
    )
    field = MeanField(prompts.cluster.instances[0], mix_of(prompts))
    assert field.at(1.0).limited_by == "token budget"
    assert field.limit_per_s == pytest.approx(256 / 901 / (5e-3 + 256 * 2e-5), rel=0.02)


def test_beyond_the_limit_it_says_so() -> None:
    answer = q.queueing(engines.chat(rate=500.0))
    assert "grows without end" in answer.sentences[0] and "no steady state" in answer.warnings[0]
    assert form(answer, "M/M/c").ttft_s == math.inf
    assert json.loads(answer.to_json())["table"][4]["ttft_s"] is None
    assert any("percentile" in sentence for sentence in answer.sentences)


def test_no_rate_no_closed_form() -> None:
    scenario = engines.chat(arrivals={"kind": "piecewise", "times_s": [0.0], "rates": [3.0]})
    with pytest.raises(ValueError, match="no long-run arrival rate"):
        q.queueing(scenario)


def test_throughput_is_the_rate_until_the_slots_are_full() -> None:
    assert q.queueing(engines.m_d_1(0.5)).throughput_per_s == pytest.approx(6.4)
    assert q.queueing(engines.m_d_1(2.0)).throughput_per_s == pytest.approx(12.8, rel=1e-3)
