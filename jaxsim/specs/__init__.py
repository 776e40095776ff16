"""Facts a scenario states: service-level objectives."""

from jaxsim.specs.slo import Slo as Slo
from jaxsim.specs.slo import SloLimit as SloLimit
