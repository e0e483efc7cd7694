package scaledobject

const (
	// KedifyHTTP is the type of trigger that users write. KEDA does not know it.
	KedifyHTTP = "kedify-http"
	// ExternalPush is the type of KEDA's that the webhook puts in its place.
	ExternalPush = "external-push"

	// ScalerAddressKey is the key of a trigger's metadata that names the external scaler.
	ScalerAddressKey = "scalerAddress"
	// TypeKey marks a trigger of type ExternalPush that was KedifyHTTP: it has that value.
	TypeKey = "triggerType"
)

// IsKedifyHTTP tells whether a trigger is KedifyHTTP, as a user wrote it or as the webhook
// has changed it.
func (t Trigger) IsKedifyHTTP() bool {
	return t.Type == KedifyHTTP || t.Type == ExternalPush && t.Metadata[TypeKey] == KedifyHTTP
}
