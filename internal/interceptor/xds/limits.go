package xds

import "github.com/kedify/argo-rollouts-plugin/internal/interceptor/usage"

// Limits returns how near the Server is to its limits.
func (s *Server) Limits() []usage.Limit {
	return s.streamLimit.Usage("xds-max-streams", "xds-max-concurrent-streams")
}
