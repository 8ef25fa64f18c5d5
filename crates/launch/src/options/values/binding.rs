//! Options for the placement of ranks: the values of `--bind-to`, `--map-by` and similar ones, in
//! the spellings of MPICH's Hydra, Open MPI and Intel MPI.

use mica_node::topology::{BindTo, CpuSet, MapBy};
use serde::{Deserialize, Serialize};

/// Where ranks shall run, if the user says so.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(into = "BindingWords", try_from = "BindingWords")]
pub struct Binding {
    /// What ranks are bound to; `None`: decided by what is free.
    pub bind: Option<Bind>,
    /// The order; `None`: it follows from `bind`.
    pub map: Option<MapBy>,
    /// Cores (with [`BindTo::HwThread`], hardware threads) of each rank.
    pub width: Option<usize>,
    /// Parts of the machine around each rank; `--bind-to socket:2`.
    pub objects: Option<usize>,
}

/// What ranks are bound to.
#[derive(Debug, Clone, PartialEq)]
pub enum Bind {
    /// A part of the machine.
    To(BindTo),
    /// These processors: rank r has the set of number r modulo their number.
    User(Vec<CpuSet>),
}

/// Maximum number of cores for each rank; more are a mistake.
const WIDEST: usize = 65536;

/// Parses a number of cores for each rank.
pub fn width(text: &str) -> Option<usize> {
    text.parse().ok().filter(|width| (1..=WIDEST).contains(width))
}

impl Binding {
    /// What `--bind-to` takes, for messages.
    pub const BIND_WANTED: &'static str = "one of core, hwthread, l3, numa, package, none, each \
                                           of the first with :N for N of them; rr; or \
                                           user:SET,SET... with sets of processors as in 0+2";
    /// What `--map-by` takes, for messages.
    pub const MAP_WANTED: &'static str = "one of core, slot, hwthread, package, numa, l3, node, \
                                          ppr:N:node, where :PE=N gives each rank N cores; or \
                                          profile:FILE";

    /// Parses a value of `--bind-to`; `None` if it is not one.
    #[must_use]
    pub fn read_bind(&mut self, text: &str) -> Option<()> {
        let text = text.to_ascii_lowercase();
        if let Some(sets) = text.strip_prefix("user:") {
            let set = |set: &str| {
                let set = CpuSet::from_list(&set.replace('+', ","))?;
                (!set.is_empty()).then_some(set)
            };
            let sets: Option<Vec<CpuSet>> = sets.split(',').map(set).collect();
            self.bind = Some(Bind::User(sets?));
            return Some(());
        }
        if text == "rr" {
            self.bind = Some(Bind::To(BindTo::HwThread));
            self.map = Some(self.map.unwrap_or(MapBy::HwThread));
            return Some(());
        }
        let (name, count) = match text.split_once(':') {
            None | Some((_, "overload-allowed" | "if-supported")) => {
                (text.split(':').next().unwrap_or_default(), None)
            }
            Some((name, count)) => (name, Some(width(count)?)),
        };
        let to = BindTo::parse(name)?;
        match (to, count) {
            (BindTo::None, Some(_)) => return None,
            (BindTo::Core | BindTo::HwThread, Some(count)) => self.width = Some(count),
            (_, count) => self.objects = count.or(self.objects),
        }
        self.bind = Some(Bind::To(to));
        Some(())
    }

    /// Parses a value of `--map-by`, and returns the ranks per host if the value gives it; `None`
    /// if it is not one.
    #[must_use]
    pub fn read_map(&mut self, text: &str) -> Option<Option<usize>> {
        let text = text.to_ascii_lowercase();
        let mut words = text.split([':', ',']);
        let mut per_host = None;
        match words.next()? {
            "node" => per_host = Some(1),
            "ppr" => {
                per_host = Some(width(words.next()?)?);
                if words.next()? != "node" {
                    return None;
                }
            }
            name => self.map = Some(MapBy::parse(name)?),
        }
        for word in words {
            match word.split_once('=') {
                Some(("pe", number)) => self.width = Some(width(number)?),
                None if matches!(word, "span" | "oversubscribe") => {}
                _ => return None,
            }
        }
        Some(per_host)
    }
}

