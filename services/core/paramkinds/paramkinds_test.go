// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package paramkinds

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"

	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/base/hop/trust/trusttest"
	"github.com/tripod-k8s/tripod/services/list"
)

func read(verb, group, version, resource string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{Verb: verb, APIGroup: group, APIVersion: version, Resource: resource, ResourceRequest: true}
}

func TestServicesReadWhatPoliciesName(t *testing.T) {
	extensions, core := trusttest.Backend(t, trust.UserOf(list.Extensions)), trusttest.Backend(t, trust.UserOf(list.Core))
	status := read("get", "", "v1", "secrets")
	status.Subresource = "status"
	for _, test := range []struct {
		name    string
		user    user.Info
		request authorizer.AttributesRecord
		allowed bool
	}{
		{"a kind of a validating policy", extensions, read("list", "", "v1", "secrets"), true},
		{"it is watched", extensions, read("watch", "", "v1", "secrets"), true},
		{"a kind of a mutating policy", extensions, read("list", "networking.k8s.io", "v1", "networkpolicies"), true},
		{"another kind", extensions, read("list", "", "v1", "pods"), false},
		{"another group", extensions, read("list", "apps", "v1", "secrets"), false},
		{"another version", extensions, read("list", "networking.k8s.io", "v1beta1", "networkpolicies"), false},
		{"a subresource", extensions, status, false},
		{"a change", extensions, read("update", "", "v1", "secrets"), false},
		{"a path", extensions, authorizer.AttributesRecord{Verb: "get", Path: "/api/v1/secrets"}, false},
		{"an additional API service", trusttest.Backend(t, trust.UserOf("wardle")), read("list", "", "v1", "secrets"), true},
		{"core, which needs none of it", core, read("list", "", "v1", "secrets"), false},
		{"a user", &user.DefaultInfo{Name: trust.UserOf(list.Extensions)}, read("list", "", "v1", "secrets"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // it waits for policies that it has not read
				factory := informers.NewSharedInformerFactory(nil, 0)
				v1 := factory.Admissionregistration().V1()
				a := New(factory, utilfeature.DefaultFeatureGate)
				for _, object := range []any{
					&admissionregistrationv1.ValidatingAdmissionPolicy{
						ObjectMeta: metav1.ObjectMeta{Name: "a"},
						Spec:       admissionregistrationv1.ValidatingAdmissionPolicySpec{ParamKind: &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "Secret"}},
					},
					&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "b"}},
				} {
					require.NoError(t, v1.ValidatingAdmissionPolicies().Informer().GetStore().Add(object))
				}
				err := v1.MutatingAdmissionPolicies().Informer().GetStore().Add(&admissionregistrationv1.MutatingAdmissionPolicy{
					ObjectMeta: metav1.ObjectMeta{Name: "a"},
					Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
						ParamKind: &admissionregistrationv1.ParamKind{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
					},
				})
				require.NoError(t, err)
				test.request.User = test.user
				decision, _, err := a.Authorize(t.Context(), test.request)
				if err != nil || (decision == authorizer.DecisionAllow) != test.allowed || decision == authorizer.DecisionDeny {
					t.Errorf("decision is %v, %v", decision, err)
				}
			})
		})
	}
}

func TestPoliciesMayBeHeardOfLate(t *testing.T) {
	extensions := trusttest.Backend(t, trust.UserOf(list.Extensions))
	synctest.Test(t, func(t *testing.T) {
		factory := informers.NewSharedInformerFactory(nil, 0)
		a := New(factory, utilfeature.DefaultFeatureGate)
		decided := make(chan authorizer.Decision, 1)
		go func() {
			request := read("list", "", "v1", "secrets")
			request.User = extensions
			decision, _, _ := a.Authorize(t.Context(), request)
			decided <- decision
		}()
		synctest.Wait()
		err := factory.Admissionregistration().V1().ValidatingAdmissionPolicies().Informer().GetStore().Add(&admissionregistrationv1.ValidatingAdmissionPolicy{
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{ParamKind: &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "Secret"}},
		})
		require.NoError(t, err)
		assert.Equal(t, authorizer.DecisionAllow, <-decided, "decision")
	})
}
