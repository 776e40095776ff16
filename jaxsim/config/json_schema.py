"""The JSON Schema of scenario files, derived from the classes that read them and from their docstrings."""

from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from jaxsim.config.presets import PRESETS
from jaxsim.config.schema import READER, Scenario

_PRESET = {
    "type": "object",
    "description": "A typical workload by name; other keys, those of a synthetic workload, replace its own.",
    "properties": {
        "preset": {"enum": list(PRESETS), "description": "Which one; see jaxsim presets."},
        "rate": {"type": "number", "exclusiveMinimum": 0, "description": "Requests per second."},
    },
    "required": ["preset"],
}


class _Generator(GenerateJsonSchema):
    """Without the titles that only repeat the name of a key."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def scenario_schema() -> dict[str, Any]:
    """What a scenario file may say, as JSON Schema, draft 2020-12."""
    schema = READER.type_of(Scenario).json_schema(schema_generator=_Generator)
    workload = schema["properties"]["workload"]
    kinds = {key: workload.pop(key) for key in list(workload) if key != "description"}
    workload["anyOf"] = [*kinds.get("anyOf", [kinds]), _PRESET]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
