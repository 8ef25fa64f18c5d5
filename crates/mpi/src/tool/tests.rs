use super::event::report_late;
use super::*;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};

/// The table is the process's: tests that need its state take turns.
static TURN: StdMutex<()> = StdMutex::new(());

fn in_turn<R>(f: impl FnOnce() -> R) -> R {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    init(c::THREAD_SINGLE).expect("a thread level");
    let result = f();
    finalize().expect("initialized");
    result
}

#[test]
fn initialization_is_counted() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(finalize(), Err(ToolInterfaceError::NotInitialized));
    assert_eq!(init(-1), Err(ToolInterfaceError::Invalid));
    assert_eq!(init(c::THREAD_MULTIPLE), Ok(c::THREAD_MULTIPLE));
    assert_eq!(init(c::THREAD_SINGLE), Ok(c::THREAD_SINGLE));
    assert_eq!(finalize(), Ok(()));
    assert_eq!(require(), Ok(()));
    assert_eq!(finalize(), Ok(()));
    assert_eq!(require(), Err(ToolInterfaceError::NotInitialized));
    assert_eq!(ToolObjects::open_session(), Err(ToolInterfaceError::NotInitialized));
}

#[test]
fn names_are_unique_and_found() {
    in_turn(|| {
        for index in 0..cvars() as i32 {
            let name = cvar_info(index).expect("a variable").name;
            assert_eq!(ToolObjects::cvar_index(&name), Ok(index), "{name}");
        }
        for index in 0..pvars() as i32 {
            let info = pvar_info(index).expect("a variable");
            assert_eq!(ToolObjects::pvar_index(&info.name, info.class), Ok(index));
        }
        for index in 0..events() as i32 {
            let name = event_declaration(index).expect("an event").name;
            assert_eq!(event_index(name), Ok(index));
        }
        for index in 0..categories() as i32 {
            let name = category(index).expect("a category").name;
            assert_eq!(category_index(name), Ok(index));
        }
        assert_eq!(ToolObjects::cvar_index("x"), Err(ToolInterfaceError::InvalidName));
        assert!(cvar_info(-1).is_err() && cvar_info(cvars() as i32).is_err());
    });
}

#[test]
fn each_variable_and_event_is_in_one_category() {
    in_turn(|| {
        let mut sum = CategoryMembers::default();
        for index in 0..categories() as i32 {
            let members = category_members(index).expect("a category");
            sum.cvars.extend(members.cvars);
            sum.pvars.extend(members.pvars);
            sum.events.extend(members.events);
            sum.categories.extend(members.categories);
        }
        for (members, all) in
            [(&mut sum.cvars, cvars()), (&mut sum.pvars, pvars()), (&mut sum.events, events())]
        {
            members.sort_unstable();
            assert_eq!(*members, (0..all as i32).collect::<Vec<_>>());
        }
        assert_eq!(sum.categories, (1..categories() as i32).collect::<Vec<_>>());
    });
}

#[test]
fn a_handle_belongs_to_its_session() {
    in_turn(|| {
        let (one, two) =
            (ToolObjects::open_session().unwrap(), ToolObjects::open_session().unwrap());
        let (handle, count) = ToolObjects::pvar_handle(one, 0, |_| unreachable!("it is not bound"))
            .expect("a variable");
        assert_eq!(count, 1);
        assert_eq!(ToolObjects::read_pvar(two, handle), Err(ToolInterfaceError::InvalidHandle));
        assert_eq!(ToolObjects::read_pvar(7, handle), Err(ToolInterfaceError::InvalidSession));
        assert_eq!(ToolObjects::write_pvar(one, handle, &[5]), Ok(()));
        assert_eq!(ToolObjects::read_and_reset_pvar(one, handle), Ok(vec![5]));
        assert_eq!(ToolObjects::read_pvar(one, handle), Ok((ValueType::Unsigned, vec![0])));
        assert_eq!(ToolObjects::write_pvar(one, handle, &[]), Err(ToolInterfaceError::Invalid));
        ToolObjects::close_session(one).expect("open");
        assert_eq!(ToolObjects::read_pvar(one, handle), Err(ToolInterfaceError::InvalidSession));
    });
}

#[test]
fn what_is_continuous_can_be_neither_started_nor_written() {
    in_turn(|| {
        let session = ToolObjects::open_session().unwrap();
        let longest =
            ToolObjects::pvar_index("mica_unexpected_queue_longest", c::T_PVAR_CLASS_HIGHWATERMARK);
        let (handle, _) =
            ToolObjects::pvar_handle(session, longest.unwrap(), |_| unreachable!()).unwrap();
        assert_eq!(ToolObjects::start_pvar(session, handle), Err(ToolInterfaceError::NoStartStop));
        assert_eq!(ToolObjects::reset_pvar(session, handle), Err(ToolInterfaceError::NoWrite));
        assert_eq!(ToolObjects::start_pvar(session, c::T_PVAR_ALL_HANDLES), Ok(()));
    });
}

