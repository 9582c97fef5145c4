// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pediaclusters

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
	"github.com/tripod-k8s/tripod/services/search/member"
	"github.com/tripod-k8s/tripod/services/search/store/access"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

func kubeconfig(user string) []byte {
	return []byte(`{"clusters": [{"name": "c", "cluster": {"server": "https://host:6443"}}], "users": [{"name": "u", "user": ` + user + `}],
		"contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "current-context": "x"}`)
}

func TestHowAClusterIsReached(t *testing.T) {
	token := func(config rest.Config) rest.Config { config.BearerToken = "t"; return config }
	for name, test := range map[string]struct {
		spec v1alpha2.ClusterSpec
		want rest.Config
	}{
		"by a kubeconfig": {v1alpha2.ClusterSpec{Kubeconfig: kubeconfig(`{"token": "t"}`), APIServer: "ignored"}, token(rest.Config{Host: "https://host:6443"})},
		"by a token": {v1alpha2.ClusterSpec{APIServer: "https://host", TokenData: []byte("t"), CAData: []byte("ca")},
			token(rest.Config{Host: "https://host", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("ca")}})},
		"by a certificate": {v1alpha2.ClusterSpec{APIServer: "https://host", CertData: []byte("cert"), KeyData: []byte("key")},
			rest.Config{Host: "https://host", TLSClientConfig: rest.TLSClientConfig{Insecure: true, CertData: []byte("cert"), KeyData: []byte("key")}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := configOf(&test.spec)
			require.NoError(t, err)
			assert.Equal(t, &test.want, got)
		})
	}
	for want, spec := range map[string]v1alpha2.ClusterSpec{
		`apiserver "" is not of the form https://host:port`: {},
		`apiserver "http://host" is not`:                    {APIServer: "http://host", TokenData: []byte("t")},
		"there are no credentials":                          {APIServer: "https://host", CertData: []byte("cert")},
		`apiserver "https://u:p@host" is not`:               {APIServer: "https://u:p@host", TokenData: []byte("t")},
		"kubeconfig: it is not YAML":                        {Kubeconfig: []byte("{")},
		"kubeconfig: line 2 has a YAML alias":               {Kubeconfig: []byte("a: &a x\nb: [*a, *a]")},
		"kubeconfig: it has more than 256 KiB":              {Kubeconfig: make([]byte, maxKubeconfig+1)},
		"user u runs a program":                             {Kubeconfig: kubeconfig(`{"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh"}}`)},
		"user u names files":                                {Kubeconfig: kubeconfig(`{"tokenFile": "/etc/passwd"}`)},
	} {
		_, err := configOf(&spec)
		assert.ErrorContains(t, err, want)
	}
}

func TestWhatIsCopiedOfACluster(t *testing.T) {
	spec := v1alpha2.ClusterSpec{SyncResources: []v1alpha2.GroupResources{{Group: "apps", Resources: []string{"deployments"}}}, SyncAllCustomResources: true}
	assert.Equal(t, []member.Rule{
		{Group: "apps", Resources: []string{"deployments"}},
		{Resources: []string{"pods"}, Versions: []string{"v1"}},
		{Group: "*", Resources: []string{"*"}, Custom: true},
	}, rulesOf(&spec, []v1alpha2.GroupResources{{Resources: []string{"pods"}, Versions: []string{"v1"}}}))
}

func TestTheStatusOfACluster(t *testing.T) {
	reasons := func(status v1alpha2.ClusterStatus) map[string]string {
		all := map[string]string{}
		for _, c := range status.Conditions {
			all[c.Type] = string(c.Status) + " " + c.Reason
		}
		return all
	}
	wrong := statusOf(v1alpha2.ClusterStatus{}, 3, "https://host", errors.New("no"), member.Health{}, nil)
	assert.Equal(t, map[string]string{"Validated": "False InvalidConfig", "SynchroRunning": "False Shutdown", "ClusterHealthy": "False MonitorStop", "Ready": "False NotReady", "Fresh": "False MonitorStop"}, reasons(wrong))
	assert.Equal(t, "no", meta.FindStatusCondition(wrong.Conditions, v1alpha2.Validated).Message)

	wrong.ShardingName = "a"
	young := statusOf(wrong, 3, "https://host", nil, member.Health{}, nil)
	assert.Equal(t, map[string]string{"Validated": "True Validated", "SynchroRunning": "False Pending", "ClusterHealthy": "False NotReachable", "Ready": "False NotReady", "Fresh": "False MonitorStop", "WithinLimits": "True WithinLimits"}, reasons(young))
	mute := statusOf(wrong, 3, "https://host", nil, member.Health{Answered: true}, nil)
	assert.Equal(t, "False NotReachable", reasons(mute)["ClusterHealthy"])
	assert.Equal(t, "the cluster answers, and names no version", meta.FindStatusCondition(mute.Conditions, v1alpha2.ClusterHealthy).Message)
	assert.Equal(t, "https://host", young.APIServer)
	assert.Equal(t, "a", young.ShardingName, "otherwise search would write the status again and again: a merge patch removes nothing that it does not name")
}

