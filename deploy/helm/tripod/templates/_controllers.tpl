{{- /*
Copyright The Tripod Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /* The controllers that the release runs, by component, as JSON: the name of their values, their port and the paths of their probes. */ -}}
{{- define "tripod.controllers" -}}
{{- $all := dict
  "controller-manager" (dict "values" "controllerManager" "port" 10257 "live" "/healthz" "ready" "/healthz")
  "scheduler" (dict "values" "scheduler" "port" 10259 "live" "/livez" "ready" "/readyz") -}}
{{- range $component, $controller := deepCopy $all -}}
{{- if not (include "tripod.enabled" (dict "root" $ "path" $controller.values)) -}}{{- $_ := unset $all $component -}}{{- end -}}
{{- end -}}
{{- toJson $all -}}
{{- end -}}

{{- /* The names of the controllers of kube-controller-manager, as a JSON list. */ -}}
{{- define "tripod.controller.names" -}}
{{- if .Values.controllerManager.controllers -}}
{{- toJson .Values.controllerManager.controllers -}}
{{- else -}}
{{- (include "tripod.preset" . | fromJson).controllerManager.controllers | keys | sortAlpha | toJson -}}
{{- end -}}
{{- end -}}

{{- /* The values of a controller, with what the preset gives, as JSON: dict root, controller. */ -}}
{{- define "tripod.controller.values" -}}
{{- $values := deepCopy (get .root.Values .controller.values) -}}
{{- if eq .controller.values "controllerManager" -}}
{{- $_ := set $values "replicas" (include "tripod.setting" (dict "root" .root "path" "controllerManager.replicas") | int) -}}
{{- $_ := set $values "controllers" (include "tripod.controller.names" .root | fromJsonArray) -}}
{{- end -}}
{{- toJson $values -}}
{{- end -}}

{{- /* The host in the certificate with which a controller serves its probes and metrics: dict root, component. */ -}}
{{- define "tripod.controller.host" -}}
{{ include "tripod.fullname" .root }}-{{ .component }}.{{ .root.Release.Namespace }}.svc
{{- end -}}

