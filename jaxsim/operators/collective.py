"""Messages between the devices of an instance: a latency for each hop, and bytes over the link.

Bytes are those that one device sends, with the algorithms that send fewest: an all-reduce is a reduce-scatter and an
all-gather. Small messages travel by trees: hops grow with the logarithm of the number of devices.
"""

import math

from jaxsim.operators.base import Operator


def all_reduce(name: str, message: float, devices: int, *, count: float, rows: str = "tokens") -> Operator:
    """Sum over the devices, known to all: `2 (n - 1) / n` of the message; `message` is bytes a row."""
    sent, hops = 2 * (devices - 1) / devices * message, 2 * math.log2(devices)
    return Operator(name, "collective", count, {}, {rows: sent}, devices=devices, hops=hops)


def all_gather(name: str, message: float, devices: int, *, count: float, rows: str = "tokens") -> Operator:
    """The parts of all devices, known to all: `(n - 1) / n` of the whole message, `message` bytes a row."""
    sent, hops = (devices - 1) / devices * message, math.log2(devices)
    return Operator(name, "collective", count, {}, {rows: sent}, devices=devices, hops=hops)


def all_to_all(name: str, message: float, devices: int, *, count: float, rows: str = "tokens") -> Operator:
    """Each device sends every other one its part; `message` is bytes a row that leave the device."""
    return Operator(name, "collective", count, {}, {rows: message}, devices=devices, hops=math.log2(devices))


def point_to_point(name: str, message: float, devices: int, *, count: float, rows: str = "tokens") -> Operator:
    """One device to the next, the `devices` of an instance apart at most; `message` is bytes a row."""
    return Operator(name, "collective", count, {}, {rows: message}, devices=devices, hops=1.0)
