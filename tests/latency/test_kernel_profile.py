"""Kernel profiles: sums by hand, experts, and what the files must hold."""

import shutil
from pathlib import Path

import pytest

from jaxsim.latency import KernelProfile
from jaxsim.latency.gridded import Reach
from tests.latency.test_table import batch, price

PROFILE = Path(__file__).parent / "data" / "profile"
US = 1e-6


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(PROFILE, tmp_path / "profile"))


def once_us(tokens, seqs):
    """Embedding, final norm, LM head and sampler."""
    return 3 + 0.25 * max(tokens, 16) + 2 + 0.125 * max(tokens, 16) + 520 + 5 * seqs


def dense_us(tokens):
    """A block: two norms, qkv and the MLP."""
    return 2 * (2 + 0.125 * max(tokens, 16)) + 40 + 120 + 4 * max(tokens, 16)


def test_sums_by_hand():
    profile = KernelProfile(path=str(PROFILE), layers=10, host_s=1e-3, time_scale=2.0)
    expected = {
        "a chunk": (batch([(48, 120)]), once_us(48, 1) + 10 * (dense_us(48) + 260)),
        "decodes": (batch(contexts=[16, 16]), once_us(2, 2) + 10 * (dense_us(2) + 12)),
        "both": (batch([(16, 0)], [160] * 6), once_us(22, 7) + 10 * (dense_us(22) + 12 + 8 + 120)),
        "between": (batch([(32, 0)], [88] * 6), once_us(38, 7) + 10 * (dense_us(38) + 12 + (8 + 72) / 2 + 66)),
        "less than the smallest chunk": (batch([(5, 0)]), once_us(5, 1) + 10 * (dense_us(5) + 16)),
    }
    for name, (terms, expected_us) in expected.items():
        assert price(profile, terms)[0] == pytest.approx(2 * expected_us * US + 1e-3, rel=1e-9), name


def test_without_mixed_rows_attention_is_the_sum(folder):
    file = folder / "attention.csv"
    rows = [row for row in file.read_text().splitlines() if row.split(",")[0] == "0" or row.split(",")[2] == "0"]
    file.write_text("\n".join(["prefill_chunk,kv_prefill,n_decode,kv_decode,time_us", *rows]) + "\n")
    profile = KernelProfile(path=str(folder), layers=1)
    expected = once_us(22, 7) + dense_us(22) + 16 + (8 + 6 * 160 / 8)
    assert price(profile, batch([(16, 0)], [160] * 6))[0] == pytest.approx(expected * US, rel=1e-9)


def test_experts(folder):
    """With 8 experts of which a token takes 2, 4 tokens activate 8 (1 - 0.75^4) on average."""
    rows = [f"{ep},{n},{e},{100 * e + n}" for ep in (1, 2) for n in (1, 4, 48) for e in (2, 4, 8)]
    (folder / "moe.csv").write_text("ep,tokens,activated_experts,time_us\n" + "\n".join(rows) + "\n")
    dense, moe = KernelProfile(path=str(PROFILE), layers=10), KernelProfile(path=str(folder), layers=10)
    for tokens in (1, 4, 48):
        terms = batch(contexts=[16] * tokens)
        experts_us = 100 * 8 * (1 - 0.75**tokens) + tokens
        assert price(moe, terms)[0] - price(dense, terms)[0] == pytest.approx(10 * experts_us * US, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("dense.csv", "tokens", "batch", "dense.csv: missing column tokens; the header is layer,batch,time_us"),
        ("dense.csv", "layernorm,8,4.0", "layernorm,1,4.0", "is the same point as row"),
        (
            "per_sequence.csv",
            "lm_head,1,504",
            "lm_head,1,-504",
            "row 1 (line 2): time_us is '-504'; it must be a number gr",
        ),
        ("attention.csv", "0,0,1,16,10", "0,0,1,x,10", "row 5 (line 6): kv_decode is 'x'; it must be a number, 0 or"),
    ],
)
def test_files_that_are_no_profile(folder, name, old, new, message):
    file = folder / name
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new, 1))
    with pytest.raises(ValueError) as error:
        KernelProfile(path=str(folder), layers=1)
    assert message in str(error.value)


def test_a_profile_of_blocks_only(folder):
    """Without kernels of the whole model a block's alone count, and their grid is the only one with an end."""
    file = folder / "dense.csv"
    rows = [row for row in file.read_text().splitlines() if not row.startswith(("embedding", "final"))]
    file.write_text("\n".join(rows) + "\n")
    profile = KernelProfile(path=str(folder), layers=3)
    expected = 520 + 5 + 3 * (dense_us(48) + 80)
    assert price(profile, batch([(48, 0)]))[0] == pytest.approx(expected * US, rel=1e-9)
    reach = Reach(48, 8, 48, 120, 6, 160)
    assert profile.check_reach(reach) == ()
    with pytest.raises(ValueError, match="new_tokens may reach 49, but the table ends at 48"):
        profile.check_reach(reach._replace(new_tokens=49))


def test_a_folder_without_a_file(folder):
    (folder / "attention.csv").unlink()
    with pytest.raises(ValueError, match="path: .*attention.csv: no such file"):
        KernelProfile(path=str(folder), layers=1)
