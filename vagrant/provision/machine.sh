#!/bin/bash
# What a machine needs before it can be a node: no swap, modules, forwarding, and the names of the others.
set -euo pipefail

# What kubeadm began and did not end begins anew; init.sh and join.sh leave the file when it has ended.
if [ -e /etc/kubernetes/kubelet.conf ] && [ ! -e /etc/kubernetes/lab-made ]; then kubeadm reset --force; fi

swapoff --all
sed -i '/\sswap\s/d' /etc/fstab

printf '%s\n' overlay br_netfilter > /etc/modules-load.d/lab.conf
[ "$KUBE_PROXY" != ipvs ] || printf '%s\n' ip_vs ip_vs_rr >> /etc/modules-load.d/lab.conf
xargs --arg-file=/etc/modules-load.d/lab.conf modprobe --all

cat > /etc/sysctl.d/90-lab.conf << 'END'
net.ipv4.ip_forward = 1
net.bridge.bridge-nf-call-iptables = 1
END
sysctl --quiet --load=/etc/sysctl.d/90-lab.conf

# A box may give its own name an address of the machine itself, which is of no use to others.
sed -i "/^127\./{/\s$(hostname)\b/{/localhost/!d; s/\s$(hostname)\b//g}}; / # lab$/d" /etc/hosts
for node in $NODES; do echo "${node#*=} ${node%=*} # lab"; done >> /etc/hosts
