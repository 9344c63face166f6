{{- define "mooring-agent.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{/* The names of all objects begin with it: the release's name, with the chart's where it lacks that. */}}
{{- define "mooring-agent.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "mooring-agent.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "mooring-agent.labels" -}}
app.kubernetes.io/name: {{ include "mooring-agent.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: mooring
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "mooring-agent.servicesAccount" -}}
{{- .Values.services.serviceAccountName | default (include "mooring-agent.fullname" .) -}}
{{- end }}

{{- define "mooring-agent.controlPlaneAccount" -}}
{{- .Values.controlPlane.serviceAccountName | default (printf "%s-control-plane" (include "mooring-agent.fullname" .)) -}}
{{- end }}

{{/* Whether any agent carries VIPs of Services with a service account. */}}
{{- define "mooring-agent.carriesServices" -}}
{{- if or .Values.services.enabled (include "mooring-agent.controlPlaneCarriesServices" .) -}}true{{- end -}}
{{- end }}

{{- define "mooring-agent.controlPlaneCarriesServices" -}}
{{- if and .Values.controlPlane.enabled .Values.controlPlane.services (not .Values.controlPlane.kubeconfig) -}}true{{- end -}}
{{- end }}

{{/* The settings of a DaemonSet: those of all agents, and its own. */}}
{{- define "mooring-agent.controlPlaneSettings" -}}
{{- toJson (merge (dict) .Values.controlPlane.settings .Values.settings) -}}
{{- end }}

{{- define "mooring-agent.servicesSettings" -}}
{{- toJson (merge (dict) .Values.services.settings .Values.settings) -}}
{{- end }}

{{/* Bindings of a role to the accounts of agents that carry VIPs of Services. A dict of: root, role, namespace (empty: the role is of
the cluster), and suffix for the names. */}}
{{- define "mooring-agent.bindings" -}}
{{- $dict := . -}}
{{- $name := include "mooring-agent.fullname" .root -}}
{{- $accounts := list -}}
{{- if .root.Values.services.enabled -}}
{{- $accounts = append $accounts (dict "binding" (printf "%s%s" $name .suffix) "account" (include "mooring-agent.servicesAccount" .root)) -}}
{{- end -}}
{{- if include "mooring-agent.controlPlaneCarriesServices" .root -}}
{{- $accounts = append $accounts (dict "binding" (printf "%s-control-plane%s" $name (.suffix | default "-services")) "account" (include "mooring-agent.controlPlaneAccount" .root)) -}}
{{- end -}}
{{- range $accounts }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ ternary "RoleBinding" "ClusterRoleBinding" (ne "" $dict.namespace) }}
metadata:
  name: {{ .binding }}
  {{- with $dict.namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "mooring-agent.labels" $dict.root | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: {{ ternary "Role" "ClusterRole" (ne "" $dict.namespace) }}, name: {{ $dict.role }}}
subjects:
- {kind: ServiceAccount, name: {{ .account }}, namespace: {{ $dict.root.Release.Namespace }}}
{{- end }}
{{- end }}

{{/* What extraEnv says of kube-vip's placements, by kube-vip's names too: a dict of our settings. */}}
{{- define "mooring-agent.extraPlacement" -}}
{{- $found := dict -}}
{{- range .Values.extraEnv -}}
{{- $value := .value | toString -}}
{{- if eq .name "MOORING_SERVICES_PLACEMENT" }}{{ $_ := set $found "services-placement" $value }}{{ end -}}
{{- if eq .name "MOORING_SERVICE_UPDATES" }}{{ $_ := set $found "service-updates" $value }}{{ end -}}
{{- if has .name (list "MOORING_SERVICES_LEASE_NAME" "svc_leasename") }}{{ $_ := set $found "services-lease-name" $value }}{{ end -}}
{{- if and (eq .name "svc_election") (not (hasKey $found "services-placement")) -}}
{{- $_ := set $found "services-placement" (ternary "lease-per-service" "global-lease" (has $value (list "true" "1" "t" "T" "TRUE" "True"))) -}}
{{- end -}}
{{- if and (eq .name "disable_service_updates") (not (hasKey $found "service-updates")) -}}
{{- $_ := set $found "service-updates" (ternary "off" "on" (has $value (list "true" "1" "t" "T" "TRUE" "True"))) -}}
{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end }}

{{/* How VIPs of Services are placed as kube-vip places them, by the agents of either DaemonSet: a list of dicts of placement, lease
(NAMESPACE/NAME) and updates. */}}
{{- define "mooring-agent.kubeVipPlacements" -}}
{{- $extra := fromJson (include "mooring-agent.extraPlacement" .) -}}
{{- $all := list -}}
{{- if .Values.services.enabled }}{{ $all = append $all (fromJson (include "mooring-agent.servicesSettings" .)) }}{{ end -}}
{{- if include "mooring-agent.controlPlaneCarriesServices" . }}{{ $all = append $all (fromJson (include "mooring-agent.controlPlaneSettings" .)) }}{{ end -}}
{{- $found := list -}}
{{- range $all -}}
{{- $own := merge (dict) . $extra -}}
{{- if has (get $own "services-placement") (list "global-lease" "lease-per-service") -}}
{{- $lease := get $own "services-lease-name" | default "plndr-svcs-lock" -}}
{{- if not (contains "/" $lease) }}{{ $lease = printf "%s/%s" (get $own "namespace" | default "kube-system") $lease }}{{ end -}}
{{- $found = append $found (dict "placement" (get $own "services-placement") "lease" $lease "updates" (ne (get $own "service-updates" | toString) "off")) -}}
{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end }}

