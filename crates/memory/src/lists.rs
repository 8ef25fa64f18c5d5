//! Lists whose length the program chooses (blocks of a datatype, requests of a call): where there
//! is no memory for one, that is an error, not the end of the process.

use super::OutOfMemory;

fn failed<T>(items: usize) -> OutOfMemory {
    OutOfMemory { bytes: items.saturating_mul(size_of::<T>()) }
}

/// An empty list with room for `items` items.
pub fn try_with_capacity<T>(items: usize) -> Result<Vec<T>, OutOfMemory> {
    let mut list = Vec::new();
    list.try_reserve_exact(items).map_err(|_| failed::<T>(items))?;
    Ok(list)
}

/// The items.
pub fn try_collect<T>(items: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>, OutOfMemory> {
    let mut list = try_with_capacity(items.len())?;
    list.extend(items);
    Ok(list)
}

/// As [`try_collect`], of items that can be wrong.
pub fn try_collect_valid<T, E: From<OutOfMemory>>(
    items: impl ExactSizeIterator<Item = Result<T, E>>,
) -> Result<Vec<T>, E> {
    let mut list = try_with_capacity(items.len())?;
    for item in items {
        list.push(item?);
    }
    Ok(list)
}

/// The items of all lists, in order.
pub fn try_concat<T: Copy>(lists: &[&[T]]) -> Result<Vec<T>, OutOfMemory> {
    let items = lists.iter().fold(0, |items: usize, list| items.saturating_add(list.len()));
    let mut all = try_with_capacity(items)?;
    lists.iter().for_each(|list| all.extend_from_slice(list));
    Ok(all)
}

/// Adds an item at the end.
pub fn try_push<T>(list: &mut Vec<T>, item: T) -> Result<(), OutOfMemory> {
    list.try_reserve(1).map_err(|_| failed::<T>(list.len() + 1))?;
    list.push(item);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri ends where there is no memory")]
    fn no_memory_is_an_error() {
        assert_eq!(try_collect(0..3), Ok(vec![0, 1, 2]));
        assert_eq!(try_concat(&[&[1, 2], &[], &[3]]), Ok(vec![1, 2, 3]));
        let mut list = vec![1];
        assert_eq!((try_push(&mut list, 2), list.len()), (Ok(()), 2));
        let too_much = OutOfMemory { bytes: usize::MAX / 2 / 8 * 8 };
        assert_eq!(try_with_capacity::<u64>(usize::MAX / 2 / 8), Err(too_much));
        let valid = |item| if item < 2 { Ok(item) } else { Err(OutOfMemory { bytes: item }) };
        assert_eq!(try_collect_valid((0..2).map(valid)), Ok(vec![0, 1]));
        assert_eq!(try_collect_valid((0..3).map(valid)), Err(OutOfMemory { bytes: 2 }));
    }
}
