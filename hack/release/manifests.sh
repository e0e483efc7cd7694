#!/usr/bin/env bash
# Writes the manifests of a release into a directory:
#   install-<os>-<arch>.yaml               kedify/http: the permission and the registration
#   argo-rollouts-values-<os>-<arch>.yaml  the same as values of the argo-rollouts chart
#   install-gatewayapi-<os>-<arch>.yaml, argo-rollouts-values-gatewayapi-<os>-<arch>.yaml
#                                          both for argoproj-labs/gatewayAPI
#   rbac-step-<kind>.yaml                  what the step plugin may do, kind by kind
#   rbac-regions-secrets.yaml              the same for the Secrets with other clusters' kubeconfigs
#   rbac-regions-region.yaml               what it may do in another cluster, with a token
#   step-init-container-patch.yaml         takes the step plugin from its image
#   step-rollout.schema.json, step-preset.schema.json
#                                          for editors: Rollouts with steps, presets
#   crds.yaml, interceptor.yaml, kedify-proxy.yaml, scaler.yaml, agent.yaml
#   all.yaml                               what a cluster with KEDA needs, of these
#   agent-uninstall.yaml                   takes back what the agent has done
#   canary.yaml                            for Krew, which installs `kubectl canary` by it
# They are what deploy/ says, with what the release pins filled in: the URL and the
# SHA-256 of the platform's plugin, those of kubectl-canary, and the images of the
# interceptor, in which the scaler and the agent are, too, and of the step plugin.
#
# hack/release/manifests.sh VERSION CHECKSUMS URL DIGESTS DIRECTORY
#   VERSION    the release's tag, such as v1.2.3
#   CHECKSUMS  the release's checksums.txt
#   URL        where the release's files are downloaded from
#   DIGESTS    GoReleaser's digests.txt, which pins the images by digest; '' pins their tag
#   DIRECTORY  where the manifests are written
# PLATFORMS in the environment are those of the files that there are, such as linux/amd64.
# Without all of them, what is for other platforms is left out, and canary.yaml, too.
# It writes all of them or none.
set -euo pipefail

all='linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64'
interceptor=ghcr.io/kedify/argo-rollouts-interceptor
step=ghcr.io/kedify/argo-rollouts-step-plugin

fail() {
  echo "release-manifests: $*" >&2
  exit 1
}

