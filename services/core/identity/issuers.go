// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"os"
	"slices"
	"time"

	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/base/service/filewatch"
	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

const (
	// settleTime is how long core may take to use a changed --authentication-config. If it misses the event of the file, it looks once a
	// minute. It waits up to 10 s for the keys of new issuers (pkg/kubeapiserver/options/authentication.go).
	settleTime = 75 * time.Second
	// unsettledFreshness is how long aggregators may cache answers about tokens of issuers meanwhile.
	unsettledFreshness = time.Second
)

// FollowIssuers reports changes of the issuers in the file of --authentication-config, until the context ends. It is unknown when core
// uses a change. So answers about tokens of issuers hold for only a second until core certainly does.
func (d *Dependencies) FollowIssuers(ctx context.Context, file string) {
	watch := filewatch.New(file)
	watch.Run(ctx, d.reportIssuers(file))
}

// reportIssuers returns a function for the time when the file has changed.
func (d *Dependencies) reportIssuers(file string) (changed func()) {
	before := issuersIn(file)
	return func() {
		settled := time.Now().Add(settleTime)
		d.settled.Store(&settled)
		now := issuersIn(file)
		for _, issuer := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(before, now)))) {
			d.report(identityv1.Dependency_KIND_ISSUER, issuer, "")
		}
		before = now
	}
}

func (d *Dependencies) unsettled() bool {
	settled := d.settled.Load()
	return settled != nil && time.Now().Before(*settled)
}

// issuersIn returns the URLs of the issuers in an AuthenticationConfiguration. Core itself reports errors in it.
func issuersIn(file string) []string {
	var config struct {
		JWT []struct {
			Issuer struct {
				URL string `json:"url"`
			} `json:"issuer"`
		} `json:"jwt"`
	}
	data, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(data, &config)
	}
	if err != nil {
		klog.ErrorS(err, "Cannot read the issuers of tokens", "file", file)
	}
	var urls []string
	for _, authenticator := range config.JWT {
		urls = append(urls, authenticator.Issuer.URL)
	}
	return urls
}
