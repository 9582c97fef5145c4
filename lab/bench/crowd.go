// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/tripod-k8s/tripod/lab/bench/load"
	"github.com/tripod-k8s/tripod/lab/bench/process"
	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	// readsPerSecond and writesPerSecond are the load on built-in resources while the CRDs are installed.
	readsPerSecond, writesPerSecond = 100, 20
	// installsPerSecond is how many definitions are created each second, if the server keeps up.
	installsPerSecond, installsAtATime = 10, 8
	// atMost ends a phase that would never end.
	atMost = 10 * time.Minute
)

// The phases of a crowd, in their order.
const (
	before  = "before"
	install = "while they are installed"
	between = "with them"
	openAPI = "while their OpenAPI is read"
	after   = "after"
)

var phases = []string{before, install, between, openAPI, after}

// The states in which memory is read, each at the end of a quiet phase.
const (
	idle      = "without CRDs"
	installed = "with the CRDs"
	wasRead   = "after a read of their OpenAPI"
	peak      = "at most, until then"
	fresh     = "added replica, with the CRDs"
)

// observed is how long one request to a built-in resource took.
type observed struct {
	Due   time.Time
	Took  time.Duration
	Write bool
}

// crowd is what happened to a cluster when many CRDs were installed.
type crowd struct {
	Side string
	// Began is when each phase began.
	Began map[string]time.Time
	Ended time.Time
	// Memory is the resident memory of each process in each state, in MB.
	Memory map[string]map[string]float64
	// Together is the memory of all processes in each state, in MB, with what they share counted once.
	Together map[string]float64
	// Failed counts the failed requests to built-in resources.
	Failed int64

	requests []observed
}

// addedReplicas are started at the end, one after the other.
func (s side) addedReplicas() []string {
	if s.isStock() {
		return []string{"kube-apiserver-2", "kube-apiserver-3"}
	}
	return []string{"core-2", "core-3", "extensions-2", "aggregator-2"}
}

// runCrowd installs the definitions on one side, reads their OpenAPI, and adds replicas.
func (s side) runCrowd(ctx context.Context, o *options, crds []*apiextensionsv1.CustomResourceDefinition) (_ *crowd, err error) {
	var later []string
	if !s.isStock() {
		later = s.addedReplicas()
	}
	f, err := s.open(ctx, resources, later)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	crowd := &crowd{Side: s.Name, Began: map[string]time.Time{}, Memory: map[string]map[string]float64{}, Together: map[string]float64{}}
	if err := f.crowdIn(ctx, o, crds, crowd); err != nil {
		return nil, err
	}
	if err := f.heapProfiles(ctx, filepath.Join(o.artifacts, "profiles", crowdPart)); err != nil {
		return nil, err
	}
	o.logf("CRDs: %s: replicas are added", s.Name)
	var added []process.Process
	for _, name := range s.addedReplicas() {
		one, err := f.add(ctx, name)
		if err != nil {
			return nil, err
		}
		added = append(added, one)
	}
	f.failed = false
	if err := pause(ctx, o.quiet); err != nil {
		return nil, err
	}
	crowd.Memory[fresh], _, err = process.MemoryOf(added)
	return crowd, err
}

// crowdIn runs the phases while clients read and write built-in resources.
func (f *fixture) crowdIn(ctx context.Context, o *options, crds []*apiextensionsv1.CustomResourceDefinition, c *crowd) error {
	written := newObjects(configMaps, namespace, "written", objectsEach)
	if err := written.reset(ctx, f.admin); err != nil {
		return err
	}
	client := f.clients[certificates]
	loadCtx, stop := context.WithCancel(ctx)
	var loads sync.WaitGroup
	var mu sync.Mutex
	offer := func(rate float64, write bool, do load.Operation) {
		loads.Go(func() {
			result := load.Offer(loadCtx, load.Offered{
				PerSecond: rate, Duration: atMost, Workers: 4 * openWorkers, Observe: func(due time.Time, took time.Duration, _ error) {
					mu.Lock()
					defer mu.Unlock()
					c.requests = append(c.requests, observed{due, took, write})
				},
			}, do)
			mu.Lock()
			defer mu.Unlock()
			c.Failed += result.Errors
			if result.Error != nil {
				fmt.Fprintf(o.progress, "%s: %d requests to built-in resources failed: %v\n", f.side.Name, result.Errors, result.Error)
			}
		})
	}
	offer(readsPerSecond, false, gets(configMaps, client))
	offer(writesPerSecond, true, written.update(client))
	err := f.phases(ctx, o, crds, c)
	stop()
	loads.Wait()
	slices.SortFunc(c.requests, func(a, b observed) int { return a.Due.Compare(b.Due) })
	return err
}

