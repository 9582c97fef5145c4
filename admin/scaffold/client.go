// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package scaffold

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

const (
	// clientFolder is the folder of the module that has the clients.
	clientFolder = "client"
	// registration is the file that register-gen writes beside the types of a version.
	registration = "zz_generated.register.go"
)

// Client are the clients of an API service.
type Client struct {
	// Package has the Go packages of the clients below it.
	Package string
	// Informers reports whether listers and informers are among them.
	Informers bool

	// Versions have clients, and Group is the API group.
	Versions []string
	Group    string
	// Generators are the programs of k8s.io/code-generator that write the clients, in this order.
	Generators []generator
	// Kubernetes is their version.
	Kubernetes string

	module string
}

// generator is a program of k8s.io/code-generator. It runs in a folder beside those of the versions.
type generator struct {
	Name string
	Args []string
}

// GenerateClient generates typed clients, apply configurations, listers and informers of the kinds that the program serves, in some
// versions, or in all if none are given. It marks the types for that. report is called before each step that takes time, and with what is
// left to do by hand. If an error is returned, the module is as before.
func (m *Module) GenerateClient(ctx context.Context, versions []string, report func(step string)) (*Client, error) {
	c, err := m.client(versions)
	if err != nil {
		return nil, err
	}
	if err := m.ownsClient(); err != nil {
		return nil, err
	}
	undo, err := m.save()
	if err != nil {
		return nil, err
	}
	if err := m.generateClient(ctx, c, report); err != nil {
		return nil, errors.Join(err, undo())
	}
	return c, nil
}

// client returns what is to be generated, and marks the types.
func (m *Module) client(versions []string) (*Client, error) {
	if len(versions) == 0 {
		versions = m.Versions
	}
	for _, v := range versions {
		if !slices.Contains(m.Versions, v) {
			return nil, fmt.Errorf("--version %q is none of the versions of the module: %s", v, strings.Join(m.Versions, ", "))
		}
	}
	kubernetes, err := m.kubernetes()
	if err != nil {
		return nil, err
	}
	c := &Client{
		Package: m.Path + "/" + clientFolder, Informers: namesPackage(path.Base(m.Path)), Group: m.Group, Kubernetes: kubernetes, module: m.Path,
	}
	kinds, plurals := m.served(), []string{}
	for _, v := range versions {
		marked, err := m.mark(v, kinds)
		if err != nil {
			return nil, err
		}
		if len(marked) > 0 {
			c.Versions = append(c.Versions, v)
		}
		for _, k := range marked {
			if k.plural != "" {
				plurals = append(plurals, k.name+":"+camelPlural(k.name, k.plural))
			}
		}
	}
	if len(c.Versions) == 0 {
		return nil, fmt.Errorf("the program serves no kind that has its type in %s: no literal apiservice.Objects[*VERSION.KIND]{...} or "+
			"apiservice.ReadOnly[*VERSION.KIND]{...} names one", strings.Join(versions, " or "))
	}
	registered, err := m.unregistered(c.Versions)
	if err != nil {
		return nil, err
	}
	slices.Sort(plurals)
	c.addGenerators(registered, slices.Compact(plurals))
	return c, nil
}

// addGenerators adds the generators, of which the first registers types of some versions for clients.
func (c *Client) addGenerators(registered, plurals []string) {
	inputs := func(versions []string) (all []string) {
		for _, v := range versions {
			all = append(all, "../"+v)
		}
		return all
	}
	add := func(name string, args ...string) { c.Generators = append(c.Generators, generator{name, args}) }
	output := func(folder string) []string {
		return []string{"--output-dir=" + folder, "--output-pkg=" + c.Package + "/" + folder}
	}
	exceptions := "--plural-exceptions=" + strings.Join(plurals, ",")
	if len(registered) > 0 {
		add("register-gen", append([]string{"--output-file=" + registration}, inputs(registered)...)...)
	}
	add("applyconfiguration-gen", append(output("applyconfiguration"), inputs(c.Versions)...)...)
	var clientInputs []string
	for _, v := range c.Versions {
		clientInputs = append(clientInputs, path.Base(c.module)+"/"+v)
	}
	add("client-gen", "--output-dir=.", "--output-pkg="+c.Package, "--clientset-name=clientset",
		"--apply-configuration-package="+c.Package+"/applyconfiguration", exceptions,
		"--input-base="+path.Dir(c.module), "--input="+strings.Join(clientInputs, ","))
	if !c.Informers {
		return
	}
	add("lister-gen", slices.Concat(output("listers"), []string{exceptions}, inputs(c.Versions))...)
	add("informer-gen", slices.Concat(output("informers"), []string{
		"--single-directory", "--versioned-clientset-package=" + c.Package + "/clientset", "--listers-package=" + c.Package + "/listers",
		exceptions,
	}, inputs(c.Versions))...)
}

