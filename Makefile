# Two commands are all you need: `make run` and `make test`.
# They require only Go (version in go.mod) and a C compiler.

GO      ?= go
OUT     ?= bin/gpurun
# NVML's header marks functions as deprecated, which would print a page of warnings.
export CGO_CFLAGS ?= -O2 -g -Wno-deprecated-declarations
# NVML is loaded at run time. With all symbols bound at start, the binary would not run
# on machines without a driver.
LDFLAGS := -X gpurun/runner/cli.version=$(shell packaging/version.sh git)
ifneq ($(shell $(GO) env CGO_ENABLED 2>/dev/null),0)
LDFLAGS += -extldflags=-Wl,-z,lazy
endif
FUZZTIME ?= 1s

.PHONY: build run test race calc check fmt vet staticcheck shells nocgo fuzz readme gpu-smoke bench torture engines fairness web browser pictures spell install install-files uninstall clean help

help:
	@echo 'make run      build gpurun and run jobs/multi_seed.yaml (on simulated GPUs if there are no real ones)'
	@echo 'make test     all tests'
	@echo 'make check    formatting, vet, staticcheck, all tests with -race, a build without cgo, short fuzzing, spelling'
	@echo 'make web      build what runs in browsers from runner/ui, needs node; its outputs are checked in'
	@echo 'make browser  open it in Chromium, and take screenshots'
	@echo 'make pictures update the images of README.md and docs, needs tmux, webp and Chromium'
	@echo 'make spell    check the spelling of README.md, docs and help'
	@echo 'make torture  kill runners and keepers at random and at every system call, for TORTURE_TIME'
	@echo 'make install  install gpurun, its man page and completions below PREFIX (/usr/local, or ~/.local if you are not root)'
	@echo 'make uninstall  remove them'
	@echo 'make dist     packages for amd64 and arm64 in dist/: tar.gz, .deb, .rpm, wheel, SBOM, SHA256SUMS'
	@echo 'make fairness play random days of a shared server in virtual time; updates the table in docs/internals/scheduling.md'
	@echo 'make engines  run the tests against a real Slurm and Grid Engine, which it installs, starts and stops (Debian, as root)'
	@echo 'make bench    compare speed with ninja, GNU parallel, tsp and xargs (a few minutes)'
	@echo 'make gpu-smoke  checks that need a real GPU'

build: $(OUT)

.PHONY: $(OUT)
$(OUT):
	@if command -v $(GO) >/dev/null; then $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $@ .; \
	elif test -x $@; then echo 'Go is missing, so $@ stays as it was built'; \
	else echo 'Go is missing: https://go.dev/dl'; exit 1; fi

run: build
	@if $(OUT) gpus >/dev/null 2>&1; then \
		echo 'running jobs/multi_seed.yaml on the GPUs of this machine'; \
		$(OUT) run jobs/multi_seed.yaml; \
	else \
		echo 'no NVIDIA GPU here: running jobs/multi_seed.yaml on simulated ones (--sim 4x24GiB)'; \
		$(OUT) run --sim 4x24GiB jobs/multi_seed.yaml; \
	fi

# The two packages that take longest come first, since the others can run beside them.
test:
	GORACE=atexit_sleep_ms=0 $(GO) test $(TESTFLAGS) ./runner/torture ./runner/cli ./...

# `make check` runs the same tests in two halves. CALC and PLAYS use one goroutine, or simulate hours of a
# batch in virtual time: with the race detector, which finds nothing there, they would take five times as long.
CALC  := ./docs ./gpu ./jobspec/... ./runner/forecast ./runner/hostsim ./runner/results ./runner/sched/...
PLAYS := ^(TestEstimateAtHalfTimeIsAccurate|TestStalledJobDoesNotMoveEstimate)$$
race:
	GORACE=atexit_sleep_ms=0 $(GO) test -race $(TESTFLAGS) -skip '$(PLAYS)' ./runner/torture ./runner/cli $$($(GO) list ./... | grep -vxF "$$($(GO) list $(CALC))")
calc:
	$(GO) test $(TESTFLAGS) $(CALC)
	$(GO) test $(TESTFLAGS) -run '$(PLAYS)' ./runner

