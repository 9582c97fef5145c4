// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tripod-k8s/tripod/base/certs"
)

const namespace = "tripod"

func testConfig() *Config {
	return &Config{
		Namespace:   namespace,
		Labels:      map[string]string{"app.kubernetes.io/name": "tripod"},
		Authorities: []AuthorityConfig{{Secret: "ca", CommonName: "test-ca"}, {Secret: "etcd-ca", CommonName: "etcd-ca"}},
		Certificates: []CertificateConfig{
			{Secret: "server", Authority: "ca", CommonName: "server", DNSNames: []string{"server"}, IPAddresses: []string{"127.0.0.1"}, Usages: []string{"server"}},
			{Secret: "admin", Authority: "ca", CommonName: "admin", Organizations: []string{"system:masters"}, Usages: []string{"client"}},
			{Secret: "etcd", Authority: "etcd-ca", CommonName: "etcd", Usages: []string{"client", "server"}},
		},
		ServiceAccountKey: &KeyConfig{Secret: "service-account"},
		Kubeconfig:        &KubeconfigConfig{Secret: "kubeconfig", Key: "kubeconfig", Name: "tripod", Server: "https://server", Client: "admin"},
	}
}

// actions returns what was done to the Secrets that did not stay as they were.
func actions(t *testing.T, client *fake.Clientset, c *Config, o Options) map[string]Action {
	t.Helper()
	results, err := Apply(t.Context(), client, c, o)
	require.NoError(t, err)
	changed := map[string]Action{}
	for _, result := range results {
		if result.Action != Unchanged {
			changed[result.Secret] = result.Action
		}
	}
	return changed
}

func demand(t *testing.T, what string, got, want map[string]Action) {
	t.Helper()
	for name, action := range want {
		assert.Equal(t, action, got[name], "%s: %s", what, name)
	}
	for name, action := range got {
		if want[name] == "" {
			t.Errorf("%s: %s is %q", what, name, action)
		}
	}
}

