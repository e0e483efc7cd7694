#!/usr/bin/env bash
# Shows that the tests notice when the product breaks: applies each patch beside this
# file to a copy of the sources, and demands that each test that the patch names fails
# there, and passes without the patch. `make mutants` runs it. The copy has uncommitted
# changes, but no file that git does not know.
#
# The argument is a regular expression of the names of patches.
set -euo pipefail
cd "$(dirname "$0")/../.."

output=$PWD/bin/mutants
tree=$output/tree
patches=()
for patch in hack/mutants/*.patch; do
  if [[ $(basename "$patch" .patch) =~ ${1:-.} ]]; then patches+=("$patch"); fi
done
if [[ ${#patches[@]} == 0 ]]; then
  echo "no patch in hack/mutants has a name that matches $1" >&2
  exit 1
fi

mkdir -p "$output"
exec 9>"$output/lock"
if ! flock -n 9; then
  echo "$output/lock is locked: another \`make mutants\` runs" >&2
  exit 1
fi
# Also what a run has left that was killed: twice --force is for one that was being made.
remove() { git worktree remove --force --force "$tree" 2>/dev/null || rm -rf "$tree"; }
remove
trap remove EXIT
sources=$(git stash create) # a commit on no branch and no stash; nothing without changes
git worktree add --quiet --detach "$tree" "${sources:-HEAD}"
# End-to-end tests bring up a sandbox of their own, with the programs of the copy.
unset SANDBOX KEEP_SANDBOX PLUGIN GATEWAYAPI_PLUGIN STEP_PLUGIN INTERCEPTOR SCALER AGENT

# Prints the tests that patches name: a directory and a name each.
tests_of() { sed -n 's/^Test: //p' "$@" | sort -u; }

# Runs tests in the copy, read as tests_of prints them, and prints those that do not end
# as they have to: PASS or FAIL. What they print goes to logs in a directory.
not_ending() {
  local end=$1 logs=$2 tests directory names name log module timeout
  tests=$(cat)
  rm -rf "$logs"
  mkdir -p "$logs"
  for directory in $(cut -d' ' -f1 <<<"$tests" | sort -u); do
    names=$(sed -n "s|^$directory ||p" <<<"$tests")
    log=$logs/${directory//\//-}.log module=$tree timeout=10m
    if [[ $directory == sandbox/* ]]; then module=$tree/sandbox; fi
    if [[ $directory == sandbox/e2e* ]]; then
      timeout=60m # a sandbox's add-ons may have to be built
      make -C "$tree" build &>"$log" || true
    fi
    E2E_ARTIFACTS=$logs/kept go -C "$module" test -v -vet=off -count=1 -timeout "$timeout" \
      -run "^(${names//$'\n'/|})\$" "./${directory#sandbox/}" &>>"$log" 9>&- || true
    for name in $names; do
      grep -q "^--- $end: $name " "$log" || printf '  %s does not: see %s\n' "$directory $name" "$log"
    done
  done
}

bad=$(tests_of "${patches[@]}" | not_ending PASS "$output/without-a-patch")
if [[ -n $bad ]]; then
  printf 'these tests have to pass without a patch:\n%s\n' "$bad" >&2
  exit 1
fi
echo "all tests pass without a patch, after $SECONDS s"

survived=0
for patch in "${patches[@]}"; do
  name=$(basename "$patch" .patch) begun=$SECONDS
  git -C "$tree" apply "$PWD/$patch"
  bad=$(tests_of "$patch" | not_ending FAIL "$output/$name")
  git -C "$tree" apply --reverse "$PWD/$patch"
  if [[ -n $bad ]]; then
    printf '%s: NOT CAUGHT: these tests have to fail:\n%s\n' "$name" "$bad"
    survived=$((survived + 1))
  else
    echo "$name: caught in $((SECONDS - begun)) s"
  fi
done
echo "$((${#patches[@]} - survived)) of ${#patches[@]} patches were caught, in $SECONDS s"
((survived == 0))
