"""Where requests were, and when: one stay for each, two for those that were handed over to another instance."""

from dataclasses import dataclass

import numpy as np

from jaxsim.metrics.request_table import RequestTable


@dataclass(frozen=True, eq=False)
class Stays:
    """Stays at instances, all `[R, N]`; times in seconds, nan where it did not come to that.

    Attributes:
        instance: int32, where; -1: nowhere.
        arrive_s: float64, when it joined the queue there.
        begin_s: float64, when it was first part of an iteration there.
        end_s: float64, when the instance had nothing more to do for it.
    """

    instance: np.ndarray
    arrive_s: np.ndarray
    begin_s: np.ndarray
    end_s: np.ndarray


def stays(table: RequestTable) -> tuple[Stays, ...]:
    """The stays for the prompt and, where some instance hands requests over, those for decoding."""
    handed = table.decode_instance >= 0
    first_end_s = np.where(handed, table.first_token_s, table.finish_s) if handed.any() else table.finish_s
    first = Stays(table.instance, table.arrival_s, table.first_scheduled_s, first_end_s)
    if not handed.any():
        return (first,)
    return first, Stays(
        table.decode_instance,
        np.where(handed, landed_s(table), np.nan),
        np.where(handed, decode_scheduled_s(table), np.nan),
        np.where(handed, table.finish_s, np.nan),
    )


def landed_s(table: RequestTable) -> np.ndarray:
    """When the KV cache of requests was at the instance that decodes them, float64 `[R, N]`."""
    return table.first_token_s if table.kv_landed_s is None else table.kv_landed_s


def decode_scheduled_s(table: RequestTable) -> np.ndarray:
    """When requests that were handed over went on, float64 `[R, N]`."""
    return table.first_token_s if table.decode_scheduled_s is None else table.decode_scheduled_s


def handover_s(table: RequestTable) -> np.ndarray:
    """Seconds from the first token until decoding went on elsewhere, float64 `[R, N]`; 0 where it stayed."""
    handed = table.decode_instance >= 0
    if table.decode_scheduled_s is None or not handed.any():
        return np.zeros(table.arrival_s.shape)
    return np.where(handed, table.decode_scheduled_s - table.first_token_s, 0.0)
