// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"time"
)

// waitTimeout is how long an interpreter may take for a task, its waiting for a processor included.
const waitTimeout = time.Minute

// stopped is the error of a task that was more than an interpreter may take.
type stopped struct{ reason, text string }

func (s *stopped) Error() string { return s.text }

// process is an interpreter that runs.
type process struct {
	limits  Limits
	command *exec.Cmd
	cancel  context.CancelFunc
	in      io.WriteCloser
	out     io.ReadCloser
	wrong   head
}

// start starts an interpreter, which ends with the context or with this program.
func start(ctx context.Context, limits Limits) (*process, error) {
	ctx, cancel := context.WithCancel(ctx)
	p := &process{limits: limits, cancel: cancel}
	p.command = exec.CommandContext(ctx, self, command, strconv.FormatInt(limits.Memory, 10), limits.Time.String())
	p.command.Env = []string{"GOMAXPROCS=1", "GOTRACEBACK=none"}
	p.command.Dir = "/"
	p.command.Stderr = &p.wrong
	p.command.WaitDelay = time.Second
	var err error
	if p.in, err = p.command.StdinPipe(); err == nil {
		p.out, err = p.command.StdoutPipe()
	}
	if err == nil {
		err = p.command.Start()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("no process for templates: %w", err)
	}
	return p, nil
}

// ask has the interpreter execute a task. After an error, it must not be used again.
func (p *process) ask(ctx context.Context, asked task) (outcome, error) {
	text, err := json.Marshal(asked)
	if err != nil {
		return outcome{}, err
	}
	if len(text) > maxTask {
		return outcome{Wrong: fmt.Sprintf("with its objects, it has more than %d MiB", maxTask>>20)}, nil
	}
	slow := time.AfterFunc(waitTimeout, p.cancel)
	defer slow.Stop()
	var answer outcome
	if err = writeFrame(p.in, text); err == nil {
		text, err = readFrame(p.out, maxAnswer)
	}
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if err == nil {
		return answer, nil
	}
	return outcome{}, p.autopsy(ctx, err)
}

// autopsy returns why an interpreter has ended.
func (p *process) autopsy(ctx context.Context, cause error) error {
	p.cancel()
	err := p.command.Wait()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &exit) && exit.ExitCode() == exitTime:
		return &stopped{"time", fmt.Sprintf("it takes more than %s of a processor", p.limits.Time)}
	case bytes.Contains(p.wrong.text, []byte("out of memory")) || bytes.Contains(p.wrong.text, []byte("stack exceeds")) ||
		bytes.Contains(p.wrong.text, []byte("cannot allocate memory")):
		return &stopped{"memory", fmt.Sprintf("it takes more than %d MiB of memory", p.limits.Memory>>20)}
	default:
		return &stopped{"other", fmt.Sprintf("the process for templates has ended: %v: %s", errors.Join(err, cause),
			bytes.TrimSpace(p.wrong.text))}
	}
}

// close ends the interpreter.
func (p *process) close() {
	p.cancel()
	_ = p.command.Wait() // it was killed
}

// head keeps the beginning of a text.
type head struct{ text []byte }

// Write implements io.Writer.
func (h *head) Write(text []byte) (int, error) {
	const most = 1024
	h.text = append(h.text, text[:min(len(text), most-min(len(h.text), most))]...)
	return len(text), nil
}
