"""From what happened to each request to what a run says: latencies, SLO, goodput, and how sure they are."""

from jaxsim.metrics.accumulate import Accumulator as Accumulator
from jaxsim.metrics.lane_totals import LaneTotals as LaneTotals
from jaxsim.metrics.request_table import RequestTable as RequestTable
from jaxsim.metrics.service_class import ServiceClass as ServiceClass
