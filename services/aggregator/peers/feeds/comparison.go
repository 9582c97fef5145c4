// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package feeds

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/service/settings"
	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
	"github.com/tripod-k8s/tripod/services/aggregator/quickmetrics"
)

// maxListed limits how many differences a message lists.
const maxListed = 20

// Values of the label "between".
const (
	betweenReplicas = "replicas"
	betweenServices = "services"
)

var (
	differences = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name: "tripod_configuration_differences",
		Help: "How many differences of configuration the replicas of backends have, by what it is about (encryption, audit, admission, " +
			"partitions), between replicas of one service or between services.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"kind", "between"})
	unknown = metrics.NewGauge(&metrics.GaugeOpts{
		Name:           "tripod_configuration_unknown",
		Help:           "How many replicas of backends do not report their configuration, because their version is older.",
		StabilityLevel: metrics.ALPHA,
	})
	registerMetrics = sync.OnceFunc(func() {
		quickmetrics.MustRegister(differences)
		legacyregistry.MustRegister(unknown)
	})
)

// Comparison compares the encryption, audit and admission settings of all replicas. It only reports. Serving with one of two configurations
// is no worse than not serving, and a changed file reaches replicas one after the other.
type Comparison struct {
	// ownedByExtensions reports whether a name in an EncryptionConfiguration may mean resources in extensions.
	ownedByExtensions func(resource string) bool

	mu  sync.Mutex
	own *backendv1.Configuration
	// reported are the configurations of the replicas with a live feed, by backend and address. nil stands for a replica that does not report
	// one.
	reported map[string]map[string]*backendv1.Configuration
	last     result
}

// result is the result of a comparison.
type result struct {
	// differences are descriptions.
	differences []string
	// counts has the number of differences by the labels kind and between.
	counts map[[2]string]int
	// unknown are the replicas that do not report a configuration.
	unknown []string
}

// NewComparison returns a comparison that starts with the configuration of this aggregator. builtin reports whether an API group is one of
// kube-apiserver's.
func NewComparison(own *backendv1.Configuration, builtin func(group string) bool) *Comparison {
	registerMetrics()
	c := &Comparison{own: own, reported: map[string]map[string]*backendv1.Configuration{}, ownedByExtensions: func(resource string) bool {
		_, group, _ := strings.Cut(resource, ".")
		return group == "*" || group == apiextensions.GroupName || group != "" && !builtin(group)
	}}
	c.change(func() {})
	return c
}

// set stores what a replica reports. A nil configuration means that the replica does not report one.
func (c *Comparison) set(backend, address string, configuration *backendv1.Configuration) {
	c.change(func() {
		if c.reported[backend] == nil {
			c.reported[backend] = map[string]*backendv1.Configuration{}
		}
		c.reported[backend][address] = configuration
	})
}

// forget removes a replica whose feed has ended.
func (c *Comparison) forget(backend, address string) {
	c.change(func() { delete(c.reported[backend], address) })
}

func (c *Comparison) change(apply func()) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	apply()
	now := c.compare()
	for _, kind := range []string{settings.Encryption, settings.Audit, settings.Admission, settings.Partitions} {
		for _, between := range []string{betweenReplicas, betweenServices} {
			differences.WithLabelValues(kind, between).Set(float64(now.counts[[2]string{kind, between}]))
		}
	}
	unknown.Set(float64(len(now.unknown)))
	if err := now.error(); fmt.Sprint(err) != fmt.Sprint(c.last.error()) {
		if err != nil {
			klog.ErrorS(err, "Services are configured differently, or do not report their configuration")
		} else {
			klog.InfoS("All services are configured alike again")
		}
	}
	c.last = now
}

// compare compares each replica with the first of its service, and the first replicas of all services with one another.
func (c *Comparison) compare() result {
	found := result{counts: map[[2]string]int{}}
	type member struct {
		name          string
		configuration *backendv1.Configuration
	}
	add := func(between string, a, b member, compared func(string) bool) {
		for _, difference := range settings.Compare(a.name, b.name, a.configuration, b.configuration, compared) {
			found.counts[[2]string{difference.Kind, between}]++
			found.differences = append(found.differences, printable(difference.Message))
		}
	}
	firsts := []member{{"this aggregator", c.own}}
	for _, backend := range slices.Sorted(maps.Keys(c.reported)) {
		var first *member
		for _, address := range slices.Sorted(maps.Keys(c.reported[backend])) {
			m := member{backend + " at " + address, c.reported[backend][address]}
			switch {
			case m.configuration == nil:
				found.unknown = append(found.unknown, m.name)
			case first == nil:
				first = &m
			default:
				add(betweenReplicas, *first, m, func(string) bool { return true })
			}
		}
		if first != nil {
			firsts = append(firsts, *first)
		}
	}
	// This aggregator does not take part in the comparison of encryption. It stores only APIServices, and needs no keys if these are not
	// encrypted.
	for i, a := range firsts {
		for _, b := range firsts[i+1:] {
			add(betweenServices, a, b, func(resource string) bool { return i > 0 && c.ownedByExtensions(resource) })
		}
	}
	return found
}

// error returns nil if all replicas report the same.
func (r result) error() error {
	messages := r.differences
	if more := len(messages) - maxListed; more > 0 {
		messages = append(messages[:maxListed:maxListed], fmt.Sprintf("and %d more", more))
	}
	if len(r.unknown) > 0 {
		messages = append(messages[:len(messages):len(messages)], "unknown is the configuration of "+strings.Join(r.unknown, ", "))
	}
	if len(messages) == 0 {
		return nil
	}
	return errors.New(strings.Join(messages, "; "))
}

// Agree returns nil if all services have the same configuration. Otherwise the error lists the differences, and the replicas that do not
// report one.
func (c *Comparison) Agree() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last.error()
}

// SetOwn stores the current configuration of this aggregator.
func (c *Comparison) SetOwn(own *backendv1.Configuration) {
	c.change(func() { c.own = own })
}

// printable turns text of a replica into one line.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}
