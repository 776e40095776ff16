"""Instances that take the other role's requests too while there are many."""

from jaxsim._component import check_not_negative, component


@component
class RoleSwitching:
    """Decode instances help with prefills, and prefill instances with decodes, while much is queued.

    Looked at whenever a request is about to be sent to an instance. If more than `queue_tokens_high` prompt tokens are
    queued per prefill instance, the decode instance with the fewest running requests takes prefills too; below
    `queue_tokens_low` all go back. The reverse for decodes, by the context tokens of requests on their way. What an
    instance is sent meanwhile stays with it.

    Attributes:
        queue_tokens_high: queued tokens per instance above which another one helps.
        queue_tokens_low: queued tokens per instance below which all helpers go back.
    """

    queue_tokens_high: float
    queue_tokens_low: float

    def __post_init__(self) -> None:
        check_not_negative(self, "queue_tokens_high", "queue_tokens_low")
        if self.queue_tokens_low > self.queue_tokens_high:
            raise ValueError("queue_tokens_low must not be greater than queue_tokens_high")