// namesPackage reports whether informer-gen can make a package of the last folder of a module's path.
func namesPackage(folder string) bool {
	name, _, _ := strings.Cut(folder, ".")
	return token.IsIdentifier(name) && folder == strings.ToLower(folder)
}

// camelPlural returns a plural with the capitals of a kind, such as ReadingRooms for ReadingRoom and readingrooms.
func camelPlural(kind, plural string) string {
	same := 0
	for same < min(len(kind), len(plural)) && strings.ToLower(kind)[same] == plural[same] {
		same++
	}
	if same == 0 {
		return strings.ToUpper(plural[:1]) + plural[1:]
	}
	return kind[:same] + plural[same:]
}

// kubernetes returns the version of Kubernetes' modules that the module requires.
func (m *Module) kubernetes() (string, error) {
	file := filepath.Join(m.folder, "go.mod")
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	parsed, err := modfile.Parse(file, text, nil)
	if err != nil {
		return "", err
	}
	const required = "k8s.io/client-go"
	for _, r := range parsed.Require {
		if r.Mod.Path != required {
			continue
		}
		version := r.Mod.Version
		for _, other := range parsed.Replace {
			if other.Old.Path == required && (other.Old.Version == "" || other.Old.Version == version) && other.New.Version != "" {
				return other.New.Version, nil
			}
		}
		return version, nil
	}
	return "", fmt.Errorf("%s requires no %s, which clients need: add it with go get, in the version of k8s.io/apimachinery", file, required)
}

const generatedByUs = "// Code generated by tripod new client. DO NOT EDIT.\n"

// HasClient reports whether the module has clients that GenerateClient has written.
func (m *Module) HasClient() bool {
	text, err := os.ReadFile(filepath.Join(m.folder, clientFolder, "doc.go"))
	return err == nil && bytes.HasPrefix(text, []byte(generatedByUs))
}

// ownsClient returns an error if the folder of the clients has something else.
func (m *Module) ownsClient() error {
	folder := filepath.Join(m.folder, clientFolder)
	info, err := os.Lstat(folder)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() && m.HasClient() {
		return nil
	}
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return fmt.Errorf("%s is a symbolic link: move the folder of the clients to its place", folder)
	}
	return fmt.Errorf("%s exists, and tripod new client has not written it: move it away", folder)
}

// generateClient generates the clients in a folder beside theirs, and then replaces it.
func (m *Module) generateClient(ctx context.Context, c *Client, report func(step string)) (err error) {
	beside, err := os.MkdirTemp(m.folder, clientFolder+"-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(beside)) }()
	undo, err := m.willRegister(c)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, undo())
		}
	}()
	folder := filepath.Join(m.folder, clientFolder)
	if err := keepWritten(beside, folder); err != nil {
		return err
	}
	doc, err := render("client-doc.go", c)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(beside, "doc.go"), doc, 0o666); err != nil { //nolint:gosec // as the user's umask says
		return err
	}
	for _, g := range c.Generators {
		report("running " + g.Name)
		if err := g.run(ctx, beside, c.Kubernetes); err != nil {
			return err
		}
	}
	old, err := swap(folder, beside)
	if err != nil {
		return err
	}
	// The new clients are in their place, so this is no error of theirs.
	if err := removeAll(old); err != nil {
		report(fmt.Sprintf("cannot remove the clients from before; remove %s yourself: %v", old, err))
	}
	return nil
}

