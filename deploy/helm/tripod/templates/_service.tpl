{{- /*
Copyright The Tripod Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /* The Deployment of a service: dict root, component. */ -}}
{{- define "tripod.deployment" -}}
{{- $values := include "tripod.values" . | fromJson -}}
{{- $context := merge (dict "values" $values "name" .component) . -}}
{{- $files := fromJson (include "tripod.config.volumes" $context) -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "tripod.metadata" $context | nindent 2 }}
spec:
  {{- if and (not $values.autoscaling.enabled) (not (kindIs "invalid" $values.replicas)) }}
  replicas: {{ eq (toString $values.replicas) "preset" | ternary (include "tripod.preset.replicas" .) $values.replicas }}
  {{- end }}
  {{- /* An old replica stops only when a new one is ready, so that none is missing. */}}
  strategy:
    {{- if eq (toString $values.strategy) "Recreate" }}
    type: Recreate
    {{- else }}
    type: RollingUpdate
    rollingUpdate:
      maxSurge: 1
      maxUnavailable: 0
    {{- end }}
  revisionHistoryLimit: 3
  selector:
    matchLabels:
      {{- include "tripod.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "tripod.podLabels" . | nindent 8 }}
        {{- if include "tripod.konnectivity.beside" . }}
        {{- include "tripod.konnectivity.label" . | nindent 8 }}
        {{- end }}
        {{- with $values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      annotations:
        kubectl.kubernetes.io/default-container: {{ .component }}
        checksum/config: {{ include "tripod.config.checksum" . }}
        {{- with $values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      {{- include "tripod.pod.common" (merge (dict "account" .component) .) | nindent 6 }}
      {{- include "tripod.pod.scheduling" $context | trim | nindent 6 }}
      terminationGracePeriodSeconds: {{ add $values.shutdown.delay $values.shutdown.watches $values.shutdown.requests }}
      {{- if include "tripod.konnectivity.beside" . }}
      initContainers:
        - {{- include "tripod.konnectivity.server" .root | nindent 10 }}
      {{- end }}
      containers:
        - name: {{ .component }}
          {{- if include "tripod.isAdditional" . }}
          image: {{ include "tripod.reference" $values.image }}
          imagePullPolicy: {{ $values.image.pullPolicy }}
          {{- else }}
          image: {{ include "tripod.image" (merge (dict "name" (printf "tripod-%s" (include "tripod.program" .))) .) }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          {{- end }}
          args:
            {{- include "tripod.arguments" $context | trim | nindent 12 }}
          env:
            {{- include "tripod.env" (dict "container" .component "resources" $values.resources "goGC" $values.goGC) | nindent 12 }}
            {{- if and (eq .component "aggregator") (eq (include "tripod.advertise" .root | fromJson).address "hostIP") }}
            - name: HOST_IP
              valueFrom:
                fieldRef:
                  fieldPath: status.hostIP
            {{- end }}
            {{- with $values.env }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            - {name: https, containerPort: 6443}
            {{- if ne .component "aggregator" }}
            - {name: grpc, containerPort: 6444}
            {{- end }}
            - {name: probes, containerPort: 6445}
          {{- /* No preStop: after SIGTERM, a service reports that it is not ready, and goes on serving for --shutdown-delay-duration. */}}
          startupProbe:
            httpGet: {path: /livez, port: probes}
            periodSeconds: 2
            timeoutSeconds: 5
            failureThreshold: 150
          {{- /* An aggregator without its etcd still serves what the other services store. Its answers to other requests say why the client must wait. */}}
          readinessProbe:
            httpGet: {path: "/readyz{{ if eq .component "aggregator" }}?exclude=etcd&exclude=etcd-readiness{{ end }}", port: probes}
            periodSeconds: 2
            timeoutSeconds: 5
            failureThreshold: 2
          {{- /* A restart does not repair etcd. */}}
          livenessProbe:
            httpGet: {path: "/livez?exclude=etcd", port: probes}
            periodSeconds: 10
            timeoutSeconds: 10
            failureThreshold: 6
          resources:
            {{- toYaml $values.resources | nindent 12 }}
          securityContext:
            {{- include "tripod.container.security" . | nindent 12 }}
          volumeMounts:
            {{- toYaml $files.mounts | nindent 12 }}
        {{- with $values.containers }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      volumes:
        {{- toYaml $files.volumes | nindent 8 }}
{{- end -}}
