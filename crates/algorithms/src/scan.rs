//! Scan and exscan: recursive doubling, `ceil(log2 p) (a + n b + 2 n c)`. A unit is an element.
//!
//! Partners differ in one bit of their rank. Each rank holds the reduction of its group so far
//! (`group`) and of the ranks up to itself (the output), and extends the latter by the groups to
//! its left.

use crate::fold::{Fold, combine};
use crate::{Buffer, OwnData, RankPlace, ReductionShape, RoundSink, ScanKind};

/// A scan of either kind.
pub fn doubling(
    me: RankPlace,
    kind: ScanKind,
    reduction: ReductionShape,
    own: OwnData,
    out: &mut impl RoundSink,
) {
    let count = reduction.count;
    let prefix = Buffer::Output.at(0);
    let start = match (kind, own) {
        (ScanKind::Inclusive, OwnData::Input) => {
            out.round();
            out.copy(own.place().part(count), prefix.part(count));
            own.place()
        }
        (ScanKind::Exclusive, OwnData::Input) => own.place(),
        (_, OwnData::InPlace) if me.size == 1 => return,
        (_, OwnData::InPlace) => {
            // The receive buffer becomes the prefix: the group starts from a copy.
            let copy = out.scratch(count).at(0);
            out.round();
            out.copy(prefix.part(count), copy.part(count));
            copy
        }
    };
    let mut is_prefix_known = kind == ScanKind::Inclusive;
    let mut group = Fold::new(reduction, (start, own.access()), None);
    let mut bit = 1;
    while bit < me.size {
        let partner = me.rank ^ bit;
        bit *= 2;
        if partner >= me.size {
            continue;
        }
        let operand = group.incoming(out);
        out.round();
        out.receive(partner, operand.part(count));
        out.send(partner, group.value().part(count));
        if partner > me.rank {
            group.append(operand, out);
            continue;
        }
        if is_prefix_known {
            combine(operand, prefix, count, out);
        } else {
            out.copy(operand.part(count), prefix.part(count));
            is_prefix_known = true;
        }
        group.prepend(operand, out);
    }
}
