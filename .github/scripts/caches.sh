#!/usr/bin/env bash
# Says which caches a job on the GPU machine uses: variables in the file GITHUB_ENV.
#
# What one job leaves behind, the next one would run. So every cache of compiled code lies in a folder of the job, unless the
# machine says that it is ephemeral (RATCHET_EPHEMERAL=true in the environment of the runner, docs/github.md): then there was no
# job before. A folder of builds that outlives such a machine is written by pushes to the default branch alone.
set -euo pipefail

if [ "${RATCHET_EPHEMERAL:-}" != true ]; then
  folder=$RUNNER_TEMP/ratchet-caches
  rm -rf "$folder"
  {
    echo "RATCHET_CACHE_DIR=$folder"
    echo "RATCHET_BUILDS_DIR="
    echo "TRITON_CACHE_DIR=$folder/triton"
    echo "TORCHINDUCTOR_CACHE_DIR=$folder/inductor"
    echo "TORCH_EXTENSIONS_DIR=$folder/extensions"
    echo "CUDA_CACHE_PATH=$folder/cuda"
  } >> "$GITHUB_ENV"
elif [ "$GITHUB_EVENT_NAME" != push ] || [ "$GITHUB_REF" != "refs/heads/$DEFAULT_BRANCH" ]; then
  echo "RATCHET_BUILD_CACHE=read" >> "$GITHUB_ENV"
fi
