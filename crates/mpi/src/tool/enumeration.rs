//! Enumerations: the words of tunables that take one of several, the states of a rank, the paths of
//! messages, and the names of the elements of each event.

use super::declaration::EVENTS;
use super::error::{ToolInterfaceError, ToolResult};
use super::table::require;
use mica_node::tunables::{self, Tunable, TunableKind};
use mica_policy::MessagePath;
use std::sync::OnceLock;

/// An enumeration: its items have the values 0, 1, ...
#[derive(Debug)]
pub struct Enumeration {
    /// Its name.
    pub name: String,
    /// The names of its items.
    pub items: Vec<&'static str>,
}

/// The states in which a rank can be found, by `mica_node::segment::WaitKind`; 0: it does not
/// sleep.
pub(super) const RANK_STATES: [&str; 7] =
    ["running", "send", "receive", "probe", "requests", "collective", "window"];

/// Name of the enumeration of [`RANK_STATES`].
pub(super) const RANK_STATE: &str = "mica_rank_state";

/// Value of the first handle.
const FIRST: u32 = 0x100;

fn all() -> &'static [Enumeration] {
    static ALL: OnceLock<Vec<Enumeration>> = OnceLock::new();
    ALL.get_or_init(|| {
        let words = tunables::all().iter().filter_map(|t| match t.kind {
            TunableKind::Choice(words) => {
                Some(Enumeration { name: name_of(t), items: words.to_vec() })
            }
            _ => None,
        });
        let fixed = [
            Enumeration { name: RANK_STATE.to_owned(), items: RANK_STATES.to_vec() },
            Enumeration {
                name: "mica_message_path".to_owned(),
                items: MessagePath::ALL.map(MessagePath::name).to_vec(),
            },
        ];
        let elements = EVENTS.iter().map(|event| Enumeration {
            name: format!("{}_elements", event.name),
            items: event.elements.iter().map(|(name, _)| *name).collect(),
        });
        words.chain(fixed).chain(elements).collect()
    })
}

/// The name of a tunable's variable.
pub(super) fn name_of(tunable: &Tunable) -> String {
    format!("mica_{}", tunable.name)
}

/// The handle of the enumeration of this name.
pub(super) fn handle(name: &str) -> Option<u32> {
    let at = all().iter().position(|e| e.name == name)?;
    Some(FIRST + at as u32)
}

/// The enumeration that a handle names.
///
/// # Errors
/// When it names none.
pub fn enumeration(handle: u32) -> ToolResult<&'static Enumeration> {
    require()?;
    let at = handle.checked_sub(FIRST).ok_or(ToolInterfaceError::InvalidHandle)?;
    all().get(at as usize).ok_or(ToolInterfaceError::InvalidHandle)
}

impl Enumeration {
    /// The name of an item.
    ///
    /// # Errors
    /// When there is none of this index.
    pub fn item(&self, index: i32) -> ToolResult<&'static str> {
        let at = usize::try_from(index).map_err(|_| ToolInterfaceError::InvalidIndex)?;
        self.items.get(at).copied().ok_or(ToolInterfaceError::InvalidIndex)
    }
}
