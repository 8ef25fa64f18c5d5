//! What several sections share: the profile with its sums, a colour for each of the largest calls,
//! and names of sites and size classes.

use std::path::Path;

use mica_profile::model::class_bounds;
use mica_profile::summary::{CallSum, by_call};
use mica_profile::{PairLevel, Profile, ProgramSite};

use crate::draw::bars::Series;
use crate::draw::colour;
use crate::draw::text::size;

/// Calls that have a colour of their own. The others share grey.
const COLOURED: usize = 6;

/// A profile, and what the page says of it in several places.
pub struct ProfileView<'a> {
    pub profile: &'a Profile,
    /// Those that took longest first.
    pub calls: Vec<CallSum>,
    /// Sums over the ranks.
    pub app_ns: u64,
    pub mpi_ns: u64,
}

impl<'a> ProfileView<'a> {
    pub fn new(profile: &'a Profile) -> ProfileView<'a> {
        ProfileView {
            profile,
            calls: by_call(profile),
            app_ns: profile.ranks.iter().map(|rank| rank.app_ns).sum(),
            mpi_ns: profile.ranks.iter().map(|rank| rank.mpi_ns).sum(),
        }
    }

    /// The place of a call's colour, which is also its place among the series of
    /// [`ProfileView::series`].
    pub fn hue(&self, call: &str) -> usize {
        let coloured = &self.calls[..self.calls.len().min(COLOURED)];
        coloured.iter().position(|sum| sum.call == call).unwrap_or(coloured.len())
    }

    /// The colours of calls: the largest ones, then the others where there are any.
    pub fn series(&self) -> Vec<Series> {
        let coloured = self.calls.iter().take(COLOURED).enumerate();
        let mut series: Vec<Series> = coloured
            .map(|(place, sum)| Series { name: sum.call.clone(), colour: colour::hue(place) })
            .collect();
        if self.calls.len() > COLOURED {
            series
                .push(Series { name: "other MPI calls".into(), colour: colour::hue(colour::HUES) });
        }
        series
    }

    pub fn call_colour(&self, call: &str) -> String {
        match self.hue(call) {
            COLOURED => colour::hue(colour::HUES),
            place => colour::hue(place),
        }
    }

    pub fn nodes(&self) -> usize {
        let mut nodes: Vec<u32> = self.profile.ranks.iter().map(|rank| rank.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.len()
    }

    pub fn site(&self, site: u32) -> SiteName {
        self.profile.sites.get(site as usize).map_or_else(
            || SiteName { function: "unknown".into(), ..SiteName::default() },
            SiteName::of,
        )
    }

    pub fn host(&self, rank: u32) -> &str {
        let rank = self.profile.ranks.get(rank as usize);
        rank.map_or("", |rank| &rank.host)
    }
}

/// A call site in the words of the page.
#[derive(Default)]
pub struct SiteName {
    pub function: String,
    /// `ring.c:40`, or object and address.
    pub place: String,
    /// The place with its whole path, and those of the callers in lines of their own.
    pub full: String,
    /// The callers, nearest first.
    pub callers: Vec<SiteName>,
}

impl SiteName {
    fn of(site: &ProgramSite) -> SiteName {
        let base = |path: &str| {
            let name = Path::new(path).file_name();
            name.map_or_else(|| path.to_owned(), |name| name.to_string_lossy().into_owned())
        };
        let (path, at) = match (&site.file, site.line) {
            (Some(file), Some(line)) => (file, format!(":{line}")),
            (Some(file), None) => (file, String::new()),
            (None, _) => (&site.object, format!("+{:#x}", site.offset)),
        };
        let callers: Vec<SiteName> = site.callers.iter().map(SiteName::of).collect();
        let full = callers.iter().map(|caller| format!("\n{}", caller.full));
        SiteName {
            function: site.function.clone().unwrap_or_else(|| "unknown".into()),
            place: base(path) + &at,
            full: format!("{path}{at}{}", full.collect::<String>()),
            callers,
        }
    }

    /// `main (ring.c:40)`, and the callers as `exchange (halo.c:12) < step (heat.c:80)`.
    pub fn both(&self) -> String {
        let own = match self.place.is_empty() {
            true => self.function.clone(),
            false => format!("{} ({})", self.function, self.place),
        };
        own + &self.after()
    }

    /// The same without the own function's name.
    pub fn place_and_callers(&self) -> String {
        self.place.clone() + &self.after()
    }

    fn after(&self) -> String {
        self.callers.iter().map(|caller| format!(" < {}", caller.both())).collect()
    }
}

/// The colour of a level, near ones cool, the network warm.
pub fn level_colour(level: PairLevel) -> String {
    colour::hue(match level {
        PairLevel::Own => 7,
        PairLevel::SharedCache => 2,
        PairLevel::Package => 4,
        PairLevel::Node => 0,
        PairLevel::Network => 5,
    })
}

/// A size class's lower bound, short enough for an axis: `16K`.
pub fn class_label(class: u8) -> String {
    let text = size(class_bounds(class).0);
    let (number, unit) = text.split_once(' ').unwrap_or((&text, "B"));
    match unit {
        "B" => number.to_owned(),
        unit => format!("{number}{}", &unit[..1]),
    }
}

/// A size class in words: `16 KiB to below 32 KiB`.
pub fn class_range(class: u8) -> String {
    match class_bounds(class) {
        (low, high) if low == high => size(low),
        (low, u64::MAX) => format!("{} and more", size(low)),
        (low, high) => format!("{} to below {}", size(low), size(high + 1)),
    }
}
