//! Colours that readers with any kind of colour vision can tell apart, in light and dark mode.
//!
//! The hues are Okabe and Ito's (Color Universal Design). In a page, `--c0` to `--c6` are these
//! hues, lightened where the ground is dark, and `--c7` is grey; heat maps go from `--heat0`, which
//! is nearly the ground, to `--heat1`, so that lightness alone carries the value.

/// Okabe and Ito's hues without yellow, which vanishes on white; grey for what is left over.
pub const BLUE: &str = "#0072b2";
pub const ORANGE: &str = "#e69f00";
pub const GREEN: &str = "#009e73";
pub const PINK: &str = "#cc79a7";
pub const SKY: &str = "#56b4e9";
pub const VERMILION: &str = "#d55e00";
pub const PURPLE: &str = "#8c6bb1";
pub const DARK: &str = "#4d4d4d";
pub const GREY: &str = "#777777";

/// The CSS variables of a page, for both modes.
pub const THEME: &str = "
:root { color-scheme: light dark;
  --ground: #fff; --panel: #fff; --soft: #f5f6f8; --ink: #16191d; --quiet: #5b6470;
  --rule: #e3e6ea; --axis: #9aa3ad; --accent: #0072b2; --shade: rgb(0 0 0 / .22);
  --c0: #0072b2; --c1: #e69f00; --c2: #009e73; --c3: #cc79a7; --c4: #56b4e9; --c5: #d55e00;
  --c6: #8c6bb1; --c7: #7a828c; --work: #d7dce2; --heat0: #eef3f8; --heat1: #08306b; }
@media (prefers-color-scheme: dark) { :root {
  --ground: #14171b; --panel: #1a1e23; --soft: #22272e; --ink: #e8eaed; --quiet: #a0a9b4;
  --rule: #2d333b; --axis: #5f6873; --accent: #62b5ec; --shade: rgb(255 255 255 / .2);
  --c0: #3d9bdb; --c1: #f0b13c; --c2: #2fbf95; --c3: #dc93bb; --c4: #8ccdf3; --c5: #f0813a;
  --c6: #ab91cc; --c7: #8a939e; --work: #3a424c; --heat0: #20262d; --heat1: #9fd2f7; } }
";

/// The number of hues in [`THEME`] before the grey one.
pub const HUES: usize = 7;

/// The page's hue number `place`; grey where hues run out.
pub fn hue(place: usize) -> String {
    format!("var(--c{})", place.min(HUES))
}

/// A heat map's colour for a share between 0 and 1.
pub fn heat(share: f64) -> String {
    let percent = (share.clamp(0.0, 1.0) * 100.0).round();
    format!("color-mix(in oklab, var(--heat1) {percent}%, var(--heat0))")
}
