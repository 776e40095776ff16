"""Tables: values by hand, pieces against stepping, the engine against the oracle, and what a file must hold."""

import dataclasses
import math
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxsim._component import as_arrays
from jaxsim.config.errors import ScenarioError
from jaxsim.latency import Table, tabulate
from jaxsim.latency import terms as batch_terms
from jaxsim.latency.gridded import Reach
from tests.draws import Request
from tests.front_door import requests_of, simulate
from tests.latency.against_oracle import check_times

DATA = Path(__file__).parent / "data"
HEADER = "prefill_tokens,prefill_context,decode_seqs,decode_context,time_s\n"
SMALL = (
    HEADER + "1,0,0,0,1.0\n9,0,0,0,3.0\n1,8,0,0,2.0\n9,8,0,0,8.0\n0,0,1,4,1.0\n0,0,1,8,2.0\n0,0,3,4,2.0\n0,0,3,8,5.0\n"
)


def table(tmp_path, text, **options):
    path = tmp_path / "table.csv"
    path.write_text(text)
    return Table(path=str(path), **options)


def batch(chunks=(), contexts=()):
    """Batch terms of prompt chunks `(tokens, computed)` and decodes of some contexts."""
    n, c = (np.array([chunk[i] for chunk in chunks], float) for i in (0, 1))
    values = {
        "new_tokens": n.sum() + len(contexts),
        "decode_seqs": len(contexts),
        "context_tokens": sum(contexts),
        "prefill_seqs": len(chunks),
        "prefill_tokens": n.sum(),
        "prefill_pairs": (n * (c + n)).sum(),
        "prefill_squares": (n * n).sum(),
    }
    return {name: np.float64(value) for name, value in values.items()}


_PRICE = jax.jit(lambda model, terms, growth: model.price(terms, growth))


def price(model, terms, growth=None):
    with jax.enable_x64(True):
        growth = {name: np.float64((growth or {}).get(name, 0.0)) for name in batch_terms.NAMES}
        return tuple(map(float, _PRICE(as_arrays(model), terms, growth)))


def test_hand_values(tmp_path):
    small = table(tmp_path, SMALL)
    first = {
        "a grid point": (batch([(9, 8)]), 8.0),
        "halfway in both": (batch([(5, 4)]), 3.5),
        "decodes, halfway in both": (batch(contexts=[5, 7]), 2.5),
        "a mean context": (batch(contexts=[1, 11, 12]), 5.0),
        "below the shortest context": (batch(contexts=[1, 1, 1]), 2.0),
        # 4 + 4 tokens of two prompts have 16 pairs, as 8 have after no others if they had 32: the context is empty
        "two prompts": (batch([(4, 0), (4, 0)]), 2.75),
        # 4 (6 + 2) + 4 (2 + 2) pairs are those of 8 tokens after 2
        "two chunks": (batch([(4, 6), (4, 2)]), (0.75 * 2.75 + 0.25 * 7.25)),
        # 3 decodes are 3 more prompt tokens, and what they take at context 6 beyond that at 4
        "a chunk beside decodes": (batch([(2, 4)], [6, 6, 6]), 3.5 + 1.5),
    }
    for name, (terms, expected) in first.items():
        assert price(small, terms)[0] == expected, name


def test_units_scale_and_host_time(tmp_path):
    terms = batch(contexts=[5, 7])
    for column, unit in (("time_s", 1.0), ("time_ms", 1e-3), ("time_us", 1e-6)):
        assert price(table(tmp_path, SMALL.replace("time_s", column)), terms)[0] == pytest.approx(2.5 * unit, rel=1e-12)
    cycles = table(tmp_path, SMALL.replace("time_s", "cycles"), clock_hz=2e9, time_scale=1.5, host_s=1e-3)
    assert price(cycles, terms)[0] == pytest.approx(1.5 * 2.5 / 2e9 + 1e-3, rel=1e-12)


def test_a_column_left_out_is_zero(tmp_path):
    short = table(tmp_path, "prefill_tokens,decode_seqs,time_s\n1,0,1.0\n5,0,5.0\n0,1,2.0\n0,3,3.0\n")
    assert price(short, batch([(2, 100)]))[0] == 2.0
    assert price(short, batch(contexts=[100, 200]))[0] == 2.5


