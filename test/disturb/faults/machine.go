// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// prefix is that of the names of kernel objects that this command makes.
const prefix = "tripod-faults"

// Addresses of processes are in subnet; the command itself is at gateway, and answers their questions about names there.
const (
	subnet  = "10.213.77."
	gateway = subnet + "1"
	// loopback is used without network namespaces.
	loopback = "127.213.77."
	// inRoot is the end of the command's cable to the switch. A name of an interface has at most 15 characters.
	inRoot = "tripod-faults0"
)

// machine is what this machine lets the command do. Reasons say why not, and are empty where it can.
type machine struct {
	noNetwork, noDisk, noLimits string
	dir                         string
	hosts                       map[string]*host
	// locked is held while kernel objects of this command may exist.
	locked *os.File
}

// host is where one process runs.
type host struct {
	name, address string
	// namespace is that of its network, or empty.
	namespace string
	// groups are the directories of its cgroups by controller.
	groups map[string]string
}

// newMachine removes what an earlier run has left, and finds out what is possible.
func newMachine(ctx context.Context, dir string) *machine {
	m := &machine{dir: dir, hosts: map[string]*host{}}
	if os.Geteuid() != 0 {
		m.noNetwork, m.noDisk, m.noLimits = "needs root", "needs root", "needs root"
		return m
	}
	if err := m.lock(ctx); err != nil {
		m.noNetwork, m.noDisk, m.noLimits = err.Error(), err.Error(), err.Error()
		return m
	}
	m.clean(ctx)
	for _, program := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(program); err != nil {
			m.noNetwork = "needs the program " + program
			return m
		}
	}
	// The switch has a namespace of its own, because firewalls often filter what bridges in that of the machine forward.
	commands := [][]string{
		{"ip", "netns", "add", prefix + "-switch"},
		{"ip", "-n", prefix + "-switch", "link", "add", "switch", "type", "bridge"},
		{"ip", "-n", prefix + "-switch", "link", "set", "switch", "up"},
	}
	commands = append(commands, cable(inRoot, "", gateway)...)
	for _, command := range commands {
		if err := execute(ctx, command...); err != nil {
			m.noNetwork = "network namespaces: " + err.Error()
			return m
		}
	}
	return m
}

// lock waits until no other run uses the names of kernel objects.
func (m *machine) lock(ctx context.Context) (err error) {
	if m.locked, err = os.OpenFile(filepath.Join(os.TempDir(), prefix+".lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return fmt.Errorf("cannot lock the names of kernel objects: %w", err)
	}
	for ctx.Err() == nil && syscall.Flock(int(m.locked.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		sleep(ctx, time.Second)
	}
	return ctx.Err()
}

// cable returns the commands that connect a namespace, or that of the machine, with the switch.
func cable(name, namespace, address string) [][]string {
	ip := []string{"ip"}
	if namespace != "" {
		ip = append(ip, "-n", namespace)
	}
	in := func(args ...string) []string { return append(append([]string(nil), ip...), args...) }
	plug := "p" + address[strings.LastIndex(address, ".")+1:]
	return [][]string{
		in("link", "add", name, "type", "veth", "peer", "name", plug, "netns", prefix+"-switch"),
		in("address", "add", address+"/24", "dev", name),
		in("link", "set", name, "up"),
		in("link", "set", "lo", "up"),
		{"ip", "-n", prefix + "-switch", "link", "set", plug, "master", "switch", "up"},
	}
}

// host makes the host of a process.
func (m *machine) host(ctx context.Context, name string) (*host, error) {
	h := &host{name: name, groups: map[string]string{}}
	number := len(m.hosts) + 10
	m.hosts[name] = h
	if m.noNetwork != "" {
		h.address = fmt.Sprint(loopback, number)
		return h, nil
	}
	h.address, h.namespace = fmt.Sprint(subnet, number), prefix+"-"+name
	commands := append([][]string{{"ip", "netns", "add", h.namespace}}, cable("eth0", h.namespace, h.address)...)
	for _, command := range commands {
		if err := execute(ctx, command...); err != nil {
			return nil, err
		}
	}
	// `ip netns exec` shows a process this file in the place of /etc/resolv.conf.
	resolver := filepath.Join("/etc/netns", h.namespace, "resolv.conf")
	if err := os.MkdirAll(filepath.Dir(resolver), 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(resolver, []byte("nameserver "+gateway+"\noptions timeout:1 attempts:1\n"), 0o644); err != nil {
		return nil, err
	}
	if m.noLimits == "" {
		if err := h.makeGroups(); err != nil {
			m.noLimits = err.Error()
		}
	}
	return h, nil
}

// wrap returns the command that executes a program on the host. It becomes the program, so its process ID stays.
func (h *host) wrap() []string {
	var command []string
	if len(h.groups) > 0 {
		script := ""
		for _, dir := range h.groups {
			script += "echo $$ >" + filepath.Join(dir, "cgroup.procs") + " && "
		}
		command = append(command, "/bin/sh", "-c", script+`exec "$0" "$@"`)
	}
	if h.namespace != "" {
		ip, _ := exec.LookPath("ip") //nolint:errcheck // newMachine has found it
		command = append(command, ip, "netns", "exec", h.namespace)
	}
	return command
}

// drop has a host drop packets that come from others: a one-way partition.
func (h *host) drop(ctx context.Context, from ...*host) error {
	addresses := make([]string, len(from))
	for i, other := range from {
		addresses[i] = other.address
	}
	return h.filter(ctx, "ip saddr { "+strings.Join(addresses, ", ")+" } drop")
}

// lose has a host lose so many percent of the packets that come.
func (h *host) lose(ctx context.Context, percent int) error {
	return h.filter(ctx, fmt.Sprintf(`iifname "eth0" numgen random mod 100 < %d drop`, percent))
}

func (h *host) filter(ctx context.Context, rule string) error {
	rules := fmt.Sprintf("add table inet faults\nadd chain inet faults input { type filter hook input priority 0; }\nadd rule inet faults input %s\n", rule)
	return executeWith(ctx, rules, "ip", "netns", "exec", h.namespace, "nft", "-f", "-")
}

// connect ends what drop and lose have begun.
func (h *host) connect(ctx context.Context) error {
	return executeWith(ctx, "add table inet faults\ndelete table inet faults\n", "ip", "netns", "exec", h.namespace, "nft", "-f", "-")
}

// clean removes everything that has the prefix.
func (m *machine) clean(ctx context.Context) {
	list, _ := exec.CommandContext(ctx, "ip", "netns", "list").Output() //nolint:errcheck // without it there is nothing to remove
	for line := range strings.Lines(string(list)) {
		if name, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(name, prefix+"-") {
			_ = execute(ctx, "ip", "netns", "delete", name) // the next run tries again
			_ = os.RemoveAll(filepath.Join("/etc/netns", name))
		}
	}
	if _, err := net.InterfaceByName(inRoot); err == nil {
		_ = execute(ctx, "ip", "link", "delete", inRoot)
	}
	removeDisks(ctx)
	for _, dir := range groupDirs("*") {
		_ = os.Remove(dir)
	}
}

// close removes what was made. Processes have ended.
func (m *machine) close() {
	if m.locked != nil {
		m.clean(context.Background())
		_ = m.locked.Close() // which unlocks it
	}
}

func execute(ctx context.Context, command ...string) error { return executeWith(ctx, "", command...) }

func executeWith(ctx context.Context, input string, command ...string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin = strings.NewReader(input)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}
