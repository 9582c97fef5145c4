// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// The controllers that limit memory, processor time and disk writes. In cgroups version 1 each has its own tree.
const (
	memoryController    = "memory"
	processorController = "cpu"
	diskController      = "blkio"
)

var controllers = []string{memoryController, processorController, diskController}

const groupRoot = "/sys/fs/cgroup"

// unified reports whether this machine uses only version 2 of cgroups.
func unified() bool {
	_, err := os.Stat(filepath.Join(groupRoot, "cgroup.controllers"))
	return err == nil
}

// groupDirs returns the cgroups with a name, or all that match if the name ends in *.
func groupDirs(name string) []string {
	patterns := []string{filepath.Join(groupRoot, name)}
	if !unified() {
		patterns = nil
		for _, controller := range controllers {
			patterns = append(patterns, filepath.Join(groupRoot, controller, name))
		}
	}
	if !strings.HasSuffix(name, "*") {
		return patterns
	}
	var dirs []string
	for _, pattern := range patterns {
		found, _ := filepath.Glob(pattern)
		dirs = append(dirs, found...)
	}
	return dirs
}

func (h *host) makeGroups(name string) error {
	dirs := groupDirs(name)
	for _, dir := range dirs {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return fmt.Errorf("cannot make a cgroup: %w", err)
		}
	}
	for i, controller := range controllers {
		h.groups[controller] = dirs[min(i, len(dirs)-1)]
	}
	if unified() {
		return os.WriteFile(filepath.Join(groupRoot, "cgroup.subtree_control"), []byte("+memory +cpu +io"), 0o600)
	}
	return nil
}

// limitMemory makes the kernel kill processes of the host that use more. 0 removes the limit.
func (h *host) limitMemory(bytes int64) error {
	file, none := "memory.limit_in_bytes", "-1"
	if unified() {
		file, none = "memory.max", "max"
	}
	value := strconv.FormatInt(bytes, 10)
	if bytes == 0 {
		value = none
	}
	return os.WriteFile(filepath.Join(h.groups[memoryController], file), []byte(value), 0o600)
}

// usesMemory returns the memory of the host's processes that the kernel cannot reclaim: all but the pages of files.
func (h *host) usesMemory() (sum int64, err error) {
	data, err := os.ReadFile(filepath.Join(h.groups[memoryController], "memory.stat"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if bytes, err := strconv.ParseInt(value, 10, 64); err == nil && (name == "rss" || name == "anon") {
			sum += bytes
		}
	}
	return sum, nil
}

// slow limits the writes per second of the host to a disk. 0 removes the limit.
func (h *host) slow(d *disk, writes int) error {
	if !unified() {
		return os.WriteFile(filepath.Join(h.groups[diskController], "blkio.throttle.write_iops_device"), fmt.Appendf(nil, "%s %d", d.number, writes), 0o600)
	}
	limit := fmt.Sprintf("%s wiops=%d", d.number, writes)
	if writes == 0 {
		limit = d.number + " wiops=max"
	}
	return os.WriteFile(filepath.Join(h.groups[diskController], "io.max"), []byte(limit), 0o600)
}

// disk is a file system in a file.
type disk struct {
	dir, device string
	// number is the device number, MAJOR:MINOR.
	number string
}

const diskSize = "512M"

// disk creates a disk. Its file name has the prefix, so that clean finds it.
func (m *machine) disk(ctx context.Context, name string) (*disk, error) {
	image, d := filepath.Join(m.dir, m.object(name)+".img"), &disk{dir: filepath.Join(m.dir, name+"-disk")}
	if err := os.Mkdir(d.dir, 0o700); err != nil {
		return nil, err
	}
	if err := execute(ctx, "truncate", "-s", diskSize, image); err != nil {
		return nil, err
	}
	if err := execute(ctx, "mkfs.ext4", "-q", image); err != nil {
		return nil, err
	}
	device, err := exec.CommandContext(ctx, "losetup", "--find", "--show", image).Output()
	if err != nil {
		return nil, fmt.Errorf("losetup: %w", err)
	}
	d.device = strings.TrimSpace(string(device))
	number, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(d.device), "dev"))
	if err != nil {
		return nil, err
	}
	d.number = strings.TrimSpace(string(number))
	return d, execute(ctx, "mount", d.device, d.dir)
}

// fill uses up all space on the disk; empty frees it.
func (d *disk) fill() error {
	file, err := os.Create(filepath.Join(d.dir, prefix))
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // the write should fail
	for block := make([]byte, 1<<20); len(block) > 0; {
		if _, err := file.Write(block); err != nil {
			block = block[:len(block)/2]
		}
	}
	return nil
}

func (d *disk) empty() error { return os.Remove(filepath.Join(d.dir, prefix)) }

// freeze blocks every write to the disk until thaw.
func (d *disk) freeze(ctx context.Context) error { return execute(ctx, "fsfreeze", "--freeze", d.dir) }
func (d *disk) thaw(ctx context.Context) error   { return execute(ctx, "fsfreeze", "--unfreeze", d.dir) }

// removeDisks unmounts the disks of this run and of earlier ones.
func (m *machine) removeDisks(ctx context.Context) {
	list, _ := exec.CommandContext(ctx, "losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE").Output()
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !strings.HasPrefix(filepath.Base(fields[1]), m.object("")) {
			continue
		}
		for _, command := range [][]string{{"fsfreeze", "--unfreeze"}, {"umount"}} { // fails where it is not frozen, or not mounted
			_ = executeOnMount(ctx, fields[0], command)
		}
		_ = execute(ctx, "losetup", "--detach", fields[0])
	}
}

// executeOnMount executes a command with the mount point of a device.
func executeOnMount(ctx context.Context, device string, command []string) error {
	dir, err := exec.CommandContext(ctx, "findmnt", "--noheadings", "--output", "TARGET", device).Output()
	if err != nil {
		return err
	}
	return execute(ctx, append(command, strings.TrimSpace(string(dir)))...)
}
