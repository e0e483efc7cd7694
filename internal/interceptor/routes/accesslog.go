package routes

// AccessLogAnnotation has both proxies log the requests of an HTTPScaledObject when their
// access log is for annotated objects; only the value "true" does.
const AccessLogAnnotation = "http.kedify.io/access-log"

// Which requests an access log has.
const (
	// AccessLogOff is for none.
	AccessLogOff = "off"
	// AccessLogAnnotated is for those of objects with AccessLogAnnotation.
	AccessLogAnnotated = "annotated"
	// AccessLogAll is for all, also those that no object is for.
	AccessLogAll = "all"
)

// The formats of an access log.
const (
	AccessLogJSON = "json"
	AccessLogText = "text"
)

func wantsAccessLog(annotations map[string]string) bool {
	return annotations[AccessLogAnnotation] == "true"
}
