// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
)

// RunCommand is the main function of a command. It runs the command until SIGINT or SIGTERM. It exits with 1 after an error, and with 2
// after help.
func RunCommand(name string, run func(ctx context.Context, args []string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	switch {
	case err == nil:
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	default:
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// ParseFlags parses the flags of a command that takes no other arguments.
func ParseFlags(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	return nil
}

// Lines returns a writer that calls line with each line written to it, without the newline.
func Lines(line func(string)) io.Writer { return &lines{line: line} }

type lines struct {
	line    func(string)
	partial []byte
}

func (l *lines) Write(data []byte) (int, error) {
	l.partial = append(l.partial, data...)
	for {
		line, rest, found := bytes.Cut(l.partial, []byte("\n"))
		if !found {
			return len(data), nil
		}
		l.partial = rest
		l.line(string(line))
	}
}

// VersionOf returns the version that a program prints, such as v1.36.3.
func VersionOf(ctx context.Context, path string) (string, error) {
	output, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version (make build suite-assets?): %w", path, err)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(output)), "\n")
	return first[strings.LastIndex(first, " ")+1:], nil
}
