"""Routers. One file each; a new one is a file plus a line in `ROUTERS`."""

from jaxsim._component import registry
from jaxsim.cluster.routing.base import AbstractRouter as AbstractRouter
from jaxsim.cluster.routing.base import RouterView as RouterView
from jaxsim.cluster.routing.base import StaticRouter as StaticRouter
from jaxsim.cluster.routing.central_queue import CentralQueue as CentralQueue
from jaxsim.cluster.routing.least_kv import LeastKv as LeastKv
from jaxsim.cluster.routing.least_outstanding import LeastOutstanding as LeastOutstanding
from jaxsim.cluster.routing.least_tokens import LeastTokens as LeastTokens
from jaxsim.cluster.routing.least_waiting import LeastWaiting as LeastWaiting
from jaxsim.cluster.routing.power_of_two import PowerOfTwo as PowerOfTwo
from jaxsim.cluster.routing.random import Random as Random
from jaxsim.cluster.routing.round_robin import RoundRobin as RoundRobin
from jaxsim.cluster.routing.session_affinity import SessionAffinity as SessionAffinity
from jaxsim.cluster.routing.weighted_capacity import WeightedCapacity as WeightedCapacity

ROUTERS = registry(
    RoundRobin,
    Random,
    LeastWaiting,
    LeastOutstanding,
    LeastTokens,
    LeastKv,
    PowerOfTwo,
    WeightedCapacity,
    SessionAffinity,
    CentralQueue,
)