func TestAClusterIsFreshIfAllOfItIs(t *testing.T) {
	deployments, pods := schema.GroupResource{Group: "apps", Resource: "deployments"}, schema.GroupResource{Resource: "pods"}
	for want, state := range map[string]*streams.State{
		"False Incomplete: nothing is copied yet":                              nil,
		"False Incomplete: the first list of 1 of 3 resources is not complete": {Resources: 3, Incomplete: 1, Stale: []schema.GroupResource{pods}},
		"False Stale: not synced for 3m0s: pods, deployments.apps":             {Resources: 3, Stale: []schema.GroupResource{pods, deployments}},
		"True Fresh: ": {Resources: 3},
	} {
		var status v1alpha2.ClusterStatus
		if state == nil {
			setFresh(&status, 3, streams.State{}, false)
		} else {
			setFresh(&status, 3, *state, true)
		}
		require.Len(t, status.Conditions, 1)
		c := status.Conditions[0]
		assert.Equal(t, want, string(c.Status)+" "+c.Reason+": "+c.Message)
		assert.Equal(t, "Fresh", c.Type)
		assert.EqualValues(t, 3, c.ObservedGeneration)
	}
}

func TestAConditionNamesTheObjectsThatCloseACluster(t *testing.T) {
	var status v1alpha2.ClusterStatus
	cluster := &v1alpha2.PediaCluster{}
	setReadable(&status, cluster, nil, "")
	assert.Empty(t, status.Conditions, "its RBAC does not count")
	cluster.Spec.MemberRBAC = &v1alpha2.MemberRBAC{}
	setReadable(&status, cluster, nil, "")
	assert.True(t, meta.IsStatusConditionTrue(status.Conditions, v1alpha2.RBACRead))
	setReadable(&status, cluster, []access.Unreadable{{Resource: "roles", Namespace: "a", Name: "x", Reason: "wrong"}, {Resource: "clusterroles", Name: "y", Reason: "odd"}}, "large")
	assert.Contains(t, meta.FindStatusCondition(status.Conditions, v1alpha2.RBACRead).Message, "cannot be read: roles a/x: wrong; clusterroles y: odd")
	setReadable(&status, cluster, []access.Unreadable{{Resource: "roles", Reason: "an object has more than 10Mi"}}, "")
	assert.Contains(t, meta.FindStatusCondition(status.Conditions, v1alpha2.RBACRead).Message, "cannot be read: all roles: an object has more than 10Mi")
	setReadable(&status, cluster, nil, "namespace a: too much")
	assert.Equal(t, []string{"TooLarge", "namespace a: too much"}, []string{
		meta.FindStatusCondition(status.Conditions, v1alpha2.RBACRead).Reason, meta.FindStatusCondition(status.Conditions, v1alpha2.RBACRead).Message,
	})
	cluster.Spec.MemberRBAC = nil
	setReadable(&status, cluster, nil, "")
	assert.Empty(t, status.Conditions)
}

func TestTheStatusOfResources(t *testing.T) {
	status := func(group, resource, version string, phase member.Phase) member.Status {
		return member.Status{Kind: streams.Kind{GroupVersionResource: schema.GroupVersionResource{Group: group, Version: version, Resource: resource}, Name: "K", Namespaced: true}, Phase: phase}
	}
	refused := status("", "pods", "v1", member.Syncing)
	refused.Refused = map[string]string{"a/x": "too long"}
	streams := []member.Status{refused, status("apps", "deployments", "v1", member.Failed), status("apps", "deployments", "v1beta1", member.Syncing)}
	groups := groupsOf(streams)
	require.Len(t, groups, 2)
	assert.Equal(t, "ObjectsRefused", groups[0].Resources[0].SyncConditions[0].Reason)
	assert.Equal(t, "a/x: too long", groups[0].Resources[0].SyncConditions[0].Message)
	require.Len(t, groups[1].Resources, 1)
	assert.Equal(t, []string{"Error", "Syncing"}, []string{groups[1].Resources[0].SyncConditions[0].Status, groups[1].Resources[0].SyncConditions[1].Status})
	assert.Equal(t, "not copied now: deployments.apps; without objects that are refused: pods", troubleOf(streams))
	streams[1].Reason, streams[1].Message = member.LimitReached, "an object has more than 10Mi"
	limits := meta.FindStatusCondition(statusOf(v1alpha2.ClusterStatus{}, 3, "", nil, member.Health{Limit: "of 700 resources, 500 are copied"}, streams).Conditions, v1alpha2.WithinLimits)
	assert.Equal(t, metav1.ConditionFalse, limits.Status)
	assert.Equal(t, "of 700 resources, 500 are copied; deployments.apps: an object has more than 10Mi", limits.Message)
}
