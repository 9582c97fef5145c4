// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiservice compares the example of an API service with k8s.io/sample-apiserver, which has the same API: behind Tripod as a
// backend, and behind kube-apiserver as an aggregated API server.
package apiservice

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
)

// side is a cluster that serves flunders and fischers.
type side struct {
	*both.Side
	cluster *framework.Cluster
	etcd    string
}

var users = map[string]both.User{
	"admin": both.Certificate("admin", "system:masters"),
	"jane":  both.Certificate("jane"),
	"ann":   both.Certificate("ann"),
}

// startBackend starts Tripod with the example as a backend.
func startBackend(t *testing.T, env *framework.Environment, replicas ...framework.ReplicaOptions) (*side, *framework.Fleet) {
	t.Helper()
	all := []framework.ReplicaOptions{{Name: "core-0"}, {Name: "extensions-0"}, {Name: "aggregator-0"}}
	if len(replicas) == 0 {
		replicas = []framework.ReplicaOptions{wardle(env, "wardle-0")}
	}
	fleet, err := env.StartFleet(t.Context(), framework.FleetOptions{Replicas: append(all, replicas...)})
	require.NoError(t, err)
	return newSide(t, fleet.Cluster, fleet.EtcdURL), fleet
}

// wardle are the options of a replica of the example.
func wardle(env *framework.Environment, name string) framework.ReplicaOptions {
	return framework.ReplicaOptions{Name: name, Binary: env.Binary("wardle")}
}

