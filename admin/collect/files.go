// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"sigs.k8s.io/yaml"
)

// maxKeyFile is larger than any file with a key, a token or a kubeconfig.
const maxKeyFile = 1 << 20

// Files are files of this machine.
type Files struct {
	// Logs are paths of logs by their name in the archive.
	Logs map[string]string
	// Values give what the archive has as JSON, by name.
	Values map[string]func(context.Context) (any, error)
	// Manifests are paths of static pods. The archive has their images and flags.
	Manifests []string
	// SecretDirs are directories with keys, tokens and kubeconfigs that the scrubber must know.
	SecretDirs []string
}

// Secrets lets the scrubber know what is in the files of the directories, without certificates.
func (s *Files) Secrets(_ context.Context, a *Archive) {
	for _, dir := range s.SecretDirs {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() || strings.HasSuffix(path, ".crt") || strings.HasSuffix(path, ".pub") {
				return err
			}
			data, _, err := readEnd(path, maxKeyFile)
			if err != nil {
				return err
			}
			a.Scrubber.Know(data)
			if config, err := clientcmd.Load(data); err == nil {
				for _, user := range config.AuthInfos {
					knowUser(a, user)
				}
			}
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			a.Problem("texts are searched for keys by their form only, because not all can be read: %v", err)
		}
	}
}

// Collect adds the files.
func (s *Files) Collect(ctx context.Context, a *Archive) {
	for _, name := range slices.Sorted(maps.Keys(s.Values)) {
		if value, err := s.Values[name](ctx); err != nil {
			a.Problem("%s: %v", name, err)
		} else {
			a.JSON(name, value)
		}
	}
	for _, path := range s.Manifests {
		if pod, err := readManifest(path); err != nil {
			a.Problem("%v", err)
		} else {
			a.JSON("config/"+fileName(strings.TrimSuffix(filepath.Base(path), ".yaml"))+".json", pod)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Logs)) {
		a.Progress("reading the log " + name)
		data, truncated, err := readEnd(s.Logs[name], a.MaxLogBytes)
		if err != nil {
			a.Problem("the log %s cannot be read: %v", name, err)
			continue
		}
		a.Text("logs/"+fileName(name)+".log", data, truncated)
	}
}

// readEnd returns the last bytes of a regular file.
func readEnd(path string, most int64) (data []byte, truncated bool, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, false, err
	}
	defer file.Close() //nolint:errcheck // it is only read
	info, err := file.Stat()
	if err != nil {
		return nil, false, err
	}
	if !info.Mode().IsRegular() {
		return nil, false, fmt.Errorf("%s is no file", path)
	}
	begin := max(0, info.Size()-most)
	data = make([]byte, info.Size()-begin)
	n, err := file.ReadAt(data, begin)
	if errors.Is(err, io.EOF) { // it has become shorter
		err = nil
	}
	return data[:n], begin > 0, err
}

// staticPod is what the archive has of a manifest.
type staticPod struct {
	Name       string
	Containers []staticContainer
}

type staticContainer struct {
	Name, Image string
	Command     []string
}

func readManifest(path string) (*staticPod, error) {
	data, truncated, err := readEnd(path, maxKeyFile)
	if err != nil {
		return nil, err
	}
	if truncated {
		return nil, fmt.Errorf("%s is too large for a manifest", path)
	}
	var pod corev1.Pod
	if err := yaml.Unmarshal(data, &pod); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	found := &staticPod{Name: pod.Name}
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		c := staticContainer{Name: container.Name, Image: container.Image}
		for _, argument := range slices.Concat(container.Command, container.Args) {
			c.Command = append(c.Command, RedactFlag(argument))
		}
		found.Containers = append(found.Containers, c)
	}
	return found, nil
}
