// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package filewatch

import (
	"path/filepath"
	"sync"

	"github.com/fsnotify/fsnotify"
	"k8s.io/klog/v2"
)

// kernel is the only watcher of the process, because Linux allows a user few of them (fs.inotify.max_user_instances is 128). It is nil if
// there is none left.
var kernel = sync.OnceValue(func() *fsnotify.Watcher {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		klog.InfoS("The kernel does not report changes of files, so they are read twice a second", "reason", err)
		return nil
	}
	go func() {
		for {
			select {
			case <-watcher.Events:
			case err := <-watcher.Errors:
				klog.V(2).InfoS("The kernel lost events of files, so all of them are looked at", "reason", err)
			}
			notify()
		}
	}()
	return watcher
})

var (
	mu sync.Mutex
	// listeners are notified of every event. Each looks at its own files.
	listeners = map[chan<- struct{}]struct{}{}
)

// listen has happened signalled on every event until stop is called.
func listen(happened chan<- struct{}) (stop func()) {
	mu.Lock()
	defer mu.Unlock()
	listeners[happened] = struct{}{}
	return func() {
		mu.Lock()
		defer mu.Unlock()
		delete(listeners, happened)
	}
}

func notify() {
	mu.Lock()
	defer mu.Unlock()
	for happened := range listeners {
		select {
		case happened <- struct{}{}:
		default:
		}
	}
}

// reported makes the kernel report what happens from now on in the directories of files, and of the files that they are links to. It
// returns false if that fails for any: a directory may not exist yet.
func reported(paths []string) bool {
	watcher := kernel()
	if watcher == nil {
		return false
	}
	for _, path := range paths {
		if path == "" {
			continue
		}
		if watcher.Add(filepath.Dir(path)) != nil {
			return false
		}
		if target, err := filepath.EvalSymlinks(path); err == nil && watcher.Add(filepath.Dir(target)) != nil {
			return false
		}
	}
	return true
}
