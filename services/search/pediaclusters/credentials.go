// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pediaclusters

import (
	"encoding/base64"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
	"github.com/tripod-k8s/tripod/services/search/hub"
	"github.com/tripod-k8s/tripod/services/search/parties"
)

var secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// credentials read Secrets of one namespace.
//
// A PediaCluster says where credentials are sent, and its writer may read no Secrets. So a Secret says itself which PediaCluster may use
// it, and for which server. Its data, that permission and the server of the connection are those of one moment.
type credentials struct {
	objects *hub.Objects
	// namespace is empty if no Secrets may be read.
	namespace string
}

// resolve returns the spec of a cluster with the credentials that its authenticationFrom names. As in Clusterpedia, it counts only if the
// spec has none itself. If a kubeconfig is from a Secret, permit is what that Secret says about its server, and is nil otherwise. Parties
// share the Secrets that search follows.
func (c *credentials) resolve(cluster string, party parties.Party, spec v1alpha2.ClusterSpec) (
	_ v1alpha2.ClusterSpec, permit *permit, err error,
) {
	from := spec.AuthenticationFrom
	own := len(spec.Kubeconfig) > 0 || len(spec.TokenData) > 0 || len(spec.CertData) > 0 && len(spec.KeyData) > 0
	if from == nil || own {
		return spec, nil, nil
	}
	if c.namespace == "" {
		return spec, nil, errors.New("authenticationFrom: search reads no Secrets: start it with --secret-namespace, or put the credentials " +
			"into the PediaCluster")
	}
	if from.Kubeconfig != nil {
		spec.Kubeconfig, permit, err = c.read(cluster, party, "kubeconfig", from.Kubeconfig)
		return spec, permit, err
	}
	// A writer who may say that the certificate is not checked, or by which CA, could take the credentials on their way.
	if from.CA == nil {
		return spec, nil, errors.New("authenticationFrom names no ca: credentials in Secrets need the CA of the server in a Secret, too")
	}
	for _, part := range []struct {
		name string
		key  *v1alpha2.SecretKey
		into *[]byte
	}{
		{"ca", from.CA, &spec.CAData}, {"token", from.Token, &spec.TokenData}, {"cert", from.Cert, &spec.CertData}, {"key", from.Key,
			&spec.KeyData},
	} {
		if part.key == nil {
			continue
		}
		value, permit, err := c.read(cluster, party, part.name, part.key)
		if err == nil {
			err = permit.check(cluster, spec.APIServer)
		}
		if err != nil {
			return spec, nil, err
		}
		*part.into = value
	}
	return spec, nil, nil
}

// read returns a value of a Secret that names the cluster, and for which servers.
func (c *credentials) read(cluster string, party parties.Party, part string, key *v1alpha2.SecretKey) ([]byte, *permit, error) {
	wrong := func(err error) ([]byte, *permit, error) {
		return nil, nil, fmt.Errorf("authenticationFrom.%s: %w", part, err)
	}
	secret, err := c.objects.OneFor(party, secrets, c.namespace, key.Name)
	if errors.Is(err, hub.ErrTooMany) {
		return wrong(fmt.Errorf("secret %s/%s: %w: put the credentials into the PediaCluster", c.namespace, key.Name, err))
	}
	if err != nil {
		return wrong(err)
	}
	permit := permitOf(secret, part)
	if len(permit.servers[cluster]) == 0 && part == "kubeconfig" {
		return wrong(permit.refusal(cluster, "")) // before its server is read
	}
	text, _, _ := unstructured.NestedString(secret.Object, "data", key.Key)
	value, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(value) == 0 {
		return wrong(fmt.Errorf("secret %s/%s has nothing under the key %s", c.namespace, key.Name, key.Key))
	}
	return value, permit, nil
}
