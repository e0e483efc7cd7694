# `make` lists the targets. Everything runs without root and without Docker,
# but for docker-build and k3d-import.

MAKEFLAGS += --no-print-directory
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# Make splits the names of targets at spaces.
ifneq ($(words $(CURDIR)),1)
$(error the path of this checkout has a space in it, which make cannot handle: move "$(CURDIR)" to a path without)
endif

# Static binaries, and no C compiler needed.
export CGO_ENABLED := 0
# The version is given to the linker below; what git says must not change a
# binary, nor its absence fail a build.
export GOFLAGS ?= -buildvcs=false -trimpath

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT  ?= $(shell git rev-parse --verify --quiet HEAD || echo unknown)
# A binary that depends on the sources and the version of Go alone, as small as
# it gets: grpcnotrace leaves out debug pages of gRPC that nobody can reach.
# .goreleaser.yaml and Dockerfile build with the same flags.
BUILDFLAGS = -trimpath -tags grpcnotrace -ldflags '-s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)'
# No inlining outside the standard library: it costs 2 MB, most of them in
# generated code that never runs, and gains nothing measurable (docs/contributing/decisions.md).
PLUGINFLAGS = -gcflags=all=-l -gcflags=std= $(BUILDFLAGS)

PLUGIN_BINARY := rollouts-plugin-kedify
GATEWAYAPI_BINARY := rollouts-plugin-gatewayapi
# What a release calls it: as argoproj-labs/gatewayAPI, whose place it takes.
GATEWAYAPI_ASSET := gatewayapi-plugin
STEP_BINARY := rollouts-plugin-step
KUBECTL_BINARY := kubectl-canary
IMG    ?= ghcr.io/kedify/argo-rollouts-plugin:dev
STEP_IMG ?= ghcr.io/kedify/argo-rollouts-step-plugin:dev
INTERCEPTOR_BINARY := interceptor
# In the interceptor's image, too.
SCALER_BINARY := scaler
AGENT_BINARY := agent
INTERCEPTOR_IMG ?= ghcr.io/kedify/argo-rollouts-interceptor:dev

GO            := go
GO_SANDBOX    := $(GO) -C sandbox
GOLANGCI_LINT := $(CURDIR)/bin/golangci-lint
# Findings in the cache have the paths of the checkout that they were made in.
export GOLANGCI_LINT_CACHE := $(CURDIR)/bin/golangci-lint-cache
GOTESTSUM     := $(CURDIR)/bin/gotestsum
GORELEASER    := $(GO) tool -modfile=$(CURDIR)/tools/goreleaser/go.mod goreleaser

# Where a release's files are downloaded from, what its manifests are made of, and
# where they go; DIGESTS, GoReleaser's digests.txt, pins the image by digest.
RELEASE_URL ?= https://github.com/kedify/argo-rollouts-plugin/releases/download/$(VERSION)
CHECKSUMS   ?= dist/checksums.txt
DIGESTS     ?=
MANIFESTS   ?= dist
# What release-binaries and release-manifests make files for. A release has all of them.
PLATFORMS   ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

# Regular expression of the end-to-end tests to run.
RUN         ?= .
E2E_TIMEOUT ?= 60m
# How many packages of end-to-end tests run at once, each in a sandbox of its own: one
# if that is the one that SANDBOX names.
SANDBOXES   ?= $(if $(SANDBOX),1,3)
FUZZTIME    ?= 30s
K3D_CLUSTER ?= k3s-default
# Which router the demo shows, kedify or gatewayapi, and what splits its requests:
# embedded, or envoy; that of router kedify alone can be chosen. With GUIDE=1 it shows
# the walk through the guide instead, with STEPS=1 canaries with steps, and another region.
ROUTER      ?= kedify
PROXY       ?=
GUIDE       ?=
STEPS       ?=
# The plugins that bench-plugin measures.
PLUGINS     ?= kedify,gatewayapi
# Name of the sandbox that sandbox-up, -down and -shell are about. Not taken from the
# environment, where WSL has the machine's name in it.
NAME        := default
# Not SANDBOX, nor PLUGIN: these are what the end-to-end tests read.
SANDBOX_CMD := $(CURDIR)/bin/sandbox
# How long each test took, for test-times.
TIMES       := $(CURDIR)/bin/test-times

