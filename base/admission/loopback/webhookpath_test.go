// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPathsAtTheKubernetesService(t *testing.T) {
	https, other, path := int32(443), int32(8443), "/a"
	for _, test := range []struct {
		name, namespace, service string
		port                     *int32
		path                     *string
		want                     string
	}{
		{"without a port", "default", "kubernetes", nil, &path, path},
		{"with its port", "default", "kubernetes", &https, &path, path},
		{"another port", "default", "kubernetes", &other, &path, ""},
		{"another Service", "default", "hook", nil, &path, ""},
		{"another namespace", "kube-system", "kubernetes", nil, &path, ""},
		{"without a path", "default", "kubernetes", nil, nil, ""},
	} {
		assert.Equal(t, test.want, WebhookPath(test.namespace, test.service, test.port, test.path), "%s: path", test.name)
	}
	for url, want := range map[string]string{
		"https://kubernetes.default.svc/a":      "/a",
		"https://kubernetes.default.svc:443/a":  "/a",
		"https://kubernetes.default.svc:8443/a": "",
		"https://kubernetes.default/a":          "",
		"https://kubernetes.default.svc":        "",
		"://":                                   "",
	} {
		assert.Equal(t, want, WebhookPathOfURL(url), "%s: path", url)
	}
}
