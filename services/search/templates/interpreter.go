// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"text/template"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// command is the first argument of a program that is an interpreter.
const command = "interpret-templates"

const (
	// maxText bounds what a template makes.
	maxText = 1 << 20
	// maxTask bounds a template with its data: some objects of the largest size that etcd takes.
	maxTask = 16 << 20
	// maxWrong bounds the text of an error in an answer, and maxAnswer the answer: JSON of a text may be six times as long.
	maxWrong  = 4 << 10
	maxAnswer = 8 << 20
	// exitTime is the exit code of an interpreter whose task took too much processor time.
	exitTime = 3
	// lookInterval is how often the interpreter looks how much processor time a task has taken.
	lookInterval = 20 * time.Millisecond
)

// task is what an interpreter is asked.
type task struct {
	Template string `json:"template"`
	// Data are the values for the template. Without them, it is only parsed.
	Data json.RawMessage `json:"data,omitempty"`
	// YAML makes JSON of what the template makes.
	YAML bool `json:"yaml,omitempty"`
}

// outcome is the answer to a task. Wrong is what is wrong with it, and Took the processor time.
type outcome struct {
	Text  string        `json:"text,omitempty"`
	Wrong string        `json:"wrong,omitempty"`
	Took  time.Duration `json:"took"`
}

// InterpretIfAsked makes this program an interpreter if it was started as one, and then does not return.
func InterpretIfAsked() {
	if len(os.Args) < 2 || os.Args[1] != command {
		return
	}
	limits, err := parseLimits(os.Args[2:])
	if err == nil {
		err = interpret(limits, os.Stdin, os.Stdout)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func parseLimits(arguments []string) (limits Limits, err error) {
	if len(arguments) != 2 {
		return limits, errors.New("this command is for tripod-search itself")
	}
	if limits.Memory, err = strconv.ParseInt(arguments[0], 10, 64); err != nil {
		return limits, err
	}
	limits.Time, err = time.ParseDuration(arguments[1])
	return limits, err
}

func interpret(limits Limits, from io.Reader, to io.Writer) error {
	var began atomic.Int64 // the processor time before the task
	began.Store(-1)
	go watch(limits.Time, &began)
	if err := restrict(limits.Memory); err != nil {
		return err
	}
	debug.SetMaxStack(int(limits.Memory / 4))
	for {
		text, err := readFrame(from, maxTask)
		if err != nil {
			return err
		}
		start := processorTime()
		began.Store(int64(start))
		var asked task
		var answer outcome
		if err := json.Unmarshal(text, &asked); err != nil {
			return err
		}
		if answer.Text, err = asked.execute(); err != nil {
			answer = outcome{Wrong: strings.ToValidUTF8(err.Error()[:min(len(err.Error()), maxWrong)], "")}
		}
		answer.Took = processorTime() - start
		text, err = json.Marshal(answer)
		if err != nil {
			return err
		}
		began.Store(-1)
		if err := writeFrame(to, text); err != nil {
			return err
		}
	}
}

// watch ends the process when a task takes too long. It counts the time of the processor, so that a busy machine stops nothing.
func watch(limit time.Duration, began *atomic.Int64) {
	for range time.Tick(lookInterval) {
		if before := began.Load(); before >= 0 && processorTime()-time.Duration(before) > limit {
			os.Exit(exitTime)
		}
	}
}

// execute returns what a template makes. A field that is not there is empty.
func (t *task) execute() (string, error) {
	parsed, err := template.New("template").Funcs(functions).Parse(t.Template)
	if err != nil || t.Data == nil {
		return "", err
	}
	var data map[string]any
	if err := utiljson.Unmarshal(t.Data, &data); err != nil {
		return "", err
	}
	var made bounded
	if err := parsed.Execute(&made, data); err != nil {
		return "", err
	}
	text := strings.ReplaceAll(made.String(), "<no value>", "")
	if !t.YAML {
		return text, nil
	}
	object, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return "", errors.New("it does not make YAML") // the error may have credentials
	}
	if len(object) > maxText {
		return "", errTooMuch
	}
	return string(object), nil
}

var errTooMuch = errors.New("it makes more than 1 MiB")

// bounded takes maxText bytes.
type bounded struct{ bytes.Buffer }

// Write implements io.Writer.
func (b *bounded) Write(text []byte) (int, error) {
	if b.Len()+len(text) > maxText {
		return 0, errTooMuch
	}
	return b.Buffer.Write(text)
}

// readFrame reads a length and as many bytes.
func readFrame(from io.Reader, most uint32) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[:])
	if length > most {
		return nil, fmt.Errorf("a message of %d bytes is too large", length)
	}
	text := make([]byte, length)
	_, err := io.ReadFull(from, text)
	return text, err
}

func writeFrame(to io.Writer, text []byte) error {
	_, err := to.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}
