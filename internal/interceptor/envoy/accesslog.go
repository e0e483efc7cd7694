package envoy

import (
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	celv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/filters/cel/v3"
	streamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stream/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// accessLogFields are the fields of a line: the same as in the embedded proxy's access
// log, which has an object and a service instead of a cluster. The client chooses the
// quoted ones; Envoy takes no control characters in them.
var accessLogFields = []struct {
	name, operator string
	quoted         bool
}{
	{"time", "%START_TIME%", false},
	{"request_id", "%REQ(X-REQUEST-ID):128%", true},
	{"cluster", "%UPSTREAM_CLUSTER%", false},
	{"endpoint", "%UPSTREAM_HOST%", false},
	{"method", "%REQ(:METHOD):32%", true},
	{"host", "%REQ(:AUTHORITY):255%", true},
	{"path", "%PATH(NQ:PATH):1024%", true},
	{"code", "%RESPONSE_CODE%", false},
	{"bytes", "%BYTES_SENT%", false},
	{"duration_ms", "%DURATION%", false},
	{"header_ms", "%RESPONSE_DURATION%", false},
	{"flags", "%RESPONSE_FLAGS%", false},
}

// accessLogMetadata marks the routes of annotated objects.
var accessLogMetadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
	StatPrefix: {Fields: map[string]*structpb.Value{"access_log": structpb.NewBoolValue(true)}},
}}

// isAnnotated is true for requests of a route with accessLogMetadata. For others there is
// no such metadata, and Envoy takes the error for false.
const isAnnotated = `xds.route_metadata.filter_metadata["` + StatPrefix + `"]["access_log"] == true`

// accessLogs returns the access log of the listeners, to Envoy's standard output.
func (t *Translator) accessLogs() []*accesslogv3.AccessLog {
	log := &accesslogv3.AccessLog{Name: "envoy.access_loggers.stdout", ConfigType: &accesslogv3.AccessLog_TypedConfig{
		TypedConfig: packed(&streamv3.StdoutAccessLog{AccessLogFormat: &streamv3.StdoutAccessLog_LogFormat{
			LogFormat: accessLogFormat(t.options.AccessLogFormat),
		}}),
	}}
	switch t.options.AccessLog {
	case routes.AccessLogAll:
	case routes.AccessLogAnnotated:
		log.Filter = where(isAnnotated)
	default:
		return nil
	}
	return []*accesslogv3.AccessLog{log}
}

func accessLogFormat(format string) *corev3.SubstitutionFormatString {
	if format == routes.AccessLogText {
		line, separator := "", ""
		for _, field := range accessLogFields {
			quote := ""
			if field.quoted {
				quote = `"`
			}
			line += separator + field.name + "=" + quote + field.operator + quote
			separator = " "
		}
		return &corev3.SubstitutionFormatString{Format: &corev3.SubstitutionFormatString_TextFormatSource{
			TextFormatSource: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: line + "\n"}},
		}}
	}
	object := &structpb.Struct{Fields: make(map[string]*structpb.Value)}
	for _, field := range accessLogFields {
		object.Fields[field.name] = structpb.NewStringValue(field.operator)
	}
	return &corev3.SubstitutionFormatString{Format: &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: object}}
}

// where matches what a CEL expression is true for.
func where(expression string) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ExtensionFilter{
		ExtensionFilter: &accesslogv3.ExtensionFilter{
			Name:       "envoy.access_loggers.extension_filters.cel",
			ConfigType: &accesslogv3.ExtensionFilter_TypedConfig{TypedConfig: packed(&celv3.ExpressionFilter{Expression: expression})},
		},
	}}
}
