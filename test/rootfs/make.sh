#!/bin/sh
# Makes SUITE.tar, the root file system of a node with a real systemd as PID 1:
# Debian instead of NixOS, but laid out as the node in the pod is. Runs as root.
#
#   make.sh SUITE OUT.tar
set -eu
suite=$1 out=$2

# The mirror that this machine uses, in either format of its list.
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
	sed -n -e 's/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\) .*/\2/p' -e 's/^URIs: *\([^ ]*\).*/\1/p' | head -n 1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
root=$work/root

# Its mounts end with the mount namespace.
unshare -m debootstrap --variant=minbase \
	--include=systemd,systemd-sysv,dbus,libpam-systemd,openssh-server,iproute2,procps \
	"$suite" "$root" "$mirror" >"$work/log" 2>&1 || {
	tail -n 20 "$work/log" >&2
	exit 1
}

# "uninitialized" would run first-boot units; an empty file lets systemd take
# container_uuid (machine-id(5)) and keep nothing.
: >"$root/etc/machine-id"
rm -f "$root/var/lib/dbus/machine-id"

# Host keys live on the volume, as the NixOS module has them; made at first boot.
rm -f "$root"/etc/ssh/ssh_host_*
cat >"$root/etc/ssh/sshd_config.d/host-keys.conf" <<END
HostKey /var/lib/ssh/ssh_host_ed25519_key
END
cat >"$root/etc/systemd/system/ssh-host-keys.service" <<END
[Unit]
Description=Host keys of sshd, on the volume
Before=ssh.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'mkdir -p /var/lib/ssh && { test -s /var/lib/ssh/ssh_host_ed25519_key || ssh-keygen -q -t ed25519 -N "" -f /var/lib/ssh/ssh_host_ed25519_key; }'
[Install]
WantedBy=multi-user.target
RequiredBy=ssh.service
END
mkdir -p "$root/etc/systemd/system/multi-user.target.wants" "$root/etc/systemd/system/ssh.service.requires"
ln -s ../ssh-host-keys.service "$root/etc/systemd/system/multi-user.target.wants/"
ln -s ../ssh-host-keys.service "$root/etc/systemd/system/ssh.service.requires/"

# networkd runs, and leaves eth0 to the network plugin of the cluster.
cat >"$root/etc/systemd/network/10-eth0.network" <<END
[Match]
Name=eth0
[Link]
Unmanaged=yes
END
ln -s /lib/systemd/system/systemd-networkd.service "$root/etc/systemd/system/multi-user.target.wants/"

# What systemd, sshd and the tests do without: each file is unpacked for each pod.
(
	cd "$root"
	rm -rf etc/ssl/certs usr/bin/apt* usr/bin/dpkg* usr/bin/localedef usr/bin/perl* usr/bin/sqv usr/lib/apt usr/lib/locale \
		usr/lib/*/gconv usr/lib/*/perl-base usr/share/bash-completion usr/share/ca-certificates usr/share/common-licenses \
		usr/share/doc usr/share/info usr/share/keyrings usr/share/lintian usr/share/locale usr/share/man usr/share/perl5 \
		usr/share/zoneinfo usr/share/zsh var/cache/apt var/cache/debconf var/lib/apt var/lib/dpkg
)
tar --numeric-owner --sort=name --xattrs --exclude='./proc/*' --exclude='./sys/*' --exclude='./dev/*' -C "$root" -cf "$out" .
