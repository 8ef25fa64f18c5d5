# Mica.
#
#   make run        shows it at work on a fresh machine: sets up, builds, runs mpi4py and a heat equation
#   make test       lints, every test, and the proofs that the changes since the last full run need (FULL=1: all proofs)
#   make lint       what needs no build of the library
#   make check      the quick tests
#   make proof      all proofs (SINCE=REV: those that the changes since REV need)
#   make fuzz       the fuzz targets for long
#   make experiments  the thesis's simulated experiments (NAME=fft: one; QUICK=1: fewer points; docs/sim.md)
#   make install    PREFIX=/opt/mica (DEBUG=1: with line tables for debuggers; DESTDIR=DIR: below DIR, for who makes packages)
#   make uninstall  PREFIX=/opt/mica takes it back
#   make deb        Debian packages of it (make deb-test tries them; docs/packages.md)
#   make wheel      a package for Python's pip (ARCH=aarch64: for that; make wheel-test tries them; docs/wheel.md)
#   make setup      gets what all of these need
#
# MICA_BUILD=DIR builds in DIR, for a source tree that cannot be written to.

PREFIX ?= /usr/local

.PHONY: run test lint check proof fuzz experiments install uninstall deb deb-test wheel wheel-test build setup

run:
	@sh scripts/run.sh

test:
	@FULL=$(FULL) sh scripts/contained.sh sh scripts/test.sh

lint:
	@sh scripts/lint.sh

check:
	@sh scripts/contained.sh sh scripts/check.sh

proof:
	@sh scripts/contained.sh sh scripts/proof.sh $(if $(SINCE),$$(sh scripts/proof.sh since $(SINCE)))

fuzz:
	@sh scripts/proof.sh fuzz

experiments:
	@sh scripts/experiments.sh $(or $(NAME),all) $(if $(QUICK),--quick)

install:
	@DESTDIR="$(DESTDIR)" DEBUG="$(DEBUG)" sh scripts/install.sh "$(PREFIX)" $(if $(BUILT),built)

uninstall:
	@DESTDIR="$(DESTDIR)" sh scripts/uninstall.sh "$(PREFIX)"

deb:
	@sh scripts/deb.sh

deb-test:
	@sh scripts/bare_root.sh packaging/tests/debs.sh

wheel:
	@sh scripts/wheel.sh $(ARCH)

wheel-test:
	@sh scripts/wheel_test.sh

build:
	@sh scripts/build.sh

setup:
	@sh scripts/setup.sh
