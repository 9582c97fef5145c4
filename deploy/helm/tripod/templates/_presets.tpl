{{- /*
Copyright The Tripod Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /* What the preset gives to those values that the user leaves as they are in values.yaml, as JSON: `null`, or `preset` where `null` means something else.
presets.json has all of it, and why a controller belongs to a preset. */ -}}
{{- define "tripod.preset" -}}
{{- $all := .Files.Get "presets.json" | fromJson -}}
{{- $name := default "api" .Values.preset -}}
{{- $preset := get $all $name -}}
{{- /* Before there were presets, `enabled: true` ran all controllers, and it still does. */ -}}
{{- if .Values.controllerManager.enabled -}}{{- $_ := set $preset "controllerManager" $all.cluster.controllerManager -}}{{- end -}}
{{- /* An etcd of yours is yours to save, and without a class of volumes a claim for snapshots would wait forever. */ -}}
{{- with .Values.etcd -}}
{{- if not (and .enabled (or .persistence.enabled .snapshots.volume .snapshots.s3.bucket)) -}}{{- $_ := set $preset.etcd "snapshots" (dict "enabled" false) -}}{{- end -}}
{{- end -}}
{{- /* Agents of konnectivity come with nodes only. */ -}}
{{- if eq (toString .Values.join.enabled) "false" -}}{{- $_ := set $preset "konnectivity" (dict "enabled" false) -}}{{- end -}}
{{- toJson $preset -}}
{{- end -}}

{{- /* A value as JSON: that of the user or, where the user gives none, that of the preset: dict root, path. */ -}}
{{- define "tripod.setting" -}}
{{- $given := include "tripod.setting.at" (dict "values" .root.Values "path" .path) -}}
{{- if eq $given "null" -}}
{{- include "tripod.setting.at" (dict "values" (include "tripod.preset" .root | fromJson) "path" .path) -}}
{{- else -}}
{{- $given -}}
{{- end -}}
{{- end -}}

{{- /* The value at a path, as JSON, or null: dict values, path. */ -}}
{{- define "tripod.setting.at" -}}
{{- $found := .values -}}
{{- range splitList "." .path -}}
{{- if kindIs "map" $found -}}{{- $found = ternary (get $found .) nil (hasKey $found .) -}}{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{- /* Whether a part of the release is on, true or nothing: dict root, path. */ -}}
{{- define "tripod.enabled" -}}
{{- if eq (include "tripod.setting" (dict "root" .root "path" (printf "%s.enabled" .path))) "true" -}}true{{- end -}}
{{- end -}}

{{- /* The replicas that the preset gives to aggregator, core, extensions or a partition: dict root, component. */ -}}
{{- define "tripod.preset.replicas" -}}
{{- include "tripod.setting.at" (dict "values" (include "tripod.preset" .root | fromJson) "path" (printf "%s.replicas" (include "tripod.program" .))) -}}
{{- end -}}

{{- /* Where clients of the `kubernetes` Service find the API, as JSON {address, port}. Nodes that join do not reach the addresses of pods of this cluster. */ -}}
{{- define "tripod.advertise" -}}
{{- include "tripod.preset.check" . -}}
{{- $address := .Values.advertise.address -}}
{{- $port := 6443 -}}
{{- if kindIs "invalid" $address -}}
{{- $address = "podIP" -}}
{{- $here := and (eq .Values.service.type "NodePort") .Values.service.nodePort -}}
{{- if or (eq (default "api" .Values.preset) "api") (not (include "tripod.enabled" (dict "root" . "path" "join"))) -}}
{{- else if $here -}}
{{- $address = "hostIP" -}}
{{- $port = .Values.service.nodePort -}}
{{- else -}}
{{- $of := include "tripod.certificates.host" .Values.join.endpoint | fromJson -}}
{{- if not $of.ipAddresses -}}
{{- fail (printf "preset %s needs advertise.address, an IP address at which pods on nodes reach Tripod: join.endpoint has a name" .Values.preset) -}}
{{- end -}}
{{- $address = first $of.ipAddresses -}}
{{- $port = regexFind "[0-9]+$" .Values.join.endpoint -}}
{{- end -}}
{{- end -}}
{{- dict "address" $address "port" (int (default $port .Values.advertise.port)) | toJson -}}
{{- end -}}

{{- /* Host and port at which agents of konnectivity reach the servers, or nothing. */ -}}
{{- define "tripod.konnectivity.endpoint" -}}
{{- with .Values.konnectivity -}}
{{- if .endpoint -}}
{{- .endpoint -}}
{{- else if and $.Values.join.endpoint (eq $.Values.service.type "NodePort") .service.nodePort -}}
{{- printf "%s:%d" (regexReplaceAll ":[0-9]+$" $.Values.join.endpoint "") (int .service.nodePort) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Fails if a preset and values contradict each other. Otherwise it is empty. */ -}}
{{- define "tripod.preset.check" -}}
{{- $name := default "api" .Values.preset -}}
{{- if and (eq $name "api") .Values.join.enabled (kindIs "invalid" .Values.controllerManager.enabled) -}}
{{- fail "join.enabled needs the controllers of nodes, which preset api does not run: set preset to cluster, or controllerManager.enabled to true, or to false if yours run elsewhere" -}}
{{- end -}}
{{- if not (include "tripod.enabled" (dict "root" . "path" "join")) -}}
{{- with .Values.join -}}
{{- range $value, $given := dict "coreDNS.enabled" .coreDNS.enabled "kubeProxy.enabled" .kubeProxy.enabled "podNetwork" .podNetwork -}}
{{- if $given -}}
{{- fail (printf "join.%s is for nodes that join, and %s: set join.enabled to true, or leave join.%[1]s out" $value (kindIs "invalid" $.Values.join.enabled | ternary (printf "preset %s has none" $name) "join.enabled is false")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if ne $name "api" -}}
{{- $joins := include "tripod.enabled" (dict "root" . "path" "join") -}}
{{- if and $joins (not .Values.join.endpoint) -}}
{{- fail (printf "preset %s needs join.endpoint, the host and port at which nodes reach Tripod; without nodes, set join.enabled to false" $name) -}}
{{- end -}}
{{- if and (include "tripod.enabled" (dict "root" . "path" "konnectivity")) (not (include "tripod.konnectivity.endpoint" .)) -}}
{{- fail (printf "preset %s needs konnectivity.endpoint, the host and port at which agents on nodes reach Tripod; if Tripod reaches nodes and pods itself, set konnectivity.enabled to false" $name) -}}
{{- end -}}
{{- end -}}
{{- with .Values.etcd -}}
{{- if and (eq $name "ha") .enabled (not .persistence.enabled) (kindIs "invalid" .replicas) -}}
{{- fail "preset ha has three members of etcd, which need etcd.persistence.enabled: a member that loses its data does not come back" -}}
{{- end -}}
{{- end -}}
{{- end -}}
