// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tripod-k8s/tripod/console/query"
	"github.com/tripod-k8s/tripod/console/searchclient"
	"github.com/tripod-k8s/tripod/services/search/apis/saved/v1alpha1"
)

// mostSaved is how many saved searches the page has.
const mostSaved = 200

// savedPage is the model of saved searches.
type savedPage struct {
	layout
	Searches []shownSearch
	// More is whether there are more than the page has.
	More bool
}

// shownSearch is a saved search.
type shownSearch struct {
	Name, Description string
	// Link leads to what it finds, if the box can say the same.
	Link string
	// Matches are those of its own user, and Age is how long ago search counted them.
	Matches, Age, Reason, Message string
	Exceeded                      bool
	Command                       string
}

// saved shows the saved searches that the caller may list. What they find, each shows by the rights of the caller.
func (c *console) saved(req *http.Request) (model, error) {
	path := "/apis/" + v1alpha1.GroupVersion.String() + "/" + v1alpha1.Resource
	answer, err := c.hub.Get(req.Context(), path, url.Values{"limit": {strconv.Itoa(mostSaved)}}, "application/json")
	if failed := (*searchclient.Error)(nil); errors.As(err, &failed) && failed.Code == http.StatusNotFound {
		const message = "This cluster has no saved searches: its search is not ready, or older than the console."
		return nil, &searchclient.Error{Code: failed.Code, Message: message}
	}
	if err != nil {
		return nil, err
	}
	var list struct {
		Metadata metav1.ListMeta        `json:"metadata"`
		Items    []v1alpha1.SavedSearch `json:"items"`
	}
	if err := json.Unmarshal(answer.Body, &list); err != nil {
		return nil, fmt.Errorf("the API server answers with something else than saved searches: %w", err)
	}
	page := &savedPage{layout: layout{Title: "Saved searches"}, More: list.Metadata.Continue != ""}
	for i := range list.Items {
		page.Searches = append(page.Searches, savedSearch(&list.Items[i]))
	}
	slices.SortFunc(page.Searches, func(a, b shownSearch) int { return cmp.Compare(a.Name, b.Name) })
	return page, nil
}

func savedSearch(search *v1alpha1.SavedSearch) shownSearch {
	shown := shownSearch{
		Name: search.Name, Description: search.Spec.Description, Command: rawCommand(searchclient.Collections, search.Values()),
		Exceeded: meta.IsStatusConditionTrue(search.Status.Conditions, v1alpha1.Exceeded), Reason: "NotYet",
	}
	if q, can := query.Of(search.Values()); can {
		shown.Link = "./" + linkTo(q, "")
	}
	if search.Status.Matches != nil {
		shown.Matches = strconv.FormatInt(*search.Status.Matches, 10)
	}
	if last := search.Status.LastEvaluation; last != nil {
		shown.Age = ageOf(last.Time)
	}
	if evaluated := meta.FindStatusCondition(search.Status.Conditions, v1alpha1.Evaluated); evaluated != nil {
		shown.Reason, shown.Message = evaluated.Reason, evaluated.Message
	}
	return shown
}
