"""How many requests a second does the chat service bear under its SLO, and how sure is that?

Finds the highest arrival rate that keeps a P99 TTFT of one second and draws the goodput curve with its knee:
capacity.png. The same from the shell: jaxsim capacity examples/chat.yaml
"""

from pathlib import Path

import jaxsim

scenario = jaxsim.load_scenario(Path(__file__).with_name("chat.yaml"))
answer = jaxsim.capacity(scenario, precision=0.05)
print(answer)
print(answer.to_pandas()[["rate_per_s", "met", "ttft_s.p99", "goodput_per_s"]].to_string(index=False))
answer.plot().figure.savefig("capacity.png", dpi=150)
