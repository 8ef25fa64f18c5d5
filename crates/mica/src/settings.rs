//! Environment variables as the command line gives them: `A=1,B=2`.

/// Reads `NAME=VALUE[,NAME=VALUE...]`; the error is the part that is none. A value may be a list
/// with commas: a part in small letters goes on with it, so that
/// `MICA_COLL=shared,bcast=binomial,MICA_DIRECT=off` sets two variables.
pub fn parse(text: &str) -> Result<Vec<(String, String)>, &str> {
    let mut settings: Vec<(String, String)> = Vec::new();
    for part in text.split(',') {
        match (settings.last_mut(), part.split_once('=')) {
            (Some((_, list)), _) if part.starts_with(|c: char| c.is_ascii_lowercase()) => {
                *list = format!("{list},{part}");
            }
            (_, Some((name, value))) if !name.is_empty() => {
                settings.push((name.to_owned(), value.to_owned()));
            }
            _ => return Err(part),
        }
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_may_have_commas() {
        let parsed = |text: &'static str| {
            parse(text).map(|all| all.iter().map(|(n, v)| format!("{n}:{v}")).collect::<Vec<_>>())
        };
        assert_eq!(parsed("A=1,B_2=x=y").unwrap(), ["A:1", "B_2:x=y"]);
        assert_eq!(
            parsed("MICA_COLL=shared,bcast=binomial,MICA_DIRECT=off").unwrap(),
            ["MICA_COLL:shared,bcast=binomial", "MICA_DIRECT:off"]
        );
        assert_eq!(parsed("http_proxy=,A=").unwrap(), ["http_proxy:", "A:"]);
        for (text, wrong) in [("A", "A"), ("", ""), ("=1", "=1"), ("A=1,=2", "=2"), ("A=1,B", "B")]
        {
            assert_eq!(parsed(text), Err(wrong), "{text}");
        }
    }
}
