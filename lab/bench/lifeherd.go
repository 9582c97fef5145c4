// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/tripod-k8s/tripod/lab/bench/load"
	"github.com/tripod-k8s/tripod/lab/bench/table"
)

const (
	// herdInformers is how many informers of all pods come at once, as after the restart of a fleet of controllers.
	herdInformers = 200
	// herdStays is how long they stay after all have come, while the pods of one Deployment are replaced.
	herdStays = 10 * time.Second
	// herdComesAgain is how long an informer waits after a request that was refused, as client-go does at first.
	herdComesAgain = time.Second
)

// The times of an election, as kube-controller-manager has them by default.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// suffered is what a herd did to the cluster.
type suffered struct {
	// Refused counts lists and watches that were not answered with 200, and Throttled those with 429. Ended counts watches that ended early.
	Refused, Throttled, Ended int64
	// LeaseAge is how old the oldest Lease of a node was at most, in seconds. NodesLost is how many nodes were not ready at most.
	LeaseAge  float64
	NodesLost int
	// LeadersLost is how often a leader could not renew its Lease in time.
	LeadersLost int
}

// herd has informers come at once. It returns when all know all pods and have stayed for a while.
func (p *population) herd(ctx context.Context) error {
	client, err := load.NewClient(p.Admin(), herdInformers)
	if err != nil {
		return err
	}
	defer client.Close()
	p.suffered = &suffered{}
	ctx, leave := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer leave()
	lead, err := p.elect(ctx)
	if err != nil {
		return err
	}
	all.Go(lead)
	all.Go(func() { p.lookAtNodes(ctx) })
	var synced sync.WaitGroup
	var counts struct{ refused, throttled, ended atomic.Int64 }
	defer func() {
		p.suffered.Refused, p.suffered.Throttled, p.suffered.Ended = counts.refused.Load(), counts.throttled.Load(), counts.ended.Load()
	}()
	for range herdInformers {
		synced.Add(1)
		all.Go(func() {
			known := sync.OnceFunc(synced.Done)
			defer known()
			for ctx.Err() == nil {
				err := p.inform(ctx, client, known)
				var status *load.StatusError
				switch {
				case ctx.Err() != nil:
					return
				case err == nil:
					counts.ended.Add(1)
					continue
				case errors.As(err, &status) && status.Code == http.StatusTooManyRequests:
					counts.throttled.Add(1)
				default:
					counts.refused.Add(1)
				}
				_ = pause(ctx, herdComesAgain) // the loop ends with the context
			}
		})
	}
	synced.Wait()
	if err := p.rollOne(ctx); err != nil {
		return err
	}
	return pause(ctx, herdStays)
}

// inform lists all pods and watches them until the watch ends.
func (p *population) inform(ctx context.Context, client *load.Client, known func()) error {
	const pods = "/api/v1/namespaces/" + namespace + "/pods"
	list, err := client.Read(ctx, load.Request{Method: http.MethodGet, Path: pods + "?resourceVersion=0"})
	if err != nil {
		return err
	}
	body, err := client.Stream(ctx, load.Request{Method: http.MethodGet, Path: pods + "?watch=1&resourceVersion=" + quotedAfter(list, versionBefore)})
	if err != nil {
		return err
	}
	defer body.Close() //nolint:errcheck // it is over
	known()
	events := bufio.NewReaderSize(body, 8<<10)
	for {
		if _, err := events.ReadSlice('\n'); err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil
		}
	}
}

// rollOne replaces the pods of one Deployment, and returns when the new ones run.
func (p *population) rollOne(ctx context.Context) error {
	if err := p.changeTemplate(ctx, 0, "herded"); err != nil {
		return err
	}
	return p.untilRunning(ctx)
}

// lookAtNodes notes how nodes fare until the context ends. Requests that fail are those of the probe, which counts its own.
func (p *population) lookAtNodes(ctx context.Context) {
	for ; ctx.Err() == nil; _ = pause(ctx, time.Second) {
		nodes, err := p.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			continue
		}
		lost := 0
		for _, node := range nodes.Items {
			for _, condition := range node.Status.Conditions {
				if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
					lost++
				}
			}
		}
		p.suffered.NodesLost = max(p.suffered.NodesLost, lost)
		leases, err := p.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		now := time.Now()
		for _, lease := range leases.Items {
			if renewed := lease.Spec.RenewTime; renewed != nil {
				p.suffered.LeaseAge = max(p.suffered.LeaseAge, now.Sub(renewed.Time).Seconds())
			}
		}
	}
}

// elect becomes a leader as kube-controller-manager does: with its user, Lease and times. The real one, which has no rival here, holds no election, because
// it ends when it loses one. The returned function leads until the context ends.
func (p *population) elect(ctx context.Context) (lead func(), err error) {
	const name = "kube-controller-manager"
	config, err := p.UserConfig("system:" + name)
	if err != nil {
		return nil, err
	}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, metav1.NamespaceSystem, name,
		resourcelock.ResourceLockConfig{Identity: "bench"}, config, renewDeadline)
	if err != nil {
		return nil, err
	}
	lead = func() {
		for ctx.Err() == nil {
			leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
				Lock: lock, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
				Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(context.Context) {},
					OnStoppedLeading: func() {
						if ctx.Err() == nil {
							p.suffered.LeadersLost++
						}
					},
				},
			})
		}
	}
	return lead, nil
}

// herdTable shows what a herd did to the cluster: the worst of all rounds.
func (l *lives) herdTable() table.Table {
	t := table.Table{Title: "What the herd did, at worst", Header: l.header("", "neighbour")}
	for _, figure := range []struct {
		name string
		of   func(suffered) float64
	}{
		{"requests refused", func(s suffered) float64 { return float64(s.Refused) }},
		{"requests that got 429", func(s suffered) float64 { return float64(s.Throttled) }},
		{"watches ended", func(s suffered) float64 { return float64(s.Ended) }},
		{"oldest Lease of a node, seconds", func(s suffered) float64 { return s.LeaseAge }},
		{"nodes not ready", func(s suffered) float64 { return float64(s.NodesLost) }},
		{"leaderships lost", func(s suffered) float64 { return float64(s.LeadersLost) }},
	} {
		for _, condition := range l.Conditions {
			row := []string{figure.name, condition}
			for _, s := range l.shapes {
				cell, worst := "", 0.0
				for _, round := range l.Lives[condition][s.Name] {
					for _, phase := range round.Phases {
						if phase.Suffered != nil {
							worst = max(worst, figure.of(*phase.Suffered))
							cell = table.Number(worst)
						}
					}
				}
				row = append(row, cell)
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}
