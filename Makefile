# Targets with a comment of two # are listed by `make help`.

GOLANGCI_VERSION := v2.15.0
GOLANGCI := bin/golangci-lint-$(GOLANGCI_VERSION)
GOTESTSUM_VERSION := v1.13.0
GOTESTSUM := bin/gotestsum-$(GOTESTSUM_VERSION)
VALE_VERSION := v3.21.0
VALE := bin/vale-$(VALE_VERSION)
TESTWATCH := bin/testwatch
# The newest that builds from modules that every proxy has.
GORELEASER_VERSION := v2.15.4
GORELEASER := bin/goreleaser-$(GORELEASER_VERSION)
ACTIONLINT_VERSION := v1.7.12
ACTIONLINT := bin/actionlint-$(ACTIONLINT_VERSION)
HELM_VERSION := v3.19.0
HELM := bin/helm-$(HELM_VERSION)
GOVULNCHECK_VERSION := v1.9.0
GOVULNCHECK := bin/govulncheck-$(GOVULNCHECK_VERSION)
# The inputs that each fuzz target tries in `make check`. A time limit could end in the middle of an
# input, and Go sometimes reports that as a failure.
FUZZTIME ?= 3000x

TESTED := . $(patsubst %/go.mod,%,$(wildcard tests/go.mod examples/go.mod *conn/go.mod lock/*/go.mod ratelimit/*/go.mod observe/*/go.mod internal/*/go.mod))
# The modules, beside the first, that users link.
LINKED := $(patsubst %/go.mod,%,$(wildcard *conn/go.mod lock/*/go.mod ratelimit/*/go.mod observe/*/go.mod))
# `make test` leaves out the examples, which are ten programs to build, and the modules that bring other libraries.
QUICK := . tests
# These packages would be compiled only to skip their tests.
WHOLE := -e /test/attack -e /test/matrix -e /test/outages -e /test/torture
# The tests of these packages wait longest: they begin first, while the compiler works on the others.
FIRST := -e redoubt/lock$$ -e internal/server$$ -e cmd/redoubt$$ -e redoubt/queue$$
MODULES := $(TESTED) $(patsubst %/go.mod,%,$(wildcard bench/go.mod))

# Only the race detector and Vale need a C compiler.
RACE := $(shell command -v "$$(go env CC)" >/dev/null 2>&1 && CGO_ENABLED=1 && echo -race)

# The compiler takes three quarters of the time without debugging tables and with inlining only where the
# speed of Redoubt comes from: in go-redis it takes half. All targets have the same flags, so that each package
# is compiled once; so do the programs that tests build. Tools, and what people install, are built with inlining.
SWIFT := std $(addprefix github.com/redoubt-go/redoubt/internal/,engine/... lua proxy/... resp server)
BUILDFLAGS := '-gcflags=all=-dwarf=false -l' $(patsubst %,-gcflags=%=-dwarf=false,$(SWIFT)) -ldflags=-w
TOOLFLAGS := -gcflags=all=-dwarf=false -ldflags=-w
export GOFLAGS := $(GOFLAGS) $(if $(findstring -dwarf=false,$(GOFLAGS)),,$(BUILDFLAGS))
# The compiler collects no garbage before it has a gigabyte, and so takes a quarter less. Tests run without this.
COMPILE := GOGC=off GOMEMLIMIT=1GiB

.PHONY: help
help: ## Lists the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: ## Builds and runs `redoubt serve`; ARGS="--backend redis://..." adds to it
	go run ./cmd/redoubt serve $(ARGS)

# Tests mostly wait, so four packages run at once. With the race detector they mostly compute, so two run.
# `make check` vets, so go test does not. The tag quick leaves out the files of tests whose imports
# take the compiler longest: SQLite, a browser, rueidis, OpenTelemetry, and the external tests of the root, for
# which it compiles everything a second time, as for those that look inside a package under the server.
# $(call run-tests,NAME,MODULES,FLAGS OF GO TEST,LIMIT OF ONE TEST,WHAT IS NOT RUN,PACKAGES) tests modules. It prints a line
# for each package, then the failed and the skipped tests with their reasons, then a closing line.
# gotestsum prints this from the output of go test -json; it is a tool of make and no module of ours requires it.
define run-tests
@NAME="make $(1)" LEFT="$(5)" START=$$(date +%s) "$(GOTESTSUM)" --format pkgname --post-run-command 'sh -c "$(CLOSING)"' --raw-command -- sh -c ' \
	code=0; for m in $(2); do \
		(cd $$m && $(COMPILE) go test -json -vet=off $(3) -timeout 30m -exec "env -u GOGC -u GOMEMLIMIT $(CURDIR)/$(TESTWATCH) -limit $(4)" $(6)) || code=1; \
	done; exit $$code'
endef
CLOSING = echo \"== $$NAME: $$((TESTS_TOTAL - TESTS_FAILED - TESTS_SKIPPED)) passed, $$TESTS_FAILED failed, $$TESTS_SKIPPED skipped (reasons above) in $$(( $$(date +%s) - START )) s; $$LEFT\"

# $(call build-tool,PACKAGE@VERSION,ADDITIONS TO THE ENVIRONMENT) builds a tool of make.
define build-tool
@echo "== building $(@F), once; this can take minutes"
@dir=$$(mktemp -d) && $(2) $(COMPILE) GOBIN="$$dir" GOFLAGS="$(TOOLFLAGS)" go install $(1) && mkdir -p bin && mv "$$dir"/* $@ && rmdir "$$dir"
endef

.PHONY: test
test: needed $(GOTESTSUM) $(TESTWATCH) ## Runs the tests, in minutes; needs redis-server, memcached, pymemcache, redis-py and ioredis, and installs them if it can
	$(call run-tests,test,$(QUICK),-tags quick -short -p 4 -parallel 8,3m,left to make test-all: the race detector; clusters and Sentinels; the other modules; SQL and browsers; rueidis; what takes long,$$(go list ./... | grep $(FIRST)) $$(go list ./... | grep -v $(WHOLE)))

.PHONY: test-all
test-all: needed $(GOTESTSUM) $(TESTWATCH) ## Runs all tests with the race detector, the slow ones too
	@test -n "$(RACE)" || echo "== no C compiler: testing without the race detector"
	$(call run-tests,test-all,$(TESTED),$(RACE) -p 2 -parallel 4,5m,left out: what takes hours: see CONTRIBUTING.md,./...)

$(GOTESTSUM):
	$(call build-tool,gotest.tools/gotestsum@$(GOTESTSUM_VERSION))

.PHONY: $(TESTWATCH)
$(TESTWATCH):
	@go build -o $@ ./internal/test/testwatch

.PHONY: test-native
test-native: ## Tests the fields that a newer server expires itself: SERVER=/path/to/redis-server of Redis 7.4, Valkey 9 or newer
	@test -x "$(SERVER)" || { echo "Say which server: make test-native SERVER=/path/to/redis-server"; exit 1; }
	REDIS_SERVER="$(SERVER)" TTLHASH=native go test $(RACE) -count 1 ./ttlhash
	REDIS_SERVER="$(SERVER)" go test $(RACE) -count 1 -run TTLHash ./internal/server

# Debian has no package of ioredis; npm installs the version in package-lock.json.
CLIENTS := tests/testdata/clients
# The tests look for a Python module in both places, because the first python3 may not be the system's.
.PHONY: needed
needed:
	@missing=; \
	command -v redis-server >/dev/null && command -v redis-cli >/dev/null || missing="redis-server redis-tools"; \
	command -v memcached >/dev/null || missing="$$missing memcached"; \
	for module in pymemcache redis; do \
		python3 -c "import $$module" 2>/dev/null || /usr/bin/python3 -c "import $$module" 2>/dev/null || missing="$$missing python3-$$module"; \
	done; \
	command -v node >/dev/null && command -v npm >/dev/null || missing="$$missing nodejs npm"; \
	if test -z "$$missing"; then :; \
	elif command -v apt-get >/dev/null && test "$$(id -u)" = 0; then \
		echo "== installing $$missing"; \
		apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $$missing; \
	else \
		echo "The tests need programs that are not installed. Debian's packages of them: $$missing"; \
		echo "  Debian, Ubuntu: sudo apt-get install $$missing"; \
		echo "  Fedora:         sudo dnf install valkey-compat-redis memcached python3-pymemcache python3-redis nodejs npm"; \
		echo "  macOS:          brew install redis memcached node; python3 -m pip install pymemcache redis"; \
		exit 1; \
	fi
	@cd $(CLIENTS) && cmp -s package-lock.json node_modules/.installed || { \
		npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && cp package-lock.json node_modules/.installed; }

# The long ones run two at a time: each links programs with one processor for much of its time. They begin when
# `generated` no longer writes files.
.PHONY: check
check: ## Runs all other checks that a change must pass
	@$(MAKE) --no-print-directory -j 1 format workflows translations tidy generated licences vulnerabilities
	@$(MAKE) --no-print-directory -j 2 lint fuzz prose cross
	@echo "== make check: passed"

.PHONY: format
format: ## Checks that gofmt changes nothing
	@echo "== gofmt"
	@files=$$(gofmt -l .); test -z "$$files" || { echo "These files are not formatted; run gofmt -w on them:"; echo "$$files"; exit 1; }

.PHONY: lint
lint: $(GOLANGCI) ## Runs golangci-lint
	@set -e; for m in $(MODULES); do echo "== golangci-lint, module $$m"; (cd $$m && "$(CURDIR)/$(GOLANGCI)" run --timeout 15m ./...); done

$(GOLANGCI):
	$(call build-tool,github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION))

.PHONY: workflows
workflows: $(ACTIONLINT) ## Checks the workflows of GitHub Actions with actionlint
	@echo "== actionlint"
	@# Without the programs that it runs only where they are installed: everybody gets the same result.
	@"$(ACTIONLINT)" -shellcheck= -pyflakes=

$(ACTIONLINT):
	$(call build-tool,github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION))

.PHONY: prose
prose: $(if $(RACE),$(VALE)) ## Checks the prose of comments and documents with Vale; the rules are in .vale/
ifdef RACE
	@echo "== vale"
	@VALE="$(CURDIR)/$(VALE)" go test -count 1 -run '^TestProseRules$$' . && "$(VALE)" --output=line --glob='!{**/node_modules/**,bin/**}' .
else
	@echo "== no C compiler: the prose is not checked"
endif

$(VALE):
	$(call build-tool,github.com/vale-cli/vale/v3/cmd/vale@$(VALE_VERSION),CGO_ENABLED=1)

.PHONY: tidy
tidy: ## Checks that go mod tidy changes nothing
	@set -e; for m in $(TESTED); do echo "== go mod tidy, module $$m"; (cd $$m && go mod tidy -diff); done
	@# -e: a test of redsync imports a module that some proxies lack.
	@echo "== go mod tidy, module bench"; cd bench && go mod tidy -e -diff 2>/dev/null

.PHONY: licences
licences: ## Checks that everything that users link has a permissive licence
	@echo "== licences"
	@cd tests && $(COMPILE) go test -count 1 -run '^TestLicences$$' .

# Where the database can't be reached, nothing is built.
.PHONY: vulnerabilities
vulnerabilities: ## Checks what users link by Go's database of vulnerabilities, if it can be reached
	@if curl --silent --fail --max-time 20 --output /dev/null https://vuln.go.dev/index/db.json; then \
		$(MAKE) --no-print-directory govulncheck; \
	else echo "== govulncheck: not checked: vuln.go.dev can't be reached"; fi

.PHONY: govulncheck
govulncheck: $(GOVULNCHECK)
	@set -e; for m in . $(LINKED); do echo "== govulncheck, module $$m"; (cd $$m && "$(CURDIR)/$(GOVULNCHECK)" ./...); done

$(GOVULNCHECK):
	$(call build-tool,golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION))

.PHONY: docs
docs: ## Makes a site of the documents in site/, with search; it needs no server and works offline
	@rm -rf site && cd internal/site && go run . ../.. ../../site

.PHONY: generate
generate: ## Makes the generated files anew
	go generate ./...

.PHONY: generated
generated: ## Checks that make generate changes nothing
	@echo "== go generate"
	@state() { git status --porcelain; git diff; }; before=$$(state); go generate ./...; \
	test "$$before" = "$$(state)" || { echo "Generated files were out of date; commit what git diff shows."; git status --short; exit 1; }

.PHONY: translations
translations: ## Lists the pages in Chinese whose English page has changed since
	@echo "== translations"
	@for f in $$(find docs/zh-CN -name '*.md'); do \
		set -- $$(sed -n '1s/<!-- source: \(.*\) -->/\1/p' "$$f"); \
		test "$$(git hash-object "$$1" | cut -c 1-12)" = "$$2" || echo "$$f was written from an earlier $$1: git diff $$2 -- $$1"; \
	done

.PHONY: cross
cross: ## Builds for the other systems
	@# The other modules have no files for one system. SQLite, of examples/cache, takes 20 s of processor time for each.
	@set -e; for os in darwin windows; do for m in . examples; do \
		echo "== go build, GOOS=$$os, module $$m"; \
		(cd $$m && export CGO_ENABLED=0 GOOS=$$os && $(COMPILE) go build $$(go list ./... | grep -v '/examples/cache$$')); \
	done; done

.PHONY: fuzz
fuzz: ## Runs each fuzz target for FUZZTIME (3000x, or a time)
	@set -e; for m in $(TESTED); do \
		files=$$(cd $$m && go list -f '{{$$d := .Dir}}{{range .TestGoFiles}}{{$$d}}/{{.}} {{end}}{{range .XTestGoFiles}}{{$$d}}/{{.}} {{end}}' ./...); \
		grep -o '^func Fuzz[A-Za-z0-9_]*' $$files /dev/null | sed 's,/[^/]*:func , ,' | while read -r dir target; do \
			echo "== fuzz $${dir#$(CURDIR)/} $$target"; \
			(cd "$$dir" && $(COMPILE) go test -vet=off -exec "env -u GOGC -u GOMEMLIMIT" -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) .) || exit 1; \
		done; \
	done

.PHONY: fuzz-engine
fuzz-engine: needed ## Compares random programs on the engine and on redis-server; COMMANDS=100000000, SEED=1
	@COMMANDS="$(or $(COMMANDS),100000000)" $(if $(SEED),SEED="$(SEED)") \
		go test ./internal/engine -count 1 -run '^TestDifferential$$' -parallel 8 -timeout 0

# CONTRIBUTING.md says how a release is made.
.PHONY: version
version: ## Sets the version of the next release everywhere: V=v0.2.0
	@echo "$(V)" | grep -Eq '^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9a-z.]+)?$$' || { echo "Say which version: make version V=v0.2.0"; exit 1; }
	echo "$(V)" > VERSION
	@set -e; for m in $$(git grep -lE 'redoubt-go/redoubt v' -- '*/go.mod'); do echo "$$m"; go mod edit -require=github.com/redoubt-go/redoubt@$(V) "$$m"; done
	sed -i.bak -E 's/^(version|appVersion): .*/\1: $(V:v%=%)/' deploy/helm/redoubt/Chart.yaml && rm deploy/helm/redoubt/Chart.yaml.bak

.PHONY: release-data
release-data: ## Writes a directory, a snapshot and users with this version, which all later versions must read
	go test -count 1 ./cmd/redoubt -run '^TestDataOfReleases$$' -record-release

.PHONY: release
release: $(GORELEASER) ## Builds binaries and packages of the commit's tag, and drafts the release; release.yaml runs it
	$(GORELEASER) release --clean

# Not in CI: building goreleaser and helm takes many minutes of processor time.
.PHONY: release-check
release-check: $(GORELEASER) $(HELM) ## Makes the packages of a release in dist/ without publishing them, and checks the Helm chart
	$(GORELEASER) check
	HOMEBREW_TAP_TOKEN=none $(GORELEASER) release --clean --snapshot --skip=sbom
	$(HELM) lint --strict deploy/helm/redoubt --set password.existingSecret=x
	@# A helm that go install built takes Kubernetes 1.20 for the cluster.
	$(HELM) template redoubt deploy/helm/redoubt --kube-version 1.33.0 --set password.existingSecret=x >/dev/null
	cd tests && RELEASE=full go test -count 1 -run '^TestReleasedModules$$' .

$(GORELEASER):
	$(call build-tool,github.com/goreleaser/goreleaser/v2@$(GORELEASER_VERSION))

$(HELM):
	$(call build-tool,helm.sh/helm/v3/cmd/helm@$(HELM_VERSION))

.PHONY: redis-suite
redis-suite: ## Runs Redis 7.0's own tests on the engine: SUITE=/path/to/redis [UNITS="unit/sort"] [THROUGH=1: through the server]
	go run ./internal/test/redissuite -source "$(SUITE)" $(if $(THROUGH),-through) $(UNITS)

# The server is built without the race detector unless RACE=1: the detector takes so much memory that the
# limits could not be checked. RACE is set to -race above wherever there is a C compiler, so compare with 1.
.PHONY: attack
attack: needed ## Attacks the built server, beside clients that check every reply; SEED=1, DURATION=10s for each attack, ONLY=regexp, RACE=1, RECORD=1 keeps the numbers for docs/security.md
	@mkdir -p bin && go test -c -o bin/attack.test ./internal/test/attack
	@cd internal/test/attack && "$(CURDIR)/bin/attack.test" -test.run '^TestAttacks$$' -test.timeout 0 \
		-duration "$(or $(DURATION),10s)" -seed "$(or $(SEED),0)" -only '$(or $(ONLY),.)' $(if $(filter 1,$(RACE)),-raced) $(if $(RECORD),-record)

.PHONY: outages
outages: needed ## Kills servers of a pool under `redoubt lock`, a Go service and a Python worker; DURATION=1h, EVERY=1m, SEED=1
	@mkdir -p bin && go test -c -o bin/outages.test ./internal/test/outages
	@cd internal/test/outages && "$(CURDIR)/bin/outages.test" -test.run '^TestOutages$$' -test.timeout 0 -test.v \
		-duration "$(or $(DURATION),1h)" -every "$(or $(EVERY),1m)" -seed "$(or $(SEED),0)"

.PHONY: torture
torture: needed ## Drives all primitives on real deployments while faults strike, and judges the histories; DURATION=1h, SEED=1, ONLY=regexp, STRIKES=0,3, STEADY=1 watches the memory, RACE=1
	@mkdir -p bin && go test -c -o bin/torture.test ./internal/test/torture
	@cd internal/test/torture && "$(CURDIR)/bin/torture.test" -test.run '^TestTorture$$' -test.timeout 0 \
		-duration "$(or $(DURATION),0s)" -seed "$(or $(SEED),0)" -only '$(or $(ONLY),.)' -strikes '$(STRIKES)' -full $(if $(filter 1,$(STEADY)),-steady) $(if $(filter 1,$(RACE)),-raced)

.PHONY: flashsale
flashsale: ## Sells 100 bottles to 20,000 buyers in seven ways and draws the results; ARGS="-url redis://... -step lock,stock"
	@mkdir -p bin
	cd examples && go run ./flashsale -svg ../bin/flash-sale.svg $(ARGS)

.PHONY: bench
bench: ## Measures one suite beside peers; ARGS="-suite locks"; raw output goes to bench/results
	cd bench && go run . $(ARGS)

.PHONY: compare
compare: ## Measures all peers and writes docs/benchmarks.md; ARGS="-duration 50ms -rounds 3" is the short form, ARGS="-only locks,queue" a part
	cd bench && go run . -suite compare $(ARGS)
