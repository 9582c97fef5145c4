// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"sync/atomic"

	"github.com/tripod-k8s/tripod/lab/bench/load"
)

// below is where the API of all clusters is.
const below = "/apis/clusterpedia.io/v1beta1/resources"

// searching is a kind of search.
type searching struct {
	Name string
	// Aim is what p99 should be among the many objects, in ms. Zero is no aim.
	Aim float64
	// path returns what the n-th request asks for. apps is how many applications each cluster has.
	path func(n, apps int) string
	// alone is set if Clusterpedia cannot answer it.
	alone bool
	// least and most is how many objects an answer has.
	least, most int
}

func asking(path string, parameters ...string) string {
	values := url.Values{}
	for i := 0; i < len(parameters); i += 2 {
		values.Set(parameters[i], parameters[i+1])
	}
	return below + path + "?" + values.Encode()
}

// owned selects the pods of the Deployment of an application.
func owned(a app) string {
	const domain = "search.clusterpedia.io/"
	return domain + "owner-name=" + a.name() + "," + domain + "owner-gr=deployments.apps," + domain + "owner-seniority=1"
}

// searches are what is asked.
var searches = []searching{
	{Name: "LIST 500 pods by label", Aim: 50, least: 1, most: 500, path: func(n, _ int) string {
		return asking("/api/v1/pods", "labelSelector", fmt.Sprintf("team=team-%d", n%teams), "limit", "500")
	}},
	{Name: "pods of a Deployment", Aim: 20, least: podsEach, most: podsEach, path: func(n, apps int) string {
		a := app{0, n * 7919 % apps}
		return asking("/clusters/"+clusterName(n)+"/api/v1/namespaces/"+a.namespace()+"/pods", "labelSelector", owned(a), "limit", "500")
	}},
	{Name: "pods of a Deployment, in any cluster", alone: true, least: podsEach, most: 500, path: func(n, apps int) string {
		return asking("/api/v1/pods", "labelSelector", owned(app{0, n * 7919 % apps}), "limit", "500")
	}},
	{Name: "fuzzy name, few match", Aim: 100, least: podsEach, most: 500, path: func(n, apps int) string {
		return asking("/api/v1/pods", "labelSelector", "internalstorage.clusterpedia.io/fuzzy-name="+app{0, n * 7919 % apps}.part(), "limit", "500")
	}},
	{Name: "fuzzy name, one in ten matches", Aim: 100, least: 1, most: 500, path: func(n, _ int) string {
		return asking("/api/v1/pods", "labelSelector", "internalstorage.clusterpedia.io/fuzzy-name="+words[n%len(words)], "limit", "500")
	}},
	{Name: "field: pods of a node", Aim: 100, least: 1, most: 500, path: func(n, apps int) string {
		return asking("/api/v1/pods", "fieldSelector", fmt.Sprintf("spec.nodeName=node-%d", n*7919%(max(apps*podsEach/podsOfNode, 1))), "limit", "500")
	}},
	{Name: "field: failed pods", Aim: 100, least: 1, most: 500, path: func(int, int) string {
		return asking("/api/v1/pods", "fieldSelector", "status.phase=Failed", "limit", "500")
	}},
	{Name: "field: pods with an image", Aim: 100, alone: true, least: 1, most: 500, path: func(n, apps int) string {
		image := app{0, n * 7919 % apps}.template().Spec.Containers[0].Image
		return asking("/api/v1/pods", "fieldSelector", "spec.containers[].image="+image, "limit", "500")
	}},
	{Name: "count of all pods", Aim: 200, least: 1, most: 1, path: func(int, int) string { return asking("/api/v1/pods", "limit", "1", "onlyMetadata", "true") }},
	{Name: "count of the pods of a team", Aim: 200, least: 1, most: 1, path: func(n, _ int) string {
		return asking("/api/v1/pods", "labelSelector", fmt.Sprintf("team=team-%d", n%teams), "limit", "1", "onlyMetadata", "true")
	}},
}

