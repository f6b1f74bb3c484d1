#!/usr/bin/env bash
# A session of six experiments on bench/pipeline.py in a repository of its own.
# Usage: experiments.sh FOLDER [options of ratchet experiment, such as --device cpu]. What the terminal says goes to FOLDER.
set -euo pipefail
mkdir -p "$1"
here=$(cd "$(dirname "$0")/.." && pwd) out=$(realpath "$1") clone=$(mktemp -d)
shift
ratchet() { PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}" python3 -m ratchet "$@"; }
mkdir -p "$clone/session/bench"
cp "$here/bench/pipeline.py" "$clone/session/bench"
cd "$clone/session"
printf 'results/\n' >.gitignore
git init -q && git add -A
git -c user.name=example -c user.email=example@example.org commit -qm "the pipeline as it is"

# try NAME STAGE PATTERN: compare what sed has changed; take it back unless it was kept.
try() {
    code=0
    ratchet experiment run -m "$1" --stage "$2" --pattern "$3" --quiet "${options[@]}" || code=$?
    [ "$code" -eq 3 ] && exit 3
    if [ "$code" -eq 0 ]; then cp bench/pipeline.py "$clone/kept.py"; else cp "$clone/kept.py" bench/pipeline.py; fi
}
options=("$@")
cp bench/pipeline.py "$clone/kept.py"
{
    time ratchet experiment start pipeline --quiet "${options[@]}"

    sed -i 's|return frame.float() / 255|return frame|; s|return image.to(device)|return image.to(device).float() / 255|' bench/pipeline.py
    try "send bytes, and make floats of them on the GPU" upload pageable-h2d

    sed -i 's|dtype=torch.uint8)$|dtype=torch.uint8)\n    frame = frame.pin_memory() if device.type == "cuda" else frame|; s|image.to(device).float|image.to(device, non_blocking=True).float|' bench/pipeline.py
    try "a pinned frame, copied without waiting" upload h2d-staging

    sed -i '/mean, std = /d; s|    model = network(device)|&\n    mean, std = torch.tensor(MEAN, device=device), torch.tensor(STD, device=device)|' bench/pipeline.py
    try "mean and deviation are made once" preprocess loop-invariant-tensor

    sed -i 's|torch.stack(\[box.sigmoid() \* scale for box in found\[CLASSES:\].T\])|found[CLASSES:].T.sigmoid() * scale|' bench/pipeline.py
    try "all boxes at once" postprocess kernel-fusion

    sed -i 's|model(small)\[0\]|model.half()(small.half())[0].float()|' bench/pipeline.py
    try "half precision in the network" infer precision

    sed -i 's|return boxes.cpu()|return boxes.clone().cpu()|' bench/pipeline.py
    try "a copy before the download" download preallocated-output

    ratchet experiment status
} 2>&1 | tee "$out/terminal.txt"
cp results/experiments.tsv results/HANDOFF.md results/experiments/session.json "$out"
rm -rf "$clone"
