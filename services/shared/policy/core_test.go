// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"net"
	"net/http"
	"path"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// fakeCore serves RBAC objects to informers, and decides what nodes may do. It can die and come back.
type fakeCore struct {
	t       *testing.T
	address string

	mu     sync.Mutex
	events []event
	// changed is closed and replaced at each event.
	changed chan struct{}
	// asked are the paths of requests.
	asked  []string
	server *http.Server
	// allowed are the names of objects with which nodes may do what they ask for, and reviews what was asked.
	allowed []string
	reviews []authorizationv1.SubjectAccessReviewSpec
}

// event is a line of a watch.
type event struct {
	Type     string `json:"type"`
	Object   any    `json:"object"`
	resource string
}

// newFakeCore returns a core that is away.
func newFakeCore(t *testing.T) *fakeCore {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &fakeCore{t: t, address: listener.Addr().String(), changed: make(chan struct{})}
	require.NoError(t, listener.Close())
	return c
}

func (c *fakeCore) config() *rest.Config {
	return &rest.Config{Host: "http://" + c.address, QPS: -1}
}

func (c *fakeCore) start() {
	c.t.Helper()
	listener, err := net.Listen("tcp", c.address)
	if err != nil {
		c.t.Fatal(err)
	}
	c.server = &http.Server{Handler: c}
	go c.server.Serve(listener) //nolint:errcheck // it ends when it is closed
	c.t.Cleanup(c.die)
}

// die breaks all connections.
func (c *fakeCore) die() {
	c.server.Close()
}

// emit sends watches a change. The resourceVersion of the object is the number of the event.
func (c *fakeCore) emit(kind, resource string, object metav1.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	object.SetResourceVersion(strconv.Itoa(len(c.events) + 1))
	c.events = append(c.events, event{Type: kind, Object: object, resource: resource})
	close(c.changed)
	c.changed = make(chan struct{})
}

// since returns the events of a resource after the first n, how many events there are, and what is closed at the next.
func (c *fakeCore) since(n int, resource string) ([]event, int, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var events []event
	for _, e := range c.events[n:] {
		if e.resource == resource {
			events = append(events, e)
		}
	}
	return events, len(c.events), c.changed
}

func (c *fakeCore) askedFor() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := slices.Clone(c.asked)
	slices.Sort(asked)
	return slices.Compact(asked)
}

// allow changes with which objects nodes may do what they ask for.
func (c *fakeCore) allow(names ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.allowed = names
}

// reviewed returns what was asked.
func (c *fakeCore) reviewed() []authorizationv1.SubjectAccessReviewSpec {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.reviews)
}

// review answers a SubjectAccessReview.
func (c *fakeCore) review(w http.ResponseWriter, req *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var review authorizationv1.SubjectAccessReview
	if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.reviews = append(c.reviews, review.Spec)
	review.Status.Allowed = slices.Contains(c.allowed, review.Spec.ResourceAttributes.Name)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	json.NewEncoder(w).Encode(review) //nolint:errcheck // who asked is gone
}

// ServeHTTP streams a list and what changes after it, or only that, and answers SubjectAccessReviews.
func (c *fakeCore) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	c.mu.Lock()
	c.asked = append(c.asked, req.URL.Path)
	c.mu.Unlock()
	if req.URL.Path == "/apis/authorization.k8s.io/v1/subjectaccessreviews" {
		c.review(w, req)
		return
	}
	query, resource := req.URL.Query(), path.Base(req.URL.Path)
	if query.Get("watch") == "" {
		http.Error(w, "informers stream their lists", http.StatusNotImplemented)
		return
	}
	n, _ := strconv.Atoi(query.Get("resourceVersion"))
	initial := query.Get("sendInitialEvents") == "true"
	if initial {
		n = 0
	}
	w.Header().Set("Content-Type", "application/json")
	lines := json.NewEncoder(w)
	for {
		events, version, changed := c.since(n, resource)
		n = version
		if initial {
			events, initial = list(resource, events, version), false
		}
		for _, e := range events {
			if lines.Encode(e) != nil {
				return
			}
		}
		w.(http.Flusher).Flush()
		select {
		case <-req.Context().Done():
			return
		case <-changed:
		}
	}
}

// list returns the events by which a watch begins that lists what there is.
func list(resource string, events []event, version int) []event {
	objects := map[string]any{}
	for _, e := range events {
		object := e.Object.(metav1.Object)
		key := object.GetNamespace() + "/" + object.GetName()
		if objects[key] = e.Object; e.Type == "DELETED" {
			delete(objects, key)
		}
	}
	var result []event
	for _, object := range objects {
		result = append(result, event{Type: "ADDED", Object: object})
	}
	return append(result, event{Type: "BOOKMARK", Object: metav1.PartialObjectMetadata{
		TypeMeta: typeOf(kinds[resource]),
		ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: strconv.Itoa(version),
			Annotations:     map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		},
	}})
}

var kinds = map[string]string{
	"roles": "Role", "rolebindings": "RoleBinding", "clusterroles": "ClusterRole", "clusterrolebindings": "ClusterRoleBinding",
}

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

// widgetReader is a ClusterRole that may read widgets.
func widgetReader() *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		TypeMeta:   typeOf("ClusterRole"),
		ObjectMeta: metav1.ObjectMeta{Name: "widget-reader"},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{"example.com"}, Resources: []string{"widgets"}}},
	}
}

// bindingOf gives a user that role in the namespace "default".
func bindingOf(user string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta:   typeOf("RoleBinding"),
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "widget-reader"},
	}
}
