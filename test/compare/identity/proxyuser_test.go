// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
)

// The headers of an authenticating proxy about a user, and impersonation by a user, reach every server as they reach
// kube-apiserver, byte by byte.
func TestUsersInHeadersAreThoseOfKubeAPIServer(t *testing.T) {
	t.Parallel()
	for _, lines := range [][]string{
		{"X-Remote-User: guest"},
		{"X-Remote-User: guest", "X-Remote-Uid: uid 1", "X-Remote-Group: b", "X-Remote-Group: a", "X-Remote-Group: b", "X-Remote-Group:", "X-Remote-Group:  c, d "},
		{"x-remote-user: guest", "X-REMOTE-GROUP: visitors", "x-Remote-uiD: U"},
		{"X-Remote-User: one", "X-Remote-User: two"},
		{"X-Remote-User:", "X-Remote-User: two"},
		{"X-Remote-User:"},
		{"X-Remote-User: guest", "X-Remote-Extra-Example.com%2fDoor: back", "X-Remote-Extra-Example.com%2fDoor: front", "X-Remote-Extra-Empty:"},
		{"X-Remote-User: guest", "X-Remote-Extra-: nameless", "X-Remote-Extra-%zz: not escaped", "X-Remote-Extra-%c3%b6: ö", "X-Remote-Extra-a%00b: zero"},
		{"X-Remote-User: ünïcödé", "X-Remote-Group: 群"},
		{"X-Remote-User: latin \xfc", "X-Remote-Group: \xe9", "X-Remote-Uid: \xff"},
		{"X-Remote-User: guest", "X-Remote-Extra-Scope: \xfc"},
		{"X-Remote-User: guest", "X-Remote-Extra-%fc: x"},
		{"X-Remote-User: system:anonymous"},
		{"X-Remote-User: system:anonymous", "X-Remote-Group: system:unauthenticated"},
		{"X-Remote-User: guest", "X-Remote-Group: system:unauthenticated"},
		{"X-Remote-User: guest", "X-Remote-Group: system:authenticated", "X-Remote-Group: system:authenticated"},
		{"X-Remote-User: system:tripod:aggregator", "X-Remote-Group: system:authenticated"},
		{"X-Remote-User: system:tripod:extensions"},
		{"X-Remote-User: director", "X-Remote-Group: system:masters", "Impersonate-User: actor \xfc", "Impersonate-Group: stage", "Impersonate-Uid: u"},
		{"X-Remote-User: director", "X-Remote-Group: system:masters", "Impersonate-User: actor", "Impersonate-Extra-Mixed%2fCase: One", "impersonate-extra-mixed%2fcase: two"},
		{"X-Remote-User: director", "X-Remote-Group: system:masters", "impersonate-user: actor", "IMPERSONATE-GROUP: stage", "Impersonate_Group: crew"},
		{"X-Remote-User: director", "X-Remote-Group: system:masters", "Impersonate-User: system:serviceaccount:test:robot"},
		{"X-Remote-User: director", "X-Remote-Group: system:masters", "Impersonate-User: system:anonymous"},
		{"X-Remote-User: director", "Impersonate-User: actor"},
		{"X-Remote-User: director", "X-Remote-Group: system:masters", "Impersonate-Group: stage"},
	} {
		for path, body := range servers {
			t.Run(fmt.Sprintf("%q to %s", lines, path), func(t *testing.T) {
				t.Parallel()
				same(t, "the answer", func(_ context.Context, s *side) (string, error) {
					proxy := s.cluster.Anonymous()
					proxy.CertFile, proxy.KeyFile = filepath.Join(s.cluster.PKI, "front-proxy-client.crt"), filepath.Join(s.cluster.PKI, "front-proxy-client.key")
					a := roundTrip(t, proxy, http.MethodPost, path, lines, body)
					return fmt.Sprintf("%d %q %s", a.Code, a.Header.Values("Warning"), withoutOrder(a.Body)), nil
				})
			})
		}
	}
}