# Many tests mostly wait, so several of these targets run in parallel.
# ALSO=engines adds the tests with real schedulers.
CHECKS := race calc $(ALSO) vet staticcheck nocgo fuzz readme spell
check: fmt shells
	@echo 'make $(CHECKS): the output of each appears when it ends'
	@$(MAKE) --no-print-directory -j4 -O TESTFLAGS='-shuffle=on -p 3 -parallel 3 -timeout 30m' $(CHECKS)

fmt:
	@bad=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$bad" || { echo "not formatted:"; echo "$$bad"; exit 1; }

vet:
	$(GO) vet ./...

staticcheck:
	$(GO) tool staticcheck ./...

# The shells whose completions are tested; the test skips missing ones.
SHELLS := bash zsh fish
shells:
	@missing() { for s in $(SHELLS); do command -v $$s >/dev/null || printf ' %s' $$s; done; }; \
	if [ -n "$$(missing)" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get install -y -qq $$(missing) >/dev/null 2>&1 || \
		{ apt-get update -qq && apt-get install -y -qq $$(missing); } >/dev/null 2>&1 || true; \
	fi; \
	[ -z "$$(missing)" ] || echo "not tested because missing:$$(missing) (Debian: apt-get install$$(missing))"

nocgo:
	CGO_ENABLED=0 $(GO) build -o /dev/null .
	CGO_ENABLED=0 $(GO) vet ./...

# Runs each fuzz test briefly, and builds those of a package once; FUZZTIME=5m for longer runs. Only
# these are worth a build of everything with coverage, which guides the fuzzing. A worker that is
# still busy at the deadline is a quirk of Go, not a finding.
fuzz:
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT; \
	cache=$$($(GO) env GOCACHE)/fuzz/$$($(GO) list -m); \
	for pkg in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
		$(GO) test -c $(if $(filter 1s,$(FUZZTIME)),,-fuzz .) -o $$dir/fuzz $$pkg || exit 1; \
		for f in $$(cd $$pkg && $$dir/fuzz -test.list '^Fuzz'); do \
			echo "fuzz $$pkg $$f $(FUZZTIME)"; \
			(cd $$pkg && $$dir/fuzz -test.run '^$$' -test.fuzz "^$$f\$$" -test.fuzztime $(FUZZTIME) -test.fuzzminimizetime 10x -test.parallel $(if $(filter 1s,$(FUZZTIME)),1,2) -test.fuzzcachedir $$cache/$$pkg) >$$dir/out 2>&1 \
				|| { grep -q '^    context deadline exceeded$$' $$dir/out && ! grep -q 'Failing input' $$dir/out; } \
				|| { cat $$dir/out; exit 1; }; \
		done; \
	done

# Tests the README's commands for installing; .ci/run runs its make commands, and other tests the rest.
readme: build
	sh docs/readme_test.sh

# Builds the bundles that run in a browser and that Go embeds. They are checked in, so nothing else
# needs node. --ignore-scripts keeps packages from running their own scripts here.
UI := runner/ui
web: $(UI)/node_modules/.package-lock.json
	@$(GO) test -count=1 -run '^TestTypeScriptIsCurrent$$' ./runner/web -update >/dev/null
	@cd $(UI) && node build.mjs

$(UI)/node_modules/.package-lock.json: $(UI)/package-lock.json
	@command -v npm >/dev/null || { echo 'missing: node and npm (Debian: apt-get install nodejs npm)'; exit 1; }
	@cd $(UI) && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && touch node_modules/.package-lock.json

# Tests the pages in a real browser. SCREENSHOTS is the folder for screenshots.
browser: web
	@$(MAKE) --no-print-directory build # with the new bundles
	@installed() { command -v chromium >/dev/null; }; \
	if ! installed && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null 2>&1 || \
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; } >/dev/null 2>&1 || true; \
	fi; \
	installed || { echo 'missing: chromium (Debian: apt-get install chromium)'; exit 1; }
	@cd $(UI) && GPURUN=$(abspath $(OUT)) node --test --test-concurrency=1 'test/'
	GPURUN_WEB_CLIENT=1 $(GO) test -count=1 -run '^TestGeneratedClientWorks$$' ./runner/web

