// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	cryptorand "crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/test/framework"
)

// odd are texts that need escapes in a field selector, or that other languages of selectors give a meaning to.
var odd = []string{"", " ", "a", "A", "a ", " a", "a b", "a,b", "a=b", "a!=b", `a\b`, `"a"`, `"a, b"`, "'a'", "(a)", "a) in (b", "a\tb", "a\n", "a|b", "!a", "\u00e9", "e\u0301", "in", "a in (b)", "*", "%", "_"}

// labelled are the kinds with field labels of their own, and their labels. ClusterTrustBundles and PodCertificateRequests are off by default. CronJobs and
// StatefulSets have labels in versions that are no longer served.
var labelled = map[string][]string{
	"/api/v1/pods": {
		"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork", "status.phase", "status.podIP", "status.podIPs",
		"status.nominatedNodeName", "spec.host",
	},
	"/api/v1/nodes":                  {"spec.unschedulable"},
	"/api/v1/replicationcontrollers": {"status.replicas"},
	"/api/v1/namespaces":             {"status.phase"},
	"/api/v1/secrets":                {"type"},
	"/api/v1/services":               {"spec.clusterIP", "spec.type"},
	"/api/v1/events": {
		"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid", "involvedObject.apiVersion", "involvedObject.resourceVersion",
		"involvedObject.fieldPath", "reason", "reportingComponent", "source", "type",
	},
	"/apis/events.k8s.io/v1/events": {
		"reason", "regarding.kind", "regarding.namespace", "regarding.name", "regarding.uid", "regarding.apiVersion", "regarding.resourceVersion", "regarding.fieldPath",
		"reportingController", "type",
	},
	"/apis/batch/v1/jobs": {"status.successful"},
	"/apis/certificates.k8s.io/v1/certificatesigningrequests": {"spec.signerName"},
	"/apis/resource.k8s.io/v1/resourceslices":                 {"spec.nodeName", "spec.driver"},
	"/apis/example.com/v1/ships":                              {"spec.text", "spec.flag", "spec.number", "spec.list"},
	"/api/v1/configmaps":                                      nil,
	"/apis/apps/v1/deployments":                               nil,
}

// ships are custom resources with selectable fields, and with columns of each type over values of each type.
const ships = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ships.example.com}
spec:
  group: example.com
  names: {kind: Ship, plural: ships, singular: ship}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    selectableFields: [{jsonPath: .spec.text}, {jsonPath: .spec.flag}, {jsonPath: .spec.number}]
    additionalPrinterColumns: [COLUMNS]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            x-kubernetes-preserve-unknown-fields: true
            properties: {text: {type: string}, flag: {type: boolean}, number: {type: integer}}
