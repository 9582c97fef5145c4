// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework"
)

// user is a user of Tripod with kubectl and a namespace.
type user struct {
	t         testing.TB
	release   *release.Release
	namespace string
}

// result is the output of a command.
type result struct {
	t    testing.TB
	args []string
	out  string
}

func newUser(t testing.TB, r *release.Release) *user {
	t.Helper()
	u := &user{t: t, release: r, namespace: "default"}
	name := framework.UniqueName("user")
	u.kubectl("", "create", "namespace", name)
	u.namespace = name
	return u
}

// kubectl runs kubectl and fails the test if it fails.
func (u *user) kubectl(stdin string, args ...string) result {
	u.t.Helper()
	out, err := u.release.Kubectl(u.t.Context(), stdin, append([]string{"--namespace", u.namespace}, args...)...)
	if err != nil {
		u.t.Fatal(err)
	}
	return result{u.t, args, out}
}

// contains expects words in the output.
func (s result) contains(words ...string) {
	s.t.Helper()
	for _, word := range words {
		if !strings.Contains(s.out, word) {
			s.t.Errorf("kubectl %s: %q is not in the output:\n%s", strings.Join(s.args, " "), word, s.out)
		}
	}
}
