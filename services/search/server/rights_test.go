// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"

	"github.com/tripod-k8s/tripod/services/search/rights"
	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/storetest"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// cluster is a hub whose policy a test knows, with members whose RBAC counts.
type cluster struct {
	*store.Store
	streams map[string]*streams.Stream
	rights  *rights.Rights
	// grants are what the policy of the hub allows: "USER VERB RESOURCE NAME". fails is why it cannot decide.
	granting sync.Mutex
	grants   []string
	fails    error
	// decisionInterval is that of watches, if it is not zero.
	decisionInterval time.Duration
}

// grant sets what the policy of the hub allows from now on.
func (c *cluster) grant(fails error, grants ...string) {
	c.granting.Lock()
	defer c.granting.Unlock()
	c.grants, c.fails = grants, fails
}

// newCluster has the objects of newStore. West has RBAC that counts, but without any objects.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	return newClusterAt(t, storetest.SQLite(t))
}

func newClusterAt(t *testing.T, location string) *cluster {
	t.Helper()
	c := &cluster{Store: newStoreAt(t, location), streams: map[string]*streams.Stream{}}
	c.rights = rights.New(c.Store)
	policy, err := rights.Policy{}.Encode()
	require.NoError(t, err)
	require.NoError(t, c.SetRights(t.Context(), "west", policy))
	for _, resource := range sets.List(rights.Resources) {
		kind := streams.Kind{GroupVersionResource: rbacv1.SchemeGroupVersion.WithResource(resource), Name: resource}
		c.streams[resource], err = c.OpenStream(t.Context(), "west", kind)
		require.NoError(t, err)
		require.NoError(t, c.Sweep(t.Context(), c.streams[resource], 0, "1"))
	}
	return c
}

func (c *cluster) write(t *testing.T, resource string, object metav1.Object, deleted bool) {
	t.Helper()
	text, err := json.Marshal(object)
	require.NoError(t, err)
	o := store.Object{Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetName(), ResourceVersion: string(text), JSON: text}
	require.NoError(t, c.Write(t.Context(), c.streams[resource], store.Batch{Changes: []store.Change{{Object: o, Deleted: deleted}}}))
}

// allow binds a user to rules: in a namespace of west, or everywhere if it is empty.
func (c *cluster) allow(t *testing.T, name, namespace string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	c.write(t, "clusterroles", &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, false)
	c.bind(t, name, namespace, false)
}

func (c *cluster) bind(t *testing.T, name, namespace string, deleted bool) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: name, Namespace: namespace}
	to, subjects := rbacv1.RoleRef{Kind: "ClusterRole", Name: name}, []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: name}}
	if namespace == "" {
		c.write(t, "clusterrolebindings", &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: to, Subjects: subjects}, deleted)
	} else {
		c.write(t, "rolebindings", &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: to, Subjects: subjects}, deleted)
	}
}

// Authorize implements authorizer.Authorizer: it is the policy of the hub.
func (c *cluster) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	c.granting.Lock()
	defer c.granting.Unlock()
	if c.fails != nil {
		return authorizer.DecisionNoOpinion, "", c.fails
	}
	resource := a.GetResource()
	if a.GetSubresource() != "" {
		resource += "/" + a.GetSubresource()
	}
	if !a.IsResourceRequest() || slices.Contains(c.grants, strings.TrimSpace(a.GetUser().GetName()+" "+a.GetVerb()+" "+resource+" "+a.GetName())) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// revision returns the last revision, as a resourceVersion.
func (c *cluster) revision(t *testing.T) string {
	t.Helper()
	revision, err := c.Revision(t.Context())
	require.NoError(t, err)
	return strconv.FormatInt(revision, 10)
}

// as sends a request by a user through authorization and the handler.
func (c *cluster) as(t *testing.T, name, path string) (*httptest.ResponseRecorder, []string) {
	t.Helper()
	answer := httptest.NewRecorder()
	return answer, c.answer(t, name, path, answer)
}

// answer does the same, and writes the answer somewhere.
func (c *cluster) answer(t *testing.T, name, path string, answer http.ResponseWriter) (warnings []string) {
	t.Helper()
	return c.send(t, name, httptest.NewRequest(http.MethodGet, "/apis/clusterpedia.io/v1beta1/"+path, nil), answer)
}

