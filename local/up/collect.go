// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"

	"github.com/tripod-k8s/tripod/admin/collect"
)

// Files returns what says how an instance is, for `tripod debug collect`: logs, processes and certificates. It fails if there is no
// instance.
func Files(d DataDir) (*collect.Files, error) {
	names, err := Logs(d)
	if err != nil {
		return nil, err
	}
	logs := map[string]string{}
	for _, name := range names {
		logs[name] = d.log(name)
	}
	return &collect.Files{
		Logs: logs,
		Values: map[string]func(context.Context) (any, error){
			"instance.json":     func(ctx context.Context) (any, error) { return Describe(ctx, d), nil },
			"processes.json":    func(ctx context.Context) (any, error) { return GetStatus(ctx, d, 0) },
			"certificates.json": func(context.Context) (any, error) { return Certificates(d) },
		},
		SecretDirs: []string{d.pki(), d.Kubeconfig(), d.controllers()},
	}, nil
}
