// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// statusTimeout is how long an instance may take to report its status.
const statusTimeout = 5 * time.Second

// maxErrorSize bounds what an error quotes of an unexpected answer.
const maxErrorSize = 4 << 10

// GetStatus asks the instance that runs in the data directory for the state of its processes. The instance counts requests
// since the aggregators started or, if over is not zero, for that long from now on.
func GetStatus(ctx context.Context, dataDir DataDir, over time.Duration) ([]Status, error) {
	ctx, cancel := context.WithTimeout(ctx, over+statusTimeout)
	defer cancel()
	path := statusPath
	if over != 0 {
		path += "?" + url.Values{overParameter: {over.String()}}.Encode()
	}
	var statuses []Status
	err := ask(ctx, dataDir, http.MethodGet, path, nil, func(answer *json.Decoder) error { return answer.Decode(&statuses) })
	return statuses, err
}

// Observe asks the instance that runs in the data directory for its state, and for what happened after the event of a number.
func Observe(ctx context.Context, dataDir DataDir, after int64) (*Observation, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	path := observePath + "?" + url.Values{afterParameter: {strconv.FormatInt(after, 10)}}.Encode()
	observation := &Observation{}
	err := ask(ctx, dataDir, http.MethodGet, path, nil, func(answer *json.Decoder) error { return answer.Decode(observation) })
	return observation, err
}

// Scale makes the instance that runs in the data directory change a service to n replicas. It reports progress, and returns
// when all is done. If ctx ends earlier, the number reached so far stays.
func Scale(ctx context.Context, dataDir DataDir, service string, n int, progress func(line string)) error {
	body, err := json.Marshal(scaleRequest{Service: service, Replicas: n})
	if err != nil {
		return err
	}
	var failed error
	err = ask(ctx, dataDir, http.MethodPost, scalePath, body, func(answer *json.Decoder) (err error) {
		failed, err = readScale(answer, progress)
		return err
	})
	return errors.Join(failed, err)
}

// readScale reads the answer to a scaleRequest to its end. It returns why the instance has failed, and why the answer cannot be read.
func readScale(answer *json.Decoder, progress func(line string)) (failed, err error) {
	for {
		var message scaleMessage
		if err := answer.Decode(&message); err != nil {
			return nil, err
		}
		switch {
		case message.Error != "":
			return errors.New(message.Error), nil
		case message.Done:
			return nil, nil
		}
		progress(message.Line)
	}
}

// ask sends a request to the instance and passes the answer to a reader.
func ask(ctx context.Context, dataDir DataDir, method, path string, body []byte, read func(answer *json.Decoder) error) error {
	socket, release, err := shortSocketPath(dataDir)
	if errors.Is(err, os.ErrNotExist) {
		return notRunning(dataDir)
	}
	if err != nil {
		return err
	}
	defer release()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, method, "http://tripod"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := transport.RoundTrip(req)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return notRunning(dataDir)
	}
	if err != nil {
		return fmt.Errorf("cannot ask the instance in %s: %w", dataDir, err)
	}
	defer response.Body.Close() //nolint:errcheck // nothing depends on it
	if response.StatusCode == http.StatusNotFound {
		return fmt.Errorf("another version of tripod runs the instance in %s: stop it, and start it with this version", dataDir)
	}
	if response.StatusCode != http.StatusOK {
		// Another version of this program started the instance.
		text, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorSize))
		return fmt.Errorf("the instance in %s refuses: %s: %s", dataDir, response.Status, strings.TrimSpace(string(text)))
	}
	if err := read(json.NewDecoder(response.Body)); err != nil {
		return fmt.Errorf("cannot read the answer of the instance in %s: %w", dataDir, err)
	}
	return nil
}

// notRunningError says that no instance runs in a data directory.
type notRunningError struct{ dataDir DataDir }

func (e *notRunningError) Error() string {
	return fmt.Sprintf("tripod does not run in %s: start it with `tripod up`, or give its --name or --data-dir", e.dataDir)
}

func notRunning(dataDir DataDir) error { return &notRunningError{dataDir} }
