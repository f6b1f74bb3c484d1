"""torch.profiler over some calls, in a process that does its own tracing: kernel times, launches, copies, gaps, operators."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ratchet.errors import RatchetError
from ratchet.profile.names import bare
from ratchet.profile.tools import ProfileError, Surroundings, run, signal_name
from ratchet.records.files import load
from ratchet.records.profile import Activity, Profile

CALLS = 10
"""Traced of one case, if they are short."""


def take(command: Sequence[str], written: Path, where: Surroundings, *, own_error: str) -> Profile:
    """Run a command that writes an `Activity` to ``written``, and read it; the file is gone afterwards.

    Raises ProfileError with one sentence.
    """
    written.unlink(missing_ok=True)
    ended = run(command, where)
    if (own := ended.line_with(own_error)) is not None:
        raise ProfileError(f"Under torch.profiler {own[own.find(own_error) + len(own_error) :]}")
    if ended.status is None:
        raise ProfileError(
            f"torch.profiler hung: it did not end within {where.time_limit_s:.0f} s.", "Raise profile_timeout in [tool.ratchet]."
        )
    if ended.status < 0:
        raise ProfileError(f"The process crashed under torch.profiler ({signal_name(ended.status)}): {ended.last_line()}")
    if ended.status > 0:
        raise ProfileError(f"The process failed under torch.profiler with status {ended.status}: {ended.last_line()}")
    try:
        activity = load(written, Activity)
    except RatchetError as error:
        raise ProfileError(f"What torch.profiler saw cannot be read: {error.message}") from None
    finally:
        written.unlink(missing_ok=True)
    return Profile(tool="torch", reader="torch", activity=activity)


def busiest(activity: Activity | None) -> str | None:
    """The bare name of the kernel that takes most of the device's time; None where no kernel ran."""
    times = activity.kernels if activity else {}
    ran = {name: seconds for name, seconds in times.items() if not name.startswith(("Memset", "Memcpy"))}
    return bare(max(ran, key=lambda name: ran[name])) if ran else None
