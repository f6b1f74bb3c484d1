#!/usr/bin/env bash
# A session of seven experiments on a package that nobody here wrote: six operators of Liger-Kernel 0.7.0, changed by what other releases do, and by a guess.
# Usage: foreign_experiments.sh REPOSITORY FOLDER [options of ratchet experiment, such as --pairs 8]. What the terminal says goes to FOLDER.
# REPOSITORY is a git repository in which each release is a commit with its version as a tag, and the package lies in src/.
set -euo pipefail
mkdir -p "$2"
here=$(cd "$(dirname "$0")/.." && pwd) out=$(realpath "$2") clone=$(mktemp -d)
git clone -q "$(realpath "$1")" "$clone/session"
shift 2
options=("$@")
export TRITON_CACHE_AUTOTUNING=1 # each process would tune again
ratchet() { PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}" python3 -m ratchet "$@"; }
cd "$clone/session"
git checkout -q 0.7.0
rm -rf bench
mkdir bench
cat >bench/layers.py <<'PYTHON'
"""Six operators of Liger-Kernel, one after the other: forward alone, or forward and backward."""

import torch
from liger_kernel.ops.dyt import LigerDyTFunction
from liger_kernel.ops.group_norm import LigerGroupNormFunction
from liger_kernel.ops.layer_norm import LigerLayerNormFunction
from liger_kernel.ops.rms_norm import LigerRMSNormFunction
from liger_kernel.ops.swiglu import LigerSiLUMulFunction
from liger_kernel.ops.tvd import LigerTVDLossFunction
from ratchet import Workload, benchmark


@benchmark(configs={"r4k": {"rows": 4096}}, requires=("triton",))
def layers(*, device, rows):
    def leaf(*shape, dtype=torch.bfloat16):
        return torch.randn(*shape, device=device, dtype=dtype, requires_grad=True)

    x, dy = leaf(rows, 4096), torch.randn(rows, 4096, device=device, dtype=torch.bfloat16)
    weight, bias = leaf(4096), leaf(4096)
    alpha = leaf(1)
    wide = torch.randn(2, rows, 14336, device=device, dtype=torch.bfloat16)
    image = torch.randn(16, 512, rows, device=device)
    scale, shift = torch.randn(2, 512, device=device)
    p = torch.softmax(torch.randn(rows, 32768, device=device), -1).requires_grad_()
    q = torch.softmax(torch.randn(rows, 32768, device=device), -1)

    def with_gradients(output, inputs):
        return (output.detach(), *torch.autograd.grad(output, inputs, dy))

    stages = {
        "layer_norm": lambda: with_gradients(LigerLayerNormFunction.apply(x, weight, bias, 1e-5), (x, weight, bias)),
        "rms_norm": lambda: LigerRMSNormFunction.apply(x.detach(), weight.detach(), 1e-6, 0.0, "llama", False),
        "swiglu": lambda: LigerSiLUMulFunction.apply(wide[0], wide[1]),
        "dyt": lambda: with_gradients(LigerDyTFunction.apply(x, alpha, weight, bias), (x, alpha, weight, bias)),
        "group_norm": lambda: LigerGroupNormFunction.apply(image, scale, shift, 512, 32, 1e-5),
        "tvd": lambda: LigerTVDLossFunction.apply(p, q, None, "batchmean", -100).detach().reshape(1),
    }
    return Workload(run=lambda: [stage() for stage in stages.values()], stages=stages)
PYTHON
git add -A bench
git -c user.name=example -c user.email=example@example.org commit -qm "six operators of 0.7.0, and what they cost"

ops=src/liger_kernel/ops
# try STAGE CATEGORY PATTERN MESSAGE: compare what was changed; take it back unless it was kept.
try() {
    code=0
    ratchet experiment run -m "$4" --stage "$1" --category "$2" --pattern "$3" --quiet "${options[@]}" || code=$?
    [ "$code" -ge 2 ] && exit "$code"
    if [ "$code" -eq 0 ]; then rm -rf "$clone/kept" && cp -r $ops "$clone/kept"; else cp "$clone/kept/"*.py $ops; fi
}
cp -r $ops "$clone/kept"
{
    time ratchet experiment start layers --quiet "${options[@]}"

    git checkout -q 0.8.0 -- $ops/group_norm.py
    try group_norm compute masked-lanes "one loop over the group, not one over each channel: blocks are full"

    git checkout -q 0.8.0 -- $ops/tvd.py
    try tvd dispatch kernel-fusion "the gradients are divided inside the kernel"

    git checkout -q 0.8.0 -- $ops/dyt.py
    try dyt compute operator-replacement "block and warps of both kernels are tuned, no longer fixed"

    git checkout -q 0.8.0 -- $ops/swiglu.py
    try swiglu compute operator-replacement "swiglu as 0.8.0 has it"

    git checkout -q 0.6.3 -- $ops/layer_norm.py
    try layer_norm memory global-atomics "sums of the weights' gradients with atomics, as 0.6.3 had them"

    sed -i 's/num_warps = 8$/num_warps = 16/' $ops/utils.py
    try rms_norm compute operator-replacement "sixteen warps for a row of 4096, not eight"

    sed -i 's/num_warps=num_warps,$/num_warps=32,/' $ops/swiglu.py
    try swiglu compute operator-replacement "thirty-two warps for a row of 14336, not sixteen"

    ratchet experiment status
} 2>&1 | tee "$out/terminal.txt"
cp results/experiments.tsv results/HANDOFF.md results/experiments/session.json "$out"
rm -rf "$clone"
