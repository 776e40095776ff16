"""Writes chat_500.csv, the bundled trace: 500 requests of a bursty chat service, invented, drawn with seed 1.

usage: python examples/data/make_chat_500.py > examples/data/chat_500.csv

Arrivals alternate between busy phases (9 requests/s for 8 s on average) and quiet ones (2 requests/s for 16 s). Prompts
and answers are lognormal. Arrivals are rounded to milliseconds and begin at 0.
"""

import numpy as np

from jaxsim.workload import Synthetic
from jaxsim.workload.arrivals import OnOff
from jaxsim.workload.lengths import Lognormal

SEED = 1

chat = Synthetic(
    num_requests=500,
    arrivals=OnOff(rate_on=9.0, rate_off=2.0, mean_on_s=8.0, mean_off_s=16.0),
    prompt_tokens=Lognormal(median=450.0, sigma=1.0, min=8, max=12000),
    output_tokens=Lognormal(median=160.0, sigma=0.8, min=2, max=1500),
).draw(np.array([SEED]))

print("arrival_s,prompt_tokens,output_tokens")
for row in zip(chat.arrival_s[0] - chat.arrival_s[0, 0], chat.prompt_tokens[0], chat.output_tokens[0], strict=True):
    print("{:.3f},{},{}".format(*row))
