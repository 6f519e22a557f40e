# yuba: `make demo` runs the main job on embedded defaults, `make test` the tests.

# Of a source tarball: VERSION and EPOCH.
-include release.mk

GO      ?= go
VERSION ?= 0.1.0-dev
# The date of what is published.
EPOCH   ?= $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct))
LDFLAGS  = -s -w -X main.version=$(VERSION) -X github.com/opentofu/opentofu/version.dev=no
BUILD    = $(GO) build -ldflags '$(LDFLAGS)'
ENGINE   = github.com/opentofu/opentofu/yuba/...
# Tests with a tier of their own.
TIERS    = -e /test/faults -e /test/images -e /test/nix -e /test/pods -e /test/identity -e /test/soak -e /test/release -e /test/minimal -e /test/migrate

# One set of flags for the product, its tests and its tools, or Go compiles
# OpenTofu and Kubernetes once for each set. The race detector needs cgo.
export CGO_ENABLED := 0
export GOFLAGS     := $(filter-out -trimpath,$(GOFLAGS)) -trimpath
race: export CGO_ENABLED := 1

.PHONY: all build test parity faults faults-table images spire nix test-pods race lint demo bench bench-push release dist test-release minimal migrate vendor clean

all: build

include test/parts.mk

# The product: one static file.
build: bin/yuba

.PHONY: bin/yuba
bin/yuba:
	$(BUILD) -o $@ ./cmd/yuba

# The everyday loop: all tests, on one control plane that they share. Most of
# what end-to-end tests do is wait, so more of them run than there are cores.
test: bin/yuba lab stock-tofu
	test/packages.sh openssh-server
	test/run-tests.sh $(GO) test -count=1 -parallel 6 -timeout 20m $$($(GO) list ./... $(ENGINE) | grep -v $(TIERS))

# All configurations of the comparison with stock tofu; test has a dozen of them.
parity: bin/yuba stock-tofu vault
	YUBA_TEST_PARITY=all YUBA_TEST_YUBA=$(CURDIR)/bin/yuba YUBA_TEST_TOFU="$$(test/parts.sh path tofu)" \
		YUBA_TEST_VAULT="$$(test/parts.sh path vault)" \
		$(GO) test -count=1 -timeout 40m ./test/parity

FAULTS = ./test/faults/...

# What is left when yuba is killed or stopped at any moment, and when servers
# break at any.
faults: bin/yuba lab stock-tofu
	test/packages.sh openssh-server
	rm -f bin/faults.md
	YUBA_TEST_REPORT=$(CURDIR)/bin/faults.md test/run-tests.sh $(GO) test -count=1 -parallel 12 -timeout 30m $(FAULTS)
	cat bin/faults.md
	YUBA_TEST_FAULTS=all $(GO) test -count=1 -run TestEachFault ./state

# The table of docs/reliability.md.
faults-table: FAULTS = ./test/faults/sweep -update
faults-table: faults

# Images by other tools, each kind of source from the group file to the pod,
# bundles, large layers.
images: bin/yuba lab stock-tofu
	test/packages.sh skopeo umoci docker-registry nix-bin zstd
	test/run-tests.sh $(GO) test -count=1 -timeout 20m ./test/images/...

# Identities of nodes, with the real SPIRE server and agents.
spire: bin/yuba lab spire-programs
	YUBA_TEST_SPIRE="$$(test/parts.sh path spire)" test/run-tests.sh $(GO) test -count=1 -parallel 6 -timeout 20m ./test/identity/...

# Many clients on one state server that is killed meanwhile, for the time in SOAK.
SOAK ?= 1m
.PHONY: soak
soak: bin/yuba
	YUBA_TEST_YUBA=$(CURDIR)/bin/yuba YUBA_TEST_SOAK=$(SOAK) $(GO) test -v -count=1 -timeout 60m ./test/soak

# The Nix code, with a stand-in for nixpkgs; nix/tests is for machines that have it.
nix: bin/yuba lab spire-programs
	test/packages.sh nix-bin git systemd
	YUBA_TEST_SPIRE="$$(test/parts.sh path spire)" test/run-tests.sh $(GO) test -count=1 -timeout 20m ./test/nix

