# The packages to test, and more flags for go test: make test PKG=./postgres/... ARGS='-run Takeover -count=3'
PKG ?= ./...
ARGS ?=
# Two packages at a time: the servers need a core as well, and timing under overload finds no faults of ours.
PARALLEL ?= 2
TIMEOUT ?= 15m
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: help deps test check lint bench

help: ## say what there is to make
	@sed -n 's/^\([a-z]*\):[^#]*## /\1|/p' $(MAKEFILE_LIST) | while IFS='|' read -r t d; do printf '  make %-8s %s\n' "$$t" "$$d"; done

deps: ## install the database servers that the tests need (Debian and Ubuntu, else Docker)
	@sh internal/testenv/install/deps.sh

test: deps check ## run all tests with the race detector on real servers; with CI=true a skip is a failure
	@eval "$$(sh internal/testenv/install/containers.sh)"; \
	go run ./internal/testenv/cmd/fencetest -race -p $(PARALLEL) -timeout $(TIMEOUT) $(ARGS) $(PKG)

check: ## gofmt and go vet
	@unformatted="$$(gofmt -l .)"; [ -z "$$unformatted" ] || { echo "gofmt -w is needed for:"; echo "$$unformatted"; exit 1; }
	@go vet ./... && cd bench && go vet ./...

lint: check ## gofmt, go vet and staticcheck
	@go run $(STATICCHECK) -version >/dev/null 2>&1 || { echo "!!! staticcheck cannot be fetched: NOT RUN"; exit 0; } && go run $(STATICCHECK) ./...

bench: ## time every operation against the raw statement that it cannot do without
	@cd bench && go test -run '^$$' -bench . -benchtime 100x -timeout 60m $(ARGS) ./...
