// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/base64"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"

	"github.com/tripod-k8s/tripod/e2e/imagearchive"
	"github.com/tripod-k8s/tripod/e2e/progress"
	"github.com/tripod-k8s/tripod/e2e/release"
)

// wardle is the namespace of an aggregated API server, both in the kind cluster and in Tripod.
const wardle = "wardle"

// aggregatedServer runs an aggregated API server as a pod of the kind cluster and uses its group through Tripod.
func aggregatedServer(t *testing.T, r *release.Release) {
	progress.Require(t, "load the image of an aggregated API server", func() error {
		archive := filepath.Join(env.Dir, "sample-apiserver.tar")
		err := imagearchive.Write(archive, "tripod-e2e/sample-apiserver:dev", "../bin/test-assets/sample-apiserver")
		if err == nil {
			_, err = env.Cluster.Load(archive)
		}
		return err
	})
	bundle, key, err := cert.GenerateSelfSignedCertKey(wardle+"."+wardle+".svc", nil, nil)
	require.NoError(t, err)
	_, err = r.Kubectl(t.Context(), testdata(t, "wardle-tripod.yaml", "$CA_BUNDLE", base64.StdEncoding.EncodeToString(bundle)), "apply", "-f", "-")
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, object := range []string{"apiservice/v1alpha1.wardle.example.com", "namespace/" + wardle} {
			if _, err := r.Kubectl(context.Background(), "", "delete", "--wait=false", object); err != nil {
				t.Error(err)
			}
		}
		assert.NoError(t, r.Host.Client.CoreV1().Namespaces().Delete(context.Background(), wardle, metav1.DeleteOptions{}))
	})
	user := &user{t: t, release: r, namespace: wardle}
	token := strings.TrimSpace(user.kubectl("", "create", "token", "server", "--duration=2h").out)
	hostWardle(t, r, map[string][]byte{"tls.crt": bundle, "tls.key": key, "kubeconfig": insideKubeconfig(t, r, token)})

	user.kubectl("", "wait", "--for=condition=Available", "apiservice/v1alpha1.wardle.example.com", "--timeout=90s")
	user.kubectl(`{apiVersion: wardle.example.com/v1alpha1, kind: Flunder, metadata: {name: f}, spec: {reference: g}}`, "apply", "-f", "-").contains("created")
	user.kubectl("", "get", "flunders").contains("f")
	user.kubectl("", "api-resources", "--api-group=wardle.example.com").contains("flunders", "fischers")
	user.kubectl("", "delete", "flunder", "f").contains("deleted")
}

// hostWardle runs the server in the kind cluster. The server finds files in a Secret.
func hostWardle(t *testing.T, r *release.Release, files map[string][]byte) {
	t.Helper()
	ctx, core := t.Context(), r.Host.Client.CoreV1()
	if _, err := core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: wardle}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: wardle}, Data: files}
	if _, err := core.Secrets(wardle).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	name, tag, err := env.Cluster.Image(ctx, "etcd")
	require.NoError(t, err)
	if _, err := r.HostKubectl(ctx, testdata(t, "wardle-host.yaml", "$ETCD_IMAGE", name+":"+tag), "apply", "--namespace", wardle, "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// insideKubeconfig returns a kubeconfig of Tripod for pods of the kind cluster.
func insideKubeconfig(t *testing.T, r *release.Release, token string) []byte {
	t.Helper()
	config := clientcmdapi.NewConfig()
	server := url.URL{Scheme: "https", Host: r.Name + "." + r.Namespace + ".svc"}
	config.Clusters["tripod"] = &clientcmdapi.Cluster{Server: server.String(), CertificateAuthorityData: r.Admin().CAData}
	config.AuthInfos["tripod"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["tripod"] = &clientcmdapi.Context{Cluster: "tripod", AuthInfo: "tripod"}
	config.CurrentContext = "tripod"
	data, err := clientcmd.Write(*config)
	require.NoError(t, err)
	return data
}

// testdata returns a file of testdata, with its variables replaced.
func testdata(t testing.TB, name string, oldnew ...string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return strings.NewReplacer(oldnew...).Replace(string(data))
}
