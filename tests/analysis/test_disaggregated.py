"""The mean field of fleets that hand requests over, and analyses of them."""

import pytest

from jaxsim.analysis.capacity import capacity
from jaxsim.analysis.explain import explain
from jaxsim.analysis.queueing import queueing
from jaxsim.analysis.scenarios import changed
from jaxsim.config.schema import Scenario
from jaxsim.mean_field import FleetField, mix_of, past_of
from jaxsim.simulate import run
from tests.analysis import engines


def split(prefill: int, decode: int, rate: float = 4.0, slots: int = 1, **options: object) -> Scenario:
    """Prompts of 100 tokens take 1/10 s; 11 outputs take ten iterations of 1/20 s."""
    scenario = engines.one_group(
        rate=rate,
        prompt={"kind": "fixed", "value": 100},
        output={"kind": "fixed", "value": 11},
        latency={"base_s": 0.05, "per_token_s": 0.0, "per_prefill_pair_s": 5e-6},
        max_num_seqs=slots,
        **options,
    )
    [group] = scenario.cluster.instances
    data = {"latency": {"kind": "linear", **{k: v for k, v in vars(group.latency).items() if k.endswith("_s")}}}
    scheduler = {"kind": "vllm_v1", "max_num_seqs": slots, "async_scheduling": False}
    groups = [
        {"role": role, "count": count, **data, "scheduler": scheduler}
        for role, count in (("prefill", prefill), ("decode", decode))
    ]
    return changed(scenario, {"cluster.instances": groups})


@pytest.mark.parametrize(("prefill", "decode", "limit"), [(1, 1, 2.0), (1, 4, 8.0), (1, 9, 10.0), (2, 9, 18.0)])
def test_the_slower_side_limits_a_split(prefill: int, decode: int, limit: float) -> None:
    """One slot: a prefill instance bears 10 requests/s, a decode instance 2."""
    scenario = split(prefill, decode)
    fleet = FleetField(scenario, mix_of(scenario))
    assert fleet.limit_per_s == pytest.approx(limit, rel=0.01)
    assert fleet.rates(6.0) == pytest.approx([6.0 / prefill, 6.0 / decode])


def test_many_slots_share_iterations() -> None:
    """Eight decodes at once take no longer than one, so a decode instance bears eight times as many."""
    scenario = split(2, 1, slots=8)
    assert FleetField(scenario, mix_of(scenario)).fields[1].limit_per_s == pytest.approx(16.0, rel=0.02)


def test_closed_forms_refuse_two_roles() -> None:
    for analysis in (queueing, explain):
        with pytest.raises(ValueError, match="cluster.instances: are of two roles"):
            analysis(split(1, 1, rate=1.0))


@pytest.mark.slow
def test_the_capacity_and_the_warm_start_of_a_split() -> None:
    """Two decode instances of one slot are M/D/2 behind an M/D/1: TTFT knows only the latter."""
    scenario = split(1, 3, rate=4.0, num_requests=200, seeds=8, slo={"ttft_s": {"p90": 0.3}})
    assert past_of(changed(scenario, {"monte_carlo.start": "warm"})).requests < 500
    answer = capacity(scenario, precision=0.05, max_requests=400_000)
    assert answer.limit_per_s == pytest.approx(6.0, rel=0.02)
    at = run(changed(scenario, {"workload.arrivals.rate": 5.0, "monte_carlo.start": "warm", "monte_carlo.seeds": 32}))
    assert at.summary["queue_s"]["mean"] == pytest.approx(0.5 * 0.1 / (2 * 0.5), rel=0.1)
