// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/internal/envelope"
	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
	"github.com/tripod-k8s/tripod/test/framework"
)

// watchGrace is how long a replica that stops takes to end its watches: less than it does by default, for tests.
const watchGrace = "3s"

// aggregators are those of the fleet. Tests do not stop them.
var aggregators = []string{"aggregator-0", "aggregator-1"}

// dataPlane is Tripod with several replicas.
type dataPlane struct {
	*framework.Fleet
	// backends are the names of the replicas of core and extensions that there can be, and running those that are.
	backends []string
	running  map[string]bool
}

func startFleet(ctx context.Context, env *framework.Environment) (*dataPlane, error) {
	etcd, err := env.StartEtcd(ctx, env.Dir)
	if err != nil {
		return nil, err
	}
	d := &dataPlane{
		backends: []string{"core-0", "core-1", "core-2", "extensions-0", "extensions-1"},
		running:  map[string]bool{},
	}
	options := framework.FleetOptions{EtcdURL: etcd}
	for _, name := range d.backends {
		replica := framework.ReplicaOptions{Name: name, Later: name == "core-2"}
		if !long {
			replica.Args = []string{"--shutdown-watch-termination-grace-period=" + watchGrace}
		}
		options.Replicas = append(options.Replicas, replica)
		d.running[name] = !replica.Later
	}
	for _, name := range aggregators {
		options.Replicas = append(options.Replicas, framework.ReplicaOptions{Name: name, Args: []string{"--enable-aggregator-routing"}})
	}
	if d.Fleet, err = env.StartFleet(ctx, options); err != nil {
		return nil, err
	}
	return d, d.Create(ctx, fixtures())
}

// need makes these replicas of the backends run, and no others, and returns when aggregators know.
func (d *dataPlane) need(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range d.backends {
		switch wanted := slices.Contains(names, name); {
		case wanted && !d.running[name]:
			d.start(t, name)
		case !wanted && d.running[name]:
			d.kill(t, name)
		}
	}
	for _, name := range names {
		if err := d.Replica(name).WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	framework.Eventually(t, "aggregators use the replicas that run", func(ctx context.Context) error {
		for _, aggregator := range aggregators {
			for _, service := range []string{"core", "extensions"} {
				if err := d.serving(ctx, aggregator, service); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// serving returns nil when an aggregator sends requests to all replicas of a backend that run.
func (d *dataPlane) serving(ctx context.Context, aggregator, service string) error {
	want := 0
	for _, name := range d.backends {
		if d.running[name] && strings.HasPrefix(name, service+"-") {
			want++
		}
	}
	got, err := d.metric(ctx, aggregator, "tripod_backend_endpoints", `backend="`+service+`"`, `state="serving"`)
	if err == nil && int(got) != want {
		err = fmt.Errorf("%s has %v replicas of %s, not %d", aggregator, got, service, want)
	}
	return err
}

func (d *dataPlane) start(t testing.TB, name string) {
	t.Helper()
	if err := d.Replica(name).Start(); err != nil {
		t.Fatal(err)
	}
	d.running[name] = true
}

// kill ends a replica as kill -9 does.
func (d *dataPlane) kill(t testing.TB, name string) {
	t.Helper()
	d.running[name] = false
	if err := d.Replica(name).Kill(); err != nil {
		t.Fatal(err)
	}
}

// restart stops a replica in order, starts it and returns when it is ready.
func (d *dataPlane) restart(t testing.TB, name string) {
	t.Helper()
	d.running[name] = false
	if err := d.Replica(name).Stop(); err != nil {
		t.Fatal(err)
	}
	d.start(t, name)
	if err := d.Replica(name).WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// config returns a configuration of the administrator for any replica. Those of backends take what aggregators send.
func (d *dataPlane) config(replica string) *rest.Config {
	service, _, _ := strings.Cut(replica, "-")
	if service == "aggregator" {
		return d.Through(replica).Admin()
	}
	return &rest.Config{
		Host: d.Replica(replica).URL, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{
			CAFile: filepath.Join(d.PKI, "service-ca.crt"), ServerName: service + ".tripod-system.svc",
			CertFile: filepath.Join(d.PKI, "aggregator.crt"), KeyFile: filepath.Join(d.PKI, "aggregator.key"),
		},
		WrapTransport: asMaster,
	}
}

// asMaster lets requests tell a backend that their sender may do everything.
func asMaster(next http.RoundTripper) http.RoundTripper {
	master := &user.DefaultInfo{Name: "master", Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		value, err := envelope.Encode(&identityv1.Envelope{User: envelope.FromUser(master), ClientAddress: "192.0.2.1:1234"})
		if err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Header.Set(envelope.Header, value)
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// metric returns the sum of a metric of a replica over the series that have the labels (name="value").
func (d *dataPlane) metric(ctx context.Context, replica, name string, labels ...string) (float64, error) {
	client, err := rest.HTTPClientFor(d.config(replica))
	if err != nil {
		return 0, err
	}
	a, err := sendBy(ctx, client, http.MethodGet, d.Replica(replica).URL+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	sum, lines := 0.0, bufio.NewScanner(bytes.NewReader(a.body))
	for lines.Scan() {
		series, value, _ := strings.Cut(lines.Text(), "} ")
		if !strings.HasPrefix(series, name+"{") || slices.ContainsFunc(labels, func(label string) bool { return !strings.Contains(series, label) }) {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("%s of %s: %w", name, replica, err)
		}
		sum += number
	}
	return sum, lines.Err()
}
