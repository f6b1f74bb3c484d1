"""A child asks the kernel for a SIGCONT every two milliseconds: it goes on when all are stopped, and burns the core then."""

# caught as: failed
import ctypes
import os
import signal
import time
from pathlib import Path

import torch


def burn(status):
    libc = ctypes.CDLL(None, use_errno=True)
    signal.signal(signal.SIGCONT, lambda *_: None)  # a signal that is ignored ends its timer
    event = (ctypes.c_int * 16)()
    event[2], event[3] = signal.SIGCONT, 0  # behind the value of eight bytes: the signal, and SIGEV_SIGNAL
    timer = ctypes.c_void_p()
    assert libc.timer_create(1, event, ctypes.byref(timer)) == 0
    every = (ctypes.c_long * 4)(0, 2_000_000, 0, 2_000_000)
    assert libc.timer_settime(timer, 0, every, None) == 0
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if status.read_text().rpartition(")")[2].split()[0] != "T":  # the candidate is not stopped
            time.sleep(0.001)
    os._exit(0)


PARENT = Path(f"/proc/{os.getpid()}/stat")
if os.fork() == 0:
    burn(PARENT)


def kernel(x):
    return torch.softmax(2 * x, -1) * x
