// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
)

// world is a DNS server, a set of ready replicas, and what the Set has reported.
type world struct {
	*Set

	mu       sync.Mutex
	found    []string
	err      error
	ready    string
	received []string
	changes  int
}

// run makes a Set follow core.example.com and one more replica until the test ends.
func run(t *testing.T) *world {
	t.Helper()
	w := &world{}
	w.Set = New(Config{
		Service: "core",
		Ready: func(address string) bool {
			return slices.Contains(strings.Fields(w.ready), strings.TrimSuffix(address, ":6443"))
		},
		Changed: func(addresses []string) { w.received, w.changes = addresses, w.changes+1 },
	})
	w.lookUp = func(_ context.Context, host string) ([]string, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if host != "core.example.com" {
			return nil, errors.New("another name")
		}
		return slices.Clone(w.found), w.err
	}
	w.put(t, "https://10.1.0.1:6444", "dns:///core.example.com:6443")
	go w.Run(t.Context())
	return w
}

func (w *world) put(t *testing.T, servers ...string) {
	t.Helper()
	var locations []addresses.Location
	for _, server := range servers {
		at, err := addresses.OfServer(server)
		require.NoError(t, err)
		locations = append(locations, at)
	}
	w.Put(locations)
}

// resolve sets the answer of DNS.
func (w *world) resolve(err error, hosts string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err, w.found = err, strings.Fields(hosts)
}

// expect compares the replicas behind the name.
func (w *world) expect(t *testing.T, want, when string) {
	t.Helper()
	synctest.Wait()
	var got []string
	for _, address := range w.received[1:] {
		got = append(got, strings.TrimSuffix(address, ":6443"))
	}
	assert.Equal(t, "10.1.0.1:6444", w.received[0])
	assert.Equal(t, want, strings.Join(got, " "), when)
}

func TestNamesStandForTheirAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := run(t)
		w.resolve(nil, "10.0.0.2 10.0.0.1")
		w.LookUpNow()
		w.expect(t, "10.0.0.1 10.0.0.2", "at first")
		w.resolve(nil, "10.0.0.2 fd00::3")
		w.expect(t, "10.0.0.1 10.0.0.2", "not at once")
		time.Sleep(lookUpInterval)
		w.expect(t, "10.0.0.2 [fd00::3]", "after a change")
		changes := w.changes
		w.resolve(errors.New("no answer"), "")
		time.Sleep(lookUpInterval)
		w.expect(t, "10.0.0.2 [fd00::3]", "without an answer")
		assert.Equal(t, changes, w.changes, "an unchanged set is not reported")
		w.resolve(nil, "10.0.0.4")
		w.LookUpNow()
		w.expect(t, "10.0.0.4", "at once when there is a reason")
		w.put(t, "https://10.1.0.1:6444")
		time.Sleep(2 * lookUpInterval)
		w.expect(t, "", "without the name")
	})
}

func TestReplicasStayUntilTheNameInTheirPlaceLeadsToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := run(t)
		w.put(t, "https://10.1.0.1:6444", "https://10.0.0.1:6443", "https://10.0.0.2:6443")
		w.expect(t, "10.0.0.1 10.0.0.2", "at first")
		w.ready = "10.0.0.1"
		w.resolve(errors.New("no answer"), "")
		w.put(t, "https://10.1.0.1:6444", "dns:///core.example.com:6443")
		assert.Equal(t, []string{"10.1.0.1:6444", "10.0.0.1:6443", "10.0.0.2:6443"}, w.received, "before the name is looked up")
		w.expect(t, "10.0.0.1", "those that are ready, without an answer")
		w.resolve(nil, "10.0.0.3")
		w.LookUpNow()
		w.expect(t, "10.0.0.3 10.0.0.1", "while nobody is ready there")
		w.ready = "10.0.0.1 10.0.0.3"
		w.LookUpNow()
		w.expect(t, "10.0.0.3", "with an answer")
		w.put(t, "https://10.1.0.1:6444", "dns:///core.example.com:6443", "dns:///other.example.com:6443")
		w.expect(t, "10.0.0.3", "with another name")
		w.put(t, "https://10.1.0.1:6444")
		w.expect(t, "", "without a name")
	})
}

