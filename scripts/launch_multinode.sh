#!/usr/bin/env bash
# Runs one program on every GPU of several nodes.
#
#   scripts/launch_multinode.sh [--dry-run] <nodes> <gpus_per_node> <program> [args…]
#   scripts/launch_multinode.sh 2 8 docs/examples/collectives.py --sizes 1GiB
#
# A Python file is started by torchrun on each node: through srun within a Slurm allocation, else through ssh on the hosts of
# $HOSTS ("a b") or $HOSTFILE (one a line). Any other program is an NVSHMEM one, and nvshmemrun starts it. The program, and this
# folder, must be at the same path on every node. With --dry-run (or DRY_RUN=1) the commands are printed and nothing is started.
#
# MASTER_ADDR, MASTER_PORT   where the ranks meet (the first node, 29500)
# HOSTS, HOSTFILE            the nodes, outside Slurm; one node needs neither
# TORCHRUN, NVSHMEMRUN       these programs on the nodes (torchrun, nvshmemrun)
# Over ssh go CUDA_VISIBLE_DEVICES, OMP_NUM_THREADS and all NCCL_…, GLOO_…, NVSHMEM_…, TORCH_… and UCX_… variables.
#
# Exit codes: the program's own; 2 wrong usage, 3 something it needs is missing.
set -euo pipefail

fail() {
  echo "launch_multinode: $2" >&2
  exit "$1"
}

dry_run=${DRY_RUN:-0}
if [[ ${1-} == --dry-run ]]; then
  dry_run=1
  shift
fi
[[ $# -ge 3 ]] || fail 2 "usage: $0 [--dry-run] <nodes> <gpus_per_node> <program> [args…]"
nodes=$1 gpus=$2 program=$3
shift 3
for number in "$nodes" "$gpus"; do
  [[ $number =~ ^[1-9][0-9]{0,4}$ ]] || fail 2 "'$number' is not a number of nodes or GPUs: write 1, 2, 8, …"
done
[[ -f $program ]] || fail 2 "there is no program $program in $PWD."

# The nodes that take part.
hosts=()
if [[ -n ${SLURM_JOB_NODELIST-} ]]; then
  command -v scontrol >/dev/null || fail 3 "this is a Slurm job, but scontrol is not on the PATH."
  listed=$(scontrol show hostnames "$SLURM_JOB_NODELIST") || fail 3 "scontrol cannot read the node list $SLURM_JOB_NODELIST."
  mapfile -t hosts <<<"$listed"
elif [[ -n ${HOSTS-} ]]; then
  read -r -a hosts <<<"${HOSTS//,/ }"
elif [[ -n ${HOSTFILE-} ]]; then
  [[ -r $HOSTFILE ]] || fail 2 "the file of hosts $HOSTFILE cannot be read."
  mapfile -t hosts < <(sed -e 's/#.*//' -e 's/[[:space:]:].*//' -e '/^$/d' "$HOSTFILE")
elif [[ $nodes == 1 ]]; then
  hosts=(localhost)
else
  fail 2 "which $nodes nodes? Set HOSTS=\"a b\" or HOSTFILE, or start this within a Slurm allocation."
fi
[[ ${#hosts[@]} -ge $nodes ]] || fail 3 "$nodes nodes were asked for, but there are ${#hosts[@]}: ${hosts[*]}."
hosts=("${hosts[@]:0:nodes}")
for host in "${hosts[@]}"; do
  [[ $host =~ ^[A-Za-z0-9_][A-Za-z0-9_.@-]*$ ]] || fail 2 "'$host' is not the name of a host."
done

export MASTER_ADDR=${MASTER_ADDR:-${hosts[0]##*@}} MASTER_PORT=${MASTER_PORT:-29500}

quoted() {
  local text
  printf -v text '%q ' "$@"
  echo "${text% }"
}

run() { # says the command, and starts it unless this is a dry run
  if [[ $dry_run != 0 ]]; then
    quoted "$@"
  else
    quoted "$@" >&2
    "$@"
  fi
}

if [[ $program != *.py ]]; then
  launcher=${NVSHMEMRUN:-nvshmemrun}
  [[ $dry_run != 0 ]] || command -v "$launcher" >/dev/null ||
    fail 3 "$program is not a Python file, so NVSHMEM has to start it, but $launcher is not on the PATH: install NVSHMEM, or set NVSHMEMRUN."
  export NVSHMEM_DISABLE_NVLS=${NVSHMEM_DISABLE_NVLS:-1} # NVLink multicast has put hosts out of service
  run "$launcher" -np $((nodes * gpus)) -ppn "$gpus" -hosts "$(IFS=, && echo "${hosts[*]}")" "$program" "$@"
  exit
fi

launcher=${TORCHRUN:-torchrun}
command=("$launcher" "--nnodes=$nodes" "--nproc-per-node=$gpus")
if [[ $nodes == 1 ]]; then
  command+=(--standalone "$program" "$@")
else
  id=${SLURM_JOB_ID:-$(date +%s)-$$}
  command+=(--rdzv-backend=c10d "--rdzv-id=$id" "--rdzv-endpoint=$MASTER_ADDR:$MASTER_PORT" "$program" "$@")
fi
if [[ -n ${SLURM_JOB_NODELIST-} ]]; then
  run srun "--nodes=$nodes" "--ntasks=$nodes" --ntasks-per-node=1 "--gpus-per-node=$gpus" --kill-on-bad-exit=1 "${command[@]}"
  exit
fi
if [[ -z ${HOSTS-}${HOSTFILE-} ]]; then
  run "${command[@]}"
  exit
fi

# Over ssh: one torchrun on each host. The first that fails ends the others, which -tt lets them notice.
variables=()
while IFS= read -r name; do
  variables+=("$name=${!name}")
done < <(compgen -e | grep -E '^(MASTER_(ADDR|PORT)|CUDA_VISIBLE_DEVICES|OMP_NUM_THREADS|(NCCL|GLOO|NVSHMEM|TORCH|UCX)_.*)$')
remote="cd $(quoted "$PWD") && exec env $(quoted "${variables[@]}" "${command[@]}")"
started=()
trap 'kill "${started[@]}" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM
for host in "${hosts[@]}"; do
  words=(ssh -tt -o BatchMode=yes "$host" "$remote")
  if [[ $dry_run != 0 ]]; then
    quoted "${words[@]}"
  else
    quoted "${words[@]}" >&2
    "${words[@]}" </dev/null &
    started+=("$!")
  fi
done
for _ in "${started[@]}"; do
  wait -n || fail $? "a node failed, and the others are ended."
done
