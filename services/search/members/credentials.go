// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"encoding/base64"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/hub"
	"github.com/tripod-k8s/tripod/services/search/v1alpha2"
)

var secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// credentials read Secrets of one namespace.
type credentials struct {
	objects *hub.Objects
	// namespace is empty if no Secrets may be read.
	namespace string
}

// resolve returns a spec with the credentials that its authenticationFrom names. As in Clusterpedia, it counts only if the spec has none itself.
func (c *credentials) resolve(spec v1alpha2.ClusterSpec) (v1alpha2.ClusterSpec, error) {
	from := spec.AuthenticationFrom
	own := len(spec.Kubeconfig) > 0 || len(spec.TokenData) > 0 || len(spec.CertData) > 0 && len(spec.KeyData) > 0
	if from == nil || own {
		return spec, nil
	}
	if c.namespace == "" {
		return spec, errors.New("authenticationFrom: search reads no Secrets: start it with --secret-namespace, or put the credentials into the PediaCluster")
	}
	parts := []struct {
		name string
		key  *v1alpha2.SecretKey
		into *[]byte
	}{
		{"ca", from.CA, &spec.CAData}, {"token", from.Token, &spec.TokenData}, {"cert", from.Cert, &spec.CertData}, {"key", from.Key, &spec.KeyData},
	}
	if from.Kubeconfig != nil {
		parts = append(parts[:0], struct {
			name string
			key  *v1alpha2.SecretKey
			into *[]byte
		}{"kubeconfig", from.Kubeconfig, &spec.Kubeconfig})
	}
	for _, part := range parts {
		if part.key == nil {
			continue
		}
		value, err := c.value(part.key)
		if err != nil {
			return spec, fmt.Errorf("authenticationFrom.%s: %w", part.name, err)
		}
		*part.into = value
	}
	return spec, nil
}

// value returns a value of a Secret.
func (c *credentials) value(key *v1alpha2.SecretKey) ([]byte, error) {
	secret, err := c.objects.One(secrets, c.namespace, key.Name)
	if err != nil {
		return nil, err
	}
	text, _, _ := unstructured.NestedString(secret.Object, "data", key.Key)
	value, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(value) == 0 {
		return nil, fmt.Errorf("secret %s/%s has nothing under the key %s", c.namespace, key.Name, key.Key)
	}
	return value, nil
}
