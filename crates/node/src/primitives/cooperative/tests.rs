use super::*;

#[test]
fn one_side_alone_takes_all_in_order() {
    for len in [1, UNIT, UNIT + 1, 1_000_000, 8 << 20] {
        for end in [CopyEnd::Front, CopyEnd::Back] {
            let split = CooperativeCopy::new();
            let mut pieces: Vec<_> = std::iter::from_fn(|| split.take(end, len)).collect();
            if end == CopyEnd::Back {
                pieces.reverse();
            }
            assert_eq!(pieces[0].start, 0);
            assert_eq!(pieces[pieces.len() - 1].end, len);
            assert!(pieces.windows(2).all(|p| p[0].end == p[1].start));
            let (this, other) = match end {
                CopyEnd::Front => (CopyEnd::Front, CopyEnd::Back),
                CopyEnd::Back => (CopyEnd::Back, CopyEnd::Front),
            };
            assert!(split.is_shared_with(this) && !split.is_shared_with(other));
        }
    }
    assert_eq!(CooperativeCopy::new().take(CopyEnd::Front, 0), None);
}

#[test]
fn two_sides_take_every_byte_once() {
    let len = if cfg!(miri) { 4 << 20 } else { 64 << 20 } + 17;
    let split = CooperativeCopy::new();
    let both = std::thread::scope(|s| {
        let take = |end| {
            let split = &split;
            move || std::iter::from_fn(|| split.take(end, len)).collect::<Vec<_>>()
        };
        let (a, b) = (s.spawn(take(CopyEnd::Front)), s.spawn(take(CopyEnd::Back)));
        let mut all = a.join().expect("front");
        all.extend(b.join().expect("back"));
        all
    });
    let mut pieces = both;
    pieces.sort_by_key(|p| p.start);
    assert_eq!(pieces[0].start, 0);
    assert_eq!(pieces[pieces.len() - 1].end, len);
    assert!(pieces.windows(2).all(|p| p[0].end == p[1].start));
}

#[test]
fn a_reset_starts_anew() {
    let split = CooperativeCopy::new();
    assert_eq!(split.take(CopyEnd::Back, 100), Some(0..100));
    assert_eq!(split.take(CopyEnd::Front, 100), None);
    assert_eq!(split.confirmed(CopyEnd::Back), None);
    split.confirm(CopyEnd::Back, false);
    assert_eq!(split.confirmed(CopyEnd::Back), Some(false));
    split.reset();
    assert_eq!(split.confirmed(CopyEnd::Back), None);
    assert_eq!(split.take(CopyEnd::Front, 100), Some(0..100));
    split.confirm(CopyEnd::Front, true);
    assert_eq!(split.confirmed(CopyEnd::Front), Some(true));
    assert_eq!(split.confirmed(CopyEnd::Back), None);
    split.finish();
    assert!(split.is_finished());
    split.reset();
    assert!(!split.is_finished());
}

#[test]
fn giving_up_declines_the_offer() {
    let split = CooperativeCopy::new();
    assert!(!split.give_up(CopyEnd::Back));
    split.confirm(CopyEnd::Back, true);
    assert_eq!(split.confirmed(CopyEnd::Back), Some(false));
    split.confirm(CopyEnd::Front, true);
    assert!(split.give_up(CopyEnd::Front));
}
