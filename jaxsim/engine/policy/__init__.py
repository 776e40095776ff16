"""Schedulers. One file each; a new one is a file plus a line in `POLICIES`."""

from jaxsim._component import registry
from jaxsim.engine.policy.base import AbstractPolicy as AbstractPolicy
from jaxsim.engine.policy.base import View as View
from jaxsim.engine.policy.vllm_v1 import VllmV1 as VllmV1

POLICIES = registry(VllmV1)