// anyKind is the collection that the console asks for words, with the parameters of its page.
func anyKind(text string) string {
	return "/apis/clusterpedia.io/v1beta1/collectionresources/any?" + url.Values{
		"groups": {"*"}, "words": {text}, "limit": {"100"}, "withContinue": {"true"}, "withStaleness": {"true"}, "onlyMetadata": {"true"},
	}.Encode()
}

// wordSearches are those by words, as the console asks for them. Each has its aim.
var wordSearches = []searching{
	{Name: "a word of one object of each member", Aim: 100, least: 1, most: 100, path: func(n, apps int) string { return anyKind(podOf(n, apps)) }},
	{Name: "a word of seven objects of each member", Aim: 100, least: 1 + podsEach, most: 100, path: func(n, apps int) string {
		return anyKind(app{0, n * 7919 % apps}.part())
	}},
	{Name: "a word of no object", Aim: 100, path: func(n, _ int) string { return anyKind(fmt.Sprintf("nothing-%d", n)) }},
	{Name: "two words, a name of a pod and one of a member", Aim: 100, least: 1, most: 100, path: func(n, apps int) string {
		return anyKind(podOf(n, apps) + " " + fakeName(3))
	}},
	{Name: "a word of one object in ten", Aim: 300, least: 100, most: 100, path: func(n, _ int) string { return anyKind(words[n%len(words)]) }},
	{Name: "two words, one object in 200 has both", Aim: 300, least: 100, most: 100, path: func(n, _ int) string {
		return anyKind(words[n%len(words)] + " " + words[(n+1)%len(words)])
	}},
}

// found is what a search has cost. Processor times are in ms for each request.
type found struct {
	Name             string
	Aim              float64
	Requests         int64
	P50, P99         float64
	CPU, PostgresCPU float64
	// Objects is how many the first answer has, and Bytes its length.
	Objects, Bytes int
	// Failed is why the side could not be measured. It is empty if it could.
	Failed string
}

// search asks a side the same again and again, one request after the other.
func (b *benchmark) search(ctx context.Context, s *side, what searching, apps int) (f found, err error) {
	f.Name, f.Aim = what.Name, what.Aim
	text, err := s.client.Read(ctx, load.Request{Method: "GET", Path: what.path(1, apps)})
	if err != nil {
		return f, fmt.Errorf("%s: %s: %w", s.name, what.Name, err)
	}
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal(text, &list); err != nil {
		return f, fmt.Errorf("%s: %s: %w", s.name, what.Name, err)
	}
	if f.Objects, f.Bytes = len(list.Items), len(text); f.Objects < what.least || f.Objects > what.most {
		if s.name == clusterpedia {
			f.Failed = fmt.Sprintf("it finds %d objects, and there are %d or more", f.Objects, what.least)
			return f, nil
		}
		return f, fmt.Errorf("%s: %s: %d objects, want %d to %d", s.name, what.Name, f.Objects, what.least, what.most)
	}
	var turn atomic.Int64
	do := func(ctx context.Context) error {
		return s.client.Do(ctx, load.Request{Method: "GET", Path: what.path(int(turn.Add(1)), apps)})
	}
	load.Saturate(ctx, 1, b.duration/10, do)
	began, err := b.spent(s)
	if err != nil {
		return f, err
	}
	result := load.Saturate(ctx, 1, b.duration/2, do)
	ended, err := b.spent(s)
	if err != nil {
		return f, err
	}
	if result.Error != nil {
		return f, fmt.Errorf("%s: %s: %w", s.name, what.Name, result.Error)
	}
	each := 1e3 / float64(result.Requests)
	f.Requests, f.P50, f.P99 = result.Requests, result.Milliseconds(50), result.Milliseconds(99)
	f.CPU, f.PostgresCPU = (ended.serves-began.serves).Seconds()*each, (ended.postgres-began.postgres).Seconds()*each
	return f, nil
}
