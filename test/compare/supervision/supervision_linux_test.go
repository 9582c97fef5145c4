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
	// received are the notifications by the process that sent them.
	received map[int][]string
}

func newManager(t *testing.T) *manager {
	t.Helper()
	m := &manager{path: filepath.Join(t.TempDir(), "notify"), received: map[int][]string{}}
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
		m.received[int(sender.Pid)] = append(m.received[int(sender.Pid)], strings.TrimSpace(string(text[:n])))
		m.mu.Unlock()
	}
}

// environment is what systemd sets for the process of a unit with Type=notify, WatchdogSec= and a socket.
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
		if len(m.received[pid]) == 0 {
			return fmt.Errorf("it received %v, and nothing of %d", m.received, pid)
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
			environment := procFile(t, service, "environ")
			assert.Contains(t, environment, "ORDINARY=yes")
			for _, variable := range m.environment()[:6] {
				assert.NotContains(t, environment, variable)
			}
		}

		require.NoError(t, server.Process.Signal(syscall.SIGTERM))
		stopping(t, server)
		require.NoError(t, server.Process.Signal(syscall.SIGTERM))
		assert.Equal(t, 1, exitCode(t, server), "the second signal ends it")
		gone(t, services)
		m.mu.Lock()
		defer m.mu.Unlock()
		assert.Equal(t, map[int][]string{pid: {"READY=1"}}, m.received, "nothing but that it serves, and from this process alone")
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
	assert.Equal(t, map[int][]string{pid: {"READY=1"}}, m.received, "also etcd leaves it to this process")
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

// maxSupervisor is the most resident memory of the process that was started as kube-apiserver, in KiB.
const maxSupervisor = 30 << 10

// docs/design/0024 has the figures that this test logs.
func TestTheProcessThatStaysIsSmall(t *testing.T) {
	audit := filepath.Join(t.TempDir(), "audit.log")
	server, err := framework.ForTest(t).StartStock(t.Context(), framework.StockOptions{DropIn: true, Args: []string{
		"--audit-policy-file=testdata/audit.yaml", "--audit-log-path=" + audit,
	}})
	require.NoError(t, err)
	framework.Eventually(t, "the audit log has events", func(context.Context) error {
		if content, err := os.ReadFile(audit); err != nil || len(content) < 100_000 {
			return fmt.Errorf("it has %d bytes: %w", len(content), err)
		}
		return nil
	})
	status := procFile(t, server.Process.PID(), "status")
	kib := map[string]int{}
	for line := range strings.Lines(status) {
		if name, value, found := strings.Cut(line, ":"); found && (name == "VmRSS" || name == "RssAnon" || name == "RssFile") {
			kib[name], err = strconv.Atoi(strings.Fields(value)[0])
			require.NoError(t, err)
		}
	}
	t.Logf("resident memory in KiB: %v", kib)
	assert.NotZero(t, kib["VmRSS"])
	assert.Less(t, kib["VmRSS"], maxSupervisor)
}

func TestTheProcessKeepsItsNameAndArguments(t *testing.T) {
	server, err := framework.ForTest(t).StartStock(t.Context(), framework.StockOptions{DropIn: true, Args: []string{"--v=2"}})
	require.NoError(t, err)
	pid := server.Process.PID()
	assert.Equal(t, "tripod\n", procFile(t, pid, "comm"))
	arguments := strings.Split(procFile(t, pid, "cmdline"), "\x00")
	assert.Equal(t, "kube-apiserver", arguments[1])
	assert.Contains(t, arguments, "--v=2")

	// What the process got from the program before is not for its children.
	for _, child := range children(t, pid) {
		assert.NotContains(t, procFile(t, child, "environ"), "TRIPOD_SUPERVISOR")
		assert.NotContains(t, strings.Join(openFiles(t, child), " "), "tripod-kube-apiserver-", "the directory and the plan")
	}
	files := strings.Join(openFiles(t, pid), " ")
	assert.Contains(t, files, "tripod-kube-apiserver-", "the lock")
	assert.NotContains(t, files, "plan-")
}

func procFile(t *testing.T, pid int, name string) string {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
	require.NoError(t, err)
	return string(content)
}

// openFiles returns the names of the files that a process has open.
func openFiles(t *testing.T, pid int) []string {
	t.Helper()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	require.NoError(t, err)
	var names []string
	for _, link := range links {
		if name, err := os.Readlink(link); err == nil { // it is open still
			names = append(names, name)
		}
	}
	return names
}

// exitCode waits until a server has ended. The log of one that does not has what it does.
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

// stopping returns when a server reports that it stops.
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
