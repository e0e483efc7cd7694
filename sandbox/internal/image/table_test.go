package image

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	tests := map[string]struct {
		want    Reference
		wantErr string
	}{
		"argoproj/rollouts-demo:blue":           {want: Reference{Repository: "argoproj/rollouts-demo", Tag: "blue"}},
		"docker.io/argoproj/rollouts-demo:blue": {want: Reference{Repository: "argoproj/rollouts-demo", Tag: "blue"}},
		"index.docker.io/library/nginx":         {want: Reference{Repository: "nginx", Tag: "latest"}},
		"docker.io/library/nginx:1":             {want: Reference{Repository: "nginx", Tag: "1"}},
		"library/nginx":                         {want: Reference{Repository: "nginx", Tag: "latest"}},
		"localhost:5000/a/b":                    {want: Reference{Repository: "localhost:5000/a/b", Tag: "latest"}},
		"localhost:5000/a/b:x@sha256:00":        {want: Reference{Repository: "localhost:5000/a/b", Tag: "x", Digest: "sha256:00"}},
		"quay.io/argoproj/argo-rollouts@sha256:ab": {want: Reference{
			Repository: "quay.io/argoproj/argo-rollouts", Tag: "latest", Digest: "sha256:ab"}},
		"":              {wantErr: "not a repository name"},
		"Upper/case":    {wantErr: "not a repository name"},
		"a/b:":          {wantErr: "tag after the colon is empty"},
		"a/b@nothing":   {wantErr: "not of the form"},
		"with space:v1": {wantErr: "not a repository name"},
	}
	for ref, tt := range tests {
		t.Run(ref, func(t *testing.T) {
			got, err := Parse(ref)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("Parse(%q) = %v, %v; want an error with %q", ref, got, err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Parse(%q) (-want +got):\n%s", ref, diff)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"a", "a:b", "docker.io/library/a:b@sha256:c", "h:1/a", ":", "@", "/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ref, err := Parse(s)
		if err != nil {
			return
		}
		again, err := Parse(ref.String())
		if err != nil || again.Tag != ref.Tag || again.Digest != ref.Digest {
			t.Errorf("Parse(%q) = %#v; parsed again: %#v, %v", s, ref, again, err)
		}
	})
}

func TestResolveIDs(t *testing.T) {
	var table Table
	for _, tag := range []string{"slow-*", "*"} {
		err := table.Add(Entry{
			Repository: "a/b", Tag: tag, Values: []string{"blue", "red"},
			Image: Image{Files: map[string]string{"/p": "/p"}, Entrypoint: []string{"/p"}, Env: []string{"COLOR={*}"}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	ids := map[string]string{}
	for _, ref := range []string{"a/b:blue", "a/b:slow-blue", "a/b:red"} {
		image, err := table.Resolve(ref)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := ids[image.ID]; ok {
			t.Errorf("%s and %s have the same ID %s", ref, other, image.ID)
		}
		ids[image.ID] = ref
		again, err := table.Resolve("docker.io/" + ref)
		if err != nil || again.ID != image.ID {
			t.Errorf("docker.io/%s: ID %s, %v; want %s", ref, again.ID, err, image.ID)
		}
	}
}

// An image that is built on another one has the files of both, and takes from the
// base what it does not set itself; the base stays as it is.
func TestFrom(t *testing.T) {
	var table Table
	base := Image{Files: map[string]string{"/b": "/base", "/both": "/base"}, Entrypoint: []string{"/b"}, Args: []string{"-v"}, Env: []string{"A=1"}, WorkDir: "/home", Dirs: []string{"/tmp"}}
	for _, e := range []Entry{
		{Repository: "a/base", Tag: "*", Image: base},
		{Repository: "a/more", Tag: "1", From: "a/base:7", Image: Image{Files: map[string]string{"/m": "/more", "/both": "/more"}, Env: []string{"B=2"}, Dirs: []string{"/m.d"}}},
		{Repository: "a/other", Tag: "1", From: "a/base", Image: Image{Files: map[string]string{"/o": "/other"}, Entrypoint: []string{"/o"}, WorkDir: "/o.d"}},
	} {
		if err := table.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	for ref, want := range map[string]Image{
		"a/base:7":  base,
		"a/more:1":  {Files: map[string]string{"/b": "/base", "/m": "/more", "/both": "/more"}, Entrypoint: []string{"/b"}, Args: []string{"-v"}, Env: []string{"A=1", "B=2"}, WorkDir: "/home", Dirs: []string{"/tmp", "/m.d"}},
		"a/other:1": {Files: map[string]string{"/b": "/base", "/both": "/base", "/o": "/other"}, Entrypoint: []string{"/o"}, Args: []string{}, Env: []string{"A=1"}, WorkDir: "/o.d", Dirs: []string{"/tmp"}},
	} {
		got, err := table.Resolve(ref)
		if err != nil {
			t.Fatal(err)
		}
		if got.Name != ref || !strings.HasPrefix(got.ID, strings.Split(ref, ":")[0]+"@") {
			t.Errorf("%s: name %s, ID %s", ref, got.Name, got.ID)
		}
		got.Name, got.ID = "", ""
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", ref, diff)
		}
	}
	if err := table.Add(Entry{Repository: "a/late", Tag: "1", From: "a/later"}); !IsUnknown(errors.Unwrap(err)) {
		t.Errorf("Add = %v, want an unknown image", err)
	}
}

func TestAdd(t *testing.T) {
	good := Entry{
		Repository: "ghcr.io/kedify/argo-rollouts-plugin",
		Tag:        "dev",
		Image:      Image{Files: map[string]string{"/plugin": "/work/plugin"}, Entrypoint: []string{"/plugin"}},
	}
	var table Table
	if err := table.Add(good); err != nil {
		t.Fatal(err)
	}
	if got, err := table.Resolve("ghcr.io/kedify/argo-rollouts-plugin:dev"); err != nil || got.Files["/plugin"] != "/work/plugin" {
		t.Errorf("Resolve = %+v, %v", got, err)
	}
	bad := map[string]func(*Entry){
		"write it as":             func(e *Entry) { e.Repository = "docker.io/a/b" },
		"one '*'":                 func(e *Entry) { e.Tag = "*-*" },
		"entrypoint is empty":     func(e *Entry) { e.Image.Entrypoint = nil },
		"none of the image":       func(e *Entry) { e.Image.Entrypoint = []string{"/other"} },
		"both paths must be abso": func(e *Entry) { e.Image.Files = map[string]string{"/plugin": "plugin"} },
	}
	for want, change := range bad {
		e := good
		change(&e)
		if err := table.Add(e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Add = %v, want an error with %q", err, want)
		}
	}
}
