#!/bin/bash
# box.sh OFFLINE BOX: a box for libvirt of Debian 12, by mmdebstrap, with the folder OFFLINE in it as /opt/offline. It has no boot
# loader: the box's own Vagrantfile names its kernel, which libvirt loads, and its key.
set -euo pipefail
offline=$1 box=$2
work=$(mktemp --directory --tmpdir="$(dirname "$box")" box.XXXXXX)
trap 'rm -rf "$work"' EXIT

packages=systemd-sysv,dbus,udev,kmod,linux-image-cloud-amd64,openssh-server,sudo,ifupdown,isc-dhcp-client,iproute2,procps
packages+=,ca-certificates,curl,nftables,runc,conntrack,ethtool,socat,mount,util-linux
mmdebstrap --quiet --variant=minbase --include="$packages" bookworm "$work/root.tar"
mkdir "$work/root"
tar --extract --file "$work/root.tar" --directory "$work/root" --numeric-owner --exclude './dev/*'
rm "$work/root.tar"

root=$work/root
chroot "$root" useradd --create-home --shell /bin/bash vagrant
mkdir -p "$work/box" "$root/home/vagrant/.ssh"
ssh-keygen -q -t ed25519 -N '' -C box -f "$work/box/key"
install --mode 600 "$work/box/key.pub" "$root/home/vagrant/.ssh/authorized_keys"
chmod 700 "$root/home/vagrant/.ssh"
chroot "$root" chown -R vagrant:vagrant /home/vagrant/.ssh
echo 'vagrant ALL=(ALL) NOPASSWD: ALL' > "$root/etc/sudoers.d/vagrant"
echo 'UseDNS no' > "$root/etc/ssh/sshd_config.d/box.conf"
printf '%s\n' 'source /etc/network/interfaces.d/*' 'auto lo eth0' 'iface lo inet loopback' 'iface eth0 inet dhcp' > "$root/etc/network/interfaces"
echo '/dev/vda / ext4 errors=remount-ro 0 1' > "$root/etc/fstab"
echo box > "$root/etc/hostname"
printf '%s\n' '127.0.0.1 localhost' '127.0.1.1 box' > "$root/etc/hosts"
mkdir "$root/opt/offline"
cp -r "$offline/bin" "$offline/cni" "$root/opt/offline/"

# The images are imported here, where it takes seconds, and not on each machine.
mkdir "$work/state"
cat > "$work/containerd.toml" << END
version = 3
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime", "io.containerd.cri.v1.images", "io.containerd.nri.v1.nri"]
[plugins."io.containerd.internal.v1.opt"]
path = "$work/opt"
END
"$offline/bin/containerd" --config "$work/containerd.toml" --root "$root/var/lib/containerd" --state "$work/state" \
  --address "$work/state/socket" > "$work/containerd.log" 2>&1 &
containerd=$!
ctr=("$offline/bin/ctr" --address "$work/state/socket" --namespace k8s.io)
timeout 60 bash -c 'until "$@" version > /dev/null 2>&1; do sleep 0.2; done' wait "${ctr[@]}"
for archive in "$offline"/images/*.tar; do "${ctr[@]}" images import "$archive"; done
kill $containerd
wait $containerd || true
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*

cp "$root"/boot/vmlinuz-* "$work/box/vmlinuz"
cp "$root"/boot/initrd.img-* "$work/box/initrd"
mkfs.ext4 -q -d "$root" -L root "$work/disk" 6G
qemu-img convert -O qcow2 "$work/disk" "$work/box/box.img"
echo '{"provider": "libvirt", "format": "qcow2", "virtual_size": 6}' > "$work/box/metadata.json"
cat > "$work/box/Vagrantfile" << 'END'
Vagrant.configure("2") do |config|
  config.ssh.private_key_path = File.join(__dir__, "key")
  config.vm.provider :libvirt do |libvirt|
    libvirt.kernel = File.join(__dir__, "vmlinuz")
    libvirt.initrd = File.join(__dir__, "initrd")
    libvirt.cmd_line = "root=/dev/vda rw console=ttyS0 net.ifnames=0"
  end
end
END
tar --create --file "$box" --directory "$work/box" .
du --human-readable "$box"
