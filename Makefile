# Needs only Python >= 3.11, pip and make. Everything else is installed into .venv from uv.lock.
PYTHON ?= python3
BIN := .venv/bin
SYNCED := .venv/.synced
# Where this is set, every process of the tests would compile its modules anew, and pytest would rewrite every test.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: $(shell sed -nE 's/^([a-z-]+):.*/\1/p' Makefile)

help:            ## what can be made
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(SYNCED): pyproject.toml uv.lock
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv sync --quiet --locked --inexact --all-extras
	touch $@

demo: $(SYNCED)  ## one conversation through seven provider APIs, without a key
	$(BIN)/segue demo

chat: $(SYNCED)  ## talk to a small model in this very process: no key, no server (fetches 98 MB once; MODEL=qwen2.5-coder-1.5b: 1.1 GB, with tools)
	$(BIN)/segue models pull embedded/$(or $(MODEL),smollm2)
	$(BIN)/segue -m embedded/$(or $(MODEL),smollm2) $(if $(filter-out smollm2,$(MODEL)),-T all)

test: $(SYNCED)  ## all of check, and all tests
	$(MAKE) --no-print-directory --jobs 2 --output-sync check
	$(BIN)/pytest -q -n 4

quick: $(SYNCED) ## lint and the tests of the core, for every commit (under two minutes)
	$(MAKE) --no-print-directory lint
	$(BIN)/pytest -q -n 4 tests/conversation tests/transcript tests/dialects tests/routing tests/config tests/emulators

