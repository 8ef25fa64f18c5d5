//! Which inter-chip links make a collective slow (muecke-2010): the analysis of many calls, each
//! with its execution time and the load of every directed link.
//!
//! | module | what it has |
//! |---|---|
//! | `analysis` | distributions, ranking of links, clusters of time, the relevant set of links |
//! | `predictor` | short, medium or long, from two or three counters; whether that pays |

#![forbid(unsafe_code)]

pub mod analysis;
pub mod predictor;
