"""Every threshold of the rules, in one place. Percentages are stored as such; the rest are ratios or what they say."""

from __future__ import annotations

# One side
COALESCED_PERCENT = 80.0
"""Below it, a fifth of the sectors that global accesses move is not used."""
OCCUPANCY_PERCENT = 60.0
L2_HIT_PERCENT = 80.0
THROUGHPUT_PERCENT = 50.0
"""Where neither arithmetic nor memory is busier than this, the kernel mostly waits."""
BUSY_PERCENT = 80.0
"""A unit this busy is the limit: more warps or more loads in flight do not help."""
CONFLICT_SHARE = 0.2
"""Extra wavefronts over all wavefronts of shared memory."""
SPILL_SHARE = 0.05
"""Local over local and global sectors; a few spilled values outside the loop cost nothing."""
WAITING_SHARE = 0.5
"""Of the cycles between two instructions of a warp: one that waits less for its loads mostly does something else."""
DIVERGENT_THREADS = 24.0
"""Of the 32 of a warp that are active in the average instruction."""
TAIL_SHARE = 0.2
"""Of the time in which the last wave leaves the GPU partly empty."""
FEW_WAVES = 8.0
"""With more waves, blocks end at different times and fill the gaps."""
SMALL_GRID_WAVES = 0.5
SHORT_KERNEL_S = 5e-6
"""A launch takes the host about as long, so a shorter kernel is waited for."""
MANY_LAUNCHES = 8
MATRIX_INTENSITY = 50.0
"""FLOPs over bytes of device memory, from which products of matrices are likely."""
SERIAL_ATOMICS_SHARE = 0.2
"""Atomics over all requests to global memory."""

# Of traced calls
GAP_SHARE = 0.3
ALLOCATION_SHARE = 0.1

TIMES_SHARE = 0.1
"""Of the change of a call: what moved by less is not named as its cause."""
SAME_TRACED = 1.02
"""Traced times that differ by less are the same time."""

# Both sides
NOTICED = 1.15
"""A figure that grew or shrank by less is the same figure."""
SAME_WORK = 0.05
"""Operations that differ by less are the same work."""
TWICE = 2.0
"""For counts that vary by themselves."""
HIT_POINTS = 10.0
STORM = 4.0
"""So many times the launches are a storm; fewer are an extra kernel."""
