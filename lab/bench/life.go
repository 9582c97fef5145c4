// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/lab/bench/load"
	"github.com/tripod-k8s/tripod/lab/bench/process"
	"github.com/tripod-k8s/tripod/lab/bench/purposes"
	"github.com/tripod-k8s/tripod/local/controllers"
	"github.com/tripod-k8s/tripod/test/framework"
)

// The phases of a cluster's life.
const (
	empty   = "an empty cluster rests"
	join    = "nodes join"
	running = "pods are scheduled and run"
	full    = "the full cluster rests"
	herded  = "a herd of informers comes"
	rolled  = "all Deployments are rolled"
	deleted = "all is deleted"
	again   = "the empty nodes rest"
)

const (
	// probesPerSecond is how many requests the probe sends, half of them GETs and half UPDATEs.
	probesPerSecond = 20
	// look is how often this command looks whether a phase is over.
	look = 250 * time.Millisecond
	// podsEach is how many pods a Deployment has.
	podsEach = 100
)

// life is what a cluster's life cost on a control plane.
type life struct {
	Shape  string
	Phases []lived
}

// lived is what a phase cost.
type lived struct {
	Name    string
	Seconds float64
	// CPU is the processor time of each service in seconds, and Etcd that of etcd.
	CPU  map[string]float64
	Etcd float64
	// P50, P99 and Failed are of the requests of the probe; the times are in milliseconds.
	P50, P99 float64
	Failed   int64
	// Switches are the context switches of all servers.
	Switches int64
	// Memory is the memory of all servers at the end of the phase, and Peak the sum of what each has had at most until then, in MB. What they
	// share counts once.
	Memory, Peak float64
	// Suffered is what a herd did, or nil in other phases.
	Suffered *suffered `json:",omitempty"`
	// Purposes are the seconds of processor time of each service by purpose, if there is a profile.
	Purposes map[string]map[string]float64 `json:",omitempty"`
}

// sum is the processor time of all servers.
func (l lived) sum() (all float64) {
	for _, one := range l.CPU {
		all += one
	}
	return all
}

// population is a control plane with the controllers of Kubernetes, and nodes and pods without containers.
type population struct {
	*controlPlane
	client      kubernetes.Interface
	probe       *load.Client
	probed      *objects
	nodes, pods int
	rest        time.Duration
	// suffered is nil before the herd comes.
	suffered *suffered
}

// live lives the life of a cluster on a control plane. For profiles of that length, it keeps those of the beginning of each phase.
func (s shape) live(ctx context.Context, o *options, profile time.Duration) (_ *life, err error) {
	c, err := s.start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	p := &population{controlPlane: c, nodes: o.nodes, pods: o.pods, rest: o.quiet}
	if p.probe, err = load.NewClient(c.Admin(), 1); err != nil {
		return nil, err
	}
	defer p.probe.Close()
	config := c.Admin()
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	if p.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if _, err := p.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	p.probed = newObjects(configMaps, namespace, "probed", objectsEach)
	if err := p.probed.reset(ctx, p.probe); err != nil {
		return nil, err
	}
	if err := c.env.StartControllers(ctx, c.Cluster, framework.ControllersOptions{Unlimited: true}); err != nil {
		return nil, err
	}
	lived := &life{Shape: s.Name}
	for _, phase := range []struct {
		name string
		do   func(context.Context) error
	}{
		{empty, p.resting}, {join, p.joinNodes}, {running, p.runPods}, {full, p.resting}, {herded, p.herd}, {rolled, p.roll}, {deleted, p.delete}, {again, p.resting},
	} {
		o.logf("%s: %s", s.Name, phase.name)
		do := phase.do
		profiles, prefix := filepath.Join(o.artifacts, "profiles", strings.ReplaceAll(phase.name, " ", "-")), strings.ReplaceAll(s.Name, "/", "-")
		if profile > 0 {
			do = p.profiled(profiles, prefix, profile, do)
		}
		one, err := p.account(ctx, do)
		if err == nil && profile > 0 {
			err = one.addPurposes(profiles, prefix)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", s.Name, phase.name, err)
		}
		one.Name = phase.name
		one.Suffered, p.suffered = p.suffered, nil
		lived.Phases = append(lived.Phases, *one)
	}
	c.failed = false
	return lived, nil
}

