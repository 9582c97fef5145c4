// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/tripod-k8s/tripod/admin/view"
	"github.com/tripod-k8s/tripod/local/process"
	"github.com/tripod-k8s/tripod/local/replicas"
)

// Observation is what an instance, its aggregators and its etcd say at a moment. Numbers of requests are since a process started.
type Observation struct {
	Time      time.Time        `json:"time"`
	Processes []process.Status `json:"processes"`
	// Aggregators are the views of those that have answered lately, sorted by address.
	Aggregators []view.Aggregator `json:"aggregators"`
	// EtcdRequests are those of etcd, by the address of the process.
	EtcdRequests map[string]int64 `json:"etcdRequests,omitempty"`
	// Differences are those that an aggregator names between the settings of replicas, a line each.
	Differences []string `json:"differences,omitempty"`
	// Events are those after the number that was asked for, and LastEvent is the number of the last.
	Events    []Event `json:"events,omitempty"`
	LastEvent int64   `json:"lastEvent"`
}

const (
	// viewInterval is how old a view must be until its aggregator is asked again, and etcdInterval the same for etcd and for settings.
	viewInterval = 700 * time.Millisecond
	rareInterval = 5 * time.Second
	// viewsAtOnce is how many aggregators are asked at once. More of them take turns: an answer costs each some milliseconds.
	viewsAtOnce = 2
	// viewTimeout bounds an answer. The page of which it is a part is renewed each second.
	viewTimeout = 900 * time.Millisecond
	// maxDifference bounds a line about settings.
	maxDifference = 4 << 10
	// idleView is how long a connection stays for the next question.
	idleView = 10 * time.Second
)

// etcdMetric is what an observation has of etcd.
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
	views   map[string]view.Aggregator
	// asked is when an aggregator was asked last, and rarely when etcd and settings were.
	asked        map[string]time.Time
	rarely       time.Time
	etcdRequests map[string]int64
	differences  []string
}

// observe returns the present state of the instance, with events after a number.
func (i *instance) observe(ctx context.Context, after int64) *Observation {
	o := &Observation{Time: time.Now(), Processes: []process.Status{}, Aggregators: []view.Aggregator{}}
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
				read, err := readView(ctx, admins, address)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					o.views[address] = *read
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
	for address, last := range o.views {
		if !slices.Contains(ready, address) || time.Since(last.Time) > max(rareInterval, time.Duration(len(ready))*time.Second) {
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
		o.views, o.asked = map[string]view.Aggregator{}, map[string]time.Time{}
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
	response, err := send(ctx, client, server+"/metrics?"+view.Parameters(names...).Encode())
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("/metrics answers %d", response.StatusCode)
	}
	return view.Families(response.Body, names...)
}

func send(ctx context.Context, client *http.Client, address string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	return client.Do(req)
}

func get(ctx context.Context, client *http.Client, address string, limit int64) (body string, code int, err error) {
	response, err := send(ctx, client, address)
	if err != nil {
		return "", 0, err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(response.Body, limit))
	return string(text), response.StatusCode, err
}

// readView asks an aggregator.
func readView(ctx context.Context, client *http.Client, aggregator string) (*view.Aggregator, error) {
	families, err := metricsOf(ctx, client, aggregator, view.OfReplicas...)
	if err != nil {
		return nil, err
	}
	read := view.Of(families)
	read.Address = aggregator
	return read, nil
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
