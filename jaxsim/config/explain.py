"""pydantic's error reports as one `ScenarioError`."""

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from jaxsim.config.errors import ScenarioError, choices, shown

_EXPECTED = {
    "bool_type": "true or false",
    "dict_type": "a section of keys",
    "finite_number": "a finite number",
    "float_type": "a number",
    "int_type": "a whole number",
    "string_type": "text",
    "tuple_type": "a list",
}


def explain(error: ValidationError, source: str) -> ScenarioError:
    """The first problem that `error` reports, with the path of its key."""
    details = error.errors(include_url=False)[0]
    path = [*map(str, details["loc"]), details.get("ctx", {}).get("key", "")]
    keys = [part for part in path if part and not part.startswith("[")]  # "[key]" and tags of unions are no keys
    return ScenarioError(_problem(details), ".".join(keys), source)


def _problem(details: ErrorDetails) -> str:
    kind, value = details["type"], details["input"]
    if "[key]" in details["loc"]:
        return f"the key must be text, not {shown(value)}"
    if kind in _EXPECTED:
        return f"must be {_EXPECTED[kind]}, not {shown(value)}"
    if kind == "literal_error":
        valid = details["ctx"]["expected"].replace(" or ", ", ").replace("'", "").split(", ")
        return f"cannot be {shown(value)}; {choices(value if isinstance(value, str) else '', valid)}"
    if kind == "missing":
        return "is required"
    if kind == "too_long":
        return f"must have no more than {details['ctx']['max_length']} entries"
    return details["msg"]
