//! Performance variables: the counters (`mica_node::counters`) of this rank, and the state in which
//! it sleeps.
//!
//! What counts or sums is not continuous: each handle begins stopped, at 0, and counts what happens
//! while it is started, so that sessions do not disturb one another; it may be written and reset.
//! What has a value at this moment (level, high watermark, state) is continuous and read-only.
//! Values are those of the job segment; [`object`](super::object) has those of communicators and
//! windows. Before the library has started, everything reads as 0.

use super::cvar::ValueType;
use super::enumeration::{RANK_STATE, handle as enumeration_handle};
use super::error::{ToolInterfaceError, ToolResult};
use super::object::{BoundObject, OBJECT_VARIABLES, ObjectKind, ObjectVariable};
use super::table::{PvarHandle, ToolObjects, require, with};
use super::wanted::update_wanted;
use crate::constants as c;
use crate::process;
use mica_node::counters::{ALL, CounterClass, CounterDeclaration, CounterGroup};

/// What `MPI_T_pvar_get_info` returns.
#[derive(Debug)]
pub struct PvarInfo {
    /// Its name.
    pub name: String,
    /// Where it is listed.
    pub group: CounterGroup,
    /// Its class.
    pub class: i32,
    /// The type of its values.
    pub value_type: ValueType,
    /// Number of its values.
    pub elements: usize,
    /// Handle of its enumeration, or `MPI_T_ENUM_NULL`.
    pub enumeration: u32,
    /// One sentence.
    pub description: &'static str,
    /// It always runs, and can be neither written nor reset.
    pub continuous: bool,
    /// What a handle is bound to.
    pub bound_to: ObjectKind,
}

/// Number of performance variables.
pub const fn pvars() -> usize {
    ALL.len() + 1 + OBJECT_VARIABLES.len()
}

/// The name of a counter's variable.
fn name_of(counter: &CounterDeclaration) -> String {
    format!("mica_{}", counter.name)
}

/// Describes a variable.
///
/// # Errors
/// When there is none of this index.
pub fn pvar_info(index: i32) -> ToolResult<PvarInfo> {
    require()?;
    info_of(checked(index)?)
}

fn checked(index: i32) -> ToolResult<usize> {
    let index = usize::try_from(index).map_err(|_| ToolInterfaceError::InvalidIndex)?;
    if index < pvars() { Ok(index) } else { Err(ToolInterfaceError::InvalidIndex) }
}

/// The declaration of a variable that is bound to an object.
fn object_variable(index: usize) -> Option<&'static ObjectVariable> {
    static VARIABLES: [ObjectVariable; OBJECT_VARIABLES.len()] = OBJECT_VARIABLES;
    VARIABLES.get(index.checked_sub(ALL.len() + 1)?)
}

fn info_of(index: usize) -> ToolResult<PvarInfo> {
    if let Some(bound) = object_variable(index) {
        return Ok(PvarInfo {
            name: bound.name.to_owned(),
            group: bound.group(),
            class: bound.class,
            value_type: ValueType::Unsigned,
            elements: 1,
            enumeration: c::T_ENUM_NULL,
            description: bound.description,
            continuous: bound.is_continuous(),
            bound_to: bound.kind(),
        });
    }
    let Some(counter) = ALL.get(index) else {
        return Ok(PvarInfo {
            name: RANK_STATE.to_owned(),
            group: CounterGroup::Waits,
            class: c::T_PVAR_CLASS_STATE,
            value_type: ValueType::Int,
            elements: 1,
            enumeration: enumeration_handle(RANK_STATE).unwrap_or(c::T_ENUM_NULL),
            description: "What a thread of this rank sleeps in, if one does.",
            continuous: true,
            bound_to: ObjectKind::None,
        });
    };
    let (class, continuous) = match counter.class {
        CounterClass::Count => (c::T_PVAR_CLASS_COUNTER, false),
        CounterClass::Sum => (c::T_PVAR_CLASS_AGGREGATE, false),
        CounterClass::Nanoseconds => (c::T_PVAR_CLASS_TIMER, false),
        CounterClass::Current => (c::T_PVAR_CLASS_LEVEL, true),
        CounterClass::Largest => (c::T_PVAR_CLASS_HIGHWATERMARK, true),
    };
    Ok(PvarInfo {
        name: name_of(counter),
        group: counter.group,
        class,
        value_type: ValueType::Unsigned,
        elements: counter.elements,
        enumeration: c::T_ENUM_NULL,
        description: counter.description,
        continuous,
        bound_to: ObjectKind::None,
    })
}

