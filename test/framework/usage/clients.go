// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package usage has clients that use more of the API than package traffic: server-side apply, custom resources with conversion, admission
// webhooks, an API service, and discovery. A test has them go on while it changes the API server.
package usage

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"

	"github.com/tripod-k8s/tripod/test/framework"
)

// pause is the time between two uses of the API by one client.
const pause = 20 * time.Millisecond

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	flunders   = schema.GroupVersionResource{Group: "wardle.example.com", Version: "v1beta1", Resource: "flunders"}
	oldWidgets = schema.GroupVersionResource{Group: "widgets.example.com", Version: "v1", Resource: "widgets"}
	newWidgets = schema.GroupVersionResource{Group: "widgets.example.com", Version: "v2", Resource: "widgets"}
)

// Options are what clients need.
type Options struct {
	// Config is that of an administrator.
	Config *rest.Config
	// Host is the IP address at which the services reach webhooks of this process. Empty means 127.0.0.1.
	Host string
}

// Clients use the API until Stop.
type Clients struct {
	config    *rest.Config
	host      string
	namespace string
	client    dynamic.Interface
	uses      atomic.Int64
	// converted and reviewed count the calls of webhooks.
	converted, reviewed atomic.Int64

	working sync.WaitGroup
	cancel  context.CancelFunc
	watches []*follower

	mu       sync.Mutex
	failures []string
}

// Start starts clients, and returns when each has used the API once.
func Start(t testing.TB, o Options) *Clients {
	t.Helper()
	c := &Clients{config: rest.CopyConfig(o.Config), host: cmp.Or(o.Host, "127.0.0.1"), namespace: framework.UniqueName("usage")}
	c.config.QPS = -1
	c.config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &attempts{next: next, failed: c.fail} })
	var err error
	c.client, err = dynamic.NewForConfig(c.config)
	require.NoError(t, err)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}
	admin, err := kubernetes.NewForConfig(c.config)
	require.NoError(t, err)
	_, err = admin.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	require.NoError(t, err)
	c.startWebhooks(t, admin)
	served, err := c.discover(false)
	require.NoError(t, err)
	var ctx context.Context
	ctx, c.cancel = context.WithCancel(t.Context())
	t.Cleanup(c.Stop)
	// One version of widgets is written, and the other is watched.
	ofFlunders, ofWidgets := c.follow(t, flunders), c.follow(t, newWidgets)
	for _, u := range []*use{
		{name: "server-side apply", do: c.apply},
		{name: "an API service", do: c.useFlunders, seenBy: ofFlunders},
		{name: "conversion", do: c.convert, seenBy: ofWidgets},
		{name: "a webhook", do: c.admit},
		{name: "discovery", do: func(context.Context, string) error { return c.servesAll(served, false) }},
		// It takes a request for each group and version.
		{name: "discovery without aggregation", do: func(context.Context, string) error { return c.servesAll(served, true) }, pause: time.Second},
	} {
		require.NoError(t, c.once(ctx, u, "first"), u.name)
		c.working.Go(func() { c.repeat(ctx, u) })
	}
	return c
}

// use is what one client does again and again.
type use struct {
	name string
	// do uses an object of the given name, which is gone when it returns.
	do func(ctx context.Context, name string) error
	// seenBy is the watch that sees the objects, if any.
	seenBy *follower
	// pause is the time between two uses, if it is not the usual one.
	pause time.Duration
}

func (c *Clients) once(ctx context.Context, u *use, object string) error {
	if err := u.do(ctx, object); err != nil {
		return err
	}
	if u.seenBy != nil {
		u.seenBy.expect(object)
	}
	return nil
}

// fail records a failure.
func (c *Clients) fail(of string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures = append(c.failures, fmt.Sprintf("%s %s: %v", time.Now().Format("15:04:05.000"), of, err))
}

// String counts what the clients did.
func (c *Clients) String() string {
	return fmt.Sprintf("%d uses, %d conversions, %d reviews", c.uses.Load(), c.converted.Load(), c.reviewed.Load())
}