`

func columns() string {
	var all []string
	for _, of := range []string{"string", "integer", "number", "boolean", "date"} {
		for _, field := range []string{"text", "flag", "number", "fraction", "any", "list", "list[0]", "list[*].x", "nothing"} {
			all = append(all, fmt.Sprintf(`{name: "%s %s", type: %s, jsonPath: ".spec.%s"}`, of, field, of, field))
		}
	}
	return strings.Join(all, ", ")
}

// createLabelled creates objects of each kind with field labels.
func createLabelled(t *testing.T, r *rand.Rand, stock *framework.Stock) {
	t.Helper()
	ctx := t.Context()
	client, err := kubernetes.NewForConfig(stock.Admin())
	require.NoError(t, err)
	require.NoError(t, stock.Create(ctx, strings.Replace(ships, "COLUMNS", columns(), 1)))
	for i := range 40 {
		meta := metav1.ObjectMeta{Name: fmt.Sprintf("o-%d", i), Namespace: "default"}
		createPodAndOwners(ctx, t, r, client, meta)
		_, err := client.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretType(pick(r, odd...))}, metav1.CreateOptions{})
		require.NoError(t, err)
		service := corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}, Type: pick(r, corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort)}
		if service.Type == corev1.ServiceTypeClusterIP && r.IntN(2) == 0 {
			service.ClusterIP = "None"
		}
		_, err = client.CoreV1().Services("default").Create(ctx, &corev1.Service{ObjectMeta: meta, Spec: service}, metav1.CreateOptions{})
		require.NoError(t, err)
		text := func() string { return pick(r, odd...) }
		_, err = client.CoreV1().Events("default").Create(ctx, &corev1.Event{
			ObjectMeta: meta, Reason: text(), Type: pick(r, "", "Normal", "Warning"), ReportingController: pick(r, "", "", "a", "b"),
			Source: corev1.EventSource{Component: pick(r, "", "", "a", "c")}, Message: "m",
			InvolvedObject: corev1.ObjectReference{Kind: text(), Namespace: "default", Name: text(), UID: "u", APIVersion: text(), ResourceVersion: pick(r, "", "1"), FieldPath: pick(r, "", "spec.containers{web}")},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		createShip(ctx, t, r, stock, meta.Name)
		if i < 6 {
			createAuthority(ctx, t, r, client, meta.Name)
		}
	}
}

func createPodAndOwners(ctx context.Context, t *testing.T, r *rand.Rand, client kubernetes.Interface, meta metav1.ObjectMeta) {
	t.Helper()
	spec := corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "i"}}, NodeName: pick(r, "", "node-1"), RestartPolicy: pick(r, corev1.RestartPolicyAlways, corev1.RestartPolicyNever),
		SchedulerName: pick(r, "", "other"), ServiceAccountName: pick(r, "", "a"), HostNetwork: r.IntN(2) == 0,
	}
	pod, err := client.CoreV1().Pods("default").Create(ctx, &corev1.Pod{ObjectMeta: meta, Spec: spec}, metav1.CreateOptions{})
	require.NoError(t, err)
	pod.Status.Phase = pick(r, corev1.PodPending, corev1.PodRunning, "")
	if ip := pick(r, "", "10.0.0.1", "fd00::1"); ip != "" {
		pod.Status.PodIP, pod.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	}
	if spec.NodeName == "" {
		pod.Status.NominatedNodeName = pick(r, "", "node-1")
	}
	_, err = client.CoreV1().Pods("default").UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	require.NoError(t, err)

	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: corev1.PodSpec{Containers: spec.Containers}}
	controller, err := client.CoreV1().ReplicationControllers("default").Create(ctx, &corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Template: &template}}, metav1.CreateOptions{})
	require.NoError(t, err)
	controller.Status.Replicas = pick[int32](r, 0, 1, 2)
	_, err = client.CoreV1().ReplicationControllers("default").UpdateStatus(ctx, controller, metav1.UpdateOptions{})
	require.NoError(t, err)

	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	job, err := client.BatchV1().Jobs("default").Create(ctx, &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: template}}, metav1.CreateOptions{})
	require.NoError(t, err)
	job.Status.StartTime = new(metav1.NewTime(time.Now().Add(-time.Hour)))
	job.Status.Succeeded = pick[int32](r, 0, 1, 2)
	_, err = client.BatchV1().Jobs("default").UpdateStatus(ctx, job, metav1.UpdateOptions{})
	require.NoError(t, err)
}

func createShip(ctx context.Context, t *testing.T, r *rand.Rand, stock *framework.Stock, name string) {
	t.Helper()
	spec := map[string]any{}
	for field, value := range map[string]any{
		"text": pick(r, odd...), "flag": r.IntN(2) == 0, "number": pick(r, 0, 1, -1, 2147483648, 9007199254740993, -9223372036854775808),
		"fraction": json.Number(pick(r, "0.5", "1e21", "1e-7", "2147483648.0", "52.520006599999995")),
		"any":      pick[any](r, nil, "a", true, 2147483648, 0.5, "2026-01-01T00:00:00Z", map[string]any{"x": 2147483648}, []any{1, "a"}),
		"list":     pick[any](r, []any{}, []any{2147483648, "a"}, []any{map[string]any{"x": 2147483648}, map[string]any{"x": "b"}}),
	} {
		if r.IntN(3) > 0 {
			spec[field] = value
		}
	}
	text, err := json.Marshal(map[string]any{"apiVersion": "example.com/v1", "kind": "Ship", "metadata": map[string]any{"name": name, "namespace": "default"}, "spec": spec})
	require.NoError(t, err)
	require.NoError(t, stock.Create(ctx, string(text)))
}

// createAuthority creates what belongs to no namespace.
func createAuthority(ctx context.Context, t *testing.T, r *rand.Rand, client kubernetes.Interface, name string) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: name}
	_, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: meta, Spec: corev1.NodeSpec{Unschedulable: r.IntN(2) == 0}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: meta}, metav1.CreateOptions{})
	require.NoError(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), cryptorand.Reader)
	require.NoError(t, err)
	request, err := x509.CreateCertificateRequest(cryptorand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	require.NoError(t, err)
	_, err = client.CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{ObjectMeta: meta, Spec: certificatesv1.CertificateSigningRequestSpec{
		Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}), SignerName: pick(r, "example.com/a", "example.com/b"), Usages: []certificatesv1.KeyUsage{"digital signature"},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	slice := resourcev1.ResourceSliceSpec{Driver: pick(r, "a.example.com", "b.example.com"), Pool: resourcev1.ResourcePool{Name: "p", ResourceSliceCount: 1}}
	if r.IntN(2) == 0 {
		slice.NodeName = new("node-1")
	} else {
		slice.AllNodes = new(true)
	}
	_, err = client.ResourceV1().ResourceSlices().Create(ctx, &resourcev1.ResourceSlice{ObjectMeta: meta, Spec: slice}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// startLabelled starts a kube-apiserver with such objects as a member of search, and returns when search has copied them.
func startLabelled(t *testing.T, r *rand.Rand) (stock *framework.Stock, below string) {
	t.Helper()
	stock, err := environment.StartStock(t.Context(), framework.StockOptions{Args: []string{"--disable-admission-plugins=ServiceAccount"}})
	require.NoError(t, err)
	createLabelled(t, r, stock)
	addCluster(t, "labelled", kubeconfig(t, stock.Admin()),
		map[string]any{"group": "", "resources": []any{"pods", "nodes", "replicationcontrollers", "namespaces", "secrets", "services", "events", "configmaps"}},
		map[string]any{"group": "batch", "resources": []any{"jobs"}}, map[string]any{"group": "events.k8s.io", "resources": []any{"events"}},
		map[string]any{"group": "apps", "resources": []any{"deployments"}}, map[string]any{"group": "certificates.k8s.io", "resources": []any{"certificatesigningrequests"}},
		map[string]any{"group": "resource.k8s.io", "resources": []any{"resourceslices"}}, map[string]any{"group": "example.com", "resources": []any{"ships"}})
	below = resources + "/clusters/labelled"
	for path := range labelled {
		framework.Eventually(t, "search has copied "+path, func(ctx context.Context) error {
			want, err := statesAt(ctx, stock.Admin(), path)
			if err != nil {
				return err
			}
			got, err := statesAt(ctx, fleet.Admin(), below+path)
			if err == nil && !slices.Equal(want, got) {
				err = fmt.Errorf("the member has %d objects, search %d", len(want), len(got))
			}
			return err
		})
	}
	return stock, below
}

// statesAt returns the objects of a list with their resourceVersions in the member.
func statesAt(ctx context.Context, config *rest.Config, path string) (states []string, err error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	text, err := client.RESTClient().Get().RequestURI(path).DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	var list metav1.PartialObjectMetadataList
	err = json.Unmarshal(text, &list)
	for _, item := range list.Items {
		version := item.Annotations[v1beta1.ResourceVersionAnnotation]
		if version == "" {
			version = item.ResourceVersion
		}
		states = append(states, item.Namespace+"/"+item.Name+" "+version)
	}
	slices.Sort(states)
	return states, err
}

// valuesOf returns values that a label of some objects has, and others.
func valuesOf(objects []map[string]any, label string) []string {
	values := append(slices.Clone(odd), "false", "true", "0", "1", "2", "default", "o-1")
	for _, object := range objects {
		value := any(object)
		for name := range strings.SplitSeq(label, ".") {
			fields, _ := value.(map[string]any)
			value = fields[name]
		}
		switch value.(type) {
		case nil, map[string]any, []any:
		default:
			values = append(values, fmt.Sprint(value), fmt.Sprint(value)) // more often than others
		}
	}
	return values
}

// TestFieldSelectorsFindWhatTheMemberFinds compares lists by random field selectors with those of a kube-apiserver.
func TestFieldSelectorsFindWhatTheMemberFinds(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	stock, below := startLabelled(t, r)
	t.Run("tables", func(t *testing.T) { compareTables(t, stock, below) })
	for path, labels := range labelled {
		text, err := rawGetFrom(t.Context(), stock.Admin(), path)
		require.NoError(t, err)
		var list struct{ Items []map[string]any }
		decoder := json.NewDecoder(strings.NewReader(string(text)))
		decoder.UseNumber()
		require.NoError(t, decoder.Decode(&list))
		labels := append(slices.Clone(labels), "metadata.name", "metadata.namespace")
		found, refused := 0, 0
		for range 40 + 20*len(labels) {
			var terms []string
			for range 1 + r.IntN(2) {
				label := pick(r, labels...)
				value := pick(r, valuesOf(list.Items, label)...)
				if r.IntN(10) > 0 {
					value = fields.EscapeValue(value)
				}
				terms = append(terms, label+pick(r, "=", "=", "==", "!=")+value)
			}
			selector := strings.Join(terms, pick(r, ",", ",", ",,", ", "))
			query := "?fieldSelector=" + url.QueryEscape(selector)
			want, err := get(t.Context(), stock.Admin(), path+query)
			if apierrors.IsBadRequest(err) {
				refused++
				continue
			}
			require.NoError(t, err)
			got, err := get(t.Context(), fleet.Admin(), below+path+query)
			require.NoError(t, err, "seed %d, %s of %s", seed, selector, path)
			slices.Sort(want)
			slices.Sort(got)
			require.Equal(t, want, got, "seed %d, %q of %s", seed, selector, path)
			found += len(got)
		}
		t.Logf("%s: %d objects found, %d selectors refused by the member", path, found, refused)
		if len(list.Items) > 0 {
			assert.Positive(t, found, "no selector finds any of %s: seed %d", path, seed)
		}
	}
}

func rawGetFrom(ctx context.Context, config *rest.Config, path string) ([]byte, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return client.RESTClient().Get().RequestURI(path).DoRaw(ctx)
}

// compareTables compares the tables of both, but for the columns that the time of the request changes.
func compareTables(t *testing.T, stock *framework.Stock, below string) {
	t.Helper()
	for path := range labelled {
		want, err := tableAt(t.Context(), stock.Admin(), path)
		require.NoError(t, err)
		got, err := tableAt(t.Context(), fleet.Admin(), below+path)
		require.NoError(t, err)
		assert.Equal(t, want, got, path)
	}
}

// tableAt returns the lines of a table, sorted, after the names and types of its columns. It has no column for the cluster.
func tableAt(ctx context.Context, config *rest.Config, path string) (lines []string, err error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	text, err := client.RESTClient().Get().RequestURI(path).SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	var table struct {
		ColumnDefinitions []metav1.TableColumnDefinition
		Rows              []struct{ Cells []json.RawMessage }
	}
	if err := json.Unmarshal(text, &table); err != nil {
		return nil, err
	}
	columns := ""
	kept := func(i int) bool {
		return !slices.Contains([]string{"Cluster", "Age", "Last Seen", "First Seen", "Duration", "Created At"}, table.ColumnDefinitions[i].Name) && table.ColumnDefinitions[i].Type != "date"
	}
	for i, c := range table.ColumnDefinitions {
		if kept(i) {
			columns += fmt.Sprintf("%s %s %s %d | ", c.Name, c.Type, c.Format, c.Priority)
		}
	}
	for _, row := range table.Rows {
		line := ""
		for i, cell := range row.Cells {
			if kept(i) {
				line += string(cell) + " | "
			}
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return append([]string{columns}, lines...), nil
}
