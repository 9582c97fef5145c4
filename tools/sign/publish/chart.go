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
	"os"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"go.yaml.in/yaml/v3"
)

// What helm calls the parts of a chart in a registry.
const (
	chartConfigType  = "application/vnd.cncf.helm.config.v1+json"
	chartContentType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// charts is the folder of charts below the path of images. The name of an OCI chart is the last part of its path, and would else be
// that of an image.
const charts = "charts/"

// maxChart is the size of a chart that is certainly wrong, in bytes.
const maxChart = 16 << 20

// chart returns a chart as it is in the registry: it installs the images there, by their digests.
func (r reader) chart(path string, images []item) (item, error) {
	packed, err := os.ReadFile(path)
	if err != nil {
		return item{}, err
	}
	meta, err := chartMeta(packed)
	if err != nil {
		return item{}, err
	}
	name, version, tag := fmt.Sprint(meta["name"]), fmt.Sprint(meta["version"]), fmt.Sprint(meta["appVersion"])
	images = slices.DeleteFunc(slices.Clone(images), func(i item) bool { return i.tag != tag })
	if len(images) == 0 {
		return item{}, fmt.Errorf("it installs the images %s, which the release does not have", tag)
	}
	platforms, err := platforms(images[0].content)
	if err != nil {
		return item{}, err
	}
	from, err := sourceOf(platforms[0])
	if err != nil {
		return item{}, err
	}
	annotate(meta, version, images, platforms)
	changed, err := edit(packed, func(file string, content []byte) ([]byte, error) {
		switch file {
		case "Chart.yaml":
			return yaml.Marshal(meta)
		case "values.yaml":
			return r.values(content, images)
		}
		return content, nil
	})
	if err != nil {
		return item{}, err
	}
	config, err := json.Marshal(meta)
	if err != nil {
		return item{}, err
	}
	artifact, err := newArtifact("", blob{chartConfigType, config}, blob{chartContentType, changed}, nil, map[string]string{
		"org.opencontainers.image.title": name, "org.opencontainers.image.version": version,
		"org.opencontainers.image.description": fmt.Sprint(meta["description"]), "org.opencontainers.image.source": from.repository,
	})
	if err != nil {
		return item{}, err
	}
	return r.item(charts+name, strings.ReplaceAll(version, "+", "_"), artifact, from) // as helm does: a tag may have no plus
}

// values returns the values of the chart with the names and the digests of images.
func (r reader) values(content []byte, images []item) ([]byte, error) {
	var digests strings.Builder
	for _, image := range images {
		fmt.Fprintf(&digests, "\n    %s: %s", image.program(), image.digest)
	}
	text := string(content)
	for _, change := range []struct{ old, new string }{
		{"\n  registry: localhost\n", "\n  registry: " + r.host + "\n"},
		{"\n  repository: tripod-k8s\n", fmt.Sprintf("\n  repository: %q\n", r.path)},
		{"\n  digests: {}\n", "\n  digests:" + digests.String() + "\n"},
	} {
		if count := strings.Count(text, change.old); count != 1 {
			return nil, fmt.Errorf("values.yaml has the line %q %d times, want once", strings.TrimSpace(change.old), count)
		}
		text = strings.Replace(text, change.old, change.new, 1)
	}
	return []byte(text), nil
}

// program returns the last part of the name of an image.
func (i item) program() string {
	path := i.repository.RepositoryStr()
	return path[strings.LastIndex(path, "/")+1:]
}

// annotate lists the images that a chart installs, for Artifact Hub.
func annotate(meta map[string]any, version string, images []item, platforms []v1.Image) {
	annotations, ok := meta["annotations"].(map[string]any)
	if !ok {
		annotations = map[string]any{}
		meta["annotations"] = annotations
	}
	var names []string
	for _, image := range platforms {
		if config, err := image.ConfigFile(); err == nil {
			names = append(names, config.OS+"/"+config.Architecture)
		}
	}
	var list strings.Builder
	for _, image := range images {
		tag := image.repository.Tag(image.tag)
		fmt.Fprintf(&list, "- name: %s\n  image: %s\n  platforms: [%s]\n", image.program(), tag, strings.Join(names, ", "))
	}
	annotations["artifacthub.io/images"] = list.String()
	if strings.Contains(version, "-") {
		annotations["artifacthub.io/prerelease"] = "true"
	}
}

// chartMeta returns the content of Chart.yaml.
func chartMeta(packed []byte) (meta map[string]any, err error) {
	_, err = edit(packed, func(file string, content []byte) ([]byte, error) {
		if file == "Chart.yaml" {
			return content, yaml.Unmarshal(content, &meta)
		}
		return content, nil
	})
	if err == nil && meta == nil {
		err = errors.New("it has no Chart.yaml")
	}
	return meta, err
}

// edit returns a packed chart with other contents of its files, and all else as it was. Names of files are within the folder of the chart.
func edit(packed []byte, change func(file string, content []byte) ([]byte, error)) ([]byte, error) {
	uncompressed, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	var edited bytes.Buffer
	compressed := gzip.NewWriter(&edited)
	compressed.Header = uncompressed.Header
	archive := tar.NewWriter(compressed)
	for reader := tar.NewReader(io.LimitReader(uncompressed, maxChart)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			err := errors.Join(archive.Close(), compressed.Close())
			return edited.Bytes(), err
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			return nil, err
		}
		_, file, _ := strings.Cut(header.Name, "/")
		if content, err = change(file, content); err != nil {
			return nil, err
		}
		header.Size = int64(len(content))
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(content); err != nil {
			return nil, err
		}
	}
}
