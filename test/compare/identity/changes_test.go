// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	authenticationv1 "k8s.io/api/authentication/v1"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
)

// attempt is a request that was answered.
type attempt struct {
	began, ended time.Time
	code         int
}

// try reads as the owner of a token.
func (s *side) try(ctx context.Context, client *http.Client, path string) (attempt, error) {
	began := time.Now()
	a, err := sendWith(ctx, client, http.MethodGet, s.cluster.URL+path, nil, "")
	return attempt{began, time.Now(), a.Code}, err
}

// The answers of a token webhook hold for as long as core is configured, and not for as long once more: that is how long a
// token outlives its revocation. (In kube-apiserver there is a cache of 10 s around that of the webhook.)
func TestAnswersOfTheTokenWebhookHoldForTheirTTL(t *testing.T) {
	t.Parallel()
	if both.AgainstStock {
		t.Skip("kube-apiserver takes longer")
	}
	token := framework.UniqueName("webhook-token")
	client := tokenClient(t, tested, token)
	for _, path := range []string{configMapsPath, widgetsPath} {
		a, err := tested.try(t.Context(), client, path)
		require.NoError(t, err)
		if a.code != http.StatusUnauthorized {
			t.Errorf("a token that the webhook does not know gets %d at %s", a.code, path)
		}
	}
	// The webhook is not to be asked all the time about tokens that are no good.
	if calls := len(authorities.webhook.asked(token)); calls != 1 {
		t.Errorf("the webhook was asked %d times about a bad token", calls)
	}
	authorities.webhook.allow(token, authenticationv1.UserInfo{Username: "wilma"})
	tested.until(t, client, token, http.StatusOK, func(calls []webhookCall) bool { return len(calls) >= 4 })
	authorities.webhook.revoke(token)
	attempts := tested.until(t, client, token, http.StatusUnauthorized, func(calls []webhookCall) bool { return !calls[len(calls)-1].good })

	calls := authorities.webhook.asked(token)
	for i, call := range calls[1:] {
		// It may be asked more often than it has to, but not for every request.
		if gap := call.answered.Sub(calls[i].answered); gap < webhookTTL/4 {
			t.Errorf("the webhook was asked again after %s", gap)
		}
	}
	var stale time.Duration
	for _, a := range attempts {
		if a.code == http.StatusOK {
			stale = max(stale, a.began.Sub(calls[len(calls)-2].answered))
		}
	}
	t.Logf("the token was accepted for %s after the last good answer; there were %d questions", stale, len(calls))
	if stale > webhookTTL+webhookTTL/2 {
		t.Errorf("it was accepted for longer than %s", webhookTTL)
	}
}

// until reads as the owner of a token, of core and of extensions in turn, until what the webhook was asked is enough
// and both give a code. It returns the attempts.
func (s *side) until(t testing.TB, client *http.Client, token string, code int, enough func([]webhookCall) bool) []attempt {
	t.Helper()
	var attempts []attempt
	err := s.poll(t.Context(), fmt.Sprintf("answers are %d", code), func(ctx context.Context) error {
		var codes []int
		for _, path := range []string{configMapsPath, widgetsPath} {
			a, err := s.try(ctx, client, path)
			if err != nil {
				return err
			}
			attempts, codes = append(attempts, a), append(codes, a.code)
		}
		if calls := authorities.webhook.asked(token); !enough(calls) || !slices.Equal(codes, []int{code, code}) {
			return fmt.Errorf("answers %d, %d questions", codes, len(calls))
		}
		return nil
	})
	require.NoError(t, err)
	return attempts
}

// An issuer that is taken out of the configuration of core is out everywhere, as is a mapping that was changed.
// kube-apiserver, and so core, takes 10 s to look at new issuers before it takes them.
func TestChangesOfTheAuthenticationConfigurationAreInForceEverywhere(t *testing.T) {
	t.Parallel()
	token, err := authorities.passing.token(nil)
	require.NoError(t, err)
	for _, step := range []struct {
		name           string
		authenticators []apiserverv1.JWTAuthenticator
		want           string
	}{
		{"as it was", nil, "name before:jane; uid ; groups system:authenticated"},
		{"changed", append(authorities.lasting(), authorities.passing.withPrefix("after:")), "name after:jane; uid ; groups system:authenticated"},
		{"removed", authorities.lasting(), "401 Unauthorized"},
	} {
		began := time.Now()
		if step.authenticators != nil {
			require.NoError(t, writeConfiguration(authorities.configFile, step.authenticators...))
		}
		for path := range servers {
			err := tested.poll(t.Context(), step.name, func(ctx context.Context) error {
				who, err := tested.whoAt(ctx, withToken(tested.cluster, token), path)
				if err == nil && who != step.want {
					err = fmt.Errorf("%s says %s", path, who)
				}
				return err
			})
			require.NoError(t, err)
			t.Logf("%s after %s for %s", step.name, time.Since(began), path)
		}
	}
}
