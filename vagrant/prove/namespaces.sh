#!/bin/bash
# namespaces.sh COMMAND...: runs a command beside a libvirt of its own, in namespaces that end with it: nothing of the machine is
# changed, and no machine of the lab reaches its network. PROVE_FOLDER is where libvirt keeps its files.
set -euo pipefail

if [ "${PROVE_INSIDE-}" != yes ]; then
  export PROVE_INSIDE=yes
  exec unshare --net --mount --pid --fork --kill-child --mount-proc "$0" "$@"
fi

folder=${PROVE_FOLDER:?}
for kept in etc/libvirt var/lib/libvirt var/log/libvirt var/cache/libvirt; do
  rm -rf "${folder:?}/$kept"
  mkdir -p "$folder/$kept" "/$kept"
  [ "$kept" != etc/libvirt ] || cp -r /etc/libvirt/. "$folder/$kept/"
  mount --bind "$folder/$kept" "/$kept"
done
mkdir -p /run/libvirt
mount -t tmpfs tmpfs /run/libvirt
rm -rf /etc/libvirt/qemu/networks/autostart
printf '%s\n' 'user = "root"' 'group = "root"' 'security_driver = "none"' 'namespaces = []' 'cgroup_controllers = []' >> /etc/libvirt/qemu.conf

ip link set lo up
virtlogd > "$folder/virtlogd.log" 2>&1 &
libvirtd > "$folder/libvirtd.log" 2>&1 &
for _ in $(seq 120); do
  ! virsh --connect qemu:///system --quiet list > /dev/null 2>&1 || break
  sleep 1
done
"$@"
