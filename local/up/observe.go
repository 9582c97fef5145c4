// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/tripod-k8s/tripod/local/process"
	"github.com/tripod-k8s/tripod/local/replicas"
)

// Observation is what an instance, its aggregators and its etcd say at a moment. Numbers of requests are since a process started.
type Observation struct {
	Time      time.Time        `json:"time"`
	Processes []process.Status `json:"processes"`
	// Aggregators are the views of those that have answered lately, sorted by address.
	Aggregators []AggregatorView `json:"aggregators"`
	// EtcdRequests are those of etcd, by the address of the process.
	EtcdRequests map[string]int64 `json:"etcdRequests,omitempty"`
	// Differences are those that an aggregator names between the settings of replicas, a line each.
	Differences []string `json:"differences,omitempty"`
	// Events are those after the number that was asked for, and LastEvent is the number of the last.
	Events    []Event `json:"events,omitempty"`
	LastEvent int64   `json:"lastEvent"`
}

// AggregatorView is what an aggregator publishes in its metrics.
type AggregatorView struct {
	// Address is that of the process, and Time when it has answered.
	Address string    `json:"address"`
	Time    time.Time `json:"time"`
	// Connections are those of clients.
	Connections int64 `json:"connections"`
	// Replicas are those of backends, sorted by backend and endpoint.
	Replicas []ReplicaView `json:"replicas"`
}

// ReplicaView is what an aggregator publishes about a replica of a backend.
type ReplicaView struct {
	Backend  string `json:"backend"`
	Endpoint string `json:"endpoint"`
	// State is one of those in docs/operate.md, or empty if the aggregator is of a version without it.
	State    string `json:"state,omitempty"`
	Requests int64  `json:"requests"`
	InFlight int64  `json:"inFlight"`
	Watches  int64  `json:"watches"`
	// Timed is the number of requests whose time is known, without watches. Durations are those of them that took no longer than a bound,
	// sorted by bound.
	Timed     uint64     `json:"timed"`
	Durations []Duration `json:"durations,omitempty"`
}

// Duration is the number of requests that took at most Bound seconds.
type Duration struct {
	Bound float64 `json:"bound"`
	Count uint64  `json:"count"`
}

const (
	// viewInterval is how old a view must be until its aggregator is asked again, and etcdInterval the same for etcd and for settings.
	viewInterval = 700 * time.Millisecond
	rareInterval = 5 * time.Second
	// viewsAtOnce is how many aggregators are asked at once. More of them take turns: an answer costs each some milliseconds.
	viewsAtOnce = 2
	// viewTimeout bounds an answer. The page of which it is a part is renewed each second.
	viewTimeout = 900 * time.Millisecond
	// maxView bounds one, and maxDifference a line about settings.
	maxView       = 8 << 20
	maxDifference = 4 << 10
	// idleView is how long a connection stays for the next question.
	idleView = 10 * time.Second
)

// viewMetrics are what an observation has of an aggregator, and etcdMetric of etcd. The parameter name[] leaves the others out.
var viewMetrics = []string{
	requestsMetric, "tripod_backend_in_flight", "tripod_backend_endpoint_state", "tripod_backend_request_duration_seconds",
	"tripod_client_connections",
}

const etcdMetric = "grpc_server_handled_total"

// differencesPaths are those at which an aggregator names differences between replicas.
var differencesPaths = []string{"/readyz/same-settings", "/readyz/same-configuration"}

// trustOf returns how a client with a certificate reaches servers of an authority.
type trustOf func(authority, certificate string) (*tls.Config, error)

// observer asks aggregators and etcd when a client asks the instance. It remembers answers, so that many clients cost what one does.
type observer struct {
	mu sync.Mutex
	// clients are of the administrator, by the certificate authority of the server.
	clients map[string]*http.Client
	views   map[string]AggregatorView
	// asked is when an aggregator was asked last, and rarely when etcd and settings were.
	asked        map[string]time.Time
	rarely       time.Time
	etcdRequests map[string]int64
	differences  []string
}

