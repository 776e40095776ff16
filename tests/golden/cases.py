"""The golden cases beside this file, and how results are compared with them."""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
NAMES = tuple(sorted(path.parent.name for path in HERE.glob("*/scenario.yaml")))
TIMES = ("first_scheduled_s", "first_token_s", "finish_s")
COUNTS = ("output_tokens", "instance", "decode_instance", "preemptions")
TOLERANCE_S = 1e-9


@dataclass
class Case:
    """One golden case. Rows are dictionaries of text, as the CSV files have them."""

    name: str
    path: Path  # of the scenario
    scenario: dict[str, Any]
    workload: list[dict[str, str]]
    expected: list[dict[str, str]]


def load(name: str) -> Case:
    folder = HERE / name
    scenario = folder / "scenario.yaml"
    rows = (_rows(folder / file) for file in ("workload.csv", "expected.csv"))
    return Case(name, scenario, yaml.safe_load(scenario.read_text()), *rows)


def differences(case: Case, results: Iterable[Mapping[str, Any]]) -> list[str]:
    """Where `results` (one mapping a request, keys as in `expected.csv`) differ, in words; empty when they agree."""
    got = {int(row["request"]): row for row in results}
    found = []
    for row in case.expected:
        mine = got[int(row["request"])]
        for key in TIMES:
            if not abs(mine[key] - float(row[key])) <= TOLERANCE_S:
                found.append(f"request {row['request']}: {key} is {mine[key]!r}, expected {row[key]}")
        for key in COUNTS:
            if row.get(key) and mine[key] != int(row[key]):
                found.append(f"request {row['request']}: {key} is {mine[key]}, expected {row[key]}")
    return found


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
