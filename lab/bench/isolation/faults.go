// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/sys/unix"

	"github.com/tripod-k8s/tripod/lab/bench/load"
)

const (
	idle = "none"
	// documentsPerSecond is how many OpenAPI documents of groups are downloaded, and changesPerSecond how many definitions change.
	documentsPerSecond, changesPerSecond = 5, 5
	// allEvery is how often a client downloads the one document of all groups.
	allEvery = 5 * time.Second
	// downloadTimeout is how long a client waits for a document.
	downloadTimeout = time.Minute
	// more is how much memory a process may take beyond what it has when the limit begins.
	more = 64 << 20
	// attention is how often the processes are looked at that have a limit.
	attention = 100 * time.Millisecond
)

// fault is a trouble of one team. It lasts until the context ends, and is repaired when run returns. The note is for the table.
type fault struct {
	name, label string
	run         func(t *target, ctx context.Context) (note string, err error)
}

func faults() []fault {
	return []fault{
		{idle, "none", func(_ *target, ctx context.Context) (string, error) { <-ctx.Done(); return "", nil }},
		{"its OpenAPI is downloaded", "OpenAPI", (*target).download},
		{"its definitions change", "changes", (*target).change},
		{"its etcd reports NOSPACE", "NOSPACE", (*target).fill},
		{"its processes are frozen", "frozen", (*target).freeze},
		{"its processes end at a limit of memory", "memory", (*target).starve},
	}
}

func untilDone(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// download reads documents of the groups, and from time to time the one of all groups, as old clients do.
func (t *target) download(ctx context.Context) (string, error) {
	index, err := t.admin.Read(ctx, load.Request{Method: http.MethodGet, Path: "/openapi/v3"})
	if err != nil {
		return "", untilDone(err)
	}
	var list struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	if err := json.Unmarshal(index, &list); err != nil {
		return "", fmt.Errorf("cannot read the index of OpenAPI: %w", err)
	}
	var paths []string
	for name, one := range list.Paths {
		if strings.Contains(name, otherSuffix) {
			paths = append(paths, one.ServerRelativeURL)
		}
	}
	var next, documents, all, failed atomic.Int64
	get := func(path string, count *atomic.Int64) load.Operation {
		return func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
			defer cancel()
			if path == "" {
				path = paths[int(next.Add(1))%len(paths)]
			}
			if err := t.admin.Do(ctx, load.Request{Method: http.MethodGet, Path: path, Accept: "*/*"}); err != nil {
				failed.Add(1)
				return err
			}
			count.Add(1)
			return nil
		}
	}
	var downloading sync.WaitGroup
	downloading.Go(func() {
		load.Offer(ctx, load.Offered{PerSecond: documentsPerSecond, Duration: atMost, Workers: documentsPerSecond}, func(ctx context.Context) error {
			return get("", &documents)(ctx)
		})
	})
	downloading.Go(func() {
		load.Offer(ctx, load.Offered{PerSecond: 1 / allEvery.Seconds(), Duration: atMost, Workers: 1}, get("/openapi/v2", &all))
	})
	downloading.Wait()
	return fmt.Sprintf("%d documents of groups, %d of all, %d failed", documents.Load(), all.Load(), failed.Load()), nil
}

// change changes descriptions in definitions.
func (t *target) change(ctx context.Context) (string, error) {
	var next atomic.Int64
	result := load.Offer(ctx, load.Offered{PerSecond: changesPerSecond, Duration: atMost, Workers: changesPerSecond}, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
		defer cancel()
		n := int(next.Add(1))
		return t.admin.Do(ctx, load.Request{
			Method: http.MethodPatch, ContentType: "application/json-patch+json",
			Path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + t.definitions[n%len(t.definitions)].Name,
			Body: fmt.Appendf(nil, `[{"op":"replace","path":"/spec/versions/0/schema/openAPIV3Schema/description","value":"version %d"}]`, n),
		})
	})
	return fmt.Sprintf("%d changes, %d failed", result.Requests, result.Errors), nil
}

// fill has etcd refuse writes as if its quota were used up.
func (t *target) fill(ctx context.Context) (string, error) {
	alarm := func(ctx context.Context, action pb.AlarmRequest_AlarmAction) error {
		_, err := t.etcd.Alarm(ctx, &pb.AlarmRequest{Action: action, Alarm: pb.AlarmType_NOSPACE})
		return err
	}
	if err := alarm(ctx, pb.AlarmRequest_ACTIVATE); err != nil {
		return "", err
	}
	<-ctx.Done()
	return "", alarm(context.WithoutCancel(ctx), pb.AlarmRequest_DEACTIVATE)
}

// freeze stops the processes, which keep their connections.
func (t *target) freeze(ctx context.Context) (string, error) {
	pids, err := t.processes(ctx)
	if err != nil {
		return "", err
	}
	signal := func(s syscall.Signal) (err error) {
		for _, pid := range pids {
			err = errors.Join(err, syscall.Kill(pid, s))
		}
		return err
	}
	if err := signal(syscall.SIGSTOP); err != nil {
		return "", err
	}
	<-ctx.Done()
	// A process that stands still may have been replaced.
	if err := signal(syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) {
		return "", err
	}
	return "", nil
}

// starve limits the memory of the processes while OpenAPI is downloaded, and starts those anew that end at it.
func (t *target) starve(ctx context.Context) (_ string, err error) {
	limit, limited, deaths := uint64(0), map[int]bool{}, 0
	look := func(ctx context.Context) error {
		revived, err := t.revive(ctx)
		if err != nil {
			return err
		}
		if revived {
			deaths++
		}
		pids, err := t.processes(ctx)
		for _, pid := range pids {
			if limited[pid] {
				continue
			}
			if limit == 0 {
				limit = dataOf(pid) + more
			}
			if limitData(pid, limit) == nil { // it may have ended
				limited[pid] = true
			}
		}
		return err
	}
	if err := look(ctx); err != nil {
		return "", err
	}
	var downloading sync.WaitGroup
	downloading.Go(func() {
		_, _ = t.download(ctx) // failures are the fault
	})
	defer downloading.Wait()
	for ctx.Err() == nil {
		if err := look(ctx); err != nil && ctx.Err() == nil { // the end of the fault interrupts a look
			return "", err
		}
		_ = pause(ctx, attention) // the loop looks for the end
	}
	for pid := range limited {
		_ = limitData(pid, unix.RLIM_INFINITY) // it may have ended
	}
	return fmt.Sprintf("%d of its processes ended", deaths), nil
}

// limitData limits the memory that a process may write to, without its stacks. Unlike a limit of a control group, it needs no rights.
func limitData(pid int, bytes uint64) error {
	var old unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_DATA, nil, &old); err != nil {
		return err
	}
	return unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: min(bytes, old.Max), Max: old.Max}, nil)
}

// dataOf returns the memory of a process that RLIMIT_DATA counts.
func dataOf(pid int) uint64 {
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	defer file.Close() //nolint:errcheck // it was read only
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var kib uint64
		if n, _ := fmt.Sscanf(lines.Text(), "VmData: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}
