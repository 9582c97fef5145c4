// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tripod-k8s/tripod/admin/explain"
	"github.com/tripod-k8s/tripod/console/live"
	"github.com/tripod-k8s/tripod/services/list"
)

// maxUser bounds the name of a user and of the groups.
const maxUser = 1 << 10

var errLongUser = errors.New("the names of the user and the groups are too long")

// explainPage is the model of what would become of a request.
type explainPage struct {
	layout
	Verbs                                 []string
	Verb, Target, Namespace, User, Groups string
	// Found is nil while nothing was asked for.
	Found *explain.Explanation
	// Asker is whose request it is.
	Asker string
	// Candidates are the replicas that may serve it, and Others the rest, as far as the console knows the instance.
	Candidates, Others []shownReplica
	// Sharded is whether the requests of a resource go to one replica.
	Sharded bool
	// Seen is whether the console knows replicas, and View the aggregator whose view they are, if it is one.
	Seen bool
	View string
}

// explain says which service would serve a request, and whether a user may send it. The request is not sent.
func (c *console) explain(req *http.Request) (model, error) {
	values := req.URL.Query()
	text := func(name string) string { return strings.TrimSpace(values.Get(name)) }
	page := &explainPage{
		layout: layout{Title: "Explain a request"}, Verbs: explain.Verbs, Verb: text("verb"), Target: text("target"),
		Namespace: text("namespace"), User: text("user"), Groups: text("groups"),
	}
	if page.Target == "" {
		return page, nil
	}
	user := explain.User{Name: page.User, Groups: strings.FieldsFunc(page.Groups, func(r rune) bool { return r == ',' || r == ' ' })}
	if len(page.User)+len(page.Groups) > maxUser {
		return nil, badRequest{errLongUser}
	}
	client, err := c.hub.Kubernetes()
	if err != nil {
		return nil, err
	}
	action := explain.Action{Verb: page.Verb, Target: page.Target, Namespace: page.Namespace}
	page.Found, err = explain.Explain(req.Context(), client, action, user)
	if errors.As(err, &explain.BadAction{}) {
		return nil, badRequest{err}
	}
	if err != nil {
		return nil, err
	}
	page.Title = page.Found.Request + " - Explained"
	page.Asker = "you"
	if !user.Caller() {
		names := slices.DeleteFunc(append([]string{user.Name}, user.Groups...), func(name string) bool { return name == "" })
		page.Asker = strings.Join(names, ", ")
	}
	if !page.Found.Known || !c.instance && page.Found.Service == list.Aggregator {
		return page, nil
	}
	picture, err := c.pictures.Next(req.Context(), 0)
	if err == nil {
		page.candidates(picture)
	} else {
		page.Found.Notes = append(page.Found.Notes, "The page has no states of replicas. "+sentence(err))
	}
	return page, nil
}

// candidates shows which replicas may serve the request.
func (page *explainPage) candidates(picture *live.Picture) {
	page.Seen = true
	if picture.View != nil {
		page.View = viewOf(picture.View)
	}
	at := slices.IndexFunc(picture.Services, func(s live.Service) bool { return s.Name == page.Found.Service })
	if at >= 0 {
		page.divide(picture.Services[at].Replicas, picture.At)
	}
	page.Sharded = live.ServiceOf(page.Found.Service) == list.Extensions
}

// divide puts replicas that get the next requests apart from the others. If none is good, they are those in the best state that any has.
func (page *explainPage) divide(replicas []live.Replica, now time.Time) {
	counts := map[string]int{}
	good := false
	for i := range replicas {
		counts[string(replicas[i].State)]++
		good = good || replicas[i].State.Kind() == live.Good
	}
	next, _ := explain.Preferred(counts)
	for i := range replicas {
		r := &replicas[i]
		if r.State.Kind() == live.Good || !good && next != "" && string(r.State) == next {
			page.Candidates = append(page.Candidates, showReplica(r, now))
		} else {
			page.Others = append(page.Others, showReplica(r, now))
		}
	}
}