// phases runs the phases in their order.
func (f *fixture) phases(ctx context.Context, o *options, crds []*apiextensionsv1.CustomResourceDefinition, c *crowd) error {
	quiet := func(phase, state string) (err error) {
		c.Began[phase] = time.Now()
		if err := pause(ctx, o.quiet); err != nil {
			return err
		}
		if c.Together[state], c.Together[peak], err = process.Together(f.servers); err != nil {
			return err
		}
		c.Memory[state], c.Memory[peak], err = process.MemoryOf(f.servers)
		return err
	}
	o.logf("CRDs: %s: quiet", f.side.Name)
	if err := quiet(before, idle); err != nil {
		return err
	}
	o.logf("CRDs: %s: %d are created", f.side.Name, len(crds))
	c.Began[install] = time.Now()
	if err := f.install(ctx, crds); err != nil {
		return err
	}
	if err := quiet(between, installed); err != nil {
		return err
	}
	o.logf("CRDs: %s: OpenAPI is read", f.side.Name)
	c.Began[openAPI] = time.Now()
	if err := f.readOpenAPI(ctx); err != nil {
		return err
	}
	err := quiet(after, wasRead)
	c.Ended = time.Now()
	return err
}

// install creates the definitions, and returns when all custom resources are served.
func (f *fixture) install(ctx context.Context, crds []*apiextensionsv1.CustomResourceDefinition) error {
	queue := make(chan []byte, len(crds))
	for _, crd := range crds {
		body, err := json.Marshal(crd)
		if err != nil {
			return err
		}
		queue <- body
	}
	close(queue)
	if result := load.Offer(ctx, load.Offered{PerSecond: installsPerSecond, Duration: atMost, Workers: installsAtATime},
		func(ctx context.Context) error {
			body, more := <-queue
			if !more {
				return load.ErrNoMore
			}
			path := "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
			return f.admin.Do(ctx, load.Request{Method: http.MethodPost, Path: path, Body: body})
		}); result.Error != nil {
		return fmt.Errorf("%d of %d CRDs were not created: %w", result.Errors, len(crds), result.Error)
	}
	for _, crd := range crds {
		if err := framework.Poll(ctx, crd.Name+" are served", func(ctx context.Context) error { return f.served(ctx, crd) }); err != nil {
			return err
		}
	}
	return nil
}

// served returns nil if discovery has the custom resource. A request for it would make the server create a storage.
func (f *fixture) served(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) error {
	path := "/apis/" + crd.Spec.Group + "/" + crd.Spec.Versions[0].Name
	answer, err := f.admin.Read(ctx, load.Request{Method: http.MethodGet, Path: path})
	if err == nil && !strings.Contains(string(answer), fmt.Sprintf(`"name":%q`, crd.Spec.Names.Plural)) {
		err = fmt.Errorf("%s does not have %s", path, crd.Spec.Names.Plural)
	}
	return err
}

// readOpenAPI reads the one document of all APIs, as old clients do, and then the documents of each group, as new ones do.
func (f *fixture) readOpenAPI(ctx context.Context) error {
	if err := f.insist(ctx, load.Request{Method: http.MethodGet, Path: "/openapi/v2"}); err != nil {
		return err
	}
	answer, err := f.admin.Read(ctx, load.Request{Method: http.MethodGet, Path: "/openapi/v3"})
	if err != nil {
		return err
	}
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	if err := json.Unmarshal(answer, &index); err != nil {
		return fmt.Errorf("cannot read the index of OpenAPI: %w", err)
	}
	for _, document := range index.Paths {
		if err := f.insist(ctx, load.Request{Method: http.MethodGet, Path: document.ServerRelativeURL}); err != nil {
			return err
		}
	}
	return nil
}

// sum returns the memory, in a state, of the processes whose names begin with one of these.
func (c *crowd) sum(state string, services ...string) float64 {
	sum := 0.0
	for name, megabytes := range c.Memory[state] {
		if len(services) == 0 || slices.ContainsFunc(services, func(s string) bool { return strings.HasPrefix(name, s) }) {
			sum += megabytes
		}
	}
	return sum
}

// of returns the times of reads or of writes that were due in an interval.
func (c *crowd) of(write bool, from, to time.Time) *load.Times {
	times := load.NewTimes()
	for _, one := range c.requests {
		if one.Write == write && !one.Due.Before(from) && one.Due.Before(to) {
			times.Add(one.Took)
		}
	}
	return times
}

// end returns when a phase ended.
func (c *crowd) end(phase string) time.Time {
	if i := slices.Index(phases, phase); i < len(phases)-1 {
		return c.Began[phases[i+1]]
	}
	return c.Ended
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