// addPurposes divides the processor time of each service by its profile. The processes of a drop-in that only start the others have none.
func (l *lived) addPurposes(dir, shape string) error {
	l.Purposes = map[string]map[string]float64{}
	for service, spent := range l.CPU {
		if service == dropIn {
			continue
		}
		file, err := os.Open(profileFile(dir, shape, service, "profile"))
		if err != nil {
			return err
		}
		shares, err := purposes.Shares(file)
		if err = errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("%s: %w", service, err)
		}
		for purpose := range shares {
			shares[purpose] *= spent
		}
		l.Purposes[service] = shares
	}
	return nil
}

// profiled makes a phase keep a profile of each server, and its metrics at the end.
func (p *population) profiled(dir, shape string, length time.Duration, phase func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		var fetching sync.WaitGroup
		errs := make([]error, len(p.servers))
		for i, server := range p.servers {
			if server.Service == dropIn {
				continue // which only starts the others
			}
			fetching.Go(func() {
				errs[i] = keepProfile(ctx, p.probe, dir, shape, server.Service, "profile", fmt.Sprintf("seconds=%d", int(length.Seconds())))
			})
		}
		err := phase(ctx)
		fetching.Wait()
		return errors.Join(append(errs, err, p.keepMetrics(ctx, dir, shape))...)
	}
}

// keepMetrics writes what each server has counted since it started to files.
func (p *population) keepMetrics(ctx context.Context, dir, shape string) error {
	for _, server := range p.servers {
		if server.Service == dropIn {
			continue
		}
		metrics, err := ask(ctx, p.probe, server.Service, "/metrics")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, shape+"-"+server.Service+"-metrics.txt"), metrics, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// account returns what a phase costs, and how long requests of the probe take meanwhile.
func (p *population) account(ctx context.Context, do func(context.Context) error) (*lived, error) {
	probing, stop := context.WithCancel(ctx)
	defer stop()
	times := load.NewTimes()
	var result *load.Result
	var probe sync.WaitGroup
	get, update := configMaps.get(namespace, "probed-0"), p.probed.update(p.probe)
	var turn atomic.Int64
	before, err := spentBy(p.servers, p.etcd)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	probe.Go(func() {
		result = load.Offer(probing, load.Offered{
			PerSecond: probesPerSecond, Duration: atMost, Workers: openWorkers, Observe: func(_ time.Time, took time.Duration, _ error) { times.Add(took) },
		}, func(ctx context.Context) error {
			if turn.Add(1)%2 == 0 {
				return p.probe.Do(ctx, get)
			}
			return update(ctx)
		})
	})
	err = do(ctx)
	took := time.Since(start)
	stop()
	probe.Wait()
	after, errAfter := spentBy(p.servers, p.etcd)
	if err := errors.Join(err, errAfter); err != nil {
		return nil, err
	}
	one := &lived{
		Seconds: took.Seconds(), CPU: map[string]float64{}, Etcd: (after.etcd - before.etcd).Seconds(), Switches: after.switches - before.switches,
		P50: times.Milliseconds(50), P99: times.Milliseconds(99), Failed: result.Errors,
	}
	for service, spent := range after.cpu {
		one.CPU[service] = (spent - before.cpu[service]).Seconds()
	}
	one.Memory, one.Peak, err = process.Together(p.servers)
	return one, err
}

func (p *population) resting(ctx context.Context) error { return pause(ctx, p.rest) }

// joinNodes adds nodes, and returns when pods can be scheduled to all.
func (p *population) joinNodes(ctx context.Context) error {
	if err := each(ctx, p.nodes, func(ctx context.Context, i int) error {
		return controllers.CreateNode(ctx, p.client, fmt.Sprintf("node-%d", i))
	}); err != nil {
		return err
	}
	return until(ctx, "all nodes are ready", func(ctx context.Context) (int, error) {
		nodes, err := p.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return 0, err
		}
		missing := p.nodes - len(nodes.Items)
		for _, node := range nodes.Items {
			if !framework.TakesPods(&node) {
				missing++
			}
		}
		return missing, nil
	})
}

