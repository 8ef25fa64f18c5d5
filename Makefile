# Mica. `make run` shows it at work on a fresh machine, `make test` runs every test and proof, `make check` the quick tests,
# `make proof` the models, and tests under interpreter, sanitizers and the other architecture, `make fuzz` the fuzz targets for long,
# `make install PREFIX=/opt/mica` installs it.

PREFIX ?= /usr/local

.PHONY: run test check proof fuzz install build setup

run:
	@sh scripts/run.sh

test:
	@sh scripts/test.sh

check:
	@sh scripts/check.sh

proof:
	@sh scripts/proof.sh

fuzz:
	@sh scripts/proof.sh fuzz

install:
	@sh scripts/install.sh "$(DESTDIR)$(PREFIX)"

build:
	@sh scripts/build.sh

setup:
	@sh scripts/setup.sh
