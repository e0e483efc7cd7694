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

// Config is an object that the step creates in the Rollout's namespace, and what it waits for.
// The object is the Rollout's, so that it goes with it, and is named after the Rollout, the
// step's id and its key. `--allow-resource` has to allow its kind, in a preset too.
//
// Conditions and outputs are CEL, and see the object as it is now as `object`:
//
//	object.status.phase == "Succeeded"
//	object.status.conditions.exists(c, c.type == "Ready" && c.status == "True")
//
// What is not there yet makes a condition not true. While `status.observedGeneration` is less than
// `metadata.generation` the status is of an earlier object, and conditions are not looked at.
//
// An object is created once: if it exists under the step's key, the step goes on with it. While a
// quota leaves no room for it, or the cluster does not serve its kind, the step waits. A step whose
// object is deleted by somebody else fails. The object is deleted when the step times out, when the
// canary is aborted, and when it is promoted in full before the object has succeeded. That counts as
// done when the object is gone, with its finalizers. Otherwise it stays until the step begins again,
// in a later canary or a retry: that deletes the Rollout's former objects of the step, of the same
// kind, whatever their state.
//
// An object that its own controller deletes after its end, as by a Workflow's `ttlStrategy`, has to
// stay for some minutes: the controller of Argo Rollouts may be restarted before it sees the end.
type Config struct {
	// Manifest is the object, as in a file of `kubectl create`: `apiVersion`, `kind`, and
	// `metadata` with `labels` and `annotations` alone. Its texts may have CEL between `{{` and
	// `}}`; one that is nothing but one `{{ }}` keeps its type. Where `{{` is for the object's own
	// controller, it is written `{{ "{{" }}`: `{{ "{{" }}workflow.name}}`.
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
	// Outputs are expressions over `object`, by name (a letter, then letters, digits and `_`), 16
	// at most, which later steps read. One that has no value is left out while the object runs
	// and where it has failed, and fails a step that would succeed.
	Outputs map[string]string `json:"outputs,omitempty"`
	// Message is a text, which sees `object` and `outputs`, for what the step waits for and why it
	// has failed: `{{ object.status.progress }} of the tests`. 400 bytes of it are shown.
	//
	// Default: the condition, and `status.phase` and `status.message` of the object.
	Message string `json:"message,omitempty"`
}
