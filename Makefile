# make help lists the targets.
.DEFAULT_GOAL := help
# Vulnerabilities of Go's library are fixed by its releases; the go line of go.mod stays, for machines that have an older one.
export GOTOOLCHAIN := go1.26.10

.PHONY: help setup packages build demo parts test unit e2e e2e-hostile e2e-long e2e-pod e2e-wire e2e-registries e2e-kube e2e-outage e2e-node e2e-page image soak chaos pairs hunt fuzz vulnerabilities security release figures lint shellcheck bench bench-ads bench-ca bench-kube golden clean

module  := github.com/pilotlight/pilotlight
scripts := $(wildcard envoy-tools/fetch-* envoy-tools/pod-init.d/*.sh) envoy-tools/fuzz envoy-tools/hunt envoy-tools/image \
	envoy-tools/packages envoy-tools/pod-init envoy-tools/release .ci/run

# Every go command builds with the flags of the programs that are shipped, so that each package is compiled once for all of
# them, and a second time for the race detector, which needs cgo. grpcnotrace leaves out gRPC's pages of its own, whose
# html/template would keep every exported method of every type: 12 MB. A command with other tags names it again. go test vets no
# package: make lint does, with all analyzers, and go test would begin with each dependency, once more for the race detector.
#
# toolexec gives the compiler more memory between its garbage collections, which take a quarter of its time otherwise. The variable is
# not set for what go runs: tests measure memory. Without DWARF, which is stripped from programs anyway, the compiler takes a seventh less.
export CGO_ENABLED := 0
gogc := GOGC=400
export GOFLAGS := $(GOFLAGS) -trimpath -tags=grpcnotrace -vet=off -gcflags=all=-dwarf=false '-toolexec=env $(gogc)'

# What is compiled for the race detector only is compiled without inlining, in a sixth less time.
race := CGO_ENABLED=1 GOFLAGS="$$GOFLAGS '-gcflags=all=-dwarf=false -l'"

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z].*:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: packages bin/envoy ## fetch what building and testing needs: modules, tools, a C compiler for -race, Envoy
	go mod download
	go build tool

packages:
	@envoy-tools/packages

# Always asked: they know best whether there is something to do.
.PHONY: bin/envoy
bin/envoy:
	@envoy-tools/fetch-envoy

build: ## build bin/agent, bin/discovery, bin/bookinfo, bin/demo
	go build -ldflags "-s -w" -o bin/ ./cmd/... ./examples/...

demo: ## run the bookinfo mesh on this machine until Ctrl-C; DEMO=-help for its flags
	@$(MAKE) --no-print-directory -j2 build bin/envoy # the download beside the build
	@bin/demo $(DEMO)

# These packages decide about values: deps_test.go keeps goroutines, clocks and I/O out of them, so the race detector finds nothing
# there, and makes their tests take up to twelve times as long. The tests of the house itself have none either, and read what the build
# before them has compiled: with cgo, they would have all of it compiled a third time.
pure := ./agent/health ./agent/identity ./agent/why ./bootstrap ./node ./templates ./discovery/authz ./discovery/model \
	./discovery/config ./discovery/xds ./discovery/ads/protocol ./discovery/kube/catalog ./discovery/kube/networking \
	./discovery/ingress ./discovery/acme ./discovery/inject ./discovery/validation ./discovery/proxystatus ./discovery/explain \
	./discovery/ca ./discovery/registry/manifest ./internal/binding ./internal/bounded ./internal/environ ./internal/template ./internal/connlimit \
	./internal/spelling ./internal/spiffe

# These count memory, or simulate ten thousand agents, or eight clients that take all of a processor: the race detector finds nothing
# in them that the tests beside them do not show, and makes them last two minutes each beside other work.
costly := ^TestALongAnswerCostsWhatIsKept$$|^TestAHerd$$|^TestHostileClients$$

# The unit tests compile most of the time, for the race detector a second time; the tests with a real Envoy wait for other processes most of
# the time, so both run at once.
test: packages bin/envoy build ## run every test, those with a real Envoy included
	@$(MAKE) --no-print-directory -j2 --output-sync=target unit e2e

unit: ## run the tests that need no Envoy
	go test -timeout 20m . $(pure)
	go test -timeout 20m -run '$(costly)' ./agent/relay ./discovery/ads ./discovery/registry/...
	$(race) go test -race -timeout 20m -skip '$(costly)' $$(go list ./... | grep -v /e2e | grep -vxF "$$(go list . $(pure))")

# Two tests of a package run at once, on any number of processors, and packages next to each other. There is no race detector: the
# programs that they test are built as they are shipped. They run each time: go test does not notice that a program which a test
# starts has changed.
e2e: build bin/envoy ## run the tests with a real Envoy only
	go test -count=1 -timeout 25m -parallel 2 ./e2e/...

e2e-hostile: build bin/envoy ## run the attacks of a tenant on a shared gateway; RUN=name of one
	go test -count=1 -timeout 10m -parallel 2 -v $(if $(RUN),-run '$(RUN)') ./e2e/hostile

# These are kept out of make test, which has ten minutes: attacks that last, parts that need Java (by a build tag), and edited
# meshes in large numbers: compared with fresh ones, and shown to the real Envoy.
e2e-long: build bin/envoy ## run the tests that take long or need further parts; RUN=name of one
	@envoy-tools/packages long
	@envoy-tools/fetch-zipkin
	go test -count=1 -timeout 10m -run '^TestEditsAreToldAsAFreshServerTellsThem$$|^TestOneMeshIsToldInOneWay$$' ./discovery/ads/content -worlds 400
	go test -count=1 -timeout 10m -run '^TestEnvoyTakesWhatValidationTakes$$' ./discovery/xds -edits 1200
	go test -tags grpcnotrace,long -count=1 -timeout 30m -p 1 -run '$(or $(RUN),^TestLong)' -v ./e2e/agent ./e2e/ads ./e2e/traffic

image: bin/envoy ## build the images proxy and discovery into run/image; ARCH=arm64, INIT=no, ENGINE=docker|buildah
	@envoy-tools/image

# Root only: these tests make namespaces, mounts and control groups. The build tag keeps them out of every other run.
e2e-pod: bin/envoy ## run the tests of a pod, as root: redirection, two pods, images, process one, units; RUN=name of one
	@envoy-tools/packages pod
	go test -tags grpcnotrace,pod -count=1 -timeout 30m -v $(if $(RUN),-run '$(RUN)') ./e2e/pod

# Most of them are compiled from their modules, for about half an hour of two cores the first time, and for seconds from then on.
parts: ## build and download the programs of other projects that the targets e2e-wire, e2e-registries, e2e-kube and e2e-node need
	@envoy-tools/packages wire registries kube node
	@envoy-tools/fetch-pebble
	@envoy-tools/fetch-kube
	@envoy-tools/fetch-peers
	@envoy-tools/fetch-prometheus
	@envoy-tools/fetch-spire
	@envoy-tools/fetch-registries
	@envoy-tools/fetch-node

e2e-wire: packages bin/envoy ## run the tests against what others wrote: Istio's pilot-agent and istiod, Pebble, Prometheus, SPIRE, gRPC in Python and Java; RUN=name of one
	@envoy-tools/packages wire
	@envoy-tools/fetch-peers
	@envoy-tools/fetch-pebble
	@envoy-tools/fetch-prometheus
	@envoy-tools/fetch-spire
	go test -tags grpcnotrace,wire -count=1 -timeout 30m -v $(if $(RUN),-run '$(RUN)') ./e2e/wire ./e2e/wire/policies

e2e-registries: build bin/envoy ## run the tests with real registries, Consul, Eureka and NATS, and Nomad; RUN=name of one
	@envoy-tools/packages registries
	@envoy-tools/fetch-registries
	@envoy-tools/packages kube
	@envoy-tools/fetch-kube
	go test -tags grpcnotrace,registries -count=1 -timeout 30m -v $(if $(RUN),-run '$(RUN)') ./e2e/registries

e2e-kube: build bin/envoy ## run the tests with a real API server of Kubernetes and its etcd; RUN=name of one
	@envoy-tools/packages kube
	@envoy-tools/fetch-kube
	@envoy-tools/fetch-pebble
	go test -tags grpcnotrace,kube -count=1 -timeout 30m -v $(if $(RUN),-run '$(RUN)',-skip Outage) ./e2e/kube

e2e-outage: build bin/envoy ## run the tests of e2e-kube in which API servers or etcd are away for a minute
	@$(MAKE) --no-print-directory e2e-kube RUN=Outage

e2e-node: build bin/envoy ## run the tests on a real node of Kubernetes, as root: kubelet, containerd, images; RUN=name of one
	@envoy-tools/packages pod
	@envoy-tools/packages node
	@envoy-tools/fetch-node
	@envoy-tools/image
	go test -tags grpcnotrace,node -count=1 -timeout 30m -v $(if $(RUN),-run '$(RUN)') ./e2e/node

e2e-page: build bin/envoy ## run the tests of the mesh's page in headless Chromium; RUN=name of one
	@envoy-tools/packages page
	@envoy-tools/fetch-axe
	go test -tags grpcnotrace,browser -count=1 -timeout 10m -v $(if $(RUN),-run '$(RUN)') ./e2e/page

soak: build bin/envoy ## start and stop 200 times, hand over and upgrade 200 times, and SOAK=10m of a busy mesh: nothing is left, memory stays flat
	go test -count=1 -timeout 60m -run 'TestSoak' -v ./e2e/agent -soak 200 -soak-for $(or $(SOAK),15s)

chaos: build bin/envoy ## two minutes of random blows under load; -chaos-seed reproduces a failure
	go test -count=1 -timeout 15m -run 'TestChaos' -v ./e2e/agent -chaos 120

# e2e-registries strikes twelve of them.
PAIRS ?= 200
TRIPLES ?= 24
pairs: build bin/envoy ## strike PAIRS pairs of faults, and TRIPLES triples, at a mesh with a real Consul and API server, 200 unless set; -pairs-seed reproduces
	@envoy-tools/packages registries
	@envoy-tools/fetch-registries
	@envoy-tools/packages kube
	@envoy-tools/fetch-kube
	go test -tags grpcnotrace,registries -count=1 -timeout 60m -run '^TestPairsOfFaults$$' -v ./e2e/registries -pairs $(PAIRS) -triples $(TRIPLES)

# The tags of all tests but those of e2e-long, which are in packages that have other tests too.
PACKAGE ?= ./e2e/traffic
TIMES ?= 20
hunt: build bin/envoy ## look for tests that fail by chance: run PACKAGE TIMES times under each of two loads; RUN=name of one
	@envoy-tools/packages hunt
	@TAGS=grpcnotrace,pod,wire,registries,kube,node,browser envoy-tools/hunt $(PACKAGE) $(TIMES) $(if $(RUN),-run '$(RUN)')

# A fuzzer of go test runs alone, so they take turns. Without a bound, one whose coverage differs from run to run, as that of
# signatures, spends a minute on its first input. What one finds lies in its package's testdata/fuzz: commit it with the mend.
FUZZTIME ?= 1m
fuzz: ## run every fuzzer for FUZZTIME, a minute each unless it is set
	@grep -rlE --include='*_test.go' --exclude-dir=bin --exclude-dir=run '^func Fuzz[A-Za-z]*\(' . | xargs -n 1 dirname | sort -u | \
		while read -r package; do envoy-tools/fuzz "$$package" $(FUZZTIME) || exit; done

# Every build tag of the tests.
tags := grpcnotrace,pod,long,wire,registries,kube,node,browser

# The database of vulnerabilities as a module, of a pinned version: no change turns red by the day.
run/vulndb/index/db.json: envoy-tools/vulndb/go.mod
	@rm -rf run/vulndb && mkdir -p run
	@go -C envoy-tools/vulndb mod download golang.org/x/vulndb # go list names no directory before
	@go -C envoy-tools/vulndb tool indexdb -vulns "$$(go -C envoy-tools/vulndb list -m -f '{{.Dir}}' golang.org/x/vulndb)/data/osv" -out $(CURDIR)/run/vulndb

vulnerabilities: run/vulndb/index/db.json ## fail on a known vulnerability that a program reaches, by the pinned database
	go tool govulncheck -db file://$(CURDIR)/run/vulndb -tags grpcnotrace ./cmd/...

# The database of vulnerabilities is Go's own, on the network; VULNDB names another, such as a copy in file:///DIR.
security: ## known vulnerabilities of what the binaries link, then every fuzzer
	@go tool govulncheck $(if $(VULNDB),-db $(VULNDB)) -tags $(tags) ./... || { status=$$?; \
		[ $$status = 3 ] || echo "security: NOT CHECKED, as it says above: where the database of vulnerabilities is out of reach," \
			"VULNDB=file:///DIR names a copy (docs/release.md)"; exit $$status; }
	@$(MAKE) --no-print-directory fuzz

release: bin/envoy ## build, sign and attest the programs and images of VERSION with KEY (docs/release.md)
	@VERSION='$(VERSION)' KEY='$(KEY)' envoy-tools/release

# What no program reaches is deleted, or is in a test file. Excepted are config.Decode, with which the tests of six packages read
# objects, and the tables of differences from Istio, from which docs/compat.md is made.
lint: ## vet, staticcheck, gofumpt, deadcode, and shellcheck where it is installed
	go vet -tags $(tags) ./...
	$(gogc) go tool staticcheck -tags $(tags) ./...
	@unformatted=$$(go tool gofumpt -l .) && test -z "$$unformatted" || \
		{ echo "run go tool gofumpt -w on:" $$unformatted; exit 1; }
	@dead=$$($(gogc) go tool deadcode ./cmd/... ./examples/...) || exit 1; \
		dead=$$(echo "$$dead" | grep -vE '^discovery/config/(decode\.go:|support\.go:.* (Verdicts|Simulated|Policies|differences)$$)'); test -z "$$dead" || \
		{ echo "no program reaches these: delete them, or move them to the tests that do"; echo "$$dead"; exit 1; }
	@[ '$(CI)' != true ] || envoy-tools/packages lint
	@$(MAKE) --no-print-directory shellcheck

# Where CI is true a check that is not made is a failure.
shellcheck:
	@if command -v shellcheck >/dev/null; then shellcheck $(scripts); \
		else echo "shellcheck is not installed: scripts not checked"; [ '$(CI)' != true ]; fi

figures: ## measure the code: files, bytes, lines, large types
	go test -count=1 -v -run '^TestFigures$$' .

bench: build bin/envoy ## measure the agent against a bare Envoy, as a table of ratios
	go run ./e2e/bench

# BENCH holds further flags, such as "-services 5000 -proxies 200" or -growth; PROFILE=1 writes run/ads.*.pprof.
bench-ads: ## measure the ADS server beside a server that only sends captured bytes
	@mkdir -p run && go build -o run/adsbench ./e2e/adsbench
	run/adsbench -services 1000 -endpoints 10 -proxies 1000 -runs 3 -storm 60s $(if $(PROFILE),-profile run/ads.pprof) $(BENCH)

# BENCH holds flags, such as "-agents 1000 -runs 1". A run takes about a minute.
bench-ca: build ## measure what renewals of 10,000 agents cost the authority, at a pace and all at once
	@mkdir -p run && go build -o run/adsbench ./e2e/adsbench
	run/adsbench ca $(BENCH)

# BENCH holds flags, such as "-args -services 100 -runs 3".
bench-kube: build bin/envoy ## measure discovery with 1,000 services and 10,000 pods of a real API server of Kubernetes
	@envoy-tools/packages kube
	@envoy-tools/fetch-kube
	go test -tags grpcnotrace,kube -count=1 -timeout 30m -run '^$$' -bench '^BenchmarkKubernetes$$' -benchtime 1x ./e2e/kube $(BENCH)

golden: ## rewrite the golden files; read the diff before committing it
	go test $$(grep -rl --include='*_test.go' '"$(module)/internal/golden"' . | xargs -n1 dirname | sort -u) -update

clean: ## remove what was built, fetched or logged
	rm -rf bin run
