package proxy

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// ReadEnvironment reads the environment variables that users of KEDA's and Kedify's
// charts set, as far as there is an equivalent setting; lookup is os.LookupEnv. An
// empty variable counts as not set. If a value is invalid, its setting stays as it was,
// and the error names the variable.
func (s *Settings) ReadEnvironment(lookup func(string) (string, bool)) error {
	var wrong []error
	for _, v := range []struct {
		name string
		into *time.Duration
	}{
		{"KEDA_HTTP_CONNECT_TIMEOUT", &s.ConnectTimeout},
		{"KEDA_HTTP_KEEP_ALIVE", &s.KeepAlive},
		{"KEDA_RESPONSE_HEADER_TIMEOUT", &s.ResponseHeader},
		{"KEDA_CONDITION_WAIT_TIMEOUT", &s.ConditionWait},
		{"KEDA_HTTP_IDLE_CONN_TIMEOUT", &s.IdleConnTimeout},
		{"KEDA_HTTP_EXPECT_CONTINUE_TIMEOUT", &s.ExpectContinue},
	} {
		text, _ := lookup(v.name)
		if text == "" {
			continue
		}
		duration, err := time.ParseDuration(text)
		if err != nil || duration < 0 {
			wrong = append(wrong, fmt.Errorf("environment variable %s is %q; expected a duration such as 500ms or 20s", v.name, text))
			continue
		}
		*v.into = duration
	}
	const maxIdle = "KEDA_HTTP_MAX_IDLE_CONNS"
	if text, _ := lookup(maxIdle); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			wrong = append(wrong, fmt.Errorf("environment variable %s is %q; expected a number of connections, or 0 for any number", maxIdle, text))
		} else {
			s.MaxIdleConns = n
		}
	}
	return errors.Join(wrong...)
}
