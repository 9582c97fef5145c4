// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
)

const byFischer = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: by-fischer}
spec:
  paramKind: {apiVersion: wardle.example.com/v1alpha1, kind: Fischer}
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  validations: [{expression: "!(object.metadata.name in params.disallowedFlunders)", message: "a fischer disallows it"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: by-fischer}
spec: {policyName: by-fischer, validationActions: [Deny], paramRef: {name: f, parameterNotFoundAction: Deny}}
`

// Core follows the objects of an API service in its own name, to take parameters of policies from them. The API service does not know what
// core may do: the aggregator sends it with each request.
func TestAPolicyTakesParametersFromAnAPIService(t *testing.T) {
	env := framework.ForTest(t)
	backend, _ := startBackend(t, env)
	for name, s := range map[string]*side{"as a backend": backend, "behind kube-apiserver": startAggregated(t, env, "wardle")} {
		t.Run(name, func(t *testing.T) {
			answer := s.send(t, step{method: http.MethodPost, path: alpha + "/fischers", body: fischer})
			require.Equal(t, http.StatusCreated, answer.Code, "%s", answer.Body)
			require.NoError(t, s.cluster.Create(t.Context(), byFischer))
			// A policy without its parameters also refuses what it should, so what it says counts.
			for _, object := range []struct {
				name, output string
				code         int
			}{{"banned", "a fischer disallows it", http.StatusUnprocessableEntity}, {"welcome", "welcome", http.StatusCreated}} {
				framework.Eventually(t, object.name, func(context.Context) error {
					answer := s.send(t, step{method: http.MethodPost, path: "/api/v1/namespaces/default/configmaps?dryRun=All",
						body: fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": %q}}`, object.name)})
					if answer.Code != object.code || !strings.Contains(string(answer.Body), object.output) {
						return fmt.Errorf("%d %s", answer.Code, answer.Body)
					}
					return nil
				})
			}
		})
	}
}
