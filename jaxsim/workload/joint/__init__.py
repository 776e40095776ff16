"""Distributions of prompt and output together, one file each; the registry is what `lengths: {kind: ...}` may name."""

from jaxsim._component import registry
from jaxsim.workload.joint.base import JointLengths as JointLengths
from jaxsim.workload.joint.base import independent as independent
from jaxsim.workload.joint.correlated import Correlated as Correlated
from jaxsim.workload.joint.pairs import Pairs as Pairs

JOINT_LENGTHS = registry(Correlated, Pairs)
