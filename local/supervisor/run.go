// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/base/service/auditlog/auditfile"
	"github.com/tripod-k8s/tripod/base/tuning/gcpace"
	"github.com/tripod-k8s/tripod/local/process"
)

// Program is the name of the program, which is beside those of the services.
const Program = "tripod-supervisor"

// renewInterval is how often to check whether the services need new certificates.
const renewInterval = 24 * time.Hour

// readyInterval is the time between two looks at the readiness of a service that was ready. Only the log shows what they find, and each
// costs the services a check of etcd.
const readyInterval = 30 * time.Second

// Main is the main function of the program. It runs the plan until the first signal, and returns the exit code of the process. An error is
// one line on stderr.
func Main() int {
	ctx, signals := NotifySignals()
	defer signals.Release()
	defer logs.FlushLogs()
	if err := runPlan(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		return 1
	}
	return 0
}

func runPlan(ctx context.Context) error {
	plan, err := readPlan()
	if err != nil {
		return err
	}
	defer os.RemoveAll(plan.Dir) //nolint:errcheck // the next start removes it
	keepName()
	logs.InitLogs()
	if err := plan.applyLogs(); err != nil {
		return err
	}
	gcpace.Start(ctx)
	return plan.run(ctx)
}

// keepName lets ps, top and pgrep show the name under which the process was started, kube-apiserver or tripod, and not that of its program.
// Nothing depends on it.
func keepName() { _ = os.WriteFile("/proc/self/comm", []byte(filepath.Base(os.Args[0])), 0) }

// applyLogs makes this process log as the one that wrote the plan, which has checked the options.
func (p *Plan) applyLogs() error {
	gates := featuregate.NewFeatureGate()
	if err := logsapi.AddFeatureGates(gates); err != nil {
		return err
	}
	for _, gate := range []featuregate.Feature{logsapi.LoggingAlphaOptions, logsapi.LoggingBetaOptions} {
		if err := gates.Set(string(gate) + "=true"); err != nil {
			return err
		}
	}
	return logsapi.ValidateAndApply(&p.Logs, gates)
}

// run runs the services until ctx ends or one of them cannot start.
func (p *Plan) run(ctx context.Context) error {
	store, err := certs.Open(p.Dir)
	if err != nil {
		return err
	}
	closeLog, err := p.startAuditLog()
	if err != nil {
		return err
	}
	defer closeLog()
	processes := p.processes()
	endNotifications, err := notifyOnceAllServe(p.Dir, processes)
	if err != nil {
		return err
	}
	defer endNotifications()
	group := process.NewGroup(logEvent)
	defer group.Stop()
	for _, process := range processes {
		group.Start(process)
	}
	return supervise(ctx, group, func() error { return p.Certificates.Ensure(store) })
}

// startAuditLog starts the writer of the audit log, if there is one. Call end once the services have stopped.
func (p *Plan) startAuditLog() (end func(), err error) {
	if p.AuditLog.Path == "" {
		return func() {}, nil
	}
	writer, err := auditfile.Start(p.AuditSocket, p.AuditLog, os.Stdout)
	if err != nil {
		return nil, err
	}
	return func() {
		if err := writer.Close(); err != nil {
			klog.ErrorS(err, "Cannot end the audit log", "path", p.AuditLog.Path)
		}
	}, nil
}

// processes returns the services. All write to the standard output and error of this process.
func (p *Plan) processes() []process.Process {
	output := process.NewStream(os.Stdout, os.Stderr)
	var all []process.Process
	for _, service := range p.Processes {
		all = append(all, process.Process{
			Component:     service.Component,
			Replica:       service.Replica,
			Path:          service.Path,
			Args:          service.Args,
			Address:       service.Address,
			BeforeStart:   sync.OnceFunc(func() { closeAll(service.Ports) }),
			Output:        output.Output(),
			Ready:         process.NewHTTPProbe(service.Probe, nil).Ready,
			ReadyInterval: readyInterval,
			Version:       func(context.Context) string { return "" }, // nothing shows it
			// kube-apiserver exits if it cannot start. What has started it decides what to do then.
			FailedStarts: 1,
			StopTimeout:  service.StopTimeout,
		})
	}
	return all
}

func closeAll(files []int) {
	for _, file := range files {
		_ = syscall.Close(file) // the service says so if its port is not free
	}
}

// supervise keeps the certificates of the services valid. It returns when ctx ends or a service is given up.
func supervise(ctx context.Context, group *process.Group, renew func() error) error {
	renewal := time.NewTicker(renewInterval)
	defer renewal.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-group.Failed():
			return err
		case <-renewal.C:
			if err := renew(); err != nil {
				klog.ErrorS(err, "Cannot renew the certificates of the services")
			}
		}
	}
}

func logEvent(e process.Event) {
	klog.InfoS("Service "+e.String(), "service", e.Component)
}
