{{- /*
Copyright The Tripod Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /* Where browsers reach the console, as a JSON list of hosts with their ports, unless these are 443: the hosts of the values, or else `kubectl
port-forward`, and the Service. */ -}}
{{- define "tripod.console.hosts" -}}
{{- $port := ternary "" (printf ":%v" .Values.console.service.port) (eq (int .Values.console.service.port) 443) -}}
{{- $service := printf "%s-console.%s.svc%s" (include "tripod.fullname" .) .Release.Namespace $port -}}
{{- concat (.Values.console.hosts | default (list "localhost:8443")) (list $service) | uniq | toJson -}}
{{- end -}}

{{- /* The OIDC issuer at which users sign in, as JSON. What the values of the console do not say is that of the API. It is empty without one. */ -}}
{{- define "tripod.console.oidc" -}}
{{- $own := .Values.console.oidc -}}
{{- $api := .Values.authentication.oidc -}}
{{- if $own.enabled -}}
{{- dict
  "issuerURL" ($own.issuerURL | default $api.issuerURL | required "console.oidc.issuerURL, or authentication.oidc.issuerURL, is needed where console.oidc.enabled is true")
  "clientID" ($own.clientID | default $api.clientID | required "console.oidc.clientID, or authentication.oidc.clientID, is needed where console.oidc.enabled is true")
  "caSecret" ($own.caSecret | default $api.caSecret) "clientSecret" $own.clientSecret "scopes" $own.scopes | toJson -}}
{{- else -}}
{}
{{- end -}}
{{- end -}}

{{- /* The rule of a NetworkPolicy that lets the console reach its OIDC issuer. */ -}}
{{- define "tripod.console.egress" -}}
{{- $egress := .Values.console.oidc.egress -}}
{{- $port := (urlParse (include "tripod.console.oidc" . | fromJson).issuerURL).host | regexFind ":[0-9]+$" | trimPrefix ":" | default "443" -}}
- ports:
    {{- range $egress.ports | default (list $port) }}
    - {port: {{ . }}}
    {{- end }}
  {{- with $egress.to | default .Values.networkPolicy.outside }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- /* The flags of the console. */ -}}
{{- define "tripod.console.arguments" -}}
- console
- serve
- --server=https://{{ include "tripod.host" . }}:{{ .Values.service.port }}
- --certificate-authority=/etc/tripod/pki/ca.crt
- --tls-cert-file=/etc/tripod/pki/own/tls.crt
- --tls-private-key-file=/etc/tripod/pki/own/tls.key
- --secure-port=8443
- --probe-bind-address=:6445
{{- range include "tripod.console.hosts" . | fromJsonArray }}
- --host={{ . }}
{{- end }}
{{- with include "tripod.console.oidc" . | fromJson }}
- --oidc-issuer-url={{ .issuerURL }}
- --oidc-client-id={{ .clientID }}
{{- if .clientSecret }}
- --oidc-client-secret-file=/etc/tripod/oidc/client-secret
{{- end }}
{{- if .caSecret }}
- --oidc-ca-file=/etc/tripod/oidc/ca.crt
{{- end }}
{{- with .scopes }}
- --oidc-scopes={{ join "," . }}
{{- end }}
{{- end }}
- --session-idle-timeout={{ .Values.console.sessions.idleTimeout }}
- --session-lifetime={{ .Values.console.sessions.lifetime }}
{{- range .Values.console.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{- /* The volumes of the console, as a YAML list: its certificate, with the authority of the API, and what it needs for OIDC. */ -}}
{{- define "tripod.console.volumes" -}}
{{- $own := printf "%s-console" (include "tripod.fullname" .) -}}
- name: pki
  projected:
    defaultMode: 0440
    sources:
      {{- include "tripod.pki.leaf" (dict "secret" (.Values.console.certificateSecret | default $own) "directory" "own") | nindent 6 }}
      - secret: {name: {{ $own }}, items: [{key: ca.crt, path: ca.crt}]}
{{- with include "tripod.console.oidc" . | fromJson }}
{{- if or .clientSecret .caSecret }}
- name: oidc
  projected:
    defaultMode: 0440
    sources:
      {{- with .clientSecret }}
      - secret: {name: {{ . }}, items: [{key: clientSecret, path: client-secret}]}
      {{- end }}
      {{- with .caSecret }}
      - secret: {name: {{ . }}, items: [{key: ca.crt, path: ca.crt}]}
      {{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* The Deployment of the console: dict root, component, name, values. */ -}}
{{- define "tripod.console.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "tripod.metadata" . | nindent 2 }}
spec:
  replicas: {{ .values.replicas }}
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxSurge: 1
      maxUnavailable: 0
  revisionHistoryLimit: 3
  selector:
    matchLabels:
      {{- include "tripod.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "tripod.podLabels" . | nindent 8 }}
        {{- with .values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with .values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      {{- include "tripod.pod.common" (merge (dict "account" .component) .) | nindent 6 }}
      {{- include "tripod.pod.scheduling" . | trim | nindent 6 }}
      containers:
        - name: console
          image: {{ include "tripod.image" (merge (dict "name" "tripod") (pick . "root")) }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args:
            {{- include "tripod.console.arguments" .root | trim | nindent 12 }}
          env:
            {{- include "tripod.env" (dict "container" .component "resources" .values.resources) | nindent 12 }}
            {{- with .values.env }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            - {name: https, containerPort: 8443}
            - {name: probes, containerPort: 6445}
          startupProbe:
            httpGet: {path: /livez, port: probes}
            periodSeconds: 1
            failureThreshold: 60
          readinessProbe:
            httpGet: {path: /readyz, port: probes}
            timeoutSeconds: 5
          livenessProbe:
            httpGet: {path: /livez, port: probes}
            timeoutSeconds: 10
            failureThreshold: 6
          resources:
            {{- toYaml .values.resources | nindent 12 }}
          securityContext:
            {{- include "tripod.container.security" . | nindent 12 }}
          volumeMounts:
            - {name: pki, mountPath: /etc/tripod/pki, readOnly: true}
            {{- with include "tripod.console.oidc" .root | fromJson }}
            {{- if or .clientSecret .caSecret }}
            - {name: oidc, mountPath: /etc/tripod/oidc, readOnly: true}
            {{- end }}
            {{- end }}
            {{- with .values.volumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
        {{- with .values.containers }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      volumes:
        {{- include "tripod.console.volumes" .root | nindent 8 }}
        {{- with .values.volumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
{{- end -}}
