// KEDA, which is built with its own go.mod and go.sum: they pin all that it requires.
module github.com/kedify/argo-rollouts-plugin/sandbox/addons/keda/programs

go 1.26.1

require github.com/kedacore/keda/v2 v2.21.0
