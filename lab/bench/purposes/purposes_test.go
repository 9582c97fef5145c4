// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package purposes

import (
	"bytes"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// recorded returns a profile. Each stack begins with its innermost function.
func recorded(t *testing.T, kind string, stacks ...[]string) *bytes.Buffer {
	t.Helper()
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: kind, Unit: "nanoseconds"}}, PeriodType: &profile.ValueType{Type: kind},
	}
	for _, stack := range stacks {
		sample := &profile.Sample{Value: []int64{1, 10}}
		for _, name := range stack {
			f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name}
			l := &profile.Location{ID: uint64(len(p.Location) + 1), Line: []profile.Line{{Function: f}}}
			p.Function, p.Location, sample.Location = append(p.Function, f), append(p.Location, l), append(sample.Location, l)
		}
		p.Sample = append(p.Sample, sample)
	}
	var data bytes.Buffer
	require.NoError(t, p.Write(&data))
	return &data
}

func TestTheInnermostKnownFunctionSaysWhatTimeIsFor(t *testing.T) {
	shares, err := Shares(recorded(t, "cpu",
		[]string{"runtime.memmove", "k8s.io/api/core/v1.(*Pod).MarshalToSizedBuffer", "k8s.io/apiserver/pkg/storage/etcd3.(*store).Create", "net/http.HandlerFunc.ServeHTTP"},
		[]string{"runtime.nextFreeFast", "runtime.mallocgc", "encoding/json.Unmarshal"},
		[]string{"runtime.futex", "runtime.futexwakeup", "github.com/tripod-k8s/tripod/services/aggregator/proxy.(*Forwarder).ServeHTTP"},
		[]string{"runtime.aeshashbody", "github.com/tripod-k8s/tripod/services/aggregator/proxy.(*Forwarder).ServeHTTP", "net/http.HandlerFunc.ServeHTTP"},
		[]string{"unknown.function"},
	))
	require.NoError(t, err)
	assert.Equal(t, map[string]float64{
		"decoding, encoding and copies of objects":     0.2,
		"memory: allocation and garbage collection":    0.2,
		"scheduler of Go: goroutines, threads, timers": 0.2,
		"functions of Tripod":                          0.2,
		Else:                                           0.2,
	}, shares)
	for purpose := range shares {
		assert.Contains(t, All(), purpose)
	}
}

func TestOnlyProfilesOfProcessorTimeAreRead(t *testing.T) {
	_, err := Shares(bytes.NewReader([]byte("no profile")))
	assert.ErrorContains(t, err, "not a profile")
	_, err = Shares(recorded(t, "alloc_space", []string{"runtime.mallocgc"}))
	assert.ErrorContains(t, err, "not a profile of processor time")
	none, err := Shares(recorded(t, "cpu"))
	assert.NoError(t, err)
	assert.Empty(t, none)
}
