// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/component-base/version"

	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/base/service"
	"github.com/tripod-k8s/tripod/local/balancer"
	"github.com/tripod-k8s/tripod/local/process"
	"github.com/tripod-k8s/tripod/local/replicas"
)

// renewInterval is how often to check whether certificates expire soon.
const renewInterval = 24 * time.Hour

// Run runs an instance until ctx ends, and writes to out what happens. An error means that the instance could not start. Then
// none of its processes is left.
func Run(ctx context.Context, options Options, out io.Writer) (err error) {
	began := time.Now()
	if err := options.complete(); err != nil {
		return err
	}
	log := out
	if options.Detached != nil {
		defer options.Detached.Close() //nolint:errcheck // it is closed already if the instance was ready
		out = io.MultiWriter(out, options.Detached)
	}
	i := &instance{options: &options, dataDir: DataDir(options.DataDir), out: out, log: log}
	before := i.options.Detached.ifUnused(i.dataDir)
	lock, err := i.options.Detached.open(i.dataDir)
	if lock != nil {
		defer lock.Close() //nolint:errcheck // the lock ends with it
	}
	if err != nil {
		return err
	}
	refused := false
	defer func() {
		if refused {
			err = errors.Join(err, before.leave(i.options.Detached.reads()...))
		}
	}()
	fmt.Fprintf(out, "Tripod %s with Kubernetes %s, data in %s\n", service.Version, version.Get().GitVersion, i.dataDir)
	i.group = process.NewGroup(i.report)
	i.fleet = replicas.NewFleet(i.group, replicas.FleetConfig{Process: i.process, Use: i.use, Report: i.printLine, Notice: noticeTime})
	ctx, i.cancel = context.WithCancel(ctx)
	defer i.cancel()
	// It can be stopped from now on.
	control, err := startControl(ctx, i.dataDir, i)
	if err != nil {
		refused = true
		return err
	}
	defer control.close(i.dataDir)
	err = i.prepare(ctx)
	if i.balancer != nil {
		defer i.balancer.Close() //nolint:errcheck // it is closed already where it has served
	}
	if err == nil {
		i.prepared.Store(true)
		err = i.run(ctx, began)
	} else {
		refused = ctx.Err() == nil
	}
	return i.unlessStopped(ctx, err)
}

// unlessStopped returns err, or nil if the cause is that ctx ended.
func (i *instance) unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	if err != nil {
		fmt.Fprintln(i.out, "It was stopped")
	}
	return nil
}

// instance is a Tripod on this machine.
type instance struct {
	options *Options
	dataDir DataDir
	// out is for the user. log is the part of it that stays when the command that started this one has ended.
	out, log io.Writer
	store    *certs.Store
	services *replicas.Services
	args     *arguments
	group    *process.Group
	fleet    *replicas.Fleet
	// balancer is nil if the aggregators serve clients themselves.
	balancer *balancer.Balancer
	// cancel ends the instance.
	cancel context.CancelFunc
	// prepared is set once processes may run, and started once everything has been ready.
	prepared, started atomic.Bool

	// printing keeps goroutines from mixing their lines.
	printing sync.Mutex
	// listener also gets the lines while the instance is scaled.
	listener func(line string)

	// events and observer are for clients that observe the instance.
	events   events
	observer observer
}

// prepare does everything that can fail before the first process starts. It writes nothing into the data directory before it knows that the
// instance may use the data.
func (i *instance) prepare(ctx context.Context) error {
	if err := i.dataDir.checkVersion(); err != nil {
		return err
	}
	if err := i.options.checkPrograms(); err != nil {
		return err
	}
	port, err := i.takePorts()
	if err != nil {
		return err
	}
	if err := checkEtcds(ctx, i.options); err != nil {
		return err
	}
	if err := i.checkControllers(); err != nil {
		return err
	}
	additional, err := i.options.programs()
	if err != nil {
		return err
	}
	if i.store, err = certs.Open(i.dataDir.pki()); err != nil {
		return err
	}
	i.args = &arguments{
		options: i.options, store: i.store, port: port, advertise: advertiseAddress(i.options.BindAddress),
	}
	if err := i.ensureCertificates(); err != nil {
		return err
	}
	if i.services, err = replicas.NewServices(i.store, additional); err != nil {
		return err
	}
	return i.dataDir.rememberVersion(i.options.stored())
}

// takePorts checks that the ports for clients are free, and returns where clients are served.
func (i *instance) takePorts() (port int, err error) {
	if !i.options.LoadBalancer {
		return choosePorts(i.options.BindAddress, i.options.Port, i.options.AggregatorReplicas)
	}
	i.balancer, err = balancer.Listen(net.JoinHostPort(i.options.BindAddress.String(), strconv.Itoa(i.options.Port)))
	if err != nil {
		return 0, cannotListen(i.options.BindAddress, i.options.Port, err)
	}
	return i.balancer.Port(), nil
}

// ensureCertificates makes and renews certificates and the kubeconfig.
func (i *instance) ensureCertificates() error {
	names, addresses := serverNames(i.options.BindAddress, i.args.advertise, kubernetesServiceIP)
	if err := ensureCertificates(i.store, names, addresses, i.options.beside()); err != nil {
		return err
	}
	if err := writeKubeconfig(i.dataDir.Kubeconfig(), i.url(), i.store); err != nil || !i.options.controllers() {
		return err
	}
	authority, err := i.store.Authority(clusterCA, "kubernetes")
	if err != nil {
		return err
	}
	return i.controllers().Ensure(authority)
}

