//! Comma-separated records with RFC 4180 quoting: what the dump files need, no more.
//! Lines end with a newline alone (our choice); a carriage return before it is read too.

/// Text that is no such file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record {record}: {problem}")]
pub struct CsvError {
    /// Record, from 1; the heading is the first.
    pub record: usize,
    /// What is wrong with it.
    pub problem: String,
}

/// Appends a record.
pub(super) fn write(text: &mut String, fields: &[&str]) {
    for (place, field) in fields.iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        if field.contains([',', '"', '\n', '\r']) {
            text.push('"');
            text.push_str(&field.replace('"', "\"\""));
            text.push('"');
        } else {
            text.push_str(field);
        }
    }
    text.push('\n');
}

/// Reads records below a heading, each with as many fields.
pub(super) fn read<const N: usize, T>(
    text: &str,
    heading: [&str; N],
    parse: impl Fn(&[String; N]) -> Result<T, String>,
) -> Result<Vec<T>, CsvError> {
    let mut rest = text;
    let mut all = Vec::new();
    for number in 1.. {
        if rest.is_empty() && number > 1 {
            break;
        }
        let error = |problem| CsvError { record: number, problem };
        let (fields, behind) = record(rest).map_err(error)?;
        rest = behind;
        let fields: [String; N] = fields
            .try_into()
            .map_err(|fields: Vec<String>| error(format!("{} fields, not {N}", fields.len())))?;
        if number > 1 {
            all.push(parse(&fields).map_err(error)?);
        } else if fields != heading {
            return Err(error(format!("not the heading {}", heading.join(","))));
        }
    }
    Ok(all)
}

/// The fields of the first record, and what is behind it.
fn record(text: &str) -> Result<(Vec<String>, &str), String> {
    let mut fields = Vec::new();
    let mut rest = text;
    loop {
        let (field, behind) = match rest.strip_prefix('"') {
            Some(quoted) => unquoted(quoted)?,
            None => {
                let end = rest.find([',', '\n']).unwrap_or(rest.len());
                let (field, behind) = rest.split_at_checked(end).unwrap_or((rest, ""));
                let field = if behind.starts_with(',') { field } else { field.trim_end_matches('\r') };
                (field.to_owned(), behind)
            }
        };
        fields.push(field);
        let line = behind.strip_prefix("\r\n").or_else(|| behind.strip_prefix('\n'));
        match (behind.strip_prefix(','), line) {
            (Some(behind), _) => rest = behind,
            (None, Some(behind)) => return Ok((fields, behind)),
            (None, None) if behind.is_empty() => return Ok((fields, "")),
            (None, None) => return Err("text behind a closing quote".to_owned()),
        }
    }
}

/// A quoted field without its opening quote.
fn unquoted(mut rest: &str) -> Result<(String, &str), String> {
    let mut field = String::new();
    loop {
        let (part, behind) = rest.split_once('"').ok_or("a quote that is never closed")?;
        field.push_str(part);
        match behind.strip_prefix('"') {
            Some(behind) => {
                field.push('"');
                rest = behind;
            }
            None => return Ok((field, behind)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn two(text: &str) -> Result<Vec<[String; 2]>, CsvError> {
        read(text, ["a", "b"], |fields| Ok(fields.clone()))
    }

    #[test]
    fn quotes_are_only_where_needed() {
        let mut text = String::new();
        write(&mut text, &["plain", "a,b", "say \"x\"", "two\nlines", ""]);
        assert_eq!(text, "plain,\"a,b\",\"say \"\"x\"\"\",\"two\nlines\",\n");
    }

    #[test]
    fn a_file_of_another_shape_is_refused_with_its_record() {
        for (text, number, words) in [
            ("", 1, "1 fields, not 2"),
            ("a,c\n", 1, "not the heading a,b"),
            ("a,b\n1\n", 2, "1 fields, not 2"),
            ("a,b\n1,2\n3,\"4\n", 3, "never closed"),
            ("a,b\n1,\"2\"x\n", 2, "behind a closing quote"),
        ] {
            let error = two(text).unwrap_err();
            assert_eq!(error.record, number, "{text:?}");
            assert!(error.problem.contains(words), "{error}");
        }
    }

    #[test]
    fn carriage_returns_before_the_end_of_a_line_are_read() {
        let read = two("a,b\r\n1,2\r\n\"3\",\"4\"\r\n").unwrap();
        assert_eq!(read, [["1", "2"], ["3", "4"]]);
    }

    proptest! {
        #[test]
        fn records_are_read_back(records in prop::collection::vec(["[ -~\n\r\",]{0,6}", "\\PC{0,6}"], 0..6)) {
            let mut text = "a,b\n".to_owned();
            for [first, second] in &records {
                write(&mut text, &[first, second]);
            }
            prop_assert_eq!(two(&text), Ok(records));
        }
    }
}
