#!/bin/bash
# containerd, kubelet, kubeadm, kubectl and the plugins of a pod network: from packages, or from the folder for machines without
# internet, which is in the box (/opt/offline) or was copied (lab/offline).
set -euo pipefail
shopt -s nullglob

offline() {
  mkdir -p /opt/cni/bin
  ln -sf "$1"/bin/* /usr/local/bin/
  ln -sf "$1"/cni/* /opt/cni/bin/

  # What the packages bring.
  cat > /etc/systemd/system/containerd.service << 'END'
[Unit]
Description=containerd
After=network.target
[Service]
ExecStart=/usr/local/bin/containerd
Type=notify
Delegate=yes
KillMode=process
Restart=always
LimitNOFILE=1048576
TasksMax=infinity
OOMScoreAdjust=-999
[Install]
WantedBy=multi-user.target
END
  cat > /etc/systemd/system/kubelet.service << 'END'
[Unit]
Description=kubelet
After=containerd.service
# kubeadm writes it, and starts the kubelet then.
ConditionPathExists=/var/lib/kubelet/config.yaml
[Service]
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
ExecStart=/usr/local/bin/kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf \
  --kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS
Restart=always
RestartSec=5
StartLimitIntervalSec=0
[Install]
WantedBy=multi-user.target
END
  systemctl daemon-reload
  systemctl enable --quiet containerd kubelet
}

packages() {
  export DEBIAN_FRONTEND=noninteractive
  local repository=https://pkgs.k8s.io/core:/stable:/v$KUBERNETES/deb
  apt-get update -q
  apt-get install -q -y --no-install-recommends ca-certificates curl gpg nftables containerd
  mkdir -p /etc/apt/keyrings
  curl --fail --silent --show-error --location --retry 5 "$repository/Release.key" |
    gpg --batch --yes --dearmor --output /etc/apt/keyrings/kubernetes.gpg
  echo "deb [signed-by=/etc/apt/keyrings/kubernetes.gpg] $repository/ /" > /etc/apt/sources.list.d/kubernetes.list
  apt-get update -q
  apt-get install -q -y kubelet kubeadm kubectl kubernetes-cni
  apt-mark hold kubelet kubeadm kubectl
}

for folder in /home/vagrant/lab/offline /opt/offline; do
  if [ -d "$folder" ]; then
    offline "$folder"
    exit
  fi
done
packages