// send sends any request.
func (c *cluster) send(t *testing.T, name string, req *http.Request, answer http.ResponseWriter) (warnings []string) {
	t.Helper()
	reader, recorder := &user.DefaultInfo{Name: name, Groups: []string{user.AllAuthenticated}}, &recorded{}
	handler := NewHandler(c.Store, c.rights, http.NotFoundHandler())
	handler.decisionInterval = cmp.Or(c.decisionInterval, handler.decisionInterval)
	chain := WithRequestState(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		outer, err := infos.NewRequestInfo(req)
		require.NoError(t, err)
		ctx := request.WithRequestInfo(request.WithUser(req.Context(), reader), RequestInfo(req, outer))
		attributes, err := genericapifilters.GetAuthorizerAttributes(ctx)
		require.NoError(t, err)
		decision, reason, err := NewAuthorizer(c, c.rights).Authorize(ctx, attributes)
		require.NoError(t, err)
		if decision != authorizer.DecisionAllow {
			http.Error(w, reason, http.StatusForbidden)
			return
		}
		handler.ServeHTTP(w, req.WithContext(warning.WithWarningRecorder(ctx, recorder)))
	}))
	chain.ServeHTTP(answer, req)
	return recorder.warnings
}

// opening is the answer of a watch, and reports when that begins.
type opening struct {
	*httptest.ResponseRecorder
	begun func()
}

func (o opening) Flush() { o.begun() }

func rule(verb, resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{"*"}, Resources: []string{resource}, ResourceNames: names}
}

// TestWhoMaySeeWhat has the table of docs/search-reference.md. West's RBAC counts, and east's does not.
func TestWhoMaySeeWhat(t *testing.T) {
	c := newCluster(t)
	c.allow(t, "everywhere", "", rule("list", "*"), rule("get", "pods"))
	c.allow(t, "inside", "default", rule("list", "pods"), rule("get", "pods"))
	c.allow(t, "elsewhere", "other", rule("list", "pods"))
	c.allow(t, "one", "default", rule("list", "pods", "web-2"), rule("get", "pods", "web-2"), rule("get", "pods", "gone"))
	c.allow(t, "logs", "", rule("list", "pods/log"))
	c.allow(t, "writer", "", rule("create", "*"))
	c.allow(t, "both", "default", rule("list", "pods"))
	c.allow(t, "counter", "default", rule("list", "pods", "web-1"))
	c.grants = []string{"granted list resources east", "kind list resources/pods west", "both list resources east", "admin list resources", "admin get collectionresources any"}
	const pods, deployments = "api/v1/pods", "apis/apps/v1/deployments"
	for _, test := range []struct {
		user, path string
		code       int
		want       []string
	}{
		{"everywhere", "resources/" + pods, 200, []string{"west/web-1", "west/web-2"}},
		{"everywhere", "resources/" + deployments, 200, []string{"west/web"}},
		{"everywhere", "resources/clusters/east/" + deployments, 403, nil},
		{"everywhere", "resources/" + deployments + "?clusters=east,west", 403, nil},
		{"everywhere", "resources/clusters/west/api/v1/nodes", 200, []string{"west/n"}},
		{"everywhere", "resources/clusters/west/api/v1/nodes/n", 403, nil},
		{"inside", "resources/" + pods, 200, []string{"west/web-1", "west/web-2"}},
		{"inside", "resources/clusters/west/api/v1/namespaces/other/pods", 403, nil},
		{"inside", "resources/" + deployments, 403, nil},
		{"inside", "resources/clusters/west/api/v1/namespaces/default/pods/web-1", 200, nil},
		{"inside", "resources/clusters/west/api/v1/namespaces/default/pods/none", 404, nil},
		{"inside", "resources/clusters/west/api/v1/namespaces/other/pods/none", 403, nil},
		{"inside", "resources/" + pods + "?ownerName=web", 200, nil},
		{"elsewhere", "resources/" + pods, 200, nil},
		{"one", "resources/" + pods, 200, []string{"west/web-2"}},
		{"one", "resources/" + pods + "?limit=1", 200, []string{"west/web-2"}},
		{"one", "resources/" + pods + "?labelSelector=search.clusterpedia.io/fuzzy-name=web", 200, []string{"west/web-2"}},
		{"one", "resources/" + pods + "?words=WEB+west+pod", 200, []string{"west/web-2"}},
		{"one", "resources/" + pods + "?words=web-1", 200, nil},
		{"one", "resources/clusters/west/api/v1/namespaces/default/pods/web-2", 200, nil},
		{"one", "resources/clusters/west/api/v1/namespaces/default/pods/web-1", 403, nil},
		{"one", "resources/clusters/west/api/v1/namespaces/default/pods/gone", 404, nil},
		{"logs", "resources/" + pods, 403, nil},
		{"writer", "resources/" + pods, 403, nil},
		{"nobody", "resources/" + pods, 403, nil},
		{"nobody", "resources/clusters/nowhere/" + pods, 403, nil},
		{"nobody", "collectionresources/any?groups=*", 403, nil},
		{"granted", "resources/clusters/east/" + deployments, 200, []string{"east/db", "east/web"}},
		{"granted", "resources/" + deployments + "?clusters=east", 200, []string{"east/db", "east/web"}},
		{"granted", "resources/" + deployments, 403, nil},
		{"kind", "resources/clusters/west/" + pods, 200, []string{"west/web-1", "west/web-2"}},
		{"both", "resources/" + pods + "?clusters=east,west", 200, []string{"west/web-1", "west/web-2"}},
		{"admin", "resources/" + deployments, 200, []string{"east/db", "east/web", "west/web"}},
	} {
		answer, _ := c.as(t, test.user, test.path)
		if !assert.Equal(t, test.code, answer.Code, "%s: %s: %s", test.user, test.path, answer.Body) || test.code != 200 || strings.Contains(test.path, "/pods/") {
			continue
		}
		names, list := namesIn(t, answer)
		assert.Equal(t, test.want, names, "%s: %s", test.user, test.path)
		if list.RemainingItemCount != nil {
			assert.Zero(t, *list.RemainingItemCount, "%s: %s", test.user, test.path)
		}
	}
	for user, want := range map[string]int{"one": 1, "inside": 2, "everywhere": 12, "admin": 14} {
		answer, _ := c.as(t, user, "collectionresources/any?groups=*")
		require.Equal(t, http.StatusOK, answer.Code)
		var found struct{ Items []json.RawMessage }
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &found))
		assert.Greater(t, len(found.Items), 0, user)
		if want < 10 {
			assert.Len(t, found.Items, want, user)
		}
	}
}

