// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

const helm = "../../../bin/tools/helm"

var committed = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// program is the path of a small binary, which stands for each of Tripod's.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "release-")
	if err == nil {
		program = filepath.Join(dir, "program")
		var output []byte
		if output, err = exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "./testdata/program").CombinedOutput(); err != nil {
			err = fmt.Errorf("%w: %s", err, output)
		}
	}
	code := 1
	if err == nil {
		code = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// linked are the programs that are links.
var linked = []string{"tripod-aggregator", "tripod-core", "tripod-extensions"}

// testRelease has a small binary in place of each of Tripod's. Its files are written anew each time.
func testRelease(t *testing.T) release {
	t.Helper()
	dir := t.TempDir()
	r := release{
		version: "v1.2.3+4", created: committed, services: []string{"aggregator", "core", "extensions", "search"},
		commands: []string{"tripod", "tripod-supervisor", "tripod-services"},
		binaries: filepath.Join(dir, "binaries"), platforms: []string{"linux-amd64", "linux-arm64"},
		images: filepath.Join(dir, "images"), chart: "../../../deploy/helm/tripod", helm: helm,
		documents: []string{"../../../LICENSE", "../../../README.md"}, output: filepath.Join(dir, "dist"),
	}
	for _, name := range r.programs() {
		for _, platform := range r.platforms {
			makeFile(t, r.binary(platform, name), func(path string) error {
				if slices.Contains(linked, name) {
					return os.Symlink("tripod-services", path)
				}
				return copyFile(program, path)
			})
		}
		makeFile(t, filepath.Join(r.images, name+".tar"), func(path string) error {
			return os.WriteFile(path, testImage(t, name), 0o600)
		})
	}
	makeFile(t, filepath.Join(r.images, "tag"), func(path string) error { return os.WriteFile(path, []byte("v1.2.3_4\n"), 0o600) })
	return r
}

// testImage returns an archive with an index, as an image has.
func testImage(t *testing.T, program string) []byte {
	t.Helper()
	var b bytes.Buffer
	archive := tar.NewWriter(&b)
	index := []byte(`{"manifests": [{"digest": "sha256:of-` + program + `"}]}`)
	err := archive.WriteHeader(&tar.Header{Name: "index.json", Mode: 0o644, Size: int64(len(index))})
	_, errOfContent := archive.Write(index)
	if err := errors.Join(err, errOfContent, archive.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestTheDigestsAreValuesOfTheChart(t *testing.T) {
	r := testRelease(t)
	got := string(written(t, r)["tripod-v1.2.3+4-digests.yaml"])
	want := "image:\n  digests:\n"
	for _, program := range r.packed() {
		want += "    " + program + ": sha256:of-" + program + "\n"
	}
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func makeFile(t *testing.T, path string, write func(path string) error) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), write(path)); err != nil {
		t.Fatal(err)
	}
}

// written writes a release and returns its files by name.
func written(t *testing.T, r release) map[string][]byte {
	t.Helper()
	if _, err := os.Stat(helm); err != nil {
		t.Fatalf("the test needs helm; `make bin/tools/helm` builds it: %v", err)
	}
	if err := r.write(); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	entries, err := os.ReadDir(r.output)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(r.output, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[entry.Name()] = content
	}
	return files
}

func TestSameInputGivesSameBytes(t *testing.T) {
	first, second := testRelease(t), testRelease(t)
	// Files of another time and mode, as another person's would be.
	old := committed.Add(-time.Hour)
	binary := first.binary("linux-amd64", "tripod")
	if err := errors.Join(os.Chtimes(binary, old, old), os.Chmod(binary, 0o755)); err != nil {
		t.Fatal(err)
	}
	one, other := written(t, first), written(t, second)
	for name, content := range one {
		if !bytes.Equal(content, other[name]) {
			t.Errorf("%s differs", name)
		}
	}
	want := []string{
		"checksums.txt", "install.sh", "tripod-1.2.3+4.tgz",
		"tripod-aggregator-v1.2.3+4.oci.tar", "tripod-core-v1.2.3+4.oci.tar", "tripod-extensions-v1.2.3+4.oci.tar", "tripod-search-v1.2.3+4.oci.tar",
		"tripod-v1.2.3+4-digests.yaml",
		"tripod-v1.2.3+4-linux-amd64.cdx.json", "tripod-v1.2.3+4-linux-amd64.deb", "tripod-v1.2.3+4-linux-amd64.tar.gz",
		"tripod-v1.2.3+4-linux-arm64.cdx.json", "tripod-v1.2.3+4-linux-arm64.deb", "tripod-v1.2.3+4-linux-arm64.tar.gz", "tripod-v1.2.3+4.oci.tar",
		"tripod.rb",
	}
	if got := slices.Sorted(maps.Keys(one)); !slices.Equal(got, want) {
		t.Errorf("the release has %q, want %q", got, want)
	}
	if got := strings.Count(string(one["checksums.txt"]), "\n"); got != len(want)-1 {
		t.Errorf("there are %d checksums, want one for each of %d files", got, len(want)-1)
	}
}

func TestEverythingHasTheTimeOfTheCommitAndNoOwner(t *testing.T) {
	files := written(t, testRelease(t))
	for name, modes := range map[string]map[string]int64{
		"tripod-v1.2.3+4-linux-amd64.tar.gz": {
			"tripod-v1.2.3+4-linux-amd64/LICENSE": 0o644, "tripod-v1.2.3+4-linux-amd64/README.md": 0o644,
			"tripod-v1.2.3+4-linux-amd64/tripod": 0o755, "tripod-v1.2.3+4-linux-amd64/tripod-services": 0o755,
			"tripod-v1.2.3+4-linux-amd64/tripod-core":        0o777, // a link
			"tripod-v1.2.3+4-linux-amd64/tripod-controllers": 0o755,
			"tripod-v1.2.3+4-linux-amd64/tripod-supervisor":  0o755,
			"tripod-v1.2.3+4-linux-amd64/tripod-search":      0o755,
		},
		"tripod-1.2.3+4.tgz": {"tripod/Chart.yaml": 0o644, "tripod/values.yaml": 0o644},
	} {
		headers, _ := entriesOf(t, files[name])
		for path, header := range headers {
			if header.Uid != 0 || header.Gid != 0 || header.Uname != "" || header.Gname != "" || !header.ModTime.Equal(committed) {
				t.Errorf("%s in %s: owner %d:%d %q %q, time %s", path, name, header.Uid, header.Gid, header.Uname, header.Gname, header.ModTime)
			}
		}
		for path, mode := range modes {
			if header := headers[path]; header == nil || header.Mode != mode {
				t.Errorf("%s in %s is %+v, want mode %o", path, name, header, mode)
			}
		}
	}
}

func TestChartInstallsTheImagesOfTheRelease(t *testing.T) {
	_, chart := entriesOf(t, written(t, testRelease(t))["tripod-1.2.3+4.tgz"])
	for _, line := range []string{"version: 1.2.3+4", "appVersion: v1.2.3_4"} {
		if !strings.Contains(chart["tripod/Chart.yaml"], "\n"+line+"\n") {
			t.Errorf("Chart.yaml has no line %q:\n%s", line, chart["tripod/Chart.yaml"])
		}
	}
}

// entriesOf returns the headers and the contents of a compressed archive by name.
func entriesOf(t *testing.T, archive []byte) (map[string]*tar.Header, map[string]string) {
	t.Helper()
	uncompressed, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	headers, contents := map[string]*tar.Header{}, map[string]string{}
	for reader := tar.NewReader(uncompressed); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return headers, contents
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		headers[header.Name], contents[header.Name] = header, string(content)
	}
}

