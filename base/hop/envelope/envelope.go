// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package envelope encodes the sender of a request for the hop from the aggregator to a backend, as a tripod.identity.v1.Envelope in one
// header. X-Remote-* headers would lose the client's address, audit annotations, warnings, empty values, and the case of extra keys.
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

// Header carries the envelope. A backend accepts it from the aggregator only.
const Header = "Tripod-Envelope"

// RefusedHeader is in the answer of a backend that does not trust the aggregator: its certificate or its envelope is not good. The client
// can do nothing about that.
const RefusedHeader = "Tripod-Refused"

// ServedHeader is in the answer of a backend whose handlers were reached: no filter before them has rejected the request. Its value is the
// time in microseconds that the request has waited for webhooks and for a seat of priority and fairness.
const ServedHeader = "Tripod-Served"

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

// FromUser returns the user as a message. Both share the slices of groups and of extra values.
func FromUser(u user.Info) *identityv1.User {
	message := &identityv1.User{Name: u.GetName(), Uid: u.GetUID(), Groups: u.GetGroups()}
	for key, values := range u.GetExtra() {
		message.Extra = append(message.Extra, &identityv1.Extra{Key: key, Values: values})
	}
	return message
}

// ToUser returns the user of a message, or nil without one. Both share the slices of groups and of extra values.
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
				// JSON, and so admission policies, distinguish null from an empty list.
				values = []string{}
			}
			u.Extra[e.GetKey()] = values
		}
	}
	return u
}

// WatchesHeader is between the aggregator and its backends only (package watches).
const WatchesHeader = "Tripod-Watches"

// remotePrefix begins the headers that carry an identity to aggregated API servers.
const remotePrefix = "X-Remote-"

// Strip removes all headers that only the aggregator may send, whatever their case, and with "_" in place of "-": servers that turn headers
// into variables do not distinguish these.
func Strip(header http.Header) {
	for name := range header {
		if hasPrefix(name, remotePrefix) || is(name, Header) || is(name, WatchesHeader) {
			delete(header, name)
		}
	}
}

func is(name, header string) bool { return len(name) == len(header) && hasPrefix(name, header) }

// hasPrefix ignores case and treats "_" as "-".
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
