"""What main measured, applied to the baseline file as it is on the remote at this moment; again for each try of a push."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ratchet.errors import GitError, UsageError
from ratchet.forge.push import Change, Found, Target, commit_on
from ratchet.forge.remote import Remote
from ratchet.judge import baseline as judge_baseline
from ratchet.judge import steps
from ratchet.judge.joined import joined
from ratchet.judge.moves import Recorded
from ratchet.judge.steps import Accepted, Person
from ratchet.judge.verdict import judge_run
from ratchet.pipeline.accepting import by_case
from ratchet.pipeline.at_ref import intact_baseline
from ratchet.records.acceptance import Acceptance
from ratchet.records.baseline import Baseline
from ratchet.records.chain import StepKind
from ratchet.records.files import dumps
from ratchet.records.policy import Policy
from ratchet.records.run import RunRecord
from ratchet.records.verdict import ReportRecord
from ratchet.report.forward import commit_message


@dataclass
class Moving:
    """The steps of some runs. Called once a try; what the last call did is kept."""

    remote: Remote
    target: Target
    path: str
    policy: Policy
    runs: tuple[RunRecord, ...]
    acceptances: tuple[Acceptance, ...]
    recorded: Recorded = field(default_factory=lambda: Recorded(Baseline(), (), (), {}, {}))
    accepted: tuple[Accepted, ...] = ()
    notes: tuple[str, ...] = ()

    def __call__(self, found: Found) -> Change | None:
        """The next file, or None where nothing changes. Raises GitError, RecordError and UsageError: then nothing is pushed."""
        main = intact_baseline(found.content, f"{self.path} of {self.target.main}")
        waiting = None if found.waiting is None else intact_baseline(found.waiting, f"{self.path} of {self.target.side}")
        apart = self.target.mode == "branch"
        before = main if waiting is None else waiting if apart else joined(main, waiting)
        runs = [landed(self.remote, run, found.main, self.target.main) for run in self.runs]
        measured = [(run, judge_run(run, before, self.policy)) for run in runs]
        self.recorded = judge_baseline.record(before, measured)
        after, self.accepted, self.notes = with_accepted(self.recorded.baseline, measured, self.acceptances)
        if after in ((waiting or Baseline(),) if apart else (main, waiting)):
            return None
        return Change(dumps(after).encode(), commit_message(self.recorded, self.accepted, self.target.mode))


def landed(remote: Remote, run: RunRecord, tip: str, branch: str) -> RunRecord:
    """The run, if the branch holds what it measured, under the commit that holds it there.

    Raises GitError where history was rewritten without it.
    """
    commit = commit_on(remote, tip, run.head.commit, run.head.content)
    if commit is None:
        raise GitError(
            f"{run.head.commit[:10]} is no longer on {branch}: nothing was recorded.",
            "The run of what is there now records it.",
        )
    return run.model_copy(update={"head": run.head.model_copy(update={"commit": commit})})


def with_accepted(
    baseline: Baseline, measured: Sequence[tuple[RunRecord, ReportRecord]], acceptances: Sequence[Acceptance]
) -> tuple[Baseline, tuple[Accepted, ...], tuple[str, ...]]:
    """The baseline with each accepted case moved to the head that was measured, what moved, and why others did not.

    A case that this commit's acceptance has moved before stays, so that a job may run again.
    """
    accepted: list[Accepted] = []
    notes: list[str] = []
    for run, report in measured:
        for each in by_case(acceptances, report):
            entry = baseline.entries(run.environment.fingerprint).get(each.case)
            taken = [step.commit for step in entry.steps if step.kind is StepKind.ACCEPTED] if entry else []
            if run.head.commit in taken or (entry and entry.git_commit == run.head.commit):
                continue
            try:
                baseline, moved = steps.accept(baseline, run, report, [each.case], Person(each.by, each.reason, each.at))
            except UsageError as error:
                notes.append(f"{each.case} was accepted by {each.by}, but does not move: {error.message}")
            else:
                accepted += moved
    return baseline, tuple(accepted), tuple(dict.fromkeys(notes))
