//! Operators as objects: handles, properties, the user's functions, the argument checks of
//! `MPI_Reduce_local`.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use mica_memory::{Block, Region};
use mica_objects::constants as c;
use mica_objects::datatype::Datatype;
use mica_objects::op::{Op, OperandOrder, PredefinedOp, reduce_local};

fn code<T: std::fmt::Debug>(result: mica_objects::Result<T>) -> i32 {
    result.unwrap_err().code()
}

#[test]
fn predefined_operators_have_the_abis_handles() {
    let handles = [
        (PredefinedOp::Sum, c::SUM),
        (PredefinedOp::Min, c::MIN),
        (PredefinedOp::Max, c::MAX),
        (PredefinedOp::Prod, c::PROD),
        (PredefinedOp::Band, c::BAND),
        (PredefinedOp::Bor, c::BOR),
        (PredefinedOp::Bxor, c::BXOR),
        (PredefinedOp::Land, c::LAND),
        (PredefinedOp::Lor, c::LOR),
        (PredefinedOp::Lxor, c::LXOR),
        (PredefinedOp::Minloc, c::MINLOC),
        (PredefinedOp::Maxloc, c::MAXLOC),
        (PredefinedOp::Replace, c::REPLACE),
        (PredefinedOp::NoOp, c::NO_OP),
    ];
    assert_eq!(handles.map(|(op, _)| op), PredefinedOp::ALL);
    for (predefined, handle) in handles {
        let op = Op::resolve(handle).unwrap();
        assert_eq!(format!("{op:?}"), format!("{:?}", Op::from(predefined)));
        assert_eq!(op.is_commutative(), ![c::REPLACE, c::NO_OP].contains(&handle));
        assert_eq!(code(Op::free(handle)), c::ERR_OP);
    }
}

#[test]
fn wrong_handles_are_refused_with_a_reason() {
    for handle in [c::OP_NULL, 0, c::INT, c::COMM_WORLD, 0x4400_1234, u32::MAX] {
        assert_eq!(code(Op::resolve(handle)), c::ERR_OP, "{handle:#x}");
        assert_eq!(code(Op::free(handle)), c::ERR_OP, "{handle:#x}");
    }
    assert!(Op::resolve(c::OP_NULL).unwrap_err().to_string().contains("MPI_OP_NULL"));
}

#[test]
fn a_users_operator_lives_as_long_as_somebody_uses_it() {
    let calls = Arc::new(AtomicI64::new(0));
    let seen = Arc::clone(&calls);
    let handle = Op::user(
        OperandOrder::ByRank,
        Arc::new(move |_, _, count, _| {
            seen.fetch_add(count, Ordering::Relaxed);
        }),
    )
    .register()
    .unwrap();
    let op = Op::resolve(handle).unwrap();
    assert!(!op.is_commutative());
    Op::free(handle).unwrap();
    assert_eq!(code(Op::resolve(handle)), c::ERR_OP);
    assert_eq!(code(Op::free(handle)), c::ERR_OP);
    assert_eq!(Arc::strong_count(&calls), 2);

    let datatype = Datatype::predefined(c::CHAR).unwrap();
    let memory = Block::allocate(16).unwrap();
    reduce_local(&op, &memory, &memory.offset(8), 8, &datatype).unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 8);
    drop(op);
    assert_eq!(Arc::strong_count(&calls), 1);
}

#[test]
fn reduce_local_checks_its_arguments() {
    let (sum, int) = (Op::resolve(c::SUM).unwrap(), Datatype::predefined(c::INT).unwrap());
    let memory = Block::allocate(32).unwrap();
    let other = memory.offset(16);
    assert_eq!(code(reduce_local(&sum, &memory, &other, -1, &int)), c::ERR_COUNT);
    assert_eq!(code(reduce_local(&sum, &memory, &memory, 1, &int)), c::ERR_BUFFER);
    reduce_local(&sum, &memory, &memory, 0, &int).unwrap();
    reduce_local(&sum, &Region::null(), &Region::null(), 0, &int).unwrap();

    memory.write_bytes(&[1_i32, 2, 3, 4, 10, 20, 30, 40].map(i32::to_ne_bytes).concat());
    reduce_local(&sum, &memory, &other, 3, &int).unwrap();
    let mut bytes = [0; 16];
    other.read_bytes(&mut bytes);
    assert_eq!(bytes.to_vec(), [11_i32, 22, 33, 40].map(i32::to_ne_bytes).concat());
}
