package node

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// payloadFile is one file of a volume.
type payloadFile struct {
	data string
	mode uint32
}

// payload is the content of a volume made from objects, by relative path.
type payload map[string]payloadFile

// payloadBuilder makes the content of volumes.
type payloadBuilder struct {
	env podEnv
	// token returns a token of the pod's ServiceAccount.
	token func(projection *corev1.ServiceAccountTokenProjection) (string, error)
}

// unsupportedVolumeError says that the sandbox does not support a volume's kind.
type unsupportedVolumeError struct{ volume string }

// Error names the volume and the supported kinds.
func (e *unsupportedVolumeError) Error() string {
	return fmt.Sprintf("volume %q: the sandbox has only emptyDir, configMap, secret, projected and downwardAPI volumes", e.volume)
}

const defaultMode = 0o644

// build returns the content of a volume; made is false for an emptyDir, which has
// no content of its own.
func (b payloadBuilder) build(v corev1.Volume) (content payload, made bool, err error) {
	content = payload{}
	switch {
	case v.EmptyDir != nil:
		return nil, false, nil
	case v.ConfigMap != nil:
		err = b.configMap(content, corev1.ConfigMapProjection{
			LocalObjectReference: v.ConfigMap.LocalObjectReference, Items: v.ConfigMap.Items, Optional: v.ConfigMap.Optional,
		}, v.ConfigMap.DefaultMode)
	case v.Secret != nil:
		err = b.secret(content, corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: v.Secret.SecretName}, Items: v.Secret.Items, Optional: v.Secret.Optional,
		}, v.Secret.DefaultMode)
	case v.DownwardAPI != nil:
		err = b.downward(content, v.DownwardAPI.Items, v.DownwardAPI.DefaultMode)
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			err = errors.Join(err, b.projection(content, v.Name, s, v.Projected.DefaultMode))
		}
	default:
		err = &unsupportedVolumeError{v.Name}
	}
	if err == nil {
		err = content.check()
	}
	return content, true, err
}

func (b payloadBuilder) projection(content payload, volume string, s corev1.VolumeProjection, mode *int32) error {
	switch {
	case s.ConfigMap != nil:
		return b.configMap(content, *s.ConfigMap, mode)
	case s.Secret != nil:
		return b.secret(content, *s.Secret, mode)
	case s.DownwardAPI != nil:
		return b.downward(content, s.DownwardAPI.Items, mode)
	case s.ServiceAccountToken != nil:
		token, err := b.token(s.ServiceAccountToken)
		if err != nil {
			return err
		}
		// Only its owner may read a token, whatever mode the volume sets.
		content[s.ServiceAccountToken.Path] = payloadFile{token, 0o600}
		return nil
	}
	return &unsupportedVolumeError{volume}
}

func (b payloadBuilder) configMap(content payload, p corev1.ConfigMapProjection, mode *int32) error {
	cm, err := b.env.sources.configMap(b.env.pod.Namespace, p.Name)
	if missing(err, p.Optional) {
		return nil
	}
	if err != nil {
		return err
	}
	data := maps.Clone(cm.Data)
	if data == nil {
		data = map[string]string{}
	}
	for k, v := range cm.BinaryData {
		data[k] = string(v)
	}
	return content.items(data, p.Items, mode, p.Optional, "ConfigMap "+cm.Namespace+"/"+cm.Name)
}

func (b payloadBuilder) secret(content payload, p corev1.SecretProjection, mode *int32) error {
	secret, err := b.env.sources.secret(b.env.pod.Namespace, p.Name)
	if missing(err, p.Optional) {
		return nil
	}
	if err != nil {
		return err
	}
	data := map[string]string{}
	for k, v := range secret.Data {
		data[k] = string(v)
	}
	return content.items(data, p.Items, mode, p.Optional, "Secret "+secret.Namespace+"/"+secret.Name)
}

func (b payloadBuilder) downward(content payload, items []corev1.DownwardAPIVolumeFile, mode *int32) error {
	for _, item := range items {
		var value string
		var err error
		switch {
		case item.FieldRef != nil:
			value, err = b.env.field(item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			i := slices.IndexFunc(b.env.pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == item.ResourceFieldRef.ContainerName })
			if i < 0 {
				return fmt.Errorf("downwardAPI %s: the pod has no container %q", item.Path, item.ResourceFieldRef.ContainerName)
			}
			value, err = resourceField(&b.env.pod.Spec.Containers[i], *item.ResourceFieldRef, b.env.capacity)
		default:
			err = errors.New("neither fieldRef nor resourceFieldRef is set")
		}
		if err != nil {
			return fmt.Errorf("downwardAPI %s: %w", item.Path, err)
		}
		content[item.Path] = payloadFile{value, fileMode(item.Mode, mode)}
	}
	return nil
}

func (p payload) items(data map[string]string, items []corev1.KeyToPath, mode *int32, optional *bool, object string) error {
	if len(items) == 0 {
		for k, v := range data {
			p[k] = payloadFile{v, fileMode(nil, mode)}
		}
		return nil
	}
	for _, item := range items {
		value, ok := data[item.Key]
		if !ok {
			if optional != nil && *optional {
				continue
			}
			return fmt.Errorf("%s has no key %q, which the pod's volume refers to", object, item.Key)
		}
		p[item.Path] = payloadFile{value, fileMode(item.Mode, mode)}
	}
	return nil
}

func (p payload) check() error {
	for name := range p {
		clean := path.Clean(name)
		if name == "" || path.IsAbs(name) || clean == ".." || strings.HasPrefix(clean, "../") || strings.HasPrefix(name, "..") {
			return fmt.Errorf("volume: path %q: expected a relative path that does not begin with two dots", name)
		}
	}
	return nil
}

func fileMode(own, volume *int32) uint32 {
	if own != nil {
		return uint32(*own) & 0o777
	}
	if volume != nil {
		return uint32(*volume) & 0o777
	}
	return defaultMode
}
