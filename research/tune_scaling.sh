#!/usr/bin/env bash
# Configurations a minute on 1, 2 and 4 GPUs, and on Ray: 2 GPUs of one host, two nodes on one host, and one of these killed.
# Usage: research/tune_scaling.sh FOLDER [BUDGET]        (BUDGET of the runs without Ray: 2m; those with Ray have 3m)
# Needs two GPUs, a checkout, and ray; with four it measures four. Records, tables and what Ray says go to FOLDER; the last lines
# are the tables. A search uses seven tenths of its budget. Takes about 12 minutes with the default; RAY_ONLY=1 leaves out the first part.
set -euo pipefail
mkdir -p "$1"
out=$(realpath "$1") budget=${2:-2m} port=${RAY_PORT:-6399} nodes=()
cd "$(git rev-parse --show-toplevel)"
python=${PYTHON:-python3} case=${CASE:-products/square_8192}
gpus=$(nvidia-smi --list-gpus | wc -l)
if [ "$gpus" -lt 2 ]; then
    echo "tune_scaling: this machine has $gpus GPU, and two are needed." >&2
    exit 3
fi

scale() { # NAME ARGUMENTS…: one table; what fails stops nothing else
    local name=$1
    shift
    echo "$(date +%T) $name"
    "$python" research/scaling.py --case "$case" --keep "$out/$name" "$@" >"$out/$name.md" 2>"$out/$name.err" ||
        echo "| $name failed: see $name.err | |" >>"$out/$name.md"
}

node() { # GPU ARGUMENTS…: a Ray node that has this GPU alone, until its process is killed
    local gpu=$1
    shift
    CUDA_VISIBLE_DEVICES=$gpu "$python" -m ray.scripts.scripts start --block --num-gpus=1 --num-cpus=2 --disable-usage-stats "$@" \
        >"$out/node-$gpu.txt" 2>&1 &
    nodes+=($!)
}

start_nodes() {
    node 0 --head --port="$port" --include-dashboard=false
    sleep 15
    node 1 --address="127.0.0.1:$port"
    sleep 10
}

stop_nodes() {
    for pid in "${nodes[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${nodes[@]}"; do wait "$pid" 2>/dev/null || true; done
    nodes=()
}
trap stop_nodes EXIT

if [ -z "${RAY_ONLY:-}" ]; then
    lists=(0 "0,1")
    [ "$gpus" -lt 4 ] || lists+=("0,1,2,3")
    scale local --gpus "${lists[@]}" --budget "$budget"
fi

CUDA_VISIBLE_DEVICES=0,1 scale ray_2_gpus --gpus --ray --budget 3m --evaluations 500

start_nodes
RAY_ADDRESS=127.0.0.1:$port scale ray_2_nodes --gpus --ray --budget 3m --evaluations 500
# The second node goes in the middle of the next search: its exit code and the count below say whether a candidate was lost.
(sleep 45 && kill -9 "${nodes[1]}" && pkill -9 -P "${nodes[1]}") 2>/dev/null &
RAY_ADDRESS=127.0.0.1:$port scale ray_node_killed --gpus --ray --budget 3m --evaluations 1200
stop_nodes

"$python" - "$out" >"$out/lost.md" <<'PYTHON'
"""Of each record: were all configurations tried once, and on how many GPUs?"""
import json, pathlib, sys

print("| record | tried | of them different | stations | ended |\n|:--|--:|--:|--:|:--|")
for path in sorted(pathlib.Path(sys.argv[1]).glob("*/*.json")):
    record = json.loads(path.read_text())
    tried = [json.dumps(entry["configuration"]) for entry in record["evaluations"]]
    stations = {entry["gpu"] for entry in record["evaluations"]}
    ended = record["sessions"][-1]["ended"]
    print(f"| {path.parent.name}/{path.stem} | {len(tried)} | {len(set(tried))} | {len(stations)} | {ended} |")
PYTHON

notices=$(cat "$out"/*.err | grep -c RAY_ || true)
for table in "$out"/{local,ray_2_gpus,ray_2_nodes,ray_node_killed,lost}.md; do
    [ ! -f "$table" ] || { echo && basename "$table" .md && cat "$table"; }
done
echo
echo "Lines of Ray's own notices (RAY_…) that a user saw: $notices"
