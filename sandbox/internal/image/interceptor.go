package image

// Interceptor is the entry of the interceptor's image, which holds nothing but
// the program, whose absolute path is given.
func Interceptor(interceptor string) Entry {
	const program = "/interceptor"
	return Entry{
		Repository: "ghcr.io/kedify/argo-rollouts-interceptor",
		Tag:        "dev",
		Image:      Image{Files: map[string]string{program: interceptor}, Entrypoint: []string{program}},
	}
}