// startAggregated starts kube-apiserver with a program as an aggregated API server.
func startAggregated(t *testing.T, env *framework.Environment, program string) *side {
	t.Helper()
	stock, err := env.StartStock(t.Context(), framework.StockOptions{})
	require.NoError(t, err)
	server := env.NewSampleServer(t, stock.Cluster)
	server.Run(program)
	port, err := framework.FreePort()
	require.NoError(t, err)
	_, err = env.Start(server.Command("wardle", port))
	require.NoError(t, err)
	kube, err := kubernetes.NewForConfig(stock.Admin())
	require.NoError(t, err)
	_, err = kube.CoreV1().Services(server.Namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "wardle"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	registrations, err := clientset.NewForConfig(stock.Admin())
	require.NoError(t, err)
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		service := server.APIService("wardle", port)
		service.Name, service.Spec.Version = version+".wardle.example.com", version
		_, err = registrations.ApiregistrationV1().APIServices().Create(t.Context(), service, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	return newSide(t, stock.Cluster, server.EtcdURL)
}

func newSide(t *testing.T, cluster *framework.Cluster, etcd string) *side {
	t.Helper()
	s := &side{both.NewSide(cluster, users), cluster, etcd}
	for _, path := range []string{"/apis/wardle.example.com/v1alpha1/fischers", "/apis/wardle.example.com/v1beta1/flunders"} {
		framework.Eventually(t, path, func(ctx context.Context) error {
			answer, err := s.Send(ctx, both.Request{User: "admin", Method: http.MethodGet, Path: path})
			if err == nil && answer.Code != http.StatusOK {
				err = fmt.Errorf("%d: %s", answer.Code, answer.Body)
			}
			return err
		})
	}
	return s
}

const (
	alpha = "/apis/wardle.example.com/v1alpha1"
	beta  = "/apis/wardle.example.com/v1beta1"
	json_ = "application/json"
)

// step is a request. TYPE is that of the body.
type step struct{ user, method, path, accept, typ, body string }

func flunder(version, name, spec string) string {
	return fmt.Sprintf(`{"apiVersion": "wardle.example.com/%s", "kind": "Flunder", "metadata": {"name": %q, "labels": {"of": %q}}, "spec": %s}`,
		version, name, name, spec)
}

const fischer = `{"apiVersion": "wardle.example.com/v1alpha1", "kind": "Fischer", "metadata": {"name": "f"}, "disallowedFlunders": ["banned", "worse"]}`

const role = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reads-flunders}
rules: [{apiGroups: [wardle.example.com], resources: [flunders], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reads-flunders}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reads-flunders}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: is-jane}
rules: [{apiGroups: [""], resources: [users], verbs: [impersonate], resourceNames: [jane]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: is-jane}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: is-jane}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ann}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-odd-flunders}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [wardle.example.com], apiVersions: ["*"], operations: [CREATE], resources: [flunders]}]}
  validations: [{expression: "object.metadata.name != 'odd'", message: "no odd flunders"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-odd-flunders}
spec: {policyName: no-odd-flunders, validationActions: [Deny]}
`

// steps are sent one after the other.
func steps() []step {
	in, table := "/namespaces/default/flunders", "application/json;as=Table;v=v1;g=meta.k8s.io"
	post, get, put, patch, del := http.MethodPost, http.MethodGet, http.MethodPut, http.MethodPatch, http.MethodDelete
	return []step{
		{method: get, path: "/apis/wardle.example.com"},
		{method: get, path: alpha}, {method: get, path: beta}, {method: get, path: "/apis/wardle.example.com/v2"},
		{method: post, path: alpha + in, body: flunder("v1alpha1", "one", `{"reference": "two"}`)},
		{method: get, path: beta + in + "/one"}, {method: get, path: alpha + in + "/one"},
		{method: post, path: alpha + in, body: flunder("v1alpha1", "one", `{"reference": "two"}`)},
		{method: post, path: beta + in, body: flunder("v1beta1", "two", `{"fischerReference": "f", "referenceType": "Fischer"}`)},
		{method: get, path: alpha + in + "/two"},
		{method: post, path: beta + in, body: flunder("v1beta1", "plain", `{}`)}, {method: get, path: alpha + in + "/plain"},
		{method: post, path: beta + in, body: flunder("v1beta1", "both", `{"fischerReference": "f", "flunderReference": "g", "referenceType": "Fischer"}`)},
		{method: post, path: beta + in, body: flunder("v1beta1", "none", `{"referenceType": "Flunder"}`)},
		{method: post, path: beta + in, body: flunder("v1beta1", "other", `{"referenceType": "Boat"}`)},
		{method: post, path: beta + in, body: flunder("v1beta1", "Not A Name", `{}`)},
		{method: post, path: beta + in, body: `{"kind": "Flunder"`}, {method: post, path: beta + in, body: fischer},
		{method: post, path: beta + in + "?fieldValidation=Strict", body: flunder("v1beta1", "strict", `{"reference": "two"}`)},
		{method: post, path: beta + in + "?dryRun=All", body: flunder("v1beta1", "dry", `{}`)}, {method: get, path: beta + in + "/dry"},
		{method: post, path: alpha + "/fischers", body: fischer}, {method: get, path: alpha + "/fischers/f"}, {method: get, path: beta + "/fischers/f"},
		{method: post, path: alpha + in, body: flunder("v1alpha1", "banned", `{}`)}, // once the informer knows the fischer
		{method: post, path: beta + in, body: flunder("v1beta1", "worse", `{}`)},
		{method: post, path: beta + in, body: flunder("v1beta1", "odd", `{}`)},
		{method: patch, path: beta + in + "/two", typ: "application/merge-patch+json", body: `{"metadata": {"labels": {"x": "y"}}}`},
		{method: patch, path: beta + in + "/two", typ: "application/json-patch+json", body: `[{"op": "remove", "path": "/metadata/labels/x"}]`},
		{method: patch, path: beta + in + "/two", typ: "application/json-patch+json", body: `[{"op": "remove", "path": "/metadata/labels/none"}]`},
		{method: patch, path: beta + in + "/two", typ: "application/strategic-merge-patch+json", body: `{"metadata": {"labels": {"s": "m"}}}`},
		{method: patch, path: beta + in + "/applied?fieldManager=me", typ: "application/apply-patch+yaml",
			body: flunder("v1beta1", "applied", `{"flunderReference": "one", "referenceType": "Flunder"}`)},
		{method: patch, path: beta + in + "/applied?fieldManager=you", typ: "application/apply-patch+yaml",
			body: flunder("v1beta1", "applied", `{"flunderReference": "two", "referenceType": "Flunder"}`)},
		{method: patch, path: alpha + in + "/applied?fieldManager=you&force=true", typ: "application/apply-patch+yaml",
			body: flunder("v1alpha1", "applied", `{"reference": "two"}`)},
		{method: put, path: beta + in + "/one", body: flunder("v1beta1", "one", `{}`)}, {method: put, path: beta + in + "/new", body: flunder("v1beta1", "new", `{}`)},
		{method: get, path: beta + in + "/one/status"}, {method: get, path: beta + in + "/one/scale"}, {method: get, path: beta + "/boats"},
		{method: get, path: beta + "/flunders"}, {method: get, path: alpha + "/flunders"}, {method: get, path: beta + in + "?labelSelector=of%3Done"},
		{method: get, path: beta + in + "?fieldSelector=metadata.name%3Done"}, {method: get, path: beta + in + "?fieldSelector=spec.x%3Done"},
		{method: get, path: beta + in + "?limit=2"}, {method: get, path: beta + in + "/one", accept: table}, {method: get, path: beta + in, accept: table},
		{method: get, path: alpha + "/fischers", accept: table},
		{method: get, path: beta + in + "/one", accept: "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"},
		{method: get, path: beta + in + "/one", accept: "application/yaml"}, {method: get, path: beta + in + "/one", accept: "image/png"},
		{method: get, path: beta + in + "/one", accept: "application/vnd.kubernetes.protobuf"},
		{user: "jane", method: get, path: beta + in + "/one"}, {user: "jane", method: del, path: beta + in + "/one"},
		{user: "ann", method: get, path: beta + in + "/one"}, {user: "jane", method: get, path: alpha + "/fischers"},
		{user: "ann as jane", method: get, path: beta + in + "/one"}, {user: "ann as jane", method: get, path: alpha + "/fischers"},
		{user: "ann as joe", method: get, path: beta + in + "/one"},
		{method: del, path: beta + in + "/two"}, {method: del, path: beta + in + "/two"}, {method: del, path: alpha + in + "?labelSelector=of%3Dplain"},
		{method: post, path: beta + "/namespaces/none/flunders", body: flunder("v1beta1", "one", `{}`)},
	}
}

func (s *side) send(t *testing.T, of step) both.Answer {
	t.Helper()
	header := http.Header{"Accept": {of.accept}, "Content-Type": {of.typ}}
	if of.accept == "" {
		header.Set("Accept", json_)
	}
	if of.typ == "" {
		header.Set("Content-Type", json_)
	}
	user, as, _ := strings.Cut(of.user, " as ")
	if as != "" {
		header.Set("Impersonate-User", as)
	}
	if user == "" {
		user = "admin"
	}
	answer, err := s.Send(t.Context(), both.Request{User: user, Method: of.method, Path: of.path, Header: header, Body: []byte(of.body)})
	require.NoError(t, err, "%s %s", of.method, of.path)
	return answer
}

// normal removes what differs between any two clusters.
var normal = both.Normaliser{
	Fields: map[string]string{"resourceVersion": "VERSION", "continue": "CONTINUE", "hash": "HASH", "storageVersionHash": "HASH"},
	Volatile: []both.Volatile{
		{Pattern: regexp.MustCompile(`\(wardle\.Flunder\)`), With: "(v1beta1.Flunder)"}, // the type that validation sees
		{Pattern: regexp.MustCompile(`"resourceVersion":"\d+"`), With: `"resourceVersion":"VERSION"`},
		{Pattern: regexp.MustCompile(`resourceVersion: "\d+"`), With: `resourceVersion: VERSION`},
	},
}

// text returns the text of an answer.
func text(t *testing.T, of step, answer both.Answer) string {
	t.Helper()
	kind := strings.Split(answer.Header.Get("Content-Type"), ";")[0]
	if kind == "application/vnd.kubernetes.protobuf" {
		return fmt.Sprint(answer.Code, " ", kind)
	}
	body := strings.TrimSpace(string(answer.Body))
	var decoded any
	if decoder := json.NewDecoder(bytes.NewReader(answer.Body)); kind == json_ && decoder.Decode(&decoded) == nil {
		body = both.InWords(normal.Value(decoded))
	} else {
		body = normal.Text(body)
	}
	// The sample has a version of its own, in which v1alpha1 is deprecated (KEP-4330).
	warnings := slices.DeleteFunc(answer.Header["Warning"], func(w string) bool { return strings.Contains(w, " is deprecated in v1.3+") })
	return fmt.Sprint(answer.Code, " ", kind, " ", strings.Join(warnings, ", "), "\n", body)
}

func TestTheExampleIsTheSampleOfKubernetes(t *testing.T) {
	env := framework.ForTest(t)
	sample := startAggregated(t, env, "test-assets/sample-apiserver")
	backend, _ := startBackend(t, env)
	for name, ours := range map[string]*side{"as a backend": backend, "behind kube-apiserver": startAggregated(t, env, "wardle")} {
		t.Run(name, func(t *testing.T) {
			sides := []*side{sample, ours}
			sample.empty(t)
			for _, s := range sides {
				require.NoError(t, s.cluster.Create(t.Context(), role))
				s.awaitPolicies(t)
			}
			for _, of := range steps() {
				if strings.Contains(of.body, `"name": "banned"`) {
					for _, s := range sides {
						s.awaitBan(t)
					}
				}
				want, got := text(t, of, sample.send(t, of)), text(t, of, ours.send(t, of))
				assert.Empty(t, cmp.Diff(want, got), "%s %s %s %s", of.user, of.method, of.path, of.body)
			}
			assert.Empty(t, cmp.Diff(sample.stored(t), ours.stored(t)), "in etcd")
			assert.Empty(t, cmp.Diff(sample.schemas(t), ours.schemas(t)), "OpenAPI")
		})
	}
}

// empty removes what an earlier test made.
func (s *side) empty(t *testing.T) {
	t.Helper()
	for _, path := range []string{alpha + "/namespaces/default/flunders", alpha + "/fischers"} {
		s.send(t, step{method: http.MethodDelete, path: path})
	}
	for _, path := range []string{
		"rbac.authorization.k8s.io/v1/clusterroles/reads-flunders", "rbac.authorization.k8s.io/v1/clusterrolebindings/reads-flunders",
		"rbac.authorization.k8s.io/v1/clusterroles/is-jane", "rbac.authorization.k8s.io/v1/clusterrolebindings/is-jane",
		"admissionregistration.k8s.io/v1/validatingadmissionpolicies/no-odd-flunders",
		"admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/no-odd-flunders",
	} {
		s.send(t, step{method: http.MethodDelete, path: "/apis/" + path})
	}
	framework.Eventually(t, "the fischer is forgotten", func(context.Context) error {
		if answer := s.send(t, step{method: http.MethodPost, path: beta + "/namespaces/default/flunders?dryRun=All", body: flunder("v1beta1", "worse", `{}`)}); answer.Code != http.StatusCreated {
			return fmt.Errorf("%s", answer.Body)
		}
		return nil
	})
}

// awaitPolicies waits until roles and policies are in force.
func (s *side) awaitPolicies(t *testing.T) {
	t.Helper()
	in := "/namespaces/default/flunders"
	for what, of := range map[string]struct {
		step
		code int
	}{
		"jane may list":           {step{user: "jane", method: http.MethodGet, path: beta + in}, http.StatusOK},
		"ann may be jane":         {step{user: "ann as jane", method: http.MethodGet, path: beta + in}, http.StatusOK},
		"odd flunders may not be": {step{method: http.MethodPost, path: beta + in + "?dryRun=All", body: flunder("v1beta1", "odd", `{}`)}, http.StatusUnprocessableEntity},
	} {
		framework.Eventually(t, what, func(context.Context) error {
			if answer := s.send(t, of.step); answer.Code != of.code {
				return fmt.Errorf("%d %s", answer.Code, answer.Body)
			}
			return nil
		})
	}
}

// awaitBan waits until the fischer bans.
func (s *side) awaitBan(t *testing.T) {
	t.Helper()
	framework.Eventually(t, "the fischer bans", func(context.Context) error {
		of := step{method: http.MethodPost, path: beta + "/namespaces/default/flunders?dryRun=All", body: flunder("v1beta1", "banned", `{}`)}
		if answer := s.send(t, of); answer.Code != http.StatusForbidden {
			return fmt.Errorf("%d %s", answer.Code, answer.Body)
		}
		return nil
	})
}

// stored returns what is in etcd.
func (s *side) stored(t *testing.T) map[string]string {
	t.Helper()
	values, err := framework.Stored(t.Context(), framework.Etcd(t, s.etcd), "/registry/wardle.example.com/")
	require.NoError(t, err)
	all := map[string]string{}
	for key, value := range values {
		var decoded any
		require.NoError(t, json.Unmarshal(value, &decoded), "%s: %s", key, value)
		all[key] = both.InWords(normal.Value(decoded))
		if bytes.HasSuffix(value, []byte("\n")) {
			all[key] += "\n"
		}
	}
	require.NotEmpty(t, all)
	return all
}

// bare removes what is not about the API: descriptions, which are in the words of each author, and the answer 401, which kube-apiserver and
// package apiservice document and sample-apiserver does not.
func bare(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, part := range value {
			if _, isText := part.(string); name == "401" || name == "description" && isText {
				delete(value, name)
				continue
			}
			bare(part)
		}
	case []any:
		for _, part := range value {
			bare(part)
		}
	}
	return value
}

// schemas returns the definitions and paths of the group in OpenAPI. kube-aggregator leaves out the path of the group.
func (s *side) schemas(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	framework.Eventually(t, "OpenAPI", func(context.Context) error {
		clear(all)
		answer := s.send(t, step{method: http.MethodGet, path: "/openapi/v2"})
		var v2 struct {
			Paths, Definitions map[string]any
		}
		if err := json.Unmarshal(answer.Body, &v2); err != nil {
			return err
		}
		for _, part := range []map[string]any{v2.Paths, v2.Definitions} {
			for name, value := range part {
				if strings.Contains(name, "wardle") && name != "/apis/wardle.example.com/" {
					all[name] = both.InWords(bare(value))
				}
			}
		}
		for _, version := range []string{"v1alpha1", "v1beta1"} {
			answer := s.send(t, step{method: http.MethodGet, path: "/openapi/v3/apis/wardle.example.com/" + version})
			var v3 struct {
				Paths      map[string]any
				Components struct{ Schemas map[string]any }
			}
			if err := json.Unmarshal(answer.Body, &v3); err != nil {
				return err
			}
			for _, part := range []map[string]any{v3.Paths, v3.Components.Schemas} {
				for name, value := range part {
					if strings.Contains(name, "wardle") {
						all["v3 "+version+" "+name] = both.InWords(bare(value))
					}
				}
			}
		}
		if len(all) < 20 {
			return fmt.Errorf("only %v", slices.Sorted(maps.Keys(all)))
		}
		return nil
	})
	return all
}