#[test]
fn a_control_variable_is_written_before_the_engine_starts() {
    in_turn(|| {
        let handle =
            |name| ToolObjects::cvar_handle(ToolObjects::cvar_index(name).unwrap()).unwrap().0;
        let (skew, cells) = (handle("mica_skew_period"), handle("mica_cells"));
        assert_eq!(ToolObjects::read_cvar(skew), Ok(CvarValue::Unsigned(16)));
        assert_eq!(ToolObjects::write_cvar(skew, &CvarValue::Unsigned(17)), Ok(()));
        assert_eq!(ToolObjects::read_cvar(skew), Ok(CvarValue::Unsigned(17)));
        assert_eq!(ToolObjects::write_cvar(skew, &CvarValue::Unsigned(16)), Ok(()));
        let never = ToolObjects::write_cvar(cells, &CvarValue::Unsigned(5));
        assert_eq!(never, Err(ToolInterfaceError::SetNever));
        let path = handle("mica_path");
        assert_eq!(
            ToolObjects::write_cvar(path, &CvarValue::Int(99)),
            Err(ToolInterfaceError::Invalid)
        );
        let max = handle("mica_eager_max");
        let wrong = ToolObjects::write_cvar(max, &CvarValue::Text("much".to_owned()));
        assert_eq!(wrong, Err(ToolInterfaceError::Invalid));
        assert_eq!(ToolObjects::read_cvar(max), Ok(CvarValue::Text("auto".to_owned())));
    });
}

#[test]
fn the_callback_of_the_lowest_level_that_suits_is_called_and_drops_are_reported() {
    in_turn(|| {
        let calls = Arc::new(StdMutex::new(Vec::new()));
        let registration =
            ToolObjects::register(3, || unreachable!("not bound")).expect("an event");
        let record = |what: i64| -> CallbackFunction {
            let calls = Arc::clone(&calls);
            Arc::new(move |instance, _, _| {
                let event = current_instance(instance).expect("its callback runs");
                assert_eq!(event.elements[0], Element::Int(2));
                // An event within a callback is dropped.
                report_late(9, 9, 9, 9);
                calls.lock().unwrap().push(what);
            })
        };
        report_late(2, 4, 100, 200);
        ToolObjects::set_callback(registration, c::T_CB_REQUIRE_NONE, Some(record(0))).unwrap();
        report_late(2, 4, 100, 200);
        assert!(calls.lock().unwrap().is_empty(), "both were dropped");
        let safe = c::T_CB_REQUIRE_ASYNC_SIGNAL_SAFE;
        ToolObjects::set_callback(registration, safe, Some(record(63))).unwrap();
        let dropped = Arc::clone(&calls);
        let handler: DroppedFunction =
            Arc::new(move |count, _, _, _| dropped.lock().unwrap().push(-count));
        ToolObjects::set_dropped_handler(registration, Some(handler)).unwrap();
        report_late(2, 4, 100, 200);
        let restricted = c::T_CB_REQUIRE_MPI_RESTRICTED;
        ToolObjects::set_callback(registration, restricted, Some(record(3))).unwrap();
        report_late(2, 4, 100, 200);
        assert_eq!(*calls.lock().unwrap(), [-2, 63, -1, 3]);
        assert!(current_instance(16).is_err(), "no callback runs");
        assert_eq!(
            ToolObjects::set_callback(registration, 1, None),
            Err(ToolInterfaceError::Invalid)
        );
        ToolObjects::deregister(registration).unwrap();
        assert_eq!(ToolObjects::deregister(registration), Err(ToolInterfaceError::InvalidHandle));
    });
}

#[test]
fn a_bound_variable_needs_an_object_of_its_kind() {
    in_turn(|| {
        let session = ToolObjects::open_session().unwrap();
        for (name, class, kind, null) in [
            ("mica_comm_unexpected_queue", c::T_PVAR_CLASS_LEVEL, ObjectKind::Comm, c::COMM_NULL),
            ("mica_win_operations", c::T_PVAR_CLASS_COUNTER, ObjectKind::Win, c::WIN_NULL),
        ] {
            let index = ToolObjects::pvar_index(name, class).expect(name);
            assert_eq!(pvar_info(index).expect(name).bound_to, kind);
            let refused = |object: ToolResult<u32>| {
                let asked = |of: ObjectKind| {
                    assert_eq!(of, kind);
                    object
                };
                ToolObjects::pvar_handle(session, index, asked).expect_err(name)
            };
            assert_eq!(refused(Err(ToolInterfaceError::Invalid)), ToolInterfaceError::Invalid);
            assert_eq!(refused(Ok(null)), ToolInterfaceError::InvalidHandle);
        }
    });
}
