#!/usr/bin/env bash
# Makes every generated file of the repository anew:
#   api/**/zz_generated.deepcopy.go     from the Go types
#   deploy/crds/*.yaml                  from the markers on the Go types
#   internal/scaler/externalscaler/*.pb.go
#                                       from the .proto beside them
#   sandbox/addons/prometheusrule/*.yaml
#                                       copied from Prometheus Operator's Go module
#   deploy/kedify-proxy/configmap.yaml, and the patch of it for mutual TLS,
#                                       from what `interceptor bootstrap` prints
#   deploy/agent/configmap-kedify-proxy.yaml
#                                       its data, from the files of deploy/kedify-proxy
#   docs/reference/*.md                 between "<!-- generated: NAME -->" and "<!-- end -->", by hack/reference
#   deploy/schema/*.json                from the Go types that steps are configured with
# With --check it makes them in a copy of the repository, changes nothing here, and
# fails if one of them is not as it is made.
set -euo pipefail
cd "$(dirname "$0")/.."
aside=$(mktemp -d)
trap 'rm -rf "$aside"' EXIT

if [[ ${1:-} == --check ]]; then
  git ls-files -z --cached --others --exclude-standard --deduplicate |
    while IFS= read -r -d '' file; do
      if [[ -e $file ]]; then printf '%s\0' "$file"; fi
    done | tar -c --null -T - | tar -x -C "$aside"
  # In a hook of git these lead to the repository itself, whose index would be changed.
  # shellcheck disable=SC2046 # one word each
  unset $(git rev-parse --local-env-vars)
  cd "$aside"
  git init -q
  git add -A
  # Without paths in them, what is compiled here is what was compiled there.
  GOFLAGS='-buildvcs=false -trimpath' hack/generate.sh
  git add --intent-to-add . # a new file is a difference as well
  if ! git --no-pager diff --exit-code; then
    echo "hack/generate.sh: the files above are not as they are made: run make generate, and commit them." >&2
    exit 1
  fi
  exit
fi

controller_gen() {
  go tool -modfile=tools/controller-gen/go.mod controller-gen \
    object crd:maxDescLen=10000 output:crd:dir=deploy/crds paths=./api/...
}

# Copies a definition out of a Go module, which must have this checksum:
# MODULE@VERSION SUM FILE DIRECTORY AUTHORS. The module is downloaded from a directory
# outside of any module, so that none of what it requires is.
copy_crd() {
  local module=$1 want=$2 file=$3 to=$4 authors=$5 json dir sum
  json=$(cd / && GOFLAGS='' go mod download -json "$module")
  dir=$(sed -n 's/^.*"Dir": "\(.*\)".*$/\1/p' <<<"$json")
  sum=$(sed -n 's/^.*"Sum": "\(.*\)".*$/\1/p' <<<"$json")
  if [[ $sum != "$want" ]]; then
    echo "hack/generate.sh: $module has checksum $sum, expected $want" >&2
    return 1
  fi
  {
    echo "# Copied by hack/generate.sh from $module, $file."
    echo "# Copyright the $authors authors, Apache License 2.0."
    cat "$dir/$file"
  } >"$to/${file##*/}"
}

# The data of a ConfigMap, which are the end of its manifest, become these files of
# a bootstrap with these flags: MANIFEST FILES [FLAGS...].
put_bootstrap() {
  local manifest=$1 files=$2 file text
  shift 2
  sed '/^data:$/q' "$manifest" >"$aside/bootstrap"
  for file in $files; do
    text=$(go run ./cmd/interceptor bootstrap --file "$file" "$@")
    {
      echo "  $file: |"
      sed 's/^/    /' <<<"$text"
    } >>"$aside/bootstrap"
  done
  cat "$aside/bootstrap" >"$manifest"
}

# The data of a ConfigMap become the files of the kustomization deploy/kedify-proxy.
put_kedify_proxy() {
  local manifest=$1 file
  sed '/^data:$/q' "$manifest" >"$aside/kedify-proxy"
  for file in $(sed -n 's/^  - \([a-z-]*\.yaml\)$/\1/p' deploy/kedify-proxy/kustomization.yaml); do
    echo "  $file: |"
    sed 's/^./    &/' "deploy/kedify-proxy/$file"
  done >>"$aside/kedify-proxy"
  cat "$aside/kedify-proxy" >"$manifest"
}

controller_gen
go -C tools/protoc run . "$PWD/internal/scaler/externalscaler" externalscaler.proto
copy_crd github.com/prometheus-operator/prometheus-operator@v0.85.0 h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s= \
  example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml sandbox/addons/prometheusrule 'Prometheus Operator'
# Below the memory limit of deploy/kedify-proxy, which is 1 GiB.
heap=(--max-heap-bytes $((900 << 20)))
put_bootstrap deploy/kedify-proxy/configmap.yaml envoy.yaml "${heap[@]}"
put_bootstrap deploy/components/xds-mutual-tls/kedify-proxy/configmap-patch.yaml \
  'envoy.yaml xds-certificate.yaml xds-authority.yaml' "${heap[@]}" --secrets-dir /etc/envoy \
  --ca-file /xds-certs/ca.crt --cert-file /xds-certs/tls.crt --key-file /xds-certs/tls.key
put_kedify_proxy deploy/agent/configmap-kedify-proxy.yaml

go run ./hack/reference
for schema in step-rollout step-preset; do
  go run ./hack/reference "$schema.schema.json" >"$aside/schema"
  cat "$aside/schema" >"deploy/schema/$schema.schema.json"
done