/// A [`Binding`] as words, the form in which it is sent to other hosts.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct BindingWords {
    bind: Option<String>,
    map: Option<String>,
    width: Option<usize>,
    objects: Option<usize>,
}

impl From<Binding> for BindingWords {
    fn from(binding: Binding) -> BindingWords {
        let bind = binding.bind.map(|bind| match bind {
            Bind::To(to) => to.name().to_owned(),
            Bind::User(sets) => {
                let sets = sets.iter().map(|set| set.to_string().replace(',', "+"));
                format!("user:{}", sets.collect::<Vec<_>>().join(","))
            }
        });
        BindingWords {
            bind,
            map: binding.map.map(|map| map.name().to_owned()),
            width: binding.width,
            objects: binding.objects,
        }
    }
}

impl TryFrom<BindingWords> for Binding {
    type Error = String;

    fn try_from(words: BindingWords) -> Result<Binding, String> {
        let mut binding = Binding::default();
        let wrong = |word: &str| format!("{word:?} is no binding");
        if let Some(word) = &words.map {
            binding.map = Some(MapBy::parse(word).ok_or_else(|| wrong(word))?);
        }
        if let Some(word) = &words.bind {
            binding.read_bind(word).ok_or_else(|| wrong(word))?;
        }
        (binding.width, binding.objects) = (words.width, words.objects);
        Ok(binding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(text: &str) -> Option<Binding> {
        let mut binding = Binding::default();
        binding.read_bind(text).map(|()| binding)
    }

    #[test]
    fn what_ranks_are_bound_to() {
        let to = |to, width, objects| {
            Some(Binding { bind: Some(Bind::To(to)), width, objects, ..Binding::default() })
        };
        assert_eq!(bind("core"), to(BindTo::Core, None, None));
        assert_eq!(bind("Core:4"), to(BindTo::Core, Some(4), None));
        assert_eq!(bind("socket"), to(BindTo::Package, None, None));
        assert_eq!(bind("numa:2"), to(BindTo::Numa, None, Some(2)));
        assert_eq!(bind("hwthread:2"), to(BindTo::HwThread, Some(2), None));
        assert_eq!(bind("core:overload-allowed"), to(BindTo::Core, None, None));
        assert_eq!(bind("none"), to(BindTo::None, None, None));
        let user = bind("user:0+2,1-3").unwrap().bind;
        let sets = [CpuSet::from_cpus([0, 2]), CpuSet::from_cpus([1, 2, 3])];
        assert_eq!(user, Some(Bind::User(sets.to_vec())));
        assert_eq!(bind("rr").unwrap().map, Some(MapBy::HwThread));
        for bad in ["moon", "core:0", "core:x", "none:2", "user:", "user:0+x", "core:1:2", ""] {
            assert_eq!(bind(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_order_of_ranks() {
        let map = |text: &str| {
            let mut binding = Binding::default();
            let per_host = binding.read_map(text)?;
            Some((binding.map, binding.width, per_host))
        };
        assert_eq!(map("slot"), Some((Some(MapBy::Core), None, None)));
        assert_eq!(map("slot:PE=4"), Some((Some(MapBy::Core), Some(4), None)));
        assert_eq!(map("socket:PE=2,SPAN"), Some((Some(MapBy::Package), Some(2), None)));
        assert_eq!(map("node"), Some((None, None, Some(1))));
        assert_eq!(map("ppr:2:node:pe=8"), Some((None, Some(8), Some(2))));
        for bad in ["board", "slot:PE", "slot:PE=0", "ppr:2:socket", "ppr", "core:2"] {
            assert_eq!(map(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_binding_survives_the_wire() {
        for text in ["core:3", "user:0-1+4,2", "rr", "socket:2", "none"] {
            let binding = bind(text).unwrap();
            let bytes = postcard::to_stdvec(&binding).unwrap();
            assert_eq!(postcard::from_bytes::<Binding>(&bytes).unwrap(), binding);
        }
        let words =
            BindingWords { bind: Some("user:x".to_owned()), map: None, width: None, objects: None };
        let bytes = postcard::to_stdvec(&words).unwrap();
        assert!(postcard::from_bytes::<Binding>(&bytes).is_err());
    }
}
