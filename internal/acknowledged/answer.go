// Package acknowledged is the format in which an interceptor answers which kedify-proxies
// have acknowledged (xDS ACK) the HTTPScaledObjects of a namespace as they are now: a JSON
// object, that a GET of Path at its admin port answers.
//
// A pod has an object if, in the answers with an empty APIServer:
//   - one or more lists the pod, and
//   - each that lists the pod lists the object with the UID, the generation and the split
//     that it has at the API server, and without a Problem; and lists the pod without a
//     Problem, and without the object in Behind.
//
// An answer that ends early is no valid JSON, and says nothing.
package acknowledged

// Path is where an interceptor answers, with the name of the namespace in place of
// {namespace}.
const Path = "/acknowledged/{namespace}"

// Answer is what one interceptor knows of one namespace.
type Answer struct {
	// APIServer is why the interceptor may not know the objects as they are now: it does
	// not see the API server, or has not read all from it yet. It is empty if all is well.
	APIServer string `json:"apiServer,omitempty"`
	// Objects are the HTTPScaledObjects of the namespace that the interceptor knows, by
	// name.
	Objects []Object `json:"objects"`
	// Proxies are the kedify-proxies that are connected to the interceptor, say which pod
	// they are, and get the objects of the namespace; each pod is listed once.
	Proxies []Proxy `json:"proxies"`
}

// Object is an HTTPScaledObject as the interceptor has it in its routing table.
type Object struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
	// Generation is metadata.generation. It is 0 if there is a Problem because of which
	// nothing is served for the object.
	Generation int64 `json:"generation,omitempty"`
	// Split is the value of the annotation http.kedify.io/weighted-backends.
	Split string `json:"split,omitempty"`
	// Problem is why the object is not served as it is: a reason and a message, such as
	// "InvalidHost: spec.hosts[0]: ...". It is empty if the object is served as it is.
	Problem string `json:"problem,omitempty"`
}

// Proxy is a kedify-proxy pod. If it has more than one stream to the interceptor, it has
// acknowledged what it has acknowledged on all of them.
type Proxy struct {
	// Pod is the pod that the kedify-proxy says it is, as namespace/name.
	Pod string `json:"pod"`
	// Problem is why it counts for no object of the namespace, such as that it has not
	// acknowledged any routes yet. It is empty if Behind says all.
	Problem string `json:"problem,omitempty"`
	// Behind are the names of the objects that it has not acknowledged as they are in
	// Objects, with their clusters and endpoints, sorted. Objects that are to be removed
	// from it are among them.
	Behind []string `json:"behind,omitempty"`
}
