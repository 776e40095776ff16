"""What an SLO promises, and what it cannot promise."""

import math
from typing import Any

import pytest

from jaxsim.specs import Slo, SloLimit
from jaxsim.specs.slo import quantile_of


def test_a_bare_number_means_the_percentile() -> None:
    assert Slo(ttft_s=1.0).limits == (SloLimit("ttft_s", "p99", 1.0),)
    assert Slo(ttft_s=1.0, percentile=99.9).limits == (SloLimit("ttft_s", "p99.9", 1.0),)


def test_limits_in_order_and_thresholds_of_requests() -> None:
    slo = Slo(itl_s=0.2, tpot_s={"mean": 0.1, "p99": 0.5}, ttft_s={"p90": 1})
    assert slo.limits == (("ttft_s", "p90", 1), ("tpot_s", "mean", 0.1), ("tpot_s", "p99", 0.5), ("itl_s", "p99", 0.2))
    assert slo.thresholds == {"ttft_s": 1, "tpot_s": 0.5}


def test_equal_slos_are_equal_and_hash_alike() -> None:
    one, other = Slo(ttft_s={"p99": 1.0, "mean": 0.5}), Slo(ttft_s={"mean": 0.5, "p99": 1})
    assert one == other and hash(one) == hash(other)
    assert one != Slo(ttft_s={"mean": 0.5})


def test_the_mapping_is_copied() -> None:
    given = {"p99": 1.0}
    slo = Slo(ttft_s=given)
    given["p50"] = 0.1
    assert slo.limits == (SloLimit("ttft_s", "p99", 1.0),)


@pytest.mark.parametrize(("statistic", "share"), [("p50", 0.5), ("p99.9", 0.999), ("p0.1", 0.001)])
def test_shares_of_percentiles(statistic: str, share: float) -> None:
    assert quantile_of(statistic) == pytest.approx(share, rel=1e-15)


@pytest.mark.parametrize("text", ["mean", "p0", "p100", "p", "p.", "p-5", "p9e1", "99", "p99 ", "pnan", "P99"])
def test_other_texts_are_no_percentiles(text: str) -> None:
    assert quantile_of(text) is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"ttft_s": -1.0}, r"ttft_s\.p99 must be a finite number of seconds greater than 0, not -1\.0"),
        ({"ttft_s": 0}, r"ttft_s\.p99 must be"),
        ({"tpot_s": {"p90": math.inf}}, r"tpot_s\.p90 must be a finite"),
        ({"tpot_s": {"p90": "0.1"}}, r"tpot_s\.p90 must be a finite"),
        ({"ttft_s": math.nan}, "ttft_s must be a number of seconds"),
        ({"ttft_s": True}, "ttft_s must be a number of seconds"),
        ({"ttft_s": [1.0]}, "ttft_s must be a number of seconds"),
        ({"ttft_s": {}}, "ttft_s must name at least one statistic"),
        ({"e2e_s": {"median": 1.0}}, "e2e_s: unknown statistic 'median'; valid are mean, p50"),
        ({"e2e_s": {99: 1.0}}, "e2e_s: unknown statistic 99"),
        ({"percentile": 100}, "percentile must be a number between 0 and 100, not 100"),
        ({"attainment": 95, "ttft_s": 1.0}, r"attainment must be a share in \(0, 1\], such as 0\.95, not 95"),
        ({"attainment": 0.9, "itl_s": 1.0}, "attainment needs a limit that a request can meet"),
        ({"ttft_includes_transfer": 1}, "ttft_includes_transfer must be true or false"),
    ],
)
def test_bad_values_are_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Slo(**fields)
