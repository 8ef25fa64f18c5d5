use super::choose::judged;
use super::*;
use std::sync::Arc;

fn setting(ranks: usize, cores: usize) -> Setting {
    Setting {
        ranks,
        level: Level::SharedCache,
        cores: cores.min(ranks),
        area_cell: Some(16 << 10),
    }
}

#[test]
#[ignore]
fn show() {
    for (ranks, cores) in [(2, 2), (4, 4), (8, 2), (8, 8), (64, 64)] {
        for reach in Reach::ALL {
            let choices = Choices::new(
                Arc::new(CollectiveCosts::default()),
                Forced::default(),
                setting(ranks, cores),
            );
            let messages = Choices::new(
                Arc::new(CollectiveCosts::default()),
                Forced::default().with_family(Family::Messages),
                setting(ranks, cores),
            );
            for collective in Collective::ALL {
                let text = |c: &Choices| -> String {
                    c.changes(collective, true, reach)
                        .into_iter()
                        .map(|(b, a)| format!("{b}:{} ", a.name()))
                        .collect()
                };
                println!(
                    "{ranks}/{cores} {} {}: {} | {}",
                    reach.name(),
                    collective.name(),
                    text(&choices),
                    text(&messages)
                );
            }
        }
    }
    println!("{}", judged(65536));
}
