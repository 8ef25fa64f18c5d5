//! How data is represented in a file (MPI 5.0, 14.5): as in memory (`native`, and `internal`, which
//! is the same here), as `external32` says, or as functions of the program say
//! (`MPI_Register_datarep`).

use std::fmt;
use std::sync::{Arc, Mutex};

use mica_memory::{Block, Region, Shape, View};
use mica_objects::constants as c;
use mica_objects::datatype::Datatype;
use mica_objects::error::{Error, Result};
use mica_objects::sync::lock;

/// Data items that a conversion function gets at a time, which has an `int` for their number.
const ITEMS_MAX: i64 = 1 << 30;

/// A representation of data in files.
#[derive(Clone, Debug)]
pub enum Representation {
    /// As in memory.
    Native,
    /// As in memory, too: all processes of a job have the same.
    Internal,
    /// Big-endian, with sizes that the standard fixes.
    External32,
    /// The program's.
    Registered(Arc<RegisteredRepresentation>),
}

/// What a conversion function is called with.
#[derive(Clone, Copy, Debug)]
pub struct ConversionCall {
    /// The address of the program's buffer.
    pub user: usize,
    /// Handle of the datatype that the buffer is made of.
    pub datatype: u32,
    /// Number of data items.
    pub count: i64,
    /// The address of the data as the file has them.
    pub file: usize,
    /// Where in the datatype, tiled over the buffer, the first item lies, in items.
    pub position: i64,
}

/// A conversion function; it returns an error code.
pub type Conversion = Arc<dyn Fn(ConversionCall) -> i32 + Send + Sync>;

/// A representation that the program has registered.
pub struct RegisteredRepresentation {
    /// Its name.
    pub name: String,
    /// From the file to memory; `None`: nothing is to be converted.
    pub read: Option<Conversion>,
    /// From memory to the file; `None`: nothing is to be converted.
    pub write: Option<Conversion>,
    /// The extent in bytes that a predefined datatype has in the file.
    #[expect(clippy::type_complexity, reason = "a function that may fail")]
    pub extent: Box<dyn Fn(&Datatype) -> Result<i64> + Send + Sync>,
}

impl fmt::Debug for RegisteredRepresentation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "representation {:?}", self.name)
    }
}

static REGISTERED: Mutex<Vec<Arc<RegisteredRepresentation>>> = Mutex::new(Vec::new());

/// `MPI_Register_datarep`. It stays for as long as the process lives.
///
/// # Errors
/// `MPI_ERR_DUP_DATAREP`; `MPI_ERR_ARG` for a name that is too long.
pub fn register(representation: RegisteredRepresentation) -> Result<()> {
    let name = &representation.name;
    if name.len() >= c::MAX_DATAREP_STRING {
        let reason = format!("a name has at most {} bytes", c::MAX_DATAREP_STRING - 1);
        return Err(Error::argument(c::ERR_ARG, "datarep", format!("{name:?}"), reason));
    }
    if Representation::named(name).is_ok() {
        let reason = "there is a representation of this name already";
        return Err(Error::argument(c::ERR_DUP_DATAREP, "datarep", format!("{name:?}"), reason));
    }
    lock(&REGISTERED).push(Arc::new(representation));
    Ok(())
}

/// Elements in the program's memory.
#[derive(Clone, Debug)]
pub struct FileElements {
    /// Their bytes.
    pub view: View,
    /// The address that the program gave.
    pub address: usize,
    /// How many.
    pub count: i64,
    /// Of which datatype.
    pub datatype: Datatype,
}

impl Representation {
    /// The representation of this name.
    ///
    /// # Errors
    /// `MPI_ERR_UNSUPPORTED_DATAREP`.
    pub fn named(name: &str) -> Result<Representation> {
        match name {
            "native" => Ok(Representation::Native),
            "internal" => Ok(Representation::Internal),
            "external32" => Ok(Representation::External32),
            _ => {
                let registered = lock(&REGISTERED);
                let found = registered.iter().find(|known| known.name == name);
                found.map(|found| Representation::Registered(Arc::clone(found))).ok_or_else(|| {
                    let reason = "there is no representation of this name";
                    let value = format!("{name:?}");
                    Error::argument(c::ERR_UNSUPPORTED_DATAREP, "datarep", value, reason)
                })
            }
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Representation::Native => "native",
            Representation::Internal => "internal",
            Representation::External32 => "external32",
            Representation::Registered(registered) => &registered.name,
        }
    }

