"""Scenarios built in Python: equal to those of files, checked like them, written back without loss."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from jaxsim.cluster.routing import Random, RoundRobin
from jaxsim.config.errors import ScenarioError
from jaxsim.config.io import dump_scenario, load_scenario, parse_scenario
from jaxsim.config.schema import Cluster, Engine, Instance, KvCache, MonteCarlo, Scenario
from jaxsim.engine.policy import VllmV1
from jaxsim.latency import Linear
from jaxsim.specs import Slo
from jaxsim.workload import Synthetic, Trace, arrivals, lengths
from tests.config.test_bad_input import SCENARIO

GROUP = Instance(
    latency=Linear(base_s=0.005, per_token_s=2e-05),
    scheduler=VllmV1(async_scheduling=False),
    kv_cache=KvCache(num_blocks=1000),
)
WORKLOAD = Synthetic(
    num_requests=100,
    arrivals=arrivals.Poisson(rate=4),
    prompt_tokens=lengths.Fixed(value=100),
    output_tokens=lengths.Uniform(min=2, max=20),
)


def test_built_in_code_equals_read_from_data() -> None:
    built = Scenario(workload=WORKLOAD, cluster=Cluster(instances=(GROUP,)))
    assert built == parse_scenario(SCENARIO) and hash(built) == hash(parse_scenario(SCENARIO))


def test_lists_numpy_and_plain_data_are_taken_as_they_mean() -> None:
    latency = Linear(base_s=np.float64(0.005), per_token_s=2e-05)
    built = Scenario(
        workload=dataclasses.replace(WORKLOAD, num_requests=np.int32(100)),
        cluster=Cluster(instances=[dataclasses.replace(GROUP, latency=latency)]),  # type: ignore[arg-type]
        slo={"ttft_s": np.float32(0.5)},  # type: ignore[arg-type]
    )
    assert built == parse_scenario({**SCENARIO, "slo": {"ttft_s": 0.5}})
    assert json.loads(json.dumps(dump_scenario(built))) == dump_scenario(built)


def test_defaults() -> None:
    scenario = parse_scenario(SCENARIO)
    assert scenario.slo == Slo() and scenario.monte_carlo == MonteCarlo() and scenario.engine == Engine(leap=True)
    assert scenario.monte_carlo == MonteCarlo(seeds=1, first_seed=0, warmup_requests=0, start="empty")
    assert scenario.cluster.router == RoundRobin()
    assert KvCache() == KvCache(num_blocks=None, block_size=16, watermark=0.0)
    group = scenario.cluster.instances[0]
    assert (group.role, group.count, group.name, group.cost_per_hour) == ("unified", 1, None, None)


def test_mistakes_in_code_name_the_key() -> None:
    slow = dataclasses.replace(GROUP, latency=Linear(base_s="slow", per_token_s=1.0))  # type: ignore[arg-type]
    with pytest.raises(ScenarioError, match=r"^cluster\.instances\.0\.latency\.base_s: must be a number, not 'slow'$"):
        Scenario(workload=WORKLOAD, cluster=Cluster(instances=(slow,)))
    with pytest.raises(ScenarioError, match=r"^workload: must be a section with a kind, not Linear"):
        Scenario(workload=GROUP.latency, cluster=Cluster(instances=(GROUP,)))  # type: ignore[arg-type]


def test_derived_scenarios_are_checked_too() -> None:
    scenario = parse_scenario(SCENARIO)
    with pytest.raises(ScenarioError, match=r"^name: must be text"):
        dataclasses.replace(scenario, name=3)


def seconds(low: float = 1e-6) -> st.SearchStrategy[float]:
    return st.floats(low, 1e3)


def tokens() -> st.SearchStrategy[int]:
    return st.integers(1, 5000)


LENGTHS = st.one_of(
    st.builds(lengths.Fixed, value=tokens()),
    st.builds(lambda low, more: lengths.Uniform(min=low, max=low + more), tokens(), tokens()),
    st.builds(lengths.Lognormal, median=st.floats(1, 1e4), sigma=st.floats(0, 3)),
    st.builds(lengths.Empirical, values=st.lists(st.floats(1, 1e4), min_size=1, max_size=4).map(tuple)),
    st.builds(lengths.Empirical, path=st.just("lengths.txt")),
)
ARRIVALS = st.one_of(
    st.builds(arrivals.Poisson, rate=seconds()),
    st.builds(arrivals.Gamma, rate=seconds(), cv=st.floats(0.1, 5)),
    st.builds(arrivals.Burst, size=tokens(), interval_s=seconds()),
)
WORKLOADS = st.one_of(
    st.builds(Synthetic, num_requests=tokens(), arrivals=ARRIVALS, prompt_tokens=LENGTHS, output_tokens=LENGTHS),
    st.builds(Trace, path=st.text("abc/ é'#:", min_size=1), rate_scale=seconds(), limit=st.none() | tokens()),
)
LIMITS = st.none() | seconds() | st.dictionaries(st.sampled_from(["mean", "p50", "p99.9"]), seconds(), min_size=1)
GROUPS = st.builds(
    Instance,
    count=tokens(),
    name=st.none() | st.text(max_size=5),
    latency=st.builds(Linear, base_s=seconds(), per_token_s=seconds(0), per_prefill_pair_s=seconds(0)),
    scheduler=st.builds(
        VllmV1, max_num_seqs=tokens(), reserve_full_prompt=st.booleans(), async_scheduling=st.just(False)
    ),
    kv_cache=st.builds(KvCache, num_blocks=st.none() | tokens(), block_size=tokens(), watermark=st.floats(0, 0.5)),
    cost_per_hour=st.none() | seconds(),
)
SCENARIOS = st.builds(
    Scenario,
    name=st.text(max_size=5) | st.sampled_from(["2e-05", "null", "yes", "- a", "a: b"]),
    workload=WORKLOADS,
    slo=st.builds(
        Slo,
        ttft_s=LIMITS,
        itl_s=LIMITS,
        percentile=st.floats(1, 99),
        e2e_s=st.just(9.5),
        attainment=st.none() | st.floats(0.1, 1),
    ),
    cluster=st.builds(
        Cluster,
        router=st.sampled_from([RoundRobin(), Random()]),
        instances=st.lists(GROUPS, min_size=1, max_size=3).map(tuple),
    ),
    monte_carlo=st.builds(MonteCarlo, seeds=tokens(), first_seed=st.integers(0, 2**62 - 1)),
    engine=st.builds(Engine, leap=st.booleans()),
)


@given(SCENARIOS)
def test_dump_reads_back_equal(scenario: Scenario) -> None:
    data = dump_scenario(scenario)
    assert parse_scenario(data) == scenario
    assert parse_scenario(json.loads(json.dumps(data))) == scenario
    assert parse_scenario(yaml.safe_load(yaml.safe_dump(data))) == scenario
    assert dump_scenario(parse_scenario(data)) == data


def test_dump_makes_a_file_that_loads_equal(tmp_path: Path) -> None:
    scenario = parse_scenario(SCENARIO)
    file = tmp_path / "scenario.yaml"
    file.write_text(yaml.safe_dump(dump_scenario(scenario)), encoding="utf-8")
    assert load_scenario(file) == scenario


def test_dump_is_plain_data() -> None:
    def check(value: Any) -> None:
        assert type(value) in (dict, list, str, int, float, bool, type(None))
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            check(item)

    check(dump_scenario(parse_scenario({**SCENARIO, "slo": {"ttft_s": {"p99": 1}}})))
