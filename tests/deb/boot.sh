#!/bin/sh
# Boots a machine: systemd as process 1 of the namespaces that this script runs in, on an overlay of this machine's root
# directory. It changes nothing outside of DIR and of the control group.
#
#   boot.sh DIR CGROUP TYPE   DIR has data, upper, work and root; CGROUP is below a hierarchy of TYPE (cgroup, cgroup2)
set -eu
cd "$1"
if [ -z "${4:-}" ]; then
	echo 0 >"$2/cgroup.procs"
	exec unshare --cgroup "$0" "$1" "$2" "$3" inside # systemd sees CGROUP as the root
fi
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=/,upperdir=$PWD/upper,workdir=$PWD/work" root
cd root
mount -t proc proc proc
mount -o bind,ro proc/sys proc/sys # no setting of the kernel changes
mount -o ro -t sysfs sysfs sys
mount -t tmpfs tmpfs sys/fs/cgroup
case $3 in
cgroup2) mount -t cgroup2 cgroup sys/fs/cgroup ;;
cgroup) mkdir sys/fs/cgroup/systemd && mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd ;;
esac
for dir in run tmp dev; do mount -t tmpfs tmpfs $dir; done
for device in null zero full random urandom tty; do
	mknod -m 666 dev/$device c "$(stat -c 0x%t /dev/$device)" "$(stat -c 0x%T /dev/$device)"
done
mkdir -p var/lib/helmdeck-repos
mount --bind "$1/data" var/lib/helmdeck-repos # no overlay, because the service makes overlays in it
# Only what the test installs is started, and nothing that is about hardware or the kernel.
rm -rf etc/systemd/system/*
rm -f usr/sbin/policy-rc.d # images of containers have one that forbids to start services
for unit in systemd-udevd.service systemd-udevd-control.socket systemd-udevd-kernel.socket systemd-udev-trigger.service \
	systemd-modules-load.service systemd-sysctl.service systemd-random-seed.service systemd-remount-fs.service \
	systemd-update-utmp.service dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount sys-kernel-tracing.mount \
	sys-fs-fuse-connections.mount sys-kernel-config.mount proc-sys-fs-binfmt_misc.automount; do
	ln -s /dev/null etc/systemd/system/$unit
done
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot . /lib/systemd/systemd --system --unit=basic.target
