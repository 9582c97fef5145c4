// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"
)

func TestShareWebhookCache(t *testing.T) {
	for _, test := range []struct{ whole, core, aggregators time.Duration }{
		{2 * time.Minute, 110 * time.Second, 10 * time.Second},
		{20 * time.Second, 10 * time.Second, 10 * time.Second},
		{2 * time.Second, time.Second, time.Second},
		{0, 0, 0},
	} {
		webhook := &kubeoptions.WebHookAuthenticationOptions{ConfigFile: "webhook.yaml", CacheTTL: test.whole}
		aggregators, restore := shareWebhookCache(webhook)
		if aggregators == nil || *aggregators != test.aggregators || webhook.CacheTTL != test.core {
			t.Errorf("of %s, aggregators get %v and core %s", test.whole, aggregators, webhook.CacheTTL)
		}
		restore()
		assert.Equal(t, test.whole, webhook.CacheTTL, "%s is %s afterwards", test.whole, webhook.CacheTTL)
	}
}

func TestNothingIsSharedWithoutAWebhook(t *testing.T) {
	for _, webhook := range []*kubeoptions.WebHookAuthenticationOptions{nil, {CacheTTL: time.Minute}} {
		aggregators, restore := shareWebhookCache(webhook)
		if aggregators != nil {
			t.Errorf("aggregators get %s", aggregators)
		}
		restore()
	}
}
