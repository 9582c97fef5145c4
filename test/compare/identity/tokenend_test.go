// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
	"github.com/tripod-k8s/tripod/test/framework"
)

// mortal is a token that something else keeps good.
type mortal struct {
	token string
	// kind and id name what that is.
	kind identityv1.Dependency_Kind
	id   string
	// end deletes or changes it.
	end func(context.Context) error
	// watch reports that.
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
	name  string
}

// mortals make tokens of all kinds that can end before their time.
var mortals = []struct {
	name string
	make func(t testing.TB, f *fleet, client kubernetes.Interface) mortal
}{
	{"service account", func(t testing.TB, f *fleet, client kubernetes.Interface) mortal {
		account := newAccount(t, client)
		accounts := client.CoreV1().ServiceAccounts("test")
		return mortal{
			issue(t, client, account.Name, "", ""), identityv1.Dependency_KIND_SERVICE_ACCOUNT, string(account.UID),
			func(ctx context.Context) error { return accounts.Delete(ctx, account.Name, metav1.DeleteOptions{}) }, accounts.Watch, account.Name,
		}
	}},
	{"pod", func(t testing.TB, f *fleet, client kubernetes.Interface) mortal {
		account, pods := newAccount(t, client), client.CoreV1().Pods("test")
		pod, err := pods.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: account.Name},
			Spec: corev1.PodSpec{
				ServiceAccountName: account.Name, AutomountServiceAccountToken: ptr.To(false), Containers: []corev1.Container{{Name: "main", Image: "none"}},
			},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		return mortal{
			issue(t, client, account.Name, "Pod", pod.Name), identityv1.Dependency_KIND_POD, string(pod.UID),
			func(ctx context.Context) error {
				return pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))})
			}, pods.Watch, pod.Name,
		}
	}},
	{"secret that a token is bound to", func(t testing.TB, f *fleet, client kubernetes.Interface) mortal {
		account := newAccount(t, client)
		secret, err := client.CoreV1().Secrets("test").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: account.Name}}, metav1.CreateOptions{})
		require.NoError(t, err)
		return ofSecret(client, issue(t, client, account.Name, "Secret", secret.Name), secret)
	}},
	{"secret that a token is from", func(t testing.TB, f *fleet, client kubernetes.Interface) mortal {
		account := newAccount(t, client)
		token, err := legacy(account.Name, account.Name)(t.Context(), &f.side)
		require.NoError(t, err)
		secret, err := client.CoreV1().Secrets("test").Get(t.Context(), account.Name, metav1.GetOptions{})
		require.NoError(t, err)
		return ofSecret(client, token, secret)
	}},
	{"node", func(t testing.TB, f *fleet, client kubernetes.Interface) mortal {
		account, nodes := newAccount(t, client), client.CoreV1().Nodes()
		node, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: account.Name}}, metav1.CreateOptions{})
		require.NoError(t, err)
		return mortal{
			issue(t, client, account.Name, "Node", node.Name), identityv1.Dependency_KIND_NODE, string(node.UID),
			func(ctx context.Context) error { return nodes.Delete(ctx, node.Name, metav1.DeleteOptions{}) }, nodes.Watch, node.Name,
		}
	}},
	{"bootstrap token", func(t testing.TB, f *fleet, client kubernetes.Interface) mortal {
		m := newBootstrapToken(t, client)
		m.end = func(ctx context.Context) error {
			return client.CoreV1().Secrets(metav1.NamespaceSystem).Delete(ctx, m.name, metav1.DeleteOptions{})
		}
		return m
	}},
	{"bootstrap token that is changed", func(t testing.TB, f *fleet, client kubernetes.Interface) mortal {
		m := newBootstrapToken(t, client)
		m.end = func(ctx context.Context) error {
			secrets := client.CoreV1().Secrets(metav1.NamespaceSystem)
			secret, err := secrets.Get(ctx, m.name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			secret.Data["token-secret"] = []byte("fedcba9876543210")
			_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
			return err
		}
		return m
	}},
}

