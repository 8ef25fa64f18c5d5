//! Reading and writing (MPI 5.0, 14.4): where, by one rank or by all, at once or meanwhile.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use mica_collective::exchange::ExchangeMembers;
use mica_memory::View;
use mica_node::counters::Counter;
use mica_objects::constants as c;
use mica_objects::error::{Error, Result};
use mica_objects::sync::lock;
use mica_policy::files::AccessDirection;

use super::File;
use crate::exchange::{self, CollectivePart};
use crate::operation::{Conclusion, Desk, FileOperation, OperationIdentity};
use crate::representation::FileElements;
use crate::shared_file::SharedFile;
use crate::view::FileView;

/// Where in the view an access begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessPosition {
    /// At an offset, in etypes.
    At(i64),
    /// At the individual file pointer, which moves.
    Individual,
    /// At the shared file pointer, which moves; of a collective access in the order of ranks.
    Shared,
}

/// Whether ranks access the file together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coordination {
    /// Each by itself.
    Independent,
    /// All call it.
    Collective,
}

/// The kinds of split collective accesses: what begins one must end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitCall {
    /// Which way.
    pub direction: AccessDirection,
    /// Where; the offset does not matter.
    pub position: AccessPosition,
}

impl fmt::Display for SplitCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.direction {
            AccessDirection::Read => "read",
            AccessDirection::Write => "write",
        };
        let form = match self.position {
            AccessPosition::At(_) => "at_all",
            AccessPosition::Individual => "all",
            AccessPosition::Shared => "ordered",
        };
        write!(f, "MPI_File_{verb}_{form}_begin")
    }
}

impl SplitCall {
    fn is_same(&self, other: &SplitCall) -> bool {
        let is_same_place =
            std::mem::discriminant(&self.position) == std::mem::discriminant(&other.position);
        self.direction == other.direction && is_same_place
    }
}

/// An access whose arguments are right.
struct Prepared {
    view: Arc<FileView>,
    stream: Range<u64>,
    /// What is written, or where what is read goes, as the file has it.
    data: View,
}

impl File {
    /// Reads or writes. Blocks. Returns the bytes that were transferred, in memory.
    ///
    /// # Errors
    /// `MPI_ERR_ACCESS`, `MPI_ERR_READ_ONLY`, `MPI_ERR_ARG`, `MPI_ERR_IO`,
    /// `MPI_ERR_UNSUPPORTED_OPERATION`; those of the system; of a collective access at all ranks.
    pub fn transfer(
        &self,
        (direction, position, coordination): (AccessDirection, AccessPosition, Coordination),
        elements: Result<FileElements>,
        call: &'static str,
    ) -> Result<u64> {
        if coordination == Coordination::Collective {
            self.refuse_split()?;
            let prepared = self.prepare_collective(direction, position, elements);
            let expected = prepared.as_ref().ok().map(|(prepared, elements)| {
                let Prepared { view, stream, .. } = prepared;
                let etypes = (stream.end - stream.start) / view.etype_bytes();
                (etypes, elements.view.len() as u64)
            });
            let moved = self.operation(direction, coordination, prepared, call)?.run()?;
            if let Some((etypes, bytes)) = expected.filter(|&(_, bytes)| moved < bytes) {
                let got = (u128::from(etypes) * u128::from(moved) / u128::from(bytes)) as u64;
                self.step_back(position, etypes - got);
            }
            return Ok(moved);
        }
        let elements = &elements?;
        let prepared = self.prepare(direction, position, elements)?;
        let access = self.0.shared_file.access(&prepared.view);
        let bytes = access.transfer(direction, prepared.stream.clone(), &prepared.data)?;
        let all = prepared.stream.end - prepared.stream.start;
        self.step_back(position, (all - bytes) / prepared.view.etype_bytes());
        conclude(&self.0.shared_file, direction, (&prepared.view, &prepared.data), bytes, elements)
    }

    /// After a blocking access that has met the end of the file: the individual pointer is behind
    /// what was read.
    fn step_back(&self, position: AccessPosition, missing: u64) {
        if position == AccessPosition::Individual {
            let mut pointer = lock(&self.0.pointer);
            *pointer = pointer.saturating_sub(missing);
        }
    }

