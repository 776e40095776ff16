"""L2: iteration times. One file per model; a new one is a file plus a line in `LATENCIES`."""

from jaxsim._component import registry
from jaxsim.latency.base import AbstractLatency as AbstractLatency
from jaxsim.latency.base import Piece as Piece
from jaxsim.latency.kernel_profile import KernelProfile as KernelProfile
from jaxsim.latency.linear import Linear as Linear
from jaxsim.latency.phased_linear import PhasedLinear as PhasedLinear
from jaxsim.latency.roofline import Roofline as Roofline
from jaxsim.latency.table import Table as Table
from jaxsim.latency.table import tabulate as tabulate

LATENCIES = registry(Linear, PhasedLinear, Roofline, Table, KernelProfile)
