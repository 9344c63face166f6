#!/bin/bash
# offline.sh FOLDER: the folder for machines without internet (README.md), of the programs that `cargo lab kubeadm` has found or
# built. The images have one program each, and are named as LAB_IMAGE_REPOSITORY says.
set -euo pipefail
folder=$1
repository=${LAB_IMAGE_REPOSITORY:?}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/mooring

# The newest program of that name in the lab's cache, or that of PATH.
program() {
  local found
  found=$(find "$cache" -mindepth 2 -maxdepth 2 -type f -name "$1" -printf '%T@ %p\n' | sort -n | tail -1 | cut -d ' ' -f 2-)
  found=${found:-$(command -v "$1" || true)}
  [ -n "$found" ] || { echo "there is no $1: run \`cargo lab kubeadm\` first" >&2; exit 1; }
  echo "$found"
}

# image NAME ENTRY FILE=PATH...: an archive with these files, that `ctr images import` and `docker load` accept. ENTRY: a list in JSON.
image() {
  local name=$1 entry=$2 to file work config
  file=${name##*/} file=${file%:*}
  work=$(mktemp --directory)
  mkdir -p "$work/root/tmp"
  chmod 1777 "$work/root/tmp"
  shift 2
  for to in "$@"; do install -D --mode 755 "${to#*=}" "$work/root/${to%%=*}"; done
  tar --create --file "$work/layer.tar" --directory "$work/root" --owner 0 --group 0 --sort name .
  printf '{"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": ["sha256:%s"]},
    "config": {"Entrypoint": %s, "Env": ["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}}' \
    "$(sha256sum < "$work/layer.tar" | cut -d ' ' -f 1)" "$entry" > "$work/config"
  config=$(sha256sum < "$work/config" | cut -d ' ' -f 1).json
  mv "$work/config" "$work/$config"
  printf '[{"Config": "%s", "RepoTags": ["%s"], "Layers": ["layer.tar"]}]' "$config" "$name" > "$work/manifest.json"
  tar --create --file "$folder/images/$file.tar" --directory "$work" "$config" layer.tar manifest.json
  rm -r "$work"
}

rm -rf "$folder"
mkdir -p "$folder/bin" "$folder/cni" "$folder/images"
for name in containerd containerd-shim-runc-v2 ctr kubelet kubeadm kubectl; do cp "$(program "$name")" "$folder/bin/"; done
for name in bridge host-local loopback; do cp "$(program "$name")" "$folder/cni/"; done

# kubeadm knows the tags.
"$folder/bin/kubeadm" config images list --kubernetes-version "$("$folder/bin/kubeadm" version --output short)" \
  --image-repository "$repository" > "$folder/images/names"
bin=usr/local/bin
while read -r name; do
  file=${name##*/} file=${file%:*}
  case $file in
  coredns) ;;
  pause) image "$name" "[\"/$bin/pod\"]" "$bin/pod=$(program pod)" ;;
  kube-proxy)
    # In nftables mode it runs nft.
    nft=$(command -v nft)
    # A line names a library by its path: "libnftables.so.1 => /lib/x86_64-linux-gnu/libnftables.so.1 (0x...)".
    mapfile -t libraries < <(ldd "$nft" | grep --only-matching '/[^ ]*' | sed 's#^/\(.*\)#\1=/\1#')
    image "$name" "[]" "$bin/kube-proxy=$(program kube-proxy)" "usr/sbin/nft=$nft" "${libraries[@]}" ;;
  *) image "$name" "[]" "$bin/$file=$(program "$file")" ;;
  esac
done < "$folder/images/names"
image "$LAB_WEB_IMAGE" "[\"/$bin/pod\", \"serve\"]" "$bin/pod=$(program pod)"
rm "$folder/images/names"
du --human-readable --summarize "$folder"
