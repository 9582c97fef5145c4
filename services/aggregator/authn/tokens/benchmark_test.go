// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package tokens

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"k8s.io/apiserver/pkg/audit"
	"k8s.io/component-base/metrics"

	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// cachedClient returns a client that knows tokens of 1 KB: as long as those of service accounts are.
func cachedClient(b *testing.B, tokens int) (*Client, []string) {
	b.Helper()
	c := New(Config{Addresses: at([]string{"unused"}...), Grace: time.Minute})
	registry := metrics.NewKubeRegistry()
	if err := c.RegisterMetrics(registry.Register, registry.CustomRegister); err != nil {
		b.Fatal(err)
	}
	c.cache.follow("run", 0)
	names := make([]string, tokens)
	for i := range names {
		message := is("system:serviceaccount:default:builder", "1")
		message.Run, message.FreshFor = "run", durationpb.New(time.Hour)
		message.Dependencies = append(message.Dependencies, &identityv1.Dependency{Kind: identityv1.Dependency_KIND_POD, Id: strconv.Itoa(i)})
		names[i] = strings.Repeat("x", 1019) + strconv.Itoa(10000+i)
		c.cache.put(c.keyer.key(names[i], nil), newAnswer(message, time.Now()))
	}
	// Answers of a live stream.
	c.cache.lastMessage = time.Now().Add(time.Hour)
	return c, names
}

func BenchmarkCachedToken(b *testing.B) {
	c, tokens := cachedClient(b, 10000)
	b.Run("one after the other", func(b *testing.B) {
		ctx := audit.WithAuditContext(b.Context())
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			mustBeGood(ctx, b, c, tokens[i%len(tokens)])
		}
	})
	b.Run("in parallel", func(b *testing.B) {
		ctx := audit.WithAuditContext(b.Context())
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				mustBeGood(ctx, b, c, tokens[i%len(tokens)])
			}
		})
	})
}

func mustBeGood(ctx context.Context, b *testing.B, c *Client, token string) {
	if _, ok, err := c.AuthenticateToken(ctx, token); !ok || err != nil {
		b.Fatal(ok, err)
	}
}

// BenchmarkInvalidation is of the pod of one token among ten thousand.
func BenchmarkInvalidation(b *testing.B) {
	c, _ := cachedClient(b, 10000)
	message := &identityv1.WatchResponse{Run: "run", Invalidations: []*identityv1.Invalidation{{}}}
	for sequence := uint64(1); b.Loop(); sequence++ {
		message.Sequence = sequence
		message.Invalidations[0] = &identityv1.Invalidation{Sequence: sequence,
			Dependency: &identityv1.Dependency{Kind: identityv1.Dependency_KIND_POD, Id: strconv.FormatUint(sequence, 10)}}
		if _, err := c.cache.apply(message); err != nil {
			b.Fatal(err)
		}
	}
}
