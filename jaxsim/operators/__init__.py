"""L1: operators of one iteration: operations, bytes and seconds. One file per kind of operator."""

from jaxsim.operators.base import Operator as Operator
from jaxsim.operators.efficiency import Efficiency as Efficiency
from jaxsim.operators.efficiency import KernelEfficiency as KernelEfficiency
from jaxsim.operators.efficiency import fitted_efficiency as fitted_efficiency
from jaxsim.operators.transformer import transformer_operators as transformer_operators
