// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"syscall"
)

// status is an entry of `tripod status -o json`.
type status struct {
	Component string `json:"component"`
	Replica   string `json:"replica"`
	PID       int    `json:"pid"`
	Ready     bool   `json:"ready"`
	Message   string `json:"message"`
}

func (a *API) statuses() (all []status, err error) {
	output, err := a.tripod("status", "-o", "json")
	if err != nil {
		return nil, err
	}
	return all, json.Unmarshal(output, &all)
}

// find returns the status of a replica.
func (a *API) find(replica string) (status, error) {
	all, err := a.statuses()
	if err != nil {
		return status{}, err
	}
	if i := slices.IndexFunc(all, func(s status) bool { return s.Replica == replica }); i >= 0 {
		return all[i], nil
	}
	return status{}, fmt.Errorf("there is no replica %s", replica)
}

// running returns the status of a replica that has a process, or ends the test.
func (a *API) running(replica string) status {
	a.t.Helper()
	s, err := a.find(replica)
	if err == nil && s.PID <= 0 {
		err = fmt.Errorf("%s has no process: %s", replica, s.Message)
	}
	if err != nil {
		a.t.Fatalf("apitest: %v", err)
	}
	return s
}

// Replicas returns the names of the replicas of the service, such as NAME-0.
func (a *API) Replicas() []string {
	a.t.Helper()
	all, err := a.statuses()
	if err != nil {
		a.t.Fatalf("apitest: %v", err)
	}
	var names []string
	for _, s := range all {
		if s.Component == a.service.Name {
			names = append(names, s.Replica)
		}
	}
	return names
}

// Kill kills a replica, such as NAME-0 or core-0, as kill -9 does. It returns when the instance has noticed. The instance starts another
// process in its place, after a pause, and [API.WaitReady] waits for that.
func (a *API) Kill(replica string) {
	a.t.Helper()
	before := a.running(replica)
	if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
		a.t.Fatalf("apitest: kill %s: %v", replica, err)
	}
	a.await(replica, "is noticed to be dead", func(s status) bool { return s.PID != before.PID || !s.Ready })
}

// Freeze stops all threads of a replica: its connections stay, and nothing answers. Reads that it has taken are sent to another replica.
// Writes that it has taken fail, because they may have been carried out. The function that Freeze returns lets the replica go on, and so
// does the end of the test.
func (a *API) Freeze(replica string) (thaw func()) {
	a.t.Helper()
	s := a.running(replica)
	if err := syscall.Kill(s.PID, syscall.SIGSTOP); err != nil {
		a.t.Fatalf("apitest: freeze %s: %v", replica, err)
	}
	thaw = sync.OnceFunc(func() { _ = syscall.Kill(s.PID, syscall.SIGCONT) }) // it may have been killed
	a.t.Cleanup(thaw)
	return thaw
}

// Roll restarts the replicas of the service, one after the other, as a rolling update does: each ends in order, and the next one follows
// when another process is ready in its place.
func (a *API) Roll() {
	a.t.Helper()
	for _, replica := range a.Replicas() {
		before := a.running(replica)
		if err := syscall.Kill(before.PID, syscall.SIGTERM); err != nil {
			a.t.Fatalf("apitest: stop %s: %v", replica, err)
		}
		a.await(replica, "is back", func(s status) bool { return s.PID != before.PID && s.Ready })
	}
}

// WaitReady waits until every replica of every service is ready.
func (a *API) WaitReady() {
	a.t.Helper()
	a.await("", "is ready", func(s status) bool { return s.Ready })
}

// await waits until a replica, or each replica if the name is empty, is as done wants it.
func (a *API) await(replica, what string, done func(status) bool) {
	a.t.Helper()
	if err := a.wait(statusInterval, func(context.Context) error {
		all, err := a.statuses()
		if err != nil {
			return err
		}
		found := false
		for _, s := range all {
			if replica != "" && s.Replica != replica {
				continue
			}
			if found = true; !done(s) {
				return fmt.Errorf("waiting until %s %s: process %d, %s", s.Replica, what, s.PID, s.Message)
			}
		}
		if !found {
			return fmt.Errorf("there is no replica %s", replica)
		}
		return nil
	}); err != nil {
		a.t.Fatalf("apitest: %v", err)
	}
}
