// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package both sends the same to a stock kube-apiserver and to Tripod.
//
// A test starts the two with [Start], wraps each in a [Side] that has the users who send requests, and compares the answers after a
// [Normaliser] has removed what differs between any two clusters:
//
//	sides, err := both.Start(ctx, func(ctx context.Context, tripod bool) (*both.Side, error) {
//		server, err := env.StartStock(ctx, framework.StockOptions{DropIn: tripod})
//		if err != nil {
//			return nil, err
//		}
//		return both.NewSide(server.Cluster, map[string]both.User{"reader": both.Certificate("reader", "readers")}), nil
//	})
//	err = both.Each(ctx, sides, func(ctx context.Context, s *both.Side) error {
//		answer, err := s.Send(ctx, both.Request{User: "reader", Method: http.MethodGet, Path: "/api"})
//		...
//	})
//
// With TEST_AGAINST=stock in the environment a second stock kube-apiserver takes the place of Tripod in all packages that use this one. A
// difference that a test finds then is noise.
package both
