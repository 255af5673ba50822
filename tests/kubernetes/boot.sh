#!/bin/sh
# Boots a machine that is a node of Kubernetes: an overlay of this machine's root directory, in the mount, PID, IPC, UTS
# and network namespaces that this script runs in. It changes nothing outside of DIR.
#
#   boot.sh DIR NAME ADDRESS   DIR has upper, work, root, settings, and what the machine keeps: kubelet, data
set -eu
dir=$1
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=/,upperdir=$dir/upper,workdir=$dir/work" "$dir/root"
cd "$dir/root"
mkdir -p ".$dir" var/lib/kubelet var/lib/helmdeck-repos
mount --bind "$dir" ".$dir" # what is in it has the same path inside and outside
mount --bind "$dir/kubelet" var/lib/kubelet
mount --bind "$dir/data" var/lib/helmdeck-repos # no overlay, because the driver makes overlays in it
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
for volatile in run tmp; do mount -t tmpfs tmpfs $volatile; done
mkdir run/lock run/netns
# kubelet wants these values, and would set them for the kernel, which is this machine's too.
for setting in vm/overcommit_memory=1 kernel/panic=10 kernel/panic_on_oops=1; do
	file=$dir/settings/$(basename "${setting%=*}")
	echo "${setting#*=}" >"$file"
	mount --bind "$file" "proc/sys/${setting%=*}"
done
pivot_root . mnt
cd /
umount -l /mnt
mount --make-rshared /
hostname "$2"
ip link set lo up
# The node has an address that is not loopback: one end of a pair whose other end leads nowhere.
ip link add eth0 type veth peer name nowhere
ip link set nowhere up
ip address add "$3/24" dev eth0
ip link set eth0 up
ip route add default dev eth0
echo booted >"$dir/booted"
# Process 1 waits for what its children leave behind.
exec /bin/sh -c 'while :; do sleep 1000000 & wait; done'
