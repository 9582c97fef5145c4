// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"time"

	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"
)

// maxWebhookFreshness bounds how long aggregators use an answer of the authentication webhook, as that of others.
const maxWebhookFreshness = 10 * time.Second

// shareWebhookCache divides the time of --authentication-token-webhook-cache-ttl between the cache of core and those of
// aggregators, one after the other, so that no answer gets older than that. It returns the share of aggregators, nil without a
// webhook. Core's is in the options until restore is called: they say what the flag said again once authenticators are made.
func shareWebhookCache(webhook *kubeoptions.WebHookAuthenticationOptions) (aggregators *time.Duration, restore func()) {
	if webhook == nil || webhook.ConfigFile == "" {
		return nil, func() {}
	}
	whole := webhook.CacheTTL
	share := min(whole/2, maxWebhookFreshness)
	webhook.CacheTTL -= share
	return &share, func() { webhook.CacheTTL = whole }
}
