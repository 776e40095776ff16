"""The JSON Schema says the same as the reader, and explains every key."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from jaxsim.config.io import dump_scenario, load_scenario, parse_scenario
from jaxsim.config.json_schema import scenario_schema
from jaxsim.config.text import read_file
from tests.config.test_bad_input import SCENARIO, changed

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return scenario_schema()


def test_is_a_schema_of_draft_2020_12(schema: dict[str, Any]) -> None:
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)


def test_accepts_what_the_reader_accepts(schema: dict[str, Any]) -> None:
    jsonschema.validate(SCENARIO, schema)
    jsonschema.validate(dump_scenario(parse_scenario(SCENARIO)), schema)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_accepts_the_examples(schema: dict[str, Any], file: Path) -> None:
    jsonschema.validate(read_file(file), schema)
    jsonschema.validate(dump_scenario(load_scenario(file)), schema)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("wrokload", {}),
        ("workload.kind", "sintetic"),
        ("workload.num_requests", 1.5),
        ("workload.arrivals.rate", "abc"),
        ("workload.arrivals.rat", 4),
        ("cluster.instances", {}),
        ("engine.leap", "yes"),
        ("slo.ttft_s", [1.0]),
    ],
)
def test_refuses_what_the_reader_refuses(schema: dict[str, Any], key: str, value: Any) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(changed(key, value), schema)


def test_every_section_and_key_is_explained(schema: dict[str, Any]) -> None:
    sections = {schema["title"]: schema, **schema["$defs"]}
    silent = [title for title, section in sections.items() if not section.get("description")]
    silent += [
        f"{title}.{key}"
        for title, section in sections.items()
        for key, described in section["properties"].items()
        if key != "kind" and not described.get("description")
    ]
    assert not silent
