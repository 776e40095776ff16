"""Length distributions, one file each; the registry is what `prompt_tokens: {kind: ...}` may name."""

from jaxsim._component import registry
from jaxsim.workload.lengths.base import Lengths as Lengths
from jaxsim.workload.lengths.empirical import Empirical as Empirical
from jaxsim.workload.lengths.fixed import Fixed as Fixed
from jaxsim.workload.lengths.gamma import Gamma as Gamma
from jaxsim.workload.lengths.geometric import Geometric as Geometric
from jaxsim.workload.lengths.lognormal import Lognormal as Lognormal
from jaxsim.workload.lengths.normal import Normal as Normal
from jaxsim.workload.lengths.pareto import Pareto as Pareto
from jaxsim.workload.lengths.uniform import Uniform as Uniform

LENGTHS = registry(Fixed, Uniform, Normal, Lognormal, Gamma, Geometric, Pareto, Empirical)
