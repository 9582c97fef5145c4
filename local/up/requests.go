// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"crypto/tls"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tripod-k8s/tripod/admin/view"
	"github.com/tripod-k8s/tripod/local/names"
)

const metricsTimeout = 2 * time.Second

// way is a pair of an aggregator, by its URL, and a replica of a backend, by its address.
type way struct{ aggregator, backend, endpoint string }

// requestCounts are the numbers of requests sent.
type requestCounts map[way]int64

// since returns the numbers of new requests. A lower count means that the aggregator has restarted.
func (c requestCounts) since(before requestCounts) requestCounts {
	fresh := requestCounts{}
	for w, n := range c {
		if n >= before[w] {
			n -= before[w]
		}
		fresh[w] = n
	}
	return fresh
}

// addCounts sets the counts of the replicas that have one.
func addCounts(statuses []Status, counts requestCounts) {
	if len(counts) == 0 {
		return
	}
	totals := map[string]int64{}
	for k := range statuses {
		s := &statuses[k]
		if slices.Contains(names.Processes, s.Component) {
			continue
		}
		var n int64
		for w, sent := range counts {
			if s.Address == w.aggregator || (s.Component == w.backend && s.Address == "https://"+w.endpoint) {
				n += sent
			}
		}
		s.Requests = &n
		totals[s.Component] += n
	}
	for k := range statuses {
		s := &statuses[k]
		if total := totals[s.Component]; s.Requests != nil && total > 0 {
			share := float64(*s.Requests) / float64(total)
			s.Share = &share
		}
	}
}

// askForCounts asks the aggregators at the URLs. It skips an aggregator that does not answer.
func askForCounts(ctx context.Context, config *tls.Config, aggregators []string) requestCounts {
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}

	counts := requestCounts{}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, aggregator := range aggregators {
		asking.Go(func() {
			own, err := askOneForCounts(ctx, client, aggregator)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for w, n := range own {
				counts[w] = n
			}
		})
	}
	asking.Wait()
	return counts
}

func askOneForCounts(ctx context.Context, client *http.Client, aggregator string) (requestCounts, error) {
	families, err := metricsOf(ctx, client, aggregator, view.Requests)
	if err != nil {
		return nil, err
	}
	counts := requestCounts{}
	for _, metric := range families[view.Requests].GetMetric() {
		w := way{aggregator: aggregator, backend: view.Label(metric, view.Backend), endpoint: view.Label(metric, view.Endpoint)}
		if !strings.Contains(w.backend, ".") { // an aggregated API server has the name of its APIService
			counts[w] += int64(metric.GetCounter().GetValue())
		}
	}
	return counts, nil
}
