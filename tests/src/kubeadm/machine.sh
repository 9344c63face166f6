# Makes a host of the lab a machine with containerd and a kubelet, and stays as what starts both: the host's systemd.
# machine.sh DISK HOSTS CGROUP: the folder of what outlives a crash, the file of names, and the host's part of the cgroups.
set -eu
disk=$1 hosts=$2 group=$3

version2() { [ "$(cut -c -3 /proc/self/cgroup)" = 0:: ]; }
# Version 1: a line for each hierarchy, its folder and its options.
hierarchies() {
  while IFS=: read -r _ controllers _; do
    case $controllers in
    '') ;;
    name=*) echo "${controllers#name=} none,$controllers" ;;
    *) echo "$controllers $controllers" ;;
    esac
  done < /proc/self/cgroup
}
# Version 2: the groups in a folder get all controllers.
enable() { for one in $(cat "$1/cgroup.controllers"); do echo "+$one" > "$1/cgroup.subtree_control"; done; }
# Goes into the host's part of the hierarchy that is mounted in a folder.
enter() {
  part=$1
  for name in $(echo "$group" | tr / ' '); do
    mkdir -p "$part/$name"
    # Without processors and memory a group of version 1 takes no process.
    for file in cpuset.cpus cpuset.mems; do
      [ ! -e "$part/$file" ] || cat "$part/$file" > "$part/$name/$file"
    done
    [ ! -e "$part/cgroup.controllers" ] || enable "$part"
    part=$part/$name
  done
  # A power failure leaves no groups; a kubelet would look at each for seconds.
  find "$part" -mindepth 1 -depth -type d -exec rmdir {} +
  echo $$ > "$part/cgroup.procs"
}

# A host sees its own part of the cgroups as the whole.
if [ "${4-}" != inside ]; then
  at=/run/machine/cgroup
  mkdir -p "$at"
  if version2; then
    mount -t cgroup2 cgroup2 "$at"
    enter "$at"
    umount "$at"
  else
    hierarchies | while read -r _ options; do
      mount -t cgroup -o "$options" cgroup "$at"
      enter "$at"
      umount "$at"
    done
  fi
  exec unshare --cgroup /bin/sh "$0" "$disk" "$hosts" "$group" inside
fi
# runc would find the mounts below.
while umount --recursive --lazy /sys 2> /run/machine/umount; do :; done
mount -t sysfs sysfs /sys
if version2; then
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
  # A group with groups in it has no processes of its own.
  mkdir -p /sys/fs/cgroup/machine
  echo $$ > /sys/fs/cgroup/machine/cgroup.procs
  enable /sys/fs/cgroup
else
  mount -t tmpfs -o mode=0755 tmpfs /sys/fs/cgroup
  hierarchies | while read -r name options; do
    mkdir "/sys/fs/cgroup/$name"
    mount -t cgroup -o "$options" cgroup "/sys/fs/cgroup/$name"
    for one in $(echo "$name" | tr , ' '); do
      [ -e "/sys/fs/cgroup/$one" ] || ln -s "$name" "/sys/fs/cgroup/$one"
    done
  done
fi

# What a package or kubeadm writes below these folders is the host's own.
for top in etc opt usr/libexec var/lib var/log; do
  [ -d "/$top" ] || continue
  over=/run/machine/$top
  mkdir -p "$over/upper" "$over/work"
  mount -t overlay -o "lowerdir=/$top,upperdir=$over/upper,workdir=$over/work" overlay "/$top"
done
for kept in etc/kubernetes etc/cni var/lib/cni var/lib/containerd var/lib/etcd var/lib/kubelet var/log/containers var/log/pods; do
  mkdir -p "$disk/$kept" "/$kept"
  mount --bind "$disk/$kept" "/$kept"
done
mount --bind "$hosts" /etc/hosts
rm -f /etc/resolv.conf
: > /etc/resolv.conf

# A kubelet sets these for the whole machine. It finds its values, in files of the host's own.
for setting in vm/overcommit_memory=1 kernel/panic=10 kernel/panic_on_oops=1; do
  file=/run/machine/$(echo "${setting%=*}" | tr / -)
  echo "${setting#*=}" > "$file"
  mount --bind "$file" "/proc/sys/${setting%=*}"
done
mount --make-rshared /

# The pods of the other hosts.
while read -r pods via; do ip route replace "$pods" via "$via"; done < "$disk/routes"

# What systemd would do: start again what ends.
while :; do
  containerd --config "$disk/containerd.toml" >> "$disk/containerd.log" 2>&1 || true
  sleep 0.5
done &
while :; do
  if [ -s /var/lib/kubelet/config.yaml ]; then
    arguments=$(sed -n 's/^KUBELET_KUBEADM_ARGS="\(.*\)"$/\1/p' /var/lib/kubelet/kubeadm-flags.env 2>/dev/null || true)
    # shellcheck disable=SC2086 # several arguments
    kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf \
      --config=/var/lib/kubelet/config.yaml $arguments >> "$disk/kubelet.log" 2>&1 || true
  fi
  sleep 0.3
done
