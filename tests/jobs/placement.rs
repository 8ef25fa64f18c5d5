//! Rank placement: a job is profiled, placed by its profile, and sends less over the network.

use std::fs;
use std::process::Command;

use mica_tests::{Cores, Install, core_count, target};

/// Bytes of point-to-point messages over the network, of `MICA_STATS=table`.
fn network_bytes(report: &str) -> u64 {
    let row = report.lines().find(|line| line.contains("  net "));
    let row = row.unwrap_or_else(|| panic!("no row for the network:\n{report}"));
    row.split_whitespace().nth(3).unwrap().parse().unwrap()
}

const HOSTS: [&str; 6] = ["--launcher", "fork", "-hosts", "left:2,right:2", "-n", "4"];

#[test]
fn heavy_pairs_move_to_one_node() {
    let _cores = Cores::take(core_count());
    let install = Install::find();
    let folder = target().join("placement-test");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("profile.json");
    // What `mica profile` writes of the program, as far as placement reads it.
    let row = |from: u32, to: u32, bytes: u64| {
        format!(r#"{{"from":{from},"to":{to},"messages":20,"bytes":{bytes}}}"#)
    };
    let rows: Vec<String> = (0..4)
        .flat_map(|rank| [row(rank, (rank + 2) % 4, 1 << 20), row(rank, (rank + 1) % 4, 8)])
        .collect();
    let profile =
        format!(r#"{{"format":1,"ranks":[{{}},{{}},{{}},{{}}],"matrix":[{}]}}"#, rows.join(","));
    fs::write(&file, profile).unwrap();

    let program = install.program("tools/place_pairs");
    let map = format!("profile:{}", file.display());
    let run = |options: &[&str]| {
        let job = install.mpiexec(HOSTS).args(options).args([&program]);
        job.env("MICA_STATS", "table").run().expect_success()
    };
    let before = network_bytes(&run(&[]).stderr);
    let after = network_bytes(&run(&["--map-by", &map]).stderr);
    // 4 ranks send 20 messages of 64 KiB each; in the end only the short ones cross.
    assert!(before >= 4 * 20 * (64 << 10), "{before} bytes");
    assert!(after < before / 20, "{before} bytes, then {after}");

    // `mica place` says so beforehand.
    let mica = install.bin("mica");
    let said = Command::new(mica)
        .args(["place", "--json", "--hosts", "left:2,right:2"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(said.status.success(), "{said:?}");
    let said: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    let hosts: Vec<&str> =
        (0..4).map(|rank| said["ranks"][rank]["host"].as_str().unwrap()).collect();
    assert!(hosts[0] == hosts[2] && hosts[1] == hosts[3] && hosts[0] != hosts[1]);
}

#[test]
fn places_on_the_cores_of_a_synthetic_machine() {
    let install = Install::find();
    let folder = target().join("placement-test");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("cores.json");
    let row = |from: u32| {
        let to = from + 4;
        format!(r#"{{"from":{from},"to":{to},"messages":9,"bytes":900000}}"#)
    };
    let rows: Vec<String> = (0..4).map(row).collect();
    let ranks = ["{}"; 8].join(",");
    let profile = format!(r#"{{"format":1,"ranks":[{ranks}],"matrix":[{}]}}"#, rows.join(","));
    fs::write(&file, profile).unwrap();
    let map = format!("profile:{}", file.display());
    let job = install.mpiexec(["-n", "8", "-v", "--bind-to", "core", "--map-by", map.as_str()]);
    let job = job.env("MICA_TOPOLOGY_SYNTHETIC", "pack:2 l3:2 core:2 pu:1");
    let out = job.args(["true"]).run();
    let cache = |rank: u32| {
        let begin = format!("mpiexec: rank {rank}: ");
        let line = out.stderr.lines().find(|line| line.starts_with(&begin));
        let line = line.unwrap_or_else(|| panic!("{}", out.report()));
        let (_, rest) = line.split_once("shared cache ").expect(line);
        rest.split(',').next().unwrap().to_owned()
    };
    for rank in 0..4 {
        assert_eq!(cache(rank), cache(rank + 4), "{}", out.report());
    }
    // A profile of another size, and a file that is none.
    let wrong = install.mpiexec(["-n", "4", "--map-by", map.as_str()]).args(["true"]);
    wrong.run().expect_code(2).says("is of a job of 8 ranks, and this job has 4");
    let none = install.mpiexec(["-n", "4", "--map-by", "profile:/nonexistent"]);
    let none = none.args(["true"]).run().expect_code(2);
    none.says("cannot read the profile /nonexistent");
}
