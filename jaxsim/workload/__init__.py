"""Workloads: what arrives when, and how long it is."""

from jaxsim._component import registry
from jaxsim.workload.classes import RequestClass as RequestClass
from jaxsim.workload.replay import Trace as Trace
from jaxsim.workload.requests import Requests as Requests
from jaxsim.workload.synthetic import Synthetic as Synthetic
from jaxsim.workload.trace import TraceError as TraceError

WORKLOADS = registry(Synthetic, Trace)
