"""Means of a fleet in balance with its arrivals: what an engine bears, and how long its queue remembers."""

from jaxsim.mean_field.fleet import FleetField as FleetField
from jaxsim.mean_field.instance import MeanField as MeanField
from jaxsim.mean_field.instance import OperatingPoint as OperatingPoint
from jaxsim.mean_field.mix import Mix as Mix
from jaxsim.mean_field.mix import mix_of as mix_of
from jaxsim.mean_field.mix import rate_of as rate_of
from jaxsim.mean_field.mix import scv as scv
from jaxsim.mean_field.past import Past as Past
from jaxsim.mean_field.past import past_of as past_of
