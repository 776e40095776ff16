"""Routers. One file each; a new one is a file plus a line in `ROUTERS`."""

from jaxsim._component import registry
from jaxsim.cluster.routing.base import AbstractRouter as AbstractRouter
from jaxsim.cluster.routing.base import StateRouter as StateRouter
from jaxsim.cluster.routing.base import StaticRouter as StaticRouter
from jaxsim.cluster.routing.least_outstanding import LeastOutstanding as LeastOutstanding
from jaxsim.cluster.routing.least_waiting import LeastWaiting as LeastWaiting
from jaxsim.cluster.routing.random import Random as Random
from jaxsim.cluster.routing.round_robin import RoundRobin as RoundRobin

ROUTERS = registry(RoundRobin, Random, LeastWaiting, LeastOutstanding)
