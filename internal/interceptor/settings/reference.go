package settings

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// Reference returns the table of flags and variables in docs/reference/settings.md.
func Reference() string {
	text := strings.Builder{}
	text.WriteString("| flag | default | environment | expected | |\n|---|---|---|---|---|\n")
	for _, r := range defaults() {
		if r.noEffect == "" {
			fmt.Fprintf(&text, "| %s | %s | %s | %s | %s |\n", code("--", r.flag), code("", r.newFlag().DefValue), code("", r.variable), r.accepted(), r.usage)
		}
	}
	return text.String()
}

// ReferenceWithoutEffect returns the table of the flags and variables without effect in
// docs/reference/settings.md.
func ReferenceWithoutEffect() string {
	text := strings.Builder{}
	text.WriteString("| without effect | why |\n|---|---|\n")
	for _, r := range defaults() {
		if r.noEffect != "" {
			fmt.Fprintf(&text, "| %s | %s |\n", cmp.Or(code("", r.variable), code("--", r.flag)), r.noEffect)
		}
	}
	return text.String()
}

// defaults returns the table with the defaults.
func defaults() []row {
	s, err := New(pflag.NewFlagSet("", pflag.ContinueOnError), func(string) (string, bool) { return "", false })
	if err != nil {
		panic(err) // no variable is set
	}
	return s.rows()
}

func code(prefix, text string) string {
	if text == "" {
		return ""
	}
	return "`" + prefix + text + "`"
}
