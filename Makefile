# Shorthands; scripts/test is the one command that checks everything.

.PHONY: run test generate acceptance bench microbench cover fuzz torture

run: ## serve on http://127.0.0.1:8080 with the offline model or, with OPENAI_API_KEY, the real one
	go run ./cmd/aptix serve

test: ## every check and every test
	bash scripts/test

generate: ## code that is made from other files, such as the queries of the store
	go generate ./...

acceptance: ## bring docs/acceptance.md up to date with the tests
	go test ./internal/acceptance -run '^TestAcceptance$$' -update

bench: ## what a turn costs, beside a call of the model and the least a server can add
	go run ./bench

microbench: ## benchmarks of every package
	go test -run '^$$' -bench . -benchmem ./...

cover: ## what the tests execute, as a page: bin/cover.html
	mkdir -p bin
	go test -coverpkg=./... -coverprofile=bin/cover.out ./...
	go tool cover -html=bin/cover.out -o bin/cover.html
	go tool cover -func=bin/cover.out | tail -1

fuzz: ## each of the fuzz targets FOR a time, 60s by default
	bash scripts/fuzz $(or $(FOR),60s)

torture: ## the model of the server over 100,000 commands; streams cut after every byte; thousands of killed processes, CYCLES at random times and HITS at every place; three nodes in trouble FOR a time, FAILOVERS of their database; a SOAK
	go test ./internal/pipeline -count=1 -timeout=1h -v -run 'TestModel$$' -rapid.checks=1700 -rapid.steps=60
	go test ./internal/server -count=1 -timeout=1h -v -run TestStream_CutAfterEveryByte -cut.stride=1
	APTIX_TORTURE=1 go test ./internal/store/sqlite -count=1 -timeout=1h -v -run FailingDisk
	APTIX_TORTURE_STREAMS=1 go test ./internal/streams -count=1 -timeout=1h -v
	go test ./internal/torture -count=1 -timeout=6h -v -torture.cycles=$(or $(CYCLES),2000) -torture.hits=$(or $(HITS),50) \
		-torture.for=$(or $(FOR),10m) -torture.failovers=$(or $(FAILOVERS),100) -torture.outage=1m -torture.restarts=30 -torture.soak=$(or $(SOAK),10m)
