// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tripod-k8s/tripod/admin/explain"
)

func TestExplainRequest(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch req.URL.Path {
		case "/apis/apiregistration.k8s.io/v1/apiservices":
			fmt.Fprint(w, `{"items": [{"metadata": {"name": "v1."}, "spec": {"version": "v1", "service": {"namespace": "tripod-system", "name": "core"}}}]}`)
		case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
			fmt.Fprint(w, `{"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "status": {"allowed": true, "reason": "RBAC: x"}}`)
		case "/metrics":
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprintln(w, "# TYPE tripod_backend_endpoints gauge\ntripod_backend_endpoints{backend=\"core\",state=\"serving\"} 2")
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server.URL, InsecureSkipTLSVerify: true}
	config.AuthInfos["jane"] = &clientcmdapi.AuthInfo{Token: "secret"}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "jane"}
	config.CurrentContext = "c"
	require.NoError(t, clientcmd.WriteToFile(*config, file))
	run := func(args ...string) (string, error) {
		cmd := newRootCommand()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetArgs(append([]string{"explain-request", "--kubeconfig", file}, args...))
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	const path = "/api/v1/namespaces/shop/pods"
	text, err := run("GET", path, "--as", "joe")
	require.NoError(t, err)
	for _, want := range []string{"GET " + path, "core", "2 serving: get requests now", "yes. RBAC: x"} {
		assert.Contains(t, text, want)
	}
	text, err = run("GET", path, "--as", "joe", "-o", "json")
	require.NoError(t, err)
	var all []explain.Explanation
	require.NoError(t, json.Unmarshal([]byte(text), &all))
	require.Len(t, all, 1)
	assert.Equal(t, []explain.ReplicaState{{State: "serving", Count: 2, Candidate: true}}, all[0].Replicas)
	for format, want := range map[string]string{"name": "core\n", "jsonpath={[*].allowed}": "true\n"} {
		text, err = run("GET", path, "--as", "joe", "-o", format)
		require.NoError(t, err)
		assert.Equal(t, want, text)
	}
	for want, args := range map[string][]string{
		"is no verb": {"fetch", path}, "accepts 2 arg(s)": {"get"}, "--as-group needs --as": {"get", path, "--as-group", "g"},
	} {
		_, err := run(args...)
		assert.ErrorContains(t, err, want)
	}
}
