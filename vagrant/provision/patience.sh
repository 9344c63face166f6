#!/bin/bash
# For a slow control plane: a probe that comes late is no reason to end a program, and none is asked each second. kubeadm takes
# these patches for its static pods.
set -euo pipefail

mkdir -p /root/patches
for name in etcd kube-apiserver kube-controller-manager kube-scheduler; do
  printf '%s\n' 'spec:' '  containers:' "  - name: $name" '    livenessProbe: {failureThreshold: 60}' > "/root/patches/$name.yaml"
  # It has no other probe.
  [ $name = kube-controller-manager ] || echo '    readinessProbe: {periodSeconds: 15}' >> "/root/patches/$name.yaml"
done
