// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxAccountToken bounds a token that a member makes. API servers read no headers of more than 1 MiB, and few proxies more than 16 KiB.
const maxAccountToken = 16 << 10

// RequestToken has the member make a new token for a service account. The member decides how long the token is good for.
func (m *Member) RequestToken(ctx context.Context, namespace, account string, lifetime time.Duration) (string, error) {
	seconds := int64(lifetime / time.Second)
	body, err := json.Marshal(&authenticationv1.TokenRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: authenticationv1.SchemeGroupVersion.String(), Kind: "TokenRequest"},
		Spec:     authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	})
	if err != nil {
		return "", err
	}
	if err := m.limiter.admit(ctx); err != nil {
		return "", err
	}
	request := m.client.Post().AbsPath("api/v1/namespaces", namespace, "serviceaccounts", account, "token").
		SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Body(body)
	send := func(ctx context.Context) ([]byte, error) {
		result := request.Do(ctx)
		if err := result.Error(); err != nil { // it says what the cluster forbids, and that of Raw does not
			return nil, err
		}
		return result.Raw()
	}
	token := ""
	err = m.document(ctx, send, func(document []byte) error {
		var made struct {
			Status struct {
				Token string `json:"token"`
			} `json:"status"`
		}
		if len(document) > 4*maxAccountToken || json.Unmarshal(document, &made) != nil {
			return errors.New("the API server answers with something else than a token")
		}
		if token = made.Status.Token; token == "" || len(token) > maxAccountToken {
			return fmt.Errorf("the API server answers with a token of %d bytes", len(token))
		}
		return nil
	})
	return token, err
}
