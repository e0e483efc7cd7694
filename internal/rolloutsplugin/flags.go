package rolloutsplugin

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Flags are the flags that every plugin has.
type Flags struct {
	LogLevel, LogFormat string
	// WatchNamespace is the one namespace to watch; all of them when it is empty.
	WatchNamespace string
}

// AddTo adds the flags, with their defaults.
func (f *Flags) AddTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.LogLevel, "log-level", "info", "least level logged: trace, debug, info, warn or error")
	flags.StringVar(&f.LogFormat, "log-format", "json", "json or text; the controller keeps the level of lines in json, and not of lines in text")
	flags.StringVar(&f.WatchNamespace, "watch-namespace", "", "the one namespace to watch, for a controller with rights in one namespace alone (default: all)")
}

// Validate returns what is wrong with the flags.
func (f *Flags) Validate() error {
	if err := checkLog(f.LogLevel, f.LogFormat); err != nil {
		return err
	}
	if problems := validation.IsDNS1123Label(f.WatchNamespace); f.WatchNamespace != "" && len(problems) > 0 {
		return fmt.Errorf("--watch-namespace %q: want the name of one namespace: %s", f.WatchNamespace, strings.Join(problems, "; "))
	}
	return nil
}
