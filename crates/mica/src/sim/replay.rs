use std::error::Error;

use clap::Args;

#[derive(Args)]
pub struct ReplayOptions {}

pub fn replay(_options: &ReplayOptions) -> Result<String, Box<dyn Error>> {
    Ok(String::new())
}
