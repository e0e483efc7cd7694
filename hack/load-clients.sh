#!/usr/bin/env bash
# Prints the directory of wrk and h2load, the load generators of the end-to-end
# tests: those on PATH, or else those of Debian or Ubuntu, whose apt downloads and
# verifies them. They are unpacked into the cache and not installed, so nobody needs
# to be root. Prints nothing, and says why, where there are none to be had.
set -euo pipefail

none() {
  echo "load-clients: neither wrk nor h2load: $1; install the packages wrk and nghttp2-client" >&2
  exit 0
}

cache=${XDG_CACHE_HOME:-$HOME/.cache}/rollouts-sandbox/load-clients
mkdir -p "$(dirname "$cache")"
exec 9>"$cache.lock"
flock 9
if [[ -x $cache/h2load ]] && "$cache/h2load" --version >/dev/null 2>&1; then
  echo "$cache"
  exit
fi

work=$(mktemp -d "$cache.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin"
if wrk=$(command -v wrk) && h2load=$(command -v h2load); then
  ln -s "$wrk" "$h2load" "$work/bin/"
else
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || none 'there is no apt here'
  mkdir -p "$work/lists/partial" "$work/archives/partial"
  # What the system has is left alone, but counts: only what it lacks is downloaded.
  apt=(apt-get -q -y -o Acquire::Retries=3 -o Debug::NoLocking=1 -o APT::Sandbox::User=
    -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work" -o Dir::Cache::Archives="$work/archives")
  {
    "${apt[@]}" update && "${apt[@]}" --no-install-recommends --download-only --reinstall install wrk nghttp2-client
  } >"$work/log" 2>&1 || {
    tail -5 "$work/log" >&2
    none 'apt cannot download them'
  }
  for package in "$work"/archives/*.deb; do
    dpkg-deb -x "$package" "$work/root"
  done
  libraries=$cache/root/usr/lib/$(uname -m)-linux-gnu
  for program in wrk h2load; do
    # shellcheck disable=SC2016 # for the shell that runs it
    printf '#!/bin/sh\nLD_LIBRARY_PATH=%q${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec %q "$@"\n' \
      "$libraries" "$cache/root/usr/bin/$program" >"$work/bin/$program"
    chmod +x "$work/bin/$program"
  done
  mv "$work/root" "$work/bin/root"
fi
chmod 755 "$work/bin"
rm -rf "$cache" # of a machine that was upgraded
mv -T "$work/bin" "$cache"
"$cache/h2load" --version >/dev/null || none 'h2load does not run'
echo "$cache"
