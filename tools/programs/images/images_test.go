// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

var committed = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

var testBuild = build{repository: "tripod-k8s", version: "v1.2.3+4", revision: "abc", created: committed}

// testBinaries returns a directory with the test's own binary in place of each of Tripod's.
func testBinaries(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return copies(t, self)
}

// copies returns a directory with binary in place of each of Tripod's.
func copies(t *testing.T, binary string) string {
	t.Helper()
	content, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, s := range images(t) {
		for _, name := range s.binaries {
			if !isLinked(name) {
				err = os.WriteFile(filepath.Join(dir, name), content, 0o700)
			} else if _, missing := os.Lstat(filepath.Join(dir, name)); missing != nil {
				err = os.Symlink("tripod-services", filepath.Join(dir, name))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// isLinked reports whether `make build` makes a link of this name.
func isLinked(program string) bool {
	return slices.Contains([]string{"tripod-aggregator", "tripod-core", "tripod-extensions"}, program)
}

func images(t *testing.T) []spec {
	t.Helper()
	services, err := readServices("../../../deploy/helm/tripod/services.json")
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile("../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)^COMMANDS := (.+)$`).FindSubmatch(makefile)
	if commands == nil {
		t.Fatal("the Makefile has no list of commands")
	}
	return imagesOf(services, strings.Fields(string(commands[1])))
}

func imageNamed(t *testing.T, name string) spec {
	t.Helper()
	all := images(t)
	i := slices.IndexFunc(all, func(s spec) bool { return s.name == name })
	if i < 0 {
		t.Fatalf("there is no image %s", name)
	}
	return all[i]
}

// archiveOf returns the archive of an image whose binaries are in directories, one for each platform.
func archiveOf(t *testing.T, s spec, directories ...string) []byte {
	t.Helper()
	var platforms []v1.Image
	for _, directory := range directories {
		image, err := testBuild.image(s, directory, layers{})
		if err != nil {
			t.Fatal(err)
		}
		platforms = append(platforms, image)
	}
	path := filepath.Join(t.TempDir(), "image.tar")
	_, size, err := writeArchive(path, testBuild.reference(s), platforms)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if size != int64(len(content)) {
		t.Errorf("the manifest has size %d, the file %d", size, len(content))
	}
	return content
}

func TestSameBinariesGiveSameBytes(t *testing.T) {
	for _, s := range images(t) {
		t.Run(s.name, func(t *testing.T) {
			// Two directories: their files have other times and other owners can have made them.
			first, second := testBinaries(t), testBinaries(t)
			old := committed.Add(-time.Hour)
			if err := os.Chtimes(filepath.Join(first, s.binaries[0]), old, old); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Join(first, s.binaries[0]), 0o755); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(archiveOf(t, s, first), archiveOf(t, s, second)) {
				t.Error("archives differ")
			}
		})
	}
}

func TestFilesBelongToRootAndHaveTheTimeOfTheCommit(t *testing.T) {
	image, err := testBuild.image(imageNamed(t, "tripod"), testBinaries(t), layers{})
	if err != nil {
		t.Fatal(err)
	}
	files := filesOf(t, image)
	for name, header := range files {
		if header.Uid != 0 || header.Gid != 0 || header.Uname != "" || !header.ModTime.Equal(committed) {
			t.Errorf("%s: owner %d:%d %q, time %s", name, header.Uid, header.Gid, header.Uname, header.ModTime)
		}
	}
	for name, mode := range map[string]int64{
		"tmp/": 0o1777, "etc/ssl/certs/ca-certificates.crt": 0o644, "etc/passwd": 0o644,
		"usr/local/bin/tripod": 0o755, "usr/local/bin/tripod-supervisor": 0o755, "usr/local/bin/tripod-services": 0o755,
	} {
		if header := files[name]; header == nil || header.Mode != mode {
			t.Errorf("%s is %+v, want mode %o", name, header, mode)
		}
	}
	for name, target := range map[string]string{
		"kube-apiserver": "tripod", "tripod-core": "tripod-services", "tripod-aggregator": "tripod-services", "tripod-extensions": "tripod-services",
	} {
		if link := files["usr/local/bin/"+name]; link == nil || link.Linkname != target {
			t.Errorf("%s is %+v, want a link to %s", name, link, target)
		}
	}
}

func TestImagesShareTheLayerOfTheirProgram(t *testing.T) {
	binaries, shared := testBinaries(t), layers{}
	var digests []string
	for _, name := range []string{"tripod-core", "tripod-aggregator"} {
		image, err := testBuild.image(imageNamed(t, name), binaries, shared)
		if err != nil {
			t.Fatal(err)
		}
		stack, err := image.Layers()
		if err != nil {
			t.Fatal(err)
		}
		digest, err := stack[1].Digest()
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if want := "/usr/local/bin/" + name; !slices.Equal(config.Config.Entrypoint, []string{want}) {
			t.Errorf("the entrypoint is %q, want %s", config.Config.Entrypoint, want)
		}
		digests = append(digests, digest.String())
	}
	if digests[0] != digests[1] {
		t.Errorf("the layers of one program differ: %q", digests)
	}
}

func TestALinkToAnotherDirectoryIsRefused(t *testing.T) {
	binaries := testBinaries(t)
	core := filepath.Join(binaries, "tripod-core")
	if err := errors.Join(os.Remove(core), os.Symlink("/usr/bin/env", core)); err != nil {
		t.Fatal(err)
	}
	_, err := testBuild.image(imageNamed(t, "tripod-core"), binaries, layers{})
	if want := "tripod-core is a link to /usr/bin/env, which is not beside it"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func filesOf(t *testing.T, image v1.Image) map[string]*tar.Header {
	t.Helper()
	stack, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*tar.Header{}
	for _, layer := range stack {
		content, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		for reader := tar.NewReader(content); ; {
			header, err := reader.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			files[header.Name] = header
		}
	}
	return files
}

func TestServicesDoNotRunAsRoot(t *testing.T) {
	binaries := testBinaries(t)
	for _, s := range images(t) {
		image, err := testBuild.image(s, binaries, layers{})
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		wantUser := "65532:65532"
		if s.name == "tripod" {
			wantUser = "" // the node's keys are root's
		}
		if config.Config.User != wantUser {
			t.Errorf("%s runs as %q, want %q", s.name, config.Config.User, wantUser)
		}
		if want := []string{"/usr/local/bin/" + s.name}; !slices.Equal(config.Config.Entrypoint, want) {
			t.Errorf("%s runs %v, want %v", s.name, config.Config.Entrypoint, want)
		}
		if config.OS != "linux" || config.Architecture == "" {
			t.Errorf("%s is for %s/%s", s.name, config.OS, config.Architecture)
		}
		for label, want := range map[string]string{"version": "v1.2.3+4", "revision": "abc", "licenses": "Apache-2.0", "title": s.title} {
			if got := config.Config.Labels["org.opencontainers.image."+label]; got != want {
				t.Errorf("%s: label %s is %q, want %q", s.name, label, got, want)
			}
		}
	}
}

func TestEveryLoaderFindsTheName(t *testing.T) {
	entries := entriesOf(t, archiveOf(t, imageNamed(t, "tripod-core"), testBinaries(t)))
	var index v1.IndexManifest
	unmarshal(t, entries["index.json"], &index)
	if got := index.Manifests[0].Annotations["io.containerd.image.name"]; got != "docker.io/tripod-k8s/tripod-core:v1.2.3_4" {
		t.Errorf("to containerd it is %q", got)
	}
	var manifest v1.Manifest
	unmarshal(t, entries[blob(index.Manifests[0].Digest)], &manifest)
	var docker []dockerManifest
	unmarshal(t, entries["manifest.json"], &docker)
	if got := docker[0].RepoTags; !slices.Equal(got, []string{"tripod-k8s/tripod-core:v1.2.3_4"}) {
		t.Errorf("to Docker it is %q", got)
	}
	for i, layer := range manifest.Layers {
		path := blob(layer.Digest)
		if docker[0].Layers[i] != path || int64(len(entries[path])) != layer.Size {
			t.Errorf("layer %d is %s with %d bytes, to Docker %s", i, path, len(entries[path]), docker[0].Layers[i])
		}
	}
	if docker[0].Config != blob(manifest.Config.Digest) || len(entries[docker[0].Config]) == 0 {
		t.Errorf("config is %s, to Docker %s", blob(manifest.Config.Digest), docker[0].Config)
	}
}

// entriesOf returns the files of an archive by name.
func entriesOf(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	entries := map[string][]byte{}
	for reader := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return entries
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := entries[header.Name]; twice {
			t.Errorf("%s is in the archive twice", header.Name)
		}
		if entries[header.Name], err = io.ReadAll(reader); err != nil {
			t.Fatal(err)
		}
	}
}

func TestImageForTwoPlatforms(t *testing.T) {
	entries := entriesOf(t, archiveOf(t, imageNamed(t, "tripod-core"), copies(t, builtFor(t, "amd64")), copies(t, builtFor(t, "arm64"))))
	var layout, image v1.IndexManifest
	unmarshal(t, entries["index.json"], &layout)
	if len(layout.Manifests) != 1 || layout.Manifests[0].MediaType != types.OCIImageIndex {
		t.Fatalf("the layout has %+v, want one index", layout.Manifests)
	}
	if got := layout.Manifests[0].Annotations["io.containerd.image.name"]; got != "docker.io/tripod-k8s/tripod-core:v1.2.3_4" {
		t.Errorf("to containerd it is %q", got)
	}
	unmarshal(t, entries[blob(layout.Manifests[0].Digest)], &image)
	var docker []dockerManifest
	unmarshal(t, entries["manifest.json"], &docker)
	if len(image.Manifests) != 2 || len(docker) != 2 {
		t.Fatalf("index has %d platforms, manifest.json %d; want 2", len(image.Manifests), len(docker))
	}
	for i, architecture := range []string{"amd64", "arm64"} {
		if got := image.Manifests[i].Platform; got == nil || got.String() != "linux/"+architecture {
			t.Errorf("platform %d is %v, want linux/%s", i, got, architecture)
		}
		var manifest v1.Manifest
		unmarshal(t, entries[blob(image.Manifests[i].Digest)], &manifest)
		for _, layer := range manifest.Layers {
			if int64(len(entries[blob(layer.Digest)])) != layer.Size {
				t.Errorf("layer %s of %s is not in the archive", layer.Digest, architecture)
			}
		}
		var config v1.ConfigFile
		unmarshal(t, entries[blob(manifest.Config.Digest)], &config)
		if config.Architecture != architecture {
			t.Errorf("image %d is for %s, want %s", i, config.Architecture, architecture)
		}
		if got := docker[i].RepoTags; !slices.Equal(got, []string{"tripod-k8s/tripod-core:v1.2.3_4-" + architecture}) {
			t.Errorf("to Docker platform %d is %q", i, got)
		}
	}
}

func unmarshal(t *testing.T, content []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(content, into); err != nil {
		t.Fatalf("%v in %q", err, content)
	}
}

// builtFor returns a binary for an architecture.
func builtFor(t *testing.T, architecture string) string {
	t.Helper()
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", binary, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+architecture)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return binary
}

func TestReference(t *testing.T) {
	for repository, want := range map[string]string{
		"tripod-k8s":              "docker.io/tripod-k8s/tripod:v1",
		"ghcr.io/tripod-k8s":      "ghcr.io/tripod-k8s/tripod:v1",
		"localhost:5000/anything": "localhost:5000/anything/tripod:v1",
		"localhost/anything":      "localhost/anything/tripod:v1",
	} {
		if got := newReference(repository+"/tripod", "v1").String(); got != want {
			t.Errorf("%s: %s, want %s", repository, got, want)
		}
	}
}

func TestTag(t *testing.T) {
	for version, want := range map[string]string{
		"v0.1.0": "v0.1.0", "v0.1.0-3-gabc1234-dirty": "v0.1.0-3-gabc1234-dirty", "v1.36.3+tripod.1": "v1.36.3_tripod.1",
	} {
		if got := tag(version); got != want {
			t.Errorf("%s: %s, want %s", version, got, want)
		}
	}
}

func TestBinaryOfAnotherKindIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tripod")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := binaryPlatform(path); err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("error is %v", err)
	}
}

// TestTheDropInHasTheNameOfKubeAPIServer checks the image that Kamaji takes by `make image-kube-apiserver`.
func TestTheDropInHasTheNameOfKubeAPIServer(t *testing.T) {
	s := dropInOf(imageNamed(t, "tripod"), "v1.37.2")
	if got, want := testBuild.reference(s).String(), "docker.io/tripod-k8s/kube-apiserver:v1.37.2"; got != want {
		t.Errorf("the image is %s, want %s", got, want)
	}
	if !slices.Equal(s.links, []string{"kube-apiserver"}) || s.user != "" {
		t.Errorf("the command of Kamaji's pods needs a program kube-apiserver that may read the keys of root: %+v", s)
	}
	content := archiveOf(t, s, testBinaries(t))
	if !bytes.Contains(content, []byte("tripod-k8s/kube-apiserver:v1.37.2")) {
		t.Error("the archive has another name")
	}
}
