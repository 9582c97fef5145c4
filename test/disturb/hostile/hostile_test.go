// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
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
	only     = flag.String("lies", "", "a regular expression of the lies to tell; all, if it is empty")
	patience = flag.Duration("patience", time.Minute, "how long search may take to show a lie; it only ends a test that would never end")
)

// mark begins the names of objects that show that copying goes on.
const mark = "mark-"

// maxReceived is how much search may send to a server. A client that loops sends more in a second.
const maxReceived = 16 << 20

// together is how many lies are told at the same time. Between them, search has a rest, so that its times can be compared.
const together = 12

func TestALyingClusterHarmsNoOther(t *testing.T) {
	if os.Getenv("HOSTILE") == "" {
		t.Skip("set HOSTILE=1: search does not withstand all lies yet, and needs minutes")
	}
	s := start(t)
	p := startProbe(t, s)
	p.awaitRounds(t, 3)
	goroutines := s.goroutines(t)
	lies := slices.DeleteFunc(slices.Clone(hostile.Lies), func(l hostile.Lie) bool { return !regexp.MustCompile(*only).MatchString(l.Name) })
	for some := range slices.Chunk(lies, together) {
		s.hear(t, p, some)
	}
	p.report(t)
	framework.Eventually(t, "nothing is left of the lies", func(context.Context) error {
		if now := s.goroutines(t); now > goroutines*5/4 {
			return fmt.Errorf("there are %v goroutines, and were %v", now, goroutines)
		}
		return nil
	})
}

// hear has search copy clusters that lie.
func (s *scene) hear(t *testing.T, p *probe, lies []hostile.Lie) {
	t.Helper()
	var told []string
	servers := map[string]*hostile.Server{}
	for _, lie := range lies {
		told = append(told, lie.Name)
		servers[lie.Name] = hostile.Start(t, lie)
	}
	t.Run(strings.Join(told, ","), func(t *testing.T) {
		p.lying.Store(true)
		for _, lie := range lies {
			s.join(t, lie.Name, servers[lie.Name].Kubeconfig(t))
		}
		ctx, cancel := context.WithTimeout(t.Context(), *patience)
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
		s.copies(t, fmt.Sprint(mark, told[0]))
		p.awaitRounds(t, 1)
		p.lying.Store(false)
		s.leave(t, told...)
		for name, server := range servers {
			server.Close()
			assert.False(t, server.Stolen(), "%s: another server has got the token", name)
			assert.LessOrEqual(t, server.Received(), int64(maxReceived), "%s: bytes from search", name)
			t.Logf("%s: %d requests, %d connections", name, server.Asked(), server.Connections())
		}
		p.awaitRounds(t, 1)
		assert.NoError(t, errors.Join(p.wrong()...), "answers about the honest clusters")
		peak, err := s.Replica(search).Process().PeakMemory()
		require.NoError(t, err)
		t.Logf("%s: %d MiB", strings.Join(told, ","), peak>>20)
		assert.Less(t, peak, uint64(memoryLimit), "the memory of search")
	})
}

// shows returns an error unless search says what it should about a cluster that lies.
func (s *scene) shows(ctx context.Context, lie hostile.Lie, server *hostile.Server) error {
	select {
	case <-s.Replica(search).Process().Done():
		return errors.New("search has ended")
	default:
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
	if !lie.Shows.Copied {
		return nil
	}
	text, err := get(ctx, s.Admin(), resources+"/clusters/"+lie.Name+"/api/v1/namespaces/default/configmaps?names="+hostile.Honest, "")
	if err == nil && !strings.Contains(string(text), `"name":"`+hostile.Honest+`"`) {
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

func (s *scene) goroutines(t *testing.T) float64 {
	t.Helper()
	n, err := s.Metric(t.Context(), search, "go_goroutines")
	require.NoError(t, err)
	return n
}
