// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package process runs the processes of Tripod as children: it starts them, waits until they are ready, restarts those that die, and stops
// all of them in order.
//
//	group := process.NewGroup(func(e process.Event) { fmt.Println(e) })
//	defer group.Stop()
//	etcd := group.Start(process.Process{Component: "etcd", Path: path, Args: args, Output: log, Ready: probe.Ready})
//	if err := group.WaitReady(ctx, etcd); err != nil {
//	        return err
//	}
//
// On Linux, a child gets SIGKILL when this process ends for any reason, so that no child is left behind.
package process
