// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"time"

	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"
)

// maxWebhookFreshness limits how long aggregators cache an answer of the authentication webhook. Other answers have the same limit.
const maxWebhookFreshness = 10 * time.Second

// shareWebhookCache divides --authentication-token-webhook-cache-ttl between the cache of core and the caches of aggregators. An answer
// may stay in both, one after the other, and is never older than the flag. shareWebhookCache returns the aggregators' part, or nil
// without a webhook. It sets the options to core's part. Call restore when the authenticators are built.
func shareWebhookCache(webhook *kubeoptions.WebHookAuthenticationOptions) (aggregators *time.Duration, restore func()) {
	if webhook == nil || webhook.ConfigFile == "" {
		return nil, func() {}
	}
	whole := webhook.CacheTTL
	share := min(whole/2, maxWebhookFreshness)
	webhook.CacheTTL -= share
	return &share, func() { webhook.CacheTTL = whole }
}
