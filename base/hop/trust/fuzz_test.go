// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"net/http"
	"net/textproto"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"k8s.io/apiserver/pkg/authentication/authenticator"

	"github.com/tripod-k8s/tripod/base/hop/envelope"
	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// FuzzSender identifies the sender of requests with any headers and any certificate. Only the aggregator may name another sender, and handlers must
// not see an envelope.
func FuzzSender(f *testing.F) {
	user, err := envelope.Encode(&identityv1.Envelope{User: &identityv1.User{Name: "admin"}, ClientAddress: "192.0.2.1:1"})
	if err != nil {
		f.Fatal(err)
	}
	services := []string{Core, Extensions, Aggregator}
	names := append([]string{"", "somebody"}, services...)
	for certificate := range names {
		f.Add(uint8(certificate), envelope.Header, user, "X-Remote-User", "root")
		f.Add(uint8(certificate), "tripod_envelope", user, envelope.Header, "")
		f.Add(uint8(certificate), "tripod-envelope", ownEnvelope, "TRIPOD-ENVELOPE", user)
	}
	f.Fuzz(func(t *testing.T, certificate uint8, name1, value1, name2, value2 string) {
		name := names[int(certificate)%len(names)]
		known := &senders{certificates: authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
			if !slices.Contains(services, name) {
				return nil, false, nil
			}
			return &authenticator.Response{User: newService(name, nil)}, true, nil
		})}
		req := &http.Request{Header: http.Header{}}
		req.Header.Add(name1, value1) // in the form in which net/http stores it
		req.Header.Add(name2, value2)
		enclosed := req.Header[textproto.CanonicalMIMEHeaderKey(envelope.Header)]
		from := known.of(req)
		require.NotContains(t, req.Header, envelope.Header)
		if from.refused != nil {
			require.True(t, from.envelope == nil && from.service == nil)
			return
		}
		switch {
		case from.envelope != nil:
			require.Equal(t, Aggregator, name)
			require.Len(t, enclosed, 1)
			require.Empty(t, from.envelope.GetService())
			require.False(t, from.envelope.GetSelf())
		case from.service != nil:
			require.True(t, slices.Contains(services, name), "a certificate of nobody speaks for %s", from.service.User.GetName())
			require.True(t, name == Aggregator || name == from.service.User.GetName())
		default:
			require.False(t, slices.Contains(services, name))
			require.Empty(t, enclosed)
		}
	})
}
