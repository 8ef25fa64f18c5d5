# Mica. `make run` shows it at work on a fresh machine, `make test` runs every test,
# `make install PREFIX=/opt/mica` installs it.

PREFIX ?= /usr/local

.PHONY: run test install build setup

run:
	@sh scripts/run.sh

test:
	@sh scripts/test.sh

install:
	@sh scripts/install.sh "$(DESTDIR)$(PREFIX)"

build:
	@sh scripts/build.sh

setup:
	@sh scripts/setup.sh