// observe returns the present state of the instance, with events after a number.
func (i *instance) observe(ctx context.Context, after int64) *Observation {
	o := &Observation{Time: time.Now(), Processes: []process.Status{}, Aggregators: []AggregatorView{}}
	o.Events, o.LastEvent = i.events.since(o.Time, after)
	if !i.prepared.Load() {
		return o
	}
	i.observer.mu.Lock()
	defer i.observer.mu.Unlock()
	i.observer.ask(ctx, i.group.Statuses(), func(authority, certificate string) (*tls.Config, error) {
		return replicas.ClientTLS(i.store, authority, certificate)
	})
	o.Time, o.Processes = time.Now(), i.group.Statuses() // asking took its time
	for _, address := range slices.Sorted(maps.Keys(i.observer.views)) {
		o.Aggregators = append(o.Aggregators, i.observer.views[address])
	}
	o.EtcdRequests, o.Differences = i.observer.etcdRequests, i.observer.differences
	return o
}

// ask renews what is old. The caller holds the lock.
func (o *observer) ask(ctx context.Context, statuses []process.Status, trust trustOf) {
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	var aggregators, etcds []string
	for i := range statuses {
		switch s := &statuses[i]; {
		case !s.Ready:
		case s.Component == replicas.Aggregator:
			aggregators = append(aggregators, s.Address)
		case s.Component == etcd:
			etcds = append(etcds, s.Address)
		}
	}
	o.forget(aggregators)
	now := time.Now()
	var asking sync.WaitGroup
	defer asking.Wait()
	var mu sync.Mutex // of the answers
	if admins, err := o.client(clusterCA, admin, trust); err == nil {
		for _, address := range o.due(aggregators, now) {
			asking.Go(func() {
				view, err := readView(ctx, admins, address)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					o.views[address] = *view
				}
			})
		}
		if len(aggregators) > 0 && now.Sub(o.rarely) >= rareInterval {
			asking.Go(func() {
				found, err := readDifferences(ctx, admins, aggregators[0])
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					o.differences = found
				}
			})
		}
	}
	if now.Sub(o.rarely) < rareInterval {
		return
	}
	o.rarely = now
	if client, err := o.client(etcdCA, etcdClient, trust); err == nil && len(etcds) > 0 {
		asking.Go(func() {
			counts := map[string]int64{}
			for _, address := range etcds {
				if n, err := readEtcdRequests(ctx, client, address); err == nil {
					counts[address] = n
				}
			}
			mu.Lock()
			defer mu.Unlock()
			o.etcdRequests = counts
		})
	}
}

// forget drops aggregators that are not ready any more, and answers that are too old because later ones failed.
func (o *observer) forget(ready []string) {
	for address, view := range o.views {
		if !slices.Contains(ready, address) || time.Since(view.Time) > max(rareInterval, time.Duration(len(ready))*time.Second) {
			delete(o.views, address)
		}
	}
	for address := range o.asked {
		if !slices.Contains(ready, address) {
			delete(o.asked, address)
		}
	}
}

// due returns the aggregators to ask now: those that were asked longest ago, and not just now.
func (o *observer) due(aggregators []string, now time.Time) []string {
	if o.views == nil {
		o.views, o.asked = map[string]AggregatorView{}, map[string]time.Time{}
	}
	old := slices.DeleteFunc(slices.Clone(aggregators), func(a string) bool { return now.Sub(o.asked[a]) < viewInterval })
	slices.SortStableFunc(old, func(a, b string) int { return o.asked[a].Compare(o.asked[b]) })
	old = old[:min(len(old), viewsAtOnce)]
	for _, address := range old {
		o.asked[address] = now
	}
	return old
}

// client returns the one for servers of an authority. Its connections end soon after the last question.
func (o *observer) client(authority, certificate string, trust trustOf) (*http.Client, error) {
	if client := o.clients[authority]; client != nil {
		return client, nil
	}
	config, err := trust(authority, certificate)
	if err != nil {
		return nil, err
	}
	if o.clients == nil {
		o.clients = map[string]*http.Client{}
	}
	o.clients[authority] = &http.Client{Transport: &http.Transport{TLSClientConfig: config, IdleConnTimeout: idleView}}
	return o.clients[authority], nil
}

