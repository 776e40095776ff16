"""Trace formats, one file each; which one a file has is seen from its header."""

from jaxsim.workload.trace.azure import Azure as Azure
from jaxsim.workload.trace.base import Rows as Rows
from jaxsim.workload.trace.base import TraceError as TraceError
from jaxsim.workload.trace.base import TraceFormat as TraceFormat
from jaxsim.workload.trace.base import read as read
from jaxsim.workload.trace.jaxsim_csv import JaxsimCsv as JaxsimCsv

FORMATS: dict[str, TraceFormat] = {form.name: form for form in (JaxsimCsv(), Azure())}