// TestDiscoveryTellsNothingOfOtherClusters holds for the names of clusters, their resources and their schemas.
func TestDiscoveryTellsNothingOfOtherClusters(t *testing.T) {
	c := newCluster(t)
	c.allow(t, "inside", "default", rule("get", "pods"))
	require.NoError(t, c.PutSchema(t.Context(), "east", "apis/apps/v1", "1", []byte(`{"of": "east"}`)))
	require.NoError(t, c.PutSchema(t.Context(), "west", "api/v1", "1", []byte(`{"of": "west"}`)))
	c.grants = []string{"admin list resources", "eastern list resources east"}
	get := func(user, path string) (int, string) {
		answer, _ := c.as(t, user, "resources/"+path)
		return answer.Code, answer.Body.String()
	}
	_, text := get("nobody", "clusters")
	assert.Contains(t, text, `"west"`, "search does not know the grants of the hub, so it hides nothing")

	policy, err := rights.Policy{Home: true}.Encode()
	require.NoError(t, err)
	require.NoError(t, c.SetRights(t.Context(), "west", policy)) // which is the hub now
	require.NoError(t, c.rights.Refresh(t.Context()))
	for _, test := range []struct {
		user, path string
		code       int
		has, lacks string
	}{
		{"inside", "clusters", 200, `"west"`, `"east"`},
		{"inside", "clusters/west/api/v1", 200, `"pods"`, ""},
		{"inside", "clusters/east/apis", 404, `cluster \"east\" is not searched`, ""},
		{"inside", "clusters/none/apis", 404, `cluster \"none\" is not searched`, ""},
		{"inside", "clusters/east/openapi/v3", 404, "is not searched", ""},
		{"inside", "openapi/v3", 200, "api/v1", "apis/apps/v1"},
		{"inside", "openapi/v3/apis/apps/v1", 404, "no cluster has", ""},
		{"nobody", "clusters", 200, `"items":[]`, `"west"`},
		{"nobody", "apis", 200, `"groups":[]`, "apps"},
		{"nobody", "clusters/west/apis", 404, "is not searched", ""},
		{"eastern", "clusters/east/apis", 200, "apps", ""},
		{"admin", "clusters", 200, `"east"`, ""},
		{"admin", "openapi/v3", 200, "apis/apps/v1", ""},
		{"admin", "api/v1", 200, `"pods"`, ""},
	} {
		code, text := get(test.user, test.path)
		assert.Equal(t, test.code, code, "%s: %s: %s", test.user, test.path, text)
		assert.Contains(t, text, test.has, "%s: %s", test.user, test.path)
		if test.lacks != "" {
			assert.NotContains(t, text, test.lacks, "%s: %s", test.user, test.path)
		}
	}
}

