// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMain makes the test binary the process whose clock is moved, too.
func TestMain(m *testing.M) {
	if os.Getenv("TELL_THE_TIME") == "" {
		os.Exit(m.Run())
	}
	began := time.Now()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		now := time.Now()
		fmt.Println(now.Unix(), now.Sub(began) < time.Minute)
	}
}

// TestAClockMoves moves the time of day of a process. Its monotonic clock must not move.
func TestAClockMoves(t *testing.T) {
	if reason := clockReason(); reason != "" {
		t.Skip(reason)
	}
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), "TELL_THE_TIME=1")
	input, err := other.StdinPipe()
	require.NoError(t, err)
	output, err := other.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, other.Start())
	answers := bufio.NewReader(output)
	expect := func(by time.Duration) {
		t.Helper()
		var seconds int64
		var steady bool
		fmt.Fprintln(input)
		line, err := answers.ReadString('\n')
		if err == nil {
			_, err = fmt.Sscan(strings.TrimSpace(line), &seconds, &steady)
		}
		if off := time.Until(time.Unix(seconds, 0)) - by; err != nil || off.Abs() > time.Minute || !steady {
			t.Errorf("%q, %v, %s off, want a clock %s away and a steady monotonic one", line, err, off, by)
		}
	}
	expect(0)
	c, err := openClock(other.Process.Pid)
	require.NoError(t, err)
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		require.NoError(t, c.jump(by))
		expect(by)
	}
	require.NoError(t, c.back())
	expect(0)
	input.Close()
	require.NoError(t, other.Wait())
}
