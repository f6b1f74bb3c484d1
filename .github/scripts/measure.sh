#!/usr/bin/env bash
# Runs one ratchet command over a checkout that may hold anything.
#
# The output of the measured code cannot command the runner: it is printed between a pair of stop tokens that the code does not
# know. The runner's own variables are dropped from the environment. Words from outside arrive in variables and are passed as
# whole arguments. The exit status becomes an output; the step fails only if nothing could be started.
set -euo pipefail

words=("$COMMAND")
case "$COMMAND" in
  check | profile)
    if [ "$AGAINST_BASELINE" = true ]; then
      words+=(--against-baseline)
    elif [ -n "$BASE" ]; then
      words+=("--base=$BASE")
    elif [ -n "$MERGE_BASE" ]; then
      words+=("--merge-base=$MERGE_BASE")
    fi
    words+=(--wait 30m) # for the other checks of this machine, of any repository
    ;;
  static)
    words=(check --static --quiet)
    if [ -n "$BASE" ]; then words+=("--base=$BASE"); elif [ -n "$MERGE_BASE" ]; then words+=("--merge-base=$MERGE_BASE"); fi
    ;;
  record) # after a check, and it fails nothing: what is not recorded needs the GPU
    words=(run --static --wait 30m)
    ;;
  tune)
    words+=(--apply) # to this checkout; the job that proposes takes it from the artifact
    if [ -n "$BUDGET" ]; then words+=("--time-budget=$BUDGET"); fi
    ;;
  bisect) # on the second runner of a machine: any check gets the device at once, and the search goes on afterwards
    words=(bisect --gives-way --wait 5h)
    ;;
  soak)
    words=(doctor soak "--time=${BUDGET:-30m}")
    if [ -n "$PLANT" ]; then words+=("--plant=$PLANT"); fi
    ;;
  *)
    echo "::error title=ratchet::There is no such command for this action: use check, profile, tune, bisect or soak."
    exit 2
    ;;
esac
# shellcheck disable=SC2153  # an input, and no misspelling of the array
read -r -a cases <<< "${CASES//$'\n'/ }"
words+=(-- ${cases[@]+"${cases[@]}"})
if [ "$COMMAND" = bisect ]; then words+=("$BASE"); fi

hidden=()
while read -r name; do
  case "$name" in GITHUB_* | ACTIONS_* | RUNNER_*) hidden+=(-u "$name") ;; esac
done < <(compgen -e)

# -P: nothing of the checkout is imported in place of ratchet or what it needs.
measure() { env "${hidden[@]}" "$RUNNER_TEMP/ratchet/bin/python" -P -m ratchet "$@" 2>&1 < /dev/null; }

token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
status=0
echo "::stop-commands::$token"
measure "${words[@]}" || status=$?
if [ "$status" = 2 ] && [ "$COMMAND" = check ] && [ "$AGAINST_BASELINE" = true ]; then
  # Perhaps the baseline has no entry for this machine yet: the first entry is the head, timed against itself. A pull request
  # enters nothing, and against itself anything is fast enough: it is compared with the commit where it branched off.
  status=0
  first=(--base=HEAD --time-identical)
  if [ -n "$MERGE_BASE" ]; then first=("--merge-base=$MERGE_BASE"); fi
  measure check "${first[@]}" --wait 30m -- ${cases[@]+"${cases[@]}"} || status=$?
fi
printf '\n::%s::\n' "$token"
echo "status=$status" >> "$GITHUB_OUTPUT"
