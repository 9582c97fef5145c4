// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// trustStores are the directories with the public CA certificates of the host, which Go reads if nothing names a CA. kubeadm mounts them.
var trustStores = []string{
	"/etc/ssl/certs", "/etc/pki/ca-trust", "/etc/pki/tls/certs", "/etc/ca-certificates",
	"/usr/share/ca-certificates", "/usr/local/share/ca-certificates",
}

// imageDirs are directories that a container needs as they are.
var imageDirs = []string{"/etc/ssl/certs", "/usr/local/bin", "/proc", "/sys", "/dev"}

// mounts are what a replica sees of the host.
type mounts struct {
	pod     *corev1.Pod
	volumes []corev1.Volume
	mounts  []corev1.VolumeMount
}

// mountsOf returns the mounts of a replica: the copies of its files, a directory of its own for the files that it makes, and the
// directories with sockets of others and with the CA certificates of the host. It makes the directories, and adds what it mounts to the
// tree of the service.
func (m *maker) mountsOf(r staticReplica, used *paths, user int, copies *tree) (*mounts, error) {
	mounted := &mounts{pod: m.apiserver}
	mounted.addTrustStores()
	mounted.addSockets(used.sockets)
	shown := mounted.paths()
	if err := mounted.addWritten(r, used.written, user, m.chown); err != nil {
		return nil, err
	}
	files := used.files.Clone()
	for file := range used.files {
		if slices.ContainsFunc(shown, func(dir string) bool { return isWithin(file, dir) }) {
			files.Delete(file)
			continue
		}
		if host, isMounted := mounted.onHost(file); isMounted && host != file {
			return nil, fmt.Errorf("the manifest mounts %s of the host at %s: use one path for both", host, file)
		}
	}
	copies.files = copies.files.Union(files)
	return mounted, mounted.addCopies(files, copies)
}

// paths returns the paths in the container.
func (m *mounts) paths() []string {
	var all []string
	for _, mount := range m.mounts {
		all = append(all, mount.MountPath)
	}
	return all
}

// onHost returns the path on the host of a path in the container of kube-apiserver, and whether a volume of the host has it.
func (m *mounts) onHost(path string) (string, bool) {
	var best *corev1.VolumeMount
	for i := range m.pod.Spec.Containers[0].VolumeMounts {
		mount := &m.pod.Spec.Containers[0].VolumeMounts[i]
		if isWithin(path, filepath.Clean(mount.MountPath)) && (best == nil || len(mount.MountPath) > len(best.MountPath)) {
			best = mount
		}
	}
	if best == nil {
		return path, false
	}
	for _, volume := range m.pod.Spec.Volumes {
		if volume.Name == best.Name && volume.HostPath != nil {
			inside, err := filepath.Rel(filepath.Clean(best.MountPath), path)
			return filepath.Join(volume.HostPath.Path, best.SubPath, inside), err == nil
		}
	}
	return path, false
}

func (m *mounts) add(host, path string, kind corev1.HostPathType, readOnly bool) {
	name := fmt.Sprintf("tripod-%d", len(m.volumes))
	m.volumes = append(m.volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: host, Type: &kind},
	}})
	m.mounts = append(m.mounts, corev1.VolumeMount{Name: name, MountPath: path, ReadOnly: readOnly})
}

func (m *mounts) addTrustStores() {
	for _, dir := range trustStores {
		host, mounted := m.onHost(dir)
		if info, err := os.Stat(host); mounted && err == nil && info.IsDir() {
			m.add(host, dir, corev1.HostPathDirectory, true)
		}
	}
}

// addSockets mounts directories, because a program that restarts makes its socket anew. It mounts a socket if the manifest does.
func (m *mounts) addSockets(sockets sets.Set[string]) {
	seen := sets.New[string]()
	for _, socket := range sets.List(sockets) {
		path, kind := filepath.Dir(socket), corev1.HostPathDirectoryOrCreate
		for _, mount := range m.pod.Spec.Containers[0].VolumeMounts {
			if filepath.Clean(mount.MountPath) == socket {
				path, kind = socket, corev1.HostPathSocket
			}
		}
		if host, _ := m.onHost(path); !seen.Has(path) {
			seen.Insert(path)
			m.add(host, path, kind, true)
		}
	}
}

// addWritten mounts a directory of the replica's own where the flags want a file, so that no service reaches the files of another.
func (m *mounts) addWritten(
	r staticReplica, written sets.Set[string], user int, chown func(path string, user, group int) error,
) error {
	dirs := sets.New[string]()
	for file := range written {
		dirs.Insert(filepath.Dir(file))
	}
	for _, dir := range sets.List(dirs) {
		host, mounted := m.onHost(dir)
		if !mounted {
			return fmt.Errorf("no volume of the manifest has %s, in which files would be lost: add one of the host", dir)
		}
		own := filepath.Join(host, r.podName())
		if err := makeWritten(own, user, chown); err != nil {
			return fmt.Errorf("cannot make a directory for a static pod: %w", err)
		}
		m.add(own, dir, corev1.HostPathDirectory, false)
	}
	return nil
}

// addCopies mounts the directories with copies. Other mounts may be inside them.
func (m *mounts) addCopies(files sets.Set[string], copies *tree) error {
	var dirs []string
	for _, file := range sets.List(files) {
		dir := filepath.Dir(file)
		dirs = slices.DeleteFunc(dirs, func(other string) bool { return isWithin(other, dir) })
		if !slices.ContainsFunc(dirs, func(other string) bool { return isWithin(dir, other) }) {
			dirs = append(dirs, dir)
		}
	}
	others := m.paths()
	for _, dir := range dirs {
		for _, needed := range imageDirs {
			if isWithin(needed, dir) {
				return fmt.Errorf("a static pod cannot mount %s, which its image needs: move the files there to a directory of their own", dir)
			}
		}
		for _, other := range others {
			if other == dir {
				return fmt.Errorf("files to read and files to write are in %s: move those to read to a directory of their own", dir)
			}
			if isWithin(other, dir) {
				copies.mountPoints.Insert(other)
			}
		}
		m.add(copies.path(dir), dir, corev1.HostPathDirectory, true)
	}
	return nil
}

// unused returns the paths that kube-apiserver has mounted and no replica uses.
func unused(apiserver *corev1.Pod, all []*paths) []string {
	var result []string
	for _, mount := range apiserver.Spec.Containers[0].VolumeMounts {
		uses := func(path string) bool { return isWithin(path, filepath.Clean(mount.MountPath)) }
		if slices.ContainsFunc(trustStores, uses) || slices.ContainsFunc(all, func(p *paths) bool {
			return slices.ContainsFunc(slices.Concat(sets.List(p.files), sets.List(p.sockets), sets.List(p.written)), uses)
		}) {
			continue
		}
		result = append(result, mount.MountPath)
	}
	return result
}
