//! The tables that `MICA_STATS=table` makes mpiexec print: how many messages and operations went by
//! which path.

use std::collections::BTreeMap;

use crate::Outcome;

/// The messages of a job by path, and its one-sided operations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traffic(BTreeMap<String, u64>);

/// Begins the table's first line, and follows all rows.
const FIRST: &str = "mpiexec: what ";
/// Begin the heads of the tables that follow it, and what may be said below them.
const HEADS: [&str; 6] = [
    "mpiexec: messages by distance",
    "mpiexec: one-sided operations",
    "mpiexec: files",
    "mpiexec: waits",
    "mpiexec: shared areas of communicators have ",
    FIRST,
];
/// Begins each row.
const ROW: &str = "mpiexec:   ";

impl Traffic {
    /// Reads the tables in a job's standard error; `None` if there are none.
    pub fn read(stderr: &str) -> Option<Self> {
        // Of the job, and of each one that it has spawned.
        let tables = stderr.split(FIRST).skip(1);
        tables.map(Self::read_one).reduce(|mut sum, table| {
            for (path, count) in table.0 {
                *sum.0.entry(path).or_default() += count;
            }
            sum
        })
    }

    fn read_one(table: &str) -> Self {
        let rows = table.lines().filter_map(|line| {
            let mut words = line.strip_prefix(ROW)?.split_whitespace();
            Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
        });
        // A row of another table with a path's name would come later.
        let mut paths = BTreeMap::new();
        for (path, count) in rows {
            paths.entry(path).or_insert(count);
        }
        Self(paths)
    }

    /// The messages or operations that went by `path`; no row means none.
    pub fn by(&self, path: &str) -> u64 {
        self.0.get(path).copied().unwrap_or(0)
    }

    /// Those that went by any of these paths.
    pub fn by_any(&self, paths: &[&str]) -> u64 {
        paths.iter().map(|path| self.by(path)).sum()
    }

    /// The tables of a job that must have printed them.
    ///
    /// # Panics
    /// If it has not.
    pub fn of(outcome: &Outcome) -> Self {
        Self::read(&outcome.stderr).unwrap_or_else(|| panic!("no table:\n{}", outcome.report()))
    }
}

/// What else than the tables is in a job's standard error.
pub fn without_table(stderr: &str) -> String {
    let is_heading = |line: &str| {
        let number = line.strip_prefix("mpiexec: spawned job ");
        number.and_then(|rest| rest.strip_suffix(':')).is_some_and(|n| n.parse::<u32>().is_ok())
    };
    let is_table = |line: &str| {
        line.starts_with(ROW) || HEADS.iter().any(|head| line.starts_with(head)) || is_heading(line)
    };
    stderr.lines().filter(|line| !is_table(line)).map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
mpiexec: what 2 ranks sent
mpiexec:   channel     messages           bytes   share  path
mpiexec:   inline           120            4096    1.0%  shared memory, in the ring's slot
mpiexec:   direct             7          409600   99.0%  single copy by the kernel
mpiexec: one-sided operations
mpiexec:   access    operations           bytes          path
mpiexec:   memory             3              24          by loads and stores
";

    #[test]
    fn reads_messages_and_operations_by_path() {
        let traffic = Traffic::read(TABLE).expect("a table");
        assert_eq!((traffic.by("inline"), traffic.by("direct"), traffic.by("net")), (120, 7, 0));
        assert_eq!(traffic.by_any(&["direct", "memory"]), 10);
        assert_eq!(Traffic::read("mpiexec:   inline 3\n"), None);
    }

    #[test]
    fn tables_of_spawned_jobs_are_added_and_are_tables() {
        let said = format!("mpiexec: spawned job 1:\n{TABLE}{TABLE}mpiexec: spawned job 1: x\n");
        let traffic = Traffic::read(&said).expect("two tables");
        assert_eq!((traffic.by("inline"), traffic.by("memory")), (240, 6));
        assert_eq!(without_table(&said), "mpiexec: spawned job 1: x\n");
    }

    #[test]
    fn what_is_no_table_remains() {
        let said = format!("warning: x\n{TABLE}mpiexec: rank 1 was killed\n");
        assert_eq!(without_table(&said), "warning: x\nmpiexec: rank 1 was killed\n");
    }
}