func get(t *testing.T, client *fake.Clientset, name string) *corev1.Secret {
	t.Helper()
	secret, err := client.CoreV1().Secrets(namespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return secret
}

func TestMissingSecretsAreMadeOnceAndFitTogether(t *testing.T) {
	client := fake.NewClientset()
	demand(t, "the first run", actions(t, client, testConfig(), Options{}), map[string]Action{
		"ca": Created, "etcd-ca": Created, "server": Created, "admin": Created, "etcd": Created, "service-account": Created, "kubeconfig": Created,
	})
	demand(t, "the second run", actions(t, client, testConfig(), Options{}), nil)
	for _, action := range client.Actions() {
		if verb := action.GetVerb(); verb != "get" && verb != "create" {
			t.Errorf("a Secret is %sd", verb)
		}
	}

	for _, name := range []string{"ca", "etcd-ca", "server", "admin", "etcd", "service-account"} {
		secret := get(t, client, name)
		if secret.Type != corev1.SecretTypeTLS || secret.Labels["app.kubernetes.io/name"] != "tripod" {
			t.Errorf("%s is of type %s, with labels %v", name, secret.Type, secret.Labels)
		}
		if _, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if server := get(t, client, "server"); !bytes.Equal(server.Data["ca.crt"], get(t, client, "ca").Data["ca.crt"]) {
		t.Error("the certificate comes without its authority")
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(get(t, client, "kubeconfig").Data["kubeconfig"])
	require.NoError(t, err)
	admin := get(t, client, "admin")
	if config.Host != "https://server" || !bytes.Equal(config.CertData, admin.Data["tls.crt"]) || !bytes.Equal(config.CAData, admin.Data["ca.crt"]) {
		t.Errorf("the kubeconfig is of %s by %s", config.Host, config.CertData)
	}
}

func TestWhatIsDueIsRenewed(t *testing.T) {
	moreNames := testConfig()
	moreNames.Certificates[0].DNSNames = []string{"server", "another"}
	shorter := testConfig()
	shorter.Duration = metav1.Duration{Duration: time.Hour}
	shorter.RenewBefore = metav1.Duration{Duration: time.Minute}
	labelled := testConfig()
	labelled.Labels = map[string]string{"more": "labels"}
	for _, tc := range []struct {
		name    string
		config  *Config
		options Options
		damage  func(*corev1.Secret)
		want    map[string]Action
	}{
		{name: "other names", config: moreNames, want: map[string]Action{"server": Renewed}},
		{name: "one that somebody wants renewed", config: testConfig(), options: Options{Renew: []string{"server"}}, want: map[string]Action{"server": Renewed}},
		{name: "all that somebody wants renewed", config: testConfig(), options: Options{Renew: []string{All}},
			want: map[string]Action{"server": Renewed, "admin": Renewed, "etcd": Renewed, "kubeconfig": Updated}},
		{name: "nothing for a shorter duration", config: shorter},
		{name: "labels", config: labelled, want: map[string]Action{"ca": Updated, "etcd-ca": Updated, "server": Updated, "admin": Updated, "etcd": Updated,
			"service-account": Updated, "kubeconfig": Updated}},
		{name: "a key that is not the certificate's", config: testConfig(), damage: func(s *corev1.Secret) {
			if s.Name == "server" {
				s.Data["tls.key"] = nil
			}
		}, want: map[string]Action{"server": Renewed}},
		{name: "a lost bundle", config: testConfig(), damage: func(s *corev1.Secret) { delete(s.Data, "ca.crt") },
			want: map[string]Action{"ca": Updated, "etcd-ca": Updated, "server": Updated, "admin": Updated, "etcd": Updated, "service-account": Updated}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			client := fake.NewClientset()
			actions(t, client, testConfig(), Options{})
			if tc.damage != nil {
				list, err := client.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{})
				require.NoError(t, err)
				for _, secret := range list.Items {
					tc.damage(&secret)
					if _, err := client.CoreV1().Secrets(namespace).Update(t.Context(), &secret, metav1.UpdateOptions{}); err != nil {
						t.Fatal(err)
					}
				}
			}
			demand(t, "the run", actions(t, client, tc.config, tc.options), tc.want)
			demand(t, "the next run", actions(t, client, tc.config, Options{}), nil)
		})
	}
}

// TestCertificatesOutliveTheirAuthorities: with a run a day, for several lives of an authority, everything is always valid.
func TestCertificatesOutliveTheirAuthorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testConfig()
		c.Duration.Duration, c.RenewBefore.Duration, c.AuthorityDuration.Duration = 20*24*time.Hour, 5*24*time.Hour, 60*24*time.Hour
		client := fake.NewClientset()
		actions(t, client, c, Options{})
		first := get(t, client, "ca").Data["tls.crt"]
		old := roots(t, client, "ca")
		for range 150 {
			time.Sleep(24 * time.Hour)
			actions(t, client, c, Options{Settle: time.Hour})
			now := roots(t, client, "ca")
			for _, name := range []string{"server", "admin"} {
				for when, trusted := range map[string]*x509.CertPool{"now": now, "yesterday": old} {
					if err := verify(get(t, client, name).Data["tls.crt"], trusted); err != nil {
						t.Fatalf("%s: %s by those who were trusted %s: %v", time.Now(), name, when, err)
					}
				}
			}
			old = now
		}
		if bytes.Equal(first, get(t, client, "ca").Data["tls.crt"]) {
			t.Error("the authority is still the first one")
		}
	})
}

func roots(t *testing.T, client *fake.Clientset, name string) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(get(t, client, name).Data["ca.crt"])
	return pool
}

func verify(certificate []byte, roots *x509.CertPool) error {
	cert, err := parse(certificate)
	if err != nil {
		return err
	}
	_, err = cert.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: time.Now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err
}

func TestStepsOfARotationKeepTheirDistance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		c := testConfig()
		actions(t, client, c, Options{})
		step := Options{Rotate: []string{"ca"}, Settle: time.Minute}
		demand(t, "trusting the new one", actions(t, client, c, step), map[string]Action{"ca": Updated, "server": Updated, "admin": Updated, "kubeconfig": Updated})
		if _, err := Apply(t.Context(), client, c, step); err == nil || !strings.Contains(err.Error(), "--settle") {
			t.Errorf("the next step at once: %v", err)
		}
		time.Sleep(30 * time.Second)
		demand(t, "a run by itself", actions(t, client, c, Options{Settle: time.Minute}), nil)
		time.Sleep(31 * time.Second)
		demand(t, "issuing by the new one", actions(t, client, c, step), map[string]Action{"ca": Renewed, "server": Renewed, "admin": Renewed, "kubeconfig": Updated})
		time.Sleep(2 * time.Minute)
		demand(t, "forgetting the old one, by itself", actions(t, client, c, Options{Settle: time.Minute}),
			map[string]Action{"ca": Updated, "server": Updated, "admin": Updated, "kubeconfig": Updated})
		time.Sleep(2 * time.Minute)
		demand(t, "the end", actions(t, client, c, Options{Settle: time.Minute}), nil)
	})
}

func TestManualRotationGoesOnOnlyWhenAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		c := testConfig()
		c.Authorities[1].ManualRotation = true
		actions(t, client, c, Options{})
		step := Options{Rotate: []string{"etcd-ca"}, Settle: time.Minute}
		for _, want := range []Action{Updated, Renewed, Updated} {
			demand(t, "the step", actions(t, client, c, step), map[string]Action{"etcd-ca": want, "etcd": want})
			time.Sleep(time.Hour)
			demand(t, "a run by itself", actions(t, client, c, Options{Settle: time.Minute}), nil)
		}
	})
}

func TestInterruptedStepCountsFromItsRepair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		c := testConfig()
		actions(t, client, c, Options{})
		before := get(t, client, "server")
		step := Options{Rotate: []string{"ca"}, Settle: time.Minute}
		actions(t, client, c, step)
		// As if the process had ended before this was written.
		if _, err := client.CoreV1().Secrets(namespace).Update(t.Context(), before, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		demand(t, "the repair", actions(t, client, c, step), map[string]Action{"ca": Updated, "server": Updated})
		if _, err := Apply(t.Context(), client, c, step); err == nil {
			t.Error("the next step is taken at once")
		}
	})
}

func TestWritesOfOthersAreNotOverwritten(t *testing.T) {
	c := testConfig()
	client := fake.NewClientset()
	other := fake.NewClientset()
	actions(t, other, c, Options{})
	// Another command makes everything between reading and writing.
	raced := false
	client.PrependReactor("create", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if raced {
			return false, nil, nil
		}
		raced = true
		list, err := other.CoreV1().Secrets(namespace).List(context.Background(), metav1.ListOptions{})
		if err != nil {
			return true, nil, err
		}
		for _, secret := range list.Items {
			if err := client.Tracker().Add(&secret); err != nil {
				return true, nil, err
			}
		}
		return false, nil, nil
	})
	demand(t, "the run", actions(t, client, c, Options{}), nil)
	for _, name := range []string{"ca", "server", "kubeconfig"} {
		if !bytes.Equal(get(t, client, name).Data["tls.key"], get(t, other, name).Data["tls.key"]) {
			t.Errorf("%s is overwritten", name)
		}
	}
}

func TestConflictIsTriedAgainAndStepsAreTakenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testConfig()
		client := fake.NewClientset()
		actions(t, client, c, Options{})
		conflicts := 0
		client.PrependReactor("update", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
			secret := action.(clienttesting.UpdateAction).GetObject().(*corev1.Secret)
			if secret.Name != "server" || conflicts > 2 {
				return false, nil, nil
			}
			conflicts++
			return true, nil, apierrors.NewConflict(corev1.Resource("secrets"), secret.Name, nil)
		})
		want := map[string]Action{"ca": Updated, "server": Renewed, "admin": Renewed, "etcd": Renewed, "kubeconfig": Updated}
		demand(t, "the run", actions(t, client, c, Options{Rotate: []string{"ca"}, Renew: []string{All}}), want)
		results, err := Apply(t.Context(), client, c, Options{Settle: time.Hour})
		if err != nil || results[0].Rotation != certs.NewTrusted {
			t.Errorf("the rotation is at %+v: %v", results[0], err)
		}
	})
}

func TestKubeconfigOfCertificatesThatOthersMakeWaitsForThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := fake.NewClientset()
		actions(t, made, testConfig(), Options{})
		c := &Config{Namespace: namespace, Kubeconfig: testConfig().Kubeconfig}
		client := fake.NewClientset()
		if _, err := Apply(t.Context(), client, c, Options{Wait: time.Minute}); err == nil || !strings.Contains(err.Error(), "no tls.crt in Secret tripod/admin") {
			t.Errorf("without them: %v", err)
		}
		go func() {
			time.Sleep(30 * time.Second)
			assert.NoError(t, client.Tracker().Add(get(t, made, "admin")))
		}()
		demand(t, "the run", actions(t, client, c, Options{Wait: time.Minute}), map[string]Action{"kubeconfig": Created})
	})
}

func TestUnknownNamesAreRefused(t *testing.T) {
	for _, o := range []Options{{Renew: []string{"typo"}}, {Renew: []string{"ca"}}, {Rotate: []string{"server"}}} {
		if _, err := Apply(t.Context(), fake.NewClientset(), testConfig(), o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
