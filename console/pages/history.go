// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"

	"github.com/tripod-k8s/tripod/console/searchclient"
	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
)

const (
	// maxChanges is how many changes of an object are shown.
	maxChanges = 10
	// maxDiff bounds the texts that are compared, because the comparison takes memory by their lines.
	maxDiff = 128 << 10
	// longAgo is before the history of each search.
	longAgo = "876000h"
)

// history are the changes of an object that search remembers, the latest first.
type history struct {
	// Since is where the history begins.
	Since   string
	Changes []objectChange
	// More is whether earlier ones are left out.
	More bool
}

// objectChange is one change.
type objectChange struct {
	Time, Revision string
	// Created is whether the object did not exist before.
	Created bool
	Lines   []diffLine
	// Then leads to the object as it was after the change.
	Then string
}

// diffLine is a line of a diff. Mark is +, -, @ or a blank.
type diffLine struct{ Mark, Text string }

// Class is the style of a line. The mark says the same.
func (l diffLine) Class() string {
	return map[string]string{"+": "added", "-": "removed", "@": "place"}[l.Mark]
}

// began reads where the history begins from the error about a moment before.
var began = regexp.MustCompile(`the history begins at (\S+), with resourceVersion (\d+)`)

// history goes back from change to change, beginning with a moment. Each state has the time of the change before it.
func (c *console) history(ctx context.Context, id identity, at string) (h history, err error) {
	from, since, err := c.beginning(ctx, id)
	if err != nil || from == "" {
		return h, err
	}
	h.Since = since
	var later *objectChange
	var after *loaded
	for {
		state, err := c.changedState(ctx, id, at, from)
		if err != nil {
			return h, err
		}
		before := state
		if before == nil { // the state with which the history begins, or none
			if before, err = c.existing(ctx, id, at); err != nil {
				return h, err
			}
		}
		if later != nil {
			later.Created = before == nil
			later.Lines = diffOf(before, after)
			h.Changes = append(h.Changes, *later)
		}
		if state == nil {
			// Before there was none, there may have been another one of this name.
			h.More = before == nil && h.Changes != nil
			return h, nil
		}
		if len(h.Changes) == maxChanges {
			h.More = true
			return h, nil
		}
		revision, err := strconv.ParseInt(state.GetResourceVersion(), 10, 64)
		if err != nil || revision < 1 {
			return h, errors.New("search answers with an object without a revision")
		}
		then := id.values()
		then.Set("at", state.GetResourceVersion())
		later = &objectChange{
			Time: changeTime(state.GetAnnotations()[v1beta1.ChangedAtAnnotation]), Revision: state.GetResourceVersion(),
			Then: "object?" + then.Encode(),
		}
		after, at = state, strconv.FormatInt(revision-1, 10)
	}
}

// existing returns the object at a moment, or nil if there was none.
func (c *console) existing(ctx context.Context, id identity, at string) (*loaded, error) {
	there, err := c.get(ctx, id, at)
	if missing := (*searchclient.Error)(nil); errors.As(err, &missing) && missing.Code == http.StatusNotFound {
		return nil, nil
	}
	return there, err
}

func changeTime(text string) string {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return "at an unknown time"
	}
	return at.UTC().Format("2006-01-02 15:04:05 UTC")
}

// beginning returns the first revision of the history and its time, or nothing if search has no history.
func (c *console) beginning(ctx context.Context, id identity) (revision, since string, err error) {
	_, err = c.changedState(ctx, id, "now", longAgo)
	answered := (*searchclient.Error)(nil)
	if !errors.As(err, &answered) || answered.Code != http.StatusGone {
		return "", "", err
	}
	found := began.FindStringSubmatch(answered.Message)
	if found == nil {
		return "", "", err
	}
	return found[2], changeTime(found[1]), nil
}

// changedState returns the object at a moment if it is another one than at the begin of the history.
func (c *console) changedState(ctx context.Context, id identity, at, from string) (*loaded, error) {
	values := url.Values{"names": {id.Name}, "at": {at}, "differsFrom": {from}, "limit": {"1"}}
	answer, err := c.hub.Get(ctx, id.list(), values, "application/json")
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(answer.Body, &list); err != nil {
		return nil, errors.New("search answers with something else than objects")
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	state, err := decode(list.Items[0])
	if err == nil && state.GetName() != id.Name { // search takes a comma for the end of a name
		return nil, fmt.Errorf("the history of %q cannot be asked for", id.Name)
	}
	return state, err
}

// diffOf returns the lines that differ, with some around them.
func diffOf(before, after *loaded) (lines []diffLine) {
	a, large := before.comparable()
	b, larger := after.comparable()
	if large || larger {
		return []diffLine{{" ", "The object is too large to be compared here."}}
	}
	text := udiff.Unified("before", "after", a, b)
	if text == "" {
		return []diffLine{{" ", "Only fields that count changes have changed."}}
	}
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if i < 2 || line == "" { // the names of the files
			continue
		}
		lines = append(lines, diffLine{line[:1], line[1:]})
	}
	return lines
}
