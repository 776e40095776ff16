"""Routers. One file each; a new one is a file plus a line in `ROUTERS`."""

from jaxsim._component import registry
from jaxsim.cluster.routing.base import AbstractRouter as AbstractRouter
from jaxsim.cluster.routing.random import Random as Random
from jaxsim.cluster.routing.round_robin import RoundRobin as RoundRobin

ROUTERS = registry(RoundRobin, Random)