    /// Starts to read or write. The operation goes on in calls that make progress, and on a thread
    /// of the library.
    ///
    /// # Errors
    /// As [`transfer`](Self::transfer), of arguments.
    pub fn start(
        &self,
        (direction, position, coordination): (AccessDirection, AccessPosition, Coordination),
        elements: Result<FileElements>,
        call: &'static str,
    ) -> Result<Arc<FileOperation>> {
        let prepared = match coordination {
            Coordination::Collective => {
                self.refuse_split()?;
                self.prepare_collective(direction, position, elements)
            }
            Coordination::Independent => {
                let elements = elements?;
                Ok((self.prepare(direction, position, &elements)?, elements))
            }
        };
        let operation = self.operation(direction, coordination, prepared, call)?;
        operation.start()?;
        Ok(operation)
    }

    /// Begins a split collective access. All ranks call it.
    ///
    /// # Errors
    /// As [`start`](Self::start); `MPI_ERR_OTHER` if one has begun already.
    pub fn begin_split(&self, split: SplitCall, elements: Result<FileElements>) -> Result<()> {
        let kind = (split.direction, split.position, Coordination::Collective);
        let operation = self.start(kind, elements, "a split collective access")?;
        *lock(&self.0.split) = Some((split, operation));
        Ok(())
    }

    /// Ends a split collective access. Blocks. Returns the bytes that were transferred.
    ///
    /// # Errors
    /// `MPI_ERR_OTHER` if no such access has begun; those of the access.
    pub fn end_split(&self, split: SplitCall) -> Result<u64> {
        let mut place = lock(&self.0.split);
        match place.take() {
            Some((begun, operation)) if begun.is_same(&split) => {
                drop(place);
                operation.wait()
            }
            other => {
                let begun = match &other {
                    Some((begun, _)) => begun.to_string(),
                    None => "no split collective access".to_owned(),
                };
                *place = other;
                let detail = format!("{begun} has begun, not {split}");
                Err(Error::other(c::ERR_OTHER, detail))
            }
        }
    }

    /// Refuses a collective access while a split one has begun, as it has at all ranks (14.4.5).
    fn refuse_split(&self) -> Result<()> {
        match &*lock(&self.0.split) {
            None => Ok(()),
            Some((begun, _)) => {
                let detail = format!("{begun} has begun; end it before another collective access");
                Err(Error::other(c::ERR_OTHER, detail))
            }
        }
    }

    fn operation(
        &self,
        direction: AccessDirection,
        coordination: Coordination,
        prepared: Result<(Prepared, FileElements)>,
        call: &'static str,
    ) -> Result<Arc<FileOperation>> {
        let members = &self.0.shared_file.members;
        let identity = OperationIdentity {
            label: call,
            file: self.handle(),
            context: members.collective_context(),
            tags: match coordination {
                Coordination::Collective => {
                    Some([(); 2].map(|()| members.next_collective_tag(None)))
                }
                Coordination::Independent => None,
            },
        };
        let conclusion = prepared.as_ref().ok().map(|(prepared, elements)| {
            let (view, data) = (Arc::clone(&prepared.view), prepared.data.clone());
            let (elements, file) = (elements.clone(), Arc::clone(&self.0.shared_file));
            let conclusion: Conclusion =
                Box::new(move |bytes| conclude(&file, direction, (&view, &data), bytes, &elements));
            conclusion
        });
        let file = Arc::clone(&self.0.shared_file);
        let part = prepared.map(|(Prepared { view, stream, data }, _)| CollectivePart {
            file: Arc::clone(&file),
            view,
            stream,
            data,
        });
        Ok(match coordination {
            Coordination::Collective => {
                let turn = self.0.turns.take();
                let steps = move |desk: Desk| async move {
                    turn.comes().await;
                    exchange::access(&desk, &file, part, direction).await
                };
                FileOperation::new(identity, steps, conclusion)
            }
            Coordination::Independent => {
                let part = part?;
                let steps = move |desk: Desk| async move { part.alone(&desk, direction).await };
                FileOperation::new(identity, steps, conclusion)
            }
        })
    }

