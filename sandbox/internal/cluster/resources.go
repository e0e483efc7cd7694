package cluster

import "k8s.io/apimachinery/pkg/runtime/schema"

// HTTPScaledObjectGVR is the resource which the plugin annotates.
var HTTPScaledObjectGVR = schema.GroupVersionResource{Group: "http.keda.sh", Version: "v1alpha1", Resource: "httpscaledobjects"}