// metricsOf reads some metrics of a server.
func metricsOf(ctx context.Context, client *http.Client, server string, names ...string) (map[string]*dto.MetricFamily, error) {
	body, code, err := get(ctx, client, server+"/metrics?"+url.Values{"name[]": names}.Encode(), maxView)
	if err != nil {
		return nil, err
	}
	if code != http.StatusOK {
		return nil, fmt.Errorf("/metrics answers %d", code)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(strings.NewReader(body))
}

func get(ctx context.Context, client *http.Client, address string, limit int64) (body string, code int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", 0, err
	}
	response, err := client.Do(req)
	if err != nil {
		return "", 0, err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(response.Body, limit))
	return string(text), response.StatusCode, err
}

// readView asks an aggregator.
func readView(ctx context.Context, client *http.Client, aggregator string) (*AggregatorView, error) {
	families, err := metricsOf(ctx, client, aggregator, viewMetrics...)
	if err != nil {
		return nil, err
	}
	view := &AggregatorView{Address: aggregator, Time: time.Now(), Replicas: []ReplicaView{}}
	for _, metric := range families["tripod_client_connections"].GetMetric() {
		view.Connections += int64(metric.GetGauge().GetValue())
	}
	of := map[[2]string]*ReplicaView{}
	each := func(name string, use func(*ReplicaView, *dto.Metric)) {
		for _, metric := range families[name].GetMetric() {
			at := [2]string{label(metric, backendLabel), label(metric, endpointLabel)}
			if of[at] == nil {
				of[at] = &ReplicaView{Backend: at[0], Endpoint: at[1]}
			}
			use(of[at], metric)
		}
	}
	each(requestsMetric, func(r *ReplicaView, m *dto.Metric) { r.Requests += int64(m.GetCounter().GetValue()) })
	each("tripod_backend_in_flight", func(r *ReplicaView, m *dto.Metric) {
		if label(m, "kind") == "watch" {
			r.Watches += int64(m.GetGauge().GetValue())
			return
		}
		r.InFlight += int64(m.GetGauge().GetValue())
	})
	each("tripod_backend_endpoint_state", func(r *ReplicaView, m *dto.Metric) { r.State = label(m, "state") })
	each("tripod_backend_request_duration_seconds", func(r *ReplicaView, m *dto.Metric) {
		r.Timed = m.GetHistogram().GetSampleCount()
		for _, bucket := range m.GetHistogram().GetBucket() {
			if bound := bucket.GetUpperBound(); !math.IsInf(bound, 1) { // which JSON does not have
				r.Durations = append(r.Durations, Duration{Bound: bound, Count: bucket.GetCumulativeCount()})
			}
		}
	})
	for _, r := range of {
		view.Replicas = append(view.Replicas, *r)
	}
	slices.SortFunc(view.Replicas, func(a, b ReplicaView) int {
		return strings.Compare(a.Backend+" "+a.Endpoint, b.Backend+" "+b.Endpoint)
	})
	return view, nil
}

// readDifferences asks an aggregator whether replicas have the same settings.
func readDifferences(ctx context.Context, client *http.Client, aggregator string) (found []string, err error) {
	for _, path := range differencesPaths {
		body, code, err := get(ctx, client, aggregator+path, maxDifference)
		if err != nil {
			return nil, err
		}
		if code == http.StatusInternalServerError {
			text := strings.TrimPrefix(strings.TrimSpace(body), "internal server error: ")
			found = append(found, strings.ReplaceAll(text, "\n", " "))
		}
	}
	return found, nil
}

// readEtcdRequests returns how many requests an etcd has answered. A watch counts once, at its end.
func readEtcdRequests(ctx context.Context, client *http.Client, server string) (count int64, err error) {
	families, err := metricsOf(ctx, client, server, etcdMetric)
	for _, metric := range families[etcdMetric].GetMetric() {
		count += int64(metric.GetCounter().GetValue())
	}
	return count, err
}