    fn check_allowed(&self, direction: AccessDirection, position: AccessPosition) -> Result<()> {
        if direction == AccessDirection::Write {
            self.check_writable()?;
        } else if !self.0.mode.reads() {
            let detail = format!("{} is opened with MPI_MODE_WRONLY", self.0.shared_file.name);
            return Err(Error::other(c::ERR_ACCESS, detail));
        }
        if self.0.mode.is_sequential() && position != AccessPosition::Shared {
            let detail = "a file that is opened with MPI_MODE_SEQUENTIAL is accessed by the shared \
                          file pointer alone";
            return Err(Error::other(c::ERR_UNSUPPORTED_OPERATION, detail));
        }
        Ok(())
    }

    /// The offset of an access of `etypes` etypes; moves its pointer.
    fn begin(&self, position: AccessPosition, etypes: u64) -> Result<i64> {
        match position {
            AccessPosition::At(offset) => Ok(offset),
            AccessPosition::Individual => {
                let mut pointer = lock(&self.0.pointer);
                let before = *pointer;
                *pointer = before + etypes;
                Ok(before as i64)
            }
            AccessPosition::Shared => Ok(self.0.shared.advance(etypes)? as i64),
        }
    }

    /// Bytes and etypes of elements in the file.
    fn measure(&self, view: &FileView, elements: &FileElements) -> Result<(u64, u64)> {
        let bytes = view.representation().bytes_of(elements)?;
        view.stream(0, bytes)?; // whole etypes
        Ok((bytes, bytes / view.etype_bytes()))
    }

    fn prepare(
        &self,
        direction: AccessDirection,
        position: AccessPosition,
        elements: &FileElements,
    ) -> Result<Prepared> {
        self.check_allowed(direction, position)?;
        let view = self.view();
        let (bytes, etypes) = self.measure(&view, elements)?;
        let data = in_file(&view, direction, elements)?;
        let stream = view.stream(self.begin(position, etypes)?, bytes)?;
        Ok(Prepared { view, stream, data })
    }

    /// As [`prepare`](Self::prepare), of a collective access: by the shared pointer ranks get
    /// their places in the order of ranks. Blocks then.
    fn prepare_collective(
        &self,
        direction: AccessDirection,
        position: AccessPosition,
        elements: Result<FileElements>,
    ) -> Result<(Prepared, FileElements)> {
        if position != AccessPosition::Shared {
            let elements = elements?;
            return Ok((self.prepare(direction, position, &elements)?, elements));
        }
        let view = self.view();
        let measured = elements.and_then(|elements| {
            self.check_allowed(direction, position)?;
            Ok((self.measure(&view, &elements)?, elements))
        });
        let etypes = measured.as_ref().map_or(0, |((_, etypes), _)| *etypes);
        let members = &self.0.shared_file.members;
        let all = ExchangeMembers::all(members).allgather(&etypes.to_ne_bytes())?;
        let all: Vec<u64> = all.as_chunks().0.iter().map(|&n| u64::from_ne_bytes(n)).collect();
        let mut first = [0; 8];
        if members.rank() == 0 {
            first = self.0.shared.advance(all.iter().sum())?.to_ne_bytes();
        }
        ExchangeMembers::all(members).broadcast(&mut first)?;
        let ((bytes, _), elements) = measured?;
        let before: u64 = all[..members.rank()].iter().sum();
        let offset = (u64::from_ne_bytes(first) + before) as i64;
        let data = in_file(&view, direction, &elements)?;
        let stream = view.stream(offset, bytes)?;
        Ok((Prepared { view, stream, data }, elements))
    }
}

/// Converts and counts what was transferred; returns how many bytes it is in memory. May call the
/// program.
fn conclude(
    file: &SharedFile,
    direction: AccessDirection,
    (view, data): (&FileView, &View),
    bytes: u64,
    elements: &FileElements,
) -> Result<u64> {
    let (calls, sum, moved) = match direction {
        AccessDirection::Write => {
            (Counter::FileWrites, Counter::FileWriteBytes, elements.view.len() as u64)
        }
        AccessDirection::Read => {
            let moved = view.representation().decode(data, bytes, elements)?;
            (Counter::FileReads, Counter::FileReadBytes, moved)
        }
    };
    file.counters.count(calls);
    file.counters.add(sum, moved);
    Ok(moved)
}

/// What is written, or where what is read goes, as the file has it. May call the program.
fn in_file(view: &FileView, direction: AccessDirection, elements: &FileElements) -> Result<View> {
    match direction {
        AccessDirection::Write => view.representation().encode(elements),
        AccessDirection::Read => view.representation().staging(elements),
    }
}
