// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// To ask for the time, a process calls a function that the kernel maps into it, the vDSO. The mapping is private, so new code can replace the
// function in this process alone. The new code asks the kernel by a system call, and adds some seconds to the time of day. As when an administrator sets
// the clock, the monotonic clock does not change, and timers use that one.

// clockCode is this code for amd64. The seconds are at secondsAt.
var clockCode = []byte{
	0xb8, 0xe4, 0x00, 0x00, 0x00, // mov eax, 228: clock_gettime
	0x0f, 0x05, // syscall
	0x85, 0xc0, 0x75, 0x10, // not 0: return
	0x85, 0xff, 0x74, 0x05, // CLOCK_REALTIME: add
	0x83, 0xff, 0x05, 0x75, 0x07, // not CLOCK_REALTIME_COARSE: return
	0x48, 0x81, 0x06, 0, 0, 0, 0, // add qword ptr [rsi], seconds
	0xc3, // return
}

const secondsAt = 23

// clock is the time of day of one process.
type clock struct {
	pid      int
	address  int64
	original []byte
}

// clockReason is why clocks cannot be moved. "" means that they can.
func clockReason() string {
	if runtime.GOARCH != "amd64" || runtime.GOOS != "linux" {
		return "needs linux/amd64"
	}
	return ""
}

// openClock finds the function in a process.
func openClock(pid int) (*clock, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(maps)) {
		if !strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			continue
		}
		from, to, _ := strings.Cut(strings.Fields(line)[0], "-")
		start, err := strconv.ParseInt(from, 16, 64)
		if err != nil {
			return nil, err
		}
		end, err := strconv.ParseInt(to, 16, 64)
		if err != nil {
			return nil, err
		}
		return newClock(pid, start, end)
	}
	return nil, errors.New("the process has no vDSO")
}

func newClock(pid int, start, end int64) (*clock, error) {
	c := &clock{pid: pid}
	memory, err := os.Open(c.memory())
	if err != nil {
		return nil, err
	}
	defer memory.Close() //nolint:errcheck // it was only read
	image := make([]byte, end-start)
	if _, err := io.ReadFull(io.NewSectionReader(memory, start, end-start), image); err != nil {
		return nil, fmt.Errorf("cannot read the vDSO: %w", err)
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return nil, fmt.Errorf("cannot read the vDSO: %w", err)
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return nil, fmt.Errorf("cannot read the vDSO: %w", err)
	}
	for _, symbol := range symbols {
		if symbol.Name == "__vdso_clock_gettime" && symbol.Size >= uint64(len(clockCode)) {
			at := int(symbol.Value)
			c.address, c.original = start+int64(at), bytes.Clone(image[at:at+int(symbol.Size)])
			return c, nil
		}
	}
	return nil, errors.New("the vDSO has no __vdso_clock_gettime")
}

func (c *clock) memory() string { return fmt.Sprintf("/proc/%d/mem", c.pid) }

// jump moves the time of day of the process by a duration.
func (c *clock) jump(by time.Duration) error {
	code := bytes.Clone(clockCode)
	binary.LittleEndian.PutUint32(code[secondsAt:], uint32(int32(by/time.Second)))
	return c.replace(code)
}

// back resets the time of the process to that of the machine.
func (c *clock) back() error { return c.replace(c.original) }

// replace writes the code while no thread runs the function.
func (c *clock) replace(code []byte) (err error) {
	memory, err := os.OpenFile(c.memory(), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer memory.Close() //nolint:errcheck // it is not a file
	const tries = 100
	for range tries {
		busy, err := c.whileStopped(func() error {
			_, err := memory.WriteAt(code, c.address)
			return err
		})
		if !busy || err != nil {
			return err
		}
	}
	return errors.New("the process always asks for the time")
}

// whileStopped stops the process and calls do, unless a thread is in the function (busy).
func (c *clock) whileStopped(do func() error) (busy bool, err error) {
	if err := syscall.Kill(c.pid, syscall.SIGSTOP); err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, syscall.Kill(c.pid, syscall.SIGCONT)) }()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", c.pid))
	if err != nil {
		return false, err
	}
	for _, thread := range threads {
		counter, err := programCounter(thread)
		if err != nil {
			return false, err
		}
		if counter >= c.address && counter < c.address+int64(len(c.original)) {
			return true, nil
		}
	}
	return false, do()
}

// programCounter returns the program counter of a stopped thread. It waits until the thread stops.
func programCounter(thread string) (int64, error) {
	for {
		data, err := os.ReadFile(filepath.Join(thread, "syscall"))
		if err != nil {
			return 0, err
		}
		fields := strings.Fields(string(data))
		if len(fields) < 3 { // the thread is "running"
			runtime.Gosched()
			continue
		}
		return strconv.ParseInt(strings.TrimPrefix(fields[len(fields)-1], "0x"), 16, 64)
	}
}
