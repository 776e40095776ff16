"""Arrival processes, one file each; the registry is what a scenario's `arrivals: {kind: ...}` may name."""

from jaxsim._component import registry
from jaxsim.workload.arrivals.base import Arrivals as Arrivals
from jaxsim.workload.arrivals.burst import Burst as Burst
from jaxsim.workload.arrivals.closed_loop import ClosedLoop as ClosedLoop
from jaxsim.workload.arrivals.constant import Constant as Constant
from jaxsim.workload.arrivals.gamma import Gamma as Gamma
from jaxsim.workload.arrivals.markov import Markov as Markov
from jaxsim.workload.arrivals.on_off import OnOff as OnOff
from jaxsim.workload.arrivals.piecewise import Piecewise as Piecewise
from jaxsim.workload.arrivals.poisson import Poisson as Poisson
from jaxsim.workload.arrivals.weibull import Weibull as Weibull

ARRIVALS = registry(Poisson, Gamma, Weibull, Constant, Burst, OnOff, Markov, Piecewise, ClosedLoop)
