// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

func TestStreamsTryAgainWhenTheMemberAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		failure error
		waits   time.Duration
	}{
		"the member cannot be reached":     {errors.New("connection refused"), time.Second},
		"the member is not ready":          {apierrors.NewServiceUnavailable("later"), time.Second},
		"the member forbids the resource":  {apierrors.NewForbidden(schema.GroupResource{}, "", nil), time.Minute},
		"a watch has ended without a word": {nil, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStream("east", streams.Kind{}, source{limiter: newLimiter(t, nil).forMember()}, nil)
				go func() {
					time.Sleep(time.Second)
					s.answers.Send()
				}()
				began := time.Now()
				s.pause(context.Background(), time.Minute, test.failure)
				assert.Equal(t, test.waits, time.Since(began))
				s.answers.Send() // none waits
			})
		})
	}
}

// TestPausesAfterALimitGrow are short at first, because a member may have been slow only for a moment.
func TestPausesAfterALimitGrow(t *testing.T) {
	pauses := limitRetries()
	for _, least := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second} {
		pause := pauses.Step()
		assert.GreaterOrEqual(t, pause, least)
		assert.LessOrEqual(t, pause, least*3/2)
	}
	for range 10 {
		pauses.Step()
	}
	assert.GreaterOrEqual(t, pauses.Step(), 15*time.Minute)
}

// TestAFailureIsReportedUntilAListIsComplete has a member take its time for the list after one that has failed. Most of its time, it fails.
func TestAFailureIsReportedUntilAListIsComplete(t *testing.T) {
	f := newFakeMember(t)
	f.streaming = true
	f.put("a")
	asked, answer := make(chan struct{}, 1), make(chan struct{})
	requests := 0
	f.odd = func(w http.ResponseWriter, _ url.Values) bool {
		if requests++; requests == 1 {
			fail(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
			return true
		}
		f.mu.Unlock() // others go on
		defer f.mu.Lock()
		select {
		case asked <- struct{}{}:
		default:
		}
		<-answer
		return false
	}
	s := newStore(t)
	m, _ := run(t, f, s)
	finish := sync.OnceFunc(func() { close(answer) })
	t.Cleanup(finish)
	<-asked
	_, streams := m.Status()
	assert.Equal(t, Failed, streams[0].Phase)
	assert.Equal(t, "ServiceUnavailable", streams[0].Reason)
	assert.True(t, streams[0].Listing)
	finish()
	require.Eventually(t, func() bool { _, streams := m.Status(); return streams[0].Phase == Syncing && streams[0].Reason == "" }, time.Minute, 10*time.Millisecond)
	eventually(t, s, "a")
}