// willRegister returns a function that takes back what register-gen does.
func (m *Module) willRegister(c *Client) (undo func() error, err error) {
	before := map[string][]byte{}
	for _, v := range c.Versions {
		file := filepath.Join(m.folder, v, registration)
		if before[file], err = os.ReadFile(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return func() (err error) {
		for file, text := range before {
			if text == nil {
				err = errors.Join(err, os.RemoveAll(file))
			} else {
				err = errors.Join(err, replace(file, text))
			}
		}
		return err
	}, nil
}

// generatedCode is the header of what the generators of GenerateClient write. Others, such as stringer, have other names.
var generatedCode = regexp.MustCompile(
	`(?m)^// Code generated by (register-gen|applyconfiguration-gen|client-gen|lister-gen|informer-gen|tripod new client)\. DO NOT EDIT\.$`)

// isGenerated reports whether one of these headers is before the package clause of a file.
func isGenerated(file string, text []byte) bool {
	header, _, _ := bytes.Cut(slices.Concat([]byte("\n"), text), []byte("\npackage "))
	return path.Ext(file) == ".go" && generatedCode.Match(header)
}

// keepWritten copies all files of a folder but those that GenerateClient writes, such as expansions of clients, with their modes.
func keepWritten(to, from string) error {
	if err := os.Chmod(to, 0o755); err != nil { //nolint:gosec // the folder of a module, which others may read
		return err
	}
	err := fs.WalkDir(os.DirFS(from), ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return keepFile(filepath.Join(to, filepath.FromSlash(file)), filepath.Join(from, filepath.FromSlash(file)), entry.Type())
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func keepFile(to, from string, kind fs.FileMode) error {
	var text []byte
	var link string
	var err error
	switch {
	case kind == fs.ModeSymlink:
		link, err = os.Readlink(from)
	case kind.IsRegular():
		text, err = os.ReadFile(from)
	default:
		err = fmt.Errorf("%s is neither a file nor a folder nor a symbolic link: move it away", from)
	}
	if err != nil || isGenerated(from, text) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil { //nolint:gosec // as the user's umask says
		return err
	}
	if link != "" {
		return os.Symlink(link, to)
	}
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	return errors.Join(create(to, text), os.Chmod(to, info.Mode().Perm()))
}

// swap moves a folder to the place of another one, which may not exist, and returns where that one is now.
func swap(folder, by string) (old string, err error) {
	old = by + ".old"
	err = os.Rename(folder, old)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	existed := err == nil
	if err := os.Rename(by, folder); err != nil {
		if existed {
			if back := os.Rename(old, folder); back != nil {
				err = fmt.Errorf("%w; move %s back to %s yourself: %w", err, old, folder, back)
			}
		}
		return "", err
	}
	return old, nil
}

// removeAll is replaced by tests: root may remove every folder.
var removeAll = os.RemoveAll

// command returns the arguments of go.
func (g generator) command(kubernetes string) []string {
	return append([]string{"run", "k8s.io/code-generator/cmd/" + g.Name + "@" + kubernetes}, g.Args...)
}

// run runs the generator in a folder.
func (g generator) run(ctx context.Context, folder, kubernetes string) error {
	command := exec.CommandContext(ctx, "go", g.command(kubernetes)...)
	command.Dir = folder
	output, err := command.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return errors.New("go is not in the PATH: the generators of clients are Go programs")
	}
	if err != nil {
		return fmt.Errorf("%s of Kubernetes %s: %s", g.Name, kubernetes, reason(output, err))
	}
	return nil
}

var logHeader = regexp.MustCompile(`^[EF]\d{4} \S+ +\d+ \S+\] `)

// reason returns the line in the output of a program that says why it failed.
func reason(output []byte, err error) string {
	first := ""
	for line := range strings.Lines(string(output)) {
		line = strings.TrimSpace(line)
		if logHeader.MatchString(line) {
			return logHeader.ReplaceAllString(line, "")
		}
		if first == "" && !strings.HasPrefix(line, "go: downloading ") {
			first = line
		}
	}
	if first == "" {
		return err.Error()
	}
	return first
}
