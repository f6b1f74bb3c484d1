#!/usr/bin/env bash
# Serves jobs of GitHub Actions, one after the other, each by a runner that knows nothing of the last one: docs/github.md.
#
#   serve.sh PROGRAM [WORD…]
#
# For each job, GitHub makes the configuration of a runner that takes one job and is gone. PROGRAM gets it in the variable
# ACTIONS_RUNNER_INPUT_JITCONFIG, as run.sh of GitHub's runner reads it, and has to start from a fresh disk: docker run --rm …
# The token that asks for configurations never reaches PROGRAM.
#
#   REPOSITORY      such as an-owner/kernels
#   LABELS          as JSON, the same as the workflows' input `runner`: ["self-hosted", "gpu"]
#   TOKEN_FILE      a file with a token that may administer the runners of this repository; read anew for each job
#   GITHUB_API_URL  of a server of one's own; by default https://api.github.com
#   PAUSE_S         seconds to wait after a failure, doubled with each one that follows, up to five minutes; by default 5
set -euo pipefail

: "${REPOSITORY:?such as an-owner/kernels}" "${LABELS:?such as [\"self-hosted\", \"gpu\"]}" "${TOKEN_FILE:?a file with a token}"
api=${GITHUB_API_URL:-https://api.github.com}/repos/$REPOSITORY/actions/runners
failures=0
child=
stopped=
umask 077
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# A signal ends the program, and the loop after it; `wait` returns at once.
trap 'stopped=1; if [ -n "$child" ]; then kill -TERM "$child" 2> /dev/null || true; fi' TERM INT

say() { printf '%s\n' "serve.sh: $*"; }

# Method, address and body → the answer's text, and its status on a last line. The token is in no argument list.
ask() {
  curl --silent --show-error --max-time 60 --request "$1" "$2" ${3:+--data "$3"} --write-out '\n%{http_code}' \
    --header 'Accept: application/vnd.github+json' --header 'Content-Type: application/json' \
    --config <(printf 'header = "Authorization: Bearer %s"\n' "$(tr -d '[:space:]' < "$TOKEN_FILE")")
}

# → name, id and configuration of a new runner, each on a line. Fails where GitHub gave none, and says why.
new_runner() {
  local name answer status hint=
  name=$(hostname)
  name="${name:0:51}-$(od -An -N6 -tx1 /dev/urandom | tr -d ' \n')" # GitHub takes 64 characters
  answer=$(ask POST "$api/generate-jitconfig" "{\"name\": \"$name\", \"runner_group_id\": 1, \"labels\": $LABELS}") || answer=$'\n000'
  status=${answer##*$'\n'}
  if [ "$status" != 201 ]; then
    case "$status" in
      401 | 403 | 404) hint=" The token in $TOKEN_FILE has to be valid and to have 'Administration: read and write' for $REPOSITORY." ;;
    esac
    say "GitHub gave no configuration (status $status).$hint" >&2
    return 1
  fi
  printf '%s\n' "$name"
  python3 -I -c 'import json, sys; got = json.load(sys.stdin); print(got["runner"]["id"], got["encoded_jit_config"], sep="\n")' \
    <<< "${answer%$'\n'*}"
}

# Runs a step to its end whatever signal comes, in a process of its own: bash 5.2 fails where a trap meets the reading of a $(…).
step() {
  "$@" &
  local pid=$! status=0
  wait "$pid" || status=$?
  if [ -n "$stopped" ]; then # perhaps the signal ended the waiting
    status=0
    wait "$pid" || status=$?
  fi
  return "$status"
}

run() {
  "$@" &
  child=$!
  if [ -n "$stopped" ]; then kill -TERM "$child" 2> /dev/null || true; fi # by a signal that came before there was a child
  local status=0
  wait "$child" || status=$?
  if [ -n "$stopped" ]; then # perhaps the signal ended the waiting, and not the program
    status=0
    wait "$child" || status=$?
  fi
  child=
  return "$status"
}

pause() {
  local seconds=$((${PAUSE_S:-5} * (1 << (failures < 6 ? failures : 6))))
  failures=$((failures + 1))
  run sleep "$((seconds < 300 ? seconds : 300))" || true
}

while [ -z "$stopped" ]; do
  if ! step new_runner > "$folder/runner"; then
    pause
    continue
  fi
  { read -r name && read -r id && read -r config; } < "$folder/runner"
  say "runner $name waits for a job"
  status=0
  ACTIONS_RUNNER_INPUT_JITCONFIG=$config run env -u TOKEN_FILE -u CREDENTIALS_DIRECTORY "$@" || status=$?
  # GitHub has removed a runner that has done its job; one that has not would stay in the list.
  step ask DELETE "$api/$id" > /dev/null || true
  say "runner $name ended with status $status"
  if [ "$status" = 0 ]; then failures=0; else pause; fi
done
