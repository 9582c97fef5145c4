// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"time"

	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"
)

// maxWebhookFreshness limits how long aggregators use an answer of the authentication webhook, as for other answers.
const maxWebhookFreshness = 10 * time.Second

// shareWebhookCache divides the time of --authentication-token-webhook-cache-ttl between the cache of core and the caches of aggregators.
// An answer passes both, and so never gets older than the flag says. It returns the aggregators' share, or nil without a webhook. Until
// restore is called, the options have core's share; call it once the authenticators are made.
func shareWebhookCache(webhook *kubeoptions.WebHookAuthenticationOptions) (aggregators *time.Duration, restore func()) {
	if webhook == nil || webhook.ConfigFile == "" {
		return nil, func() {}
	}
	whole := webhook.CacheTTL
	share := min(whole/2, maxWebhookFreshness)
	webhook.CacheTTL -= share
	return &share, func() { webhook.CacheTTL = whole }
}
