// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// process is a process of a server.
type process struct {
	// Service is aggregator, core, extensions, kube-apiserver or etcd; of further replicas, with a number.
	Service string
	PID     int
}

// cpu returns the processor time that all threads of a process have had.
func (p process) cpu() (time.Duration, error) {
	// What clock_getcpuclockid(3) makes of a PID: finer than the hundredths of a second of /proc.
	const threadGroupScheduled = 2
	var at unix.Timespec
	if err := unix.ClockGettime(int32(^p.PID<<3|threadGroupScheduled), &at); err != nil {
		return 0, fmt.Errorf("cannot read the processor time of %s: %w", p.Service, err)
	}
	return time.Duration(at.Nano()), nil
}

// resident returns the resident memory of a process in MB, and the most that it has had.
func (p process) resident() (now, most float64, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID))
	if err != nil {
		return 0, 0, fmt.Errorf("cannot read the memory of %s: %w", p.Service, err)
	}
	found := map[string]float64{}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[2] == "kB" {
			if found[fields[0]], err = strconv.ParseFloat(fields[1], 64); err != nil {
				return 0, 0, fmt.Errorf("cannot read the memory of %s: %w", p.Service, err)
			}
		}
	}
	if found["VmRSS:"] == 0 {
		return 0, 0, fmt.Errorf("cannot read the memory of %s: it has ended", p.Service)
	}
	const kib = 1024 / 1e6
	return found["VmRSS:"] * kib, found["VmHWM:"] * kib, nil
}

// memoryOfEach returns the resident memory of each process in MB, and the most that it has had.
func memoryOfEach(processes []process) (now, most map[string]float64, err error) {
	now, most = map[string]float64{}, map[string]float64{}
	for _, p := range processes {
		if now[p.Service], most[p.Service], err = p.resident(); err != nil {
			return nil, nil, err
		}
	}
	return now, most, nil
}

// cpuByService returns the processor time of the processes of each service.
func cpuByService(processes []process) (map[string]time.Duration, error) {
	times := map[string]time.Duration{}
	for _, p := range processes {
		one, err := p.cpu()
		if err != nil {
			return nil, err
		}
		times[p.Service] += one
	}
	return times, nil
}

// cpuOf returns the processor time of several processes together.
func cpuOf(processes ...process) (sum time.Duration, err error) {
	times, err := cpuByService(processes)
	for _, one := range times {
		sum += one
	}
	return sum, err
}