func (c *Clients) repeat(ctx context.Context, u *use) {
	for n := 0; ctx.Err() == nil; n++ {
		// A use that has begun comes to its end.
		if err := c.once(context.WithoutCancel(ctx), u, fmt.Sprint("object-", n)); err != nil {
			c.fail(u.name, err)
		}
		c.uses.Add(1)
		time.Sleep(cmp.Or(u.pause, pause))
	}
}

// Stop returns when each client has ended what it had begun, and watches have seen it.
func (c *Clients) Stop() {
	c.cancel()
	c.working.Wait()
	for _, f := range c.watches {
		f.stop(func(err error) { c.fail("the watch of "+f.resource, err) })
	}
	c.watches = nil
}

// Failures returns what failed so far.
func (c *Clients) Failures() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.failures)
}

// Object returns an object of a resource with fields.
func Object(resource schema.GroupVersionResource, kind, name string, fields map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	for field, value := range fields {
		o.Object[field] = value
	}
	o.SetAPIVersion(resource.GroupVersion().String())
	o.SetKind(kind)
	o.SetName(name)
	return o
}

// apply has two managers own fields of an object.
func (c *Clients) apply(ctx context.Context, name string) error {
	maps := c.client.Resource(configMaps).Namespace(c.namespace)
	for _, manager := range []string{"one", "other"} {
		o := Object(configMaps, "ConfigMap", "applied-"+name, map[string]any{"data": map[string]any{manager: "value"}})
		if _, err := maps.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: manager}); err != nil {
			return fmt.Errorf("apply: %w", err)
		}
	}
	stored, err := maps.Get(ctx, "applied-"+name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if data, _, _ := unstructured.NestedStringMap(stored.Object, "data"); len(data) != 2 || len(stored.GetManagedFields()) != 2 {
		return fmt.Errorf("after two managers, there is %v of %d", data, len(stored.GetManagedFields()))
	}
	return maps.Delete(ctx, "applied-"+name, metav1.DeleteOptions{})
}

func (c *Clients) useFlunders(ctx context.Context, name string) error {
	all := c.client.Resource(flunders).Namespace(c.namespace)
	o := Object(flunders, "Flunder", name, map[string]any{"spec": map[string]any{"flunderReference": "other", "referenceType": "Flunder"}})
	if _, err := all.Create(ctx, o, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := all.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		return err
	}
	return all.Delete(ctx, name, metav1.DeleteOptions{})
}

// convert writes one version of a custom resource and reads the other.
func (c *Clients) convert(ctx context.Context, name string) error {
	o := Object(oldWidgets, "Widget", name, map[string]any{"spec": map[string]any{"color": "red"}})
	if _, err := c.client.Resource(oldWidgets).Namespace(c.namespace).Create(ctx, o, metav1.CreateOptions{}); err != nil {
		return err
	}
	all := c.client.Resource(newWidgets).Namespace(c.namespace)
	got, err := all.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if color, _, _ := unstructured.NestedString(got.Object, "spec", "color"); color != "red" || got.GetAnnotations()["converted-to"] != got.GetAPIVersion() {
		return fmt.Errorf("converted to %v", got.Object)
	}
	return all.Delete(ctx, name, metav1.DeleteOptions{})
}

// admit creates an object that a webhook changes.
func (c *Clients) admit(ctx context.Context, name string) error {
	maps := c.client.Resource(configMaps).Namespace(c.namespace)
	o := Object(configMaps, "ConfigMap", "admitted-"+name, nil)
	o.SetLabels(map[string]string{"webhook": "yes"})
	got, err := maps.Create(ctx, o, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if got.GetAnnotations()["reviewed"] != "yes" {
		return fmt.Errorf("the webhook did not change %v", got.Object)
	}
	return maps.Delete(ctx, o.GetName(), metav1.DeleteOptions{})
}

// discover returns all resources that the API has with their verbs, by aggregated discovery or by the older form.
func (c *Clients) discover(older bool) ([]string, error) {
	client, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return nil, err
	}
	client.UseLegacyDiscovery = older
	_, lists, err := client.ServerGroupsAndResources()
	var all []string
	for _, list := range lists {
		for _, resource := range list.APIResources {
			verbs := slices.Sorted(slices.Values(resource.Verbs))
			all = append(all, fmt.Sprint(list.GroupVersion, "/", resource.Name, " ", verbs))
		}
	}
	return all, err
}

