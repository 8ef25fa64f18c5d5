//! The file that `bench/src/links.c` writes; its head describes the format.

use std::error::Error;
use std::io::{BufRead, Read};

use mica_links::discover::parse_numa_maps;

/// What the ranks have observed.
#[derive(Debug, Default)]
pub struct RawCalls {
    /// For each rank: when it entered each call, and when it returned.
    pub entry: Vec<Vec<f64>>,
    pub exit: Vec<Vec<f64>>,
    /// For each node and counter: the counts before each call, and after the last.
    pub readings: Vec<Vec<Vec<f64>>>,
    /// Counters that the kernel refused: node, counter, reason.
    pub refused: Vec<(usize, usize, String)>,
    /// Where each rank ran.
    pub places: Vec<ObservedPlace>,
    /// For each rank: the text of its numa_maps.
    pub numa_maps: Vec<String>,
}

/// Where a rank ran before and after the calls; `None` where it is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ObservedPlace {
    pub node: usize,
    pub cpus: [Option<u32>; 2],
    pub domains: [Option<u32>; 2],
}

impl RawCalls {
    /// Reads the file.
    ///
    /// # Errors
    /// If it has another form, or ends early.
    pub fn read(mut raw: impl BufRead) -> Result<RawCalls, Box<dyn Error>> {
        let line = line(&mut raw)?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["mica-links-raw", ranks, calls, nodes, counters] = words[..] else {
            return Err(format!("not a file of links.c: {line:?}").into());
        };
        let (ranks, calls): (usize, usize) = (ranks.parse()?, calls.parse()?);
        let (nodes, counters): (usize, usize) = (nodes.parse()?, counters.parse()?);
        let mut found = RawCalls::default();
        for _ in 0..ranks {
            found.entry.push(column(&mut raw, calls)?);
            found.exit.push(column(&mut raw, calls)?);
        }
        for _ in 0..nodes {
            let columns = (0..counters).map(|_| column(&mut raw, calls + 1));
            found.readings.push(columns.collect::<Result<_, _>>()?);
        }
        while found.numa_maps.len() < ranks {
            found.read_line(&mut raw)?;
        }
        Ok(found)
    }

    fn read_line(&mut self, raw: &mut impl BufRead) -> Result<(), Box<dyn Error>> {
        let line = line(raw)?;
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["refused", node, counter, ..] => {
                let reason = words[3..].join(" ");
                self.refused.push((node.parse()?, counter.parse()?, reason));
            }
            ["rank", _, node, cpu, domain, later_cpu, later_domain] => {
                let number = |word: &str| word.parse::<u32>().ok();
                self.places.push(ObservedPlace {
                    node: node.parse()?,
                    cpus: [number(cpu), number(later_cpu)],
                    domains: [number(domain), number(later_domain)],
                });
            }
            ["numa_maps", _, bytes] => {
                let mut text = vec![0; bytes.parse()?];
                raw.read_exact(&mut text)?;
                self.numa_maps.push(String::from_utf8_lossy(&text).into_owned());
            }
            _ => return Err(format!("not a line of links.c: {line:?}").into()),
        }
        Ok(())
    }

    /// For each rank: its bytes in each memory domain; nothing if a kernel without NUMA ran one.
    pub fn rank_bytes(&self) -> Vec<std::collections::BTreeMap<u32, u64>> {
        let parse = |text: &String| if text.is_empty() { None } else { parse_numa_maps(text) };
        self.numa_maps.iter().map(parse).collect::<Option<_>>().unwrap_or_default()
    }
}

fn line(raw: &mut impl BufRead) -> std::io::Result<String> {
    let mut line = Vec::new();
    raw.read_until(b'\n', &mut line)?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}

fn column(raw: &mut impl Read, values: usize) -> std::io::Result<Vec<f64>> {
    let mut value = [0; 8];
    let one = |_| {
        raw.read_exact(&mut value)?;
        Ok(f64::from_ne_bytes(value))
    };
    (0..values).map(one).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A file of two ranks on one node, two calls and one counter.
    pub fn file() -> Vec<u8> {
        let mut raw = b"mica-links-raw 2 2 1 1\n".to_vec();
        for value in [5.0, 7.0, 6.0, 9.0, 5.5, 6.5, 6.25, 8.0] {
            raw.extend(f64::to_ne_bytes(value));
        }
        for value in [100.0, 150.0, 150.0] {
            raw.extend(f64::to_ne_bytes(value));
        }
        raw.extend(b"rank 0 0 3 0 3 0\nnuma_maps 0 35\n");
        raw.extend(b"7f00 default N0=2 N1=1 anon=3 heap\n");
        raw.extend(b"rank 1 0 4 1 -1 -1\nnuma_maps 1 18\n7f00 default N1=5\n");
        raw
    }

    #[test]
    fn reads_all_parts_of_the_file() {
        let found = RawCalls::read(file().as_slice()).unwrap();
        assert_eq!(found.entry[1], [5.5, 6.5]);
        assert_eq!(found.exit[0], [6.0, 9.0]);
        assert_eq!(found.readings, [[[100.0, 150.0, 150.0]]]);
        assert_eq!(found.places[0].domains, [Some(0), Some(0)]);
        assert_eq!(found.places[1].domains, [Some(1), None]);
        let bytes = found.rank_bytes();
        assert_eq!((bytes[0][&0], bytes[1][&1]), (2 * 4096, 5 * 4096));
    }

    #[test]
    fn refuses_what_links_c_has_not_written_whole() {
        let error = |raw: &[u8]| RawCalls::read(raw).unwrap_err().to_string();
        assert!(error(b"nothing\n").contains("not a file of links.c"));
        let whole = file();
        for cut in 1..whole.len() {
            assert!(!error(&whole[..whole.len() - cut]).is_empty(), "{cut}");
        }
        let refused = String::from_utf8_lossy(b"refused 0 0 Permission denied\n").into_owned();
        let place = whole.windows(5).position(|part| part == b"rank ").unwrap();
        let with = [&whole[..place], refused.as_bytes(), &whole[place..]].concat();
        let found = RawCalls::read(with.as_slice()).unwrap();
        assert_eq!(found.refused, [(0, 0, "Permission denied".to_owned())]);
    }
}
