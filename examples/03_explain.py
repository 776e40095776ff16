"""How wrong is a static-batch, a mean-length or an M/M/c estimate, and which question needs which fidelity?

One workload by ever better models, each with its error against the simulation: explain.png. Means follow from a mean
batch; the tail does not. The same from the shell: jaxsim explain examples/chat.yaml
"""

from pathlib import Path

import jaxsim

scenario = jaxsim.load_scenario(Path(__file__).with_name("chat.yaml"), ["workload.arrivals.rate=24"])
answer = jaxsim.explain(scenario)
print(answer)
print(answer.to_pandas().set_index("model").filter(like="error").to_string(float_format="{:+.0%}".format))
answer.plot().figure.savefig("explain.png", dpi=150)
