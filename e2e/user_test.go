// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework"
)

// user is somebody with kubectl and a namespace of Tripod.
type user struct {
	t         testing.TB
	release   *release.Release
	namespace string
}

// said is what a command has answered.
type said struct {
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

// kubectl runs a command, which must succeed.
func (u *user) kubectl(stdin string, args ...string) said {
	u.t.Helper()
	out, err := u.release.Kubectl(u.t.Context(), stdin, append([]string{"--namespace", u.namespace}, args...)...)
	if err != nil {
		u.t.Fatal(err)
	}
	return said{u.t, args, out}
}

// says expects words in the answer.
func (s said) says(words ...string) {
	s.t.Helper()
	for _, word := range words {
		if !strings.Contains(s.out, word) {
			s.t.Errorf("kubectl %s: there is nothing of %q in:\n%s", strings.Join(s.args, " "), word, s.out)
		}
	}
}
