// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
)

// settleTimeout is for what takes effect late: a kind that is new is found after half a minute (the RESTMapper of admission).
const settleTimeout = 90 * time.Second

// requestTimeout ends a request that is never answered.
const requestTimeout = 70 * time.Second

// step is a request that both get. In path and body "{ns}" stands for the namespace of the test, and "{hook}" and "{ca}" for
// where webhooks are.
type step struct {
	user, method, path, contentType, body string
	// want is the status of the answer, and texts are parts of it.
	want  int
	texts []string
	// settles has the request repeated until the answer is as expected.
	settles bool
}

func (s step) String() string { return strings.TrimSpace(s.method + " " + s.path + " " + s.user) }

// The requests. Bodies are YAML.

func post(path, body string) step {
	return step{method: http.MethodPost, path: path, body: body, contentType: "application/yaml", want: http.StatusCreated}
}

func put(path, body string) step {
	return step{method: http.MethodPut, path: path, body: body, contentType: "application/yaml", want: http.StatusOK}
}

func patch(path, body string) step {
	return step{method: http.MethodPatch, path: path, body: body, contentType: "application/merge-patch+json", want: http.StatusOK}
}

// apply is a server-side apply.
func apply(path, body string) step {
	return step{method: http.MethodPatch, path: path + "?fieldManager=test&force=true", body: body, contentType: "application/apply-patch+yaml", want: http.StatusOK}
}

func del(path string) step { return step{method: http.MethodDelete, path: path, want: http.StatusOK} }
func get(path string) step { return step{method: http.MethodGet, path: path, want: http.StatusOK} }

func (s step) as(user string) step { s.user = user; return s }

// refused expects status 403 or another one, and a text in the message.
func (s step) refused(status int, text string) step {
	s.want, s.texts = status, []string{text}
	return s
}

// containing expects texts in the answer.
func (s step) containing(texts ...string) step { s.texts = texts; return s }

// settle makes steps that are repeated until they are answered as expected.
func settle(steps ...step) []step {
	for i := range steps {
		steps[i].settles = true
	}
	return steps
}

// answer is what a side answered, without what differs between any two.
type answer struct {
	Status   int
	Warnings []string
	Body     any
}

// side is one of the two.
type side struct {
	*both.Side
	name string
	// process is nil where there are several.
	process *framework.Stock
}

func newSide(name string, cluster *framework.Cluster, process *framework.Stock) *side {
	known := map[string]both.User{"": both.Admin}
	for _, user := range users {
		known[user] = both.Certificate(user, groupsOf(user)...)
	}
	return &side{name: name, process: process, Side: both.NewSide(cluster, known)}
}

// users send requests, besides the administrator.
var users = []string{"announcer", "deleter", "insider", "no-node", "painter", "policies-writer", "registrar", "writer", nodeOne, nodeTwo}

// nodePrefix begins the names of users that are nodes.
const nodePrefix = "system:node:"

func groupsOf(user string) []string {
	if strings.HasPrefix(user, nodePrefix) {
		return []string{"system:nodes"}
	}
	return nil
}

// do sends a request once.
func (s *side) do(ctx context.Context, r step) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body := []byte(r.body)
	if strings.HasPrefix(r.contentType, "application/merge-patch") {
		var err error
		if body, err = yaml.YAMLToJSON(body); err != nil {
			return nil, err
		}
	}
	response, err := s.Send(ctx, both.Request{User: r.user, Method: r.method, Path: r.path, Body: body, Header: http.Header{
		"Content-Type": {r.contentType}, "Accept": {"application/json"},
	}})
	if err != nil {
		return nil, err
	}
	a := &answer{Status: response.Code, Body: normaliser.Text(string(response.Body))}
	for _, warning := range response.Header.Values("Warning") {
		a.Warnings = append(a.Warnings, normaliser.Text(warning))
	}
	slices.Sort(a.Warnings)
	var object any
	if err := json.Unmarshal(response.Body, &object); err == nil {
		a.Body = normaliser.Value(object)
	}
	return a, nil
}

// take takes a step, as often as needed where it settles something, and returns the last answer with what is wrong with it.
func (s *side) take(ctx context.Context, r step) (*answer, error) {
	if !r.settles {
		a, err := s.do(ctx, r)
		if err != nil {
			return nil, err
		}
		return a, r.check(a)
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	var last *answer
	err := framework.Poll(ctx, "it is in force", func(ctx context.Context) error {
		a, err := s.do(ctx, r)
		if err != nil {
			return err
		}
		last = a
		return r.check(a)
	})
	return last, err
}

// mustTake takes steps that no other goroutine takes.
func (s *side) mustTake(t *testing.T, namespace string, steps []step) {
	t.Helper()
	for _, r := range steps {
		if _, err := s.take(t.Context(), r.in(namespace)); err != nil {
			t.Fatalf("%s: %v", r, err)
		}
	}
}

// in returns the step for a namespace.
func (s step) in(namespace string) step {
	for _, text := range []*string{&s.path, &s.body} {
		*text = strings.ReplaceAll(*text, "{ns}", namespace)
	}
	return s
}

func (s step) check(a *answer) error {
	text := both.InWords(a.Body) + strings.Join(a.Warnings, " ")
	if a.Status != s.want || slices.ContainsFunc(s.texts, func(part string) bool { return !strings.Contains(text, part) }) {
		return fmt.Errorf("answer is %d %s %q, want %d %q", a.Status, both.InWords(a.Body), a.Warnings, s.want, s.texts)
	}
	return nil
}

// run takes the steps on both sides at the same time, in a namespace of that name, and compares the answers and what webhooks
// were asked.
func (p *pair) run(t *testing.T, namespace string, steps ...[]step) {
	t.Helper()
	all := slices.Concat(append([][]step{{post("/api/v1/namespaces", `{apiVersion: v1, kind: Namespace, metadata: {name: "{ns}", labels: {team: "{ns}"}}}`)}}, steps...)...)
	p.take(t, namespace, all)
	for _, difference := range differences(hooks.asked(p[0].name, namespace), hooks.asked(p[1].name, namespace)) {
		t.Errorf("webhooks are asked differently: %s", difference)
	}
}

// take takes steps on both sides and compares the answers.
func (p *pair) take(t *testing.T, namespace string, steps []step) {
	t.Helper()
	var answers [2][]*answer
	err := both.Each(t.Context(), *p, func(ctx context.Context, s *side) error {
		var given []*answer
		for _, r := range steps {
			r.body = hooks.fillFor(s.name, r.body)
			a, err := s.take(ctx, r.in(namespace))
			assert.NoError(t, err, "%s: %s", s.name, r)
			given = append(given, a)
		}
		answers[slices.Index(p[:], s)] = given
		return nil
	})
	require.NoError(t, err)
	for i, r := range steps {
		if stock, tripod := both.InWords(answers[0][i]), both.InWords(answers[1][i]); stock != tripod {
			t.Errorf("%s is answered differently\n stock:  %s\n tripod: %s", r, stock, tripod)
		}
	}
}

// differences are the elements that only one of two sorted lists has.
func differences(stock, tripod []string) []string {
	var found []string
	for _, element := range stock {
		if !slices.Contains(tripod, element) {
			found = append(found, "only by stock:  "+element)
		}
	}
	for _, element := range tripod {
		if !slices.Contains(stock, element) {
			found = append(found, "only by tripod: "+element)
		}
	}
	return found
}
