//! Categories: `mica` with one subcategory for each subject, which has the control variables, the
//! performance variables and the events of that subject. They never change.

use super::declaration::EVENTS;
use super::error::{ToolInterfaceError, ToolResult};
use super::pvar::{pvar_info, pvars};
use super::table::require;
use mica_node::counters::CounterGroup;
use mica_node::tunables;

/// A category.
#[derive(Debug, Clone, Copy)]
pub struct Category {
    /// Its name.
    pub name: &'static str,
    /// One sentence.
    pub description: &'static str,
    group: Option<CounterGroup>,
}

/// What a category contains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CategoryMembers {
    /// Indices of control variables.
    pub cvars: Vec<i32>,
    /// Indices of performance variables.
    pub pvars: Vec<i32>,
    /// Indices of events.
    pub events: Vec<i32>,
    /// Indices of subcategories.
    pub categories: Vec<i32>,
}

const fn part(name: &'static str, group: CounterGroup, description: &'static str) -> Category {
    Category { name, description, group: Some(group) }
}

const ALL: [Category; 9] = [
    Category { name: "mica", description: "Everything, by subject.", group: None },
    part("mica_paths", CounterGroup::Paths, "How messages move, and by which path."),
    part("mica_levels", CounterGroup::Levels, "How far messages go, and how long they are."),
    part("mica_waits", CounterGroup::Waits, "How ranks wait, and for what."),
    part(
        "mica_collectives",
        CounterGroup::Collectives,
        "Collectives, their algorithms, and who comes late.",
    ),
    part("mica_matching", CounterGroup::Matching, "Messages without a receive, and their senders."),
    part("mica_windows", CounterGroup::Windows, "One-sided communication."),
    part("mica_files", CounterGroup::Files, "Files, and how they are accessed."),
    part("mica_network", CounterGroup::Network, "The network between nodes."),
];

/// The subject of a tunable: the first whose prefix its name has, else the paths of messages.
fn group_of(tunable: &str) -> CounterGroup {
    const PREFIXES: [(&str, CounterGroup); 15] = [
        ("coll", CounterGroup::Collectives),
        ("late", CounterGroup::Collectives),
        ("window", CounterGroup::Windows),
        ("io", CounterGroup::Files),
        ("net", CounterGroup::Network),
        ("pmi", CounterGroup::Network),
        ("foreign_mpi", CounterGroup::Network),
        ("virtual_nodes", CounterGroup::Levels),
        ("unexpected", CounterGroup::Matching),
        ("skew", CounterGroup::Matching),
        ("spin", CounterGroup::Waits),
        ("yields", CounterGroup::Waits),
        ("poll", CounterGroup::Waits),
        ("progress", CounterGroup::Waits),
        ("fencing", CounterGroup::Waits),
    ];
    let found = PREFIXES.iter().find(|(prefix, _)| tunable.starts_with(prefix));
    found.map_or(CounterGroup::Paths, |(_, group)| *group)
}

/// Number of categories.
pub const fn categories() -> usize {
    ALL.len()
}

/// The category of this index.
///
/// # Errors
/// When there is none.
pub fn category(index: i32) -> ToolResult<&'static Category> {
    require()?;
    let at = usize::try_from(index).map_err(|_| ToolInterfaceError::InvalidIndex)?;
    ALL.get(at).ok_or(ToolInterfaceError::InvalidIndex)
}

/// What the category of this index contains.
///
/// # Errors
/// When there is none.
pub fn category_members(index: i32) -> ToolResult<CategoryMembers> {
    let Some(group) = category(index)?.group else {
        return Ok(CategoryMembers {
            categories: (1..ALL.len() as i32).collect(),
            ..CategoryMembers::default()
        });
    };
    let mut members = CategoryMembers::default();
    for (index, tunable) in (0..).zip(tunables::all()) {
        if group_of(tunable.name) == group {
            members.cvars.push(index);
        }
    }
    for index in 0..pvars() as i32 {
        if pvar_info(index)?.group == group {
            members.pvars.push(index);
        }
    }
    for (index, event) in (0..).zip(&EVENTS) {
        if event.group == group {
            members.events.push(index);
        }
    }
    Ok(members)
}

/// The index of the category of this name.
///
/// # Errors
/// When there is none.
pub fn category_index(name: &str) -> ToolResult<i32> {
    require()?;
    let at = ALL.iter().position(|category| category.name == name);
    at.map(|at| at as i32).ok_or(ToolInterfaceError::InvalidName)
}
