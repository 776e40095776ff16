"""Requests that leave a prefill instance for a decode instance: waiting for memory there, for the link, the transfer.

A request asks for memory at the end of its prefill, first come first served per target. Once it has it, it waits for
its link: `link` carries one transfer at a time between each pair of instances, `nic` one at a time out of each source
and into each target, `none` all at once. Links are given in the order of the grants of memory. The blocks at the source
are free when the transfer has landed.
"""

from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float64, Int32

from jaxsim._arrays import first_least, put, select, take
from jaxsim.engine.fleet import queues
from jaxsim.engine.fleet.queues import Fifo
from jaxsim.engine.fleet.shape import FleetShape

UNCHECKED, BEFORE, AFTER = range(3)
"""Whether the head of those that wait for a target's memory is to be looked at: no; before anything else happens at
this instant; after batches were composed."""


class Network(eqx.Module):
    """What a transfer takes: `latency_s + bytes / bandwidth`."""

    latency_s: Float64[Array, ""]
    bytes_per_token: Float64[Array, ""]
    bandwidth_bytes_per_s: Float64[Array, ""]
    """Infinite where it takes no time."""


class Stamps(eqx.Module):
    """When it happened, float64 `[N+1]`; nan: never."""

    asked_s: Float64[Array, " N+1"]
    """End of the prefill."""
    granted_s: Float64[Array, " N+1"]
    started_s: Float64[Array, " N+1"]
    landed_s: Float64[Array, " N+1"]
    scheduled_s: Float64[Array, " N+1"]
    """Start of the first iteration after it landed."""
    admitted_s: Float64[Array, " N+1"]
    """Start of the first iteration since it was last admitted."""


class Handover(eqx.Module):
    """Requests between two instances."""

    leaving: Fifo
    """With their first token, and not sent anywhere yet: one queue."""
    waiting: Fifo
    """For memory, a queue per target."""
    landed: Fifo
    """And not admitted yet, a queue per target."""
    incoming: Int32[Array, " I"]
    """By target, requests that were sent to it and are not admitted."""
    check: Int32[Array, " I"]
    """By target, whether to look at the head of `waiting`."""
    first_asked: Int32[Array, " I"]
    """Order in which targets were first asked for memory."""
    asks: Int32[Array, ""]
    lands_s: Float64[Array, " T"]
    """Of transfers under way; inf: none. And their requests, and the order in which they got memory."""
    request: Int32[Array, " T"]
    number: Int32[Array, " T"]
    started: Int32[Array, ""]
    link_free_s: Float64[Array, " links+1"]
    """When each link is free; the last element is spare."""
    held_blocks: Int32[Array, " N+1"]
    """Blocks at the source, until the transfer has landed."""
    target: Int32[Array, " N+1"]
    stamps: Stamps


def initial(shape: FleetShape) -> Handover:
    """Nobody is between instances."""
    n, i, t = shape.num_requests, shape.instances, shape.transfers
    zero = jnp.int32(0)
    links = {"none": 0, "link": i * i, "nic": 2 * i}[shape.contention]
    empty, one = queues.empty("fcfs", i, n, None), queues.empty("fcfs", 1, n, None)
    assert isinstance(empty, Fifo) and isinstance(one, Fifo)
    never = jnp.full(n + 1, jnp.nan)
    return Handover(
        leaving=one,
        waiting=empty,
        landed=empty,
        incoming=jnp.zeros(i, jnp.int32),
        check=jnp.zeros(i, jnp.int32),
        first_asked=jnp.full(i, 2**30, jnp.int32),
        asks=zero,
        lands_s=jnp.full(t, jnp.inf),
        request=jnp.full(t, n, jnp.int32),
        number=jnp.zeros(t, jnp.int32),
        started=zero,
        link_free_s=jnp.zeros(links + 1),
        held_blocks=jnp.zeros(n + 1, jnp.int32),
        target=jnp.full(n + 1, -1, jnp.int32),
        stamps=Stamps(never, never, never, never, never, never),
    )


def leave(handover: Handover, request: jax.Array, held_blocks: jax.Array, now_s: jax.Array) -> Handover:
    """A request (N: nobody) has its first token, and will go on elsewhere."""
    stamps = replace(handover.stamps, asked_s=put(handover.stamps.asked_s, request, now_s))
    return replace(
        handover,
        leaving=handover.leaving.push(jnp.int32(0), request),
        held_blocks=put(handover.held_blocks, request, held_blocks),
        stamps=stamps,
    )


def ask(handover: Handover, request: jax.Array, target: jax.Array) -> Handover:
    """The first of those that leave (N: nobody) asks for memory at its target."""
    there = request < handover.target.shape[0] - 1
    here = (jnp.arange(handover.check.shape[0]) == target) & there
    return replace(
        handover,
        leaving=handover.leaving.pop(jnp.int32(0), there),
        waiting=handover.waiting.push(target, request),
        check=select(here, BEFORE, handover.check),
        first_asked=select(here, jnp.minimum(handover.first_asked, handover.asks), handover.first_asked),
        asks=handover.asks + there,
        target=put(handover.target, request, target),
    )


