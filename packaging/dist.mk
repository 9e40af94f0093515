# make dist: what people install, for amd64 and arm64, in dist/. The same commit and the same versions of Go, gcc
# and nfpm give the same bytes; `make dist-check` tries that.

ARCHES     ?= amd64 arm64
DIST_GLIBC := 2.17
BUILD      := $(CURDIR)/build
DIST       := $(CURDIR)/dist
PKG        := packaging
# Unpacked once, for all checkouts.
SYSROOTS   ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/gpurun-sysroots
triple_amd64 := x86_64-linux-gnu
triple_arm64 := aarch64-linux-gnu
uname_amd64  := x86_64
uname_arm64  := aarch64
plat_amd64   := manylinux_2_17_x86_64
plat_arm64   := manylinux_2_17_aarch64
dist_version = $(shell $(PKG)/version.sh $(1))

.PHONY: dist dist-check dist-tools elf release-notes release
dist: dist-tools
	@test -n "$(DIRTY)" || test -z "$$(git status --porcelain)" || { echo 'dist: uncommitted changes (commit them, or DIRTY=1)'; exit 1; }
	@rm -rf $(DIST) && mkdir -p $(DIST)
	@$(MAKE) --no-print-directory $(ARCHES:%=dist-%)
	@cd $(DIST) && sha256sum * >SHA256SUMS && ls -l | awk 'NR > 1 {printf "%10d  %s\n", $$5, $$9}'

# What is missing, installed if that is possible.
dist-tools:
	@missing() { for a in $(ARCHES); do case $$a in amd64) t=x86_64-linux-gnu;; *) t=aarch64-linux-gnu;; esac; \
		command -v $$t-gcc >/dev/null || printf ' gcc-%s' "$$(echo $$t | tr _ -)"; done; \
		for t in python3 xz; do command -v $$t >/dev/null || printf ' %s' "$$(echo $$t | sed s/xz/xz-utils/)"; done; }; \
	if [ -n "$$(missing)" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get install -y -qq $$(missing) >/dev/null 2>&1 || \
		{ apt-get update -qq && apt-get install -y -qq $$(missing); } >/dev/null 2>&1 || true; \
	fi; \
	[ -z "$$(missing)" ] || { echo "dist: missing:$$(missing) (Debian: apt-get install$$(missing))"; exit 1; }

# The stripped binary. GOFLAGS is this file's own, so that nobody's settings change the bytes.
define dist_build
	@$(PKG)/sysroot.sh $(1) $(SYSROOTS)/$(1)
	@CC=$(SYSROOTS)/$(1)/cc CGO_ENABLED=1 GOOS=linux GOARCH=$(1) GOFLAGS= CGO_CFLAGS='-O2 -g0 -Wno-deprecated-declarations' CGO_LDFLAGS= \
		$(GO) build -trimpath -buildvcs=true -o $(2) \
		-ldflags '-s -w -buildid= -B none -X gpurun/runner/cli.version=$(call dist_version,git) -extldflags=-Wl,-z,lazy' .
	@$(PKG)/check-elf.sh $(2) $(DIST_GLIBC)
endef

# CI's part: the binary for this machine, and whether it starts on older systems.
elf: ARCHES = amd64
elf: dist-tools
	$(call dist_build,amd64,$(BUILD)/gpurun-amd64)

dist-%: export SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct)
dist-%: export TZ = UTC
dist-%: build
	@umask 022; mkdir -p $(BUILD); rm -rf $(BUILD)/stage-$*
	$(call dist_build,$*,$(BUILD)/gpurun-$*)
	@umask 022; $(MAKE) --no-print-directory install-files BINARY=$(BUILD)/gpurun-$* DESTDIR=$(BUILD)/stage-$* PREFIX=/usr
	@find $(BUILD)/stage-$* -exec touch -h -d @$$SOURCE_DATE_EPOCH {} +
	@cd $(BUILD)/stage-$*/usr && find . -type f -printf '%P\0' | LC_ALL=C sort -z | \
		tar --create --null --files-from=- --format=gnu --owner=0 --group=0 --numeric-owner --mtime=@$$SOURCE_DATE_EPOCH --transform 's,^,gpurun/,' | \
		gzip -9n >$(DIST)/gpurun-linux-$(uname_$*).tar.gz
	@cd $(PKG)/tools && GOFLAGS= CGO_ENABLED=0 $(GO) build -o $(BUILD)/nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm
	@for kind in deb rpm; do \
		ARCH=$* PKG_VERSION=$(call dist_version,deb) STAGE=$(BUILD)/stage-$* $(BUILD)/nfpm package --config $(PKG)/nfpm.yaml --packager $$kind --target $(DIST)/ >$(BUILD)/nfpm.log 2>&1 || { cat $(BUILD)/nfpm.log; exit 1; }; \
	done
	@python3 $(PKG)/wheel.py $(BUILD)/stage-$*/usr $(call dist_version,pep440) $* $(DIST)/gpurun-$(call dist_version,pep440)-py3-none-$(plat_$*).whl
	@GO=$(GO) python3 $(PKG)/sbom.py $(BUILD)/gpurun-$* $(call dist_version,git) >$(DIST)/gpurun-linux-$(uname_$*).cdx.json

# Builds this commit in two clones in different folders, with different umasks and time zones.
dist-check:
	@set -e; tmp=$$(mktemp -d); trap 'chmod -R u+w "$$tmp"; rm -rf "$$tmp"' EXIT; \
	for n in one another/one; do \
		git clone -q . $$tmp/$$n; \
		case $$n in one) umask 022; tz=UTC;; *) umask 077; tz=Asia/Tokyo;; esac; \
		TZ=$$tz $(MAKE) --no-print-directory -C $$tmp/$$n dist ARCHES='$(ARCHES)' >$$tmp/out || { cat $$tmp/out; exit 1; }; \
	done; \
	diff $$tmp/one/dist/SHA256SUMS $$tmp/another/one/dist/SHA256SUMS && echo 'the same bytes twice'

# For .github/workflows/release.yml, on a tag.
release-notes:
	@mkdir -p $(BUILD) && $(PKG)/notes.sh $(call dist_version,git) CHANGELOG.md >$(BUILD)/notes.md && cat $(BUILD)/notes.md

release: release-notes
	@command -v gh >/dev/null || { echo 'release: missing: gh (Debian: apt-get install gh)'; exit 1; }
	gh release create $(call dist_version,git) dist/* --title $(call dist_version,git) --notes-file $(BUILD)/notes.md
