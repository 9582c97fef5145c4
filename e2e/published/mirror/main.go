// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command mirror passes on requests to a registry, and changes a byte of each layer that it returns, as a mirror does that an attacker
// has taken.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:5001", "address to listen on")
	registry := flag.String("registry", "", "URL of the registry")
	flag.Parse()
	target, err := url.Parse(*registry)
	if err == nil {
		proxy := httputil.NewSingleHostReverseProxy(target)
		proxy.ModifyResponse = change
		err = http.ListenAndServe(*listen, proxy)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// change changes the last byte of a blob. Its length stays.
func change(answer *http.Response) error {
	if answer.Request.Method != http.MethodGet || answer.StatusCode != http.StatusOK || !strings.Contains(answer.Request.URL.Path, "/blobs/") {
		return nil
	}
	content, err := io.ReadAll(answer.Body)
	if err != nil || len(content) == 0 {
		return err
	}
	content[len(content)-1] ^= 1
	answer.Body = io.NopCloser(bytes.NewReader(content))
	return nil
}
