//! `set`, `shopt`, `umask` and `ulimit`.

use crate::shell::machine::{Kernel, Options, Process};
use std::sync::Arc;

/// Names of options with their letters, in busybox' order.
const NAMES: [(&str, char); 10] = [
    ("errexit", 'e'),
    ("noglob", 'f'),
    ("noexec", 'n'),
    ("xtrace", 'x'),
    ("verbose", 'v'),
    ("noclobber", 'C'),
    ("allexport", 'a'),
    ("nounset", 'u'),
    ("pipefail", ' '),
    ("monitor", 'm'),
];

fn place(options: &mut Options, letter: char) -> Option<&mut bool> {
    Some(match letter {
        'e' => &mut options.errexit,
        'f' => &mut options.noglob,
        'n' => &mut options.noexec,
        'x' => &mut options.xtrace,
        'v' => &mut options.verbose,
        'C' => &mut options.noclobber,
        'a' => &mut options.allexport,
        'u' => &mut options.nounset,
        _ => return None,
    })
}

/// Sets the option with a letter. Returns false if there is none.
pub(in crate::shell) fn set_letter(options: &mut Options, letter: char, on: bool) -> bool {
    match place(options, letter) {
        Some(option) => *option = on,
        // Job control and notices of it are none here.
        None => return matches!(letter, 'm' | 'b' | 'h' | 'B' | 'I'),
    }
    true
}

/// Sets the option with a name. Returns false if there is none.
pub(in crate::shell) fn set_named(options: &mut Options, name: &str, on: bool) -> bool {
    match NAMES.iter().find(|(own, _)| *own == name) {
        Some(("pipefail", _)) => options.pipefail = on,
        Some((_, letter)) => return set_letter(options, *letter, on),
        None => return matches!(name, "posix" | "emacs" | "vi" | "errtrace" | "ignoreeof" | "notify"),
    }
    true
}

pub(super) fn set(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    if argv.len() == 1 {
        let text = process.all_variables();
        process.print(kernel, 1, text.as_bytes());
        return 0;
    }
    let mut at = 1;
    while let Some(word) = argv.get(at).filter(|word| word.starts_with(['-', '+']) && word.len() > 1) {
        at += 1;
        if word == "--" {
            process.state.positional = Arc::new(argv[at..].to_vec());
            return 0;
        }
        let on = word.starts_with('-');
        for letter in word[1..].chars() {
            let known = match letter {
                'o' => {
                    let Some(name) = argv.get(at) else { return show(process, kernel, on) };
                    at += 1;
                    set_named(&mut process.state.options, name, on)
                }
                letter => set_letter(&mut process.state.options, letter, on),
            };
            if !known {
                process.refuse(kernel, argv, &format!("illegal option {word}"), 2);
                process.state.code = 2;
                process.abort();
                return 2;
            }
        }
    }
    if at < argv.len() {
        let skip = usize::from(argv[at] == "-");
        process.state.positional = Arc::new(argv[at + skip..].to_vec());
    }
    0
}

fn show(process: &mut Process, kernel: &mut Kernel, table: bool) -> u8 {
    let mut text = String::new();
    for (name, letter) in NAMES {
        let mut options = process.state.options;
        let on = if name == "pipefail" {
            options.pipefail
        } else {
            place(&mut options, letter).is_some_and(|on| *on)
        };
        match table {
            true => text.push_str(&format!("{name:<16}{}\n", if on { "on" } else { "off" })),
            false => text.push_str(&format!("set {}o {name}\n", if on { '-' } else { '+' })),
        }
    }
    process.print(kernel, 1, text.as_bytes());
    0
}

/// `shopt`, with the options that change expansion.
pub(super) fn shopt(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    let flags: String =
        argv[1..].iter().filter(|word| word.starts_with('-')).map(|word| &word[1..]).collect();
    let mut code = 0;
    for word in argv[1..].iter().filter(|word| !word.starts_with('-')) {
        let options = &mut process.state.options;
        let option = match word.as_str() {
            "nullglob" => &mut options.nullglob,
            "extglob" => &mut options.extglob,
            "globstar" => &mut options.globstar,
            _ => {
                return process.refuse(
                    kernel,
                    argv,
                    &format!("{word}: the simulated shell does not know this option"),
                    1,
                );
            }
        };
        match (flags.contains('s'), flags.contains('u')) {
            (true, _) => *option = true,
            (_, true) => *option = false,
            _ => {
                let on = *option;
                code = u8::from(!on);
                if !flags.contains('q') {
                    let text = format!("{word:<16}{}\n", if on { "on" } else { "off" });
                    process.print(kernel, 1, text.as_bytes());
                }
            }
        }
    }
    code
}

pub(super) fn umask(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    let Some(word) = argv.get(1) else {
        let text = format!("{:04o}\n", process.state.env.umask);
        process.print(kernel, 1, text.as_bytes());
        return 0;
    };
    match u32::from_str_radix(word, 8) {
        Ok(mask) if mask <= 0o777 => {
            process.state.env.umask = mask;
            0
        }
        _ => process.refuse(kernel, argv, &format!("illegal mode: {word}"), 1),
    }
}

/// `ulimit`: shows limits; a simulated container does not change them.
pub(super) fn ulimit(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    let words: Vec<&String> = argv[1..].iter().filter(|word| !word.starts_with('-')).collect();
    let letter =
        argv[1..].iter().find_map(|word| word.strip_prefix('-')).and_then(|word| word.chars().last());
    let text = match letter {
        _ if !words.is_empty() => return 0,
        Some('n') => "1048576\n",
        _ => "unlimited\n",
    };
    process.print(kernel, 1, text.as_bytes());
    0
}