func newAccount(t testing.TB, client kubernetes.Interface) *corev1.ServiceAccount {
	t.Helper()
	account, err := client.CoreV1().ServiceAccounts("test").Create(t.Context(), &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: framework.UniqueName("mortal")},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return account
}

// issue returns a token of an account that is bound to an object, if any.
func issue(t testing.TB, client kubernetes.Interface, account, kind, name string) string {
	t.Helper()
	var bound *authenticationv1.BoundObjectReference
	if kind != "" {
		bound = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: kind, Name: name}
	}
	issued, err := client.CoreV1().ServiceAccounts("test").CreateToken(t.Context(), account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return issued.Status.Token
}

func ofSecret(client kubernetes.Interface, token string, secret *corev1.Secret) mortal {
	secrets := client.CoreV1().Secrets(secret.Namespace)
	return mortal{
		token, identityv1.Dependency_KIND_SECRET, string(secret.UID),
		func(ctx context.Context) error { return secrets.Delete(ctx, secret.Name, metav1.DeleteOptions{}) }, secrets.Watch, secret.Name,
	}
}

func newBootstrapToken(t testing.TB, client kubernetes.Interface) mortal {
	t.Helper()
	secrets, id := client.CoreV1().Secrets(metav1.NamespaceSystem), framework.UniqueName("")[1:]
	secret, err := secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id}, Type: corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{"token-id": id, "token-secret": bootstrapSecret, "usage-bootstrap-authentication": "true"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return mortal{
		token: id + "." + bootstrapSecret, kind: identityv1.Dependency_KIND_BOOTSTRAP_TOKEN, id: id, name: secret.Name,
		watch: secrets.Watch,
	}
}

// endAndVersion ends what keeps the token good, and returns when that was asked for and its resourceVersion.
func (m mortal) endAndVersion(t testing.TB) (sent time.Time, version int64) {
	t.Helper()
	watcher, err := m.watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + m.name})
	require.NoError(t, err)
	defer watcher.Stop()
	<-watcher.ResultChan() // that it is there
	sent = time.Now()
	require.NoError(t, m.end(t.Context()))
	for event := range watcher.ResultChan() {
		if event.Type == watch.Deleted || event.Type == watch.Modified {
			version = versionOf(t, event.Object)
		}
		if event.Type == watch.Deleted || m.kind == identityv1.Dependency_KIND_BOOTSTRAP_TOKEN {
			return sent, version
		}
	}
	t.Fatal("the watch ended")
	return sent, 0
}

// What keeps a token good is deleted, while its owner reads all the time, and another of the same kind after it. Each
// replica of core reports both, with the versions of the deletions, and from then on answers that the token is not valid. An
// aggregator that refuses the second refuses the first.
func (f *fleet) tokensEndWithWhatKeepsThemGood(t *testing.T) {
	for _, kind := range mortals {
		t.Run(kind.name, func(t *testing.T) {
			client := f.promptly(t)
			f.endUnderLoad(t, kind.make(t, f, client), kind.make(t, f, client), kind.make(t, f, client))
		})
	}
}

// tokenDoors are those of the owner of a token, for core and custom resources, through each aggregator.
func (f *fleet) tokenDoors(t testing.TB, token string) map[string]door {
	t.Helper()
	doors := map[string]door{}
	for _, aggregator := range []string{"aggregator-0", "aggregator-1"} {
		for kind, path := range map[string]string{"core": configMapsPath + "?resourceVersion=0", "custom": widgetsPath + "?resourceVersion=0"} {
			name := aggregator + " for " + kind + " resources"
			doors[name] = newDoor(t, name, withToken(f.Through(aggregator), token), path)
		}
	}
	return doors
}

