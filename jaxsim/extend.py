"""What new components are made of: one import for latencies, policies, routers, arrivals, lengths and trace formats.

A component is a frozen dataclass with a `kind`. Built in Python it works in a scenario at once; to be named in a file
it needs a line in its folder's registry.
"""

from jaxsim._arrays import select as select
from jaxsim._component import check as check
from jaxsim._component import check_not_negative as check_not_negative
from jaxsim._component import check_positive as check_positive
from jaxsim._component import component as component
from jaxsim.cluster.routing import AbstractRouter as AbstractRouter
from jaxsim.cluster.routing import StaticRouter as StaticRouter
from jaxsim.cluster.routing.base import RouterView as RouterView
from jaxsim.engine.policy import AbstractPolicy as AbstractPolicy
from jaxsim.engine.policy import VllmV1 as VllmV1
from jaxsim.engine.policy.base import Plan as Plan
from jaxsim.engine.policy.base import View as View
from jaxsim.latency import AbstractLatency as AbstractLatency
from jaxsim.latency import Piece as Piece
from jaxsim.latency.terms import Terms as Terms
from jaxsim.workload.arrivals import Arrivals as Arrivals
from jaxsim.workload.lengths import Lengths as Lengths
from jaxsim.workload.trace import FORMATS as FORMATS
from jaxsim.workload.trace import Rows as Rows
from jaxsim.workload.trace import TraceFormat as TraceFormat
from jaxsim.workload.trace.fields import SECONDS as SECONDS
from jaxsim.workload.trace.fields import TEXT as TEXT
from jaxsim.workload.trace.fields import TOKENS as TOKENS
from jaxsim.workload.trace.rows import rows_of as rows_of
from jaxsim.workload.trace.table import Columns as Columns
