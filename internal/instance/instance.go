// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/component-base/version"

	"github.com/tripod-k8s/tripod/internal/embeddedetcd"
	"github.com/tripod-k8s/tripod/internal/launch"
	"github.com/tripod-k8s/tripod/internal/pki"
	"github.com/tripod-k8s/tripod/internal/supervisor"
	tripodversion "github.com/tripod-k8s/tripod/internal/version"
)

const (
	etcd = "etcd"
	// waitingInterval is how often to say what a start still waits for.
	waitingInterval = 15 * time.Second
	// renewInterval is how often to look whether certificates are near their end.
	renewInterval = 24 * time.Hour
)

// Run runs an instance until ctx ends, and tells on out what happens. An error means that it could not start, or that
// a process of it cannot be kept running; then nothing of it is left.
func Run(ctx context.Context, options Options, out io.Writer) error {
	began := time.Now()
	if err := options.complete(); err != nil {
		return err
	}
	i := &instance{options: &options, dataDir: DataDir(options.DataDir), out: out}
	lock, err := i.dataDir.open()
	if lock != nil {
		defer lock.Close() //nolint:errcheck // the lock ends with it
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Tripod %s with Kubernetes %s, data in %s\n", tripodversion.Version, version.Get().GitVersion, i.dataDir)
	if err := i.prepare(ctx); err != nil {
		return unlessStopped(ctx, err)
	}
	defer i.services.Release()

	i.group = supervisor.NewGroup(i.report)
	control, err := startControl(i.dataDir, i.group.Statuses)
	if err != nil {
		return err
	}
	defer control.close(i.dataDir)
	renewing := wait.Group{}
	defer renewing.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	renewing.StartWithContext(ctx, i.keepCertificates)
	defer i.group.Stop()

	if err := i.start(ctx); err != nil {
		return unlessStopped(ctx, fmt.Errorf("%w; logs are in %s", err, i.dataDir.logs()))
	}
	fmt.Fprintf(out, "\nTripod is ready after %s at %s\n\n    export KUBECONFIG=%s\n\nCtrl-C stops it; its data stays.\n",
		supervisor.Seconds(time.Since(began)), i.url(), i.dataDir.Kubeconfig())
	select {
	case <-ctx.Done():
		fmt.Fprintln(out, "\nStopping")
		return nil
	case err := <-i.group.Failed():
		return err
	}
}

// unlessStopped returns err unless it is the consequence of being asked to stop.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// instance is a Tripod on this machine.
type instance struct {
	options  *Options
	dataDir  DataDir
	out      io.Writer
	store    *pki.Store
	services *launch.Services
	args     *arguments
	group    *supervisor.Group
	// saying keeps lines of different goroutines apart.
	saying sync.Mutex
}

// prepare does everything that can fail before the first process starts.
func (i *instance) prepare(ctx context.Context) error {
	port, err := choosePort(i.options.BindAddress, i.options.Port)
	if err != nil {
		return err
	}
	if i.store, err = pki.Open(i.dataDir.pki()); err != nil {
		return err
	}
	i.args = &arguments{
		options: i.options, store: i.store, port: port, advertise: advertiseAddress(i.options.BindAddress),
	}
	if err := i.ensureCertificates(); err != nil {
		return err
	}
	if err := checkEtcds(ctx, i.options); err != nil {
		return err
	}
	i.services, err = launch.NewServices(i.store)
	return err
}

// ensureCertificates makes and renews certificates and what is made of them.
func (i *instance) ensureCertificates() error {
	names, addresses := serverNames(i.options.BindAddress, i.args.advertise, kubernetesServiceIP)
	if err := ensureCertificates(i.store, names, addresses); err != nil {
		return err
	}
	return writeKubeconfig(i.dataDir.Kubeconfig(), i.url(), i.store)
}

// keepCertificates renews certificates in time until ctx ends. All processes read them again when they have changed.
func (i *instance) keepCertificates(ctx context.Context) {
	wait.UntilWithContext(ctx, func(context.Context) {
		if err := errors.Join(i.ensureCertificates(), i.services.Renew()); err != nil {
			i.say("pki", "cannot renew: "+err.Error())
		}
	}, renewInterval)
}

func (i *instance) url() string {
	return "https://" + net.JoinHostPort(launch.ClientAddress(i.options.BindAddress).String(), strconv.Itoa(i.args.port))
}

// start starts all processes and returns when they are ready. The services wait for what they need by themselves;
// only etcd is given time first, because three services that try in vain would slow it down.
func (i *instance) start(ctx context.Context) error {
	if i.options.needsEmbeddedEtcd() {
		process, err := i.embeddedEtcd()
		if err != nil {
			return err
		}
		if err := i.awaitReady(ctx, i.run(process)); err != nil {
			return err
		}
	}
	asAdmin, err := launch.ClientTLS(i.store, clusterCA, admin)
	if err != nil {
		return err
	}
	return i.awaitReady(ctx,
		i.run(i.services.Core(i.args.port, i.args.core())),
		i.run(i.services.Extensions(i.args.extensions())),
		i.run(i.services.Aggregator(i.url(), supervisor.NewHTTPProbe(i.url(), asAdmin), i.args.aggregator())),
	)
}

func (i *instance) embeddedEtcd() (supervisor.Process, error) {
	self, err := launch.Self()
	if err != nil {
		return supervisor.Process{}, err
	}
	if i.args.etcd, err = launch.ReservePort(); err != nil {
		return supervisor.Process{}, err
	}
	asClient, err := launch.ClientTLS(i.store, etcdCA, etcdClient)
	if err != nil {
		return supervisor.Process{}, err
	}
	return supervisor.Process{
		Component:   etcd,
		Path:        self,
		Args:        i.args.embeddedEtcd(i.dataDir),
		Address:     i.args.etcd.URL(),
		BeforeStart: i.args.etcd.Release,
		Ready:       supervisor.NewHTTPProbe(i.args.etcd.URL(), asClient).Ready,
		Version:     func(context.Context) string { return embeddedetcd.Version },
	}, nil
}

// run starts a process of the instance.
func (i *instance) run(process supervisor.Process) *supervisor.Child {
	process.Replica = replica(process.Component)
	process.Output = supervisor.NewLogFile(i.dataDir.log(process.Component))
	return i.group.Start(process)
}

// awaitReady returns when the processes are ready, and says from time to time what they wait for.
func (i *instance) awaitReady(ctx context.Context, children ...*supervisor.Child) error {
	for {
		waiting, cancel := context.WithTimeout(ctx, waitingInterval)
		err := i.group.WaitReady(waiting, children...)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
		for _, child := range children {
			if status := child.Status(); !status.Ready {
				i.say(status.Component, "not ready yet: "+status.Message)
			}
		}
	}
}

// report tells of an event, except of those that somebody else tells of.
func (i *instance) report(e supervisor.Event) {
	if e.Type != supervisor.Stopping && e.Type != supervisor.GaveUp {
		i.say(e.Component, e.String())
	}
}

func (i *instance) say(component, what string) {
	i.saying.Lock()
	defer i.saying.Unlock()
	fmt.Fprintf(i.out, "  %-11s %s\n", component, what)
}