// TestReplicasThatAreReadyStayWhereDNSLies starts with 10.0.0.1 and 10.0.0.2. Then DNS answers something else.
func TestReplicasThatAreReadyStayWhereDNSLies(t *testing.T) {
	notFound := &net.DNSError{IsNotFound: true}
	for name, test := range map[string]struct {
		// ready are the ready replicas when DNS changes its answer, and later those after that.
		ready, later string
		err          error
		found        string
		// want at once, and then after the next lookup
		want, then string
	}{
		"nobody is there":                 {"10.0.0.1 10.0.0.2", "10.0.0.1 10.0.0.2", nil, "10.9.9.9", "10.9.9.9 10.0.0.1 10.0.0.2", "10.9.9.9 10.0.0.1 10.0.0.2"},
		"no address at all":               {"10.0.0.1 10.0.0.2", "10.0.0.1 10.0.0.2", notFound, "", "10.0.0.1 10.0.0.2", "10.0.0.1 10.0.0.2"},
		"only what is ready stays":        {"10.0.0.2", "10.0.0.2", nil, "10.9.9.9", "10.9.9.9 10.0.0.2", "10.9.9.9 10.0.0.2"},
		"and only as long as it is":       {"10.0.0.1 10.0.0.2", "10.0.0.1", nil, "10.9.9.9", "10.9.9.9 10.0.0.1 10.0.0.2", "10.9.9.9 10.0.0.1"},
		"new ones that become ready":      {"10.0.0.1", "10.0.0.1 10.0.0.3", nil, "10.0.0.3", "10.0.0.3 10.0.0.1", "10.0.0.3"},
		"one of before that is ready":     {"10.0.0.1 10.0.0.2", "10.0.0.1 10.0.0.2", nil, "10.0.0.2 10.0.0.3", "10.0.0.2 10.0.0.3", "10.0.0.2 10.0.0.3"},
		"one of before that is not ready": {"10.0.0.1", "10.0.0.1", nil, "10.0.0.2 10.0.0.3", "10.0.0.2 10.0.0.3 10.0.0.1", "10.0.0.2 10.0.0.3 10.0.0.1"},
		"all have gone":                   {"", "", notFound, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := run(t)
				w.resolve(nil, "10.0.0.1 10.0.0.2")
				w.LookUpNow()
				w.expect(t, "10.0.0.1 10.0.0.2", "at first")
				w.ready = test.ready
				w.resolve(test.err, test.found)
				w.LookUpNow()
				w.expect(t, test.want, "at once")
				w.ready = test.later
				time.Sleep(lookUpInterval)
				w.expect(t, test.then, "later")
				w.resolve(errors.New("no answer"), "")
				time.Sleep(lookUpInterval)
				w.expect(t, test.then, "while DNS is silent")
				w.resolve(nil, "10.0.0.1 10.0.0.2")
				time.Sleep(lookUpInterval)
				w.expect(t, "10.0.0.1 10.0.0.2", "when DNS is right again")
			})
		})
	}
}

func TestWhatStaysIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := run(t)
		var many []string
		for i := range maxFound + 10 {
			many = append(many, fmt.Sprintf("10.0.%d.%d", i/250, i%250))
		}
		w.resolve(nil, strings.Join(many, " "))
		w.LookUpNow()
		synctest.Wait()
		assert.Len(t, w.received, 1+maxFound, "addresses are found")
		w.ready = strings.Join(many, " ")
		w.resolve(nil, "10.9.9.9")
		w.LookUpNow()
		synctest.Wait()
		assert.Len(t, w.received, 2+maxKept, "replicas stay")
		time.Sleep(maxKeep - lookUpInterval)
		synctest.Wait()
		assert.Len(t, w.received, 2+maxKept, "replicas stay")
		time.Sleep(2 * lookUpInterval)
		w.expect(t, "10.9.9.9", "after a long time")
	})
}