func TestSBOMNamesWhatIsLinked(t *testing.T) {
	var bom cdx.BOM
	r := testRelease(t)
	if err := json.Unmarshal(written(t, r)["tripod-v1.2.3+4-linux-amd64.cdx.json"], &bom); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, component := range *bom.Components {
		names = append(names, component.Name)
	}
	for _, want := range append([]string{"stdlib", "github.com/CycloneDX/cyclonedx-go"}, r.programs()...) {
		if !slices.Contains(names, want) {
			t.Errorf("components %q have no %s", names, want)
		}
	}
}

func TestModules(t *testing.T) {
	got := (release{version: "v0.2.0"}).modules(&debug.BuildInfo{GoVersion: "go1.26.8", Deps: []*debug.Module{
		{Path: "example.com/plain", Version: "v2.0.0+incompatible"},
		{Path: "example.com/replaced", Version: "v0.0.0", Replace: &debug.Module{Path: "example.com/other", Version: "v1.1.0"}},
		{Path: "github.com/tripod-k8s/tripod/base", Version: "(devel)"},
	}})
	var purls []string
	for _, component := range got {
		purls = append(purls, component.PackageURL)
	}
	want := []string{
		"pkg:golang/stdlib@1.26.8", "pkg:golang/example.com/plain@v2.0.0%2Bincompatible", "pkg:golang/example.com/other@v1.1.0",
		"pkg:golang/github.com/tripod-k8s/tripod/base@v0.2.0",
	}
	if !slices.Equal(purls, want) {
		t.Errorf("modules are %q, want %q", purls, want)
	}
}

func TestChartVersion(t *testing.T) {
	for version, want := range map[string]string{
		"v0.1.0": "0.1.0", "v0.1.0-3-gabc1234-dirty": "0.1.0-3-gabc1234-dirty", "v1.36.3+tripod.1": "1.36.3+tripod.1",
		"0123456": "0.0.0-g0123456", "dev": "0.0.0-gdev",
	} {
		if got := chartVersion(version); got != want {
			t.Errorf("%s: %s, want %s", version, got, want)
		}
	}
}
