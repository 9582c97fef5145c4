// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/hostile"
)

var (
	apart       = flag.Bool("apart", false, "have a replica answer and another one copy, with PostgreSQL, as in the chart, rather than one do both with SQLite")
	only        = flag.String("lies", "", "a regular expression of the lies to tell; all, if it is empty")
	waitTimeout = flag.Duration("wait-timeout", 2*time.Minute, "how long search may take to show a lie; it only ends a test that would never end")
)

// mark begins the names of objects that show that copying goes on.
const mark = "mark-"

const (
	// maxReceived is how much search may send to a server. A client that loops sends more in a second.
	maxReceived = 16 << 20
	// maxSent is how much search may take from a server that speaks HTTP: a few attempts at the largest object, and the changes that it copies at once.
	maxSent = 512 << 20
	// maxWait is for 99 of 100 answers. They take milliseconds; it holds on a machine that is busy with something else.
	maxWait = 10 * time.Second
)

// together is how many lies are served at the same time. Between them, search has a rest, so that its times can be compared.
const together = 12

// short are lies of each kind, which are served without HOSTILE=full: all attacks that have succeeded once are among them.
var short = []string{
	"rules-are-text", "names-for-everybody", "rights-that-change", "bomb-roles",
	"pods-of-the-cluster", "boats-of-the-cluster", "boats-are-another-kind", "boats-with-quotes", "kind-with-quotes", "short-names",
	"bomb-list", "bomb-pages", "bomb-groups", "same-page", "slow-list", "endless-string", "endless-objects", "endless-groups", "endless-events",
	"two-spellings", "two-names", "deep-object", "deep-groups", "name-with-nul", "label-with-nul", "event-of-no-type",
	"redirect-all", "redirect-to-http", "frame-size-zero", "headers-without-end", "reset-storm",
	"finalizers-are-a-number", "version-is-text", "bookmarks-for-ever", "many-resources", "retry-never",
}

// selected returns the lies of a run.
func selected(t *testing.T) []hostile.Lie {
	t.Helper()
	all := slices.Clone(hostile.Lies)
	if *only != "" {
		wanted := regexp.MustCompile(*only)
		return slices.DeleteFunc(all, func(l hostile.Lie) bool { return !wanted.MatchString(l.Name) })
	}
	if os.Getenv("HOSTILE") == "full" {
		return all
	}
	var some []hostile.Lie
	for _, name := range short {
		i := slices.IndexFunc(all, func(l hostile.Lie) bool { return l.Name == name })
		require.GreaterOrEqual(t, i, 0, "there is no lie %s", name)
		some = append(some, all[i])
	}
	return some
}

func TestALyingClusterHarmsNoOther(t *testing.T) {
	s := start(t)
	p := startProbe(t, s)
	p.awaitRounds(t, 3)
	s.awaitCopies(t)
	goroutines := s.goroutines(t)
	for some := range slices.Chunk(selected(t), together) {
		s.copyLies(t, p, some)
	}
	p.report(t)
	framework.Eventually(t, "nothing is left of the lies", func(context.Context) error {
		if now := s.goroutines(t); now > goroutines*5/4 {
			return fmt.Errorf("there are %v goroutines, and were %v", now, goroutines)
		}
		return nil
	})
}

