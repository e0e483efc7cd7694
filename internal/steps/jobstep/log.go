package jobstep

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/bound"
)

const (
	// logRead bounds how much of a log is read, in bytes.
	logRead    = 256 << 10
	logTimeout = 5 * time.Second
)

// room is how many bytes a message may have before the log lines (head), and of them (tail).
type room struct{ head, tail int }

// A step's message has 2 KiB, an Event's 1 KiB, and package steps adds some words to both.
var (
	inStatus = room{512, 1400}
	inEvent  = room{300, 400}
)

// withLog adds the last lines of a container's log to a message.
func (s *step) withLog(ctx context.Context, work steps.Work, c *container, message string, limit room) string {
	message = bound.Shorten(message, limit.head)
	lines := int(*cmp.Or(s.config.LogLines, new(int32(defaultLogLines))))
	if c == nil || lines == 0 {
		return message
	}
	ctx, cancel := context.WithTimeout(ctx, s.kind.logTimeout)
	defer cancel()
	text, err := s.kind.jobs.Objects.Log(ctx, work.Rollout.Namespace, c.pod, c.name, lines, logRead)
	tail := tailOf(string(text), lines, limit.tail)
	switch {
	case tail != "":
		return fmt.Sprintf("%s; the last lines of the log of container %s:\n%s", message, c.name, tail)
	case c.message != "":
		return fmt.Sprintf("%s; container %s has left the message:\n%s", message, c.name, tailOf(c.message, lines, limit.tail))
	case err != nil:
		return message + "; its log cannot be read: " + bound.Shorten(err.Error(), limit.head)
	default:
		return message + "; it has logged nothing"
	}
}

// lineEnds replaces the line ends of Windows, and those of progress bars, which rewrite a
// line.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// unprintable matches terminal escape sequences, control characters and changes of the
// writing direction.
var unprintable = regexp.MustCompile(`\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f\x{80}-\x{9f}\x{202a}-\x{202e}\x{2066}-\x{2069}]`)

// tailOf returns the last lines of a text, as many as fit a limit in bytes, without
// control characters. If the last line does not fit, it returns the end of that line.
func tailOf(text string, lines, limit int) string {
	text = unprintable.ReplaceAllString(lineEnds.Replace(strings.ToValidUTF8(text, "�")), "")
	all := strings.Split(strings.Trim(text, "\n"), "\n")
	all = all[max(len(all)-lines, 0):]
	tail := ""
	for i := len(all) - 1; i >= 0; i-- {
		longer := all[i]
		if tail != "" {
			longer += "\n" + tail
		}
		if len(longer) > limit {
			if tail == "" {
				return "…" + strings.ToValidUTF8(all[i][len(all[i])-limit+len("…"):], "")
			}
			return tail
		}
		tail = longer
	}
	return tail
}
