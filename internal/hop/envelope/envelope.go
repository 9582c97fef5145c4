// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package envelope encodes who sent a request for the way from the aggregator to a backend: a tripod.identity.v1.Envelope in
// one header. X-Remote-* headers would lose the client's address, what authentication has for the audit event and the client,
// empty values, and keys that differ in case.
package envelope

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/protobuf/proto"

	"k8s.io/apiserver/pkg/authentication/user"

	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// Header carries the envelope. A backend believes it only of the aggregator.
const Header = "Tripod-Envelope"

// encoding of the message in the header.
var encoding = base64.RawURLEncoding

// Encode returns the value of the header.
func Encode(e *identityv1.Envelope) (string, error) {
	if err := check(e); err != nil {
		return "", err
	}
	message, err := proto.Marshal(e)
	if err != nil {
		return "", fmt.Errorf("encode identity: %w", err)
	}
	return encoding.EncodeToString(message), nil
}

var (
	errNobody = errors.New("the envelope names no sender")
	errTwo    = errors.New("the envelope names more than one sender")
)

// check returns an error unless there is exactly one sender.
func check(e *identityv1.Envelope) error {
	senders := 0
	for _, names := range []bool{e.GetUser() != nil, e.GetSelf(), e.GetService() != ""} {
		if names {
			senders++
		}
	}
	switch senders {
	case 0:
		return errNobody
	case 1:
		return nil
	}
	return errTwo
}

// Decode returns what Encode was given.
func Decode(value string) (*identityv1.Envelope, error) {
	message, err := encoding.Strict().DecodeString(value)
	if err != nil {
		return nil, fmt.Errorf("decode identity: %w", err)
	}
	e := &identityv1.Envelope{}
	if err := proto.Unmarshal(message, e); err != nil {
		return nil, fmt.Errorf("decode identity: %w", err)
	}
	if err := check(e); err != nil {
		return nil, err
	}
	return e, nil
}

// FromUser returns the user as a message. They share their groups and the values of their extra.
func FromUser(u user.Info) *identityv1.User {
	message := &identityv1.User{Name: u.GetName(), Uid: u.GetUID(), Groups: u.GetGroups()}
	for key, values := range u.GetExtra() {
		message.Extra = append(message.Extra, &identityv1.Extra{Key: key, Values: values})
	}
	return message
}

// ToUser returns the user of a message, or nil if there is none. They share their groups and the values of their extra.
func ToUser(message *identityv1.User) user.Info {
	if message == nil {
		return nil
	}
	u := &user.DefaultInfo{Name: message.GetName(), UID: message.GetUid(), Groups: message.GetGroups()}
	if extra := message.GetExtra(); len(extra) > 0 {
		u.Extra = make(map[string][]string, len(extra))
		for _, e := range extra {
			values := e.GetValues()
			if values == nil {
				// In JSON, and so for policies, no list is not the same as an empty one.
				values = []string{}
			}
			u.Extra[e.GetKey()] = values
		}
	}
	return u
}

// remotePrefix begins the headers that carry an identity to API servers of third parties.
const remotePrefix = "X-Remote-"

// Strip removes every header by which somebody could be taken for somebody else, in every spelling: servers that turn
// headers into variables take "_" for "-".
func Strip(header http.Header) {
	for name := range header {
		if hasPrefix(name, remotePrefix) || (len(name) == len(Header) && hasPrefix(name, Header)) {
			delete(header, name)
		}
	}
}

// hasPrefix ignores case and takes "_" for "-".
func hasPrefix(name, prefix string) bool {
	if len(name) < len(prefix) {
		return false
	}
	start := name[:len(prefix)]
	if strings.Contains(start, "_") {
		start = strings.ReplaceAll(start, "_", "-")
	}
	return strings.EqualFold(start, prefix)
}
