// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"gopkg.in/go-jose/go-jose.v2/jwt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"
	clientgotesting "k8s.io/client-go/testing"
	api "k8s.io/kubernetes/pkg/apis/core"
)

func TestHowLongAnAnswerHoldsAndWhatItDependsOn(t *testing.T) {
	const (
		account = "KIND_SERVICE_ACCOUNT uid of builder"
		name    = "system:serviceaccount:shop:builder"
		share   = 2 * time.Second
		// end is when bound tokens end: they are good for an hour, and a minute in which clocks may differ.
		end = time.Hour + time.Minute
	)
	begin := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // of the time in a bubble
	pod, node, secret := &api.Pod{ObjectMeta: named("pod")}, &api.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", UID: "uid of node"}}, &api.Secret{ObjectMeta: named("bound")}
	podOf := func(change ...func(*metav1.ObjectMeta)) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: named("pod", change...)}
	}
	own := func(pod *api.Pod, secret *api.Secret, node *api.Node) func(*testing.T) string {
		return func(t *testing.T) string { return boundToken(t, signingKey, ownIssuer, pod, secret, node) }
	}
	text := func(token string) func(*testing.T) string { return func(*testing.T) string { return token } }
	external := func(issuer string, ends time.Duration) func(*testing.T) string {
		return func(t *testing.T) string {
			return sign(t, otherKey, issuer, &jwt.Claims{Subject: "jane", Expiry: jwt.NewNumericDate(begin.Add(ends))}, struct{}{})
		}
	}
	jane := &user.DefaultInfo{Name: "jane"}

	for _, test := range []struct {
		name    string
		token   func(*testing.T) string
		objects func(token string) []runtime.Object
		// after is how much later it is asked for.
		after time.Duration
		// other is the user by the word of another authenticator than kube-apiserver's.
		other *user.DefaultInfo
		// webhook is whether that may be a webhook, whose answers are kept no longer than share.
		webhook bool
		change  func(*replica)

		fresh time.Duration
		// valid is how long the token is good, 0 for ever, and none for no more.
		valid time.Duration
		want  []string
	}{
		{name: "of a file", token: text("static-token"), fresh: freshness},
		{name: "of a file or a webhook", token: text("static-token"), webhook: true, fresh: share},
		{name: "of an issuer", token: external("https://issuer", time.Hour), other: jane, fresh: freshness, valid: time.Hour,
			want: []string{"KIND_ISSUER https://issuer"}},
		{name: "of an issuer, ending soon", token: external("https://issuer", 5*time.Second), other: jane, fresh: 5 * time.Second, valid: 5 * time.Second,
			want: []string{"KIND_ISSUER https://issuer"}},
		{name: "of a webhook", token: text("opaque"), other: jane, webhook: true, fresh: share},
		{name: "of a webhook, named like a service account", token: text("opaque"), webhook: true, fresh: share,
			other: &user.DefaultInfo{Name: name, UID: "uid of builder"}},
		{name: "of a service account of another cluster, by a webhook", webhook: true, fresh: share, valid: time.Hour,
			token: func(t *testing.T) string { return boundToken(t, otherKey, "https://elsewhere", pod, nil, nil) },
			other: &user.DefaultInfo{Name: name, UID: "uid of builder"}, want: []string{"KIND_ISSUER https://elsewhere"}},
		{name: "of a service account of another cluster that is called like this one", webhook: true, fresh: share, valid: time.Hour,
			token: func(t *testing.T) string { return boundToken(t, otherKey, ownIssuer, pod, nil, nil) },
			other: &user.DefaultInfo{Name: name, UID: "another"}, want: []string{"KIND_ISSUER " + ownIssuer}},

		{name: "of a service account", token: own(nil, nil, nil), webhook: true, fresh: freshness, valid: end, want: []string{account}},
		{name: "that has expired a moment ago", token: own(nil, nil, nil), after: time.Hour + 55*time.Second,
			fresh: 5 * time.Second, valid: 5 * time.Second, want: []string{account}},
		{name: "of a service account that is being deleted", token: own(nil, nil, nil), fresh: freshness, valid: 90 * time.Second, want: []string{account},
			change: func(r *replica) {
				update(r, "serviceaccounts", &corev1.ServiceAccount{ObjectMeta: named("builder", deletedAt(begin.Add(30*time.Second)))})
			}},
		{name: "bound to a pod", token: own(pod, nil, node), fresh: freshness, valid: end,
			objects: func(string) []runtime.Object { return []runtime.Object{podOf()} },
			want:    []string{account, "KIND_POD uid of pod"}}, // the node is not looked for then
		{name: "bound to a pod that is being deleted", token: own(pod, nil, nil), fresh: 5 * time.Second, valid: 5 * time.Second,
			objects: func(string) []runtime.Object { return []runtime.Object{podOf(deletedAt(begin.Add(-55 * time.Second)))} },
			want:    []string{account, "KIND_POD uid of pod"}},
		{name: "bound to a pod that the informer does not know", token: own(pod, nil, nil), fresh: 0, valid: end,
			change: func(r *replica) { // podsOnlyByName hides it
				_ = r.client.Tracker().Add(podOf())
			},
			want: []string{account, "KIND_POD uid of pod"}},
		{name: "bound to a secret", token: own(nil, secret, nil), fresh: freshness, valid: end,
			objects: func(string) []runtime.Object { return []runtime.Object{&corev1.Secret{ObjectMeta: named("bound")}} },
			want:    []string{account, "KIND_SECRET uid of bound"}},
		{name: "bound to a secret that is being deleted", token: own(nil, secret, nil), fresh: freshness, valid: time.Minute,
			objects: func(string) []runtime.Object {
				return []runtime.Object{&corev1.Secret{ObjectMeta: named("bound", deletedAt(begin))}}
			},
			want: []string{account, "KIND_SECRET uid of bound"}},
		{name: "bound to a node", token: own(nil, nil, node), fresh: freshness, valid: end,
			objects: func(string) []runtime.Object {
				return []runtime.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", UID: "uid of node"}}}
			},
			want: []string{account, "KIND_NODE uid of node"}},

		// kube-apiserver accepts such tokens with the gate APIServerWebhookAuthenticationToken.
		{name: "bound to a webhook", token: ofWebhook, fresh: 0, valid: end,
			want: []string{account}, other: &user.DefaultInfo{Name: name, UID: "uid of builder"}},

		{name: "in a secret", token: legacy, fresh: freshness,
			objects: inSecret,
			want:    []string{account, "KIND_SECRET uid of legacy"}},
		{name: "in a secret that is not looked for", token: legacy, fresh: freshness,
			objects: inSecret,
			change:  func(r *replica) { r.config.Dependencies.tokens.Lookup = false }},

		{name: "bootstrap", token: text("abcdef.0123456789abcdef"), webhook: true, fresh: freshness,
			objects: func(string) []runtime.Object { return []runtime.Object{bootstrapSecret("abcdef", "description", "a")} },
			want:    []string{"KIND_BOOTSTRAP_TOKEN abcdef"}},
		{name: "bootstrap, ending", token: text("abcdef.0123456789abcdef"), fresh: 5 * time.Second, valid: 5 * time.Second,
			objects: func(string) []runtime.Object {
				return []runtime.Object{bootstrapSecret("abcdef", "expiration", begin.Add(5*time.Second).Format(time.RFC3339))}
			},
			want: []string{"KIND_BOOTSTRAP_TOKEN abcdef"}},
		{name: "of a webhook, like a bootstrap token", token: text("abcdef.0123456789abcdef"), webhook: true, fresh: 0,
			other: &user.DefaultInfo{Name: "system:bootstrap:abcdef"}, want: []string{"KIND_BOOTSTRAP_TOKEN abcdef"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				token := test.token(t)
				var others []runtime.Object
				if test.objects != nil {
					others = test.objects(token)
				}
				client := objects(others...)
				if test.fresh == 0 {
					podsOnlyByName(client)
				}
				r := newReplica(t, client)
				if test.other != nil {
					r.others[token] = test.other
					r.config.APIAudiences = nil // which others do not know
				}
				if test.webhook {
					share := share
					r.config.WebhookFreshness = &share
				}
				if test.change != nil {
					test.change(r)
				}
				time.Sleep(test.after)
				synctest.Wait()

				answer := authenticate(t, r.Service, token)
				if answer.GetUser() == nil {
					t.Fatalf("it is not good: %s", answer.GetError())
				}
				assert.Equal(t, test.fresh, answer.GetFreshFor().AsDuration(), "fresh for")
				if got := answer.GetValidFor().AsDuration(); got != test.valid || (answer.GetValidFor() == nil) != (test.valid == 0) {
					t.Errorf("valid for %v, want %s", answer.GetValidFor(), test.valid)
				}
				assert.Empty(t, cmp.Diff(test.want, inWordsOf(answer.GetDependencies())), "dependencies")
			})
		})
	}
}

// podsOnlyByName makes lists and watches hide the pods: they are too new for informers.
func podsOnlyByName(client interface {
	PrependReactor(verb, resource string, reaction clientgotesting.ReactionFunc)
	PrependWatchReactor(resource string, reaction clientgotesting.WatchReactionFunc)
}) {
	client.PrependReactor("list", "pods", func(clientgotesting.Action) (bool, runtime.Object, error) { return true, &corev1.PodList{}, nil })
	client.PrependWatchReactor("pods", func(clientgotesting.Action) (bool, watch.Interface, error) { return true, watch.NewFake(), nil })
}

func update(r *replica, resource string, object metav1.Object) {
	object.SetResourceVersion("2")
	if err := r.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource(resource), object.(runtime.Object), object.GetNamespace()); err != nil {
		panic(err)
	}
}
