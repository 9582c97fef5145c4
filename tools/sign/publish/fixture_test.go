// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"crypto/elliptic"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/sigstore/sigstore/pkg/cryptoutils"

	"github.com/tripod-k8s/tripod/tools/sign/signing"
)

const helm = "../../../bin/tools/helm"

// components is the list of one platform: three programs and what they are linked from.
const components = `{"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "metadata": {"component": {"type": "application", "name": "tripod"}},
"components": [
	{"bom-ref": "tripod", "type": "application", "name": "tripod"},
	{"bom-ref": "tripod-core", "type": "application", "name": "tripod-core"},
	{"bom-ref": "tripod-search", "type": "application", "name": "tripod-search"},
	{"bom-ref": "pkg:golang/etcd", "type": "library", "name": "etcd"},
	{"bom-ref": "pkg:golang/sqlite", "type": "library", "name": "sqlite"}],
"dependencies": [
	{"ref": "tripod-v1.2.3", "dependsOn": ["tripod", "tripod-core", "tripod-search"]},
	{"ref": "tripod", "dependsOn": ["pkg:golang/etcd"]},
	{"ref": "tripod-core", "dependsOn": ["pkg:golang/etcd"]},
	{"ref": "tripod-search", "dependsOn": ["pkg:golang/sqlite"]}]}`

// newKey writes a private key and returns its file.
func newKey(t *testing.T) string {
	t.Helper()
	private, _, err := cryptoutils.GeneratePEMEncodedECDSAKeyPair(elliptic.P256(), nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "cosign.key")
	writeFile(t, path, private)
	return path
}

func writeFile(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// newRelease returns a directory with the images tripod (which also has tripod-core) and tripod-core, the real chart, and a signature.
// content is in the programs, so that another content makes another build.
func newRelease(t *testing.T, version, content, key string) string {
	t.Helper()
	dir := t.TempDir()
	for program, programs := range map[string][]string{"tripod": {"tripod", "tripod-core"}, "tripod-core": {"tripod-core"}} {
		writeImage(t, filepath.Join(dir, program+"-"+version+".oci.tar"), program, version, programs, content)
	}
	for _, platform := range []string{"linux-amd64", "linux-arm64"} {
		writeFile(t, filepath.Join(dir, "tripod-"+version+"-"+platform+".cdx.json"), []byte(components))
	}
	run := exec.CommandContext(t.Context(), helm, "package", "../../../deploy/helm/tripod",
		"--version="+strings.TrimPrefix(version, "v"), "--app-version="+version, "--destination="+dir)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("the test needs helm; `make bin/tools/helm` builds it: %v: %s", err, out)
	}
	sign(t, dir, key)
	return dir
}

// sign writes checksums of the files in dir, and signs them.
func sign(t *testing.T, dir, keyFile string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var sums strings.Builder
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), signing.ChecksumsFile) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), entry.Name())
	}
	writeFile(t, filepath.Join(dir, signing.ChecksumsFile), []byte(sums.String()))
	key, err := signing.ReadKey(keyFile)
	if err == nil {
		err = key.SignChecksums(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// writeImage writes an archive as command images does: an index of two platforms, with the name of the image.
func writeImage(t *testing.T, path, program, version string, programs []string, content string) {
	t.Helper()
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range []string{"amd64", "arm64"} {
		image := imageFor(t, architecture, version, programs, content)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}}})
	}
	dir := t.TempDir()
	written, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = written.AppendIndex(index, layout.WithAnnotations(map[string]string{nameAnnotation: "localhost/tripod-k8s/" + program + ":" + version}))
	}
	if err == nil {
		err = pack(dir, path)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func imageFor(t *testing.T, architecture, version string, programs []string, content string) v1.Image {
	t.Helper()
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.ConfigFile(image, &v1.ConfigFile{OS: "linux", Architecture: architecture, Config: v1.Config{Labels: map[string]string{
		"org.opencontainers.image.version": version, "org.opencontainers.image.revision": "0123abc",
		"org.opencontainers.image.source": "https://github.com/tripod-k8s/tripod",
	}}})
	for _, program := range programs {
		var layer bytes.Buffer
		archive := tar.NewWriter(&layer)
		text := program + " for " + architecture + ": " + content
		err = errors.Join(err, archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "usr/local/bin/" + program, Mode: 0o755, Size: int64(len(text))}))
		_, errOfContent := io.WriteString(archive, text)
		err = errors.Join(err, errOfContent, archive.Close())
		if err == nil {
			image, err = mutate.AppendLayers(image, static.NewLayer(layer.Bytes(), types.OCIUncompressedLayer))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// pack writes the files of a directory into an archive.
func pack(dir, path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(file)
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(name), Mode: 0o644, Size: int64(len(content))}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err = archive.Write(content)
		return err
	})
	return errors.Join(err, archive.Close(), file.Close())
}

// newRegistry starts a registry and returns its host. before may answer a request in its place, and then returns true.
func newRegistry(t *testing.T, referrers bool, before func(http.ResponseWriter, *http.Request) bool) string {
	t.Helper()
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(referrers))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if before == nil || !before(w, r) {
			handler.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}
