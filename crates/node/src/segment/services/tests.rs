//! Services that are published, found and taken back.

use super::*;
use crate::segment::JobSpec;
use crate::topology::CorePlace;

fn segment() -> JobSegment {
    JobSegment::create(&JobSpec::on_one_node(&[CorePlace::UNKNOWN; 2], 2, &[])).unwrap()
}

#[test]
fn a_service_is_found_until_it_is_taken_back() {
    let segment = segment();
    assert_eq!(segment.service("ocean"), None);
    assert!(!segment.unpublish_service(0, "ocean", "p"));
    segment.publish_service(0, "ocean", "port 1").expect("free");
    segment.publish_service(1, "", "port 2").expect("an empty name is a name");
    assert_eq!(segment.service("ocean").as_deref(), Some("port 1"));
    assert_eq!(segment.service("").as_deref(), Some("port 2"));
    assert_eq!(segment.service("oce"), None);
    let again = segment.publish_service(1, "ocean", "port 3");
    assert!(matches!(again, Err(ServiceError::Taken)));
    for (rank, name, port) in [(1, "ocean", "port 1"), (0, "ocean", "port 3")] {
        assert!(!segment.unpublish_service(rank, name, port));
    }
    assert!(segment.unpublish_service(0, "ocean", "port 1"));
    assert_eq!(segment.service("ocean"), None);
    segment.publish_service(1, "ocean", "port 3").expect("free again");
    segment.forget_services_of(1);
    assert_eq!((segment.service("ocean"), segment.service("")), (None, None));
}

#[test]
fn there_is_room_for_so_many() {
    let segment = segment();
    for number in 0..SERVICES {
        segment.publish_service(0, &number.to_string(), &"p".repeat(200)).expect("room");
    }
    let more = segment.publish_service(0, "more", "p");
    assert!(matches!(more, Err(ServiceError::Full)));
    let long = segment.publish_service(0, &"n".repeat(SERVICE_BYTES), "p");
    assert!(matches!(long, Err(ServiceError::TooLong)));
    assert_eq!(segment.service("63"), Some("p".repeat(200)));
}

#[test]
fn of_two_that_publish_a_name_at_once_one_succeeds() {
    let segment = segment();
    for round in 0..200 {
        let name = format!("service {round}");
        let publish = |rank| segment.publish_service(rank, &name, "p").is_ok();
        let both = std::thread::scope(|scope| {
            let other = scope.spawn(|| publish(1));
            [publish(0), other.join().expect("no panic")]
        });
        assert!(both[0] != both[1], "round {round}");
        segment.forget_services_of(0);
        segment.forget_services_of(1);
    }
}

#[test]
fn the_lock_of_a_rank_that_has_died_is_taken_over() {
    let segment = segment();
    let mut child = std::process::Command::new("/bin/true").spawn().expect("a process");
    let pid = child.id();
    assert!(segment.block(1).claim(pid));
    child.wait().expect("its end");
    segment.service_lock().store(1 + 1, Ordering::Relaxed);
    segment.publish_service(0, "ocean", "port").expect("the lock");
    assert_eq!(segment.service_lock().load(Ordering::Relaxed), 0);
}
