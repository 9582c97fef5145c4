// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tripod-k8s/tripod/base/service/atomicfile"
)

const (
	// rolloutTimeout leaves a replica time to stop, and the kubelet to notice and to start it.
	rolloutTimeout = 5 * time.Minute
	probeInterval  = 100 * time.Millisecond
	probeTimeout   = 2 * time.Second
)

// Rollout writes static pods to the directory of the kubelet's manifests, and removes those of replicas that are no longer wanted. If a
// service has several replicas, it changes one after the other, and waits for each, so that the others serve meanwhile. progress gets
// a line for each change.
func Rollout(ctx context.Context, dir string, manifests []Manifest, progress func(string)) error {
	return rollout{dir, progress, ready}.write(ctx, manifests)
}

type rollout struct {
	dir      string
	progress func(string)
	// ready returns an error if the replica with such a URL is not ready.
	ready func(ctx context.Context, url string) error
}

func (r rollout) write(ctx context.Context, manifests []Manifest) error {
	for _, m := range manifests {
		path := filepath.Join(r.dir, m.File)
		before, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot write a static pod: %w", err)
		}
		if err == nil && bytes.Equal(before, m.Content) {
			r.progress(path + " is up to date")
			continue
		}
		replaces := err == nil
		if err := atomicfile.Write(path, m.Content); err != nil {
			return fmt.Errorf("cannot write a static pod: %w", err)
		}
		r.progress(path)
		if !replaces || m.Ready == "" {
			continue
		}
		if err := r.awaitRestart(ctx, m.Ready); err != nil {
			return fmt.Errorf("%s: %w; the manifests after it are unchanged: look at the logs of the pod, then run the command again", path, err)
		}
	}
	return r.removeOthers(manifests)
}

// awaitRestart returns when a replica has ended, and is ready again.
func (r rollout) awaitRestart(ctx context.Context, url string) error {
	for _, step := range []struct {
		until func(error) bool
		wrong string
	}{
		// A replica that is busy may answer nothing in time. Only a port without a listener says that it has ended.
		{func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }, "the kubelet did not stop the replica"},
		{func(err error) bool { return err == nil }, "the replica did not become ready"},
	} {
		var last error
		if err := wait.PollUntilContextTimeout(ctx, probeInterval, rolloutTimeout, true, func(ctx context.Context) (bool, error) {
			last = r.ready(ctx, url)
			return step.until(last), nil
		}); err != nil {
			return fmt.Errorf("%s within %s: %w", step.wrong, rolloutTimeout, errors.Join(last, ctx.Err()))
		}
	}
	return nil
}

func ready(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}

// removeOthers removes the manifests of replicas beyond the wanted number, and of partitions that are no longer wanted.
func (r rollout) removeOthers(manifests []Manifest) error {
	var files []string
	for _, service := range services {
		for number := 2; number <= maxStaticReplicas; number++ {
			files = append(files, staticReplica{service, number}.podName()+".yaml")
		}
	}
	ofPartitions, err := filepath.Glob(filepath.Join(r.dir, podOf(extensions)+"-*.yaml"))
	if err != nil {
		return fmt.Errorf("cannot find the static pods of partitions: %w", err)
	}
	for _, path := range ofPartitions {
		files = append(files, filepath.Base(path))
	}
	for _, file := range files {
		if slices.ContainsFunc(manifests, func(m Manifest) bool { return m.File == file }) {
			continue
		}
		path := filepath.Join(r.dir, file)
		err := os.Remove(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot remove the static pod of a replica: %w", err)
		}
		r.progress(path + " is removed")
	}
	return nil
}
