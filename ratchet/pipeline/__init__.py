"""Straight-line glue: each command of the command line is one function here."""

from ratchet.pipeline.alone import cases, run
from ratchet.pipeline.baselines import accept_cases, record_baseline, rename_case, show_baseline, verify_baseline
from ratchet.pipeline.calibrating import calibrate, write_calibration
from ratchet.pipeline.checking import check
from ratchet.pipeline.judging import compare, judge_again
from ratchet.pipeline.merging import merge
from ratchet.pipeline.profiling_by_hand import Profiled, profile
from ratchet.pipeline.replaying import replay, replay_simulated
from ratchet.pipeline.request import Done, Request
from ratchet.pipeline.roofline import draw_roofline
from ratchet.pipeline.writing import write, write_report

__all__ = [
    "Done",
    "Profiled",
    "Request",
    "accept_cases",
    "calibrate",
    "cases",
    "check",
    "compare",
    "draw_roofline",
    "judge_again",
    "merge",
    "profile",
    "record_baseline",
    "rename_case",
    "replay",
    "replay_simulated",
    "run",
    "show_baseline",
    "verify_baseline",
    "write",
    "write_calibration",
    "write_report",
]
