#!/usr/bin/env bash
# Locks the GPU's clocks to RATCHET_LOCK_CLOCKS (MHz, or "min,max" in MHz), or releases them. Where that is not
# permitted, the clocks stay as they are: both sides take turns under the same clocks either way.
set -euo pipefail

smi() { if [ "$(id -u)" = 0 ]; then nvidia-smi "$@"; else sudo -n nvidia-smi "$@"; fi; }

case "$1" in
  lock)
    if ! [[ "$RATCHET_LOCK_CLOCKS" =~ ^[0-9]{2,5}(,[0-9]{2,5})?$ ]]; then
      echo "::error title=ratchet::RATCHET_LOCK_CLOCKS is not a clock in MHz: write 1410, or 1200,1410."
      exit 2
    fi
    smi "--lock-gpu-clocks=$RATCHET_LOCK_CLOCKS" || echo "::warning title=ratchet::The clocks of the GPU could not be locked; they are as they were."
    ;;
  release)
    smi --reset-gpu-clocks || echo "::warning title=ratchet::The clocks of the GPU could not be released; run nvidia-smi --reset-gpu-clocks on the machine."
    ;;
esac
