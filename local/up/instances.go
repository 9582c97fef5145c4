// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/tripod-k8s/tripod/base/certs/privatedir"
	"github.com/tripod-k8s/tripod/local/replicas"
)

// Instance is what List knows of an instance.
type Instance struct {
	// Name is the value of --name, or the data directory of an instance without one.
	Name    string `json:"name"`
	DataDir string `json:"dataDir"`
	// Running says that a `tripod up` uses the directory. PID is its process, and 0 if there is none.
	Running bool `json:"running"`
	PID     int  `json:"pid,omitempty"`
	// Server is the URL for clients.
	Server string `json:"server,omitempty"`
	// Ready and Processes count the processes of an instance that runs.
	Ready     int `json:"ready"`
	Processes int `json:"processes"`
	// Version is the version of Kubernetes, if an aggregator runs.
	Version string `json:"version,omitempty"`
	// Message says why the rest is missing.
	Message string `json:"message,omitempty"`
}

// Instances returns the data directories of the default instance and of the named ones, as far as they are there.
func Instances() ([]DataDir, error) {
	named, err := filepath.Glob(homeDir() + "-*")
	if err != nil {
		return nil, err
	}
	var found []DataDir
	for _, path := range append([]string{DefaultDataDir()}, named...) {
		d := DataDir(path)
		if _, err := os.Lstat(d.pki()); err == nil {
			found = append(found, d)
		}
	}
	return found, nil
}

// Describe returns the state of an instance.
func Describe(ctx context.Context, d DataDir) Instance {
	in := Instance{Name: d.Name(), DataDir: string(d)}
	if err := privatedir.Check(string(d)); err != nil {
		in.Message = err.Error()
		return in
	}
	if config, err := clientcmd.LoadFromFile(d.Kubeconfig()); err == nil && config.Clusters[contextName] != nil {
		in.Server = config.Clusters[contextName].Server
	}
	statuses, err := GetStatus(ctx, d, 0)
	var away *notRunningError
	if errors.As(err, &away) {
		return in
	}
	if err != nil {
		in.Message = err.Error()
	}
	in.Running, in.PID, in.Processes = true, d.holder(), len(statuses)
	for _, s := range statuses {
		if s.Ready {
			in.Ready++
		}
		if s.Component == replicas.Aggregator {
			in.Version = s.Version
		}
	}
	return in
}

// holder returns the process that was the last to lock the directory, or 0.
func (d DataDir) holder() (pid int) {
	lock, err := os.OpenFile(d.lockFile(), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return 0
	}
	defer lock.Close() //nolint:errcheck // it is only read
	_, _ = fmt.Fscan(lock, &pid)
	return pid
}

// stopInterval is how often to ask an instance that does not listen.
const stopInterval = 50 * time.Millisecond

// Stop stops the instance that runs in the data directory, and waits for its end. It calls found with the process of the instance, and
// reports whether there was one.
func Stop(ctx context.Context, d DataDir, found func(pid int)) (stopped bool, err error) {
	for {
		err := ask(ctx, d, http.MethodPost, stopPath, nil, func(*json.Decoder) error { return nil })
		var away *notRunningError
		if err != nil && !errors.As(err, &away) {
			return stopped, err
		}
		// One that has just begun does not listen yet, and one that ends does not any more.
		locked, lookErr := d.isLocked()
		if lookErr != nil || err != nil && !locked {
			return stopped, lookErr
		}
		if !stopped {
			stopped = true
			found(d.holder())
		}
		if err == nil {
			return true, d.awaitUnlocked(ctx)
		}
		select {
		case <-time.After(stopInterval):
		case <-ctx.Done():
			return false, d.notStopped(ctx)
		}
	}
}

func (d DataDir) notStopped(ctx context.Context) error {
	return fmt.Errorf("the instance in %s has not stopped: %w", d, context.Cause(ctx))
}

// awaitUnlocked waits until no process has locked the directory.
func (d DataDir) awaitUnlocked(ctx context.Context) error {
	lock, err := os.OpenFile(d.lockFile(), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	unlocked := make(chan error, 1)
	go func() {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_SH)
		_ = lock.Close()
		unlocked <- err
	}()
	select {
	case err := <-unlocked:
		return err
	case <-ctx.Done(): // the other goroutine ends with the instance or with this process
		return d.notStopped(ctx)
	}
}

// made are the names of all that Run makes in a data directory, in the order in which Delete deletes them.
var made = []string{
	"kubeconfig", "etcd", "controllers", "logs", "kubernetes-version", "backends.yaml", "tripod.sock",
	"search.db", "search.db-shm", "search.db-wal", "search.db-journal", pkiName, "lock", ".tripod-instance",
}

// Find returns an error if the directory has no instance.
func Find(d DataDir) error {
	if _, err := os.Lstat(d.pki()); err != nil {
		return fmt.Errorf("there is no instance in %s: `tripod list` shows those that there are", d)
	}
	return nil
}

// Delete deletes what an instance that has stopped has left. It returns names in the directory that are not of an instance. These stay.
func Delete(d DataDir) (others []string, err error) {
	if err := Find(d); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(d.marker()); err != nil {
		return nil, fmt.Errorf("%s had files before an instance used it, so they may not be its own: delete what you do not need yourself", d)
	}
	lock, err := d.open()
	if lock != nil {
		defer lock.Close() //nolint:errcheck // its file is gone
	}
	if err != nil {
		return nil, err
	}
	for _, name := range made {
		if err := os.RemoveAll(filepath.Join(string(d), name)); err != nil {
			return nil, err
		}
	}
	left, err := os.ReadDir(string(d))
	if err != nil {
		return nil, err
	}
	for _, entry := range left {
		others = append(others, entry.Name())
	}
	if len(others) > 0 {
		return others, nil
	}
	return nil, os.Remove(string(d))
}
