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
)

// prefix begins the names of all kernel objects that this command makes. The number of the machine follows.
const prefix = "tripod-faults"

// The last bytes of addresses. The command itself has the address gateway, and serves DNS for processes there.
const (
	gateway   = 1
	firstHost = 10
	unused    = 250
)

// most limits how many clusters may run at a time.
const most = 10

// machine is what the command can do on this machine, for one cluster. An empty reason means that it can.
type machine struct {
	noNetwork, noDisk, noLimits string
	dir                         string
	hosts                       map[string]*host
	// number keeps names and addresses of clusters apart. locked holds the lock of the number.
	number int
	locked *os.File
}

// host is where one process runs.
type host struct {
	name, address string
	// namespace is its network namespace, or "".
	namespace string
	// groups has the directories of its cgroups, by controller.
	groups map[string]string
	// disk is the disk of a member of etcd, or nil.
	disk *disk
}

// newMachine removes what an earlier run left, and tests what is possible.
func newMachine(ctx context.Context, dir string) *machine {
	m := &machine{dir: dir, hosts: map[string]*host{}}
	if err := m.lock(); err != nil {
		m.noNetwork, m.noDisk, m.noLimits = err.Error(), err.Error(), err.Error()
		return m
	}
	if os.Geteuid() != 0 {
		m.noNetwork, m.noDisk, m.noLimits = "needs root", "needs root", "needs root"
		return m
	}
	m.clean(ctx)
	for _, program := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(program); err != nil {
			m.noNetwork = "needs the program " + program
			return m
		}
	}
	// The switch has a namespace of its own, because firewalls often filter traffic of bridges in the namespace of the machine.
	commands := [][]string{
		{"ip", "netns", "add", m.object("switch")},
		{"ip", "-n", m.object("switch"), "link", "add", "switch", "type", "bridge"},
		{"ip", "-n", m.object("switch"), "link", "set", "switch", "up"},
	}
	commands = append(commands, m.cable(m.inRoot(), "", m.address(gateway))...)
	for _, command := range commands {
		if err := execute(ctx, command...); err != nil {
			m.noNetwork = "network namespaces: " + err.Error()
			return m
		}
	}
	return m
}

// lock takes the first number that no other cluster uses.
func (m *machine) lock() error {
	for number := range most {
		file, err := os.OpenFile(filepath.Join(os.TempDir(), fmt.Sprint(prefix, number, ".lock")), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			continue // another user has it
		}
		if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			m.number, m.locked = number, file
			return nil
		}
		_ = file.Close() // another process has locked it
	}
	return fmt.Errorf("%d clusters are broken already", most)
}

// object returns the name of a kernel object.
func (m *machine) object(name string) string { return fmt.Sprint(prefix, m.number, "-", name) }

// inRoot returns the name of the command's own cable to the switch. The name of an interface has at most 15 characters.
func (m *machine) inRoot() string { return fmt.Sprint(prefix, m.number) }

// address returns an address. Without network namespaces it is on loopback.
func (m *machine) address(last int) string {
	first := 10
	if m.noNetwork != "" {
		first = 127
	}
	return fmt.Sprintf("%d.213.%d.%d", first, 70+m.number, last)
}

// cable returns the commands that connect a namespace with the switch. An empty one is that of the machine.
func (m *machine) cable(name, namespace, address string) [][]string {
	ip := []string{"ip"}
	if namespace != "" {
		ip = append(ip, "-n", namespace)
	}
	in := func(args ...string) []string { return append(append([]string(nil), ip...), args...) }
	plug := "p" + address[strings.LastIndex(address, ".")+1:]
	return [][]string{
		in("link", "add", name, "type", "veth", "peer", "name", plug, "netns", m.object("switch")),
		in("address", "add", address+"/24", "dev", name),
		in("link", "set", name, "up"),
		in("link", "set", "lo", "up"),
		{"ip", "-n", m.object("switch"), "link", "set", plug, "master", "switch", "up"},
	}
}

// host makes the host of a process.
func (m *machine) host(ctx context.Context, name string) (*host, error) {
	h := &host{name: name, groups: map[string]string{}}
	h.address = m.address(len(m.hosts) + firstHost)
	m.hosts[name] = h
	if m.noNetwork != "" {
		return h, nil
	}
	h.namespace = m.object(name)
	commands := append([][]string{{"ip", "netns", "add", h.namespace}}, m.cable("eth0", h.namespace, h.address)...)
	for _, command := range commands {
		if err := execute(ctx, command...); err != nil {
			return nil, err
		}
	}
	// `ip netns exec` mounts this file over /etc/resolv.conf.
	resolver := filepath.Join("/etc/netns", h.namespace, "resolv.conf")
	if err := os.MkdirAll(filepath.Dir(resolver), 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(resolver, []byte("nameserver "+m.address(gateway)+"\noptions timeout:1 attempts:1\n"), 0o644); err != nil {
		return nil, err
	}
	if m.noLimits == "" {
		if err := h.makeGroups(m.object(name)); err != nil {
			m.noLimits = err.Error()
		}
	}
	return h, nil
}

// wrap returns a command prefix that executes a program on the host. The program takes its place, with the same process ID.
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
		ip, _ := exec.LookPath("ip")
		command = append(command, ip, "netns", "exec", h.namespace)
	}
	return command
}

// drop makes a host drop packets from others. That is a one-way partition.
func (h *host) drop(ctx context.Context, from ...*host) error {
	addresses := make([]string, len(from))
	for i, other := range from {
		addresses[i] = other.address
	}
	return h.filter(ctx, "ip saddr { "+strings.Join(addresses, ", ")+" } drop")
}

// lose makes a host drop this percentage of incoming packets.
func (h *host) lose(ctx context.Context, percent int) error {
	return h.filter(ctx, fmt.Sprintf(`iifname "eth0" numgen random mod 100 < %d drop`, percent))
}

func (h *host) filter(ctx context.Context, rule string) error {
	rules := fmt.Sprintf("add table inet faults\nadd chain inet faults input { type filter hook input priority 0; }\nadd rule inet faults input %s\n", rule)
	return executeWith(ctx, rules, "ip", "netns", "exec", h.namespace, "nft", "-f", "-")
}

// connect ends what drop and lose started.
func (h *host) connect(ctx context.Context) error {
	return executeWith(ctx, "add table inet faults\ndelete table inet faults\n", "ip", "netns", "exec", h.namespace, "nft", "-f", "-")
}

// clean removes everything with the prefix and the number.
func (m *machine) clean(ctx context.Context) {
	list, _ := exec.CommandContext(ctx, "ip", "netns", "list").Output()
	for line := range strings.Lines(string(list)) {
		if name, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(name, m.object("")) {
			_ = execute(ctx, "ip", "netns", "delete", name) // the next run tries again
			_ = os.RemoveAll(filepath.Join("/etc/netns", name))
		}
	}
	if _, err := net.InterfaceByName(m.inRoot()); err == nil {
		_ = execute(ctx, "ip", "link", "delete", m.inRoot())
	}
	m.removeDisks(ctx)
	for _, dir := range groupDirs(m.object("*")) {
		_ = os.Remove(dir)
	}
}

// close removes everything. The processes must have ended.
func (m *machine) close() {
	if m.locked == nil {
		return
	}
	if os.Geteuid() == 0 {
		m.clean(context.Background())
	}
	_ = m.locked.Close() // this unlocks it
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
