"""phased_linear: the engine against the oracle, the choice of the decode entry, and what a scenario may say."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxsim._component import as_arrays
from jaxsim.latency.phased_linear import DecodePhase, PhasedLinear, PrefillPhase
from tests.latency.against_oracle import check_times


@st.composite
def latencies(draw):
    """One structure (two decode entries), so that it compiles once."""

    def seconds(*values):
        return draw(st.sampled_from(values))

    return {
        "kind": "phased_linear",
        "prefill": {
            "base_s": seconds(5e-3, 1e-4),
            "per_token_s": seconds(0.0, 2e-5),
            "per_token_squared_s": seconds(0.0, 1e-6),
        },
        "decode": [
            {
                "from_seqs": 1,
                "base_s": 1.3e-4,
                "per_seq_s": 0.0,
                "per_context_token_s": seconds(0.0, 3e-5),
            },
            {
                "from_seqs": draw(st.integers(2, 5)),
                "base_s": seconds(2.9e-4, 6e-3),
                "per_seq_s": seconds(0.0, 4e-5),
                "per_context_token_s": seconds(0.0, 1e-5),
            },
        ],
    }


@pytest.mark.parametrize("leap", [True, False], ids=["leap", "step"])
@settings(max_examples=60)
@given(data=st.data())
def test_against_oracle(leap, data):
    check_times(data, data.draw(latencies()), leap)


def price(terms, growth=None):
    model = PhasedLinear(
        prefill=PrefillPhase(base_s=1.0, per_token_s=0.5, per_token_squared_s=0.25),
        decode=(
            DecodePhase(from_seqs=1, base_s=100.0, per_seq_s=10.0, per_context_token_s=1.0),
            DecodePhase(from_seqs=4, base_s=200.0, per_seq_s=20.0, per_context_token_s=2.0),
        ),
    )
    names = PhasedLinear.terms
    with jax.enable_x64(True):
        given = [{name: np.float64(part.get(name, 0)) for name in names} for part in (terms, growth or {})]
        piece = jax.jit(lambda model, terms, growth: model.price(terms, growth))(as_arrays(model), *given)
        return tuple(map(float, piece))


def test_hand_values():
    assert price({"decode_seqs": 3, "context_tokens": 7}, {"context_tokens": 3}) == (137.0, 3.0, np.inf)
    assert price({"decode_seqs": 4, "context_tokens": 7}, {"context_tokens": 4}) == (294.0, 8.0, np.inf)
    # beside prompt tokens, decodes add nothing, nor do their contexts make a run of chunks grow
    chunk = {"prefill_tokens": 6, "prefill_squares": 20, "decode_seqs": 9, "context_tokens": 1000}
    assert price(chunk, {"context_tokens": 9}) == (9.0, 0.0, np.inf)


@pytest.mark.parametrize(
    ("starts", "message"),
    [
        ((), "decode must begin with an entry whose from_seqs is 1"),
        ((2, 5), "decode must begin with an entry whose from_seqs is 1"),
        ((1, 5, 5), "decode must have increasing from_seqs, not 1, 5, 5"),
        ((1, 9, 5), "decode must have increasing from_seqs, not 1, 9, 5"),
    ],
)
def test_entries_that_are_no_staircase(starts, message):
    with pytest.raises(ValueError, match=message):
        PhasedLinear(
            prefill=PrefillPhase(base_s=1.0),
            decode=tuple(DecodePhase(from_seqs=seqs, base_s=1.0) for seqs in starts),
        )