/// This rank's values of a variable of the process at this moment.
fn values_now(index: usize) -> Vec<u64> {
    let engine = process::started_engine();
    match ALL.get(index) {
        None => vec![engine.and_then(|e| e.parked_in()).map_or(0, |kind| kind as u64)],
        Some(counter) => {
            let range = counter.first..counter.first + counter.elements;
            match engine {
                Some(engine) => engine.live_counters().snapshot().values()[range].to_vec(),
                None => vec![0; counter.elements],
            }
        }
    }
}

impl PvarHandle {
    fn is_continuous(&self) -> bool {
        if let Some(bound) = object_variable(self.index) {
            return bound.is_continuous();
        }
        match ALL.get(self.index) {
            None => true,
            Some(counter) => {
                matches!(counter.class, CounterClass::Current | CounterClass::Largest)
            }
        }
    }

    fn values_now(&self) -> Vec<u64> {
        match &self.object {
            BoundObject::None => values_now(self.index),
            object => vec![object.value()],
        }
    }

    fn values(&self) -> Vec<u64> {
        if self.is_continuous() {
            return self.values_now();
        }
        let Some(since) = &self.since else {
            return self.counted.clone();
        };
        let now = self.values_now();
        let spent = now.iter().zip(since).map(|(now, since)| now.wrapping_sub(*since));
        let counted = spent.zip(&self.counted);
        counted.map(|(spent, counted)| counted.wrapping_add(spent)).collect()
    }

    fn start(&mut self) {
        if self.since.is_none() {
            self.since = Some(self.values_now());
        }
    }

    fn stop(&mut self) {
        self.counted = self.values();
        self.since = None;
    }

    fn write(&mut self, values: Vec<u64>) {
        self.counted = values;
        if self.since.is_some() {
            self.since = Some(self.values_now());
        }
    }

    fn reset(&mut self) {
        self.write(vec![0; self.counted.len()]);
    }
}

/// Which handles of a session a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chosen {
    One(u32),
    All,
}

impl ToolObjects {
    /// The index of the variable of this name and class.
    ///
    /// # Errors
    /// When there is none.
    pub fn pvar_index(name: &str, class: i32) -> ToolResult<i32> {
        require()?;
        for index in 0..pvars() {
            let info = info_of(index)?;
            if info.name == name && info.class == class {
                return Ok(index as i32);
            }
        }
        Err(ToolInterfaceError::InvalidName)
    }

    /// Opens a session.
    ///
    /// # Errors
    /// When no number is left.
    pub fn open_session() -> ToolResult<u32> {
        with(|tool| {
            let session = tool.number().map_err(|_| ToolInterfaceError::InvalidSession)?;
            tool.sessions.push(session);
            Ok(session)
        })
    }

    /// Closes a session, and frees its handles.
    ///
    /// # Errors
    /// When there is no such session.
    pub fn close_session(session: u32) -> ToolResult<()> {
        with(|tool| {
            tool.check_session(session)?;
            tool.sessions.retain(|&open| open != session);
            tool.pvar_handles.retain(|_, handle| handle.session != session);
            Ok(())
        })?;
        update_wanted();
        Ok(())
    }

    /// Allocates a handle in a session; returns it with the number of elements. `object` names the
    /// object of a bound variable.
    ///
    /// # Errors
    /// When there is no such session, variable or object, or no handle is left.
    pub fn pvar_handle(
        session: u32,
        index: i32,
        object: impl FnOnce(ObjectKind) -> ToolResult<u32>,
    ) -> ToolResult<(u32, i32)> {
        with(|tool| tool.check_session(session))?;
        let index = checked(index)?;
        let info = info_of(index)?;
        let object = match object_variable(index) {
            None => BoundObject::None,
            Some(bound) => bound.bind(object(info.bound_to)?)?,
        };
        let is_comm = info.bound_to == ObjectKind::Comm;
        let elements = info.elements;
        let allocated = with(|tool| {
            tool.check_session(session)?;
            let handle = tool.number()?;
            let state =
                PvarHandle { session, index, object, counted: vec![0; elements], since: None };
            tool.pvar_handles.insert(handle, state);
            Ok((handle, elements as i32))
        })?;
        if is_comm {
            update_wanted();
        }
        Ok(allocated)
    }

    /// Frees a handle.
    ///
    /// # Errors
    /// When there is no such handle in the session.
    pub fn free_pvar_handle(session: u32, handle: u32) -> ToolResult<()> {
        with(|tool| {
            tool.pvar(session, handle)?;
            tool.pvar_handles.remove(&handle);
            Ok(())
        })?;
        update_wanted();
        Ok(())
    }

