package check

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"debug/macho"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The bounds of a download.
const (
	downloadTimeout = 2 * time.Minute
	downloadBytes   = 256 << 20
)

// downloaded is the outcome of fetching the plugin from where the controller
// does.
type downloaded struct {
	// local is true for a file:// location, which is on the controller's disk.
	local bool
	// headers is the Secret of headersFrom that could not be read, if any.
	headers *readError
	// err says why there is no sum; status is the HTTP status, 0 without one.
	err    error
	status string
	// sum is the sha256 in lower-case hexadecimal digits, size the length in bytes.
	sum  string
	size int64
	// binary is what the file's header says, nil when it is no program.
	binary *program
}

// program is what the header of a program says.
type program struct {
	platform platform
	// dynamic is true when it needs a loader, which the controller's image does
	// not have.
	dynamic bool
}

// gatherDownloads fetches the files of plugins, each once.
func gatherDownloads(ctx context.Context, c *cluster, controller controllerSnapshot, plugins []pluginSnapshot) {
	fetched := map[string]*downloaded{}
	for i := range plugins {
		p := &plugins[i]
		item := itemOf(controller, p.router)
		if item == nil {
			continue
		}
		from := fmt.Sprint(item.Location, item.HeadersFrom)
		if _, known := fetched[from]; !known {
			fetched[from] = gatherDownload(ctx, c, controller, p.router)
		}
		p.download = fetched[from]
	}
}

// gatherDownload fetches a plugin as the controller would: by its location,
// with the headers of its Secrets. Nil when there is nothing registered.
func gatherDownload(ctx context.Context, c *cluster, controller controllerSnapshot, of router) *downloaded {
	item := itemOf(controller, of)
	if item == nil {
		return nil
	}
	u, err := url.ParseRequestURI(item.Location)
	if err != nil {
		return nil
	}
	switch u.Scheme {
	case "http", "https":
	case "file":
		return &downloaded{local: true}
	default:
		return nil
	}
	header := http.Header{}
	for _, from := range item.HeadersFrom {
		secret := get[corev1.Secret](ctx, c, target{version: "v1", resource: "secrets", namespace: controller.configNamespace, name: from.SecretRef.Name})
		if secret.Err != nil {
			return &downloaded{headers: secret.Err}
		}
		for _, key := range slices.Sorted(maps.Keys(secret.Value.Data)) {
			header.Add(key, string(secret.Value.Data[key]))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	return fetch(ctx, u.String(), header)
}

// fetch gets a file and looks at it.
func fetch(ctx context.Context, location string, header http.Header) *downloaded {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, location, nil)
	if err != nil {
		return &downloaded{err: err}
	}
	request.Header = header
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return &downloaded{err: err}
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, downloadBytes+1))
	err = errors.Join(err, response.Body.Close())
	switch {
	// The controller takes anything below 400 for the file.
	case response.StatusCode >= http.StatusBadRequest:
		return &downloaded{status: response.Status, err: errors.New(response.Status)}
	case err != nil:
		return &downloaded{status: response.Status, err: err}
	case len(data) > downloadBytes:
		return &downloaded{status: response.Status, err: fmt.Errorf("larger than %d MiB", downloadBytes>>20)}
	}
	sum := sha256.Sum256(data)
	return &downloaded{status: response.Status, sum: hex.EncodeToString(sum[:]), size: int64(len(data)), binary: readBinary(data)}
}

// readBinary reads the header of an ELF or Mach-O program; nil for anything
// else.
func readBinary(data []byte) *program {
	if file, err := elf.NewFile(bytes.NewReader(data)); err == nil {
		arch, known := map[elf.Machine]string{
			elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64", elf.EM_ARM: "arm", elf.EM_386: "386",
			elf.EM_PPC64: "ppc64le", elf.EM_S390: "s390x", elf.EM_RISCV: "riscv64",
		}[file.Machine]
		if !known {
			arch = file.Machine.String()
		}
		system := "linux"
		if file.OSABI == elf.ELFOSABI_FREEBSD {
			system = "freebsd"
		}
		dynamic := slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
		return &program{platform{system, arch}, dynamic}
	}
	if file, err := macho.NewFile(bytes.NewReader(data)); err == nil {
		arch, known := map[macho.Cpu]string{macho.CpuAmd64: "amd64", macho.CpuArm64: "arm64"}[file.Cpu]
		if !known {
			arch = file.Cpu.String()
		}
		// A Mach-O program always has a loader: the system's.
		return &program{platform: platform{"darwin", arch}}
	}
	return nil
}

// checkDownload: the location serves the program that sha256 pins.
func checkDownload(c controllerSnapshot, p pluginSnapshot) []Result {
	item, d := itemOf(c, p.router), p.download
	if d == nil || item == nil {
		return nil
	}
	at := item.Location
	edit := fmt.Sprintf("kubectl -n %s edit configmap %s, then %s", c.configNamespace, configMapName, c.restartCommand())
	switch {
	case d.local:
		return []Result{warning(at, "is on the controller's disk, so it cannot be fetched from here", "look at it there, or serve the binary over https")}
	case d.headers != nil && d.headers.notFound():
		return []Result{failure(object("Secret", c.configNamespace, d.headers.Name), "does not exist; headersFrom names it, so the controller does not start", "create it, or take it out of headersFrom: "+edit)}
	case d.headers != nil:
		return []Result{couldNotLook(object("Secret", c.configNamespace, d.headers.Name), d.headers)}
	case d.err != nil && d.status != "" && !strings.HasPrefix(d.status, "2"):
		return []Result{failure(at, "the server answers "+d.status, "correct location (and headersFrom, if it needs a log-in): "+edit)}
	case d.err != nil:
		return []Result{warning(at, fmt.Sprintf("cannot be fetched from here: %v; the controller may still reach it", d.err), "fetch it from the cluster's network; where that does not reach it either, mirror the binary and update location: "+edit)}
	case d.binary == nil:
		return []Result{failure(at, fmt.Sprintf("%d bytes with sha256 %s, which are no program: a web page?", d.size, d.sum), "copy the link of the asset itself: "+edit)}
	}
	var results []Result
	switch item.Sha256 {
	case d.sum:
		results = append(results, ok(at, fmt.Sprintf("%d bytes with the sha256 that is pinned", d.size)))
	case "":
		results = append(results, warning(at, fmt.Sprintf("%d bytes with sha256 %s, which nothing pins", d.size, d.sum), fmt.Sprintf("compare it with checksums.txt, and set sha256: %s: %s", d.sum, edit)))
	default:
		results = append(results, failure(at, fmt.Sprintf("its sha256 is %s, but %s is pinned: the controller does not start", d.sum, item.Sha256), "paste the asset's line of checksums.txt; if that is what is pinned, the file is not the released one: "+edit))
	}
	if d.binary.dynamic && d.binary.platform.os == "linux" {
		results = append(results, failure(at, "the program is linked dynamically: the controller's image has no loader for it", "use the release asset, or build with CGO_ENABLED=0 (make build)"))
	}
	return results
}
