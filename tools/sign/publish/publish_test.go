// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/tripod-k8s/tripod/tools/sign/signing"
)

const version = "v1.2.3"

// publish runs the command with a key.
func publish(t *testing.T, host, key, dir string) error {
	t.Helper()
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	return run(t.Context(), []string{"-registry", host + "/team", "-key", key, dir})
}

// tags returns all tags below /team in a registry, each with its path.
func tags(t *testing.T, host string) []string {
	t.Helper()
	var all []string
	for _, path := range []string{"tripod", "tripod-core", "charts/tripod"} {
		repository, err := name.NewRepository(host + "/team/" + path)
		if err != nil {
			t.Fatal(err)
		}
		found, err := remote.List(repository)
		if err != nil {
			continue // nothing is there
		}
		for _, tag := range found {
			if !strings.HasPrefix(tag, "sha256-") { // referrers in a registry without the API for them
				all = append(all, path+":"+tag)
			}
		}
	}
	return all
}

// verified returns the kinds of claims about something that the owner of a key signed.
func verified(t *testing.T, reference name.Reference, about v1.Hash, key string) []string {
	t.Helper()
	private, err := signing.ReadKey(key)
	if err != nil {
		t.Fatal(err)
	}
	by, err := private.Signer()
	if err != nil {
		t.Fatal(err)
	}
	kinds, err := newPublication(nil, by, io.Discard).signed(t.Context(), item{repository: reference.Context()}, about)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(kinds))
}

func parseReference(t *testing.T, reference string) name.Reference {
	t.Helper()
	parsed, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestEverythingInTheRegistryIsSigned(t *testing.T) {
	for name, referrers := range map[string]bool{"a registry with referrers": true, "an older registry": false} {
		t.Run(name, func(t *testing.T) {
			host, key := newRegistry(t, referrers, nil), newKey(t)
			dir := newRelease(t, version, "content", key)
			for range 2 { // the second time nothing is left to do
				if err := publish(t, host, key, dir); err != nil {
					t.Fatal(err)
				}
			}
			want := []string{"tripod:v1.2.3", "tripod-core:v1.2.3", "charts/tripod:1.2.3"}
			if got := tags(t, host); !slices.Equal(got, want) {
				t.Fatalf("the registry has %q, want %q", got, want)
			}
			for _, tag := range want {
				reference := parseReference(t, host+"/team/"+tag)
				root, err := remote.Head(reference)
				if err != nil {
					t.Fatal(err)
				}
				if got, want := verified(t, reference, root.Digest, key), []string{signing.Signature, signing.Provenance}; !slices.Equal(got, want) {
					t.Errorf("%s has %q, want %q", tag, got, want)
				}
				if got := verified(t, reference, root.Digest, newKey(t)); len(got) > 0 {
					t.Errorf("%s has %q of another key", tag, got)
				}
				if !root.MediaType.IsIndex() {
					continue
				}
				index, err := remote.Index(reference)
				if err != nil {
					t.Fatal(err)
				}
				platforms, err := index.IndexManifest()
				if err != nil || len(platforms.Manifests) != 2 {
					t.Fatalf("%s has the platforms %v: %v", tag, platforms, err)
				}
				for _, platform := range platforms.Manifests {
					if got := verified(t, reference, platform.Digest, key); !slices.Equal(got, []string{signing.SBOM}) {
						t.Errorf("%s for %s has %q, want the SBOM", tag, platform.Platform, got)
					}
				}
			}
		})
	}
}

// helmPrints returns what a command of helm prints about the chart in a registry.
func helmPrints(t *testing.T, command, argument, host string, more ...string) string {
	t.Helper()
	args := append([]string{command, argument, "oci://" + host + "/team/charts/tripod", "--version=1.2.3", "--plain-http"}, more...)
	run := exec.CommandContext(t.Context(), helm, args...)
	run.Env = append(os.Environ(), "HELM_CACHE_HOME="+t.TempDir())
	output, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return string(output)
}

func TestHelmInstallsTheChartWithTheDigests(t *testing.T) {
	host, key := newRegistry(t, true, nil), newKey(t)
	if err := publish(t, host, key, newRelease(t, version, "content", key)); err != nil {
		t.Fatal(err)
	}
	rendered := helmPrints(t, "template", "tripod", host, "--kube-version=1.36.0")
	for _, program := range []string{"tripod", "tripod-core"} {
		reference := fmt.Sprintf("%s/team/%s:%s", host, program, version)
		image, err := remote.Head(parseReference(t, reference))
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("image: %s@%s\n", reference, image.Digest); !strings.Contains(rendered, want) {
			t.Errorf("no container has %q", want)
		}
	}
	if strings.Contains(rendered, "image: localhost/") {
		t.Error("a container has an image at localhost")
	}
	shown := helmPrints(t, "show", "chart", host)
	if want := "image: " + host + "/team/tripod-core:v1.2.3"; !strings.Contains(shown, want) || !strings.Contains(shown, "platforms: [linux/amd64, linux/arm64]") {
		t.Errorf("Artifact Hub would not find %q in\n%s", want, shown)
	}
}

// TestATagNeverNamesHalfOfARelease has a registry refuse one manifest after the other. None of it must ever look like a release.
func TestATagNeverNamesHalfOfARelease(t *testing.T) {
	key := newKey(t)
	dir := newRelease(t, version, "content", key)
	for refused := 0; ; refused++ {
		writes := 0
		host := newRegistry(t, true, func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/manifests/") {
				return false
			}
			writes++
			if writes-1 != refused {
				return false
			}
			w.WriteHeader(http.StatusForbidden)
			return true
		})
		err := publish(t, host, key, dir)
		if err == nil {
			// Two indexes of two images, a chart, ten claims about them, and three tags.
			if refused != 20 {
				t.Errorf("a release takes %d manifests, want 20", refused)
			}
			return
		}
		if strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "`docker login "+host+"`") {
			t.Errorf("the error at manifest %d is %q, want one line that says what to do", refused, err)
		}
		for _, tag := range tags(t, host) {
			if strings.HasPrefix(tag, "charts/") {
				t.Errorf("after manifest %d was refused, the chart has a tag: %q", refused, tags(t, host))
			}
			reference := parseReference(t, host+"/team/"+tag)
			root, err := remote.Head(reference)
			if err != nil {
				t.Fatal(err)
			}
			if got := verified(t, reference, root.Digest, key); len(got) != 2 {
				t.Errorf("after manifest %d was refused, %s has a tag and only %q", refused, tag, got)
			}
		}
	}
}

