#!/bin/bash
# Images that are here are imported: Mooring's archives, and those of the folder for machines without internet. Others are pulled
# when a pod needs them.
set -euo pipefail
shopt -s nullglob

for archive in /home/vagrant/lab/release/*-"$(dpkg --print-architecture)".oci.tar \
  /home/vagrant/lab/offline/images/*.tar /opt/offline/images/*.tar; do
  # Those of the control plane are of no use to a worker.
  case $ROLE,${archive##*/} in worker,etcd.tar|worker,kube-[acs]*) continue ;; esac
  ctr --namespace k8s.io images import "$archive"
done
