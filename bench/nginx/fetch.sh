#!/usr/bin/env bash
# Prints the path of an nginx to measure beside: Debian's, unpacked into the
# cache and not installed, so nobody needs to be root. NGINX=/path is taken as it
# is. Prints nothing, and says why, where there is none to be had.
set -euo pipefail

if [[ -n ${NGINX:-} ]]; then
  echo "$NGINX"
  exit
fi

# Debian 12.11, with the libraries it is linked to. It asks for glibc 2.34.
packages='
4e7b52f8b31f26d77ffb5c427c41e36223e81b047242ecfa8dc1d7f939734885 n/nginx/nginx_1.22.1-9+deb12u9_amd64.deb
030db54f4d76cdfe2bf0e8eb5f9efea0233ab3c7aa942d672c7b63b52dbaf935 p/pcre2/libpcre2-8-0_10.42-1_amd64.deb
89be24b41bff568ee6e7caf5680a3d808e80315ed92e407056ce0fa7a5bda025 o/openssl/libssl3_3.0.20-1~deb12u2_amd64.deb
'
mirrors=(
  http://deb.debian.org/debian/pool/main
  # Keeps what Debian has replaced by something newer.
  https://snapshot.debian.org/archive/debian/20261101T000000Z/pool/main
)

none() {
  echo "bench: no nginx to measure beside: $1; NGINX=/path gives one" >&2
  exit 0
}

[[ $(uname -sm) == "Linux x86_64" ]] || none "the package is for Linux on amd64"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rollouts-sandbox/nginx-1.22.1-9+deb12u9
if [[ ! -x $cache/usr/sbin/nginx ]]; then
  mkdir -p "$(dirname "$cache")"
  work=$(mktemp -d "$cache.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  while read -r hash path; do
    [[ -n $hash ]] || continue
    file=$work/$(basename "$path")
    for mirror in "${mirrors[@]}"; do
      curl -fsSL --connect-timeout 10 --retry 2 -o "$file" "$mirror/$path" 2>/dev/null && break
    done
    echo "$hash  $file" | sha256sum --check --status 2>/dev/null || none "$(basename "$path") cannot be downloaded, or is another file than the one that is pinned"
    if command -v dpkg-deb >/dev/null; then
      dpkg-deb -x "$file" "$work/root"
    else
      # A package is an archive of archives.
      mkdir -p "$work/root"
      ar p "$file" data.tar.xz 2>/dev/null | tar -xJ -C "$work/root" 2>/dev/null || none "unpacking $(basename "$path") takes dpkg-deb, or ar, tar and xz"
    fi
  done <<<"$packages"
  mv -T "$work/root" "$cache" 2>/dev/null || [[ -x $cache/usr/sbin/nginx ]] || none "$cache cannot be made"
fi
echo "$cache/usr/sbin/nginx"
