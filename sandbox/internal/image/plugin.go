package image

// Plugin is the entry of the image that `make docker-build` makes: the plugin,
// and a cp for the init container that copies it out.
// plugin is the path of the plugin, copier that of a static program which is cp
// when it is called by that name, as the sandbox command is; both must be
// absolute.
func Plugin(plugin, copier string) Entry {
	const program = "/rollouts-plugin-kedify"
	return Entry{
		Repository: "ghcr.io/kedify/argo-rollouts-plugin",
		Tag:        "dev",
		Image: Image{
			Files:      map[string]string{program: plugin, "/bin/cp": copier},
			Entrypoint: []string{program},
		},
	}
}
