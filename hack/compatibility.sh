#!/usr/bin/env bash
# Runs a canary, the check and a canary under requests against other releases of
# Argo Rollouts and Kubernetes, each built from its own modules and in a sandbox
# of its own, and prints what came of it as the table of docs/reference/compatibility.md.
#
# hack/compatibility.sh [SANDBOX FLAGS]...   one argument per sandbox, such as "--argo-rollouts v1.9.0"
set -euo pipefail
cd "$(dirname "$0")/.."

sandbox=bin/sandbox
name=compatibility-$$
combinations=("$@")
if ((${#combinations[@]} == 0)); then
  combinations=('' '--argo-rollouts v1.9.0' '--argo-rollouts v1.8.5' '--kubernetes v1.35')
fi
tests=('canary:TestAbortAndRetry' 'check:TestCheckHealthy' 'traffic:TestTrafficCanary')

log=$(mktemp)
cleanup() {
  "$sandbox" down --name "$name" >/dev/null 2>&1 || true
  rm -f "$log"
}
trap cleanup EXIT

# Says what a sandbox was brought up with: the release of an add-on, or of Kubernetes.
release() {
  "$sandbox" status --name "$name" | sed -n "s/^Kubernetes \([^,]*\), with .*argo-rollouts \(v[^ ,]*\).*$/\\$1/p"
}

failed=0
rows=()
for flags in "${combinations[@]}"; do
  echo "=== sandbox up $flags" >&2
  # shellcheck disable=SC2086 # several flags
  if ! "$sandbox" up --name "$name" --with interceptor \
    --program "rollouts-plugin-kedify=$PWD/rollouts-plugin-kedify" --program "interceptor=$PWD/bin/interceptor" --program "kubectl-canary=$PWD/bin/kubectl-canary" $flags >&2; then
    rows+=("| ${flags:-as pinned} | | does not come up | | |")
    failed=1
    continue
  fi
  row="| $(release 2) | $(release 1) |"
  for pair in "${tests[@]}"; do
    # Several at once would be quicker; one after the other says which has failed.
    if SANDBOX=$name go -C sandbox test -count=1 -run "^${pair#*:}\$" -v ./e2e >"$log" 2>&1 &&
      grep -q "^--- PASS: ${pair#*:} " "$log"; then
      row+=" ✓ |"
    else
      cat "$log" >&2
      row+=" ✗ |"
      failed=1
    fi
  done
  rows+=("$row")
  echo "$row" >&2
  "$sandbox" down --name "$name" >&2
done

echo '| Argo Rollouts | Kubernetes | canary | `check` | canary under requests |'
echo '|---|---|---|---|---|'
printf '%s\n' "${rows[@]}"
exit "$failed"