{{- define "mooring-agent.sessionsNamespace" -}}
{{- $own := fromJson (include "mooring-agent.controlPlaneSettings" .) -}}
{{- if .Values.services.enabled }}{{ $own = fromJson (include "mooring-agent.servicesSettings" .) }}{{ end -}}
{{- get $own "sessions-namespace" | default "mooring-system" -}}
{{- end }}

{{/* NAMESPACE/NAME of the control plane's Lease. */}}
{{- define "mooring-agent.lease" -}}
{{- $own := fromJson (include "mooring-agent.controlPlaneSettings" .) -}}
{{- $name := get $own "lease-name" | default "plndr-cp-lock" -}}
{{- if contains "/" $name -}}{{ $name }}{{- else -}}{{ printf "%s/%s" (get $own "namespace" | default "kube-system") $name }}{{- end -}}
{{- end }}

{{/* Seconds of a duration as the agent reads it: a number with a unit. Empty: another form. */}}
{{- define "mooring-agent.seconds" -}}
{{- if regexMatch "^[0-9]+s$" . }}{{ trimSuffix "s" . }}{{ else if regexMatch "^[0-9]+m$" . }}{{ mul 60 (trimSuffix "m" . | int) }}{{ end -}}
{{- end }}

{{/* A DaemonSet. A dict of: root, and what differs between the two. */}}
{{- define "mooring-agent.daemonSet" -}}
{{- $root := .root -}}
{{- $values := .root.Values -}}
{{- $metrics := $values.metrics -}}
{{- $grace := include "mooring-agent.seconds" (get .settings "handover-grace" | toString) -}}
{{- if and $grace (lt (int $values.terminationGracePeriodSeconds) (add (int $grace) 15 | int)) -}}
{{- fail (printf "terminationGracePeriodSeconds is %d: with handover-grace %ss it must be %d or more, or the agent is killed while it hands over" (int $values.terminationGracePeriodSeconds) $grace (add (int $grace) 15)) -}}
{{- end -}}
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "mooring-agent.labels" $root | nindent 4 }}
spec:
  selector:
    matchLabels:
      app.kubernetes.io/name: {{ include "mooring-agent.name" $root }}
      app.kubernetes.io/instance: {{ $root.Release.Name }}
      mooring.dev/vips: {{ .vips }}
  updateStrategy:
    {{- toYaml $values.updateStrategy | nindent 4 }}
  template:
    metadata:
      labels:
        app.kubernetes.io/name: {{ include "mooring-agent.name" $root }}
        app.kubernetes.io/instance: {{ $root.Release.Name }}
        app.kubernetes.io/part-of: mooring
        mooring.dev/vips: {{ .vips }}
        {{- with $values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ .account }}
      {{- if .kubeconfig }}
      automountServiceAccountToken: false
      {{- end }}
      {{- with $values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      hostNetwork: true
      dnsPolicy: ClusterFirstWithHostNet
      {{- with $values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      enableServiceLinks: false
      terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
      {{- with .own.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .own.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .own.tolerations }}
      tolerations:
        {{- toYaml . | nindent 6 }}
      {{- end }}
      containers:
      - name: mooring-agent
        image: {{ printf "%s:%s" $values.image.repository ($values.image.tag | default $root.Chart.AppVersion) | quote }}
        imagePullPolicy: {{ $values.image.pullPolicy }}
        args: [run]
        env:
        {{- range .env }}
        - {name: {{ .name }}, value: {{ .value | quote }}}
        {{- end }}
        - name: MOORING_NODE_NAME
          valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
        {{- if not $metrics.enabled }}
        - {name: MOORING_METRICS, value: "off"}
        {{- else if or $metrics.address (ne (int $metrics.port) 2112) }}
        - {name: MOORING_METRICS, value: {{ printf "%s:%d" $metrics.address (int $metrics.port) | quote }}}
        {{- end }}
        {{- if ne $values.runDir "/run/mooring" }}
        - {name: MOORING_RUN_DIR, value: {{ $values.runDir | quote }}}
        {{- end }}
        {{- range $name, $value := .settings }}
        - {name: {{ printf "MOORING_%s" ($name | upper | replace "-" "_") }}, value: {{ $value | toString | quote }}}
        {{- end }}
        {{- with $values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- if $metrics.enabled }}
        {{- $host := $metrics.address | trimPrefix "[" | trimSuffix "]" | default "127.0.0.1" }}
        ports:
        - {name: metrics, containerPort: {{ $metrics.port }}}
        livenessProbe:
          httpGet: {host: {{ $host | quote }}, path: /livez, port: {{ $metrics.port }}}
          periodSeconds: 10
          failureThreshold: 3
        readinessProbe:
          httpGet: {host: {{ $host | quote }}, path: /readyz, port: {{ $metrics.port }}}
        {{- end }}
        {{- with $values.resources }}
        resources:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        securityContext:
          readOnlyRootFilesystem: true
          allowPrivilegeEscalation: false
          seccompProfile: {type: RuntimeDefault}
          capabilities: {drop: [ALL], add: [NET_ADMIN, NET_RAW]}
        volumeMounts:
        - {name: run, mountPath: {{ $values.runDir | quote }}}
        {{- if .kubeconfig }}
        - {name: kubeconfig, mountPath: {{ .kubeconfig | quote }}, readOnly: true}
        {{- end }}
      volumes:
      - name: run
        hostPath: {path: {{ $values.runDir | quote }}, type: DirectoryOrCreate}
      {{- if .kubeconfig }}
      - name: kubeconfig
        hostPath: {path: {{ .kubeconfig | quote }}, type: File}
      {{- end }}
{{- end }}