func TestAVersionNeverChanges(t *testing.T) {
	host, key := newRegistry(t, true, nil), newKey(t)
	if err := publish(t, host, key, newRelease(t, version, "content", key)); err != nil {
		t.Fatal(err)
	}
	before, err := remote.Head(parseReference(t, host+"/team/tripod-core:v1.2.3"))
	if err != nil {
		t.Fatal(err)
	}
	if err := publish(t, host, key, newRelease(t, version, "other content", key)); err == nil || !strings.Contains(err.Error(), "is another build already") {
		t.Errorf("another build of the same version: %v", err)
	}
	after, err := remote.Head(parseReference(t, host+"/team/tripod-core:v1.2.3"))
	if err != nil || after.Digest != before.Digest {
		t.Errorf("the tag names %v (%v), before %v", after, err, before)
	}
}

func TestBadInputIsOneLine(t *testing.T) {
	key := newKey(t)
	dir := newRelease(t, version, "content", key)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	page := func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/v2/" {
			return false
		}
		w.WriteHeader(http.StatusNotImplemented)
		io.WriteString(w, strings.Repeat("<p>\n", 10000)) //nolint:errcheck // to a client that is there
		return true
	}
	changed := newRelease(t, version, "content", key)
	writeFile(t, filepath.Join(changed, "tripod-1.2.3.tgz"), []byte("another chart"))
	unsigned := newRelease(t, version, "content", key)
	if err := os.Remove(filepath.Join(unsigned, "checksums.txt.sigstore.json")); err != nil {
		t.Fatal(err)
	}
	incomplete := newRelease(t, version, "content", key)
	if err := os.Remove(filepath.Join(incomplete, "tripod-v1.2.3-linux-arm64.cdx.json")); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no registry is there":      {[]string{"-registry", closed, "-key", key, dir}, "cannot reach the registry " + closed},
		"it is no registry":         {[]string{"-registry", newRegistry(t, true, page), "-key", key, dir}, "cannot push to "},
		"a name without a registry": {[]string{"-registry", "team", "-key", key, dir}, "names no registry"},
		"a registry with a scheme":  {[]string{"-registry", "https://registry.example.com/team", "-key", key, dir}, "names no registry"},
		"capitals in the path":      {[]string{"-registry", "registry.example.com/Team", "-key", key, dir}, "cannot read the image"},
		"no key":                    {[]string{"-registry", closed, dir}, "everything in a registry is signed"},
		"another key signed":        {[]string{"-registry", closed, "-key", newKey(t), dir}, "is not what the signer signed"},
		"a file changed":            {[]string{"-registry", closed, "-key", key, changed}, "tripod-1.2.3.tgz is not the file of the release"},
		"no signature":              {[]string{"-registry", closed, "-key", key, unsigned}, "cannot read the signature"},
		"a file is absent":          {[]string{"-registry", closed, "-key", key, incomplete}, "has not all files of the release: tripod-v1.2.3-linux-arm64.cdx.json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("DOCKER_CONFIG", t.TempDir())
			err := run(t.Context(), test.args)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 600 {
				t.Errorf("the error is %v, want one line with %q", err, test.want)
			}
		})
	}
}

