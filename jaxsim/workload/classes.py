"""Classes of requests in one synthetic workload: interactive chat beside batch summaries, say."""

from collections.abc import Sequence
from dataclasses import dataclass

from jaxsim._component import check
from jaxsim.specs.slo import Slo
from jaxsim.workload.joint import JointLengths
from jaxsim.workload.lengths import Lengths


@dataclass(frozen=True, kw_only=True)
class RequestClass:
    """One class; what it leaves out is the workload's own.

    Attributes:
        name: what results call it.
        share: share of the requests that are of this class, in (0, 1]; the shares of all classes add up to 1.
        prompt_tokens: distribution of the prompt lengths.
        output_tokens: distribution of the output lengths.
        lengths: prompt and output together, in place of the two.
        priority: smaller is served first by policies that look at it.
        slo: what this class was promised; null is the scenario's `slo`.
    """

    name: str
    share: float
    prompt_tokens: Lengths | None = None
    output_tokens: Lengths | None = None
    lengths: JointLengths | None = None
    priority: int = 0
    slo: Slo | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("name must not be empty")
        check(self, "share", lambda share: 0 < share <= 1, "a share in (0, 1]")
        must = "a whole number that fits 32 bits"
        check(self, "priority", lambda rank: isinstance(rank, int) and abs(rank) < 2**31, must)


def check_classes(classes: Sequence[RequestClass]) -> None:
    """A ValueError unless there are classes, their names differ and their shares add up to 1."""
    if not classes:
        raise ValueError("classes must be null or hold at least one class")
    names = [one.name for one in classes]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise ValueError(f"classes.{place}.name must differ from the other classes' names, not {name!r} again")
    total = sum(one.share for one in classes)
    if abs(total - 1) > 1e-6:
        raise ValueError(f"classes must have shares that add up to 1, not {total:g}")
