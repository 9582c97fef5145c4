// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
)

// auditFile is the audit log of search-1.
func auditFile() string { return filepath.Join(environment.Dir, "search-audit.log") }

// audited returns the event of a request in the audit log of search-1. query is how its URI ends.
func audited(query string) (*auditv1.Event, error) {
	file, err := os.Open(auditFile())
	if err != nil {
		return nil, err
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var event auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return nil, err
		}
		if strings.HasSuffix(event.RequestURI, query) {
			return &event, nil
		}
	}
	return nil, fmt.Errorf("no event is of the request %s", query)
}

// TestANestedRequestIsAuditedAndQueuedAsWhatItIs holds that audit policies and flow schemas see a search for Deployments as "list deployments".
func TestANestedRequestIsAuditedAndQueuedAsWhatItIs(t *testing.T) {
	require.NoError(t, fleet.Create(t.Context(), `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: searches-queued}
rules: [{apiGroups: [clusterpedia.io], resources: [resources], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: searches-queued}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: searches-queued}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: queued}]
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: searches-for-deployments}
spec:
  matchingPrecedence: 10
  priorityLevelConfiguration: {name: workload-low}
  rules:
  - subjects: [{kind: User, user: {name: queued}}]
    resourceRules: [{verbs: [list], apiGroups: [apps], resources: [deployments], namespaces: [default]}]
`))
	clients, err := kubernetes.NewForConfig(fleet.Admin())
	require.NoError(t, err)
	schema, err := clients.FlowcontrolV1().FlowSchemas().Get(t.Context(), "searches-for-deployments", metav1.GetOptions{})
	require.NoError(t, err)
	client, err := rest.HTTPClientFor(fleet.As("search-1", &user.DefaultInfo{Name: "queued", Groups: []string{user.AllAuthenticated}}))
	require.NoError(t, err)
	awaitList(t, resources+"/apis/apps/v1/deployments", "default/web")
	for path, matches := range map[string]bool{
		hub + "/apis/apps/v1/namespaces/default/deployments?names=audited": true,
		hub + "/apis/apps/v1/namespaces/default/deployments/web":           false,
		hub + "/apis/apps/v1/namespaces/default/replicasets":               false,
		resources + "/apis/apps/v1/deployments":                            false,
	} {
		framework.Eventually(t, path, func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, fleet.Replica("search-1").URL+path, nil)
			if err != nil {
				return err
			}
			answer, err := client.Do(req)
			if err != nil {
				return err
			}
			defer answer.Body.Close()
			got := answer.Header.Get("X-Kubernetes-PF-FlowSchema-UID")
			if answer.StatusCode != http.StatusOK || got == "" || (got == string(schema.UID)) != matches {
				return fmt.Errorf("%s by flow schema %q; that of the test is %q", answer.Status, got, schema.UID)
			}
			return nil
		})
	}
	framework.Eventually(t, "the audit log has the request", func(context.Context) error {
		event, err := audited("?names=audited")
		if err == nil {
			assert.Equal(t, "list", event.Verb)
			assert.Equal(t, &auditv1.ObjectReference{APIGroup: "apps", APIVersion: "v1", Resource: "deployments", Namespace: "default"}, event.ObjectRef)
			assert.Equal(t, "hub", event.Annotations["clusterpedia.io/cluster"])
		}
		return err
	})
}
