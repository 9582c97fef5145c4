// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package busy

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/test/framework"
)

// scenario is a herd that comes at a bad moment.
type scenario struct {
	name string
	herd herd
	// replicas is how many replicas each service has, if not 1.
	replicas int
	// before prepares the cluster. during goes on beside the herd, from its beginning until the context ends. Both may be nil.
	before func(*testing.T, *side)
	during func(context.Context, *testing.T, *side)
}

// The herds of scenarios: watches over four connections, and informers that each have a connection of their own.
var (
	large     = herd{watches: 3000, connections: 4, events: 100, pause: 50 * time.Millisecond, tokens: 20}
	usual     = herd{watches: 1000, connections: 4, events: 100, pause: 50 * time.Millisecond, tokens: 20}
	informers = herd{watches: 500, connections: 500, objects: 200, events: 100, pause: 50 * time.Millisecond, tokens: 20}
)

// scenarios returns all scenarios, in the order of the table.
func scenarios() []scenario {
	all := []scenario{
		{name: "1,000 watches", herd: usual},
		{name: "3,000 watches", herd: large},
		{name: "500 informers", herd: informers},
		{name: "500 informers, after an aggregator was killed", herd: informers, before: func(t *testing.T, s *side) { s.restart(t, s.fronts[0]) }},
		{name: "500 informers, after a core was killed", herd: informers, before: func(t *testing.T, s *side) { s.restart(t, s.cores[0]) }},
		{name: "1,000 watches, 30 CRDs come", herd: usual, during: installCRDs},
		{name: "1,000 watches, beside 8 busy processes", herd: usual, during: hogProcessors},
		{name: "1,000 watches, 1 processor", herd: usual, before: func(t *testing.T, s *side) { s.limit(t, 1) }},
		{name: "1,000 watches, half a processor", herd: usual, before: func(t *testing.T, s *side) { s.limit(t, 0.5) }},
		{name: "500 informers, half a processor", herd: informers, before: func(t *testing.T, s *side) { s.limit(t, 0.5) }},
		{name: "1,000 watches, each process stops for 1 s", herd: usual, during: stallEach},
		{name: "1,000 watches, etcd stops for 1.5 s of 2 s", herd: usual, during: slowEtcd},
		{name: "1,000 watches, etcd stops for 8 s", herd: usual, during: stallEtcd},
	}
	for _, replicas := range []int{2, 3} {
		all = append(all,
			scenario{name: "3,000 watches", herd: large, replicas: replicas},
			scenario{name: "500 informers, after a core was killed", herd: informers, replicas: replicas, before: func(t *testing.T, s *side) { s.restart(t, s.cores[0]) }},
			scenario{name: "1,000 watches, half a processor", herd: usual, replicas: replicas, before: func(t *testing.T, s *side) { s.limit(t, 0.5) }},
			scenario{name: "1,000 watches, each process stops for 1 s", herd: usual, replicas: replicas, during: stallEach},
		)
	}
	for i := range all {
		all[i].replicas = max(1, all[i].replicas)
		all[i].name = fmt.Sprintf("%s (%d)", all[i].name, all[i].replicas)
	}
	return all
}

// outcome is what became of a scenario at one side.
type outcome struct {
	*count
	// ejected and streamsLost are how often a service gave up another one.
	ejected, streamsLost int
}

// run runs the scenario with a new cluster.
func (s scenario) run(t *testing.T, stock bool) outcome {
	t.Helper()
	var out outcome
	of := "Tripod"
	if stock {
		of = "kube-apiserver"
	}
	t.Run(of, func(t *testing.T) {
		at := newSide(t, stock, s.replicas)
		if s.before != nil {
			s.before(t, at)
		}
		before := at.givenUp(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if s.during != nil {
				s.during(ctx, t, at)
			}
		}()
		out.count = s.herd.run(t, at.servers...)
		after := at.givenUp(t)
		cancel()
		<-ended
		news := func(verdict string) int { return len(after[verdict]) - len(before[verdict]) }
		out.ejected, out.streamsLost = news("ejected"), news("streams lost")+news("connections given up")
		t.Log(out.count)
		for verdict, lines := range after {
			if news(verdict) > 0 {
				t.Logf("%s: %d\n%s", verdict, news(verdict), strings.Join(lines, ""))
			}
		}
	})
	return out
}

// stall stops a process for a while.
func stall(t *testing.T, process *framework.Process, d time.Duration) {
	assert.NoError(t, process.Pause())
	time.Sleep(d) // the time is the fault
	assert.NoError(t, process.Signal(syscall.SIGCONT))
}

// pause waits between two faults. It returns false when the herd has gone.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// stallEach stops the replicas for 1 s, one after the other, once.
func stallEach(ctx context.Context, t *testing.T, s *side) {
	for _, name := range s.names() {
		if !pause(ctx, 500*time.Millisecond) {
			return
		}
		stall(t, s.replicas[name].process, time.Second)
	}
}

// slowEtcd lets etcd run for a quarter of the time only. That is how a disk looks that takes long for each fsync.
func slowEtcd(ctx context.Context, t *testing.T, s *side) {
	for pause(ctx, 500*time.Millisecond) {
		stall(t, s.etcd, 1500*time.Millisecond)
	}
}

func stallEtcd(ctx context.Context, t *testing.T, s *side) {
	if pause(ctx, time.Second) {
		stall(t, s.etcd, 8*time.Second)
	}
}

// hogs is how many processes compete for processors.
const hogs = 8

// hogProcessors keeps processors busy. The processes end with the herd, and in any case after 5 minutes.
func hogProcessors(ctx context.Context, t *testing.T, _ *side) {
	var all []*exec.Cmd
	for range hogs {
		hog := exec.CommandContext(ctx, "timeout", "300", "sh", "-c", "while :; do :; done")
		hog.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		hog.Cancel = func() error { return syscall.Kill(-hog.Process.Pid, syscall.SIGKILL) }
		if !assert.NoError(t, hog.Start()) {
			break
		}
		all = append(all, hog)
	}
	for _, hog := range all {
		_ = hog.Wait() // it is killed
	}
}

// installCRDs creates 30 CustomResourceDefinitions, as fast as the API server takes them.
func installCRDs(ctx context.Context, t *testing.T, s *side) {
	client, err := dynamic.NewForConfig(s.servers[0])
	if !assert.NoError(t, err) {
		return
	}
	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	for i := range 30 {
		manifest := framework.CRD{Kind: fmt.Sprintf("Herd%c%c", 'a'+i/10, 'a'+i%10), Group: "herds.example.com", Schema: framework.Data}.String()
		object := &unstructured.Unstructured{}
		if !assert.NoError(t, yaml.Unmarshal([]byte(manifest), &object.Object)) {
			return
		}
		if _, err := definitions.Create(ctx, object, metav1.CreateOptions{}); err != nil && ctx.Err() == nil {
			t.Errorf("%s: %v", strings.ToLower(object.GetName()), err)
		}
	}
}
