// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestErrorsOfAMemberAreShort(t *testing.T) {
	for _, test := range []struct{ body, want string }{
		{`{"kind":"Status","apiVersion":"v1","reason":"NotFound","message":"no such <thing>","details":{"causes":[{}` + strings.Repeat(",{}", 20_000) + `]}}`, "no such <thing>"},
		{`{"kind":"Status","reason":"NotFound","message":"` + strings.Repeat("é", 20_000) + `"}`, strings.Repeat("é", 256)},
	} {
		resp := &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(test.body))}
		shorten(resp)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Less(t, len(text), failureText)
		var status metav1.Status
		require.NoError(t, json.Unmarshal(text, &status))
		assert.Equal(t, metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: 404, Reason: metav1.StatusReasonNotFound, Message: test.want,
		}, status)
	}
	for _, other := range []string{"404 page not found", strings.Repeat("x", 100_000), `{"kind":"Status","message":7}`} {
		resp := &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(other))}
		shorten(resp)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, other[:min(len(other), failureText)], string(text))
	}
}
