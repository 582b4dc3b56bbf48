# make help lists the targets.
.DEFAULT_GOAL := help
.PHONY: help setup packages build demo test e2e e2e-pod image soak chaos lint bench bench-ads golden clean

module  := github.com/pilotlight/pilotlight
scripts := envoy-tools/fetch-envoy envoy-tools/fetch-zipkin envoy-tools/image envoy-tools/packages envoy-tools/pod-init \
	$(wildcard envoy-tools/pod-init.d/*.sh) .ci/run

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z].*:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: packages bin/envoy bin/zipkin.jar ## fetch what building and testing needs: modules, tools, a C compiler for -race, Envoy, Zipkin
	go mod download
	go build tool

packages:
	@envoy-tools/packages

# Always asked: they know best whether there is something to do.
.PHONY: bin/envoy bin/zipkin.jar
bin/envoy:
	@envoy-tools/fetch-envoy
bin/zipkin.jar:
	@envoy-tools/fetch-zipkin

build: ## build bin/agent, bin/discovery, bin/bookinfo, bin/demo
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o bin/ ./cmd/... ./examples/...

demo: build bin/envoy ## run the bookinfo mesh on this machine until Ctrl-C; DEMO=-help for its flags
	@bin/demo $(DEMO)

test: setup build ## run every test, those with a real Envoy included
	CGO_ENABLED=1 go test -race -timeout 15m ./...

e2e: build bin/envoy bin/zipkin.jar ## run the tests with a real Envoy only
	go test -count=1 -timeout 15m ./e2e/...

image: bin/envoy ## build the images proxy and discovery into run/image; ARCH=arm64, INIT=no, ENGINE=docker|buildah
	@envoy-tools/image

# Root only: these tests make namespaces, mounts and control groups. The build tag keeps them out of every other run.
e2e-pod: bin/envoy ## run the tests of a pod, as root: redirection, two pods, images, process one, units; RUN=name of one
	@envoy-tools/packages pod
	go test -tags pod -count=1 -timeout 20m -v $(if $(RUN),-run '$(RUN)') ./e2e/pod

soak: build bin/envoy ## start and stop 200 times, hand over 200 times: nothing is left, memory stays flat
	go test -count=1 -timeout 15m -run 'TestSoak' -v ./e2e -soak 200

chaos: build bin/envoy ## two minutes of random blows under load; -chaos-seed reproduces a failure
	go test -count=1 -timeout 15m -run 'TestChaos' -v ./e2e -chaos 120

lint: ## vet, staticcheck, gofumpt, and shellcheck where it is installed
	go vet -tags pod ./...
	go tool staticcheck -tags pod ./...
	@unformatted=$$(go tool gofumpt -l .) && test -z "$$unformatted" || \
		{ echo "run go tool gofumpt -w on:" $$unformatted; exit 1; }
	@if command -v shellcheck >/dev/null; then shellcheck $(scripts); \
		else echo "shellcheck is not installed: scripts not checked"; fi

bench: build bin/envoy ## measure the agent against a bare Envoy, as a table of ratios
	go run ./e2e/bench

# BENCH holds further flags, such as "-services 5000 -proxies 200" or -growth; PROFILE=1 writes run/ads.*.pprof.
bench-ads: ## measure the ADS server beside a server that only sends captured bytes
	@mkdir -p run && go build -o run/adsbench ./e2e/adsbench
	run/adsbench -services 1000 -endpoints 10 -proxies 1000 -runs 3 -storm 60s $(if $(PROFILE),-profile run/ads.pprof) $(BENCH)

golden: ## rewrite the golden files; read the diff before committing it
	go test $$(grep -rl --include='*_test.go' '"$(module)/internal/golden"' . | xargs -n1 dirname | sort -u) -update

clean: ## remove what was built, fetched or logged
	rm -rf bin run
