//! The script for bash.

use super::{ValueChoice, quoted};
use crate::options::parser::Spec;
use crate::options::table::options;

/// `@OPTIONS@` are the names of all options; `@VALUES@` the cases of those that take values.
///
/// `words` is made of the line because bash has divided `COMP_WORDS` at colons, which are in values
/// (`core:2`) and stand alone between sections.
const SCRIPT: &str = r#"# bash completion of Mica's mpiexec, written by `mpiexec --completion bash`

# What the values of an option can be: FOLDERS, words, or nothing for what bash offers by itself.
_mica_mpiexec_values() {
    local name=${1#-}
    case ${name#-} in
@VALUES@        *) wanted=() ;;
    esac
}

_mica_mpiexec() {
    local line=${COMP_LINE:0:COMP_POINT} words=() wanted=() program="" word i
    read -ra words <<<"$line"
    [[ $line != *[[:space:]] ]] || words+=("")
    word=${words[${#words[@]} - 1]}
    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        if ((${#wanted[@]} > 0)); then
            # NAME=VALUE stands for NAME VALUE.
            [[ ${#wanted[@]} != 2 || ${words[i]} != *=* ]] || wanted=("")
            wanted=("${wanted[@]:1}")
        elif [[ ${words[i]} == : ]]; then
            program=""
        elif [[ -z $program && ${words[i]} == -* ]]; then
            _mica_mpiexec_values "${words[i]}"
        else
            program=${program:-${words[i]}}
        fi
    done

    # What stays empty is completed by bash: names of files.
    COMPREPLY=()
    if ((${#wanted[@]} > 0)); then
        case ${wanted[0]} in
            FOLDERS)
                mapfile -t COMPREPLY < <(compgen -d -- "$word")
                compopt -o filenames 2>/dev/null
                ;;
            ?*) mapfile -t COMPREPLY < <(compgen -W "${wanted[0]}" -- "$word") ;;
        esac
    elif [[ -n $program ]]; then
        return
    elif [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "@OPTIONS@" -- "$word")
    elif [[ $word != */* ]]; then
        mapfile -t COMPREPLY < <(compgen -c -- "$word"; compgen -f -- "$word")
    fi
    [[ ${COMPREPLY[0]} != *[:=] ]] || compopt -o nospace 2>/dev/null
    # bash replaces what stands behind the last colon or equals sign.
    [[ $word != *[:=]* ]] || COMPREPLY=("${COMPREPLY[@]#"${word%"${word##*[:=]}"}"}")
    [[ -n ${COMPREPLY[0]} ]] || COMPREPLY=()
}

complete -o bashdefault -o default -F _mica_mpiexec mpiexec mpirun
"#;

/// The script.
pub fn script() -> String {
    let names: Vec<&str> = options().flat_map(|spec| spec.names).copied().collect();
    let values: String =
        options().filter(|spec| !spec.values().is_empty()).map(values_of).collect();
    SCRIPT.replace("@OPTIONS@", &names.join(" ")).replace("@VALUES@", &values)
}

/// The case of an option.
fn values_of(spec: &Spec) -> String {
    let names: Vec<&str> = spec.names.iter().map(|name| name.trim_start_matches('-')).collect();
    let words: Vec<String> = spec.values().iter().map(|value| quoted(&choice(value))).collect();
    format!("        {}) wanted=({}) ;;\n", names.join(" | "), words.join(" "))
}

fn choice(value: &'static str) -> String {
    match ValueChoice::of(value) {
        ValueChoice::Words(words) => words.join(" "),
        ValueChoice::Folders => "FOLDERS".to_owned(),
        ValueChoice::Files | ValueChoice::Free => String::new(),
    }
}
