// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/serviceaccount"

	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// Core reports each change that ends a token. When it does, it rejects the token itself.
func TestWhatEndsATokenIsReported(t *testing.T) {
	const bootstrapToken = "abcdef.0123456789abcdef"
	node := metav1.ObjectMeta{Name: "node", UID: "uid of node", ResourceVersion: "1"}
	secondUID := func(m *metav1.ObjectMeta) { m.UID = "second" }
	for _, test := range []struct {
		name    string
		token   func(*testing.T) string
		objects func(token string) []runtime.Object
		change  func(r *replica, token string)
		// stays is whether the token is good for a while, all the same.
		stays bool
	}{
		{name: "the service account is deleted", token: boundTo(nil, nil, nil),
			change: func(r *replica, _ string) { remove(r, "serviceaccounts", "builder") }},
		{name: "the service account is replaced while nobody watches", token: boundTo(nil, nil, nil),
			change: func(r *replica, _ string) {
				update(r, "serviceaccounts", &corev1.ServiceAccount{ObjectMeta: named("builder", secondUID)})
			}},
		{name: "the service account is being deleted", token: boundTo(nil, nil, nil), stays: true,
			change: func(r *replica, _ string) {
				update(r, "serviceaccounts", &corev1.ServiceAccount{ObjectMeta: named("builder", deletedAt(time.Now()))})
			}},
		{name: "the pod is deleted", token: boundTo(&api.Pod{ObjectMeta: named("pod")}, nil, nil),
			objects: func(string) []runtime.Object { return []runtime.Object{&corev1.Pod{ObjectMeta: named("pod")}} },
			change:  func(r *replica, _ string) { remove(r, "pods", "pod") }},
		{name: "the secret is deleted", token: boundTo(nil, &api.Secret{ObjectMeta: named("bound")}, nil),
			objects: func(string) []runtime.Object { return []runtime.Object{&corev1.Secret{ObjectMeta: named("bound")}} },
			change:  func(r *replica, _ string) { remove(r, "secrets", "bound") }},
		{name: "the node is deleted", token: boundTo(nil, nil, &api.Node{ObjectMeta: node}),
			objects: func(string) []runtime.Object { return []runtime.Object{&corev1.Node{ObjectMeta: node}} },
			change: func(r *replica, _ string) {
				if err := r.client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("nodes"), "", "node"); err != nil {
					panic(err)
				}
			}},
		{name: "the token's secret is deleted", token: legacy, objects: inSecret,
			change: func(r *replica, _ string) { remove(r, "secrets", "legacy") }},
		{name: "the token's secret is being deleted", token: legacy, objects: inSecret,
			change: func(r *replica, token string) {
				update(r, "secrets", tokenSecret("legacy", token, deletedAt(time.Now())))
			}},
		{name: "the token's secret is marked invalid", token: legacy, objects: inSecret,
			change: func(r *replica, token string) {
				update(r, "secrets", tokenSecret("legacy", token, func(m *metav1.ObjectMeta) {
					m.Labels = map[string]string{serviceaccount.InvalidSinceLabelKey: "2000-01-01"}
				}))
			}},
		{name: "the token's secret has another token", token: legacy, objects: inSecret,
			change: func(r *replica, _ string) { update(r, "secrets", tokenSecret("legacy", "another")) }},
		{name: "the bootstrap token is deleted", token: func(*testing.T) string { return bootstrapToken }, objects: bootstrap,
			change: func(r *replica, _ string) {
				if err := r.client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("secrets"), "kube-system", "bootstrap-token-abcdef"); err != nil {
					panic(err)
				}
			}},
		{name: "the bootstrap token is not for authentication", token: func(*testing.T) string { return bootstrapToken }, objects: bootstrap,
			change: func(r *replica, _ string) {
				update(r, "secrets", bootstrapSecret("abcdef", "usage-bootstrap-authentication", "false"))
			}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				token := test.token(t)
				var others []runtime.Object
				if test.objects != nil {
					others = test.objects(token)
				}
				r := newReplica(t, objects(others...))
				log := r.config.Dependencies.invalidations
				// The first use of a legacy token is written into its Secret.
				authenticate(t, r.Service, token)
				synctest.Wait()
				answer := authenticate(t, r.Service, token)
				if !r.mayBeKept(t, answer) {
					t.Fatalf("it is not good, or may not be kept: %v", answer)
				}

				test.change(r, token)
				<-log.after(answer.GetSequence())
				again := authenticate(t, r.Service, token)
				assert.Equal(t, test.stays, again.GetUser() != nil, "after the report, the answer is %v", again)
				synctest.Wait()
				if r.mayBeKept(t, answer) {
					t.Errorf("none of the dependencies %v is among the changes %v",
						inWordsOf(answer.GetDependencies()), inWords(t, log, answer.GetSequence()))
				}
				received, _ := log.since(answer.GetSequence())
				if received[0].GetResourceVersion() == "" {
					t.Error("the report has no resourceVersion")
				}
			})
		})
	}
}

