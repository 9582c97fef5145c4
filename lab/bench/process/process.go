// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package process measures what processes use: processor time, memory, system calls. Linux only.
package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a process of a server.
type Process struct {
	// Service is its name, such as kube-apiserver or etcd; of later replicas, with a number.
	Service string
	PID     int
}

// CPU returns the processor time that all threads of a process have used.
func (p Process) CPU() (time.Duration, error) {
	// The clock that clock_getcpuclockid(3) makes of a PID. It is finer than the hundredths of a second of /proc.
	const threadGroupScheduled = 2
	var at unix.Timespec
	if err := unix.ClockGettime(int32(^p.PID<<3|threadGroupScheduled), &at); err != nil {
		return 0, fmt.Errorf("cannot read the processor time of %s: %w", p.Service, err)
	}
	return time.Duration(at.Nano()), nil
}

// Resident returns the resident memory of a process and its peak, in MB.
func (p Process) Resident() (now, most float64, err error) {
	found, err := numbers(fmt.Sprintf("/proc/%d/status", p.PID))
	if err == nil && found["VmRSS:"] == 0 {
		err = errors.New("it has ended")
	}
	if err != nil {
		return 0, 0, fmt.Errorf("cannot read the memory of %s: %w", p.Service, err)
	}
	const kib = 1024 / 1e6
	return float64(found["VmRSS:"]) * kib, float64(found["VmHWM:"]) * kib, nil
}

// Memory is what a process uses, in MB.
type Memory struct {
	// Anonymous is the memory of its own. Proportional adds its part of what it shares with other processes, such as its program, and Resident
	// all of that.
	Anonymous, Proportional, Resident float64
}

// Memory returns the memory of a process.
func (p Process) Memory() (Memory, error) {
	found, err := numbers(fmt.Sprintf("/proc/%d/smaps_rollup", p.PID))
	if err == nil && found["Rss:"] == 0 {
		err = errors.New("it has ended")
	}
	if err != nil {
		return Memory{}, fmt.Errorf("cannot read the memory of %s: %w", p.Service, err)
	}
	const kib = 1024 / 1e6
	return Memory{float64(found["Anonymous:"]) * kib, float64(found["Pss:"]) * kib, float64(found["Rss:"]) * kib}, nil
}

// Together returns the memory of several processes now, and the sum of their peaks, in MB. What only they share, such as the program that all
// of them run, counts once. Linux has no peak of that, so a peak is taken to share what the process shares now.
func Together(processes []Process) (now, most float64, err error) {
	for _, p := range processes {
		one, err := p.Memory()
		if err != nil {
			return 0, 0, err
		}
		_, peak, err := p.Resident()
		if err != nil {
			return 0, 0, err
		}
		now, most = now+one.Proportional, most+peak-(one.Resident-one.Proportional)
	}
	return now, most, nil
}

// Counts returns how often threads of the process began to wait or were interrupted, and how often they called read and write.
func (p Process) Counts() (switches, systemCalls int64, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", p.PID))
	if err != nil {
		return 0, 0, err
	}
	for _, thread := range threads {
		if found, err := numbers(thread); err == nil { // it may have ended
			switches += found["voluntary_ctxt_switches:"] + found["nonvoluntary_ctxt_switches:"]
		}
	}
	found, err := numbers(fmt.Sprintf("/proc/%d/io", p.PID))
	if err != nil {
		return 0, 0, fmt.Errorf("cannot read the system calls of %s: %w", p.Service, err)
	}
	return switches, found["syscr:"] + found["syscw:"], nil
}

// CountsOf returns the sums of the counts of several processes.
func CountsOf(processes []Process) (switches, systemCalls int64, err error) {
	for _, p := range processes {
		s, c, err := p.Counts()
		if err != nil {
			return 0, 0, err
		}
		switches, systemCalls = switches+s, systemCalls+c
	}
	return switches, systemCalls, nil
}

// numbers returns the decimal numbers of a file of /proc by name. A colon follows each name.
func numbers(path string) (map[string]int64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	found := map[string]int64{}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > 1 {
			if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
				found[fields[0]] = n
			}
		}
	}
	return found, nil
}

// MemoryOf returns the resident memory of each process and its peak, in MB.
func MemoryOf(processes []Process) (now, most map[string]float64, err error) {
	now, most = map[string]float64{}, map[string]float64{}
	for _, p := range processes {
		if now[p.Service], most[p.Service], err = p.Resident(); err != nil {
			return nil, nil, err
		}
	}
	return now, most, nil
}

// CPUByService returns the processor time of the processes of each service.
func CPUByService(processes []Process) (map[string]time.Duration, error) {
	times := map[string]time.Duration{}
	for _, p := range processes {
		one, err := p.CPU()
		if err != nil {
			return nil, err
		}
		times[p.Service] += one
	}
	return times, nil
}

// CPUOf returns the processor time of several processes together.
func CPUOf(processes ...Process) (sum time.Duration, err error) {
	times, err := CPUByService(processes)
	for _, one := range times {
		sum += one
	}
	return sum, err
}

// FamilyCPU returns the processor time of a process and of all that it has started, those that have ended included.
func (p Process) FamilyCPU() (time.Duration, error) {
	sum, err := p.CPU()
	if err != nil {
		return 0, err
	}
	ended, err := p.endedChildren()
	if err != nil {
		return 0, err
	}
	sum += ended
	children, err := p.Children()
	if err != nil {
		return 0, err
	}
	for _, child := range children {
		if one, err := child.CPU(); err == nil { // it may have ended
			sum += one
		}
	}
	return sum, nil
}

// Children returns the processes that a process has started and that still run. They have its name.
func (p Process) Children() (children []Process, err error) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.PID))
	if err != nil {
		return nil, err
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if errors.Is(err, os.ErrNotExist) {
			continue // the thread has ended
		}
		if err != nil {
			return nil, fmt.Errorf("cannot see what %s has started: %w", p.Service, err)
		}
		for child := range strings.FieldsSeq(string(text)) {
			id, err := strconv.Atoi(child)
			if err != nil {
				return nil, err
			}
			children = append(children, Process{p.Service, id})
		}
	}
	return children, nil
}

// CommandLine returns the program that the process runs, and its arguments. A process that has just ended has none.
func (p Process) CommandLine() ([]string, error) {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
	if err != nil {
		return nil, fmt.Errorf("cannot read the command line of %s: %w", p.Service, err)
	}
	return strings.Split(string(line), "\x00"), nil
}

// endedChildren returns the processor time of the children that have ended, in hundredths of a second.
func (p Process) endedChildren() (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
	if err != nil {
		return 0, fmt.Errorf("cannot read the processor time of %s: %w", p.Service, err)
	}
	// The name, in parentheses, may have blanks. After it come the fields 3 and up, of which 16 and 17 are cutime and cstime.
	_, after, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(after)
	const first, user, system, tick = 3, 16, 17, 10 * time.Millisecond
	if len(fields) <= system-first {
		return 0, fmt.Errorf("cannot read the processor time of %s: %q", p.Service, data)
	}
	var sum time.Duration
	for _, field := range []int{user, system} {
		ticks, err := strconv.ParseInt(fields[field-first], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("cannot read the processor time of %s: %w", p.Service, err)
		}
		sum += time.Duration(ticks) * tick
	}
	return sum, nil
}
