# The big programs that tests need; see test/parts.sh.
#   make lab         builds the test cluster's program, prints its path
#   make stock-tofu  builds stock OpenTofu, prints its path
#   make runtime     builds containerd, runc and network plugins; prints their directory
#   make rootfs      makes root file systems of nodes; prints their directory
#   make spire-programs  builds spire-server and spire-agent, prints their directory
#   make vault       builds a server with Vault's transit engine, prints its path
#   make lab-up      starts a test cluster to play with; make lab-down ends it
LAB_DIR ?= $(or $(XDG_RUNTIME_DIR),/tmp)/yuba-lab

.PHONY: lab stock-tofu runtime rootfs spire-programs vault lab-up lab-down

lab:
	@test/parts.sh build kubelab

stock-tofu:
	@test/parts.sh build tofu

runtime:
	@test/parts.sh build runtime

rootfs:
	@test/parts.sh build rootfs

spire-programs:
	@test/packages.sh gcc libc6-dev
	@test/parts.sh build spire

vault:
	@test/parts.sh build vault

lab-up: lab
	@test/lab-up.sh "$(LAB_DIR)"

lab-down:
	@! [ -e "$(LAB_DIR)/lab.json" ] || kill "$$(sed -n 's/.*"up": \([0-9]*\).*/\1/p' "$(LAB_DIR)/lab.json")"
