// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/base/service/auditlog/auditfile"
)

// planVariable is the environment variable with the number of the open file that has the plan.
const planVariable = "TRIPOD_SUPERVISOR_PLAN"

// Plan is what to run. All files in it are open ones, whose numbers come from [Inherit].
type Plan struct {
	Logs logsapi.LoggingConfiguration
	// Dir is the private directory of the supervisor, which removes it in the end. Lock is what says that it is in use.
	Dir  string
	Lock int
	// Certificates are in Dir.
	Certificates certs.Set
	// AuditLog is the audit log that the services write through AuditSocket. They have none if its path is empty.
	AuditLog    auditfile.Options
	AuditSocket string
	// Processes are in the order of their start.
	Processes []Process
}

// Process says how to run a service.
type Process struct {
	Component, Replica string
	Path               string
	Args               []string
	// Address is where the service serves, for people to read. It answers probes at Probe.
	Address, Probe string
	StopTimeout    time.Duration
	// Ports are listeners that keep the ports of the service until its start.
	Ports []int
}

// Inherit returns the number of a copy of an open file that stays open when [Exec] replaces this process.
func Inherit(file *os.File) (int, error) {
	copied, err := syscall.Dup(int(file.Fd()))
	if err != nil {
		return 0, fmt.Errorf("cannot hand over %s: %w", file.Name(), err)
	}
	return copied, nil
}

// Exec replaces this process by the program of the supervisor at path, which runs the plan. It returns only if that fails.
func Exec(path string, plan *Plan) error {
	file, err := plan.write()
	if err != nil {
		return err
	}
	// The arguments are still those of kube-apiserver, by which people and programs find it.
	err = syscall.Exec(path, os.Args, append(os.Environ(), planVariable+"="+strconv.Itoa(file))) //nolint:gosec // is beside this program
	return fmt.Errorf("cannot run %s: %w", path, err)
}

// write returns the number of an open file with the plan. No directory has the file.
func (p *Plan) write() (number int, err error) {
	file, err := os.CreateTemp(p.Dir, "plan-*")
	if err != nil {
		return 0, fmt.Errorf("cannot write the plan of the supervisor: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := errors.Join(os.Remove(file.Name()), json.NewEncoder(file).Encode(p)); err != nil {
		return 0, fmt.Errorf("cannot write the plan of the supervisor: %w", err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return 0, fmt.Errorf("cannot write the plan of the supervisor: %w", err)
	}
	return Inherit(file)
}

// errNoPlan is returned to people who start the program themselves.
var errNoPlan = errors.New("`tripod kube-apiserver` starts this program, which does nothing by itself")

// readPlan reads the plan that [Exec] wrote. The open files of the plan are for this process alone from then on, and not for its children.
func readPlan() (*Plan, error) {
	number, err := strconv.Atoi(os.Getenv(planVariable))
	if err != nil {
		return nil, errNoPlan
	}
	if err := os.Unsetenv(planVariable); err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(number), "plan")
	if file == nil {
		return nil, errNoPlan
	}
	defer file.Close() //nolint:errcheck // only read
	plan := &Plan{}
	if err := json.NewDecoder(file).Decode(plan); err != nil {
		return nil, fmt.Errorf("cannot read the plan of the supervisor: %w", err)
	}
	syscall.CloseOnExec(plan.Lock)
	for _, process := range plan.Processes {
		for _, port := range process.Ports {
			syscall.CloseOnExec(port)
		}
	}
	return plan, nil
}
