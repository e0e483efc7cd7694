#!/usr/bin/env bash
# Prints the path of an nginx to measure beside: NGINX, or else Debian's, unpacked into
# the cache and not installed, so nobody needs to be root. Prints nothing, and says why,
# where there is none to be had.
set -euo pipefail

none() {
  echo "bench: no nginx to measure beside: $1; NGINX=/path gives one" >&2
  exit 0
}

cache=${XDG_CACHE_HOME:-$HOME/.cache}/rollouts-sandbox/nginx-1.22.1-9+deb12u9
nginx=${NGINX:-$cache/nginx}
if [[ -z ${NGINX:-} && ! -x $nginx ]]; then
  [[ $(uname -sm) == "Linux x86_64" ]] || none 'the package is for Linux on amd64'
  mkdir -p "$(dirname "$cache")"
  work=$(mktemp -d "$cache.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  # Debian 12.11's, with the libraries that it is linked to. It asks for glibc 2.34.
  while read -r hash path; do
    # The second mirror keeps what Debian has replaced by something newer.
    for mirror in http://deb.debian.org/debian https://snapshot.debian.org/archive/debian/20261101T000000Z; do
      curl -fsSL --connect-timeout 10 --retry 2 -o "$work/deb" "$mirror/pool/main/$path" 2>/dev/null && break
    done
    echo "$hash  $work/deb" | sha256sum --check --status 2>/dev/null || none "$path cannot be downloaded, or is another file than the one that is pinned"
    dpkg-deb -x "$work/deb" "$work/root" || none 'there is no dpkg-deb here that unpacks it'
  done <<'END'
4e7b52f8b31f26d77ffb5c427c41e36223e81b047242ecfa8dc1d7f939734885 n/nginx/nginx_1.22.1-9+deb12u9_amd64.deb
030db54f4d76cdfe2bf0e8eb5f9efea0233ab3c7aa942d672c7b63b52dbaf935 p/pcre2/libpcre2-8-0_10.42-1_amd64.deb
89be24b41bff568ee6e7caf5680a3d808e80315ed92e407056ce0fa7a5bda025 o/openssl/libssl3_3.0.20-1~deb12u2_amd64.deb
END
  printf '#!/bin/sh\nLD_LIBRARY_PATH=%q exec %q "$@"\n' "$cache/usr/lib/x86_64-linux-gnu" "$cache/usr/sbin/nginx" >"$work/root/nginx"
  chmod +x "$work/root/nginx"
  rm -rf "$cache" # of an earlier version of this script
  mv -T "$work/root" "$cache"
fi
"$nginx" -v 2>/dev/null || none "$nginx does not run here"
echo "$nginx"