// TestARevokedRightIsOutOfForceAtOnce needs no wait: the next search reads it in the database.
func TestARevokedRightIsOutOfForceAtOnce(t *testing.T) {
	c := newCluster(t)
	c.allow(t, "inside", "default", rule("list", "pods"), rule("get", "pods"))
	const list, get = "resources/api/v1/pods", "resources/clusters/west/api/v1/namespaces/default/pods/web-1"
	for range 3 {
		for _, path := range []string{list, get} {
			answer, _ := c.as(t, "inside", path)
			assert.Equal(t, http.StatusOK, answer.Code, "%s", answer.Body)
		}
		c.bind(t, "inside", "default", true)
		answer, _ := c.as(t, "inside", list)
		if answer.Code == http.StatusOK { // it was authorized by what was known before
			names, _ := namesIn(t, answer)
			assert.Empty(t, names)
		}
		for _, path := range []string{list, get} {
			answer, _ := c.as(t, "inside", path)
			assert.Equal(t, http.StatusForbidden, answer.Code, "%s", answer.Body)
		}
		c.bind(t, "inside", "default", false)
		require.NoError(t, c.rights.Refresh(t.Context()))
	}
}

// TestWarningsNameNoClusterThatAReaderDoesNotSee holds for clusters that are not complete.
func TestWarningsNameNoClusterThatAReaderDoesNotSee(t *testing.T) {
	c := newCluster(t)
	c.allow(t, "inside", "default", rule("list", "pods"), rule("watch", "pods"))
	kinds, err := c.Kinds(t.Context(), "west")
	require.NoError(t, err)
	pods := kinds[slices.IndexFunc(kinds, func(k streams.Kind) bool { return k.Resource == "pods" })]
	_, err = c.OpenStream(t.Context(), "north", pods)
	require.NoError(t, err)
	c.grants = []string{"admin list resources", "admin watch resources"}
	_, warnings := c.as(t, "admin", "resources/api/v1/pods")
	assert.Len(t, warnings, 1)
	_, warnings = c.as(t, "inside", "resources/api/v1/pods")
	assert.Empty(t, warnings)
	for name, want := range map[string]int{"admin": http.StatusServiceUnavailable, "inside": http.StatusOK} {
		answer, _ := c.as(t, name, "resources/api/v1/pods?watch=true&timeoutSeconds=1&maxStaleness=1h&resourceVersion="+c.revision(t))
		assert.Equal(t, want, answer.Code, "%s: %s", name, answer.Body)
		assert.Equal(t, want != http.StatusOK, strings.Contains(answer.Body.String(), "north"), name)
	}
}

// TestEventsOfAnObjectNeedARightOfTheirOwn holds for readers by the RBAC of the cluster.
func TestEventsOfAnObjectNeedARightOfTheirOwn(t *testing.T) {
	c := newCluster(t)
	stream, err := c.OpenStream(t.Context(), "west", streams.InvolvedEvents)
	require.NoError(t, err)
	require.NoError(t, c.Write(t.Context(), stream, store.Batch{Changes: []store.Change{{Object: store.Object{
		Namespace: "default", Name: "e", UID: "e", JSON: []byte(`{"kind": "Event", "apiVersion": "v1", "metadata": {"name": "e", "namespace": "default"}}`),
		Involved: &store.Involved{Kind: "Pod", Namespace: "default", Name: "web-1", UID: "web-1", SeenAt: 1},
	}}}}))
	c.allow(t, "pods", "default", rule("list", "pods"))
	c.allow(t, "events", "default", rule("list", "pods"), rbacv1.PolicyRule{Verbs: []string{"list"}, APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}})
	c.allow(t, "others", "default", rule("list", "pods"), rule("list", "events", "f"))
	c.grants = []string{"admin list resources", "kind list resources/pods"}
	for user, want := range map[string]bool{"pods": false, "events": true, "others": false, "admin": true, "kind": true} {
		answer, _ := c.as(t, user, "resources/api/v1/pods?injectEvents=true&names=web-1")
		var pods corev1.PodList
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &pods), "%s", answer.Body)
		require.Len(t, pods.Items, 1, user)
		_, has := pods.Items[0].Annotations[eventsAnnotation]
		assert.Equal(t, want, has, user)
	}
}