# Makes the images of README.md and docs from a batch that it runs.
pictures: web
	@$(MAKE) --no-print-directory build # with the new bundles
	@missing() { for t in tmux img2webp chromium; do command -v $$t >/dev/null || printf ' %s' "$$(echo $$t | sed s/img2webp/webp/)"; done; }; \
	if [ -n "$$(missing)" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get install -y -qq --no-install-recommends $$(missing) fonts-dejavu-core >/dev/null 2>&1 || \
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends $$(missing) fonts-dejavu-core; } >/dev/null 2>&1 || true; \
	fi; \
	[ -z "$$(missing)" ] || { echo "missing:$$(missing) (Debian: apt-get install$$(missing))"; exit 1; }
	@cd $(UI) && GPURUN=$(abspath $(OUT)) node pictures.mjs

# Checks README.md, docs and help against the dictionary of Debian's aspell and docs/words.txt.
spell: build
	@installed() { command -v aspell >/dev/null; }; \
	if ! installed && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get install -y -qq --no-install-recommends aspell aspell-en >/dev/null 2>&1 || \
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends aspell aspell-en; } >/dev/null 2>&1 || true; \
	fi; \
	if installed; then sh docs/spell.sh; else echo 'not checked because missing: aspell (Debian: apt-get install aspell aspell-en)'; fi

# Needs a GPU. Tests readings from the real driver, a command on a GPU, and a batch.
# docs/internals/gpu-smoke.md collects its output from real machines.
gpu-smoke: build
	@$(OUT) gpus >/dev/null 2>&1 || { echo 'no GPU here'; exit 1; }
	GPURUN_GPU_SMOKE=1 $(GO) test -count=1 -v -run SmokeRealGPU ./gpu/probe
	$(OUT) version
	$(OUT) gpus
	$(OUT) exec --no-wait -m 1GiB -- sh -c 'echo "CUDA_VISIBLE_DEVICES=$$CUDA_VISIBLE_DEVICES in $$CUDA_DEVICE_ORDER"'
	dir=$$(mktemp -d) && $(OUT) run --state-dir $$dir --force jobs/multi_seed.yaml && rm -rf $$dir

# Speed compared with the alternatives; docs/internals/performance.md has the figures.
PEERS := xargs parallel ninja tsp
bench: build
	@missing=; for p in $(PEERS); do command -v $$p >/dev/null || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get install -y -qq findutils parallel ninja-build task-spooler >/dev/null || true; \
		missing=; for p in $(PEERS); do command -v $$p >/dev/null || missing="$$missing $$p"; done; \
	fi; \
	if [ -n "$$missing" ]; then echo "missing:$$missing (Debian: apt-get install findutils parallel ninja-build task-spooler)"; fi
	@cd runner/bench && $(GO) test -count=1 -timeout 0 -run '^TestFigures$$' -args -gpurun $(abspath $(OUT))

# TORTURE_TIME is split evenly between random faults and kills at every system call of a start.
# The kills end early once they have covered all system calls, in about twenty minutes. If cut
# short, they print how far they got, and another seed starts elsewhere. A seed repeats the choices,
# but not the kernel's scheduling. Building, stops in the middle of claiming, and the end of the last
# batch take a few more seconds each. Tests with several users take six more minutes and need root:
# TORTURE_STARTS jobs under kills, even shares, and the cost of rivals. They fail on a slow or busy
# machine. docs/internals/reliability.md has the figures of long runs.
TORTURE_TIME ?= 60s
TORTURE_SEED ?= 0
TORTURE_STARTS ?= 1000
torture:
	$(GO) test -count=1 -v -timeout 0 -run '^(TestTorture|TestKillBetweenSystemCallsLosesNothing|TestStopWhileClaimingBlocksNoOthers|TestManyClaimsAllCount|TestEightRunnersOfTwoUsers|TestLatecomerStartsWhenAJobEnds|TestUsersGetEvenShares|TestRivalsDoNotSlowARun)$$' ./runner/torture -torture.time $(TORTURE_TIME) -torture.starts $(TORTURE_STARTS) -torture.traced -1 -torture.seed $(TORTURE_SEED)

