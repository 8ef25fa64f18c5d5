use super::*;

#[test]
fn grids_are_numbers_with_x_between() {
    assert_eq!(parse_grid("4x2"), Ok(Dimensions(vec![4, 2])));
    assert_eq!(parse_grid("7"), Ok(Dimensions(vec![7])));
    for bad in ["", "4x", "0x2", "axb", "2x2x2x2", "-1"] {
        assert!(parse_grid(bad).unwrap_err().contains("such as 4x2"), "{bad}");
    }
}

#[test]
fn larger_grids_are_even_and_keep_flat_dimensions() {
    let sizes = |recorded: &[u32], ranks| larger(&Grid::open(recorded), ranks, false).dimensions;
    assert_eq!(sizes(&[2, 2], 100_000), [400, 250]);
    assert_eq!(sizes(&[2, 1], 8), [8, 1]);
    assert_eq!(sizes(&[4, 2], 8), [4, 2]);
    assert_eq!(sizes(&[2, 4], 8), [2, 4], "as recorded");
    assert_eq!(sizes(&[2, 2, 2], 1000), [10, 10, 10]);
    assert!(larger(&Grid::open(&[2, 2]), 6, true).periodic.iter().all(|ring| *ring));
}

#[test]
fn prints_predictions_and_sensitivity() {
    let predicted = |ranks, seconds| Predicted {
        ranks,
        grid: vec![ranks / 2, 2],
        seconds,
        computing_seconds: 0.5,
        messages: 1000,
        bytes: 8000,
        whole_collectives: u64::from(ranks > 64),
        replay_seconds: 0.25,
    };
    let outcome = ReplayFindings {
        recorded_ranks: 4,
        recorded_grid: vec![2, 2],
        measured_seconds: 1.5,
        scaling: "weak",
        notes: vec!["A note.".into()],
        predictions: vec![predicted(4, 1.0), predicted(1000, 2.0)],
        sensitivity: Some(mica_sim::loggp::Sensitivity {
            base: 2.0,
            rows: vec![mica_sim::loggp::SensitivityRow {
                parameter: Parameter::Gap,
                times: vec![(2.0, 3.0)],
                elasticity: 0.5,
            }],
        }),
    };
    let text = text::render(&outcome, &ReplayCluster::of(mica_sim::loggp::Parameters::default()));
    for words in ["4 ranks, 1.5 s, grid 2x2", "500x2", "75.0 %", "50.0 %", "A note.", "x 2", "0.5"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(text.contains("one time for all"), "{text}");
}

#[test]
fn prints_predicted_beside_measured() {
    let rows = [Compared {
        ranks: 2,
        measured: 1.0,
        predicted: 1.1,
        computing_measured: 0.5,
        computing_predicted: 0.5,
    }];
    let text = text::compared(&rows, &[], 2);
    assert!(text.contains("+10.0 %") && text.contains("from the run of 2 ranks"), "{text}");
}