def test_extrapolation(tmp_path):
    beyond = batch([(13, 8)])
    assert price(table(tmp_path, SMALL, extrapolate="clamp"), beyond)[0] == 8.0
    assert price(table(tmp_path, SMALL, extrapolate="linear"), beyond)[0] == pytest.approx(8.0 + 4 * 0.75)
    falling = SMALL.replace("9,8,0,0,8.0", "9,8,0,0,1.5")
    assert price(table(tmp_path, falling, extrapolate="linear"), beyond)[0] == 1.5


def test_reach(tmp_path):
    inside = Reach(new_tokens=9, batch_seqs=10, prefill_tokens=9, prefill_context=8, decode_seqs=3, decode_context=8)
    small = table(tmp_path, SMALL)
    assert small.check_reach(inside) == ()
    with pytest.raises(ValueError, match="^decode_context may reach 9, but the table ends at 8; lower"):
        small.check_reach(inside._replace(decode_context=9))
    (notice,) = table(tmp_path, SMALL, extrapolate="clamp").check_reach(inside._replace(decode_seqs=40))
    assert notice.endswith("table.csv: decode_seqs may reach 40, but the table ends at 3: it is held there")


def test_a_scenario_beyond_its_table_is_refused_or_said():
    latency = {"kind": "table", "path": str(DATA / "phases.csv")}
    scheduler = {"kind": "vllm_v1", "max_num_seqs": 6, "max_num_batched_tokens": 48, "async_scheduling": False}
    group = {"latency": latency, "scheduler": scheduler}
    within = requests_of([Request(0.0, 100, 20), Request(0.1, 30, 91)])
    assert simulate({"instances": [group]}, within).manifest["notices"] == []
    beyond = requests_of([Request(0.0, 100, 20), Request(0.1, 30, 92)])
    with pytest.raises(ScenarioError, match="instances.0.latency.extrapolate: prefill_context may reach 121, but the"):
        simulate({"instances": [group]}, beyond)
    latency["extrapolate"] = "clamp"
    (notice,) = simulate({"instances": [group]}, beyond).manifest["notices"]
    assert notice.endswith("prefill_context may reach 121, but the table ends at 120: it is held there")


def test_holes_are_interpolated(tmp_path):
    """A product of two prompt axes with one point missing inside and one at a corner."""
    lines = [f"{n},{c},0,0,{1 + n * c}" for n in (1, 2, 4) for c in (0, 5, 10) if (n, c) not in ((2, 5), (4, 10))]
    holed = table(tmp_path, HEADER + "\n".join(lines) + "\n0,0,1,1,1.0\n")
    assert price(holed, batch([(2, 5)]))[0] == pytest.approx(11.0)
    assert price(holed, batch([(4, 10)]))[0] == pytest.approx(21.0)  # as (4, 5)


