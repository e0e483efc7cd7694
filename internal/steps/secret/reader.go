package secret

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

const (
	// MaxValue bounds a secret, in bytes: a Redactor looks for some thirty forms of each.
	MaxValue = 8 << 10
	// maxValues bounds the secrets that one Reader returns, together, in bytes.
	maxValues = 32 << 10
)

// Reader reads the Secrets and ConfigMaps that the steps of one Rollout refer to, each object
// once. Its Redactor replaces the secrets that were read. A Reader serves one operation, and
// is not safe for concurrent use.
type Reader struct {
	objects   *kube.Objects
	namespace string
	read      map[string]map[string][]byte
	// size is the length in bytes of the values of Secrets that were read, which are counted.
	size    int
	counted map[KeyRef]bool
	// Redactor replaces the values of Secrets that were read.
	Redactor Redactor
}

// NewReader returns a Reader for a Rollout in a namespace.
func NewReader(objects *kube.Objects, namespace string) *Reader {
	return &Reader{objects: objects, namespace: namespace, read: map[string]map[string][]byte{}, counted: map[KeyRef]bool{}}
}

// Secret returns a value of a Secret, without trailing line breaks. A value has 8 KiB at
// most, and all values that a Reader returns have 32 KiB at most together.
func (r *Reader) Secret(ctx context.Context, ref *KeyRef) (string, error) {
	value, err := r.Public(ctx, ref)
	if err == nil {
		r.Redactor.Add(value)
	}
	return value, err
}

// Public returns a value of a Secret that is no secret itself, such as a user's name. It has
// the limits of Secret.
func (r *Reader) Public(ctx context.Context, ref *KeyRef) (string, error) {
	raw, err := r.key(ctx, "Secret", ref)
	if err != nil {
		return "", err
	}
	value := strings.TrimRight(string(raw), "\r\n")
	if value == "" {
		return "", fmt.Errorf("%s: the key %q is empty", r.name("Secret", ref), ref.Key)
	}
	if len(value) > MaxValue {
		return "", fmt.Errorf("%s: the key %q has %d bytes: want %d at most", r.name("Secret", ref), ref.Key, len(value), MaxValue)
	}
	if !r.counted[*ref] {
		all := r.size + len(value)
		if all > maxValues {
			return "", fmt.Errorf("%s: with the key %q all values of Secrets that the step refers to have %d bytes: want %d at most", r.name("Secret", ref), ref.Key, all, maxValues)
		}
		r.counted[*ref], r.size = true, all
	}
	return value, nil
}

// Certificates returns a value of a Secret or a ConfigMap that is not secret.
func (r *Reader) Certificates(ctx context.Context, kind string, ref *KeyRef) ([]byte, error) {
	return r.key(ctx, kind, ref)
}

func (r *Reader) name(kind string, ref *KeyRef) string {
	return kind + " " + r.namespaceOf(ref) + "/" + ref.Name
}

func (r *Reader) namespaceOf(ref *KeyRef) string { return cmp.Or(ref.Namespace, r.namespace) }

func (r *Reader) key(ctx context.Context, kind string, ref *KeyRef) ([]byte, error) {
	name := r.name(kind, ref)
	data, ok := r.read[name]
	if !ok {
		var err error
		if data, err = r.get(ctx, kind, ref); err != nil {
			if apierrors.IsNotFound(err) {
				return nil, fmt.Errorf("%s does not exist", name)
			}
			return nil, fmt.Errorf("%s cannot be read: %w", name, err)
		}
		r.read[name] = data
	}
	value, ok := data[ref.Key]
	if !ok {
		return nil, fmt.Errorf("%s has no key %q", name, ref.Key)
	}
	return value, nil
}

func (r *Reader) get(ctx context.Context, kind string, ref *KeyRef) (map[string][]byte, error) {
	if kind == "Secret" {
		var object corev1.Secret
		err := r.objects.Get(ctx, corev1.SchemeGroupVersion.WithResource("secrets"), r.namespaceOf(ref), ref.Name, &object)
		return object.Data, err
	}
	var object corev1.ConfigMap
	err := r.objects.Get(ctx, corev1.SchemeGroupVersion.WithResource("configmaps"), r.namespaceOf(ref), ref.Name, &object)
	data := object.BinaryData
	if data == nil {
		data = map[string][]byte{}
	}
	for key, text := range object.Data {
		data[key] = []byte(text)
	}
	return data, err
}