# Real pods: systemd as PID 1, on a real kubelet with containerd, in namespaces
# of their own, which leave the machine as it was. As root.
test-pods: bin/yuba lab
	test/packages.sh gcc libc6-dev libseccomp-dev debootstrap iptables nftables conntrack openssh-server
	# Bridges of the pods are firewalled where the kernel can do it, which stays loaded.
	test -e /proc/sys/net/bridge || { test/packages.sh kmod && modprobe br_netfilter; }
	test/parts.sh build runtime
	test/parts.sh build rootfs
	test/parts.sh build spire
	YUBA_LAB_FLAGS="-fake-nodes 0 -runtime $$(test/parts.sh path runtime)" $(GO) test -count=1 ./test/pods/machine
	$(GO) test -c -o bin/pods.test ./test/pods
	YUBA_TEST_ROOTFS="$$(test/parts.sh path rootfs)" YUBA_TEST_SPIRE="$$(test/parts.sh path spire)" YUBA_LAB_FLAGS="-fake-nodes 0 -runtime $$(test/parts.sh path runtime)" \
		"$$(test/parts.sh path kubelab)" isolate test/run-tests.sh bin/pods.test -test.parallel 8 -test.timeout 20m

# The same as test under the race detector, without the tests that run the
# built program.
race: lab
	test/packages.sh openssh-server
	test/run-tests.sh $(GO) test -race -count=1 -timeout 20m $$($(GO) list ./... $(ENGINE) | grep -v -e /test/e2e -e /test/parity $(TIERS))

# The shells and tools that read completions and manual pages are installed when they are missing.
lint: bin/yuba
	files=$$(git ls-files '*.go') && test -n "$$files" && unformatted=$$("$$($(GO) env GOROOT)/bin/gofmt" -l $$files) && \
		{ test -z "$$unformatted" || { echo "gofmt has other ideas of $$unformatted" >&2; false; }; }
	$(GO) vet ./... $(ENGINE)
	$(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./... $(ENGINE)
	test/shells.sh

# Plan, apply, a change, a failure that is set back, destroy: on loopback.
demo: bin/yuba lab
	$(GO) run ./test/demo -yuba bin/yuba -kubelab "$$(test/parts.sh path kubelab)"

# Ratios against stock tofu in one run, size and start-up cost.
bench: bin/yuba lab stock-tofu
	test/packages.sh openssh-server
	test/run-tests.sh $(GO) test -run "^$$" -bench . -skip '^Benchmark(Push|Scale)' -benchtime 1x ./test/bench

# Pushes to a registry, against skopeo in one run.
bench-push: bin/yuba
	test/packages.sh skopeo docker-registry
	YUBA_TEST_YUBA=$(CURDIR)/bin/yuba $(GO) test -v -run "^$$" -bench '^BenchmarkPush' -benchtime 1x -timeout 60m ./test/bench

# Groups of 1 to 500 nodes through their lives, as tables. One of 1,000
# takes a quarter of an hour: make scale YUBA_SCALE="100 1000".
.PHONY: scale
scale: bin/yuba lab
	YUBA_SCALE="$(YUBA_SCALE)" YUBA_LAB_FLAGS="-fake-nodes 4" test/run-tests.sh \
		$(GO) test -run "^$$" -bench '^BenchmarkScale' -benchtime 1x -timeout 60m ./test/bench

# Known vulnerabilities in what the program calls.
.PHONY: vuln
vuln:
	test/vuln.sh

# Every fuzz target, for the time in FUZZ.
FUZZ ?= 10s
.PHONY: fuzz
fuzz:
	test/fuzz.sh $(FUZZ)

# yuba where nothing is but its one file. As root.
minimal: bin/yuba lab
	test/run-tests.sh $(GO) test -count=1 -timeout 20m ./test/minimal

# What kubectl and stock tofu with programs have deployed becomes yuba's.
migrate: bin/yuba lab stock-tofu
	test/packages.sh skopeo
	test/run-tests.sh $(GO) test -count=1 -timeout 20m ./test/migrate

# What is published: a static program for each platform, and for each an SBOM and
# an archive. The bytes depend on sources, VERSION and Go version alone.
RELEASED = $(foreach arch,amd64 arm64,dist/yuba-$(VERSION)-linux-$(arch))
# A program that is built from a vendor/ has no hashes of its modules, and so is another one.
release: export GOFLAGS := $(GOFLAGS) -mod=readonly
release: $(RELEASED)
	$(GO) run ./release -version '$(VERSION)' -epoch $(EPOCH) $(RELEASED)

.PHONY: $(RELEASED)
$(RELEASED): dist/yuba-$(VERSION)-linux-%:
	GOOS=linux GOARCH=$* GOAMD64=v1 GOARM64=v8.0 $(BUILD) -buildvcs=false -o $@ ./cmd/yuba

# The sources of the last commit with all modules, to build without a network.
dist:
	release/dist.sh '$(VERSION)' $(EPOCH) dist

# Both are made in two folders and compared; the tarball is built without a
# network and without a module cache.
test-release:
	test/packages.sh qemu-user-static
	$(GO) test -count=1 -timeout 40m ./test/release

vendor:
	$(GO) mod vendor

clean:
	rm -rf bin dist vendor
