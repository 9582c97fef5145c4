// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kindcluster

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"sigs.k8s.io/kind/pkg/cluster/nodes"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"
	"sigs.k8s.io/kind/pkg/exec"
)

// Load loads the image of an archive, an OCI layout or one of `docker save`, into the nodes. It returns false if they have the image
// already.
func (c *Cluster) Load(archive string) (bool, error) {
	image, err := readIndex(archive)
	if err != nil {
		return false, fmt.Errorf("cannot load %s: %w", archive, err)
	}
	loaded := false
	for _, node := range c.all {
		if image.isAt(node) {
			continue
		}
		file, err := os.Open(archive)
		if err != nil {
			return false, fmt.Errorf("cannot load an image: %w", err)
		}
		err = withOutput(nodeutils.LoadImageArchive(node, file))
		if err := errors.Join(err, file.Close()); err != nil {
			return false, fmt.Errorf("cannot load %s: %w", archive, err)
		}
		loaded = true
	}
	return loaded, nil
}

// archived is an image in an archive.
type archived struct{ name, digest string }

func (i archived) isAt(node nodes.Node) bool {
	known, err := exec.Output(node.Command("ctr", "--namespace=k8s.io", "images", "list", "name=="+i.name))
	return err == nil && i.digest != "" && bytes.Contains(known, []byte(i.digest))
}

// readIndex reads the index of an archive. Archives of `docker save` may have none.
func readIndex(archive string) (archived, error) {
	file, err := os.Open(archive)
	if err != nil {
		return archived{}, err
	}
	defer file.Close() //nolint:errcheck // only read
	for files := tar.NewReader(file); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return archived{}, nil
		}
		if err != nil {
			return archived{}, err
		}
		if header.Name != "index.json" {
			continue
		}
		var index struct {
			Manifests []struct {
				Digest      string            `json:"digest"`
				Annotations map[string]string `json:"annotations"`
			} `json:"manifests"`
		}
		if err := json.NewDecoder(files).Decode(&index); err != nil {
			return archived{}, fmt.Errorf("index.json: %w", err)
		}
		if len(index.Manifests) != 1 {
			return archived{}, fmt.Errorf("index.json has %d images, want one", len(index.Manifests))
		}
		m := index.Manifests[0]
		return archived{name: m.Annotations["io.containerd.image.name"], digest: m.Digest}, nil
	}
}

// Image returns the name and the tag of an image on the node, such as that of its etcd. The node need not pull such an image.
func (c *Cluster) Image(ctx context.Context, repository string) (name, tag string, err error) {
	out, err := c.Exec(ctx, nil, "ctr", "--namespace=k8s.io", "images", "list", "-q")
	if err != nil {
		return "", "", err
	}
	for image := range strings.Lines(out) {
		name, tag, tagged := cutTag(strings.TrimSpace(image))
		if tagged && !strings.Contains(name, "@") && (name == repository || strings.HasSuffix(name, "/"+repository)) {
			return name, tag, nil
		}
	}
	return "", "", fmt.Errorf("the node has no image %s", repository)
}

// cutTag splits the name of an image from its tag. A colon before a port does not begin a tag.
func cutTag(image string) (name, tag string, found bool) {
	i := strings.LastIndexByte(image, ':')
	if i < 0 || strings.Contains(image[i:], "/") {
		return image, "", false
	}
	return image[:i], image[i+1:], true
}

// withOutput adds the output of the failed program to an error of kind.
func withOutput(err error) error {
	if failed := exec.RunErrorForError(err); failed != nil && len(failed.Output) > 0 {
		return fmt.Errorf("%w\n%s", err, failed.Output)
	}
	return err
}
