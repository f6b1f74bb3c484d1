"""What each call does to the state, and what it answers, with GitHub's limits."""

from tests.fake_github.routes import checks, conversation, files, issues, pulls, runners, runs
from tests.fake_github.routes.base import MISSING, Call, Reply, Routes, decoded

REGISTERED = (checks, conversation, files, issues, pulls, runners, runs)
"""Loading these fills the table."""

__all__ = ["MISSING", "REGISTERED", "Call", "Reply", "Routes", "decoded"]
