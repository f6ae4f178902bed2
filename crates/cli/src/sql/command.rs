//! Lines that are for the client and not for the engine: sqlcmd's commands, as far as they are here.
//!
//! A command is a line of its own outside strings and comments. All begin with a colon; `exit`, `quit` and `reset` do
//! without.

use std::path::PathBuf;

/// What a line asks the client for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Command {
    /// `:r FILE`: the file's lines come here.
    Read(String),
    /// `:setvar NAME VALUE`; without a value the variable is forgotten.
    SetVariable { name: String, value: Option<String> },
    /// `:on error exit` or `ignore`: whether an error ends the script.
    OnError { exits: bool },
    /// `:plan on|off|FILE`: where the plans of statements go.
    Plan(WantedPlans),
    /// `quit`, `exit`: the end. What has come since the last `GO` does not run.
    Leave,
    /// `exit()`: the end, after what has come since the last `GO` has run.
    RunAndLeave,
    /// `reset`: what has come since the last `GO` is forgotten.
    Reset,
}

/// Where the plans of statements go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum WantedPlans {
    /// Nowhere.
    None,
    /// Behind the statement's rows.
    Drawn,
    /// Into a page of HTML, or a document of XML.
    Page(PathBuf),
}

/// The commands, as an unknown one is answered.
const KNOWN: &str =
    ":r FILE, :setvar NAME VALUE, :on error exit|ignore, :plan on|off|FILE, :reset, :exit, :quit and GO";

/// The command that a line is; `None` for a line of T-SQL. An error says what is wrong with it.
pub(super) fn parse(line: &str) -> Option<Result<Command, String>> {
    let line = line.trim().trim_end_matches(';').trim_end();
    let colon = line.strip_prefix(':');
    if colon.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '!')) {
        return None;
    }
    let text = colon.unwrap_or(line);
    let end = text.find(|c: char| c.is_whitespace() || c == '(').unwrap_or(text.len());
    let (word, rest) = (text[..end].to_ascii_lowercase(), text[end..].trim());
    let bare = ["exit", "quit", "reset"].contains(&word.as_str()) && (rest.is_empty() || rest.starts_with('('));
    if colon.is_none() && !bare {
        return line.starts_with("!!").then(|| Err(unknown("!!")));
    }
    let parsed = match (word.as_str(), rest) {
        ("quit" | "exit", "") => Ok(Command::Leave),
        ("exit", rest) if rest.strip_prefix('(').is_some_and(|rest| rest.trim() == ")") => Ok(Command::RunAndLeave),
        ("exit", _) => Err("exit takes no query here: exit leaves, exit() runs the batch and leaves.".to_owned()),
        ("reset", "") => Ok(Command::Reset),
        ("r", _) => read(rest),
        ("setvar", _) => set_variable(rest),
        ("on", _) => on_error(rest),
        ("plan", _) => plan(rest),
        _ => Err(unknown(&format!(":{word}"))),
    };
    Some(parsed)
}

fn unknown(command: &str) -> String {
    format!("The command {command} is not known. Known are {KNOWN}.")
}

/// A text without the quotes around it; `None` where it is empty, or has blanks outside of quotes.
fn argument(text: &str) -> Option<String> {
    match text.strip_prefix('"') {
        Some(quoted) => quoted.strip_suffix('"').map(|inner| inner.replace("\"\"", "\"")),
        None => (!text.is_empty() && !text.contains(char::is_whitespace)).then(|| text.to_owned()),
    }
}

fn read(rest: &str) -> Result<Command, String> {
    let wanted = ":r takes the name of a file, in double quotes if it has blanks.";
    argument(rest).map(Command::Read).ok_or_else(|| wanted.to_owned())
}

fn set_variable(rest: &str) -> Result<Command, String> {
    let (name, value) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let wanted = ":setvar takes a name of letters, digits, _ and -, and a value, in double quotes if it has blanks.";
    if !is_name(name) {
        return Err(wanted.to_owned());
    }
    let value = match value.trim() {
        "" => None,
        value => Some(argument(value).ok_or_else(|| wanted.to_owned())?),
    };
    Ok(Command::SetVariable { name: name.to_owned(), value })
}

fn on_error(rest: &str) -> Result<Command, String> {
    let words: Vec<String> = rest.split_whitespace().map(str::to_ascii_lowercase).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["error", "exit"] => Ok(Command::OnError { exits: true }),
        ["error", "ignore"] => Ok(Command::OnError { exits: false }),
        _ => Err(":on error takes exit or ignore.".to_owned()),
    }
}

fn plan(rest: &str) -> Result<Command, String> {
    let wanted = ":plan takes on, off, or the name of a file that becomes a page of HTML.";
    let word = argument(rest).ok_or_else(|| wanted.to_owned())?;
    Ok(Command::Plan(match word.to_ascii_lowercase().as_str() {
        "on" => WantedPlans::Drawn,
        "off" => WantedPlans::None,
        _ => WantedPlans::Page(PathBuf::from(word)),
    }))
}

/// Whether a text can name a variable.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str) -> Command {
        parse(line).unwrap_or_else(|| panic!("{line} is no command")).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    #[test]
    fn commands_are_read_in_any_case_with_and_without_quotes() {
        for line in ["quit", "  EXIT ;", ":Quit", ":exit"] {
            assert_eq!(command(line), Command::Leave, "{line}");
        }
        assert_eq!(command("exit()"), Command::RunAndLeave);
        assert_eq!(command("RESET"), Command::Reset);
        assert_eq!(command(":r a.sql"), Command::Read("a.sql".to_owned()));
        assert_eq!(command(":R \"two words.sql\""), Command::Read("two words.sql".to_owned()));
        let set = |value: Option<&str>| Command::SetVariable { name: "db".to_owned(), value: value.map(str::to_owned) };
        assert_eq!(command(":setvar db Sales"), set(Some("Sales")));
        assert_eq!(command(":SetVar db \"say \"\"x\"\" y\""), set(Some("say \"x\" y")));
        assert_eq!(command(":setvar db"), set(None));
        assert_eq!(command(":On Error EXIT"), Command::OnError { exits: true });
        assert_eq!(command(":on error ignore"), Command::OnError { exits: false });
        assert_eq!(command(":plan on"), Command::Plan(WantedPlans::Drawn));
        assert_eq!(command(":Plan OFF"), Command::Plan(WantedPlans::None));
        assert_eq!(command(":plan p.html"), Command::Plan(WantedPlans::Page("p.html".into())));
    }

    #[test]
    fn lines_of_t_sql_are_none() {
        for line in
            ["SELECT 1", "", "quit now", "exiting", "EXEC quit", "::fn_x()", ": label", "GO", "done:", "r a.sql"]
        {
            assert_eq!(parse(line), None, "{line}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (line, wanted) in [
            (":out x.txt", ":out is not known"),
            ("!!dir", "!! is not known"),
            (":!!dir", "is not known"),
            (":r", "a file"),
            (":r two words.sql", "double quotes"),
            (":setvar", "a name"),
            (":setvar a b c", "double quotes"),
            (":on error retry", "exit or ignore"),
            (":plan", "a file"),
            ("exit(SELECT 1)", "takes no query"),
        ] {
            let error = parse(line).expect("a command").expect_err(line);
            assert!(error.contains(wanted), "{line}: {error}");
        }
    }
}
