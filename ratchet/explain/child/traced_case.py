"""Trace the case that a worker has prepared: the request that `ratchet.explain.traces` sends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ratchet.common.call_trace import trace

if TYPE_CHECKING:
    from ratchet.core.bench.child.worker import Worker


def _answer_trace(worker: Worker) -> dict[str, Any]:
    """Return the activity of some calls of the prepared case, as torch.profiler sees it."""
    job = worker.current()
    device = "cpu" if job.clocks[0].name == "cpu" else worker.tree.spec.device
    return {"activity": trace(job.call, device).model_dump(mode="json")}


OPERATIONS = {"trace": _answer_trace}
"""Requests of a profile (`ratchet.tools`)."""
