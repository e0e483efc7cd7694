package presetsource

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/hashicorp/go-hclog"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// maxSize bounds a file, in bytes; a ConfigMap is bounded by the API server.
const maxSize = 1 << 20

// File is a preset in a file.
type File struct {
	path string
	kept kept
}

// NewFile returns the preset of a file, which is read at each call: a change takes effect at
// the next call.
func NewFile(path string, logger hclog.Logger) *File {
	return &File{path: path, kept: kept{where: "preset " + path, logger: logger}}
}

// Preset returns the preset as it is now. While the file cannot be read, it returns the
// preset that was last read.
func (f *File) Preset(context.Context) (*steps.Preset, error) {
	text, err := readFile(f.path)
	if err != nil {
		return f.kept.unread(fmt.Errorf("preset %s cannot be read: %w", f.path, err))
	}
	return f.kept.take(string(text))
}

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	if err == nil && len(text) > maxSize {
		err = fmt.Errorf("it has more than %d bytes", maxSize)
	}
	return text, err
}
