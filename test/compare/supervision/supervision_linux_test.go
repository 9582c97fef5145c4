// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package supervision

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/test/framework"
)

// manager is as much of a service manager as a process can notice.
type manager struct {
	socket *net.UnixConn
	path   string

	mu sync.Mutex
	// heard are the notifications by the process that sent them.
	heard map[int][]string
}

func newManager(t *testing.T) *manager {
	t.Helper()
	m := &manager{path: filepath.Join(t.TempDir(), "notify"), heard: map[int][]string{}}
	var err error
	m.socket, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path, Net: "unixgram"})
	require.NoError(t, err)
	raw, err := m.socket.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1) }))
	require.NoError(t, err)
	var listening sync.WaitGroup
	listening.Go(m.listen)
	t.Cleanup(func() {
		_ = m.socket.Close() // ends listen
		listening.Wait()
	})
	return m
}

func (m *manager) listen() {
	text, control := make([]byte, 4096), make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	for {
		n, controls, _, _, err := m.socket.ReadMsgUnix(text, control)
		if err != nil {
			return
		}
		messages, err := unix.ParseSocketControlMessage(control[:controls])
		if err != nil || len(messages) == 0 {
			continue
		}
		sender, err := unix.ParseUnixCredentials(&messages[0])
		if err != nil {
			continue
		}
		m.mu.Lock()
		m.heard[int(sender.Pid)] = append(m.heard[int(sender.Pid)], strings.TrimSpace(string(text[:n])))
		m.mu.Unlock()
	}
}

// environment is what systemd tells the process of a unit with Type=notify, WatchdogSec= and a socket.
func (m *manager) environment() []string {
	return []string{
		"NOTIFY_SOCKET=" + m.path, "WATCHDOG_USEC=600000000", "WATCHDOG_PID=1", "LISTEN_PID=1", "LISTEN_FDS=1", "LISTEN_FDNAMES=api", "ORDINARY=yes",
	}
}

// notified returns when a process has notified.
func (m *manager) notified(t *testing.T, pid int) {
	t.Helper()
	framework.Eventually(t, "the service manager is notified", func(context.Context) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if len(m.heard[pid]) == 0 {
			return fmt.Errorf("it heard %v, and nothing of %d", m.heard, pid)
		}
		return nil
	})
}

// onBoth runs a test on kube-apiserver and on Tripod in its place.
func onBoth(t *testing.T, args []string, test func(*testing.T, *manager, *framework.Stock)) {
	t.Helper()
	for name, dropIn := range map[string]bool{"stock": false, "dropin": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newManager(t)
			server, err := framework.ForTest(t).StartStock(t.Context(), framework.StockOptions{DropIn: dropIn, Env: m.environment(), Args: args})
			require.NoError(t, err)
			if dropIn {
				assert.Len(t, children(t, server.Process.PID()), 3)
			}
			test(t, m, server)
		})
	}
}

func TestReadinessIsOfTheProcessThatWasStarted(t *testing.T) {
	onBoth(t, []string{"--shutdown-delay-duration=1m"}, func(t *testing.T, m *manager, server *framework.Stock) {
		pid := server.Process.PID()
		m.notified(t, pid)
		services := children(t, pid)
		for _, service := range services {
			content, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", service))
			require.NoError(t, err)
			assert.Contains(t, string(content), "ORDINARY=yes")
			for _, variable := range m.environment()[:6] {
				assert.NotContains(t, string(content), variable)
			}
		}

		require.NoError(t, server.Process.Signal(syscall.SIGTERM))
		stopping(t, server)
		require.NoError(t, server.Process.Signal(syscall.SIGTERM))
		assert.Equal(t, 1, exitCode(t, server), "the second signal ends it")
		gone(t, services)
		m.mu.Lock()
		defer m.mu.Unlock()
		assert.Equal(t, map[int][]string{pid: {"READY=1"}}, m.heard, "nothing but that it serves, and from this process alone")
	})
}

func TestTripodUpNotifiesForItsProcesses(t *testing.T) {
	m := newManager(t)
	tripod, err := framework.ForTest(t).StartTripod(t.Context(), framework.TripodOptions{Env: m.environment()})
	require.NoError(t, err)
	pid := tripod.Process.PID()
	m.notified(t, pid)
	require.NoError(t, tripod.Process.Stop())
	m.mu.Lock()
	defer m.mu.Unlock()
	assert.Equal(t, map[int][]string{pid: {"READY=1"}}, m.heard, "also etcd leaves it to this process")
}

func TestSignals(t *testing.T) {
	// Under nohup, this process ignores SIGHUP, and so would those that it starts. They do not if it handles the signal.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	for sent, code := range map[syscall.Signal]int{syscall.SIGTERM: 0, syscall.SIGINT: 0, syscall.SIGHUP: -1, syscall.SIGKILL: -1} {
		t.Run(sent.String(), func(t *testing.T) {
			onBoth(t, nil, func(t *testing.T, _ *manager, server *framework.Stock) {
				services := children(t, server.Process.PID())
				require.NoError(t, server.Process.Signal(sent))
				assert.Equal(t, code, exitCode(t, server))
				gone(t, services)
			})
		})
	}
}

// exitCode waits until a server has ended. One that does not says in its log what it does.
func exitCode(t *testing.T, server *framework.Stock) int {
	t.Helper()
	ended := make(chan int, 1)
	go func() { ended <- server.Process.ExitCode() }()
	select {
	case code := <-ended:
		return code
	case <-time.After(3 * time.Minute):
		_ = server.Process.Signal(syscall.SIGQUIT) // its goroutines
		require.FailNow(t, "it does not end", "the processes that it has started: %v", children(t, server.Process.PID()))
		return 0
	}
}

// stopping returns when a server says that it stops.
func stopping(t *testing.T, server *framework.Stock) {
	t.Helper()
	client, err := kubernetes.NewForConfig(server.Admin())
	require.NoError(t, err)
	framework.Eventually(t, "the server stops", func(ctx context.Context) error {
		err := client.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		if err == nil {
			return errors.New("it is ready")
		}
		return nil
	})
}

// children returns the processes that a process has started.
func children(t *testing.T, pid int) []int {
	t.Helper()
	var result []int
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, stat := range stats {
		content, err := os.ReadFile(stat)
		if err != nil { // it has ended
			continue
		}
		// The state and the parent follow the name of the program, in parentheses (proc_pid_stat(5)).
		_, after, _ := strings.Cut(string(content), ") ")
		if fields := strings.Fields(after); len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			child, err := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
			require.NoError(t, err)
			result = append(result, child)
		}
	}
	return result
}

// gone returns when processes have ended.
func gone(t *testing.T, pids []int) {
	t.Helper()
	framework.Eventually(t, "no service is left", func(context.Context) error {
		for _, pid := range pids {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if _, state, _ := strings.Cut(string(stat), ") "); err == nil && !strings.HasPrefix(state, "Z") {
				return fmt.Errorf("%s", stat)
			}
		}
		return nil
	})
}