func (p *population) deployments() int { return (p.pods + podsEach - 1) / podsEach }

// runPods creates Deployments, and returns when all their pods run.
func (p *population) runPods(ctx context.Context) error {
	if err := each(ctx, p.deployments(), func(ctx context.Context, i int) error {
		_, err := p.client.AppsV1().Deployments(namespace).Create(ctx, deployment(fmt.Sprintf("app-%d", i), min(podsEach, p.pods-i*podsEach)), metav1.CreateOptions{})
		return err
	}); err != nil {
		return err
	}
	return p.untilRunning(ctx)
}

// deployment is one whose pods ask for little, so that all fit.
func deployment(name string, replicas int) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	d.Spec.Replicas = new(int32(replicas))
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "app.example.com/app:v1"}}
	return d
}

// untilRunning returns when the pods of all Deployments are those of their latest template, and run.
func (p *population) untilRunning(ctx context.Context) error {
	return until(ctx, "all pods run", func(ctx context.Context) (int, error) {
		list, err := p.client.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return 0, err
		}
		missing := p.pods
		for _, d := range list.Items {
			if d.Status.ObservedGeneration == d.Generation && d.Status.Replicas == d.Status.UpdatedReplicas {
				missing -= int(min(d.Status.UpdatedReplicas, d.Status.AvailableReplicas))
			}
		}
		return missing, nil
	})
}

// roll changes the template of all Deployments, and returns when all pods are new.
func (p *population) roll(ctx context.Context) error {
	if err := each(ctx, p.deployments(), func(ctx context.Context, i int) error { return p.changeTemplate(ctx, i, "rolled") }); err != nil {
		return err
	}
	return p.untilRunning(ctx)
}

// changeTemplate annotates the template of a Deployment.
func (p *population) changeTemplate(ctx context.Context, deployment int, annotation string) error {
	patch := fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{%q:"true"}}}}}`, annotation)
	_, err := p.client.AppsV1().Deployments(namespace).Patch(ctx, fmt.Sprintf("app-%d", deployment), types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return err
}

// delete deletes all Deployments, and returns when no pod is left.
func (p *population) delete(ctx context.Context) error {
	if err := each(ctx, p.deployments(), func(ctx context.Context, i int) error {
		return p.client.AppsV1().Deployments(namespace).Delete(ctx, fmt.Sprintf("app-%d", i), metav1.DeleteOptions{})
	}); err != nil {
		return err
	}
	return until(ctx, "all pods are gone", func(ctx context.Context) (int, error) {
		pods, err := p.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return 0, err
		}
		left := len(pods.Items)
		if more := pods.RemainingItemCount; more != nil {
			left += int(*more)
		}
		return left, nil
	})
}

// each calls do for 0 to n-1, several at a time, and returns the first error.
func each(ctx context.Context, n int, do func(context.Context, int) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	turns := make(chan struct{}, closedClients)
	var all sync.WaitGroup
	for i := range n {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			if err := do(ctx, i); err != nil {
				stop(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// until returns when nothing is missing any more.
func until(ctx context.Context, what string, missing func(context.Context) (int, error)) error {
	ctx, stop := context.WithTimeout(ctx, atMost)
	defer stop()
	for {
		n, err := missing(ctx)
		if err == nil && n <= 0 {
			return nil
		}
		if waited := pause(ctx, look); waited != nil {
			return fmt.Errorf("waiting until %s, with %d missing: %w", what, n, errors.Join(waited, err))
		}
	}
}
