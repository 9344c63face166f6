#!/bin/bash
# containerd with systemd's cgroups, as kubeadm expects them, and with the pause image that this version of kubeadm names.
set -euo pipefail

repository=${IMAGE_REPOSITORY:-registry.k8s.io}
pause=$(kubeadm config images list --kubernetes-version "$(kubeadm version --output short)" --image-repository "$repository" |
  grep /pause:)
mkdir -p /etc/containerd
containerd config default |
  sed -e 's/SystemdCgroup = false/SystemdCgroup = true/' \
    -e "s#\(sandbox\(_image\)\?\) = ['\"].*pause.*#\1 = '$pause'#" > /etc/containerd/config.toml

# Some packages of containerd look for plugins elsewhere.
mkdir -p /usr/lib/cni
ln -sf /opt/cni/bin/* /usr/lib/cni/

systemctl restart containerd
