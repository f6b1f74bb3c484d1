"""Wait in the background for the certificate, and raise its speed-up as soon as it is written.

A process that left the session looks in the folders of the processes above for a new JSON file with a verdict, for 60 s.
"""

# baseline: softmax
# options: --certify win.json
# claims: a certificate with ten times the speed-up; `--verify` must refuse it by name

import contextlib
import os
import re
import time
from pathlib import Path

import torch


def folders():
    process = os.getpid()
    while process > 1:
        with contextlib.suppress(OSError):
            yield Path(f"/proc/{process}/cwd").resolve()
        try:
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return


def wait(places, since):
    os.setsid()
    os.closerange(0, 1024)
    while time.time() < since + 60:
        for path in (path for place in places for path in place.glob("win.json")):
            with contextlib.suppress(OSError):
                text = path.read_text(encoding="utf-8")
                if path.stat().st_mtime >= since and '"verdict"' in text:
                    path.write_text(re.sub(r'("speedup": ?)(\d)', r"\g<1>1\2", text), encoding="utf-8")
                    os._exit(0)
        time.sleep(0.05)
    os._exit(0)


PLACES = set(folders())
child = os.fork()
if child == 0:
    if os.fork() == 0:
        wait(PLACES, time.time())
    os._exit(0)
os.waitpid(child, 0)


def kernel(x):
    return torch.softmax(2 * x, -1) * x
