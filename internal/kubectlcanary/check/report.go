package check

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Status is the verdict of one check.
type Status int

// The verdicts, from good to bad.
const (
	// OK means that what was looked at is as it should be.
	OK Status = iota
	// Warning means that a canary can work, but that something is at odds, or
	// that it could not be looked at.
	Warning
	// Failure means that a canary does not work until it is put right.
	Failure
)

// String returns the word of the JSON form: "ok", "warning" or "failure".
func (s Status) String() string {
	switch s {
	case OK:
		return "ok"
	case Warning:
		return "warning"
	default:
		return "failure"
	}
}

// MarshalText encodes the status as String does.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText decodes what MarshalText wrote.
func (s *Status) UnmarshalText(text []byte) error {
	for _, known := range []Status{OK, Warning, Failure} {
		if known.String() == string(text) {
			*s = known
			return nil
		}
	}
	return fmt.Errorf("status %q: want ok, warning or failure", text)
}

// mark returns the sign of the text form, and its colour.
func (s Status) mark() (sign, colour string) {
	switch s {
	case OK:
		return "✓", "\x1b[32m"
	case Warning:
		return "!", "\x1b[33m"
	default:
		return "✗", "\x1b[31m"
	}
}

// Result is what one check found at one object.
type Result struct {
	// Check is the stable, kebab-case name of the check, such as
	// "plugin-registered".
	Check string `json:"check"`
	// Status is the verdict.
	Status Status `json:"status"`
	// Rollout is "namespace/name" of the Rollout the result is about, or empty
	// for what concerns the installation.
	Rollout string `json:"rollout,omitempty"`
	// Object is what was looked at: "Kind namespace/name".
	Object string `json:"object"`
	// Message says what was found, on one line.
	Message string `json:"message"`
	// Remedy says what to do, on one line; empty when Status is OK.
	Remedy string `json:"remedy"`
	// Link is the address of the check's section of the docs' troubleshooting; empty when
	// Status is OK.
	Link string `json:"link,omitempty"`
}

// The check that makes a result is known where it is made: see checks.

func ok(object, message string) Result {
	return Result{Status: OK, Object: object, Message: oneLine(message)}
}

func warning(object, message, remedy string) Result {
	return Result{Status: Warning, Object: object, Message: oneLine(message), Remedy: oneLine(remedy)}
}

func failure(object, message, remedy string) Result {
	return Result{Status: Failure, Object: object, Message: oneLine(message), Remedy: oneLine(remedy)}
}

// count writes a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// oneLine keeps messages that quote others (YAML errors, log lines) on the one
// line that the text form gives them.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Report is the outcome of a check, in the order in which it was made.
type Report struct {
	Results []Result
}

var isRelease = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[a-z]+\.?\d+)?$`)

// addLinks gives each result that is not OK the link to its section, in the docs of the
// program's version if that is a release.
func (r Report) addLinks(version string) {
	tag := "main"
	if isRelease.MatchString(version) {
		tag = version
	}
	for i, result := range r.Results {
		if result.Status != OK {
			r.Results[i].Link = "https://github.com/kedify/argo-rollouts-plugin/blob/" + tag + "/docs/how-to/troubleshooting.md#" + result.Check
		}
	}
}

// Failed tells whether any result is a Failure.
func (r Report) Failed() bool { return r.count(Failure) > 0 }

func (r Report) count(s Status) int {
	n := 0
	for _, result := range r.Results {
		if result.Status == s {
			n++
		}
	}
	return n
}

// WriteJSON writes the report as one JSON object:
//
//	{"results": [{"check": "…", "status": "ok|warning|failure", "rollout": "ns/name",
//	  "object": "…", "message": "…", "remedy": "…", "link": "https://…"}], "failed": bool}
//
// "rollout" is left out of results about the installation, "link" of those that are ok. The
// names of keys, checks and statuses are stable; messages and remedies are not.
func (r Report) WriteJSON(w io.Writer) error {
	results := r.Results
	if results == nil {
		results = []Result{}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(struct {
		Results []Result `json:"results"`
		Failed  bool     `json:"failed"`
	}{results, r.Failed()})
}

// WriteText writes the report for a person: one line per result, its remedy and its link
// indented below it, a heading for the installation and for each Rollout, and
// the counts at the end. Signs are coloured only when w is a terminal and
// NO_COLOR is not set.
func (r Report) WriteText(w io.Writer) error {
	var b strings.Builder
	colours := coloured(w)
	width := 0
	for _, result := range r.Results {
		width = max(width, utf8.RuneCountInString(result.Check))
	}
	heading := ""
	for i, result := range r.Results {
		if h := result.heading(); h != heading || i == 0 {
			if i > 0 {
				b.WriteByte('\n')
			}
			heading = h
			fmt.Fprintln(&b, heading)
		}
		sign, colour := result.Status.mark()
		if colours {
			sign = colour + sign + "\x1b[0m"
		}
		fmt.Fprintf(&b, "%s %-*s  %s  %s\n", sign, width, result.Check, result.Object, result.Message)
		if result.Remedy != "" {
			fmt.Fprintf(&b, "  → %s\n", result.Remedy)
		}
		if result.Link != "" {
			fmt.Fprintf(&b, "    %s\n", result.Link)
		}
	}
	fmt.Fprintf(&b, "\n%d ✓  %d !  %d ✗\n", r.count(OK), r.count(Warning), r.count(Failure))
	_, err := io.WriteString(w, b.String())
	return err
}

func (r Result) heading() string {
	if r.Rollout == "" {
		return "Installation"
	}
	return "Rollout " + r.Rollout
}

func coloured(w io.Writer) bool {
	file, isFile := w.(*os.File)
	if !isFile || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
