#!/usr/bin/env bash
# Plants two slowdowns in a copy of this repository and checks it: how docs/examples/h200 was made. Usage: example.sh FOLDER
# Each lane of `normalize` reads neighbouring vectors, so that a warp's loads are far apart; `attention` takes half as many keys
# at a time, with a stage less in flight (head_dim 64 only). The report, the pages and what the terminal says go to FOLDER.
set -euo pipefail
mkdir -p "$1"
here=$(git rev-parse --show-toplevel) out=$(realpath "$1") clone=$(mktemp -d)
mkdir "$clone/example"
git ls-files -z | tar --null -T - -c | tar -x -C "$clone/example"
cd "$clone/example"
git init -q && git add -A
git -c user.name=example -c user.email=example@example.org commit -qm "ratchet as it is"
sed -i 's/lane + i \* kLanes/lane * kPerLane + i/' bench/kernels/normalize.cu
sed -i 's/64: {"BLOCK_M": 64, "BLOCK_N": 64, "NUM_STAGES": 3,/64: {"BLOCK_M": 64, "BLOCK_N": 32, "NUM_STAGES": 2,/' bench/attention.py
git -c user.name=example -c user.email=example@example.org commit -qam "attention, normalize: two slowdowns, planted"
code=0
python3 -m ratchet check >"$out/terminal.txt" 2>"$out/progress.txt" || code=$?
cp results/ratchet_report.md results/report.json "$out"
cp results/nsight/*.png "$out" 2>/dev/null || true
tail -40 "$out/terminal.txt"
echo "exit $code"
rm -rf "$clone"
