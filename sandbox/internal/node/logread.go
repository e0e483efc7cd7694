package node

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// logOptions say which part of a log to show, as PodLogOptions do.
type logOptions struct {
	follow     bool
	timestamps bool
	since      time.Time // zero: from the beginning
	tailLines  int64     // negative: all
	limitBytes int64     // negative: no limit
	stream     string    // "stdout", "stderr" or, for both, ""
}

// errLimit says that limitBytes have been written.
var errLimit = errors.New("the limit of bytes is reached")

// copyLog writes the log at path to w, and flushes after each batch. live is the
// log of a container that may still write, or nil.
func copyLog(ctx context.Context, w io.Writer, flush func(), path string, live *logFile, opts logOptions) error {
	out := &logWriter{w: w, opts: opts, left: opts.limitBytes}
	err := followLog(ctx, out, flush, path, live, opts)
	if errors.Is(err, errLimit) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func followLog(ctx context.Context, out *logWriter, flush func(), path string, live *logFile, opts logOptions) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("container log: %w", err)
	}
	defer func() { _ = file.Close() }()
	if err := copyEarlier(out, path, file, opts); err != nil {
		return err
	}
	reader := bufio.NewReader(file)
	var line []byte
	for {
		// Taken before reading, so that a change during the read is not missed.
		ended, changed := true, (<-chan struct{})(nil)
		if live != nil {
			ended, changed = live.state()
		}
		for {
			part, err := reader.ReadBytes('\n')
			line = append(line, part...)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return fmt.Errorf("container log: %w", err)
			}
			if err := out.line(line); err != nil {
				return err
			}
			line = line[:0]
		}
		flush()
		if next, ok := reopened(path, file); ok {
			_ = file.Close()
			file, line = next, line[:0]
			reader.Reset(file)
			continue
		}
		if !opts.follow || ended {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// copyEarlier writes the log put aside by rotation. It starts where the last
// opts.tailLines begin, in that log or in file.
func copyEarlier(out *logWriter, path string, file *os.File, opts logOptions) error {
	earlier, err := os.Open(path + ".1")
	if err == nil {
		defer func() { _ = earlier.Close() }()
	} else if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("container log: %w", err)
	}
	if opts.tailLines >= 0 {
		missing, err := seekTail(file, opts.tailLines)
		if err != nil {
			return fmt.Errorf("container log: %w", err)
		}
		if missing == 0 || earlier == nil {
			return nil
		}
		if _, err := seekTail(earlier, missing); err != nil {
			return fmt.Errorf("container log: %w", err)
		}
	}
	if earlier == nil {
		return nil
	}
	reader := bufio.NewReader(earlier)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("container log: %w", err)
		}
		if err := out.line(line); err != nil {
			return err
		}
	}
}

// reopened opens path if file is no longer the one at path.
func reopened(path string, file *os.File) (*os.File, bool) {
	now, err := os.Stat(path)
	if err != nil {
		return nil, false
	}
	was, err := file.Stat()
	if err != nil || os.SameFile(now, was) {
		return nil, false
	}
	next, err := os.Open(path)
	return next, err == nil
}

// seekTail moves file to the start of its last n lines and returns how many of them
// are missing.
func seekTail(file *os.File, n int64) (missing int64, err error) {
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, nil
	}
	buffer := make([]byte, 32<<10)
	for at := end; at > 0; {
		size := min(at, int64(len(buffer)))
		at -= size
		if _, err := file.ReadAt(buffer[:size], at); err != nil {
			return 0, err
		}
		for i := size - 1; i >= 0; i-- {
			// The newline at the very end does not begin a line.
			if buffer[i] != '\n' || at+i == end-1 {
				continue
			}
			if n--; n == 0 {
				_, err := file.Seek(at+i+1, io.SeekStart)
				return 0, err
			}
		}
	}
	if end > 0 {
		n-- // The first line has no newline before it.
	}
	_, err = file.Seek(0, io.SeekStart)
	return n, err
}

// logWriter writes the lines of a log file as a reader wants to see them.
type logWriter struct {
	w    io.Writer
	opts logOptions
	left int64 // bytes still allowed; negative: no limit
	// within says, by stream, that the container's last line is not complete yet.
	within map[string]bool
}

func (o *logWriter) line(raw []byte) error {
	l, err := parseLogLine(raw)
	if err != nil {
		// Half a line after a crash, for example; the lines after it are still
		// wanted.
		return nil
	}
	if l.time.Before(o.opts.since) || o.opts.stream != "" && o.opts.stream != l.stream {
		return nil
	}
	if o.within == nil {
		o.within = map[string]bool{}
	}
	var b bytes.Buffer
	if o.opts.timestamps && !o.within[l.stream] {
		b.WriteString(l.time.UTC().Format(time.RFC3339Nano))
		b.WriteByte(' ')
	}
	b.Write(l.text)
	if !l.partial {
		b.WriteByte('\n')
	}
	o.within[l.stream] = l.partial
	data := b.Bytes()
	if o.left >= 0 {
		data = data[:min(int64(len(data)), o.left)]
		o.left -= int64(len(data))
	}
	if _, err := o.w.Write(data); err != nil {
		return fmt.Errorf("container log: write: %w", err)
	}
	if o.left == 0 {
		return errLimit
	}
	return nil
}