func boundTo(pod *api.Pod, secret *api.Secret, node *api.Node) func(*testing.T) string {
	return func(t *testing.T) string { return boundToken(t, signingKey, ownIssuer, pod, secret, node) }
}

func legacy(t *testing.T) string { return legacyToken(t, "legacy") }

func inSecret(token string) []runtime.Object {
	return []runtime.Object{tokenSecret("legacy", token)}
}

func bootstrap(string) []runtime.Object {
	return []runtime.Object{bootstrapSecret("abcdef", "description", "a")}
}

func remove(r *replica, resource, name string) {
	if err := r.client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource(resource), "shop", name); err != nil {
		panic(err)
	}
}

// The claims of such a token do not name the Secret that it was found in.
func TestASecretThatIsReplacedWhileItsTokenIsLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		token := legacyToken(t, "legacy")
		r := newReplica(t, objects(inSecret(token)...))
		authenticate(t, r.Service, token)
		synctest.Wait()

		look := r.config.Authenticator
		r.config.Authenticator = authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
			response, ok, err := look.AuthenticateRequest(req)
			update(r, "secrets", tokenSecret("legacy", "another", func(m *metav1.ObjectMeta) { m.UID = "second" }))
			synctest.Wait()
			return response, ok, err
		})
		if answer := authenticate(t, r.Service, token); r.mayBeKept(t, answer) {
			t.Errorf("the token is not good any more, but may be kept: %v", answer)
		}
	})
}

// While service accounts come and go, callers ask for their tokens all the time. None may keep an answer about one that is
// gone.
func TestNoAnswerOutlivesWhatItDependsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, objects())
		var answers struct {
			sync.Mutex
			all  []*identityv1.AuthenticateResponse
			good int
		}
		for round := range 100 {
			account := named("changing", func(m *metav1.ObjectMeta) { m.UID = types.UID(fmt.Sprint("uid ", round)) })
			public, private := claims(t, account, nil, nil, nil)
			token := sign(t, signingKey, ownIssuer, public, private)
			if err := r.client.Tracker().Create(corev1.SchemeGroupVersion.WithResource("serviceaccounts"), &corev1.ServiceAccount{ObjectMeta: account}, "shop"); err != nil {
				t.Fatal(err)
			}
			if round%2 == 0 {
				synctest.Wait() // else the informer may not have it yet
			}
			var callers sync.WaitGroup
			answered := make(chan struct{}, 40)
			for range 4 {
				callers.Go(func() {
					for range 10 {
						answer := authenticate(t, r.Service, token)
						answers.Lock()
						answers.all = append(answers.all, answer)
						answers.Unlock()
						answered <- struct{}{}
					}
				})
			}
			for range rand.IntN(40) {
				<-answered
			}
			remove(r, "serviceaccounts", "changing")
			callers.Wait()
		}
		synctest.Wait()
		for _, answer := range answers.all {
			if answer.GetUser() != nil {
				answers.good++
			}
			if r.mayBeKept(t, answer) {
				t.Errorf("an answer may be kept that depends on nothing that is there: %v", answer)
			}
		}
		t.Logf("%d of %d answers were good when they were given", answers.good, len(answers.all))
	})
}
