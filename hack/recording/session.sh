#!/usr/bin/env bash
# Copyright The Tripod Authors.
# SPDX-License-Identifier: Apache-2.0

# What `make recording` shows: it types each command and runs it.
set -euo pipefail

# run COMMAND types a command, and runs it. What is behind "##" runs, and is not shown.
run() {
	local shown=${1%%##*}
	printf '\e[32m$\e[0m '
	for ((i = 0; i < ${#shown}; i++)); do
		printf '%s' "${shown:i:1}"
		sleep 0.02
	done
	printf '\n'
	eval "${1/\#\#/}"
	sleep 1
}

clear
run 'tripod up -d --core-replicas 2'
run 'tripod kubectl get apiservices ## | sed -n "1,3p;/apiextensions/p;\$p"'
run 'tripod scale extensions --replicas 3 ## >/dev/null'
run $'kill -9 $(tripod status -o json | jq \'.[] | select(.replica=="core-0").pid\')'
run 'tripod kubectl create namespace goes-on'
run 'tripod status ## | cut -c1-91'
run 'tripod down'
sleep 2
