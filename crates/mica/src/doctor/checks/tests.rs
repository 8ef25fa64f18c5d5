use super::Weight::{Fine, Hinders, Note};
use super::*;
use std::path::PathBuf;

/// A machine without any finding.
fn healthy() -> DoctorFacts {
    DoctorFacts {
        library: Some(PathBuf::from("/opt/lib/libmpi_abi.so.1")),
        in_path: [("ssh", PathBuf::from("/usr/bin/ssh"))].into(),
        proc_is_own: true,
        membarrier: true,
        cores: 4,
        units: 4,
        all_cores: 4,
        memory: Some(8 * GIB),
        fabric: Some("1.18".to_owned()),
        ..DoctorFacts::default()
    }
}

fn worst(facts: &DoctorFacts, check: &str) -> CheckFinding {
    let mut findings = all(facts);
    findings.retain(|finding| finding.check == check);
    let order = |finding: &CheckFinding| match finding.weight {
        Fine => 0,
        Note => 1,
        Hinders => 2,
    };
    findings.into_iter().max_by_key(order).expect("a check of this name")
}

#[test]
fn a_healthy_machine_is_well() {
    for finding in all(&healthy()) {
        assert_eq!(finding.weight, Fine, "{finding:?}");
    }
}

/// Each row: the changed fact, the check that reports it, its weight, and a word of the finding.
#[test]
fn each_trouble_is_found_with_a_remedy() {
    let text = |text: &str| Some(text.to_owned());
    type Row<'a> = (&'a dyn Fn(&mut DoctorFacts), &'a str, Weight, &'a str);
    let rows: &[Row<'_>] = &[
        (&|f| f.library = None, "installation", Hinders, "libmpi_abi"),
        (&|f| f.in_library_path = Some("/x/libmpi_abi.so.1".into()), "libraries", Hinders, "/x/"),
        (
            &|f| f.foreign_libraries = vec!["/x/libmpi.so.12".into()],
            "libraries",
            Note,
            "libmpi.so.12",
        ),
        (&|f| f.complaints = vec!["MICA_X: no".to_owned()], "variables", Hinders, "MICA_X"),
        (&|f| f.rank_variables = vec!["PMI_RANK".to_owned()], "variables", Hinders, "PMI_RANK"),
        (&|f| f.proc_is_own = false, "proc", Hinders, "/proc"),
        (&|f| f.memfd = text("EPERM"), "shared memory", Hinders, "memfd_create: EPERM"),
        (&|f| f.pidfd = text("ENOSYS"), "processes", Hinders, "pidfd_open: ENOSYS"),
        (
            &|f| f.cma = Some(("refused".to_owned(), "allow".to_owned())),
            "single copy",
            Hinders,
            "refused",
        ),
        (&|f| f.procmap_query = text("ENOTTY"), "mapped", Note, "PROCMAP_QUERY: ENOTTY"),
        (&|f| f.membarrier = false, "membarrier", Hinders, "membarrier"),
        (&|f| f.file_size = (Some(0), None), "file size", Hinders, "0 B"),
        (&|f| f.address_space = (Some(GIB), None), "address space", Hinders, "1 GiB"),
        (&|f| f.address_space = (Some(32 * GIB), None), "address space", Note, "32 GiB"),
        (&|f| f.descriptors = (Some(64), Some(64)), "descriptors", Hinders, "64 descriptors"),
        (&|f| f.descriptors = (Some(1024), Some(1024)), "descriptors", Note, "1024"),
        (&|f| f.processes = (Some(100), None), "user processes", Note, "100 processes"),
        (&|f| f.cpu_quota = Some(1.5), "cores", Note, "1.5 processors"),
        (&|f| f.all_cores = 8, "cores", Note, "4 of the machine's 8"),
        (&|f| f.units = 8, "cores", Note, "2 hardware threads"),
        (&|f| f.memory_limit = Some(64 * MIB), "memory", Hinders, "64 MiB"),
        (&|f| f.memory_limit = Some(4 * GIB), "memory", Note, "4 GiB"),
        (&|f| f.swap_used = Some(GIB), "memory", Note, "swapped out"),
        (&|f| f.huge_pages = text("never"), "huge pages", Note, "huge pages are off"),
        (&|f| f.unresolved = text("no"), "host name", Note, "no address"),
        (&|f| f.in_path.clear(), "several hosts", Note, "no ssh"),
        (&|f| f.fabric = None, "several hosts", Note, "no libfabric"),
        (&|f| f.fabric = text("1.11"), "several hosts", Note, "1.11 is old"),
        (&|f| f.network_error = text("nothing fits"), "several hosts", Note, "nothing fits"),
        (&|f| f.tuning_error = text("another machine's"), "tuning", Hinders, "another"),
        (&|f| f.foreign_tuning = vec!["/t/x.toml".into()], "tuning", Note, "/t/x.toml"),
    ];
    for (change, check, weight, word) in rows {
        let mut facts = healthy();
        change(&mut facts);
        let finding = worst(&facts, check);
        assert_eq!(finding.weight, *weight, "{finding:?}");
        assert!(finding.found.contains(word), "{word}: {finding:?}");
        assert!(finding.remedy.is_some() || *weight == Note, "{finding:?}");
    }
}

#[test]
fn locked_memory_counts_where_the_network_registers_buffers() {
    let mut facts = healthy();
    facts.locked_memory = (Some(64 << 10), None);
    facts.provider = Some("tcp on eth0".to_owned());
    assert_eq!(worst(&facts, "locked memory").weight, Fine);
    facts.provider = Some("verbs;ofi_rxm on ib0".to_owned());
    assert_eq!(worst(&facts, "locked memory").weight, Hinders);
}