{{- /* The flags of a controller, as lines of a YAML list: dict root, component, controller, values. */ -}}
{{- define "tripod.controller.arguments" -}}
{{- $values := .root.Values -}}
{{- range list "kubeconfig" "authentication-kubeconfig" "authorization-kubeconfig" }}
- --{{ . }}=/etc/tripod/kubeconfig/kubeconfig.yaml
{{- end }}
- --client-ca-file=/etc/tripod/pki/ca.crt
{{- /* With that file, it need not ask for the others before it starts. */}}
- --authentication-skip-lookup=true
- --tls-cert-file=/etc/tripod/pki/own/tls.crt
- --tls-private-key-file=/etc/tripod/pki/own/tls.key
- --secure-port={{ .controller.port }}
- --leader-elect=true
{{- if eq .component "controller-manager" }}
- --controllers={{ join "," .values.controllers }}
{{- if not (has "*" .values.controllers) }}
{{- /* A manager with all controllers, in another place or of the next revision, must not wait for one that has only some. Its ClusterRole names this
Lease, in any namespace. */}}
- --leader-elect-resource-namespace=kube-public
{{- end }}
- --use-service-account-credentials=true
- --service-account-private-key-file=/etc/tripod/pki/service-account/tls.key
- --root-ca-file=/etc/tripod/pki/ca.crt
- --cluster-signing-cert-file=/etc/tripod/pki/signer/tls.crt
- --cluster-signing-key-file=/etc/tripod/pki/signer/tls.key
{{- /* It looks for plugins there; the default is a directory of root. */}}
- --flex-volume-plugin-dir=/tmp/flexvolume
- --service-cluster-ip-range={{ $values.serviceClusterIPRange }}
- --allocate-node-cidrs={{ not (empty $values.clusterCIDR) }}
{{- with $values.clusterCIDR }}
- --cluster-cidr={{ . }}
{{- end }}
{{- end }}
{{- with $values.featureGates }}
- --feature-gates={{ include "tripod.arguments.pairs" . }}
{{- end }}
{{- with $values.emulatedVersion }}
- --emulated-version={{ . }}
{{- end }}
- --logging-format={{ $values.logging.format }}
- --v={{ $values.logging.verbosity }}
{{- range .values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{- /* How a controller reaches the API: dict root, component. The files that it names change when certificates are renewed. */ -}}
{{- define "tripod.controller.kubeconfig" -}}
apiVersion: v1
kind: Config
clusters:
  - name: tripod
    cluster:
      server: https://{{ include "tripod.host" .root }}:{{ .root.Values.service.port }}
      certificate-authority: /etc/tripod/pki/ca.crt
users:
  - name: {{ .component }}
    user:
      client-certificate: /etc/tripod/pki/own/tls.crt
      client-key: /etc/tripod/pki/own/tls.key
contexts:
  - name: tripod
    context: {cluster: tripod, user: {{ .component }}}
current-context: tripod
{{- end -}}

{{- /* The certificates of a controller in one projected volume: dict root, component. kube-controller-manager signs certificates, so no other pod has the
key of an authority. */ -}}
{{- define "tripod.controller.pki" -}}
{{- $fullname := include "tripod.fullname" .root -}}
name: pki
projected:
  defaultMode: 0440
  sources:
    {{- include "tripod.pki.leaf" (dict "secret" (printf "%s-%s" $fullname .component) "directory" "own" "ca" "ca.crt") | nindent 4 }}
    {{- if eq .component "controller-manager" }}
    {{- include "tripod.pki.leaf" (dict "secret" (printf "%s-service-account" $fullname) "directory" "service-account") | nindent 4 }}
    {{- include "tripod.pki.leaf" (dict "secret" (printf "%s-ca" $fullname) "directory" "signer") | nindent 4 }}
    {{- end }}
{{- end -}}

{{- /* The Deployment of a controller: dict root, component, name, controller, values. */ -}}
{{- define "tripod.controller.deployment" -}}
{{- $image := .values.image -}}
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
      annotations:
        checksum/kubeconfig: {{ include "tripod.controller.kubeconfig" . | sha256sum }}
        {{- with .values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      {{- include "tripod.pod.common" (merge (dict "account" .component) .) | nindent 6 }}
      {{- include "tripod.pod.scheduling" . | trim | nindent 6 }}
      containers:
        - name: {{ .component }}
          image: {{ include "tripod.reference" $image }}
          imagePullPolicy: {{ $image.pullPolicy }}
          command: [kube-{{ .component }}]
          args:
            {{- include "tripod.controller.arguments" . | trim | nindent 12 }}
          env:
            {{- include "tripod.env" (dict "container" .component "resources" .values.resources) | nindent 12 }}
            {{- with .values.env }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            - {name: https, containerPort: {{ .controller.port }}}
          startupProbe:
            httpGet: {path: {{ .controller.live }}, port: https, scheme: HTTPS}
            periodSeconds: 2
            timeoutSeconds: 5
            failureThreshold: 150
          readinessProbe:
            httpGet: {path: {{ .controller.ready }}, port: https, scheme: HTTPS}
            timeoutSeconds: 5
          livenessProbe:
            httpGet: {path: {{ .controller.live }}, port: https, scheme: HTTPS}
            timeoutSeconds: 15
            failureThreshold: 8
          resources:
            {{- toYaml .values.resources | nindent 12 }}
          securityContext:
            {{- include "tripod.container.security" . | nindent 12 }}
          volumeMounts:
            - {name: pki, mountPath: /etc/tripod/pki, readOnly: true}
            - {name: kubeconfig, mountPath: /etc/tripod/kubeconfig, readOnly: true}
            - {name: tmp, mountPath: /tmp}
            {{- with .values.volumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
        {{- with .values.containers }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      volumes:
        - {{- include "tripod.controller.pki" . | nindent 10 }}
        - name: kubeconfig
          configMap: {name: {{ include "tripod.fullname" .root }}-{{ .component }}}
        - name: tmp
          emptyDir: {}
        {{- with .values.volumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
{{- end -}}
