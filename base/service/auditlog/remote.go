// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/tripod-k8s/tripod/base/service/auditlog/auditfile"
)

// remote is an io.Writer of whole lines to the process that has the file.
type remote struct {
	socket string

	mu         sync.Mutex
	connection net.Conn
}

// Write implements io.Writer. It returns when the lines are in the file, or why they are not.
func (r *remote) Write(lines []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.connection == nil {
		connection, err := net.Dial("unix", r.socket)
		if err != nil {
			return 0, fmt.Errorf("reach the audit log: %w", err)
		}
		r.connection = connection
	}
	answer, err := r.exchange(lines)
	if err != nil {
		// The lines may be in the file. Write does not send them again: an event is in the log at most once.
		err = errors.Join(fmt.Errorf("write to the audit log: %w", err), r.connection.Close())
		r.connection = nil
		return 0, err
	}
	if answer != "" {
		return 0, errors.New(answer)
	}
	return len(lines), nil
}

func (r *remote) exchange(lines []byte) (answer string, err error) {
	if err := auditfile.Send(r.connection, lines); err != nil {
		return "", err
	}
	data, err := auditfile.Receive(r.connection)
	return string(data), err
}
