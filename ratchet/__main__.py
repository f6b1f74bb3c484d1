"""``python -m ratchet`` is ``ratchet``."""

import sys

from ratchet.core.cli import main

sys.exit(main())