release: $(SYNCED) ## build the packages, check them in an environment of their own, and list what they need
	rm -rf dist build/release
	$(BIN)/uv build --quiet
	$(BIN)/uv tool run --quiet twine check --strict dist/*.whl dist/*.tar.gz
	$(BIN)/uv venv --quiet build/release
	$(BIN)/uv pip install --quiet --python build/release/bin/python dist/*.whl
	build/release/bin/segue --version
	build/release/bin/segue demo > /dev/null
	$(BIN)/uv export --quiet --locked --no-dev --all-extras --no-emit-project --format cyclonedx1.5 --output-file dist/sbom.cdx.json

check: lint types typing documents ## lint, types, import contracts, generated documents

lint: $(SYNCED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: $(SYNCED)
	$(BIN)/mypy

typing: $(SYNCED) # the public names, as users' type checkers see them
	$(BIN)/mypy --config-file tests/typing/mypy.ini tests/typing
	$(BIN)/pyright --project tests/typing --pythonpath $(BIN)/python

documents: $(SYNCED)
	$(BIN)/python -m scripts.schema
	$(BIN)/python -m scripts.requirements
	$(BIN)/python -m scripts.cli_schemas
	$(BIN)/python -m scripts.namespaces
	$(BIN)/python -m scripts.api_reference
	$(BIN)/python -m scripts.words

coverage: $(SYNCED) ## branch coverage of the core; fails under 95 %
	$(BIN)/coverage run -m pytest -q tests/conversation tests/transcript tests/laws
	$(BIN)/coverage report --include='src/segue/conversation/*,src/segue/transcript/*' --show-missing --fail-under=95

laws: $(SYNCED)  ## the laws with a hundred times as many examples and a fresh random seed (SEED=, EXAMPLES=)
	@seed=$(or $(SEED),$$($(BIN)/python -c "import secrets; print(secrets.randbelow(2**32))")); \
	echo "Random seed $$seed. Repeat this very run with: make laws SEED=$$seed EXAMPLES=$(or $(EXAMPLES),4000)"; \
	HYPOTHESIS_PROFILE=laws LAW_EXAMPLES=$(or $(EXAMPLES),4000) $(BIN)/pytest -q -n 2 --timeout 3600 \
		--hypothesis-seed=$$seed --hypothesis-show-statistics tests/laws

properties: $(SYNCED) ## every test of the suite that draws examples, with 200 fresh ones each (half an hour; SEED=, EXAMPLES=)
	@seed=$(or $(SEED),$$($(BIN)/python -c "import secrets; print(secrets.randbelow(2**32))")); \
	echo "Random seed $$seed. Repeat this very run with: make properties SEED=$$seed EXAMPLES=$(or $(EXAMPLES),200)"; \
	HYPOTHESIS_PROFILE=laws LAW_EXAMPLES=$(or $(EXAMPLES),200) nice -n 10 $(BIN)/pytest -q -n 2 --timeout 3600 \
		--hypothesis-seed=$$seed -m hypothesis

gateway-laws: $(SYNCED) ## any client's history through any door, and machines of turns, faults, switches and restarts (EXAMPLES=)
	HYPOTHESIS_PROFILE=laws LAW_EXAMPLES=$(or $(EXAMPLES),1000) nice -n 10 $(BIN)/pytest -q -n 2 --timeout 3600 \
		tests/gateway/test_laws.py tests/gateway/test_machine.py tests/gateway/test_ten_clients.py \
		tests/gateway/test_state_laws.py tests/gateway/test_ten_sequences.py

replies: $(SYNCED) ## every recorded reply on every wire, read by the official clients (minutes)
	SEGUE_REPLIES=1 $(BIN)/pytest -q -n 2 --timeout 3600 tests/replies

same-wire: $(SYNCED) ## every recorded request comes back on its own wire as it came, and is accepted on all others
	SEGUE_SAME_WIRE=1 $(BIN)/pytest -q -n 2 --timeout 600 tests/laws/test_same_wire.py

own-wire: $(SYNCED) ## recorded requests, broken: what we write for their own wire and for others is accepted there (CASES=, SEED=)
	@seed=$(or $(SEED),$$($(BIN)/python -c "import secrets; print(secrets.randbelow(2**32))")); \
	echo "Random seed $$seed. Repeat this very run with: make own-wire SEED=$$seed CASES=$(or $(CASES),2000)"; \
	SEGUE_OWN_WIRE=$(or $(CASES),2000) SEGUE_OWN_WIRE_SEED=$$seed \
	SEGUE_MUTATED_REQUESTS=$(or $(CASES),2000) SEGUE_MUTATION_SEED=$$seed nice -n 10 $(BIN)/pytest -q -n 2 --timeout 3600 \
		tests/laws/test_own_wire.py tests/gateway/test_own_wire.py tests/gateway/test_mutated_requests.py

recordings: $(SYNCED) ## how often the emulators agree with recorded traffic and captured clients, as a table
	PYTHONPATH=tests $(BIN)/python -m emulators.agreement

stories: $(SYNCED) ## the acceptance stories over all ordered pairs of models, two of every provider family, and the promises of all providers (minutes)
	SEGUE_STORIES=1 $(BIN)/pytest -q -n 2 --timeout 600 tests/stories/test_acceptance.py tests/stories/test_handoffs.py \
		tests/providers/test_conformance.py

mutants: $(SYNCED) ## 600 small changes of the core, one at a time: does a test notice? (an hour; SAMPLE=, SEED=)
	nice -n 15 $(BIN)/python -m scripts.mutants --sample $(or $(SAMPLE),600) $(if $(SEED),--seed $(SEED))

opinions: $(SYNCED) ## the chat templates of local servers render what we send; fetches them (77 MB)
	$(BIN)/uv sync --quiet --locked --inexact --all-extras --group opinions
	SEGUE_SECOND_OPINIONS=1 $(BIN)/pytest -q -n 2 tests/opinions

crash: $(SYNCED) ## kill chats and bare writers at 200 random moments per store, and resume each
	$(BIN)/python -m scripts.crash --kills 200

engines: $(SYNCED) ## kill workers of DBOS (SQLite, PostgreSQL) and of Restate, if its server is there, at 200 random moments each
	$(BIN)/python -m scripts.engine_crash --kills 200

restate-server: ## install the server of Restate for `make engines` and the tests, from the npm registry (216 MB, ~/.cache/segue-restate)
	npm install --no-audit --no-fund --prefix $(HOME)/.cache/segue-restate @restatedev/restate-server

batch-kills: $(SYNCED) ## kill runs of batches at 25 random moments per provider; every request is answered once (10 minutes)
	SEGUE_BATCH_KILLS=25 $(BIN)/pytest -q -s -n 0 tests/batch/test_kills.py -k random_moments

chaos: $(SYNCED) ## kill the gateway at 100 random moments of an agent's work; each next request succeeds
	$(BIN)/python -m scripts.gateway_crash --kills 100

frameworks: $(SYNCED) ## the integrations with the newest frameworks, in an environment of their own (~/.cache/segue-clients)
	$(BIN)/python -m scripts.frameworks

clients: $(SYNCED) ## real agents and frameworks, the newest ones, through the gateway (1.5 GB in ~/.cache/segue-clients)
	$(BIN)/python -m scripts.drift
	$(BIN)/python -m scripts.clients --write

stateful: $(SYNCED) ## the newest SDKs with threads, conversations, sockets, caches, interactions: to another model and back (minutes)
	$(BIN)/python -m scripts.clients.stateful

drift: $(SYNCED) ## what the newest SDKs of the providers know and our wires do not
	$(BIN)/python -m scripts.drift

sessions: $(SYNCED) ## faults planted in sessions of real agents, repaired by segue doctor --fix, and resumed by the agents (minutes)
	$(BIN)/python -m scripts.clients.broken_sessions

moves: $(SYNCED) ## sessions moved between all pairs of real agents and back (half an hour; writes the table of docs/move.md)
	$(BIN)/python -m scripts.clients.moved_sessions --write

crash-database: $(SYNCED) ## kill PostgreSQL itself at 200 random moments while four sessions are written
	$(BIN)/python -m scripts.database_crash --kills 200

nodes: $(SYNCED) ## 10,000 requests of 100 conversations spread over four gateways on one PostgreSQL, which are killed (half an hour)
	$(BIN)/python -m scripts.nodes --nodes 4 --requests 10000 --conversations 100 --pause 16

power: $(SYNCED) ## 200 power cuts per store: what was not synced is forgotten at random (needs gcc and Linux)
	PYTHONPATH=tests $(BIN)/python -m sessions.power_loss 200

attack: $(SYNCED) ## every test of the page about security
	$(BIN)/pytest -q -n 2 $$(grep -oE 'tests/[a-z_/]+\.py' docs/security.md | sort -u)

memory-curve: $(SYNCED) ## the memory of a gateway over 200,000 requests with growing histories, as a curve (half an hour; REQUESTS=)
	PYTHONPATH=tests $(BIN)/python -m gateway.memory_curve --requests $(or $(REQUESTS),200000)

soak: $(SYNCED) ## a gateway under load with faults, clients that leave and slow readers: nothing lost, nothing uncounted, memory flat (MINUTES=30 SHARE=0.8)
	PYTHONPATH=tests $(BIN)/python -m gateway.soak --minutes $(or $(MINUTES),30) --share $(or $(SHARE),0.8)

worker-kills: $(SYNCED) ## kill workers of a gateway 200 times while agents work through it (minutes; KILLS=)
	PYTHONPATH=tests $(BIN)/python -m gateway.worker_kills --kills $(or $(KILLS),200)

conversations: $(SYNCED) ## 10,000 conversations of one client of a gateway, each continued (minutes; COUNT=)
	PYTHONPATH=tests $(BIN)/python -m gateway.many_conversations --count $(or $(COUNT),10000)

key-timing: $(SYNCED) ## whether the time of a refusal tells something about keys: 40,000 wrong ones (a minute; REQUESTS=)
	PYTHONPATH=tests $(BIN)/python -m gateway.key_timing --requests $(or $(REQUESTS),40000)

fuzz: $(SYNCED)  ## hostile input for everything that reads some, for 10 minutes
	PYTHONPATH=tests $(BIN)/python -m fuzz.run --minutes 10

toolbench: $(SYNCED) ## 20 prompts for a real model with tools (fetches 1.1 GB once, takes minutes)
	$(BIN)/segue models pull --yes embedded/qwen2.5-coder-1.5b
	$(BIN)/python -m bench tools20

browser: $(SYNCED) ## the pages of the inspector in Chromium: axe-core, widths, light and dark; pictures in build/browser (needs npm)
	npm install --silent --no-audit --no-fund --no-save --prefix build/browser axe-core
	SEGUE_BROWSER=build/browser $(BIN)/pytest -q -n 0 --timeout 600 tests/inspector

cache-sessions: $(SYNCED) ## forecasts of providers' caches against the emulators in 200 random sessions; SESSIONS=, SEED=
	SESSIONS=$(or $(SESSIONS),200) SEED=$(or $(SEED),$(shell date +%s)) $(BIN)/pytest -q -n 0 --timeout 600 tests/gateway/prompt_caches

inspector-pictures: $(SYNCED) ## draw the pictures of the inspector in docs anew (needs Chromium)
	$(BIN)/python -m scripts.inspector_pictures

bench-inspector: $(SYNCED) ## what the inspector adds to a request of the gateway (minutes)
	$(BIN)/python -m bench inspector

bench-gateway: $(SYNCED) ## the gateway against the bare stack, with LiteLLM beside it if that is in PATH (Linux, minutes)
	$(BIN)/python -m bench gateway

bench-callers: $(SYNCED) ## what limits, budgets, PostgreSQL and telemetry add to a request of the gateway (minutes)
	$(BIN)/python -m bench callers shared_limits

bench: $(SYNCED) ## speed, as ratios inside one run
	$(BIN)/python -m bench

docs: $(SYNCED)  ## write the generated documents anew
	$(BIN)/python -m scripts.schema --write
	$(BIN)/python -m scripts.requirements --write
	$(BIN)/python -m scripts.cli_schemas --write
	$(BIN)/python -m scripts.namespaces --write
	$(BIN)/python -m scripts.api_reference --write
	$(BIN)/python -m scripts.emulator_rules --write
	$(BIN)/python -m scripts.broken_requests --write
	$(BIN)/python -m scripts.provider_table --write

site: $(SYNCED)   ## the documentation as a site, in build/site
	$(BIN)/uv sync --quiet --locked --inexact --all-extras --group site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

pictures: $(SYNCED) ## draw the terminal pictures in docs anew
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m scripts.picture docs/pictures/*.toml

format: $(SYNCED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv dist build
