// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"
)

// webhookTTL is how long the API servers may cache an answer of the token webhook.
const webhookTTL = 2 * time.Second

// tokenWebhook judges tokens from outside of the cluster.
type tokenWebhook struct {
	server *httptest.Server

	mu    sync.Mutex
	users map[string]authenticationv1.UserInfo
	calls map[string][]webhookCall
}

// webhookCall is one question that was answered.
type webhookCall struct {
	answered time.Time
	good     bool
}

func newTokenWebhook() *tokenWebhook {
	h := &tokenWebhook{users: map[string]authenticationv1.UserInfo{}, calls: map[string][]webhookCall{}}
	h.server = httptest.NewTLSServer(http.HandlerFunc(h.review))
	return h
}

func (h *tokenWebhook) review(w http.ResponseWriter, r *http.Request) {
	var review authenticationv1.TokenReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if review.Spec.Token == brokenWebhookToken {
		http.Error(w, "broken", http.StatusInternalServerError)
		return
	}
	review.Status = h.judge(review.Spec.Token)
	writeJSON(w, review)
}

// brokenWebhookToken is a token over which the webhook fails.
const brokenWebhookToken = "the webhook fails"

func (h *tokenWebhook) judge(token string) authenticationv1.TokenReviewStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	user, good := h.users[token]
	h.calls[token] = append(h.calls[token], webhookCall{answered: time.Now(), good: good})
	return authenticationv1.TokenReviewStatus{Authenticated: good, User: user}
}

// allow makes a token that of a user.
func (h *tokenWebhook) allow(token string, user authenticationv1.UserInfo) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.users[token] = user
}

// revoke makes a token invalid.
func (h *tokenWebhook) revoke(token string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.users, token)
}

// asked returns what was asked about a token so far.
func (h *tokenWebhook) asked(token string) []webhookCall {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]webhookCall(nil), h.calls[token]...)
}

// kubeconfig is the file by which an API server finds the webhook.
func (h *tokenWebhook) kubeconfig() ([]byte, error) {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.server.Certificate().Raw})
	config, err := yaml.Marshal(clientcmdv1.Config{
		APIVersion: "v1", Kind: "Config", CurrentContext: "webhook",
		Clusters: []clientcmdv1.NamedCluster{{Name: "webhook", Cluster: clientcmdv1.Cluster{Server: h.server.URL, CertificateAuthorityData: ca}}},
		Contexts: []clientcmdv1.NamedContext{{Name: "webhook", Context: clientcmdv1.Context{Cluster: "webhook"}}},
	})
	if err != nil {
		return nil, fmt.Errorf("cannot write the kubeconfig of the webhook: %w", err)
	}
	return config, nil
}