func TestTheListOfAnImageIsOfItsPrograms(t *testing.T) {
	predicate, err := componentsOf([]byte(components), "tripod-core", version, []string{"tripod-core"})
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Metadata struct {
			Component struct{ Type, Name, Version string }
		}
		Components []struct{ Name string }
	}
	if err := json.Unmarshal(predicate, &list); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, component := range list.Components {
		names = append(names, component.Name)
	}
	if want := []string{"tripod-core", "etcd"}; !slices.Equal(names, want) || list.Metadata.Component.Type != "container" {
		t.Errorf("the list of %v has %q, want %q", list.Metadata.Component, names, want)
	}
	if _, err := componentsOf([]byte(components), "x", version, []string{"tripod-core", "unknown"}); err == nil {
		t.Error("a program is not in the list")
	}
}

// TestTagsWaitForSignatures is what the workflow does in steps: between push and tag, cosign signs.
func TestTagsWaitForSignatures(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	host, keyFile := newRegistry(t, true, nil), newKey(t)
	key, err := signing.ReadKey(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	by, err := key.Signer()
	if err != nil {
		t.Fatal(err)
	}
	items, err := read(newRelease(t, version, "content", keyFile), t.TempDir(), host+"/team", defaultBuilder)
	if err != nil {
		t.Fatal(err)
	}
	p, claims := newPublication(items, by, io.Discard), t.TempDir()
	if err := p.push(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.tag(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing has a tag") || len(tags(t, host)) > 0 {
		t.Fatalf("without signatures: %v, tags %q", err, tags(t, host))
	}
	if err := p.writeClaims(claims); err != nil {
		t.Fatal(err)
	}
	signClaims(t, p, key, claims)
	if err := p.tag(t.Context()); err != nil || len(tags(t, host)) != 3 {
		t.Fatalf("with signatures: %v, tags %q", err, tags(t, host))
	}
}

// signClaims signs what a file lists, as the workflow has cosign do.
func signClaims(t *testing.T, p publication, key signing.Key, dir string) {
	t.Helper()
	list, err := os.ReadFile(filepath.Join(dir, "claims.txt"))
	if err != nil {
		t.Fatal(err)
	}
	long := map[string]string{}
	for kind, short := range shortKinds {
		long[short] = kind
	}
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		predicate, err := os.ReadFile(filepath.Join(dir, fields[2]))
		if err != nil {
			t.Fatal(err)
		}
		reference := parseReference(t, fields[1])
		about, err := v1.NewHash(reference.Identifier())
		if err != nil {
			t.Fatal(err)
		}
		bundle, err := key.Attest(long[fields[0]], "", about.String(), predicate)
		if err == nil {
			err = p.attach(context.WithoutCancel(t.Context()), item{repository: reference.Context()}, claim{long[fields[0]], about, predicate}, bundle)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
