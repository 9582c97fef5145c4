// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	resources         = "/apis/clusterpedia.io/v1beta1/resources"
	clusterAnnotation = "shadow.clusterpedia.io/cluster-name"
	table             = "application/json;as=Table;g=meta.k8s.io;v=v1"
)

// get returns an answer of search.
func get(ctx context.Context, config *rest.Config, path, accept string) ([]byte, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return client.RESTClient().Get().RequestURI(path).SetHeader("Accept", cmp.Or(accept, "application/json")).DoRaw(ctx)
}

// question is one whose answer the honest clusters know.
type question struct {
	user, path, accept string
	// want is CLUSTER NAMESPACE/NAME of objects, KIND RESOURCE NAMESPACED SHORTNAMES in discovery of a group, and GROUP in that of groups.
	want []string
}

// circumstance is when an answer was given, and about what.
type circumstance struct {
	lying bool
	// everywhere is set if the question is about all clusters. Then search has to look at what liars have as well, which the asker may read.
	everywhere bool
}

func (c circumstance) String() string {
	return fmt.Sprintf("%s, %s",
		map[bool]string{true: "about all clusters", false: "about an honest cluster"}[c.everywhere], map[bool]string{true: "beside lies", false: "without lies"}[c.lying])
}

func (q question) in(lying bool) circumstance {
	return circumstance{lying: lying, everywhere: !strings.HasPrefix(q.path, "/clusters/")}
}

// probe asks search about the honest clusters all the time.
type probe struct {
	scene     *scene
	questions []question
	clients   map[string]*http.Client
	lying     atomic.Bool
	asked     atomic.Int64
	done      chan struct{}
	end       context.CancelFunc

	mu     sync.Mutex
	errors []error
	times  map[circumstance][]time.Duration
}

// startProbe asks the clusters for the right answers, waits until search gives them, and then goes on asking.
func startProbe(t *testing.T, s *scene) *probe {
	t.Helper()
	p := &probe{scene: s, done: make(chan struct{}), times: map[circumstance][]time.Duration{}, clients: map[string]*http.Client{}}
	for user, config := range map[string]*rest.Config{"": s.Admin(), reader: s.as(reader)} {
		config.Timeout = time.Minute // it only ends a test that would never end
		client, err := rest.HTTPClientFor(config)
		require.NoError(t, err)
		p.clients[user] = client
	}
	p.questions = s.questions(t)
	for _, q := range p.questions {
		framework.Eventually(t, q.user+" "+q.path, func(ctx context.Context) error { return p.check(ctx, q) })
	}
	ctx, end := context.WithCancel(context.Background())
	p.end = end
	go p.run(ctx)
	t.Cleanup(end)
	return p
}

// questions are lists of one cluster and of all, by namespace, by field and by label, as objects and as tables, of the administrator and of a reader.
func (s *scene) questions(t *testing.T) (all []question) {
	t.Helper()
	member, team := s.has(t, "", "", ""), s.has(t, "team", "", "")
	for _, accept := range []string{"", table} {
		all = append(all,
			question{path: "/clusters/member/api/v1/configmaps", want: of("member", member)},
			question{path: "/api/v1/namespaces/team/configmaps", want: of("both", team)},
			question{path: "/api/v1/namespaces/team/pods", want: of("both", []string{"team/web"})},
			question{path: "/api/v1/namespaces/team/configmaps?fieldSelector=data.a%3Db", want: of("both", s.has(t, "team", "", "b"))},
			question{path: "/api/v1/configmaps?labelSelector=app%3Dweb", want: of("both", s.has(t, "", "app=web", ""))},
			question{path: "/clusters/hub/api/v1/namespaces/team/configmaps?orderby=name", want: of("hub", team)},
			question{path: "/api/v1/namespaces?names=team", want: of("both", []string{"team"})},
			question{user: reader, path: "/api/v1/namespaces/team/configmaps", want: of("both", team)},
			question{user: reader, path: "/clusters/member/api/v1/configmaps", want: of("member", team)},
			question{user: reader, path: "/api/v1/configmaps?fieldSelector=data.a%3Dc", want: of("both", s.has(t, "team", "", "c"))},
		)
		for i := range all {
			if all[i].accept == "" {
				all[i].accept = cmp.Or(accept, "application/json")
			}
		}
	}
	for _, user := range []string{"", reader} {
		core := s.kinds(t, "v1", "configmaps", "namespaces", "pods")
		all = append(all,
			question{user: user, path: "/api/v1", want: core},
			question{user: user, path: "/clusters/member/api/v1", want: core},
			question{user: user, path: "/apis/example.com/v1", want: s.kinds(t, "example.com/v1", "boats")},
			question{user: user, path: "/clusters/hub/apis/example.com/v1", want: s.kinds(t, "example.com/v1", "boats")},
			question{user: user, path: "/apis", want: []string{"example.com"}},
		)
	}
	for i := range all {
		all[i].accept = cmp.Or(all[i].accept, "application/json")
	}
	return all
}

