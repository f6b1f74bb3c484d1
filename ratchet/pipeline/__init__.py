"""Straight-line glue: each command of the command line is one function here."""

from ratchet.pipeline.advancing import Way, push_baseline
from ratchet.pipeline.alone import cases, run
from ratchet.pipeline.applying import Applied, apply_recorded
from ratchet.pipeline.baselines import accept_cases, record_baseline, rename_case, show_baseline, verify_baseline
from ratchet.pipeline.calibrating import calibrate, write_calibration
from ratchet.pipeline.checking import check
from ratchet.pipeline.commanding import Answered, answer
from ratchet.pipeline.exporting import export_tuning
from ratchet.pipeline.judging import compare, judge_again
from ratchet.pipeline.merging import merge
from ratchet.pipeline.profiling_by_hand import Profiled, profile
from ratchet.pipeline.published import lines_of, outputs_of, summary_of, write_published
from ratchet.pipeline.publishing import Asked, Published, publish
from ratchet.pipeline.replaying import replay, replay_simulated
from ratchet.pipeline.request import Done, Request
from ratchet.pipeline.roofline import draw_roofline
from ratchet.pipeline.subject import event_of
from ratchet.pipeline.tune_replaying import tune_replay
from ratchet.pipeline.tuning import tune
from ratchet.pipeline.tuning_request import TuneRequest
from ratchet.pipeline.writing import write, write_report

__all__ = [
    "Answered",
    "Applied",
    "Asked",
    "Done",
    "Profiled",
    "Published",
    "Request",
    "TuneRequest",
    "Way",
    "accept_cases",
    "answer",
    "apply_recorded",
    "calibrate",
    "cases",
    "check",
    "compare",
    "draw_roofline",
    "event_of",
    "export_tuning",
    "judge_again",
    "lines_of",
    "merge",
    "outputs_of",
    "profile",
    "publish",
    "push_baseline",
    "record_baseline",
    "rename_case",
    "replay",
    "replay_simulated",
    "run",
    "show_baseline",
    "summary_of",
    "tune",
    "tune_replay",
    "verify_baseline",
    "write",
    "write_calibration",
    "write_published",
    "write_report",
]
