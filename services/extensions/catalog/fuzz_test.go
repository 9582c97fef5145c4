// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// FuzzDescribe describes whatever users may write into a CustomResourceDefinition. It serves only what the definition serves, and calls webhooks
// only at the kubernetes Service.
func FuzzDescribe(f *testing.F) {
	for _, crd := range []string{
		`{"spec":{"group":"example.com","versions":[{"name":"v1","served":true},{"name":"v2"}]}}`,
		`{"spec":{"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"service":{"namespace":"default","name":"kubernetes","path":"/a"}}}}}}`,
		`{"spec":{"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"url":"https://kubernetes.default.svc/a/../b"}}}}}`,
		`{"spec":{"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"url":"https://kubernetes.default.svc@elsewhere/a"}}}}}`,
	} {
		f.Add([]byte(crd))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if json.Unmarshal(data, crd) != nil {
			return
		}
		e := describe(crd)
		require.LessOrEqual(t, len(e.groupVersions), len(crd.Spec.Versions))
		for _, gv := range e.groupVersions {
			require.Equal(t, crd.Spec.Group, gv.Group)
		}
		if e.webhook != "" {
			config := crd.Spec.Conversion.Webhook.ClientConfig
			at := ""
			if config.URL != nil {
				at = *config.URL
			} else {
				at = config.Service.Name + "." + config.Service.Namespace + ".svc"
			}
			require.True(t, strings.Contains(at, "kubernetes.default.svc"), at)
		}
	})
}
