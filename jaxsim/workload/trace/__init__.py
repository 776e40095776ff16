"""Trace formats, one file each; which one a file has is seen from its columns."""

from jaxsim.workload.trace.aiperf import AiPerf as AiPerf
from jaxsim.workload.trace.azure import Azure as Azure
from jaxsim.workload.trace.base import TraceFormat as TraceFormat
from jaxsim.workload.trace.base import read as read
from jaxsim.workload.trace.burstgpt import BurstGpt as BurstGpt
from jaxsim.workload.trace.errors import TraceError as TraceError
from jaxsim.workload.trace.genai_perf import GenAiPerf as GenAiPerf
from jaxsim.workload.trace.guidellm import GuideLlm as GuideLlm
from jaxsim.workload.trace.inference_perf import InferencePerf as InferencePerf
from jaxsim.workload.trace.jaxsim_csv import JaxsimCsv as JaxsimCsv
from jaxsim.workload.trace.lengths import LengthList as LengthList
from jaxsim.workload.trace.mapped import MappedColumns as MappedColumns
from jaxsim.workload.trace.mapped import check_columns as check_columns
from jaxsim.workload.trace.mooncake import Mooncake as Mooncake
from jaxsim.workload.trace.otel import OpenTelemetry as OpenTelemetry
from jaxsim.workload.trace.rows import Measured as Measured
from jaxsim.workload.trace.rows import Rows as Rows
from jaxsim.workload.trace.sharegpt import ShareGpt as ShareGpt
from jaxsim.workload.trace.splitwise import Splitwise as Splitwise
from jaxsim.workload.trace.vidur import Vidur as Vidur
from jaxsim.workload.trace.vllm_bench import VllmBench as VllmBench

FORMATS: dict[str, TraceFormat] = {
    form.name: form
    for form in (
        *(JaxsimCsv(), Azure(), Mooncake(), BurstGpt(), Vidur(), Splitwise()),
        *(VllmBench(), GuideLlm(), InferencePerf(), AiPerf(), GenAiPerf(), OpenTelemetry()),
        *(LengthList(), ShareGpt()),  # last: they ask for the least
    )
}
