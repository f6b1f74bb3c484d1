#!/usr/bin/env bash
# Asks without a GPU which cases a checkout changes, and leaves a report and the outputs of the action. It fails nothing: what it
# cannot say needs the GPU. Kernels are compiled, which imports the checkout, only where the report says that some have to be.
set -euo pipefail

scripts=$(dirname "${BASH_SOURCE[0]}")
results=${RATCHET_RESULTS:-results}
python="$RUNNER_TEMP/ratchet/bin/python"
pip() { "$python" -I -m pip install --quiet --disable-pip-version-check --only-binary :all: "$@"; }

# The record of the reference counts, and not one that this commit brings, nor a report that it brings.
rm -f "$results/static.json" "$results/static_report.json"
bash "$scripts/measure.sh"
wanted=$("$python" -I "$scripts/static_report.py" install "$results")
if [ -n "$wanted" ]; then
  read -r torch triton <<< "$wanted"
  # shellcheck disable=SC2153  # an input, and no misspelling of the array
  read -r -a packages <<< "${PACKAGES//$'\n'/ }"
  if pip "$torch" --index-url https://download.pytorch.org/whl/cpu && pip "$triton" ${packages[@]+"${packages[@]}"}; then
    bash "$scripts/measure.sh"
  else
    echo "::notice title=ratchet::$wanted cannot be installed here: these kernels need the GPU."
  fi
fi
"$python" -I "$scripts/static_report.py" outputs "$results" >> "$GITHUB_OUTPUT"
