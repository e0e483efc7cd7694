// Package resourcestep is the kind "resource" of canary steps: a step creates an object of the
// cluster, such as an Argo Workflow, and waits until a condition over it holds.
//
// Who edits a Rollout makes such objects with the rights of the controller, whose ServiceAccount
// the plugin runs under. So an admin names the kinds (--allow-resource, none by default), and
// grants for each:
//
//	<resource>        create, get     create the object of a step, and ask how it goes
//	<resource>        list            find the objects that earlier attempts have left
//	<resource>        delete          cancel and abort a step, and take those away
//	apps replicasets  get             read the images of the stable version
package resourcestep

// Config is an object that the step creates in the Rollout's namespace, and what the step waits
// for. The Rollout owns the object, so that Kubernetes deletes it with the Rollout. Its name has
// the Rollout's name, the step's id and its key. `--allow-resource` has to allow its kind, in a
// preset too.
//
// Conditions and outputs are CEL, and see the object as it is now as `object`:
//
//	object.status.phase == "Succeeded"
//	object.status.conditions.exists(c, c.type == "Ready" && c.status == "True")
//
// A field that is not there yet makes a condition not true. The plugin evaluates no condition
// while `status.observedGeneration` is less than `metadata.generation`: the status is then of an
// earlier object.
//
// A repeated start creates no second object: the step goes on with the object that has its key.
// While a quota leaves no room for the object, or the cluster does not serve its kind, the step
// waits. If somebody else deletes the object, the step fails.
//
// The plugin deletes the object when the step times out, when the canary is aborted, and when it
// is promoted in full before the object has succeeded. A deletion is done when the object is
// gone, with its finalizers. Otherwise the object stays until the step begins again, in a later
// canary or a retry. The step then deletes the Rollout's former objects of this step, of the
// same kind, whatever their state.
//
// If the object's own controller deletes it after its end, as by a Workflow's `ttlStrategy`, the
// object has to stay for some minutes before. The controller of Argo Rollouts may restart before
// it sees the end.
type Config struct {
	// Manifest is the object, as in a file of `kubectl create`: `apiVersion`, `kind`, and
	// `metadata` with `labels` and `annotations` alone. Its texts may have CEL between `{{` and
	// `}}`. A text that is nothing but one `{{ }}` keeps its type. For a `{{` that the object's
	// own controller reads, write `{{ "{{" }}`: `{{ "{{" }}workflow.name}}`.
	//
	// Required.
	Manifest map[string]any `json:"manifest"`
	// SuccessCondition is an expression over `object`: when it is true, the step has succeeded.
	// `'true'` is for a step that only creates its object.
	//
	// Required.
	SuccessCondition string `json:"successCondition"`
	// FailureCondition is an expression over `object`: when it is true, the step has failed,
	// whatever `successCondition` is.
	FailureCondition string `json:"failureCondition,omitempty"`
	// Outputs are expressions over `object`, by name (a letter, then letters, digits and `_`),
	// 16 at most, which later steps read. The plugin leaves out an output without a value while
	// the object runs, and when it has failed. Such an output fails a step that would succeed.
	Outputs map[string]string `json:"outputs,omitempty"`
	// Message is a text for what the step waits for and why it has failed: `{{
	// object.status.progress }} of the tests`. It sees `object` and `outputs`. The first 400
	// bytes are shown.
	//
	// Default: the condition, and `status.phase` and `status.message` of the object.
	Message string `json:"message,omitempty"`
}
