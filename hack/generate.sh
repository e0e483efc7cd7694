#!/usr/bin/env bash
# Makes every generated file of the repository anew:
#   api/**/zz_generated.deepcopy.go     from the Go types
#   deploy/crds/*.yaml                  from the markers on the Go types
#   sandbox/addons/scaledobject/*.yaml  copied from KEDA's Go module
#   deploy/kedify-proxy/configmap.yaml, and the patch of it for mutual TLS,
#                                       from what `interceptor bootstrap` prints
#   docs/reference.md                   its table of checks, from internal/preflight
#   docs/steps-reference.md             from the Go types that steps are configured with
# With --check it fails when one of them was not as it is made (and leaves the
# one that is).
set -euo pipefail
cd "$(dirname "$0")/.."

generated=(api/http/v1alpha1/zz_generated.deepcopy.go deploy/crds/http.keda.sh_httpscaledobjects.yaml
  sandbox/addons/scaledobject/keda.sh_scaledobjects.yaml deploy/kedify-proxy/configmap.yaml
  deploy/components/xds-mutual-tls/kedify-proxy/configmap-patch.yaml docs/reference.md
  docs/steps-reference.md)

# KEDA's definition of ScaledObjects, and the checksum its module must have.
keda=github.com/kedacore/keda/v2@v2.20.2
keda_sum=h1:SR60v8uIcelbveS8n/1jcl8tLdBBIbHMxmdOHw8tKqA=
keda_crd=config/crd/bases/keda.sh_scaledobjects.yaml

controller_gen() {
  go tool -modfile=tools/controller-gen/go.mod controller-gen \
    object crd:maxDescLen=10000 output:crd:dir=deploy/crds paths=./api/...
}

# The module is downloaded from a directory outside of any module, so that none
# of what it requires is.
copy_keda_crd() {
  local json dir sum
  json=$(cd / && GOFLAGS='' go mod download -json "$keda")
  dir=$(sed -n 's/^.*"Dir": "\(.*\)".*$/\1/p' <<<"$json")
  sum=$(sed -n 's/^.*"Sum": "\(.*\)".*$/\1/p' <<<"$json")
  if [[ $sum != "$keda_sum" ]]; then
    echo "hack/generate.sh: $keda has checksum $sum, expected $keda_sum" >&2
    return 1
  fi
  {
    echo "# Copied by hack/generate.sh from $keda, $keda_crd."
    echo "# Copyright the KEDA authors, Apache License 2.0."
    cat "$dir/$keda_crd"
  } >"sandbox/addons/scaledobject/${keda_crd##*/}"
}

# The data of a ConfigMap, which are the end of its manifest, become these files of
# a bootstrap with these flags: MANIFEST FILES [FLAGS...].
put_bootstrap() {
  local manifest=$1 files=$2 file text
  shift 2
  sed '/^data:$/q' "$manifest" >"$before/bootstrap"
  for file in $files; do
    text=$(go run ./cmd/interceptor bootstrap --file "$file" "$@")
    {
      echo "  $file: |"
      sed 's/^/    /' <<<"$text"
    } >>"$before/bootstrap"
  done
  cat "$before/bootstrap" >"$manifest"
}

before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
for file in "${generated[@]}"; do
  if [[ -e $file ]]; then cp --parents "$file" "$before"; fi
done

controller_gen
copy_keda_crd
# Below the memory limit of deploy/kedify-proxy, which is 1 GiB.
heap=(--max-heap-bytes $((900 << 20)))
put_bootstrap deploy/kedify-proxy/configmap.yaml envoy.yaml "${heap[@]}"
put_bootstrap deploy/components/xds-mutual-tls/kedify-proxy/configmap-patch.yaml \
  'envoy.yaml xds-certificate.yaml xds-authority.yaml' "${heap[@]}" --secrets-dir /etc/envoy \
  --ca-file /xds-certs/ca.crt --cert-file /xds-certs/tls.crt --key-file /xds-certs/tls.key

go run ./hack/checktable docs/reference.md
go run ./hack/stepsreference >"$before/reference"
cat "$before/reference" >docs/steps-reference.md

if [[ ${1:-} == --check ]]; then
  stale=0
  for file in "${generated[@]}"; do
    if ! diff -u --label "$file (found)" --label "$file (generated)" "$before/$file" "$file"; then
      stale=1
    fi
  done
  if ((stale)); then
    echo "hack/generate.sh: the files above were not current. They are now: commit them." >&2
    exit 1
  fi
fi
