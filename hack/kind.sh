#!/usr/bin/env bash
# Tries deploy/ in a cluster of kind: applies each of its kustomizations, waits until all
# pods are ready, and sends requests to a canary that is to get a fifth of them.
#
# hack/kind.sh          makes the cluster, builds the images, and removes the cluster at the end
# hack/kind.sh --here   tries the same in the cluster that kubectl leads to, which has the
#                       images of `make docker-build` and the definition of ScaledObjects,
#                       and whose Services this machine reaches. It changes that cluster.
#
# Needs kubectl 1.31 or later, curl, openssl 3 and Go; without --here Docker, too.
set -Eeuo pipefail
cd "$(dirname "$0")/.."

readonly cluster=kedify namespace=rollouts-demo host=rollouts-demo.example.com
readonly interceptor=keda-add-ons-http-interceptor

fail() {
  echo "hack/kind.sh: $*" >&2
  exit 1
}

case "$*" in
'') here='' ;;
--here) here=1 ;;
*) fail "expected no argument, or --here; got $*" ;;
esac
programs=(kubectl curl openssl go)
if [[ -z $here ]]; then programs+=(docker); fi
for program in "${programs[@]}"; do
  if ! command -v "$program" >/dev/null; then fail "there is no $program on PATH: install it"; fi
done

mkdir -p bin
work=$(mktemp -d bin/kind.XXXXXX) # kustomize takes deploy/ by a relative path
made=''                           # whether the cluster is this script's, to remove
end() {
  local status=$?
  if ((status != 0)) && [[ $here$made ]]; then
    kubectl get events -A --sort-by=.lastTimestamp | tail -n 50 || true
    kubectl get pods -A -o wide || true
  fi
  if [[ $made ]]; then
    if ((status != 0)); then kind export logs --name "$cluster" bin/kind-logs || true; fi
    kind delete cluster --name "$cluster" || true
  fi
  rm -rf "$work" # with the kubeconfig
  if ((status != 0)); then printf '\n=== failed at: %s, line %s\n' "${at:-the beginning}" "${failed:-}"; fi
  exit "$status"
}
trap end EXIT
trap 'failed="$LINENO: $BASH_COMMAND"' ERR

step() {
  at=$*
  printf '\n=== %s\n' "$at"
}

kind() { go tool -modfile=tools/kind/go.mod kind "$@"; }

# Prints the version or, once it is downloaded, the directory of a module that a go.mod
# file requires: GO.MOD FIELD MODULE.
module() { go list -m -modfile="$1" -f "{{.$2}}" "$3"; }

# The node of kind reaches the addresses of Services, and has curl.
client() { if [[ $here ]]; then "$@"; else docker exec "$cluster-control-plane" "$@"; fi; }

make_cluster() {
  step 'a cluster with the images, KEDA and the namespace keda'
  export KUBECONFIG=$PWD/$work/kubeconfig
  local clusters
  clusters=$(kind get clusters)
  if grep -qx "$cluster" <<<"$clusters"; then
    fail "there is a cluster $cluster of kind already: remove it (go tool -modfile=tools/kind/go.mod kind delete cluster --name $cluster)"
  fi
  made=1
  kind create cluster --name "$cluster" --wait 5m
  make docker-build
  kind load docker-image --name "$cluster" ghcr.io/kedify/argo-rollouts-{plugin,step-plugin,interceptor}:dev
  local keda
  keda=$(module sandbox/addons/keda/programs/go.mod Version github.com/kedacore/keda/v2)
  kubectl apply --server-side -f "https://github.com/kedacore/keda/releases/download/$keda/keda-${keda#v}.yaml"
  kubectl create namespace argo-rollouts
  ready keda keda-operator keda-metrics-apiserver keda-admission
}

# Waits until the pods of Deployments are as they should be: NAMESPACE DEPLOYMENT...
ready() {
  local deployment
  for deployment in "${@:2}"; do kubectl -n "$1" rollout status "deployment/$deployment" --timeout=5m; done
}

# Applies kustomizations of deploy/: DIRECTORY...
tried=()
overlay() {
  local dir
  for dir; do
    kubectl apply --server-side --force-conflicts -k "deploy/$dir"
    tried+=("$dir")
  done
}

# Applies a kustomization of deploy/ with components, and what else it says: NAME TEXT BASE COMPONENT...
with_components() {
  local dir=$work/$1 component
  mkdir -p "$dir"
  {
    printf '%s\nresources: [%s]\ncomponents:\n' "$2" "$3"
    for component in "${@:4}"; do
      echo "  - ../../../deploy/$component"
      tried+=("$component")
    done
  } >"$dir/kustomization.yaml"
  kubectl apply --server-side --force-conflicts -k "$dir"
}

# Runs a command until it succeeds, for three minutes: COMMAND...
await() {
  local deadline=$((SECONDS + 180))
  until "$@"; do
    if ((SECONDS > deadline)); then fail "not within three minutes: $*"; fi
    sleep 1
  done
}

# Sends 1000 requests to a Service, all of which are answered, 150 to 250 by the canary:
# NAMESPACE SERVICE SCHEME PORT.
split() {
  local address answers blue yellow
  address=$(kubectl -n "$1" get service "$2" -o jsonpath='{.spec.clusterIP}')
  # Certificates are not looked at here; that they are verified is tested in the sandbox.
  answers=$(client curl --fail --fail-early --silent --show-error --insecure --connect-to "::$address:" "$3://$host:$4/color?[1-1000]") || return
  blue=$(grep -o '"blue"' <<<"$answers" | wc -l) yellow=$(grep -o '"yellow"' <<<"$answers" | wc -l)
  echo "$3://$2.$1:$4: $blue blue, $yellow yellow"
  ((blue + yellow == 1000 && yellow >= 150 && yellow <= 250))
}

