"""What torch.profiler saw of a call: kernels, launches, copies and gaps, summed up by name. Pure."""

from __future__ import annotations

from ratchet.core.records import Count, NotNegative, Record


class Activity(Record):
    """Times that torch.profiler saw of some calls, where there are no counters."""

    calls: Count
    wall_s: NotNegative
    """From the first to the last event of the traced calls."""
    kernels: dict[str, NotNegative] = {}
    """Name → seconds on the device; on the CPU, operators and seconds."""
    ran: dict[str, Count] = {}
    """Name → how often this kernel or copy ran in all calls together; empty where the tracer does not say."""
    launches: Count = 0
    copies_s: NotNegative = 0.0
    copies: dict[str, NotNegative] = {}
    """Kind of copy, such as ``Memcpy DtoD``, → its part of ``copies_s``."""
    pageable_copies: Count = 0
    """Copies between the device and host memory that is not pinned."""
    gaps_s: NotNegative | None = None
    """Device idle between the first kernel and the last; None on the CPU."""
    queued_s: NotNegative | None = None
    """The time from the end of each launch to the start of its kernel, together. Only nsys said it, in older records."""
    cpu_s: dict[str, NotNegative] = {}
    """Operator or API call → seconds on the CPU."""
    allocation_s: NotNegative = 0.0
    """CPU time in allocation calls."""
