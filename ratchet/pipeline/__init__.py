"""Straight-line glue: each command of the command line is one function here."""

from ratchet.pipeline.alone import cases, run
from ratchet.pipeline.baselines import record_baseline, show_baseline
from ratchet.pipeline.checking import check
from ratchet.pipeline.judging import compare, judge_again
from ratchet.pipeline.request import Done, Request
from ratchet.pipeline.writing import write, write_report

__all__ = [
    "Done",
    "Request",
    "cases",
    "check",
    "compare",
    "judge_again",
    "record_baseline",
    "run",
    "show_baseline",
    "write",
    "write_report",
]
