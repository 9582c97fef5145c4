// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/util/responsewriter"
)

// readyInterval is how often a replica looks whether it is ready. The check asks etcd.
const readyInterval = 500 * time.Millisecond

// FollowReadiness tells what /readyz of health says, until the context ends. It calls ready when it says so for the first time.
func (p *Publisher) FollowReadiness(ctx context.Context, health http.Handler, ready func()) {
	var once sync.Once
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		failing := failingChecks(ctx, health)
		if len(failing) == 0 {
			once.Do(ready)
		}
		p.SetReady(failing)
	}, readyInterval)
}

// failingChecks returns the names of the checks that fail, or "readyz" when there is an answer but no names in it.
func failingChecks(ctx context.Context, health http.Handler) []string {
	req := (&http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/readyz"}, Header: http.Header{}}).WithContext(ctx)
	answer := responsewriter.NewInMemoryResponseWriter()
	health.ServeHTTP(answer, req)
	if answer.RespCode() == http.StatusOK {
		return nil
	}
	var failing []string
	for line := range strings.Lines(string(answer.Data())) {
		if check, fails := strings.CutPrefix(line, "[-]"); fails {
			name, _, _ := strings.Cut(check, " ")
			failing = append(failing, name)
		}
	}
	if len(failing) == 0 {
		failing = []string{"readyz"}
	}
	return failing
}
