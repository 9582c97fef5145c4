// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/base/hop/roundtrip"
)

// resets counts resets.
type resets struct {
	meta.RESTMapper
	count atomic.Int32
}

func (r *resets) Reset() { r.count.Add(1) }

func TestTheRESTMapperIsResetWhenTheAggregatorAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var version atomic.Int32
		var asked atomic.Int32
		nobody := unreachable(t)
		kinds := &Kinds{}
		_, err := Split{
			Self:   &rest.Config{Host: "http://self"},
			Serves: func(schema.GroupVersion) bool { return false },
			Aggregator: roundtrip.Func(func(req *http.Request) (*http.Response, error) {
				asked.Add(1)
				now := fmt.Sprint(version.Load())
				switch {
				case now == "0":
					return nobody.RoundTrip(req)
				case now == "1":
					return response(http.StatusServiceUnavailable, "not yet"), nil
				case req.Header.Get("If-None-Match") == now:
					return response(http.StatusNotModified, ""), nil
				}
				answer := response(http.StatusOK, "groups")
				answer.Header.Set("ETag", now)
				return answer, nil
			}),
			Kinds: kinds,
		}.Config()
		require.NoError(t, err)
		known := &resets{}
		kinds.SetRESTMapper(known)
		ended := make(chan struct{})
		go func() {
			kinds.Run(t.Context())
			close(ended)
		}()
		for now, want := range []int32{0: 0, 1: 0, 2: 1, 3: 2} {
			version.Store(int32(now))
			time.Sleep(5 * time.Second)
			if got := known.count.Load(); got != want {
				t.Errorf("at version %d the RESTMapper was reset %d times, want %d", now, got, want)
			}
		}
		<-ended
		before := asked.Load()
		time.Sleep(time.Minute)
		assert.Equal(t, before, asked.Load(), "the aggregator is asked for ever")
	})
}

func TestKindsAreAPluginThatDecidesNothing(t *testing.T) {
	o := genericoptions.NewAdmissionOptions()
	kinds := NewKinds(o)
	assert.Empty(t, o.Validate())
	known := &resets{}
	plugin, err := o.Plugins.InitPlugin(kindsPlugin, nil, initializer.New(nil, nil, nil, nil, nil, nil, nil, known))
	require.NoError(t, err)
	for _, operation := range []admission.Operation{admission.Create, admission.Update, admission.Delete, admission.Connect} {
		if plugin.Handles(operation) {
			t.Errorf("it decides about %s", operation)
		}
	}
	kinds.reset()
	if known.count.Load() != 1 {
		t.Error("the RESTMapper is not reset")
	}
}
