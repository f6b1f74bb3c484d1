#!/usr/bin/env bash
# Installs ratchet as $RUNNER_TEMP/ratchet/bin/ratchet on a hosted machine, without torch: every package by version and digest.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
python -I -m venv --clear "$RUNNER_TEMP/ratchet"
pip() { "$RUNNER_TEMP/ratchet/bin/python" -I -m pip "$@"; }
pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
  --requirement "$root/.github/requirements-hosted.txt"
# Without an index: fails if a dependency is missing above.
pip install --quiet --disable-pip-version-check --no-index --no-build-isolation "${root}[github]"
