// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/base/service/auditlog/auditfile"
)

const program = "github.com/tripod-k8s/tripod/cmd/" + Program

// What this process links takes memory for as long as it runs. `go test -v -run TestTheProcessThatStaysIsSmall ./test/compare/supervision` says
// how much.
func TestTheProgramLinksNoAPIServer(t *testing.T) {
	list, err := exec.CommandContext(t.Context(), "go", "list", "-deps", program).Output()
	require.NoError(t, err)
	linked := strings.Fields(string(list))
	require.Contains(t, linked, "github.com/tripod-k8s/tripod/local/process", "what the program links")
	for _, name := range linked {
		for _, large := range []string{
			"k8s.io/kubernetes", "k8s.io/apiserver", "k8s.io/api", "k8s.io/apiextensions-apiserver", "k8s.io/kube-aggregator",
			"k8s.io/client-go/kubernetes", "k8s.io/client-go/tools", "google.golang.org/grpc",
		} {
			if name == large || strings.HasPrefix(name, large+"/") {
				t.Errorf("the program links %s", name)
			}
		}
	}
}

// testPlan returns a plan with an open file and a held port.
func testPlan(t *testing.T) (plan *Plan, port *net.TCPAddr) {
	t.Helper()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	held, err := listener.File()
	require.NoError(t, err)
	ports, err := Inherit(held)
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	require.NoError(t, held.Close())

	dir := t.TempDir()
	directory, err := os.Open(dir)
	require.NoError(t, err)
	lock, err := Inherit(directory)
	require.NoError(t, err)
	require.NoError(t, directory.Close())
	t.Cleanup(func() { _ = syscall.Close(lock) })

	logs := logsapi.NewLoggingConfiguration()
	logs.Format, logs.Verbosity = logsapi.JSONLogFormat, 3
	logs.VModule = logsapi.VModuleConfiguration{{FilePattern: "run", Verbosity: 5}}
	logs.Options.JSON.SplitStream = true
	require.NoError(t, logs.Options.JSON.InfoBufferSize.Set("64Ki"))
	return &Plan{
		Logs: *logs, Dir: dir, Lock: lock,
		Certificates: certs.Set{Authority: "ca", CommonName: "an authority", Leaves: []certs.NamedLeaf{{Name: "core", Leaf: certs.Leaf{
			CommonName: "core", DNSNames: []string{"localhost"}, IPs: []net.IP{net.IPv6loopback}, Server: true,
		}}}},
		AuditLog: auditfile.Options{Path: "/audit.log", MaxAge: 1, MaxBackups: 2, MaxSize: 3, Compress: true}, AuditSocket: "/socket",
		Processes: []Process{{
			Component: "core", Replica: "core-0", Path: "/bin/core", Args: []string{"--x=1", "--y=\n\x01"}, Address: "https://127.0.0.1:1",
			Probe: "http://127.0.0.1:2", StopTimeout: time.Minute, Ports: []int{ports},
		}},
	}, listener.Addr().(*net.TCPAddr)
}

func TestAPlanArrivesAsItWasWritten(t *testing.T) {
	want, _ := testPlan(t)
	number, err := want.write()
	require.NoError(t, err)
	left, err := os.ReadDir(want.Dir)
	require.NoError(t, err)
	assert.Empty(t, left, "nobody else can read the plan")

	t.Setenv(planVariable, strconv.Itoa(number))
	got, err := readPlan()
	require.NoError(t, err)
	// Their types have fields that do not count.
	assert.Equal(t, want.Logs.VModule, got.Logs.VModule)
	assert.Zero(t, want.Logs.Options.JSON.InfoBufferSize.Cmp(got.Logs.Options.JSON.InfoBufferSize.Quantity))
	assert.True(t, got.Logs.Options.JSON.SplitStream)
	assert.Equal(t, []any{want.Logs.Format, want.Logs.Verbosity, want.Logs.FlushFrequency}, []any{got.Logs.Format, got.Logs.Verbosity, got.Logs.FlushFrequency})
	got.Logs = want.Logs
	assert.Equal(t, want, got)

	_, set := os.LookupEnv(planVariable)
	assert.False(t, set, "services would have it, too")
	for _, file := range []int{got.Lock, got.Processes[0].Ports[0]} {
		flags, err := unix.FcntlInt(uintptr(file), unix.F_GETFD, 0)
		require.NoError(t, err)
		assert.NotZero(t, flags&unix.FD_CLOEXEC, "services would have the file, too")
	}
}

func TestAPortIsHeldUntilItsServiceStarts(t *testing.T) {
	plan, port := testPlan(t)
	_, err := net.ListenTCP("tcp", port)
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	start := plan.processes()[0].BeforeStart
	start()
	listener, err := net.ListenTCP("tcp", port)
	require.NoError(t, err)
	defer listener.Close()
	// The service starts again, and the number of the file may be that of another one by then.
	start()
	other, err := listener.File()
	require.NoError(t, err)
	assert.NoError(t, other.Close())
}

func TestTheHelpNamesWhatStartsTheProgram(t *testing.T) {
	for _, value := range []string{"", "x", "-1"} {
		t.Setenv(planVariable, value)
		_, err := readPlan()
		assert.ErrorContains(t, err, "tripod kube-apiserver", value)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "plan"))
	require.NoError(t, err)
	defer file.Close()
	number, err := Inherit(file)
	require.NoError(t, err)
	t.Setenv(planVariable, strconv.Itoa(number))
	_, err = readPlan()
	assert.ErrorContains(t, err, "cannot read the plan")
}

func TestNoSignalIsLostBetweenTwoPrograms(t *testing.T) {
	for range 100 {
		ctx, signals := NotifySignals()
		signals.arrived <- syscall.SIGTERM // as if it came right before Release
		signals.Release()
		require.Error(t, ctx.Err())
	}
	ctx, signals := NotifySignals()
	signals.Release()
	assert.NoError(t, ctx.Err())
}