    /// Starts a handle, or all of the session that can be started.
    ///
    /// # Errors
    /// When there is no such handle in the session, or it always runs.
    pub fn start_pvar(session: u32, handle: u32) -> ToolResult<()> {
        for_chosen(session, handle, ToolInterfaceError::NoStartStop, PvarHandle::start)
    }

    /// Stops a handle, or all of the session that can be stopped.
    ///
    /// # Errors
    /// As for [`start_pvar`](Self::start_pvar).
    pub fn stop_pvar(session: u32, handle: u32) -> ToolResult<()> {
        for_chosen(session, handle, ToolInterfaceError::NoStartStop, PvarHandle::stop)
    }

    /// Resets a handle, or all of the session that can be reset.
    ///
    /// # Errors
    /// When there is no such handle in the session, or it is read-only.
    pub fn reset_pvar(session: u32, handle: u32) -> ToolResult<()> {
        for_chosen(session, handle, ToolInterfaceError::NoWrite, PvarHandle::reset)
    }

    /// The values of a handle, and their type.
    ///
    /// # Errors
    /// When there is no such handle in the session.
    pub fn read_pvar(session: u32, handle: u32) -> ToolResult<(ValueType, Vec<u64>)> {
        with(|tool| {
            let handle = tool.pvar(session, handle)?;
            Ok((info_of(handle.index)?.value_type, handle.values()))
        })
    }

    /// Reads and resets a handle at once: nothing is counted twice, or lost.
    ///
    /// # Errors
    /// When there is no such handle in the session, or it is read-only.
    pub fn read_and_reset_pvar(session: u32, handle: u32) -> ToolResult<Vec<u64>> {
        with(|tool| {
            let handle = tool.writable(session, handle)?;
            let running = handle.since.is_some();
            handle.stop();
            let zero = vec![0; handle.counted.len()];
            let values = std::mem::replace(&mut handle.counted, zero);
            if running {
                handle.start();
            }
            Ok(values)
        })
    }

    /// Number of values that a write of a handle takes.
    ///
    /// # Errors
    /// As for [`read_and_reset_pvar`](Self::read_and_reset_pvar).
    pub fn writable_elements(session: u32, handle: u32) -> ToolResult<usize> {
        with(|tool| Ok(tool.writable(session, handle)?.counted.len()))
    }

    /// Writes the values of a handle.
    ///
    /// # Errors
    /// As for [`read_and_reset_pvar`](Self::read_and_reset_pvar), or when there are too few.
    pub fn write_pvar(session: u32, handle: u32, values: &[u64]) -> ToolResult<()> {
        with(|tool| {
            let handle = tool.writable(session, handle)?;
            if values.len() != handle.counted.len() {
                return Err(ToolInterfaceError::Invalid);
            }
            handle.write(values.to_vec());
            Ok(())
        })
    }

    fn check_session(&self, session: u32) -> ToolResult<()> {
        let open = self.sessions.contains(&session);
        if open { Ok(()) } else { Err(ToolInterfaceError::InvalidSession) }
    }

    fn pvar(&mut self, session: u32, handle: u32) -> ToolResult<&mut PvarHandle> {
        self.check_session(session)?;
        let found = self.pvar_handles.get_mut(&handle);
        found.filter(|found| found.session == session).ok_or(ToolInterfaceError::InvalidHandle)
    }

    fn writable(&mut self, session: u32, handle: u32) -> ToolResult<&mut PvarHandle> {
        let found = self.pvar(session, handle)?;
        if found.is_continuous() { Err(ToolInterfaceError::NoWrite) } else { Ok(found) }
    }
}

/// Calls `f` for the handles that a call is for; a single continuous one is refused with `refusal`.
fn for_chosen(
    session: u32,
    handle: u32,
    refusal: ToolInterfaceError,
    f: fn(&mut PvarHandle),
) -> ToolResult<()> {
    let chosen = match handle {
        c::T_PVAR_ALL_HANDLES => Chosen::All,
        handle => Chosen::One(handle),
    };
    with(|tool| match chosen {
        Chosen::One(handle) => {
            let handle = tool.pvar(session, handle)?;
            if handle.is_continuous() {
                return Err(refusal);
            }
            f(handle);
            Ok(())
        }
        Chosen::All => {
            tool.check_session(session)?;
            let of_session = tool.pvar_handles.values_mut();
            of_session
                .filter(|handle| handle.session == session && !handle.is_continuous())
                .for_each(f);
            Ok(())
        }
    })
}
