package check

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	plugintypes "github.com/argoproj/argo-rollouts/utils/plugin/types"
	corev1 "k8s.io/api/core/v1"
)

// downloadTimeout bounds a download.
const downloadTimeout = 2 * time.Minute

// downloaded is the outcome of fetching a plugin from where the controller does.
type downloaded struct {
	// headers is the Secret of headersFrom that could not be read, if any.
	headers *readError
	// err says why there is no sum; answered is whether the server has said so.
	err      error
	answered bool
	// sum is the sha256 in lower-case hexadecimal digits.
	sum string
}

// gatherDownloads fetches the files of plugins, each once.
func gatherDownloads(ctx context.Context, c *cluster, controller controllerSnapshot, plugins []pluginSnapshot) {
	fetched := map[string]*downloaded{}
	for i := range plugins {
		p := &plugins[i]
		item := p.item(controller)
		if item == nil {
			continue
		}
		from := fmt.Sprint(item.Location, item.HeadersFrom)
		if _, known := fetched[from]; !known {
			fetched[from] = gatherDownload(ctx, c, controller, item)
		}
		p.download = fetched[from]
	}
}

// gatherDownload fetches a plugin as the controller would: by its location, with the headers
// of its Secrets. Nil where the location is not one of a server.
func gatherDownload(ctx context.Context, c *cluster, controller controllerSnapshot, item *plugintypes.PluginItem) *downloaded {
	u, err := url.ParseRequestURI(item.Location)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
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

// fetch gets a file and its sum.
func fetch(ctx context.Context, location string, header http.Header) *downloaded {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, location, nil)
	if err != nil {
		return &downloaded{err: err}
	}
	request.Header = header
	response, err := http.DefaultClient.Do(request)
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		err = failed.Err // failed quotes the URL, too
	}
	if err != nil {
		return &downloaded{err: err}
	}
	sum := sha256.New()
	_, err = io.Copy(sum, response.Body)
	err = errors.Join(err, response.Body.Close())
	// The controller takes anything below 400 for the file.
	if response.StatusCode >= http.StatusBadRequest {
		return &downloaded{answered: true, err: errors.New(response.Status)}
	}
	return &downloaded{err: err, sum: hex.EncodeToString(sum.Sum(nil))}
}

// checkDownload: the location serves the file that sha256 pins.
func checkDownload(c controllerSnapshot, p pluginSnapshot) []Result {
	item, d := p.item(c), p.download
	if d == nil || item == nil {
		return nil
	}
	at, edit := withoutCredentials(item.Location), c.editConfig()
	switch {
	case d.headers != nil && d.headers.notFound():
		return []Result{failure(object("Secret", c.configNamespace, d.headers.Name), "does not exist; headersFrom names it, so the controller does not start", "create it, or take it out of headersFrom: "+edit)}
	case d.headers != nil:
		return []Result{couldNotLook(object("Secret", c.configNamespace, d.headers.Name), d.headers)}
	case d.answered:
		return []Result{failure(at, "the server answers "+d.err.Error(), "correct location (and headersFrom, if it needs a log-in): "+edit)}
	case d.err != nil:
		return []Result{warning(at, fmt.Sprintf("cannot be fetched from here: %v; the controller may still reach it", d.err), "fetch it from the cluster's network; where that does not reach it either, mirror the binary and update location: "+edit)}
	case item.Sha256 == "":
		return []Result{warning(at, fmt.Sprintf("its sha256 is %s, which nothing pins", d.sum), fmt.Sprintf("compare it with checksums.txt, and set sha256: %s: %s", d.sum, edit))}
	case item.Sha256 != d.sum:
		return []Result{failure(at, fmt.Sprintf("its sha256 is %s, but %s is pinned: the controller does not start", d.sum, item.Sha256), "paste the asset's line of checksums.txt; if that is what is pinned, the location serves another file, such as a web page: "+edit)}
	}
	return []Result{ok(at, "its sha256 is the one that is pinned")}
}
