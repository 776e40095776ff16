"""Facts: models, accelerators, how a model is split over them, what memory is left, and service-level objectives."""

from jaxsim.specs.hardware import HardwareSpec as HardwareSpec
from jaxsim.specs.hardware import Link as Link
from jaxsim.specs.hardware import named_hardware as named_hardware
from jaxsim.specs.hugging_face import from_hf_config as from_hf_config
from jaxsim.specs.memory import MemoryUse as MemoryUse
from jaxsim.specs.memory import memory_budget as memory_budget
from jaxsim.specs.memory import num_blocks as num_blocks
from jaxsim.specs.model import ModelSpec as ModelSpec
from jaxsim.specs.model import named_model as named_model
from jaxsim.specs.parallelism import Parallelism as Parallelism
from jaxsim.specs.slo import Slo as Slo
from jaxsim.specs.slo import SloLimit as SloLimit