// servesAll expects that discovery has everything that it had at first. Both versions serve the same while the newer one emulates the
// older.
func (c *Clients) servesAll(first []string, older bool) error {
	now, err := c.discover(older)
	if err != nil {
		return err
	}
	for _, resource := range first {
		if !slices.Contains(now, resource) {
			return fmt.Errorf("discovery lacks %s", resource)
		}
	}
	return nil
}

// startWebhooks starts one that converts widgets, and one that annotates ConfigMaps with a label, and creates the objects that name them.
func (c *Clients) startWebhooks(t testing.TB, admin kubernetes.Interface) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		answer, err := c.answer(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // the test fails if the client does not get it
	}))
	ca, key, err := certutil.GenerateSelfSignedCertKey(c.host, []net.IP{net.ParseIP(c.host)}, nil)
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(ca, key)
	require.NoError(t, err)
	require.NoError(t, server.Listener.Close())
	server.Listener, err = net.Listen("tcp", net.JoinHostPort(c.host, "0"))
	require.NoError(t, err)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	url, none, fail := server.URL, admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail
	_, err = admin.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "annotate"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "annotate.example.com", SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"},
			ClientConfig:   admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: ca},
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"webhook": "yes"}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	crd, err := framework.Decode(definition(url, ca))
	require.NoError(t, err)
	for _, object := range crd {
		require.NoError(t, framework.CreateObject(t.Context(), c.client, object))
	}
}

// definition is the manifest of widgets, which have two versions.
func definition(url string, ca []byte) string {
	version := func(name string, stored bool) apiextensionsv1.CustomResourceDefinitionVersion {
		keep := true
		return apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: stored,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", XPreserveUnknownFields: &keep,
			}},
		}
	}
	data, err := json.Marshal(&apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.widgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: oldWidgets.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", true), version("v2", false)},
			Conversion: &apiextensionsv1.CustomResourceConversion{
				Strategy: apiextensionsv1.WebhookConverter,
				Webhook: &apiextensionsv1.WebhookConversion{
					ConversionReviewVersions: []string{"v1"},
					ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: &url, CABundle: ca},
				},
			},
		},
	})
	if err != nil {
		panic(err) // impossible: these types have JSON
	}
	return string(data)
}

// answer is the answer of either webhook.
func (c *Clients) answer(req *http.Request) (any, error) {
	var review struct {
		metav1.TypeMeta `json:",inline"`
		Request         json.RawMessage `json:"request"`
	}
	if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
		return nil, err
	}
	if review.Kind != "ConversionReview" {
		c.reviewed.Add(1)
		var request admissionv1.AdmissionRequest
		err := json.Unmarshal(review.Request, &request)
		patch := admissionv1.PatchTypeJSONPatch
		return admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: &admissionv1.AdmissionResponse{
			UID: request.UID, Allowed: true, PatchType: &patch,
			Patch: []byte(`[{"op":"add","path":"/metadata/annotations","value":{"reviewed":"yes"}}]`),
		}}, err
	}
	c.converted.Add(1)
	var request apiextensionsv1.ConversionRequest
	if err := json.Unmarshal(review.Request, &request); err != nil {
		return nil, err
	}
	answer := &apiextensionsv1.ConversionResponse{UID: request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, raw := range request.Objects {
		var o unstructured.Unstructured
		if err := o.UnmarshalJSON(raw.Raw); err != nil {
			return nil, err
		}
		o.SetAPIVersion(request.DesiredAPIVersion)
		o.SetAnnotations(map[string]string{"converted-to": request.DesiredAPIVersion})
		answer.ConvertedObjects = append(answer.ConvertedObjects, runtime.RawExtension{Object: &o})
	}
	return apiextensionsv1.ConversionReview{TypeMeta: review.TypeMeta, Response: answer}, nil
}