func TestAWatchShowsWhatTheReaderMaySeeAndEndsWhenThatChanges(t *testing.T) {
	c := newCluster(t)
	c.allow(t, "one", "default", rule("watch", "pods", "web-2"))
	c.allow(t, "other", "default", rule("watch", "pods"))
	c.allow(t, "lister", "", rule("list", "*"))
	const path = "resources/api/v1/pods?watch=true&timeoutSeconds="
	answer, _ := c.as(t, "lister", path+"1")
	assert.Equal(t, http.StatusForbidden, answer.Code)
	answer, _ = c.as(t, "one", path+"1")
	require.Equal(t, http.StatusOK, answer.Code)
	assert.Equal(t, 1, strings.Count(answer.Body.String(), "ADDED"), answer.Body)
	assert.Contains(t, answer.Body.String(), `"web-2"`)

	known, ended := c.revision(t), make(chan string)
	for _, name := range []string{"one", "other"} {
		begun := make(chan struct{})
		go func() {
			answer := opening{httptest.NewRecorder(), sync.OnceFunc(func() { close(begun) })}
			c.answer(t, name, path+"60&resourceVersion="+known, answer)
			ended <- answer.Body.String()
		}()
		<-begun
	}
	c.bind(t, "one", "default", true)
	assert.Contains(t, <-ended, `"reason":"Expired"`, "the watch of who may see nothing any more")
	c.allow(t, "other", "", rule("watch", "pods"))
	assert.Contains(t, <-ended, `"reason":"Expired"`, "the watch of who may see more")

	for from, code := range map[string]int{known: http.StatusGone, c.revision(t): http.StatusOK} {
		answer, _ := c.as(t, "other", path+"1&resourceVersion="+from)
		assert.Equal(t, code, answer.Code, "rights have changed since %s: %s", from, answer.Body)
	}
}

// TestAWatchEndsWhenTheHubRevokesItsGrant holds for grants of everything, of one resource, and for a reader whom the cluster itself lets
// see less.
func TestAWatchEndsWhenTheHubRevokesItsGrant(t *testing.T) {
	c := newCluster(t)
	c.decisionInterval = time.Millisecond
	c.allow(t, "less", "default", rule("watch", "pods", "web-2"))
	all := []string{"all watch resources", "one watch resources west", "kind watch resources/pods west", "less watch resources west"}
	c.grant(nil, all...)
	paths := map[string]string{"all": "resources/api/v1/pods", "one": "resources/clusters/west/api/v1/pods", "kind": "resources/clusters/west/api/v1/pods", "less": "resources/clusters/west/api/v1/pods"}
	ended := map[string]chan string{}
	for name, path := range paths {
		begun, end := make(chan struct{}), make(chan string, 1)
		ended[name] = end
		go func() {
			answer := opening{httptest.NewRecorder(), sync.OnceFunc(func() { close(begun) })}
			c.answer(t, name, path+"?watch=true&timeoutSeconds=60", answer)
			end <- answer.Body.String()
		}()
		<-begun
	}
	c.grant(errors.New("core is away"), all...)
	for i, name := range []string{"all", "one", "kind", "less"} {
		c.grant(nil, all[i+1:]...)
		assert.Contains(t, <-ended[name], `"reason":"Expired"`, name)
		for _, other := range []string{"all", "one", "kind", "less"}[i+1:] {
			select {
			case text := <-ended[other]:
				t.Errorf("the watch of %s has ended, too: %s", other, text)
			default:
			}
		}
	}
}

func TestNoWatchIsForEver(t *testing.T) {
	for seconds, want := range map[int64]time.Duration{1: time.Second, 3600: time.Hour, 3601: time.Hour, math.MaxInt64: time.Hour} {
		assert.Equal(t, want, watchTimeout(&metav1.ListOptions{TimeoutSeconds: &seconds}))
	}
	assert.LessOrEqual(t, watchTimeout(&metav1.ListOptions{}), time.Hour)
}

// TestErrorsOfRightsNameNoCluster holds while the rights cannot be read at all.
func TestErrorsOfRightsNameNoCluster(t *testing.T) {
	c := newCluster(t)
	require.NoError(t, c.Close())
	hub := NewAuthorizer(c, c.rights)
	_, _, err := hub.Authorize(withRequestState(t.Context()), authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: "eve"}, Verb: "list", Resource: "pods", APIVersion: "v1", ResourceRequest: true, Path: "/apis/clusterpedia.io/v1beta1/resources/api/v1/pods",
	})
	require.ErrorIs(t, err, rights.ErrUnread)
	assert.NotContains(t, err.Error(), "west")
}
