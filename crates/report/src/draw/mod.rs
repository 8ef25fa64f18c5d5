//! Drawing: numbers, scales, colours, charts in SVG, and the frame of an HTML page.
//!
//! A chart gets plain values, names and colours, and returns the text of an `<svg>` element; a page
//! gets the text of its sections. The caller decides what is shown and in which words.
//!
//! Two kinds of colour go in: literal ones (`#0072b2`) where a chart must stand alone in a file,
//! and CSS variables (`var(--ink)`, see [`colour::THEME`]) in a page that follows the reader's
//! light or dark mode. Text that is not ours passes [`text::escape`] on its way in.
//!
//! | file | what it has |
//! |---|---|
//! | `text` | escaping; short numbers, sizes, times |
//! | `scale` | logarithmic and linear scales, and their ticks |
//! | `colour` | the palette, in light and dark mode |
//! | `lines` | lines over a logarithmic axis, with bands |
//! | `curves` | curves over a linear axis that may go below zero |
//! | `bars` | stacked bars, in rows or side by side |
//! | `heat` | a heat map of a square table |
//! | `scatter` | points over two axes |
//! | `star` | star plots |
//! | `page` | the frame of a page, and its tables |

#![expect(missing_docs, reason = "the head of a chart's struct says what its fields are")]

pub mod bars;
#[cfg(feature = "browser")]
pub mod browser;
pub mod colour;
pub mod curves;
mod frame;
pub mod heat;
pub mod lines;
pub mod page;
pub mod scale;
pub mod scatter;
pub mod star;
pub mod text;
