// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestACoreWaitsForItsEtcdOnlyWhileThatAnswers(t *testing.T) {
	const grace = 10 * time.Second
	failed := errors.New("failed")
	for _, test := range []struct {
		name string
		// takes is how long it takes to stop, and silent after what time etcd does not answer any more.
		takes, silent, want time.Duration
		err                 error
	}{
		{name: "etcd answers", takes: time.Minute, silent: time.Hour, want: time.Minute, err: failed},
		{name: "etcd does not answer", takes: time.Minute, want: grace},
		{name: "nothing waits for etcd", takes: time.Second, want: time.Second, err: failed},
		{name: "etcd stops to answer", takes: time.Minute, silent: 20*time.Second - 1, want: 20 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				stop()
				began := time.Now()
				health := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					assert.Equal(t, "/readyz/etcd", req.URL.Path)
					status := http.StatusOK
					if time.Since(began) > test.silent {
						status = http.StatusInternalServerError
					}
					w.WriteHeader(status)
				})
				err := runUntilStopped(ctx, func(context.Context) error {
					time.Sleep(test.takes)
					return failed
				}, health, grace)
				assert.ErrorIs(t, err, test.err)
				assert.Equal(t, test.want, time.Since(began))
				time.Sleep(time.Hour) // until what still runs has ended
			})
		})
	}
}
