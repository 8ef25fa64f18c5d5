//! Raw data in gzip's format, which `zcat` shows. It shrinks to about a tenth.

use std::io::Write as _;

use flate2::{Compression, GzBuilder};

/// Compresses `text`. The bytes depend on the text alone: the head has neither a name nor a time.
pub fn compressed(text: &str) -> Vec<u8> {
    let mut encoder = GzBuilder::new().write(Vec::new(), Compression::best());
    let written = encoder.write_all(text.as_bytes());
    written.and_then(|()| encoder.finish()).expect("a vector takes all bytes")
}

#[cfg(test)]
pub mod tests {
    use std::io::Read as _;

    use super::*;

    pub fn decompressed(bytes: &[u8]) -> String {
        let mut text = String::new();
        flate2::read::GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn compressed_text_is_read_back() {
        let text = "{\"measure\": \"time\", \"value\": 1.0, \"unit\": \"µs\"}\n".repeat(1000);
        let bytes = compressed(&text);
        assert!(bytes.len() < text.len() / 10, "{} bytes", bytes.len());
        assert_eq!(decompressed(&bytes), text);
        assert_eq!(decompressed(&compressed("")), "");
    }

    #[test]
    fn head_has_neither_name_nor_time() {
        let head = &compressed("{}")[..10];
        assert_eq!(head[..3], [0x1f, 0x8b, 8], "gzip, deflate");
        assert_eq!(head[3..8], [0; 5], "flags, time");
    }
}