// kinds returns how an honest cluster describes resources.
func (s *scene) kinds(t *testing.T, groupVersion string, names ...string) (all []string) {
	t.Helper()
	list, err := kubernetes.NewForConfigOrDie(s.stock.Admin()).Discovery().ServerResourcesForGroupVersion(groupVersion)
	require.NoError(t, err)
	for _, r := range list.APIResources {
		if slices.Contains(names, r.Name) {
			all = append(all, kindOf(r))
		}
	}
	slices.Sort(all)
	require.Len(t, all, len(names))
	return all
}

func kindOf(r metav1.APIResource) string {
	return fmt.Sprint(r.Kind, " ", r.Name, " ", r.Namespaced, " ", r.ShortNames)
}

// has returns the config maps of an honest cluster.
func (s *scene) has(t *testing.T, namespace, selector, value string) (names []string) {
	t.Helper()
	list, err := kubernetes.NewForConfigOrDie(s.stock.Admin()).CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	require.NoError(t, err)
	for _, item := range list.Items {
		if !strings.HasPrefix(item.Name, mark) && (value == "" || item.Data["a"] == value) {
			names = append(names, item.Namespace+"/"+item.Name)
		}
	}
	return names
}

// of returns names as those of honest clusters, which have the same objects.
func of(cluster string, names []string) (all []string) {
	for _, c := range []string{hub, member} {
		for _, name := range names {
			if cluster == "both" || cluster == c {
				all = append(all, c+" "+name)
			}
		}
	}
	slices.Sort(all)
	return all
}

// maxErrors bounds the wrong answers that a test shows of some lies.
const maxErrors = 20

func (p *probe) run(ctx context.Context) {
	defer close(p.done)
	for i := 0; ; i++ {
		q, lying, began := p.questions[i%len(p.questions)], p.lying.Load(), time.Now()
		err := p.check(ctx, q)
		if ctx.Err() != nil {
			return
		}
		p.asked.Add(1)
		p.mu.Lock()
		if err != nil && len(p.errors) < maxErrors {
			p.errors = append(p.errors, fmt.Errorf("%s: %s %s: %w", began.Format(time.TimeOnly), q.user, q.path, err))
		} else if err == nil && lying == p.lying.Load() {
			p.times[q.in(lying)] = append(p.times[q.in(lying)], time.Since(began))
		}
		p.mu.Unlock()
	}
}

// check returns an error unless search gives the right answer. Objects of clusters that lie do not count.
func (p *probe) check(ctx context.Context, q question) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.scene.URL+resources+q.path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", q.accept)
	resp, err := p.clients[q.user].Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var list answer
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s %v", resp.Status, list.Message, err) //nolint:errorlint // err may be nil
	}
	got := list.about(q)
	if slices.Sort(got); !slices.Equal(got, q.want) {
		return fmt.Errorf("got %q, want %q", got, q.want)
	}
	return nil
}

// answer is a list, a table or a document of discovery.
type answer struct {
	Message   string
	Items     []metav1.PartialObjectMetadata
	Rows      []struct{ Object metav1.PartialObjectMetadata }
	Resources []metav1.APIResource
	Groups    []metav1.APIGroup
}

// about returns the parts that may be those of a question. Objects of clusters that lie, and resources that a question is not about, are none.
func (a *answer) about(q question) (got []string) {
	for _, row := range a.Rows {
		a.Items = append(a.Items, row.Object)
	}
	for _, item := range a.Items {
		cluster := item.Annotations[clusterAnnotation]
		if (cluster == hub || cluster == member) && !strings.HasPrefix(item.Name, mark) && !isOfTheHub(cluster, item.Name) {
			got = append(got, cluster+" "+strings.TrimPrefix(item.Namespace+"/"+item.Name, "/"))
		}
	}
	for _, r := range a.Resources {
		if slices.ContainsFunc(q.want, func(want string) bool { return strings.Fields(want)[1] == r.Name }) {
			got = append(got, kindOf(r))
		}
	}
	for _, g := range a.Groups {
		if slices.Contains(q.want, g.Name) {
			got = append(got, g.Name)
		}
	}
	return got
}

// isOfTheHub reports whether services of Tripod keep a config map in the hub that a kube-apiserver does not have.
func isOfTheHub(cluster, name string) bool {
	return cluster == hub && strings.HasPrefix(name, "tripod-")
}

// awaitRounds returns when all questions were asked a few times more.
func (p *probe) awaitRounds(t *testing.T, rounds int) {
	t.Helper()
	until := p.asked.Load() + int64(rounds*len(p.questions))
	framework.Eventually(t, "search has answered the questions", func(context.Context) error {
		if asked := p.asked.Load(); asked < until {
			return fmt.Errorf("%d of %d", asked, until)
		}
		return nil
	})
}

// wrong returns the wrong answers since it was last called.
func (p *probe) wrong() []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	wrong := p.errors
	p.errors = nil
	return wrong
}

// report ends the probe and prints how long answers took.
func (p *probe) report(t *testing.T) {
	t.Helper()
	p.end()
	<-p.done
	for _, lying := range []bool{false, true} {
		for _, everywhere := range []bool{false, true} {
			c := circumstance{lying, everywhere}
			times := p.times[c]
			slices.Sort(times)
			if n := len(times); n > 0 {
				t.Logf("%s: %d answers, median %s, 99 of 100 within %s", c, n, times[n/2], times[n*99/100])
				assert.Less(t, times[n*99/100], maxWait)
			}
		}
	}
}
