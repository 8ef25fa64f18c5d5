//! The script for fish.

use super::{ValueChoice, quoted, summary};
use crate::options::parser::Spec;
use crate::options::table::options;

/// `@ONE@` and `@TWO@` are the names of options with one and two values, `@WITH@` the same as they
/// are typed, `@OPTIONS@` the lines of all options.
const SCRIPT: &str = r#"# fish completion of Mica's mpiexec, written by `mpiexec --completion fish`

# Whether the program of this section is still to come.
function __mica_mpiexec_before_program
    set -l wanted 0
    set -l program no
    for word in (commandline -opc)[2..]
        if test $wanted -gt 0
            # NAME=VALUE stands for NAME VALUE.
            string match -q '*=*' -- $word; and set wanted 1
            set wanted (math $wanted - 1)
        else if test "$word" = :
            set program no
        else if test $program = no; and string match -q -- '-*' $word
            switch (string replace -r -- '^--?' '' $word)
                case @ONE@
                    set wanted 1
                case @TWO@
                    set wanted 2
            end
        else
            set program yes
        end
    end
    test $program = no
end

complete -c mpiexec -x -a '(__fish_complete_subcommand -- @WITH@)'
@OPTIONS@complete -c mpirun -w mpiexec
"#;

/// The script.
pub fn script() -> String {
    let names = |dashes: bool, values: &[usize]| -> String {
        let specs = options().filter(|spec| values.contains(&spec.values().len()));
        let names = specs.flat_map(|spec| spec.names);
        let names = names.map(|name| if dashes { name } else { name.trim_start_matches('-') });
        names.collect::<Vec<&str>>().join(" ")
    };
    SCRIPT
        .replace("@ONE@", &names(false, &[1]))
        .replace("@TWO@", &names(false, &[2]))
        .replace("@WITH@", &names(true, &[1, 2]))
        .replace("@OPTIONS@", &options().map(line).collect::<String>())
}

/// The command that declares an option.
fn line(spec: &Spec) -> String {
    let names = spec.names.iter().map(|name| match (name.strip_prefix("--"), &name[1..]) {
        (Some(long), _) => format!(" -l {long}"),
        (None, short) if short.len() == 1 => format!(" -s {short}"),
        (None, old) => format!(" -o {old}"),
    });
    let values = match spec.values().first().map(|value| ValueChoice::of(value)) {
        None => String::new(),
        Some(ValueChoice::Files) => " -r -F".to_owned(),
        Some(ValueChoice::Folders) => " -x -a '(__fish_complete_directories)'".to_owned(),
        Some(ValueChoice::Words(words)) => format!(" -x -a {}", quoted(&words.join(" "))),
        Some(ValueChoice::Free) => " -x".to_owned(),
    };
    let description = quoted(summary(spec));
    format!(
        "complete -c mpiexec -n __mica_mpiexec_before_program{}{values} -d {description}\n",
        names.collect::<String>()
    )
}
