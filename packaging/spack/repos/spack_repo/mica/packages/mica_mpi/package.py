# SPDX-License-Identifier: MIT OR Apache-2.0

import os

from spack_repo.builtin.build_systems.makefile import MakefilePackage

from spack.package import *


class MicaMpi(MakefilePackage):
    """MPI library for nodes with many cores, with the standard ABI of MPI 5.0.

    There are no dynamic processes yet: packages that need these have to take another MPI.
    """

    # Mica has no public address yet. The archive is made in its source tree, and lies where spack
    # is called:
    # git archive --prefix=mica-0.1.0/ -o mica-0.1.0.tar.gz HEAD
    homepage = "https://example.org/mica"
    url = f"file://{os.getcwd()}/mica-0.1.0.tar.gz"
    manual_download = True

    license("MIT OR Apache-2.0")

    # Without a checksum, since the archive is not published: spack install --no-checksum.
    version("0.1.0")

    variant("libfabric", default=True, description="Jobs over several nodes by Spack's libfabric")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("rust@1.95:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("hwloc@2")
    # Loaded when a job needs a network.
    depends_on("libfabric@1.16:", type="run", when="+libfabric")

    provides("mpi@:5.0")
    provides("mpi-abi")

    def build(self, spec, prefix):
        # `make install` builds.
        pass

    def install(self, spec, prefix):
        make("install", f"PREFIX={prefix}", parallel=False)

    def setup_build_environment(self, env: EnvironmentModifications) -> None:
        env.set("CARGO_HOME", join_path(self.stage.path, "cargo"))

    def setup_run_environment(self, env: EnvironmentModifications) -> None:
        env.set("MPICC", self.prefix.bin.mpicc)
        env.set("MPICXX", self.prefix.bin.mpicxx)
        for name in ("MPIFC", "MPIF90", "MPIF77"):
            env.set(name, self.prefix.bin.mpifort)
        if self.spec.satisfies("+libfabric"):
            library = self.spec["libfabric"].prefix.lib.join("libfabric.so.1")
            env.set("MICA_NET_LIBRARY", library)

    def setup_dependent_build_environment(
        self, env: EnvironmentModifications, dependent_spec: Spec
    ) -> None:
        self.setup_run_environment(env)
        # The wrappers run what Spack compiles the dependent package with.
        module = dependent_spec.package.module
        for variable, attribute in (
            ("MICA_CC", "spack_cc"),
            ("MICA_CXX", "spack_cxx"),
            ("MICA_FC", "spack_fc"),
        ):
            if hasattr(module, attribute):
                env.set(variable, getattr(module, attribute))

    def setup_dependent_package(self, module, dependent_spec):
        self.spec.mpicc = self.prefix.bin.mpicc
        self.spec.mpicxx = self.prefix.bin.mpicxx
        self.spec.mpifc = self.prefix.bin.mpifort
        self.spec.mpif77 = self.prefix.bin.mpifort

    @property
    def libs(self):
        return find_libraries(["libmpifort_abi", "libmpi_abi"], root=self.prefix.lib)

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_install(self):
        with working_dir(self.stage.path):
            hello = join_path(self.prefix.share.mica.examples, "hello.c")
            Executable(self.prefix.bin.mpicc)("-o", "hello", hello)
            Executable(self.prefix.bin.mpiexec)("-n", "4", "./hello")