// copyLies has search copy clusters that lie.
func (s *scene) copyLies(t *testing.T, p *probe, lies []hostile.Lie) {
	t.Helper()
	var names []string
	servers := map[string]*hostile.Server{}
	for _, lie := range lies {
		names = append(names, lie.Name)
		servers[lie.Name] = hostile.Start(t, lie)
	}
	t.Run(strings.Join(names, ","), func(t *testing.T) {
		p.lying.Store(true)
		for _, lie := range lies {
			s.join(t, lie.Name, servers[lie.Name].Kubeconfig(t))
		}
		ctx, cancel := context.WithTimeout(t.Context(), *waitTimeout)
		defer cancel()
		var waiting sync.WaitGroup
		for _, lie := range lies {
			waiting.Go(func() {
				assert.NoError(t, framework.Poll(ctx, "search shows what the lie "+lie.Name+" does", func(ctx context.Context) error {
					return s.shows(ctx, lie, servers[lie.Name])
				}))
			})
		}
		waiting.Wait()
		s.copies(t, fmt.Sprint(mark, names[0]))
		p.awaitRounds(t, 3)
		p.lying.Store(false)
		s.leave(t, names...)
		for name, server := range servers {
			server.Close()
			assert.False(t, server.Stolen(), "%s: another server has got the token", name)
			assert.LessOrEqual(t, server.Received(), int64(maxReceived), "%s: bytes from search", name)
			if !server.SpeaksFrames() { // search reads frames without data until its time for an answer is over
				assert.LessOrEqual(t, server.Sent(), int64(maxSent), "%s: bytes to search", name)
			}
			t.Logf("%s: %d requests, %d KiB from search, %d KiB to it", name, server.Asked(), server.Received()>>10, server.Sent()>>10)
		}
		p.awaitRounds(t, 1)
		assert.NoError(t, errors.Join(p.wrong()...), "answers about the honest clusters")
		for _, name := range slices.Compact([]string{search, s.copier}) {
			peak, err := s.Replica(name).Process().PeakMemory()
			require.NoError(t, err)
			t.Logf("%s: %s has taken %d MiB", strings.Join(names, ","), name, peak>>20)
			assert.Less(t, peak, uint64(memoryLimit), "the memory of search")
		}
	})
}

// shows returns an error unless the status of a cluster that lies has what it should.
func (s *scene) shows(ctx context.Context, lie hostile.Lie, server *hostile.Server) error {
	for _, name := range []string{search, s.copier} {
		select {
		case <-s.Replica(name).Process().Done():
			return errors.New("search has ended")
		default:
		}
	}
	if server.Asked() == 0 {
		return errors.New("the server was not asked yet")
	}
	cluster, err := s.clusters.Get(ctx, lie.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	wrong := complaint(cluster)
	if lie.Shows.Complains && wrong == "" {
		return fmt.Errorf("the PediaCluster says nothing: %v", cluster.Object["status"])
	}
	if reports := reportsOf(cluster); !slices.ContainsFunc(reports, regexp.MustCompile(lie.Shows.Reports).MatchString) {
		return fmt.Errorf("the status of the PediaCluster lacks %q: %s", lie.Shows.Reports, strings.Join(reports, "; "))
	}
	if !lie.Shows.Copied {
		return nil
	}
	text, err := get(ctx, s.Admin(), resources+"/clusters/"+lie.Name+"/api/v1/namespaces/default/configmaps?names="+hostile.Honest, "")
	var list answer
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err == nil && !slices.ContainsFunc(list.Items, func(o metav1.PartialObjectMetadata) bool { return o.Name == hostile.Honest }) {
		err = fmt.Errorf("what is honest is not copied: %s (%s)", text, wrong)
	}
	return err
}

// copies returns when search has copied something new of each honest cluster.
func (s *scene) copies(t *testing.T, name string) {
	t.Helper()
	for cluster, config := range map[string]*framework.Cluster{hub: s.Cluster, member: s.stock.Cluster} {
		_, err := kubernetes.NewForConfigOrDie(config.Admin()).CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		require.NoError(t, err)
		framework.Eventually(t, name+" is copied from "+cluster, func(ctx context.Context) error {
			_, err := get(ctx, s.Admin(), resources+"/clusters/"+cluster+"/api/v1/namespaces/default/configmaps/"+name, "")
			return err
		})
	}
}

// awaitCopies returns when search has copied all of the honest clusters, and so has the goroutines that it needs for them.
func (s *scene) awaitCopies(t *testing.T) {
	t.Helper()
	framework.Eventually(t, "search has copied the honest clusters", func(ctx context.Context) error {
		for _, cluster := range []string{hub, member} {
			missing, err := s.Metric(ctx, s.copier, "tripod_search_cluster_resources", "cluster="+cluster, "state=incomplete")
			if err == nil && missing > 0 {
				err = fmt.Errorf("%v resources of %s are not copied yet", missing, cluster)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *scene) goroutines(t *testing.T) float64 {
	t.Helper()
	n, err := s.Metric(t.Context(), s.copier, "go_goroutines")
	require.NoError(t, err)
	return n
}
