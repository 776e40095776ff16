"""Instances that take the other role's requests too while there are many (SCHEDULING, "role_switching")."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.oracle.instance import Instance


@dataclass
class RoleSwitching:
    """Looked at when a router is about to pick. Nobody is moved: a lent instance is in both groups."""

    queue_tokens_high: float
    queue_tokens_low: float

    def before_prefill(self, fleet: Sequence[Instance]) -> None:
        """Prompt tokens in the waiting queues of those that take prefills, per instance."""
        self._switch(
            lenders=[i for i in fleet if i.role == "decode"],
            takers=[i for i in fleet if i.role != "unified" and i.takes_prefills and i.is_available],
            tokens=lambda instance: sum(job.known for job in instance.scheduler.waiting.own),
        )

    def before_decode(self, fleet: Sequence[Instance]) -> None:
        """Context tokens of requests whose transfer has not landed or that have not been admitted, per instance."""
        self._switch(
            lenders=[i for i in fleet if i.role == "prefill"],
            takers=[i for i in fleet if i.takes_decodes and i.is_available],
            tokens=lambda i: sum(job.computed for job in i.scheduler.incoming + i.scheduler.landed),
        )

    def _switch(self, lenders: list[Instance], takers: list[Instance], tokens: Callable[[Instance], int]) -> None:
        if not takers:
            return
        mean = sum(map(tokens, takers)) / len(takers)
        if mean > self.queue_tokens_high:
            free = [i for i in lenders if i.is_available and not i.is_lent]
            if free:
                min(free, key=lambda i: len(i.scheduler.members)).is_lent = True
        elif mean < self.queue_tokens_low:
            for instance in lenders:
                instance.is_lent = False
