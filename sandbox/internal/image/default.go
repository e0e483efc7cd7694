package image

import "path/filepath"

// Colours are the tags that argoproj/rollouts-demo is published under.
var Colours = []string{"blue", "green", "orange", "purple", "red", "yellow"}

const (
	demoRepository     = "argoproj/rollouts-demo"
	rolloutsRepository = "quay.io/argoproj/argo-rollouts"
)

// Default is the table of the images every sandbox knows: the demo application
// in all its colours, also slow (each answer takes two seconds) and bad (15 in
// a hundred requests fail), and the Argo Rollouts controller.
// binDir is the directory that holds rollouts-controller, demoBinary the path
// of rollouts-demo; both must be absolute.
func Default(binDir, demoBinary string) Table {
	demo := func(tag string, env ...string) Entry {
		return Entry{
			Repository: demoRepository,
			Tag:        tag,
			Values:     Colours,
			Image: Image{
				Files:      map[string]string{"/rollouts-demo": demoBinary},
				Entrypoint: []string{"/rollouts-demo"},
				Env:        append([]string{"COLOR={*}"}, env...),
			},
		}
	}
	return Table{entries: []Entry{
		demo("slow-*", "LATENCY=2"),
		demo("bad-*", "ERROR_RATE=15"),
		demo("*"),
		{
			Repository: rolloutsRepository,
			Tag:        "*",
			Image: Image{
				Files:      map[string]string{"/bin/rollouts-controller": filepath.Join(binDir, "rollouts-controller")},
				Entrypoint: []string{"/bin/rollouts-controller"},
				Env:        []string{"HOME=/home/argo-rollouts"},
				WorkDir:    "/home/argo-rollouts",
				Dirs:       []string{"/tmp"},
			},
		},
	}}
}
