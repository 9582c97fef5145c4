// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package query

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Moment is a state of the database: the latest one, that of a time if it is not zero, or that of a revision.
type Moment struct {
	Latest   bool
	Time     time.Time
	Revision int64
}

// ParseMoment reads a revision, a time, how long ago, or "now".
func ParseMoment(text string) (*Moment, error) {
	if text == "now" {
		return &Moment{Latest: true}, nil
	}
	if revision, err := strconv.ParseInt(text, 10, 64); err == nil && revision >= 0 {
		return &Moment{Revision: revision}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago > 0 {
		return &Moment{Time: time.Now().Add(-ago)}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return &Moment{Time: t}, nil
		}
	}
	return nil, fmt.Errorf("%q is no moment: write a time such as 2006-01-02T15:04:05Z, how long ago, such as 10m, a revision such as 1234, "+
		"or now", text)
}

// Position is where a page of a list ends. All pages of a list are of one revision. A position names the last object by its ID in the
// database, so it reveals nothing of other objects.
type Position struct {
	Revision int64 `json:"revision"`
	// DiffersFrom is the revision of Query.DiffersFrom, if there is one.
	DiffersFrom *int64 `json:"differsFrom,omitempty"`
	// After is the ID of the last object of the page.
	After int64 `json:"after"`
	// Remaining is how many objects follow, if that was counted.
	Remaining *int64 `json:"remaining,omitempty"`
	// Rights stand for what the reader of the page could see. Zero is everything.
	Rights uint64 `json:"rights,omitempty"`
}

// String returns a token for clients.
func (p *Position) String() string {
	text, _ := json.Marshal(p) // numbers can be marshalled
	return base64.RawURLEncoding.EncodeToString(text)
}

// ParsePosition reads what String has written.
func ParsePosition(token string) (*Position, error) {
	var p Position
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || json.Unmarshal(text, &p) != nil || p.Revision <= 0 || p.After <= 0 || p.Remaining != nil && *p.Remaining < 0 ||
		p.DiffersFrom != nil && *p.DiffersFrom < 0 {
		return nil, errors.New("is neither a token of an earlier page nor a number of objects to leave out")
	}
	return &p, nil
}