@pytest.mark.parametrize("name", ["phases.csv", "joint.csv"])
@settings(max_examples=200)
@given(
    tokens=st.sampled_from([0, 1, 7, 16, 30, 48]),
    computed=st.integers(0, 130),
    contexts=st.lists(st.integers(1, 200), max_size=6),
)
def test_a_piece_is_what_stepping_gives(name, tokens, computed, contexts):
    """The first iterations of a stretch in closed form, each against its own price."""
    model = Table(path=str(DATA / name), extrapolate="linear", host_s=1e-3)
    if not tokens and not contexts:
        return
    chunk = [(tokens, computed)] if tokens else []
    growth = {"context_tokens": len(contexts), "prefill_pairs": tokens * tokens}
    first, grows, iterations = price(model, batch(chunk, contexts), growth)
    assert first == price(model, batch(chunk, contexts))[0], "growth must not change the first iteration"
    assert iterations >= 1
    last = int(min(iterations, 500)) - 1
    for j in {0, 1, last // 2, last} - ({1} if last < 1 else set()):
        moved = batch([(tokens, computed + j * tokens)] if tokens else [], [context + j for context in contexts])
        assert first + j * grows == pytest.approx(price(model, moved)[0], rel=1e-12)


@pytest.mark.parametrize(("name", "leap"), [("phases.csv", True), ("joint.csv", True), ("joint.csv", False)])
@settings(max_examples=40)
@given(data=st.data())
def test_the_engine_against_the_oracle(name, leap, data):
    latency = {"path": str(DATA / name), "extrapolate": "clamp", "host_s": 1.7e-4, "time_scale": 0.9}
    check_times(data, {"kind": "table"} | latency, leap)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; it must have a header and at least one row"),
        (SMALL.replace("9,0,0,0,3.0", "9,0,0,3.0"), "row 2 (line 3) has 4 fields; it must have 5, as the header"),
        (SMALL.replace("3.0", "fast"), "row 2 (line 3): time_s is 'fast'; it must be a number greater than 0"),
        (SMALL.replace("3.0", "0"), "row 2 (line 3): time_s is '0'; it must be a number greater than 0"),
        (
            "# a comment\n" + SMALL.replace("9,0", "-9,0"),
            "row 2 (line 4): prefill_tokens is '-9'; it must be a number, 0",
        ),
        (SMALL.replace("1,8,0,0", "1,0,0,0"), "row 3 (line 4): is the same point as row 1; each must appear once"),
        (SMALL + "0,7,1,4,1.0\n", "row 9 (line 10): is the same point as row 5"),
        (SMALL + "0,0,0,8,1.0\n", "row 9 (line 10): has neither prompt tokens nor decodes"),
        (SMALL.replace("context,time", "context,time_ms,time"), "row 1 (line 2) has 5 fields"),
        (SMALL.replace("time_s", "seconds"), "unknown column seconds; valid: prefill_tokens, prefill_context,"),
        ("decode_seqs,decode_context,time_s\n1,4,1.0\n", "must have rows where prefill_tokens is greater than 0"),
        ("prefill_tokens,decode_seqs,time_s\n1,0,1.0\n2,0,1.0\n", "must have rows where prefill_tokens is 0"),
        (HEADER + "4,0,2,8,1.0\n4,0,0,0,1.0\n", "must have rows where prefill_tokens is 0"),
    ],
)
def test_files_that_are_no_table(tmp_path, text, message):
    with pytest.raises(ValueError) as error:
        table(tmp_path, text)
    assert message in str(error.value)


def test_scattered_points_are_no_table(tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{n},{c},0,0,1.0" for n, c in rng.integers(1, 10**6, (3000, 2))]
    with pytest.raises(
        ValueError, match="make a grid of more than 4,194,304 points; scattered ones can be fitted: jaxsim"
    ):
        table(tmp_path, HEADER + "\n".join(rows) + "\n0,0,1,1,1.0\n")


def test_parameters_that_do_not_fit_the_file(tmp_path):
    with pytest.raises(ValueError, match="path: .*nowhere.csv: no such file"):
        Table(path="nowhere.csv")
    with pytest.raises(ValueError, match="clock_hz must be given if the file has cycles, and only then"):
        table(tmp_path, SMALL.replace("time_s", "cycles"))
    with pytest.raises(ValueError, match="clock_hz must be given if the file has cycles, and only then"):
        table(tmp_path, SMALL, clock_hz=1e9)
    first = table(tmp_path, SMALL)
    with pytest.raises(ValueError, match="sha256 must be that of .*; the file has changed"):
        table(tmp_path, SMALL.replace("3.0", "3.5"), sha256=first.sha256)
    assert dataclasses.replace(first, host_s=1.0, sha256=None).sha256 != first.sha256


def test_a_function_tabulated(tmp_path):
    """A function that is multilinear in the four numbers comes back exactly."""

    def seconds(tokens, before, seqs, context):
        return 1e-3 + 1e-5 * (tokens + seqs) + 1e-8 * tokens * before + 2e-8 * seqs * context

    path = tmp_path / "function.csv"
    made = tabulate(
        seconds,
        path,
        prefill_tokens=[1, 512, 2048],
        prefill_context=[0, 4096],
        decode_seqs=[1, 64],
        decode_context=[0, 8192],
        comment="a line\nanother",
    )
    assert path.read_text().startswith("# a line\n# another\nprefill_tokens,")
    for chunks, contexts in (([(700, 100)], [1000] * 9), ([], [10, 20]), ([(3, 9)], [])):
        terms = batch(chunks, contexts)
        (tokens, before), seqs = (chunks or [(0, 0)])[0], len(contexts)
        expected = seconds(tokens, before, seqs, sum(contexts) / max(seqs, 1))
        assert price(made, terms)[0] == pytest.approx(float(expected), rel=1e-12)
    with pytest.raises(ValueError, match="must be a number greater than 0"):
        tabulate(lambda *_: math.nan, path, prefill_tokens=[1], decode_seqs=[1], decode_context=[1])
