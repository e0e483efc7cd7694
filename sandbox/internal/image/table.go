// Package image says which program on this machine runs in place of a container
// image. The sandbox pulls nothing: its images are the entries of a table.
package image

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Image is what a container gets from its image.
type Image struct {
	// Name is the normalised reference this image was resolved from.
	Name string
	// ID identifies the content of the image, in the form a container's status
	// carries it.
	ID string
	// Files maps absolute paths in the container to files on this machine,
	// mounted read-only.
	Files map[string]string
	// Entrypoint is the command a container runs unless it sets its own;
	// its first element is a key of Files.
	Entrypoint []string
	// Args follow Entrypoint unless the container sets command or args.
	Args []string
	// Env holds NAME=value; a container's own variables win.
	Env []string
	// WorkDir is the working directory unless the container sets its own; it is
	// created. Empty means "/".
	WorkDir string
	// Dirs are further directories to create, writable unless the container
	// asks for a read-only root file system.
	Dirs []string
}

// Entry is one line of the table: the references it answers and the image they
// stand for.
type Entry struct {
	// Repository as Parse normalises it, such as "argoproj/rollouts-demo".
	Repository string
	// Tag is a tag, or a pattern with one '*' that stands for any text
	// or, if Values is set, for one of Values.
	Tag string
	// Values are the only texts the '*' of Tag may stand for; empty allows any.
	Values []string
	// From is a reference that an earlier entry answers. This image is built on that
	// entry's, as with a Dockerfile's FROM: its Files, Env and Dirs are added to
	// those of the base, and other fields that are left empty are as in the base.
	From string
	// Image is what the references stand for. In Args and Env, "{*}" is
	// replaced by the text that the '*' of Tag stood for. Name and ID are
	// filled in by Resolve.
	Image Image
}

// Program is the image of one program, at a path in the container, with any tag.
func Program(repository, path, program string) Entry {
	return Entry{Repository: repository, Tag: "*", Image: Image{Files: map[string]string{path: program}, Entrypoint: []string{path}}}
}

// Table maps image references to images. The zero value knows none. Earlier entries
// win. Call Add before the table is shared: it is not safe for concurrent change.
type Table struct {
	entries []Entry
}

// UnknownImageError says that the table has no entry for an image.
type UnknownImageError struct {
	// Image is the reference as it was asked for.
	Image string
	// Known lists what the table has, as Table.Known does.
	Known []string
}

// Error names the image and the known ones.
func (e *UnknownImageError) Error() string {
	return fmt.Sprintf("image %q is not known to the sandbox, which pulls nothing and runs programs of this machine; known images: %s",
		e.Image, strings.Join(e.Known, ", "))
}

// Add appends an entry. The error names the field that is wrong.
func (t *Table) Add(e Entry) error {
	ref, err := Parse(e.Repository)
	if err != nil {
		return fmt.Errorf("image table: repository: %w", err)
	}
	if ref.Repository != e.Repository {
		return fmt.Errorf("image table: repository %q: write it as %q, without tag and digest", e.Repository, ref.Repository)
	}
	if e.Tag == "" || strings.Count(e.Tag, "*") > 1 {
		return fmt.Errorf("image table: %s: tag %q: expected a tag, or a pattern with one '*'", e.Repository, e.Tag)
	}
	if e.From != "" {
		base, err := t.Resolve(e.From)
		if err != nil {
			return fmt.Errorf("image table: %s:%s: from: %w", e.Repository, e.Tag, err)
		}
		e.Image = on(base, e.Image)
	}
	if len(e.Image.Entrypoint) == 0 {
		return fmt.Errorf("image table: %s:%s: the entrypoint is empty", e.Repository, e.Tag)
	}
	if _, ok := e.Image.Files[e.Image.Entrypoint[0]]; !ok {
		return fmt.Errorf("image table: %s:%s: entrypoint %q is none of the image's files", e.Repository, e.Tag, e.Image.Entrypoint[0])
	}
	for inside, outside := range e.Image.Files {
		if !path.IsAbs(inside) || !filepath.IsAbs(outside) {
			return fmt.Errorf("image table: %s:%s: file %q from %q: both paths must be absolute", e.Repository, e.Tag, inside, outside)
		}
	}
	t.entries = append(t.entries, e)
	return nil
}

// on returns an image that is built on another one.
func on(base, image Image) Image {
	maps.Copy(base.Files, image.Files)
	if len(image.Entrypoint) > 0 {
		base.Entrypoint, base.Args = image.Entrypoint, image.Args
	}
	base.Env = append(base.Env, image.Env...)
	if image.WorkDir != "" {
		base.WorkDir = image.WorkDir
	}
	base.Dirs = append(base.Dirs, image.Dirs...)
	return base
}

// Known lists the images of the table, patterns as they are, sorted.
func (t Table) Known() []string {
	var known []string
	for _, e := range t.entries {
		if len(e.Values) == 0 {
			known = append(known, e.Repository+":"+e.Tag)
			continue
		}
		known = append(known, e.Repository+":"+strings.Replace(e.Tag, "*", "{"+strings.Join(e.Values, "|")+"}", 1))
	}
	slices.Sort(known)
	return slices.Compact(known)
}

// Resolve finds the image that a reference stands for. The error is an
// *UnknownImageError if there is none, another one if ref is no reference.
// A digest is accepted and ignored: there is one content per tag here.
func (t Table) Resolve(ref string) (Image, error) {
	parsed, err := Parse(ref)
	if err != nil {
		return Image{}, err
	}
	for _, e := range t.entries {
		if e.Repository != parsed.Repository {
			continue
		}
		text, ok := match(e, parsed.Tag)
		if !ok {
			continue
		}
		image := e.Image
		image.Name = parsed.Repository + ":" + parsed.Tag
		image.Files = maps.Clone(e.Image.Files)
		image.Entrypoint = slices.Clone(e.Image.Entrypoint)
		image.Args = substitute(e.Image.Args, text)
		image.Env = substitute(e.Image.Env, text)
		image.Dirs = slices.Clone(e.Image.Dirs)
		image.ID = id(image)
		return image, nil
	}
	return Image{}, &UnknownImageError{Image: ref, Known: t.Known()}
}

// IsUnknown reports whether err says that the table has no such image.
func IsUnknown(err error) bool {
	var unknown *UnknownImageError
	return errors.As(err, &unknown)
}

func match(e Entry, tag string) (text string, ok bool) {
	before, after, pattern := strings.Cut(e.Tag, "*")
	if !pattern {
		return "", e.Tag == tag
	}
	if len(tag) < len(before)+len(after) || !strings.HasPrefix(tag, before) || !strings.HasSuffix(tag, after) {
		return "", false
	}
	text = tag[len(before) : len(tag)-len(after)]
	return text, len(e.Values) == 0 || slices.Contains(e.Values, text)
}

func substitute(list []string, text string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = strings.ReplaceAll(s, "{*}", text)
	}
	return out
}

// id derives the image's ID from everything that makes two images behave
// differently, not from the bytes of its programs: those can be large, and they
// do not change while a sandbox is up.
func id(image Image) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%q\n%q\n%q\n%q\n", image.Name, image.Entrypoint, image.Args, image.Env, image.WorkDir)
	for _, inside := range slices.Sorted(maps.Keys(image.Files)) {
		fmt.Fprintf(h, "%q %q\n", inside, image.Files[inside])
	}
	repository, _, _ := strings.Cut(image.Name, ":")
	return repository + "@sha256:" + hex.EncodeToString(h.Sum(nil))
}
