// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/hop/trust"
)

func TestWhereTheAggregatorIs(t *testing.T) {
	file := &addresses.Backends{Aggregator: addresses.Replicas{Servers: []string{"https://b:1"}}}
	for _, test := range []struct {
		name string
		flag []string
		file *addresses.Backends
		want string
		err  string
	}{
		{name: "nowhere"},
		{name: "the flag says it", flag: []string{"https://a:1", "https://a:2/"}, want: "a:1 a:2"},
		{name: "the file says it", file: file, want: "b:1"},
		{name: "the file says nothing", file: &addresses.Backends{}},
		{name: "both say it", flag: []string{"https://a:1"}, file: file, err: "--backends-file takes the place of --aggregator-servers"},
		{name: "a name of replicas", flag: []string{"dns:///a:1"}, err: `--aggregator-servers: "dns:///a:1" is not of the form https://host:port`},
		{name: "no TLS", flag: []string{"http://a:1"}, err: "is not of the form"},
	} {
		urls, errs := (&AggregatorOptions{Servers: test.flag}).Find(test.file)
		if test.err != "" {
			if len(errs) != 1 || !strings.Contains(errs[0].Error(), test.err) {
				t.Errorf("%s: errors %v, want %q", test.name, errs, test.err)
			}
			continue
		}
		if got := strings.Join(NewAggregator(urls, trust.Options{}).hosts(), " "); got != test.want || len(errs) > 0 {
			t.Errorf("%s: at %q, %v; want %q", test.name, got, errs, test.want)
		}
	}
}

func TestALinkFollowsTheFile(t *testing.T) {
	link := NewAggregator(nil, trust.Options{})
	for _, step := range []struct {
		servers []string
		want    string
	}{
		{[]string{"https://a:1"}, "a:1"},
		{[]string{"https://b:1", "nonsense"}, "a:1"},
		{[]string{"https://b:1", "https://c:1"}, "b:1 c:1"},
		{nil, ""},
	} {
		link.FollowAggregator(&addresses.Backends{Aggregator: addresses.Replicas{Servers: step.servers}})
		assert.Equal(t, step.want, strings.Join(link.hosts(), " "), "after %v", step.servers)
	}
}