# Makes a certificate of the authority in $work, and its key: DIRECTORY NAMES.
certificate() {
  mkdir -p "$work/$1"
  openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj "/CN=$1" -addext "subjectAltName=$2" -addext basicConstraints=critical,CA:FALSE \
    -CA "$work/ca.crt" -CAkey "$work/ca.key" -out "$work/$1/tls.crt" -keyout "$work/$1/tls.key" 2>/dev/null
}

# Makes a Secret of a certificate and its authority: NAMESPACE NAME DIRECTORY.
secret() {
  kubectl -n "$1" create secret generic "$2" --type=kubernetes.io/tls --from-file="$work/$3/tls.crt" --from-file="$work/$3/tls.key" --from-file="$work/ca.crt"
}

if [[ -z $here ]]; then make_cluster; fi

step 'Argo Rollouts, with both plugins from their images'
argo_rollouts=github.com/argoproj/argo-rollouts
mkdir "$work/argo-rollouts"
go mod download -modfile=sandbox/go.mod "$argo_rollouts"
cp "$(module sandbox/go.mod Dir "$argo_rollouts")/manifests/install.yaml" "$work/argo-rollouts"
with_components argo-rollouts "namespace: argo-rollouts
images: [{name: quay.io/argoproj/argo-rollouts, newTag: $(module sandbox/go.mod Version "$argo_rollouts")}]" install.yaml local step
overlay rbac gatewayapi
ready argo-rollouts argo-rollouts

step 'the interceptor, the scaler and the agent'
overlay crds interceptor scaler agent all
ready keda "$interceptor" keda-add-ons-http-external-scaler kedify-agent

step 'a canary at 20 %, whose kedify-proxy the agent makes'
kubectl create namespace "$namespace"
kubectl -n "$namespace" apply -k deploy/rbac-minimal
tried+=(rbac-minimal)
kubectl -n "$namespace" apply -k examples/canary
kubectl -n "$namespace" wait rollout/rollouts-demo --for=jsonpath='{.status.phase}'=Healthy --timeout=5m
kubectl -n "$namespace" patch rollout rollouts-demo --type=json \
  -p '[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "argoproj/rollouts-demo:yellow"}]'
kubectl -n "$namespace" wait rollout/rollouts-demo --for=jsonpath='{.status.phase}'=Paused --timeout=5m
kubectl -n "$namespace" wait deployment/kedify-proxy --for=create --timeout=3m
ready "$namespace" kedify-proxy
await split keda "$interceptor-proxy" http 8080
await split "$namespace" kedify-proxy http 8080

step 'the agent is uninstalled, and the split stays'
kubectl -n keda scale deployment kedify-agent --replicas=0
overlay agent-uninstall
kubectl -n keda wait job/kedify-agent-uninstall --for=condition=Complete --timeout=5m
kubectl delete -k deploy/agent-uninstall
kubectl delete --ignore-not-found -k deploy/agent
kubectl -n "$namespace" wait deployment/kedify-proxy --for=delete --timeout=3m
await split keda "$interceptor-proxy" http 8080

step 'a kedify-proxy that no agent makes'
kubectl -n "$namespace" apply -k deploy/kedify-proxy
tried+=(kedify-proxy)
ready "$namespace" kedify-proxy
await split "$namespace" kedify-proxy http 8080

step 'TLS, and alerts'
openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=authority -out "$work/ca.crt" -keyout "$work/ca.key" 2>/dev/null
certificate public "DNS:$host"
certificate interceptor "DNS:$interceptor-xds.keda"
certificate kedify-proxy "URI:spiffe://cluster.local/ns/$namespace/sa/kedify-proxy"
kubectl -n keda create secret tls keda-tls-certs --cert="$work/public/tls.crt" --key="$work/public/tls.key"
secret keda "$interceptor-xds" interceptor
secret "$namespace" kedify-proxy-xds kedify-proxy
kubectl apply --server-side --force-conflicts -f sandbox/addons/prometheusrule/monitoring.coreos.com_prometheusrules.yaml
kubectl wait crd/prometheusrules.monitoring.coreos.com --for=condition=Established
with_components tls-interceptor '' ../../../deploy/interceptor components/{alerts,tls,xds-mutual-tls/interceptor}
ready keda "$interceptor"
with_components tls-kedify-proxy "namespace: $namespace" ../../../deploy/kedify-proxy components/xds-mutual-tls/kedify-proxy
ready "$namespace" kedify-proxy
with_components tls-interceptor-strict '' ../tls-interceptor components/xds-mutual-tls/require-namespaces
ready keda "$interceptor"
await split keda "$interceptor-proxy" https 8443
await split "$namespace" kedify-proxy https 8443

# Templates, which install-<os>-<arch>.yaml of a release are made of.
tried+=(plugin gatewayapi-plugin)
missed=$(comm -23 <(find deploy -name kustomization.yaml -printf '%P\n' | sed 's|/kustomization.yaml$||' | sort) <(printf '%s\n' "${tried[@]}" | sort))
if [[ $missed ]]; then fail "deploy/ has kustomizations that are not tried here: add ${missed//$'\n'/, }"; fi
step "deploy/ is as it should be: ${#tried[@]} kustomizations, two of them templates"
