"""Schedulers. One file each; a new one is a file plus a line in `POLICIES`."""

from jaxsim._component import registry
from jaxsim.engine.policy.base import AbstractPolicy as AbstractPolicy
from jaxsim.engine.policy.base import Plan as Plan
from jaxsim.engine.policy.base import View as View
from jaxsim.engine.policy.orca import Orca as Orca
from jaxsim.engine.policy.sarathi import Sarathi as Sarathi
from jaxsim.engine.policy.sglang import Sglang as Sglang
from jaxsim.engine.policy.static import Static as Static
from jaxsim.engine.policy.stream import StreamPolicy as StreamPolicy
from jaxsim.engine.policy.vllm_v0 import VllmV0 as VllmV0
from jaxsim.engine.policy.vllm_v1 import VllmV1 as VllmV1

POLICIES = registry(VllmV1, VllmV0, Sarathi, Orca, Static, Sglang)