# Simulates days of a shared server in virtual time: the runs of all users, users without gpurun,
# and cheats. A seed repeats everything. FAIR_DAYS=1 FAIR_SEEDS=1 takes a minute.
FAIR_DAYS ?= 100
FAIR_SEEDS ?= 5
fairness:
	$(GO) test -count=1 -v -timeout 0 -run '^TestFairness$$' ./runner/hostsim -hostsim.brief=false \
		-hostsim.days $(FAIR_DAYS) -hostsim.seeds $(FAIR_SEEDS) -hostsim.table $(abspath docs/internals/scheduling.md)

# Tests against real schedulers. They install (on Debian, as root), start and stop the schedulers.
ENGINES ?= slurm sge
slurm_PKG := ./runner/engine/cluster/slurm
sge_PKG   := ./runner/engine/cluster/gridengine
engines: $(ENGINES:%=engine-%)

engine-%:
	@$($*_PKG)/testdata/cluster.sh up || { [ $$? = 77 ]; exit; }; \
	trap '$($*_PKG)/testdata/cluster.sh down' EXIT; \
	GPURUN_ENGINES=$* $(GO) test -count=1 -p 1 -parallel 4 -timeout $(if $(findstring -short,$(ENGINEFLAGS)),15m,45m) $(ENGINEFLAGS) -run '/$*|TestReal' ./runner/engine/enginetest ./runner/engine/cluster

# DESTDIR is for building packages.
PREFIX ?= $(if $(filter 0,$(shell id -u)),/usr/local,$(HOME)/.local)
SHARE  := $(DESTDIR)$(PREFIX)/share
BIN    := $(DESTDIR)$(PREFIX)/bin/gpurun
MAN    := $(SHARE)/man/man1/gpurun.1
BASHC  := $(SHARE)/bash-completion/completions/gpurun
ZSHC   := $(SHARE)/zsh/site-functions/_gpurun
FISHC  := $(SHARE)/fish/vendor_completions.d/gpurun.fish
DOC    := $(SHARE)/doc/gpurun

install: build
	@$(MAKE) --no-print-directory install-files BINARY=$(OUT)
	@echo 'installed $(BIN), its man page, and completions for bash, zsh and fish in $(SHARE)'
	@case ":$$PATH:" in *':$(PREFIX)/bin:'*) ;; *) echo 'add $(PREFIX)/bin to your PATH';; esac
	@case '$(PREFIX)' in /usr|/usr/local) ;; *) echo 'for zsh, write above compinit in .zshrc: fpath+=$(PREFIX)/share/zsh/site-functions';; esac

# Installs everything, for make install and for packages. BINARY may be for another architecture; $(OUT) runs here and
# prints the man page and the completions.
install-files:
	@install -d $(foreach f,$(BIN) $(MAN) $(BASHC) $(ZSHC) $(FISHC) $(DOC)/LICENSE $(DOC)/jobs/configs/x,'$(dir $(f))')
	@install -m 755 $(BINARY) '$(BIN)'
	@set -e; put() { "$$@" >"$$to.new" && chmod 644 "$$to.new" && mv "$$to.new" "$$to"; }; \
	to='$(MAN)'; put $(OUT) __man; \
	to='$(BASHC)'; put $(OUT) completion bash; \
	to='$(ZSHC)'; put $(OUT) completion zsh; \
	to='$(FISHC)'; put $(OUT) completion fish
	@install -m 644 LICENSE README.md '$(DOC)'
	@install -m 644 $(filter-out %.go %.sh,$(wildcard jobs/*.*)) '$(DOC)/jobs'
	@install -m 755 $(wildcard jobs/*.sh) '$(DOC)/jobs'
	@install -m 644 $(wildcard jobs/configs/*.*) '$(DOC)/jobs/configs'

uninstall:
	rm -f '$(BIN)' '$(MAN)' '$(BASHC)' '$(ZSHC)' '$(FISHC)'
	rm -rf '$(DOC)'

clean:
	rm -rf bin build dist

include packaging/dist.mk