def stay(handover: Handover, request: jax.Array, target: jax.Array, now_s: jax.Array) -> Handover:
    """The first of those that leave (N: nobody) goes on where it is: nothing moves, and it keeps its blocks."""
    there = request < handover.target.shape[0] - 1
    stamps = handover.stamps
    return replace(
        handover,
        leaving=handover.leaving.pop(jnp.int32(0), there),
        landed=handover.landed.push(target, request),
        target=put(handover.target, request, target),
        stamps=replace(
            stamps,
            granted_s=put(stamps.granted_s, request, now_s),
            started_s=put(stamps.started_s, request, now_s),
            landed_s=put(stamps.landed_s, request, now_s),
        ),
    )


def someone_leaves(handover: Handover) -> jax.Array:
    """Whether somebody is to be sent on."""
    return handover.leaving.head[0] < handover.target.shape[0] - 1


def look_again(handover: Handover, index: jax.Array, there: jax.Array, when: int) -> Handover:
    """Blocks were freed at an instance: the head of those that wait for its memory may get it."""
    here = (jnp.arange(handover.check.shape[0]) == index) & there
    fresh = here & (handover.waiting.head[:-1] < handover.target.shape[0] - 1)
    sooner = select(handover.check == UNCHECKED, when, jnp.minimum(handover.check, when))
    return replace(handover, check=select(fresh, sooner, handover.check))


class Next(NamedTuple):
    """The target to look at."""

    target: jax.Array
    there: jax.Array


def next_target(handover: Handover, settled: jax.Array) -> Next:
    """Of the targets to look at, the one that was asked first; those that may wait until all is `settled` now, then."""
    due = (handover.check == BEFORE) | ((handover.check == AFTER) & settled)
    order = select(due, handover.first_asked, 2**30)
    return Next(first_least(order), jnp.any(due))


def start(
    handover: Handover,
    network: Network,
    shape: FleetShape,
    target: jax.Array,
    source: jax.Array,
    tokens: jax.Array,
    fits: jax.Array,
    looked: jax.Array,
    now_s: jax.Array,
) -> tuple[Handover, jax.Array]:
    """Give the head of a target's queue its memory and its link if it `fits`; returns bool: no room for a transfer."""
    none = handover.target.shape[0] - 1
    request = select(fits, handover.waiting.first(target), none)
    spare, count = handover.link_free_s.shape[0] - 1, shape.instances
    out, into = jnp.int32(spare), jnp.int32(spare)
    if shape.contention == "link":
        out = into = select(fits, source * count + target, spare)
    elif shape.contention == "nic":
        out, into = select(fits, source, spare), select(fits, count + target, spare)
    begins = now_s
    if shape.contention != "none":
        begins = jnp.maximum(now_s, jnp.maximum(take(handover.link_free_s, out), take(handover.link_free_s, into)))
    stamps = handover.stamps
    whole = tokens * network.bytes_per_token / network.bandwidth_bytes_per_s
    if shape.layers:
        prefill_s = take(stamps.asked_s, request) - take(stamps.admitted_s, request)
        behind = whole - prefill_s * (shape.layers - 1) / shape.layers
        whole = jnp.maximum(whole / shape.layers, behind)
    lands = begins + (network.latency_s + whole)
    place = jnp.arange(handover.lands_s.shape[0], dtype=jnp.int32)
    free = jnp.min(select(handover.request == none, place, handover.lands_s.shape[0]))
    here = (place == free) & fits
    after = handover.waiting.pop(target, fits)
    mine = jnp.arange(count) == target
    again = mine & looked & fits & (after.first(target) < none)
    link_free_s = put(put(handover.link_free_s, out, lands), into, lands)
    return replace(
        handover,
        waiting=after,
        check=select(again, handover.check, select(mine & looked, UNCHECKED, handover.check)),
        lands_s=select(here, lands, handover.lands_s),
        request=select(here, request, handover.request),
        number=select(here, handover.started, handover.number),
        started=handover.started + fits,
        link_free_s=link_free_s.at[spare].set(0.0),
        stamps=replace(
            stamps,
            granted_s=put(stamps.granted_s, request, now_s),
            started_s=put(stamps.started_s, request, begins),
        ),
    ), fits & ~jnp.any(here)


def next_landing(handover: Handover) -> tuple[jax.Array, jax.Array]:
    """Which transfer lands next, and when."""
    first = jnp.min(handover.lands_s)
    number = select(handover.lands_s == first, handover.number, 2**31 - 1)
    return first_least(number), first


def land(handover: Handover, place: jax.Array, there: jax.Array, now_s: jax.Array) -> tuple[Handover, jax.Array]:
    """A transfer lands; returns its request, N if none does."""
    none = handover.target.shape[0] - 1
    request = select(there, handover.request[place], none)
    here = (jnp.arange(handover.lands_s.shape[0]) == place) & there
    return replace(
        handover,
        landed=handover.landed.push(take(handover.target, request), request),
        lands_s=select(here, jnp.inf, handover.lands_s),
        request=select(here, none, handover.request),
        stamps=replace(handover.stamps, landed_s=put(handover.stamps.landed_s, request, now_s)),
    ), request
