package node

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// maxLogFile is the size, in bytes, at which a log file is rotated to ".1"; an
// earlier ".1" is dropped.
const maxLogFile = 16 << 20

// logFile is the log of one run of a container. Its methods may be called from
// several goroutines.
type logFile struct {
	log  *slog.Logger
	path string

	mu      sync.Mutex
	file    *os.File
	size    int64
	scratch []byte
	failed  bool
	ended   bool
	// changed is closed, and replaced, whenever there is more to read.
	changed chan struct{}

	readers sync.WaitGroup
}

func createLogFile(path string, log *slog.Logger) (*logFile, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("container log: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o640)
	if err != nil {
		return nil, fmt.Errorf("container log: %w", err)
	}
	return &logFile{log: log, path: path, file: file, changed: make(chan struct{})}, nil
}

// pipe returns the end of a pipe that a process writes a stream to. The output is
// in the log once drain has returned, or later if other processes hold that end,
// too.
func (f *logFile) pipe(stream string) (*os.File, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("container log: %w", err)
	}
	f.readers.Go(func() { f.copy(read, stream) })
	return write, nil
}

// drain waits until all writers have closed their ends, at most d: processes that
// a container left behind may hold theirs for long.
func (f *logFile) drain(d time.Duration) { waitTimeout(&f.readers, d) }

// end marks the run as over: readers that follow the log stop at its end. Output of
// processes left behind is still written.
func (f *logFile) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	f.notify()
	go func() {
		f.readers.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		_ = f.file.Close()
	}()
}

// state returns whether the run is over, and a channel that is closed at the next
// change.
func (f *logFile) state() (ended bool, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended, f.changed
}

func (f *logFile) notify() {
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *logFile) copy(read *os.File, stream string) {
	defer func() { _ = read.Close() }()
	splitter := lineSplitter{stream: stream}
	buffer := make([]byte, 32<<10)
	for {
		n, err := read.Read(buffer)
		f.write(func(emit func(logLine)) {
			now := time.Now()
			splitter.add(buffer[:n], now, emit)
			if err != nil {
				splitter.flush(now, emit)
			}
		})
		if err != nil {
			if !errors.Is(err, io.EOF) {
				f.log.Error("read a container's output", "log", f.path, "err", err)
			}
			return
		}
	}
}

// write puts the lines that fill emits into the file, in one write.
func (f *logFile) write(fill func(emit func(logLine))) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.scratch = f.scratch[:0]
	fill(func(l logLine) { f.scratch = l.append(f.scratch) })
	if len(f.scratch) == 0 {
		return
	}
	if f.size+int64(len(f.scratch)) > maxLogFile && f.size > 0 {
		f.rotate()
	}
	n, err := f.file.Write(f.scratch)
	f.size += int64(n)
	if err != nil && !f.failed {
		// Reported once: a full disk would cause it for every line. The container
		// goes on.
		f.failed = true
		f.log.Error("write a container's log; its output is lost", "log", f.path, "err", err)
	}
	f.notify()
}

func (f *logFile) rotate() {
	if err := os.Rename(f.path, f.path+".1"); err != nil {
		f.log.Error("rotate a container's log", "log", f.path, "err", err)
		return
	}
	file, err := os.OpenFile(f.path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o640)
	if err != nil {
		f.log.Error("rotate a container's log", "log", f.path, "err", err)
		return
	}
	_ = f.file.Close()
	f.file, f.size = file, 0
}