##@ Build

.PHONY: build
build: ## Build ./rollouts-plugin-{kedify,gatewayapi,step}, bin/interceptor, bin/scaler and bin/agent for Linux, bin/kubectl-canary for this machine; all for its architecture
	export GOARCH=$$($(GO) env GOHOSTARCH); \
	for program in $(PLUGIN_BINARY) $(GATEWAYAPI_BINARY) $(STEP_BINARY); do \
	  GOOS=linux $(GO) build $(PLUGINFLAGS) -o $$program ./cmd/$$program; \
	done; \
	for program in $(INTERCEPTOR_BINARY) $(SCALER_BINARY) $(AGENT_BINARY); do \
	  GOOS=linux $(GO) build $(BUILDFLAGS) -o bin/$$program ./cmd/$$program; \
	done; \
	GOOS=$$($(GO) env GOHOSTOS) $(GO) build $(PLUGINFLAGS) -o bin/$(KUBECTL_BINARY) ./cmd/$(KUBECTL_BINARY)

.PHONY: release-binaries
release-binaries: ## Cross-compile what a release holds into dist/, with checksums.txt (PLATFORMS=linux/amd64 makes a part)
	rm -rf dist && mkdir -p dist
	for platform in $(filter-out windows/%,$(PLATFORMS)); do for program in $(PLUGIN_BINARY) $(STEP_BINARY); do \
	  out=dist/$$program-$${platform/\//-}; echo "$$out"; \
	  GOOS=$${platform%/*} GOARCH=$${platform#*/} $(GO) build $(PLUGINFLAGS) -o "$$out" ./cmd/$$program; \
	done; done
	for platform in $(PLATFORMS); do \
	  out=dist/$(GATEWAYAPI_ASSET)-$${platform/\//-}; if [[ $$platform == windows/* ]]; then out+=.exe; fi; echo "$$out"; \
	  GOOS=$${platform%/*} GOARCH=$${platform#*/} $(GO) build $(PLUGINFLAGS) -o "$$out" ./cmd/$(GATEWAYAPI_BINARY); \
	done
	for platform in $(filter linux/%,$(PLATFORMS)); do for program in $(INTERCEPTOR_BINARY) $(SCALER_BINARY) $(AGENT_BINARY); do \
	  out=dist/$$program-$${platform/\//-}; echo "$$out"; \
	  GOOS=linux GOARCH=$${platform#*/} $(GO) build $(BUILDFLAGS) -o "$$out" ./cmd/$$program; \
	done; done
	for platform in $(PLATFORMS); do \
	  os=$${platform%/*} out=dist/$(KUBECTL_BINARY)-$${platform/\//-}; exe=; if [[ $$os == windows ]]; then exe=.exe; fi; echo "$$out$$exe $$out.tar.gz"; \
	  mkdir -p dist/archive && cp LICENSE dist/archive; \
	  GOOS=$$os GOARCH=$${platform#*/} $(GO) build $(PLUGINFLAGS) -o "dist/archive/$(KUBECTL_BINARY)$$exe" ./cmd/$(KUBECTL_BINARY); \
	  tar -C dist/archive -czf "$$out.tar.gz" LICENSE "$(KUBECTL_BINARY)$$exe"; \
	  mv "dist/archive/$(KUBECTL_BINARY)$$exe" "$$out$$exe"; rm -r dist/archive; \
	done
	cd dist && sha256sum *-* >checksums.txt && cat checksums.txt

.PHONY: release-manifests
release-manifests: ## Fill in the manifests of VERSION from CHECKSUMS (RELEASE_URL, DIGESTS, PLATFORMS, MANIFESTS=directory)
	@PLATFORMS='$(PLATFORMS)' hack/release/manifests.sh '$(VERSION)' '$(CHECKSUMS)' '$(RELEASE_URL)' '$(DIGESTS)' '$(MANIFESTS)'

.PHONY: docker-build
docker-build: ## Build the images IMG, STEP_IMG and INTERCEPTOR_IMG (needs Docker)
	docker build --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) --target plugin -t $(IMG) .
	docker build --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) --target step -t $(STEP_IMG) .
	docker build --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) --target interceptor -t $(INTERCEPTOR_IMG) .

.PHONY: k3d-import
k3d-import: docker-build ## Build the images and import them into the k3d cluster K3D_CLUSTER
	k3d image import $(IMG) $(STEP_IMG) $(INTERCEPTOR_IMG) --cluster $(K3D_CLUSTER)

.PHONY: generate
generate: ## Make the generated files anew: deepcopy, CRDs, kedify-proxy's bootstrap, what docs/reference has from the code
	hack/generate.sh

.PHONY: docs-words
docs-words: ## Print the words of each page of the docs, the average of its sentences, and each of more than 30 words
	@$(GO) run ./hack/docswords

##@ See it work

.PHONY: demo
demo: $(SANDBOX_CMD) ## Show a canary promoted under requests, and a bad one aborted by its analysis (ROUTER=kedify with PROXY=embedded or envoy, or ROUTER=gatewayapi); GUIDE=1 walks through the guide with KEDA and the agent; STEPS=1 shows a canary that tells, tests and waits, and a region that fails
	$(SANDBOX_CMD) demo --router $(if $(GUIDE),guide,$(if $(STEPS),steps,$(ROUTER))) $(if $(PROXY),--proxy $(PROXY))

.PHONY: picture
picture: $(SANDBOX_CMD) ## Draw the README's picture, docs/canary.svg, from the requests of a demo
	$(SANDBOX_CMD) demo --picture docs/canary.svg

.PHONY: sandbox-build
sandbox-build: $(SANDBOX_CMD) ## Build the sandbox's cluster into its cache (5 to 10 minutes the first time)
	$(SANDBOX_CMD) build --with interceptor,gateway-api

.PHONY: sandbox-up
sandbox-up: $(SANDBOX_CMD) ## Start the sandbox NAME, with the plugin and the interceptor installed
	$(SANDBOX_CMD) up --with interceptor --name $(NAME)

.PHONY: sandbox-shell
sandbox-shell: $(SANDBOX_CMD) ## Open a shell in the sandbox NAME
	$(SANDBOX_CMD) shell --name $(NAME)

.PHONY: sandbox-down
sandbox-down: $(SANDBOX_CMD) ## Stop the sandbox NAME and remove its state
	$(SANDBOX_CMD) down --name $(NAME)

.PHONY: envoy
envoy: $(SANDBOX_CMD) ## Print the path of the Envoy that tests and kedify-proxy run, downloaded once
	$(SANDBOX_CMD) path envoy envoy

.PHONY: load-clients
load-clients: ## Print the directory of wrk and h2load, which end-to-end tests run, downloaded once
	@hack/load-clients.sh

# A file of its own rather than go run: a sandbox that is up goes on using it.
.PHONY: $(SANDBOX_CMD)
$(SANDBOX_CMD):
	@if [[ ! -e $@ ]]; then echo 'compiling bin/sandbox (3 to 5 minutes the first time)'; fi
	@$(GO_SANDBOX) build -o $@ ./cmd/sandbox

##@ Test

# Packages of end-to-end tests apart from the others, as the add-ons that they are about
# are long to build.
APART := contour keda agent

.PHONY: test
test: test-unit e2e $(APART:%=e2e-%) ## Run all tests

# Both show how tests go while they go, and write how long each took to a file. UNIT
# shows packages and the tests that fail, E2E whatever go test -v shows. What failed
# tests have said comes once more at the end, as tests run beside one another.
UNIT = $(GOTESTSUM) --format pkgname-and-test-fails --format-icons text --hide-summary skipped --jsonfile-timing-events $(TIMES)/$(1).json --
E2E  = cd sandbox && $(GOTESTSUM) --format standard-verbose --hide-summary skipped --jsonfile-timing-events $(TIMES)/$(1).json -- \
  -count=1 -timeout $(E2E_TIMEOUT) -run '$(RUN)'

SANDBOX_UNITS = $$($(GO_SANDBOX) list ./... | grep -v -e /sandbox/e2e -e /sandbox/bench/)

# The tests that need no cluster: the environment, flags, and flags for those of the sandbox.
define run_unit
@mkdir -p $(TIMES)
$(1) $(call UNIT,unit) $(2) ./...
packages=$(SANDBOX_UNITS) && cd sandbox && $(1) $(call UNIT,unit-sandbox) $(2) $(3) $$packages
endef

.PHONY: test-unit
test-unit: envoy load-clients $(GOTESTSUM) ## Run the tests that need no cluster, the RPC tests among them
	$(call run_unit)

# The race detector takes several times as long as go test's ten minutes allow beside
# other work. The node's tests run their own binary in containers that hold nothing else;
# with the race detector in it, it starts too slowly for an exec probe.
RACE_NODE := -ldflags '-linkmode=external -extldflags=-static' -skip '^TestExecProbe$$'

.PHONY: race
race: envoy load-clients $(GOTESTSUM) ## Run the same tests under the race detector (needs a C compiler)
	$(call run_unit,CGO_ENABLED=1,-race -timeout=40m,$(RACE_NODE))
	$(GO_SANDBOX) test -run '^TestExecProbe$$' ./internal/node

.PHONY: race-compile
race-compile: ## Compile what race runs
	CGO_ENABLED=1 $(GO) test -race -exec true ./... >/dev/null
	CGO_ENABLED=1 $(GO_SANDBOX) test -race -exec true $(SANDBOX_UNITS) >/dev/null

.PHONY: e2e
e2e: build sandbox-build envoy load-clients $(GOTESTSUM) ## Run the end-to-end tests (RUN=regexp picks some)
	@mkdir -p $(TIMES)
	packages=$$($(GO_SANDBOX) list ./e2e/... | grep -v $(APART:%=-e /e2e/%)) && $(call E2E,e2e) -p $(SANDBOXES) $$packages

.PHONY: $(APART:%=e2e-%)
e2e-contour: ## Run the end-to-end tests behind Contour, those of the Gateway API router among them
e2e-keda: ## Run the end-to-end tests in which KEDA scales
e2e-agent: ## Run the end-to-end tests of the agent, with KEDA and Contour
$(APART:%=e2e-%): e2e-%: build envoy load-clients $(GOTESTSUM)
	@mkdir -p $(TIMES)
	$(call E2E,$@) ./e2e/$*

# Not part of test: Envoy Gateway is as long to build as Kubernetes.
.PHONY: e2e-envoy-gateway
e2e-envoy-gateway: export GATEWAY := envoy-gateway
e2e-envoy-gateway: build envoy load-clients $(GOTESTSUM) ## Run the end-to-end tests of a Gateway behind Envoy Gateway instead of Contour (part of compatibility)
	@mkdir -p $(TIMES)
	$(call E2E,$@) ./e2e/contour

.PHONY: test-times
test-times: $(GOTESTSUM) ## Print the slowest 20 tests of the last test-unit or race and e2e
	@if ! compgen -G '$(TIMES)/*.json' >/dev/null; then echo "no test has run yet: run some, as with make test-unit" >&2; exit 1; fi
	@cat $(TIMES)/*.json | $(GOTESTSUM) tool slowest --num 20

$(GOTESTSUM): tools/gotestsum/go.mod tools/gotestsum/go.sum
	@$(GO) -C tools/gotestsum build -o $@ gotest.tools/gotestsum

.PHONY: compatibility
compatibility: build envoy ## Run a canary, the check and one under requests on other Argo Rollouts and Kubernetes, and the tests of a Gateway behind Envoy Gateway (an hour the first time)
	hack/compatibility.sh
	$(MAKE) e2e-envoy-gateway

.PHONY: fuzz
fuzz: ## Fuzz whatever parses outside input, each for FUZZTIME
	for file in $$(grep -rl --include='*_test.go' '^func Fuzz' api cmd internal); do \
	  for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$$file"); do \
	    $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "./$$(dirname "$$file")"; \
	  done; \
	done

.PHONY: mutants
mutants: sandbox-build envoy ## Break the product in some 60 ways, and demand that tests notice (RUN=regexp picks some)
	@exec hack/mutants/run.sh '$(RUN)'

.PHONY: bench
bench: bench-plugin bench-step bench-interceptor bench-scaling bench-agent ## Measure the plugins, the interceptor, scaling and the agent beside others (three quarters of an hour)

.PHONY: bench-plugin
bench-plugin: build sandbox-build ## Measure the plugins beside one that does nothing and those that client-go throttles (PLUGINS=gatewayapi picks one)
	$(GO) build $(PLUGINFLAGS) -o bin/bench/ ./bench/idle ./bench/throttled ./bench/rewriting
	$(GO_SANDBOX) build -o $(CURDIR)/bin/bench/bench-plugin ./bench/plugin
	bin/bench/bench-plugin -parts '$(PLUGINS)' -kedify $(CURDIR)/$(PLUGIN_BINARY) -gatewayapi $(CURDIR)/$(GATEWAYAPI_BINARY) \
	  -idle $(CURDIR)/bin/bench/idle -throttled $(CURDIR)/bin/bench/throttled -rewriting $(CURDIR)/bin/bench/rewriting \
	  -crd $(CURDIR)/deploy/crds/http.keda.sh_httpscaledobjects.yaml \
	  -rollout-crd "$$($(GO_SANDBOX) list -m -f '{{.Dir}}' github.com/argoproj/argo-rollouts)/manifests/crds/rollout-crd.yaml" \
	  -route-crd "$$($(SANDBOX_CMD) path gateway-api definitions)/gateway.networking.k8s.io_httproutes.yaml"

.PHONY: bench-step
bench-step: build sandbox-build ## Measure the step plugin beside one that does nothing, over RPC, under the controller and with five other clusters (STEP_PARTS=run picks some)
	$(GO) build $(PLUGINFLAGS) -o bin/bench/ ./bench/idlestep
	$(GO_SANDBOX) build -o $(CURDIR)/bin/bench/bench-step ./bench/step
	bin/bench/bench-step -plugin $(CURDIR)/$(STEP_BINARY) -idle $(CURDIR)/bin/bench/idlestep \
	  -controller "$$($(SANDBOX_CMD) path argo-rollouts rollouts-controller)" \
	  -crds "$$($(GO_SANDBOX) list -m -f '{{.Dir}}' github.com/argoproj/argo-rollouts)/manifests/crds" -parts "$(STEP_PARTS)"

.PHONY: bench-interceptor
bench-interceptor: build sandbox-build load-clients ## Measure the interceptor beside Envoy, nginx and a ReverseProxy (PARTS=throughput picks some)
	$(GO) build $(BUILDFLAGS) -o bin/bench/ ./bench/reverseproxy
	$(GO_SANDBOX) build -o $(CURDIR)/bin/bench/bench-interceptor ./bench/interceptor
	bin/bench/bench-interceptor -interceptor $(CURDIR)/bin/$(INTERCEPTOR_BINARY) -floor $(CURDIR)/bin/bench/reverseproxy \
	  -envoy "$$($(SANDBOX_CMD) path envoy envoy)" -nginx "$$(bench/nginx/fetch.sh)" \
	  -crd $(CURDIR)/deploy/crds/http.keda.sh_httpscaledobjects.yaml -parts "$(PARTS)"

.PHONY: bench-scaling
bench-scaling: build sandbox-build load-clients ## Measure what scaling by KEDA costs, beside proxies that count nothing, a bare cache and KEDA polling (SCALING_PARTS=rate picks some)
	$(GO) build $(BUILDFLAGS) -o bin/bench/ ./bench/barecache ./bench/loadreports ./bench/getmetrics
	$(GO) test -c -o bin/bench/proxy.test ./internal/interceptor/proxy
	$(GO_SANDBOX) build -o $(CURDIR)/bin/bench/bench-scaling ./bench/scaling
	bin/bench/bench-scaling -interceptor $(CURDIR)/bin/$(INTERCEPTOR_BINARY) -envoy "$$($(SANDBOX_CMD) path envoy envoy)" \
	  -proxy $(CURDIR)/bin/bench/proxy.test -scaler $(CURDIR)/bin/$(SCALER_BINARY) -barecache $(CURDIR)/bin/bench/barecache \
	  -loadreports $(CURDIR)/bin/bench/loadreports -getmetrics $(CURDIR)/bin/bench/getmetrics \
	  -crd $(CURDIR)/deploy/crds/http.keda.sh_httpscaledobjects.yaml -parts "$(SCALING_PARTS)"

.PHONY: bench-agent
bench-agent: build sandbox-build ## Measure the agent beside a loop, a bare cache and the work by hand (AGENT_PARTS=memory picks some)
	$(GO) build $(BUILDFLAGS) -o bin/bench/ ./bench/barecache
	$(GO_SANDBOX) build -o $(CURDIR)/bin/bench/bench-agent ./bench/agent
	bin/bench/bench-agent -agent $(CURDIR)/bin/$(AGENT_BINARY) -barecache $(CURDIR)/bin/bench/barecache \
	  -crd $(CURDIR)/deploy/crds/http.keda.sh_httpscaledobjects.yaml -configmap $(CURDIR)/deploy/agent/configmap-kedify-proxy.yaml -parts "$(AGENT_PARTS)"

##@ Check

# golangci-lint's govet runs the analyzers of go vet.
.PHONY: lint
lint: lint-product lint-sandbox ## Check format, vet, golangci-lint, import rules and generated files

.PHONY: lint-product
lint-product: $(GOLANGCI_LINT)
	@unformatted=$$(git ls-files '*.go' | xargs gofmt -l); if [[ -n $$unformatted ]]; then echo "not formatted (gofmt -w):" $$unformatted >&2; exit 1; fi
	hack/generate.sh --check
	$(GOLANGCI_LINT) run ./...

.PHONY: lint-sandbox
lint-sandbox: $(GOLANGCI_LINT)
	cd sandbox && $(GOLANGCI_LINT) run ./...

$(GOLANGCI_LINT): tools/golangci-lint/go.mod tools/golangci-lint/go.sum
	@echo "building golangci-lint (a minute or two the first time)"
	$(GO) -C tools/golangci-lint build -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: govulncheck
govulncheck: ## Look for known vulnerabilities (asks the Go vulnerability database)
	$(GO) run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...

##@ Release

.PHONY: release-check
release-check: ## Check .goreleaser.yaml
	$(GORELEASER) check

.PHONY: release
release: ## Make the release of the tag that is checked out, as a draft (the release workflow publishes it)
	$(GORELEASER) release --clean

.PHONY: release-snapshot
release-snapshot: ## Build all of a release into dist/, publish nothing (no Docker, no SBOM tool needed)
	$(GORELEASER) release --snapshot --clean --skip=publish,docker,sbom
	version=$$(sed -n 's/^.*"version":"\([^"]*\)".*$$/\1/p' dist/metadata.json); \
	  $(MAKE) release-manifests VERSION="v$$version" MANIFESTS=dist/manifests

##@ Other

.PHONY: clean
clean: ## Remove what was built here (not the sandbox's cache, nor Go's)
	rm -rf $(PLUGIN_BINARY) $(GATEWAYAPI_BINARY) $(STEP_BINARY) bin dist

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## "; print "make TARGET [VARIABLE=value]" } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z0-9-]+:.*## / { printf "  %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