platforms=() # of the controller, which has no build for Windows
for platform in ${PLATFORMS:=$all}; do
  if [[ " $all " != *" $platform "* ]]; then fail "PLATFORMS has '$platform': expected some of $all"; fi
  if [[ $platform != windows/* ]]; then platforms+=("${platform/\//-}"); fi
done

if (($# != 5)); then fail "expected VERSION CHECKSUMS URL DIGESTS DIRECTORY, got $# arguments"; fi
version=$1 checksums=$2 url=${3%/} digests=$4 directory=$5

# An @ in the host's part is a user's name or a password, which would be published,
# and is not printed here.
if [[ $url =~ ^[a-z]+://[^/]*@ ]]; then
  fail "RELEASE_URL has credentials in it: serve the files without, or name a Secret under headersFrom of the entry (docs/how-to/install.md)"
fi
if [[ ! $url =~ ^https?://[^[:space:]\"@]+$ ]]; then
  fail "RELEASE_URL is '$url': expected the http:// or https:// URL of the directory that the plugin is downloaded from"
fi
if [[ ! $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]]; then
  fail "VERSION is '$version': expected the tag of a release: make release-manifests VERSION=v1.2.3"
fi
for file in "$checksums" ${digests:+"$digests"}; do
  if [[ ! -r $file ]]; then
    fail "there is no $file: expected what 'make release-binaries' or GoReleaser writes, a line '<SHA-256>  <name>' for each file"
  fi
done

# Prints the SHA-256 that a list of them has for a name: LIST NAME.
sum_of() {
  local sum name found=
  while read -r sum name; do
    if [[ $name == "$2" ]]; then found=$sum; fi
  done <"$1"
  if [[ ! $found =~ ^[0-9a-f]{64}$ ]]; then
    fail "$1 has no SHA-256 of $2: expected a line '<64 hexadecimal digits>  $2'"
  fi
  echo "$found"
}

# Prints a template with its placeholders filled in: TEMPLATE LOCATION SHA256. What
# keeps a template from being applied as it is, down to "template:", goes.
fill() {
  local text
  text=$(sed '1,/^template: /d' "$1")
  text=${text//@LOCATION@/"$2"}
  text=${text//@SHA256@/"$3"}
  if [[ $text =~ @[A-Z0-9]+@ ]]; then fail "$1: there is nothing to fill in for ${BASH_REMATCH[0]}"; fi
  printf '%s\n' "$text"
}

# Prints the files that a kustomization of deploy/ lists. What else it does, but for
# its namespace, is not done here.
files_of() {
  local kustomization=$1/kustomization.yaml
  if grep -Evq '^(#|apiVersion: |kind: Kustomization$|namespace: |resources:$|  - [a-z._-]+$)' "$kustomization"; then
    fail "$kustomization does more than to list files and set the namespace: teach hack/release/manifests.sh to do the same"
  fi
  sed -n "s|^  - |$1/|p" "$kustomization"
}

# Prints manifests as one, of files whose names are read one a line.
join() {
  local file
  while read -r file; do
    echo ---
    cat "$file"
  done
}

# Prints manifests with a namespace in the metadata of all that have one: NAMESPACE.
# '' leaves them as they are.
in_namespace() {
  awk -v namespace="$1" '
    /^kind: / { cluster = /^kind: (ClusterRole|MutatingWebhookConfiguration|ValidatingAdmissionPolicy)/ }
    /^[a-z]/ { metadata = /^metadata:/ }
    { print }
    namespace != "" && metadata && !cluster && /^  name: / { print "  namespace: " namespace; metadata = 0 }'
}

# Prints the reference that pins an image of the release: IMAGE.
pin() {
  local sum=
  if [[ -n $digests ]]; then sum=@sha256:$(sum_of "$digests" "$1:$version") || exit; fi
  echo "$1:$version$sum"
}

# Prints a text with the release's image in place of that of a local build: TEXT IMAGE
# PINNED FILE.
with_image() {
  if [[ $1 != *"$2:dev"* ]]; then fail "$4 does not name the image $2:dev"; fi
  printf '%s\n' "${1//"$2:dev"/"$3"}"
}

# Prints the manifests of a directory of deploy/ with the interceptor's image pinned.
with_interceptor() {
  local text files namespace
  files=$(files_of "$1")
  namespace=$(sed -n 's/^namespace: //p' "$1/kustomization.yaml")
  text=$(join <<<"$files" | in_namespace "$namespace")
  with_image "$text" "$interceptor" "$pinned_interceptor" "$1"
}

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
checksums=$(realpath "$checksums")
pinned_interceptor=$(pin "$interceptor")
pinned_step=$(pin "$step")
mkdir -p "$directory"
directory=$(realpath "$directory")
cd "$(dirname "$0")/../.."

source=https://github.com/kedify/argo-rollouts-plugin

# Writes what installs a plugin, for each platform: PROGRAM ASSET RBAC TEMPLATE VALUES
# INFIX. The directory RBAC has the permission, TEMPLATE registers the plugin, VALUES does
# both for Helm; INFIX is a part of the files' names.
write_install() {
  local program=$1 asset=$2 rbac platform sum file
  rbac=$(files_of "$3")
  for platform in "${platforms[@]}"; do
    sum=$(sum_of "$checksums" "$asset-$platform")
    file=install-$6$platform.yaml
    fill "$4" "$url/$asset-$platform" "$sum" >"$made/registration"
    {
      echo "# $program $version: $source"
      echo "# For an Argo Rollouts controller on ${platform/-/\/}, with no other plugin registered:"
      echo "#   kubectl apply --server-side --field-manager=$program -f $file"
      echo "#   kubectl -n argo-rollouts rollout restart deploy/argo-rollouts"
      join <<<"$rbac"$'\n'"$made/registration"
    } >"$made/$file"
    {
      echo "# $program $version: $source"
      fill "$5" "$url/$asset-$platform" "$sum"
    } >"$made/argo-rollouts-values-$6$platform.yaml"
  done
  rm "$made/registration"
}

write_install rollouts-plugin-kedify rollouts-plugin-kedify \
  deploy/rbac deploy/plugin/argo-rollouts-config.yaml deploy/helm/argo-rollouts-values.yaml ''
write_install rollouts-plugin-gatewayapi gatewayapi-plugin \
  deploy/gatewayapi deploy/gatewayapi-plugin/argo-rollouts-config.yaml deploy/helm/argo-rollouts-values-gatewayapi.yaml gatewayapi-

header="# Release $version of $source"
for file in deploy/rbac-step/*.yaml deploy/rbac-regions/*.yaml; do
  {
    echo "$header"
    cat "$file"
  } >"$made/$(basename "$(dirname "$file")")-${file##*/}"
done
patch=deploy/step/deployment-patch.yaml
{
  echo "$header"
  echo '#   kubectl -n argo-rollouts patch deploy argo-rollouts --patch-file step-init-container-patch.yaml'
  with_image "$(<"$patch")" "$step" "$pinned_step" "$patch"
} >"$made/step-init-container-patch.yaml"
crds=$(files_of deploy/crds)
{
  echo "$header"
  echo '# Where Kedify is installed, this is there already.'
  join <<<"$crds"
} >"$made/crds.yaml"
{
  echo "$header"
  echo '# In the namespace keda, which has to be there; not beside the interceptor of Kedify.'
  with_interceptor deploy/interceptor
} >"$made/interceptor.yaml"
{
  echo "$header"
  echo '# Into each namespace with HTTPScaledObjects: kubectl apply -n <namespace> -f kedify-proxy.yaml'
  with_interceptor deploy/kedify-proxy
} >"$made/kedify-proxy.yaml"
{
  echo "$header"
  echo '# In the namespace keda, where the interceptors are; not beside the scaler of Kedify.'
  with_interceptor deploy/scaler
} >"$made/scaler.yaml"
{
  echo "$header"
  echo '# In the namespace keda, where the interceptors and scalers are; not beside the agent of Kedify.'
  with_interceptor deploy/agent
} >"$made/agent.yaml"
{
  echo "$header"
  echo '# Takes back what the agent has done, once no agent runs. Delete agent.yaml after it.'
  with_interceptor deploy/agent-uninstall
} >"$made/agent-uninstall.yaml"
{
  echo "$header"
  echo '# For a cluster with KEDA in the namespace keda: crds.yaml, interceptor.yaml, scaler.yaml and agent.yaml.'
  echo '# Deleting it deletes every HTTPScaledObject.'
  join <<<"$crds"
  for part in interceptor scaler agent; do with_interceptor "deploy/$part"; done
} >"$made/all.yaml"

# Each archive of the template has a placeholder with its name.
if [[ $PLATFORMS == "$all" ]]; then
  krew=$(sed '1,/^template: /d' deploy/krew/canary.yaml)
  krew=${krew//@VERSION@/"$version"}
  krew=${krew//@URL@/"$url"}
  while [[ $krew =~ @SHA256\ ([a-z0-9.-]+)@ ]]; do
    sum=$(sum_of "$checksums" "${BASH_REMATCH[1]}")
    krew=${krew//"${BASH_REMATCH[0]}"/"$sum"}
  done
  if [[ $krew =~ @[A-Z0-9]+[@\ ] ]]; then fail "deploy/krew/canary.yaml: there is nothing to fill in for ${BASH_REMATCH[0]}"; fi
  printf '%s\n%s\n' "$header" "$krew" >"$made/canary.yaml"
fi

cp deploy/schema/*.json "$made"

mv "$made"/*.yaml "$made"/*.json "$directory"
echo "$directory holds the manifests of $version: install-<os>-<arch>.yaml and argo-rollouts-values-<os>-<arch>.yaml, the same with gatewayapi- before <os>, rbac-step-<kind>.yaml, rbac-regions-secrets.yaml, rbac-regions-region.yaml, step-init-container-patch.yaml, step-rollout.schema.json, step-preset.schema.json, crds.yaml, interceptor.yaml, kedify-proxy.yaml, scaler.yaml, agent.yaml, all.yaml, agent-uninstall.yaml, and with all platforms canary.yaml"
