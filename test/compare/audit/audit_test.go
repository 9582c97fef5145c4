// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework/both"
)

func TestTheAuditLogIsThatOfKubeAPIServer(t *testing.T) {
	all := requests()
	names := map[string]bool{}
	for _, r := range all {
		assert.False(t, names[r.name], "two requests are called %q", r.name)
		names[r.name] = true
	}

	// The logs are complete when the processes have ended.
	var logs [2]events
	err := both.Each(t.Context(), sides, func(ctx context.Context, s *side) (err error) {
		if err := s.sendAll(ctx, all); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		if err := s.stop(); err != nil {
			return err
		}
		logs[slices.Index(sides[:], s)], err = s.read()
		return err
	})
	require.NoError(t, err)

	written := map[string]int{}
	for i, r := range all {
		t.Run(r.name, func(t *testing.T) {
			stock, tested := logs[0][auditID(i)], logs[1][auditID(i)]
			if len(stock) == 0 {
				t.Fatal("stock wrote nothing")
			}
			by := writers(tested)
			if len(by) > 1 {
				t.Errorf("%s write about it", strings.Join(by, " and "))
			}
			for _, writer := range by {
				written[writer]++
			}
			want, err := texts(stock, port(sides[0]), !r.ownAnswer)
			require.NoError(t, err)
			got, err := texts(tested, port(sides[1]), !r.ownAnswer)
			require.NoError(t, err)
			assert.Len(t, want, len(got), "%d events instead of %d", len(got), len(want))
			assert.Empty(t, cmp.Diff(want, got), "written by %s, - kube-apiserver, + here", by)
		})
	}
	t.Logf("%d requests, written by %v", len(all), written)
}

func auditID(i int) string { return fmt.Sprintf("%s%d", testsPrefix, i) }

func (s *side) sendAll(ctx context.Context, all []request) error {
	for i, r := range all {
		if r.settles != "" {
			settled := func(a both.Answer) bool { return strings.Contains(string(a.Body), r.settles) }
			if err := s.until(ctx, get(r.name, admin, r.path), settled); err != nil {
				return err
			}
		}
		if _, err := s.send(ctx, r, auditID(i)); err != nil && !r.breaks {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}

func port(s *side) string {
	u, err := url.Parse(s.URL)
	if err != nil {
		return s.URL
	}
	return u.Port()
}