// endUnderLoad ends the victim, then the sentinel. The owner of the third token, which ends before both, is silent
// meanwhile. If core-1 is slow, it is so until it has reported both.
func (f *fleet) endUnderLoad(t testing.TB, victim, sentinel, silent mortal) map[string]revocation {
	t.Helper()
	cores := map[string]*follower{"core-0": f.follow(t, "core-0"), "core-1": f.follow(t, "core-1")}
	hammers := map[string]*hammer{}
	for _, token := range []string{victim.token, sentinel.token, silent.token} {
		for name, d := range f.tokenDoors(t, token) {
			require.NoError(t, d.becomes(t.Context(), http.StatusOK))
			if token == victim.token {
				hammers[name] = hammerAt(t, d)
			}
		}
	}
	for _, h := range hammers {
		require.NoError(t, h.hits(t.Context(), 10, time.Time{}))
	}

	_, silentVersion := silent.endAndVersion(t)
	sent, version := victim.endAndVersion(t)
	_, sentinelVersion := sentinel.endAndVersion(t)
	awaitEnds(t, cores, map[*mortal]int64{&silent: silentVersion, &victim: version, &sentinel: sentinelVersion}, &victim, sent)
	// A core that does not find an object looks into etcd for it, which need not take long any more.
	f.slow.set(0)
	silentDoors := f.tokenDoors(t, silent.token)
	var seeing errgroup.Group
	for name, d := range f.tokenDoors(t, sentinel.token) {
		seeing.Go(func() error {
			if err := d.becomes(t.Context(), http.StatusUnauthorized); err != nil {
				return err
			}
			hammers[name].seen = time.Now()
			a, err := silentDoors[name].try(t.Context())
			if err != nil {
				return err
			}
			if a.code != http.StatusUnauthorized {
				t.Errorf("%s answers %d to the first request with a token that ended before one that it refuses", name, a.code)
			}
			return hammers[name].hits(t.Context(), 10, hammers[name].seen)
		})
	}
	require.NoError(t, seeing.Wait())
	revocations := map[string]revocation{}
	for name, h := range hammers {
		revocations[name] = revocation{judge(t, name, h.stop(), http.StatusUnauthorized, sent, h.seen), sent}
		t.Logf("%-36s %v", name, revocations[name])
	}
	return revocations
}

// awaitEnds returns when each core has reported the end of each token, at these versions, and checks that it then refuses the token.
func awaitEnds(t testing.TB, cores map[string]*follower, versions map[*mortal]int64, victim *mortal, sent time.Time) {
	t.Helper()
	var seeing errgroup.Group
	for name, core := range cores {
		seeing.Go(func() error {
			for m, version := range versions {
				i, err := core.sees(t.Context(), m.kind, m.id, version)
				if err != nil {
					return err
				}
				answer, err := core.client.Authenticate(t.Context(), &identityv1.AuthenticateRequest{Token: m.token})
				if err != nil {
					return err
				}
				if answer.GetUser() != nil {
					t.Errorf("%s reported version %d, and then that the token is that of %s", name, i.version, answer.GetUser().GetName())
				}
				if m == victim {
					t.Logf("%-36s tells %s after the end was asked for", name, milliseconds(i.at.Sub(sent)))
				}
			}
			return nil
		})
	}
	require.NoError(t, seeing.Wait())
}

// The answers of core have what they depend on.
func (f *fleet) coreNamesWhatATokenDependsOn(t *testing.T) {
	client := f.promptly(t)
	core := identityv1.NewIdentityClient(f.dial(t, "core-0", "aggregator"))
	for _, kind := range mortals {
		m := kind.make(t, f, client)
		framework.Eventually(t, kind.name+": core knows the token", func(ctx context.Context) error {
			answer, err := core.Authenticate(ctx, &identityv1.AuthenticateRequest{Token: m.token})
			names := slices.ContainsFunc(answer.GetDependencies(), func(d *identityv1.Dependency) bool {
				return d.GetKind() == m.kind && d.GetId() == m.id
			})
			if err == nil && (answer.GetUser() == nil || !names) {
				err = fmt.Errorf("core answers %v, want a dependency %s %s", answer, m.kind, m.id)
			}
			return err
		})
	}
}
