// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/coreos/go-systemd/v22/daemon"

	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/local/process"
)

// maxNotification is the size of a notification that counts. systemd reads no longer ones.
const maxNotification = 4 << 10

// notifyOnceAllServe notifies the service manager of this process, if it has one, when all processes serve. Each says so as kube-apiserver
// does, at a socket of its own in dir. Call end once they have stopped.
func notifyOnceAllServe(dir string, processes []process.Process) (end func(), err error) {
	if os.Getenv(process.NotifyVariable) == "" {
		return func() {}, nil
	}
	var sockets []*net.UnixConn
	var readers sync.WaitGroup
	var starting atomic.Int32
	starting.Store(int32(len(processes)))
	end = func() {
		for _, socket := range sockets {
			_ = socket.Close() // ends its reader
		}
		readers.Wait()
	}
	for i := range processes {
		path := filepath.Join(dir, fmt.Sprintf("notify-%d.sock", i))
		socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
		if err != nil {
			end()
			return nil, fmt.Errorf("cannot listen for notifications: %w", err)
		}
		sockets = append(sockets, socket)
		processes[i].Env = append(processes[i].Env, process.NotifyVariable+"="+path)
		readers.Go(func() {
			readNotifications(socket, func() {
				if starting.Add(-1) == 0 {
					notify()
				}
			})
		})
	}
	return end, nil
}

func notify() {
	if _, err := daemon.SdNotify(true, daemon.SdNotifyReady); err != nil {
		klog.ErrorS(err, "Cannot notify the service manager")
	}
}

// readNotifications calls ready once, at the first notification that the sender serves. It reads until the socket is closed, because a
// process that is started again notifies again.
func readNotifications(socket *net.UnixConn, ready func()) {
	once := sync.OnceFunc(ready)
	buffer := make([]byte, maxNotification)
	for {
		n, err := socket.Read(buffer)
		if err != nil {
			return
		}
		for line := range bytes.Lines(buffer[:n]) {
			if string(bytes.TrimSpace(line)) == daemon.SdNotifyReady {
				once()
			}
		}
	}
}
