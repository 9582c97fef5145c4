// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/tripod-k8s/tripod/local/process"
)

const (
	// detachedVariable is set for a `tripod up` that another one has started in the background. Its readyFD is a pipe to the other one, for
	// its lines for the user until it is ready, and the readyMessage. Its lockFD is the lock of the data directory.
	detachedVariable = "TRIPOD_UP_DETACHED"
	detachedUsed     = "true"
	detachedUnused   = "unused"
	readyFD          = 3
	lockFD           = 4
	// readyMessage is a line that an instance writes to no user.
	readyMessage = "\x00ready"
	// ownLog is the name of the log of a detached `tripod up`, beside those of the replicas.
	ownLog = "up"
)

// Parent is the `tripod up` that has started this one in the background.
type Parent struct {
	// File is a pipe to it.
	*os.File

	lock *os.File
	// unused says that no instance had used the data directory when the parent locked it.
	unused bool
}

// Detached returns what Detach has given to this process. It returns nil for a process that something else has started.
func Detached() *Parent {
	how := os.Getenv(detachedVariable)
	if how == "" {
		return nil
	}
	_ = os.Unsetenv(detachedVariable) // the name is valid
	syscall.CloseOnExec(readyFD)
	syscall.CloseOnExec(lockFD)
	return &Parent{os.NewFile(readyFD, "ready"), os.NewFile(lockFD, "lock"), how == detachedUnused}
}

// ifUnused returns the data directory if no instance has used it before, and otherwise nil.
func (p *Parent) ifUnused(d DataDir) *unused {
	if p == nil {
		return d.ifUnused()
	}
	if !p.unused {
		return nil
	}
	return &unused{dir: d}
}

// reads returns the names in the data directory that a refused instance leaves for its parent, if it has one.
func (p *Parent) reads() []string {
	if p == nil {
		return nil
	}
	return whatParentReads
}

// open returns the lock of the data directory, which the parent has locked if there is one.
func (p *Parent) open(d DataDir) (lock *os.File, err error) {
	if p == nil {
		return d.open()
	}
	return p.lock, d.take(p.lock)
}

// Detach starts a command, which runs an instance in the data directory, in a session of its own, and returns when the instance is
// ready. It copies to out what the instance writes until then. An error means that no process is left.
func Detach(ctx context.Context, dataDir DataDir, command []string, out io.Writer) error {
	// The command gets the lock, so that no other process finds the directory without one meanwhile.
	before, how := dataDir.ifUnused(), detachedUsed
	if before != nil {
		how = detachedUnused
	}
	lock, err := dataDir.open()
	if lock != nil {
		defer lock.Close() //nolint:errcheck // it may be closed already
	}
	if err != nil {
		return err
	}
	ready, progress, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close() //nolint:errcheck // it is only read
	log := process.NewLogFile(dataDir.log(ownLog))
	stdout, stderr, err := log.Open()
	if err != nil {
		return errors.Join(err, progress.Close())
	}
	defer log.Close()                                                                  //nolint:errcheck // the command has its own
	cmd := exec.CommandContext(context.WithoutCancel(ctx), command[0], command[1:]...) // it outlives ctx
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = stdout, stderr, []*os.File{progress, lock}
	cmd.Env = append(os.Environ(), detachedVariable+"="+how)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	if err := errors.Join(err, progress.Close(), lock.Close()); err != nil {
		return fmt.Errorf("cannot start %s: %w", command[0], err)
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) }) // it may have ended just now
	isReady := copyUntilReady(ready, out)
	if stop() && isReady {
		return nil
	}
	_ = cmd.Wait() // its log has the reason
	if ctx.Err() != nil {
		return errors.New("interrupted: the instance has stopped")
	}
	err = fmt.Errorf("the instance has ended before it was ready: %s", strings.TrimPrefix(lastOf(log.Tail()), "Error: "))
	return errors.Join(err, before.finish())
}

// copyUntilReady copies lines of an instance until it is ready, or has ended. It reports whether it is ready.
func copyUntilReady(lines io.Reader, out io.Writer) bool {
	for reader := bufio.NewReader(lines); ; {
		line, err := reader.ReadString('\n')
		if err != nil {
			return false
		}
		if line == readyMessage+"\n" {
			return true
		}
		fmt.Fprint(out, line)
	}
}

// lastOf returns the last line that is not empty.
func lastOf(lines []string) string {
	for _, line := range slices.Backward(lines) {
		if line != "" {
			return line
		}
	}
	return "its log is empty"
}
