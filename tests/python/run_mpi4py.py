#!/usr/bin/env python3
"""Runs modules of mpi4py's own test suite as mpi4py-modules.txt says.

    mpiexec -n N python run_mpi4py.py --src DIR --list FILE [--limit SECONDS] [--no-numpy] MODULE...

Methods that the list skips are reported as skipped with their reason, so that nothing is left out
silently. Rank 0 prints one line at the end:

    mpi4py: MODULE...: RUN run, SKIPPED skipped, BAD failed

where BAD counts failures and errors on any rank; every rank's failures go to its standard error at once. With
--limit a rank that hangs prints where it is and leaves.
"""

import argparse
import ast
import contextlib
import faulthandler
import fnmatch
import io
import os
import sys
import types
import unittest


def read_list(path):
    """Returns {module: (verdict, reason)} and [(pattern, reason)]."""
    modules, patterns = {}, []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            fields = line.split(maxsplit=2)
            if not fields or fields[0].startswith("#"):
                continue
            name, verdict = fields[0], fields[1] if len(fields) > 1 else ""
            reason = fields[2].strip() if len(fields) > 2 else ""
            if verdict == "skip" and not reason:
                sys.exit(f"{path}:{number}: {name} is skipped without a reason")
            if verdict not in ("run", "skip"):
                sys.exit(f"{path}:{number}: '{verdict}' is neither run nor skip")
            if "." in name:
                patterns.append((name, reason))
            elif name in modules:
                sys.exit(f"{path}:{number}: {name} is listed twice")
            else:
                modules[name] = (verdict, reason)
    return modules, patterns


def load(name, testdir):
    """Imports a test module.

    Its top level tries whether windows, files or sessions are there, and disables their tests on
    NotImplementedError, which mpi4py raises when the function is missing from the library. Ours has them
    all and raises MPI_ERR_UNSUPPORTED_OPERATION, so that those guards catch MPI.Exception as well here.
    """
    path = os.path.join(testdir, f"{name}.py")
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read(), path)
    for guard in tree.body:
        for handler in guard.handlers if isinstance(guard, ast.Try) else []:
            if isinstance(handler.type, ast.Name) and handler.type.id == "NotImplementedError":
                both = ast.parse("(NotImplementedError, MPI.Exception)", mode="eval").body
                for node in ast.walk(both):
                    ast.copy_location(node, handler.type)
                handler.type = both
    module = types.ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module
    exec(compile(tree, path, "exec"), module.__dict__)
    return unittest.defaultTestLoader.loadTestsFromModule(module)


def methods(suite):
    """All test cases of a suite, flat."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from methods(test)
        else:
            yield test


def marked(suite, patterns):
    """The suite, where methods that a pattern names are skipped with its reason."""
    result, used = unittest.TestSuite(), set()
    for test in methods(suite):
        for pattern, reason in patterns:
            if fnmatch.fnmatchcase(test.id(), pattern):
                used.add(pattern)
                # A class of its own, so that the class's other methods still run.
                cls = type(test)
                skipped = {
                    "__module__": cls.__module__,
                    "__qualname__": cls.__qualname__,
                    "__unittest_skip__": True,
                    "__unittest_skip_why__": reason,
                }
                test = type(cls.__name__, (cls,), skipped)(test._testMethodName)
                break
        result.addTest(test)
    return result, used


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--src", required=True, help="mpi4py's unpacked source, with test/ in it")
    parser.add_argument("--list", required=True)
    parser.add_argument("--limit", type=float, default=0)
    parser.add_argument("--no-numpy", action="store_true", help="as if numpy were not installed")
    parser.add_argument("modules", nargs="+")
    args = parser.parse_args()

    listed, patterns = read_list(args.list)
    for name in args.modules:
        if listed.get(name, ("",))[0] != "run":
            parser.error(f"{name} is not listed as run in {args.list}")
    testdir = os.path.abspath(os.path.join(args.src, "test"))
    sys.path.insert(0, testdir)
    # For the workers that tests spawn, which import the tests' modules.
    paths = [testdir, os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    os.chdir(testdir)
    absent = ["cupy", "numba"]  # as main.py does
    for name in absent + ["numpy"] * args.no_numpy:
        sys.modules[name] = None
    if args.limit:
        faulthandler.dump_traceback_later(args.limit, exit=True)

    from mpi4py import MPI

    comm = MPI.COMM_WORLD.Dup()
    rank, size = comm.Get_rank(), comm.Get_size()
    suite = unittest.TestSuite(load(name, testdir) for name in args.modules)
    suite, used = marked(suite, patterns)
    for pattern, _ in patterns:
        if pattern.split(".")[0] in args.modules and pattern not in used:
            sys.exit(f"{args.list}: {pattern} names no test")

    stream = io.StringIO()
    with contextlib.suppress(AttributeError):
        sys.stderr.reconfigure(line_buffering=True)
    runner = unittest.TextTestRunner(stream=stream, verbosity=2, resultclass=progress(rank))
    result = runner.run(suite)
    bad = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    total = comm.allreduce(bad)
    comm.Free()
    if rank == 0:
        for test, reason in result.skipped:
            print(f"skipped: {test}: {reason}")
        names = " ".join(args.modules)
        print(f"mpi4py: {names}: {result.testsRun} run, {len(result.skipped)} skipped, {total} failed")
    sys.stdout.flush()
    sys.exit(1 if total else 0)


def progress(rank):
    """A result class that reports a failure as it happens: a rank that fails alone calls other collectives
    than the others from there on, and all hang. It also notes the running test on rank 0, if asked to."""

    def report(test, trace):
        sys.stderr.write(f"{'=' * 70}\nrank {rank}: {test}\n{trace}\n")

    class Result(unittest.TextTestResult):
        def startTest(self, test):
            super().startTest(test)
            if rank == 0 and os.environ.get("MICA_MPI4PY_VERBOSE"):
                sys.stderr.write(f"{test.id()}\n")

        def addError(self, test, err):
            super().addError(test, err)
            report(*self.errors[-1])

        def addFailure(self, test, err):
            super().addFailure(test, err)
            report(*self.failures[-1])

        def addSubTest(self, test, subtest, err):
            super().addSubTest(test, subtest, err)
            if err is not None:
                failed = issubclass(err[0], test.failureException)
                report(*(self.failures if failed else self.errors)[-1])

        def addUnexpectedSuccess(self, test):
            super().addUnexpectedSuccess(test)
            report(test, "unexpected success")

    return Result


if __name__ == "__main__":
    main()
