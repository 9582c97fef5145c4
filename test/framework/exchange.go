// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// program returns the command kube-apiserver or, as a drop-in, `tripod kube-apiserver`.
func (s *Stock) program(dropIn bool) {
	flags := slices.DeleteFunc(slices.Clone(s.command.Args), func(arg string) bool { return arg == "kube-apiserver" })
	s.Name, s.command.Path, s.command.Args = "stock", s.environment.Binary("test-assets/kube-apiserver"), flags
	if dropIn {
		s.Name, s.command.Path, s.command.Args = "dropin", s.environment.Binary("tripod"), append([]string{"kube-apiserver"}, flags...)
	}
}

// Exchange stops the API server and starts kube-apiserver or, as a drop-in, `tripod kube-apiserver` in its place: on the same etcd and
// port, with the same flags and these.
func (s *Stock) Exchange(ctx context.Context, dropIn bool, args ...string) error {
	if err := s.Process.Stop(); err != nil {
		return err
	}
	s.program(dropIn)
	s.command.Name = nextStart(s.command.Name)
	return s.start(ctx, args)
}

// Beside starts another API server on the same etcd and on another port, with the same flags and these.
func (s *Stock) Beside(ctx context.Context, dropIn bool, args ...string) (*Stock, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	cluster := *s.Cluster
	cluster.URL = fmt.Sprintf("https://127.0.0.1:%d", port)
	other := &Stock{Cluster: &cluster, EtcdURL: s.EtcdURL, environment: s.environment, command: s.command}
	other.command.Args = slices.Clone(s.command.Args)
	for i, arg := range other.command.Args {
		if strings.HasPrefix(arg, "--secure-port=") {
			other.command.Args[i] = fmt.Sprintf("--secure-port=%d", port)
		}
	}
	other.command.Name += "-beside"
	other.program(dropIn)
	return other, other.start(ctx, args)
}