    /// A datatype as a file of this representation has it. Only its layout is of use.
    ///
    /// # Errors
    /// Those of the program's function; of constructors, where it would be too large.
    pub fn in_file(&self, datatype: &Datatype) -> Result<Datatype> {
        let bytes = |bytes: i64| {
            Datatype::contiguous(bytes, &Datatype::predefined(c::BYTE).expect("a datatype"))
        };
        match self {
            Representation::Native | Representation::Internal => Ok(datatype.clone()),
            Representation::External32 => datatype
                .with_predefined(&mut |predefined| bytes(predefined.external_bytes() as i64)),
            Representation::Registered(registered) => {
                datatype.with_predefined(&mut |predefined| bytes((registered.extent)(predefined)?))
            }
        }
    }

    /// Whether data in the file differs from data in memory.
    pub fn converts(&self) -> bool {
        matches!(self, Representation::External32 | Representation::Registered(_))
    }

    /// Bytes of these elements in the file.
    ///
    /// # Errors
    /// As [`in_file`](Self::in_file); `MPI_ERR_COUNT` for more than 2^63.
    pub fn bytes_of(&self, elements: &FileElements) -> Result<u64> {
        if !self.converts() {
            return Ok(elements.view.len() as u64);
        }
        let each = self.in_file(&elements.datatype)?.size();
        let bytes = elements.count.checked_mul(each);
        bytes.map(|bytes| bytes as u64).ok_or_else(|| {
            let reason = "they have more than 2^63 bytes in the file";
            Error::argument(c::ERR_COUNT, "count", elements.count, reason)
        })
    }

    /// What is written for these elements. May call the program.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`; `MPI_ERR_CONVERSION`, or what the program's function returned.
    pub fn encode(&self, elements: &FileElements) -> Result<View> {
        if !self.converts() {
            return Ok(elements.view.clone());
        }
        let bytes = self.bytes_of(elements)? as usize;
        let region = Block::allocate(bytes)?;
        match self {
            Representation::Registered(registered) => match &registered.write {
                None => {
                    elements.view.pack_to(0, &region, bytes.min(elements.view.len()));
                }
                Some(convert) => convert_items(convert, elements, &region)?,
            },
            _ => elements.datatype.encode(&elements.view, elements.count, &region)?,
        }
        Ok(region.view(Shape::Contiguous { bytes }))
    }

    /// Memory for what is read for these elements, as the file has them.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`.
    pub fn staging(&self, elements: &FileElements) -> Result<View> {
        if !self.converts() {
            return Ok(elements.view.clone());
        }
        let bytes = self.bytes_of(elements)? as usize;
        Ok(Block::allocate(bytes)?.view(Shape::Contiguous { bytes }))
    }

    /// Converts the first `bytes` bytes that were read into [`staging`](Self::staging); returns how
    /// many bytes they are in memory. May call the program.
    ///
    /// # Errors
    /// As [`to_file`](Self::encode).
    pub fn decode(&self, staged: &View, bytes: u64, elements: &FileElements) -> Result<u64> {
        if !self.converts() || elements.count == 0 {
            return Ok(bytes);
        }
        let each = self.in_file(&elements.datatype)?.size() as u64;
        // Elements that were read in part are not converted.
        let whole = bytes.checked_div(each).unwrap_or(0).min(elements.count as u64) as i64;
        let region = staged.region();
        let read = FileElements { count: whole, ..elements.clone() };
        let native = whole as u64 * elements.datatype.size() as u64;
        match self {
            Representation::Registered(registered) => match &registered.read {
                None => {
                    read.view.unpack_at(0, &region, native as usize);
                }
                Some(convert) => convert_items(convert, &read, &region)?,
            },
            _ => elements.datatype.decode(&region, &elements.view, whole)?,
        }
        Ok(native)
    }
}

/// Calls a conversion function for all data items of these elements.
fn convert_items(convert: &Conversion, elements: &FileElements, file: &Region) -> Result<()> {
    let bytes = elements.count as u64 * elements.datatype.size() as u64;
    let items = elements.datatype.elements(bytes).unwrap_or(0) as i64;
    let handle = elements.datatype.another_handle()?;
    let mut position = 0;
    let mut result = Ok(());
    while position < items && result.is_ok() {
        let count = (items - position).min(ITEMS_MAX);
        // Items of one size: of several sizes they are too few to be divided.
        let at = (file.bytes() as i128 * i128::from(position) / i128::from(items)) as usize;
        let call = ConversionCall {
            user: elements.address,
            datatype: handle,
            count,
            file: file.address() + at,
            position,
        };
        result = match convert(call) {
            c::SUCCESS => Ok(()),
            code => {
                let detail =
                    format!("the program's conversion function returned error code {code}");
                Err(Error::other(c::ERR_CONVERSION, detail))
            }
        };
        position += count;
    }
    elements.datatype.give_back(handle)?;
    result
}
