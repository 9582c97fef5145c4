// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package envelope

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/testing/protocmp"

	"k8s.io/apiserver/pkg/authentication/user"

	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

var complete = &identityv1.Envelope{
	User: FromUser(&user.DefaultInfo{
		Name: "system:serviceaccount:shop:cart", UID: "3f1c", Groups: []string{"system:serviceaccounts", "", "système:ünïcode", "a,b"},
		Extra: map[string][]string{
			"authentication.kubernetes.io/credential-id": {"JTI=1"},
			"Acme.com/Scopes": {"", "a b", "%"}, "acme.com/scopes": {"lower"}, "empty": {},
		},
	}),
	ClientAddress:    "[2001:db8::1]:4711",
	AuditAnnotations: map[string]string{"authentication.k8s.io/legacy-token": "system:serviceaccount:shop:cart"},
	Warnings:         []*identityv1.Warning{{Agent: "", Text: "old \"token\"\n"}, {Agent: "a", Text: "b"}},
}

func TestEnvelopeIsLossless(t *testing.T) {
	for name, e := range map[string]*identityv1.Envelope{
		"everything": complete,
		"anonymous":  {User: FromUser(&user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}})},
		"no name":    {User: &identityv1.User{}},
		"itself":     {Self: true},
		"a service":  {Service: "system:tripod:core", ClientAddress: "192.0.2.1:99"},
	} {
		t.Run(name, func(t *testing.T) {
			value, err := Encode(e)
			require.NoError(t, err)
			got, err := Decode(value)
			require.NoError(t, err)
			assert.Empty(t, cmp.Diff(e, got, protocmp.Transform()), "what arrives")
		})
	}
}

func TestUserIsKept(t *testing.T) {
	want := &user.DefaultInfo{
		Name: "latin \xfc", UID: "\xff", Groups: []string{"b", "a", " \x00 "},
		Extra: map[string][]string{"Key": {"", "v"}, "key": {"w"}, "none": {}},
	}
	sent, err := Encode(&identityv1.Envelope{User: FromUser(want)})
	require.NoError(t, err)
	received, err := Decode(sent)
	require.NoError(t, err)
	if got := ToUser(received.GetUser()); !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v, want %#v", got, want)
	}
	if got := ToUser(nil); got != nil {
		t.Errorf("no user becomes %#v", got)
	}
}

func TestThereIsOneSender(t *testing.T) {
	for name, e := range map[string]*identityv1.Envelope{
		"nothing": nil, "no user": {ClientAddress: "1.2.3.4:5"}, "two": {User: &identityv1.User{Name: "a"}, Self: true},
		"a user and a service": {User: &identityv1.User{Name: "a"}, Service: "b"}, "itself and a service": {Self: true, Service: "b"},
	} {
		if _, err := Encode(e); err == nil {
			t.Errorf("%s is encoded", name)
		}
	}
}

func TestGarbageIsNobody(t *testing.T) {
	noUser := encoding.EncodeToString([]byte{0x12, 1, 'a'})
	two := encoding.EncodeToString([]byte{0x0a, 0, 0x28, 1})
	for _, value := range []string{"", "!", "AA", "Cg", "CgE=", noUser, two, strings.Repeat("A", 1<<16)} {
		if e, err := Decode(value); err == nil {
			t.Errorf("%.20q is decoded to %v", value, e)
		}
	}
}

// TestAServiceOfAnotherReleaseFailsClosed decodes what a later version may send: fields that this one does not know.
func TestAServiceOfAnotherReleaseFailsClosed(t *testing.T) {
	later := []byte{0x7a, 1, 'a'} // field 15
	_, err := Decode(encoding.EncodeToString(later))
	require.ErrorIs(t, err, errNobody, "a sender of a kind that this version does not know")
	user := []byte{0x0a, 6, 0x0a, 4, 'j', 'a', 'n', 'e'}
	e, err := Decode(encoding.EncodeToString(append(user, later...)))
	require.NoError(t, err)
	assert.Equal(t, "jane", e.GetUser().GetName())
	assert.Nil(t, e.GetDecision())
}

func TestStrip(t *testing.T) {
	header := http.Header{
		"Tripod-Envelope": {"a"}, "tripod-envelope": {"a"}, "Tripod_envelope": {"a"}, "TRIPOD-ENVELOPE": {"a"},
		"Tripod-Watches": {"a"}, "tripod_watches": {"a"},
		"X-Remote-User": {"a"}, "X_remote_user": {"a"}, "x-Remote_Group": {"a"}, "X-Remote-Extra-A_b": {"a"}, "X-Remote-": {"a"},
		"X-Remote": {"kept"}, "X-Remotes-User": {"kept"}, "Tripod-Envelopes": {"kept"}, "Impersonate-User": {"kept"}, "X": {"kept"},
	}
	Strip(header)
	for name, values := range header {
		assert.Equal(t, "kept", values[0], "%s is left", name)
	}
	assert.Len(t, header, 5, "the rest of the header")
}

// FuzzDecode looks for values that are taken for an identity but do not mean exactly one.
func FuzzDecode(f *testing.F) {
	value, err := Encode(complete)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(value)
	f.Add("CgA")
	f.Fuzz(func(t *testing.T, value string) {
		e, err := Decode(value)
		if err != nil {
			return
		}
		again, err := Encode(e)
		require.NoError(t, err, "decoded, but cannot be encoded")
		second, err := Decode(again)
		require.NoError(t, err)
		assert.Empty(t, cmp.Diff(e, second, protocmp.Transform()), "two meanings")
	})
}

// FuzzUser looks for users that arrive as other users.
func FuzzUser(f *testing.F) {
	f.Add("jane", "1", "group", "key", "value", "10.0.0.1:1")
	f.Add("", "", "", "", "", "")
	f.Add("a\x00b", "\n", "system:masters", "%2f", "\xff", "::")
	f.Fuzz(func(t *testing.T, name, uid, group, key, value, address string) {
		want := &user.DefaultInfo{Name: name, UID: uid, Groups: []string{group, ""}, Extra: map[string][]string{key: {value, ""}}}
		sent, err := Encode(&identityv1.Envelope{User: FromUser(want), ClientAddress: address})
		require.NoError(t, err)
		e, err := Decode(sent)
		require.NoError(t, err)
		if got := ToUser(e.GetUser()); !reflect.DeepEqual(got, want) || e.GetClientAddress() != address {
			t.Errorf("got %#v at %q, want %#v at %q", got, e.GetClientAddress(), want, address)
		}
	})
}

var typical = &identityv1.Envelope{
	User: FromUser(&user.DefaultInfo{
		Name: "system:serviceaccount:kube-system:deployment-controller", UID: "0b0f6c1e-8f5a-4b36-a2a6-0c4d3b3f9d11",
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"},
		Extra:  map[string][]string{"authentication.kubernetes.io/credential-id": {"JTI=0b0f6c1e-8f5a-4b36-a2a6-0c4d3b3f9d11"}},
	}),
	ClientAddress: "10.1.2.3:45678",
}

func BenchmarkEncode(b *testing.B) {
	for b.Loop() {
		if _, err := Encode(typical); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	value, err := Encode(typical)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		e, err := Decode(value)
		if err != nil || ToUser(e.GetUser()) == nil {
			b.Fatal(err)
		}
	}
}
