"""``python -m ratchet`` is ``ratchet``."""

import sys

from ratchet.cli import main

sys.exit(main())
