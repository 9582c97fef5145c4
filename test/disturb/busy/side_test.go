// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package busy

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
)

// side is a cluster that a herd visits: kube-apiservers, or Tripod with as many replicas of each service. No load balancer is in front, because the
// connections of the herd take the servers in turn.
type side struct {
	env      *framework.Environment
	servers  []*rest.Config
	replicas map[string]*replica
	// fronts and cores are the names of the replicas that clients reach, and of those with the objects: the same ones if they are kube-apiservers.
	fronts, cores []string
	etcd          *framework.Process
	group         *group
}

// replica is a process that can be started again.
type replica struct {
	process *framework.Process
	start   func() (*framework.Process, error)
}

// newSide starts a cluster. The names of its replicas end in their number.
func newSide(t *testing.T, stock bool, replicas int) *side {
	t.Helper()
	s := &side{env: framework.ForTest(t), replicas: map[string]*replica{}}
	if stock {
		s.startStock(t, replicas)
	} else {
		s.startTripod(t, replicas)
	}
	addAccount(t, s.servers[0])
	return s
}

func (s *side) startStock(t *testing.T, replicas int) {
	t.Helper()
	first, err := s.env.StartStock(t.Context(), framework.StockOptions{Args: []string{streams}})
	require.NoError(t, err)
	s.etcd = first.Etcd
	for i := range replicas {
		name, url := fmt.Sprintf("kube-apiserver-%d", i), first.URL
		r := &replica{process: first.Process}
		if i > 0 {
			port, err := framework.FreePort()
			require.NoError(t, err)
			url = fmt.Sprintf("https://127.0.0.1:%d", port)
		}
		starts := 0
		r.start = func() (*framework.Process, error) {
			starts++
			var port int
			if _, err := fmt.Sscanf(url, "https://127.0.0.1:%d", &port); err != nil {
				return nil, err
			}
			return s.env.Start(framework.Command{
				Name: fmt.Sprintf("%s.%d", name, starts), Path: s.env.Binary("test-assets/kube-apiserver"),
				Args: append(framework.StockFlags(first.PKI, first.EtcdURL, "127.0.0.1", port), streams),
			})
		}
		if i > 0 {
			r.process, err = r.start()
			require.NoError(t, err)
		}
		config := first.Admin()
		config.Host = url
		s.add(name, r, config)
		s.fronts = append(s.fronts, name)
	}
	s.cores = s.fronts
	s.awaitReady(t)
}

func (s *side) startTripod(t *testing.T, replicas int) {
	t.Helper()
	dir, err := os.MkdirTemp(s.env.Dir, "etcd")
	require.NoError(t, err)
	url, etcd, err := s.env.StartEtcdProcess(t.Context(), dir)
	require.NoError(t, err)
	s.etcd = etcd
	options := framework.FleetOptions{EtcdURL: url}
	for _, service := range []string{"core", "extensions", "aggregator"} {
		for i := range replicas {
			options.Replicas = append(options.Replicas, framework.ReplicaOptions{Name: fmt.Sprintf("%s-%d", service, i), Args: []string{streams}})
		}
	}
	fleet, err := s.env.StartFleet(t.Context(), options)
	require.NoError(t, err)
	for _, o := range options.Replicas {
		of := fleet.Replica(o.Name)
		r := &replica{process: of.Process(), start: func() (*framework.Process, error) {
			err := of.Start()
			return of.Process(), err
		}}
		if strings.HasPrefix(o.Name, "aggregator-") {
			s.add(o.Name, r, fleet.Through(o.Name).Admin())
			s.fronts = append(s.fronts, o.Name)
			continue
		}
		s.replicas[o.Name] = r
		if strings.HasPrefix(o.Name, "core-") {
			s.cores = append(s.cores, o.Name)
		}
	}
}

func (s *side) add(name string, r *replica, server *rest.Config) {
	s.replicas[name] = r
	s.servers = append(s.servers, server)
}

// limit gives all replicas together this many processors.
func (s *side) limit(t *testing.T, processors float64) {
	t.Helper()
	s.group = newGroup(t, processors)
	for _, r := range s.replicas {
		s.group.add(t, r.process)
	}
	// The group can be removed when no process is left in it.
	t.Cleanup(func() {
		for _, r := range s.replicas {
			_ = r.process.Signal(syscall.SIGKILL) // what it has is not needed
			<-r.process.Done()
		}
	})
}

// restart kills a replica and starts it again. It returns when clients can use the API again.
func (s *side) restart(t *testing.T, name string) {
	t.Helper()
	r := s.replicas[name]
	require.NoError(t, r.process.Signal(syscall.SIGKILL))
	<-r.process.Done()
	var err error
	r.process, err = r.start()
	require.NoError(t, err)
	s.awaitReady(t)
}

// awaitReady returns when every server serves what core has.
func (s *side) awaitReady(t *testing.T) {
	t.Helper()
	for _, server := range s.servers {
		framework.Eventually(t, "the API is there", canRead(t, server))
	}
}

// verdicts are lines of the log by which a service gives up another one.
var verdicts = map[string]string{
	"ejected": `state="ejected"`, "frozen": `state="frozen"`, "silent": `state="silent"`, "streams lost": "Not following a replica any more",
	"connections given up": "Giving up the connections",
}

// givenUp returns these lines of the logs of the processes that run now.
func (s *side) givenUp(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, name := range s.names() {
		log, err := os.ReadFile(s.replicas[name].process.Log)
		require.NoError(t, err)
		for line := range strings.Lines(string(log)) {
			for verdict, words := range verdicts {
				if strings.Contains(line, words) {
					found[verdict] = append(found[verdict], name+": "+line)
				}
			}
		}
	}
	return found
}

// names returns the names of all replicas, sorted.
func (s *side) names() []string { return slices.Sorted(maps.Keys(s.replicas)) }
