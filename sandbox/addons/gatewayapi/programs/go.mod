// The Gateway API, of which its definitions alone are used.
module github.com/kedify/argo-rollouts-plugin/sandbox/addons/gatewayapi/programs

go 1.26.1

require sigs.k8s.io/gateway-api v1.3.0