// keepCertificates renews certificates in time until ctx ends. All processes reload them when they change.
func (i *instance) keepCertificates(ctx context.Context) {
	wait.UntilWithContext(ctx, func(context.Context) {
		if err := errors.Join(i.ensureCertificates(), i.services.Renew()); err != nil {
			i.printLine("pki", "cannot renew: "+err.Error())
		}
	}, renewInterval)
}

func (i *instance) url() string { return clientURL(i.options.BindAddress, strconv.Itoa(i.args.port)) }

// clientURL returns the URL at which clients reach a server on an address.
func clientURL(address net.IP, port string) string {
	return "https://" + net.JoinHostPort(replicas.ClientAddress(address).String(), port)
}

// run starts the prepared processes, and keeps them running until ctx ends.
func (i *instance) run(ctx context.Context, began time.Time) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	renewing, balancing := wait.Group{}, wait.Group{}
	defer renewing.Wait()
	renewing.StartWithContext(ctx, i.keepCertificates)
	if i.balancer != nil {
		// It keeps serving connected clients until the aggregators have stopped.
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer balancing.Wait()
		defer cancel()
		balancing.StartWithContext(ctx, i.balancer.Serve)
	}
	defer i.fleet.Stop()
	defer cancel()

	additional, err := i.start(ctx)
	if err != nil {
		return fmt.Errorf("%w; logs are in %s", err, i.dataDir.logs())
	}
	if err := i.startControllers(ctx); err != nil {
		return fmt.Errorf("%w; logs are in %s", err, i.dataDir.logs())
	}
	i.started.Store(true)
	fmt.Fprintf(i.out, "\nTripod is ready after %s at %s\n\n    export KUBECONFIG=%s\n\n%s stops it; its data stays.\n",
		process.Seconds(time.Since(began)), i.url(), i.dataDir.Kubeconfig(), i.howToStop())
	i.notifyReady()
	renewing.Start(func() { i.sayUnready(ctx, additional) })
	<-ctx.Done()
	fmt.Fprintln(i.out, "\nStopping")
	return nil
}

// howToStop names what stops the instance.
func (i *instance) howToStop() string {
	if i.options.Detached == nil {
		return "Ctrl-C"
	}
	if name, isNamed := i.dataDir.name(); isNamed {
		return "`tripod down" + strings.TrimSuffix(" --name "+name, " --name "+DefaultName) + "`"
	}
	return "`tripod down --data-dir " + string(i.dataDir) + "`"
}

// notifyReady notifies everything outside that waits for the instance to be ready.
func (i *instance) notifyReady() {
	if i.options.Ready != nil {
		line, err := i.options.Ready()
		if err != nil {
			line = err.Error()
		}
		i.printLine("up", line)
	}
	if _, err := daemon.SdNotify(true, daemon.SdNotifyReady); err != nil {
		i.printLine("up", "cannot notify the service manager: "+err.Error())
	}
	i.notifyParent()
}

// notifyParent notifies the process that called Detach, which then ends. What comes later is only for the log.
func (i *instance) notifyParent() {
	if i.options.Detached == nil {
		return
	}
	i.printing.Lock()
	defer i.printing.Unlock()
	_, _ = fmt.Fprintln(i.options.Detached, readyMessage) // the other process has gone if this fails
	_ = i.options.Detached.Close()
	i.out = i.log
}

// stop implements controlled.
func (i *instance) stop() { i.cancel() }

// start starts all processes. It returns when they are ready, but does not wait for additional API services, which it returns. The services
// wait for one another by themselves. Only etcd gets a head start, because three services that retry would slow it down.
func (i *instance) start(ctx context.Context) (additional []*process.Child, err error) {
	if i.options.needsEmbeddedEtcd() {
		process, err := i.embeddedEtcd()
		if err != nil {
			return nil, err
		}
		if err := i.fleet.AwaitReady(ctx, i.group.Start(process)); err != nil {
			return nil, err
		}
		if err := i.limitAccess(ctx); err != nil {
			return nil, err
		}
	}
	var wanted []replicas.Count
	for _, service := range i.options.services() {
		wanted = append(wanted, replicas.Count{Name: service, Replicas: i.options.replicas(service)})
	}
	children, err := i.fleet.Start(wanted)
	if err != nil {
		return nil, err
	}
	var awaited []*process.Child
	for _, child := range children {
		if slices.Contains(i.options.additionalServices(), child.Status().Component) {
			additional = append(additional, child)
		} else {
			awaited = append(awaited, child)
		}
	}
	return additional, i.fleet.AwaitReady(ctx, awaited...)
}

// report writes a line about an event, unless something else reports it.
func (i *instance) report(e process.Event) {
	i.events.add(time.Now(), e)
	if e.Component == replicas.Aggregator {
		i.balance()
	}
	stops := e.Type == process.Stopping || e.Type == process.GaveUp
	if !stops || i.scaling() {
		i.printLine(e.Replica, e.String())
	}
}

// printLine writes a line about a replica.
func (i *instance) printLine(name, what string) {
	i.printing.Lock()
	defer i.printing.Unlock()
	line := fmt.Sprintf("  %-*s  %s", i.options.longestName(), name, what)
	fmt.Fprintln(i.out, line)
	if i.listener != nil {
		i.listener(line)
	}
}

// listen also sends all later lines to a listener. One can listen at a time.
func (i *instance) listen(listener func(line string)) (ok bool) {
	i.printing.Lock()
	defer i.printing.Unlock()
	if i.listener != nil {
		return false
	}
	i.listener = listener
	return true
}

func (i *instance) listenNoMore() {
	i.printing.Lock()
	defer i.printing.Unlock()
	i.listener = nil
}

// scaling reports whether the instance is being scaled, which is while a client listens.
func (i *instance) scaling() bool {
	i.printing.Lock()
	defer i.printing.Unlock()
	return i.listener != nil
}
