// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package imagearchive packs a test program into a container image without a base image, a registry or a container engine. The archive has
// the form that `docker save` writes. `make images` packs the images for users.
package imagearchive

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// user runs the process in the container: any user but root.
const user = "65532:65532"

// Build builds a Go package, packs it into an image such as tripod-e2e/workload:dev, and returns the path of the archive in dir.
func Build(dir, name, pkg string) (string, error) {
	program := filepath.Join(dir, filepath.Base(pkg))
	cmd := exec.Command("go", "build", "-o", program, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build %s: %w\n%s", pkg, err, out)
	}
	archive := program + ".tar"
	return archive, Write(archive, name, program)
}

// Write writes an image called name. Its only file is the program, which is also its entrypoint.
func Write(archive, name, program string) error { return write(archive, name, program, "/", user) }

// WriteComponent writes an image of a component of the control plane, as kubeadm requires it: root runs it, and finds it in $PATH.
func WriteComponent(archive, name, program string) error {
	return write(archive, name, program, "/usr/local/bin/", "")
}

func write(archive, name, program, dir, user string) (err error) {
	content, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("cannot pack the image %s: %w", name, err)
	}
	entrypoint := dir + filepath.Base(program)
	var layer bytes.Buffer
	if err := writeTar(&layer, file{entrypoint[1:], content, 0o755}); err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"User": user, "Entrypoint": []string{entrypoint}, "Env": []string{"PATH=/usr/local/bin"}},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest(layer.Bytes())}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{
		"Config": digest(config) + ".json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return err
	}
	out, err := os.Create(archive)
	if err != nil {
		return fmt.Errorf("cannot pack the image %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	return writeTar(out,
		file{digest(config) + ".json", config, 0o644},
		file{"layer.tar", layer.Bytes(), 0o644},
		file{"manifest.json", manifest, 0o644},
	)
}

type file struct {
	name    string
	content []byte
	mode    int64
}

func writeTar(to io.Writer, files ...file) error {
	w := tar.NewWriter(to)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Size: int64(len(f.content)), Mode: f.mode}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		if _, err := w.Write(f.content); err != nil {
			return err
		}
	}
	return w.Close()
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
