// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package attacks

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
)

// newReader returns a user who may read the ConfigMaps of a new namespace. size is their total size in MiB.
func newReader(t *testing.T, size int) (user *rest.Config, path string) {
	t.Helper()
	namespace := framework.CreateNamespace(t, fleet.Cluster)
	client := kubernetes.NewForConfigOrDie(fleet.Admin())
	_, err := client.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = client.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: namespace}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "large-"}, Data: map[string]string{"a": strings.Repeat("x", mebi-1<<10)}}
	for range size {
		if _, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	user, err = fleet.UserConfig(namespace)
	require.NoError(t, err)
	path = "/api/v1/namespaces/" + namespace + "/configmaps"
	reader := kubernetes.NewForConfigOrDie(user)
	framework.Eventually(t, "the attacker may read", func(ctx context.Context) error {
		_, err := reader.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{Limit: 1})
		return err
	})
	return user, path
}

// lasts is how long an attack continues once all attackers take part.
var lasts = inFull(time.Minute, 3*time.Second)

// attackers opens connections as a user. It sends requests on each, and grants the server a window for each answer.
func attackers(t *testing.T, user *rest.Config, connections, requests int, window uint32, path string) []*attacker {
	t.Helper()
	var all []*attacker
	for range connections {
		a := attack(t, user, window)
		all = append(all, a)
		for range requests {
			a.request(t, http.MethodGet, path, true)
		}
	}
	return all
}

// report prints what attackers received, and returns how often they received each status.
func report(t *testing.T, all []*attacker) map[int]int {
	t.Helper()
	total, broken := map[int]int{}, 0
	for _, a := range all {
		answers, resets := a.got()
		broken += resets
		for status, n := range answers {
			total[status] += n
		}
	}
	t.Logf("the attacker got %v, and the server broke off %d", total, broken)
	return total
}

func TestAnswersThatNobodyReads(t *testing.T) {
	user, path := newReader(t, 5)
	newOthers(t).during(t, func() {
		all := attackers(t, user, 4, inFull(100, 50), 0, path)
		time.Sleep(lasts)
		assert.NotZero(t, report(t, all)[http.StatusOK], "nothing was attacked")
	})
}

func TestWatchesThatNobodyReads(t *testing.T) {
	user, path := newReader(t, 1)
	newOthers(t).during(t, func() {
		all := attackers(t, user, 4, inFull(100, 25), 0, path+"?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
		time.Sleep(lasts)
		assert.NotZero(t, report(t, all)[http.StatusOK], "nothing was attacked")
	})
}

func TestManyWatches(t *testing.T) {
	user, path := newReader(t, 0)
	newOthers(t).during(t, func() {
		all := attackers(t, user, inFull(200, 15), 100, 64<<10, path+"?watch=true")
		time.Sleep(lasts)
		got := report(t, all)
		assert.NotZero(t, got[http.StatusOK], "nothing was attacked")
		assert.NotZero(t, got[http.StatusTooManyRequests], "a user has as many watches as it likes")
	})
}

// TestSlowReaders reads 1 KiB per second of each answer.
func TestSlowReaders(t *testing.T) {
	user, path := newReader(t, inFull(100, 10))
	newOthers(t).during(t, func() {
		all := attackers(t, user, 50, 1, 1<<10, path)
		for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(time.Second) {
			for _, a := range all {
				a.send(t, func() error { return a.framer.WriteWindowUpdate(1, 1<<10) })
			}
		}
		assert.NotZero(t, report(t, all)[http.StatusOK], "nothing was attacked")
	})
}

// TestSlowWriters starts bodies and does not finish them.
func TestSlowWriters(t *testing.T) {
	user, path := newReader(t, 0)
	newOthers(t).during(t, func() {
		var all []*attacker
		for range 4 {
			a := attack(t, user, 0)
			all = append(all, a)
			for range inFull(100, 25) {
				stream := a.request(t, http.MethodPost, path, false, hpack.HeaderField{Name: "content-type", Value: "application/json"})
				a.send(t, func() error { return a.framer.WriteData(stream, false, make([]byte, 16<<10)) })
			}
		}
		time.Sleep(lasts)
		report(t, all)
		for _, a := range all {
			assert.False(t, a.isGone(), "nothing was attacked")
		}
	})
}

// TestSlowHeaders opens connections and never finishes the headers of the first request.
func TestSlowHeaders(t *testing.T) {
	newOthers(t).during(t, func() {
		var all []*tls.Conn
		for range inFull(1000, 200) {
			conn := dial(t, fleet.Anonymous(), "http/1.1")
			_, err := io.WriteString(conn, "GET /version HTTP/1.1\r\nHost: localhost\r\n")
			require.NoError(t, err)
			all = append(all, conn)
		}
		for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(time.Second) {
			for _, conn := range all {
				_, _ = io.WriteString(conn, "X-A: a\r\n") // the server closes the connection at some point
			}
		}
	})
}

// TestRapidReset cancels every request at once (CVE-2023-44487).
func TestRapidReset(t *testing.T) {
	user, path := newReader(t, 1)
	for name, begin := range map[string]func(*attacker) uint32{
		"reads":   func(a *attacker) uint32 { return a.request(t, http.MethodGet, path, true) },
		"watches": func(a *attacker) uint32 { return a.request(t, http.MethodGet, path+"?watch=true", true) },
		"writes": func(a *attacker) uint32 {
			stream := a.request(t, http.MethodPost, path, false, hpack.HeaderField{Name: "content-type", Value: "application/json"})
			a.send(t, func() error { return a.framer.WriteData(stream, false, []byte("{")) })
			return stream
		},
	} {
		t.Run(name, func(t *testing.T) {
			newOthers(t).during(t, func() {
				var closed atomic.Int64
				var attacking sync.WaitGroup
				for range inFull(4, 2) {
					attacking.Go(func() {
						for end := time.Now().Add(lasts); time.Now().Before(end); {
							a := attack(t, user, 0)
							for range inFull(1000, 400) {
								stream := begin(a)
								a.send(t, func() error { return a.framer.WriteRSTStream(stream, http2.ErrCodeCancel) })
							}
							if a.isGone() {
								closed.Add(1)
							}
							_ = a.conn.Close() // unless the server has closed it
						}
					})
				}
				attacking.Wait()
				t.Logf("the server closed %d connections", closed.Load())
			})
		})
	}
}

func TestIdleConnections(t *testing.T) {
	newOthers(t).during(t, func() {
		for range inFull(10_000, 500) {
			attack(t, fleet.Anonymous(), 0)
		}
		time.Sleep(lasts)
	})
}

// TestSilentConnections never starts the TLS handshake.
func TestSilentConnections(t *testing.T) {
	newOthers(t).during(t, func() {
		for range inFull(10_000, 1000) {
			connect(t, fleet.Anonymous())
		}
		time.Sleep(lasts)
	})
}

// TestUnfinishedHeaders sends a large part of a header block, but not its end.
func TestUnfinishedHeaders(t *testing.T) {
	newOthers(t).during(t, func() {
		for range inFull(2000, 300) {
			attack(t, fleet.Anonymous(), 0).beginHeaders(t, 900<<10)
		}
		time.Sleep(lasts)
	})
}
