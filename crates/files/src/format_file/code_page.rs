//! The code page that the name of a collation says.
//!
//! Names are those of SQL Server: `SQL_` with `CP` and a number, or Windows' names of languages with a version
//! (`Polish_100_CI_AS`), or `_UTF8` behind any.

use super::HostType;

/// Languages whose code page is not 1252: the beginnings of their collations' names.
const LANGUAGES: [(u16, &[&str]); 15] = [
    (874, &["Thai_"]),
    (932, &["Japanese_"]),
    (936, &["Chinese_PRC_", "Chinese_Simplified_", "Chinese_Simp_"]),
    (949, &["Korean_"]),
    (950, &["Chinese_Taiwan_", "Chinese_Traditional_", "Chinese_Hong_", "Chinese_Macao_"]),
    (1250, &["Albanian_", "Bosnian_Latin_", "Croatian_", "Czech_", "Hungarian_", "Polish_", "Romanian_"]),
    (1250, &["Serbian_Latin_", "Slovak_", "Slovenian_", "Turkmen_"]),
    (1251, &["Cyrillic_", "Kazakh_", "Macedonian_", "Bosnian_Cyrillic_", "Serbian_Cyrillic_", "Tatar_"]),
    (1251, &["Bashkir_", "Ukrainian_", "Yakut_"]),
    (1253, &["Greek_"]),
    (1254, &["Turkish_", "Azeri_Latin_", "Uzbek_Latin_"]),
    (1255, &["Hebrew_"]),
    (1256, &["Arabic_", "Persian_", "Urdu_", "Uighur_", "Dari_", "Pashto_"]),
    (1257, &["Estonian_", "Latvian_", "Lithuanian_"]),
    (1258, &["Vietnamese_"]),
];

/// Languages of code page 1252.
const WESTERN: [&str; 18] = [
    "Latin1_General_",
    "Breton_",
    "Corsican_",
    "Danish_",
    "Finnish_",
    "French_",
    "Frisian_",
    "German_",
    "Icelandic_",
    "Mapudungan_",
    "Modern_Spanish_",
    "Mohawk_",
    "Norwegian_",
    "Romansh_",
    "Sami_",
    "Traditional_Spanish_",
    "Upper_Sorbian_",
    "Welsh_",
];

/// Whether text of a host type can have a collation: one whose code page is known, for wide text any that is a name.
pub(super) fn is_collation(name: &str, host: HostType) -> bool {
    match host {
        HostType::NChar => is_name(name),
        _ => of_collation(name).is_some(),
    }
}

fn is_name(name: &str) -> bool {
    name.len() <= 128 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The code page of a collation; `None` for a name that is none.
pub(super) fn of_collation(name: &str) -> Option<u16> {
    if !is_name(name) {
        return None;
    }
    let begins = |with: &str| name.len() > with.len() && name[..with.len()].eq_ignore_ascii_case(with);
    let is_language = WESTERN.iter().any(|start| begins(start));
    let of_language = LANGUAGES.iter().find(|(_, starts)| starts.iter().any(|start| begins(start)));
    let code_page = if begins("SQL_") { of_sql_collation(name) } else { of_language.map(|(number, _)| *number) };
    let code_page = code_page.or(is_language.then_some(1252))?;
    let is_utf8 = name.to_ascii_uppercase().split('_').any(|part| part == "UTF8");
    Some(if is_utf8 { 65001 } else { code_page })
}

/// `SQL_Latin1_General_CP1_CI_AS`: `CP1` is code page 1252, every other number its own.
fn of_sql_collation(name: &str) -> Option<u16> {
    name.split('_').find_map(|part| match part.get(..2)?.eq_ignore_ascii_case("CP").then(|| part[2..].parse()) {
        Some(Ok(1)) => Some(1252),
        Some(Ok(number @ (437 | 1250..=1258))) => Some(number),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hobt_types::Collation;

    #[test]
    fn collations_say_their_code_page() {
        let cases = [
            ("SQL_Latin1_General_CP1_CI_AS", 1252),
            ("SQL_LATIN1_GENERAL_CP1_CI_AS", 1252),
            ("SQL_Latin1_General_CP1251_CS_AS", 1251),
            ("Latin1_General_100_CI_AS_SC_UTF8", 65001),
            ("Cyrillic_General_CS_AS", 1251),
            ("Japanese_XJIS_140_CI_AS", 932),
            ("Finnish_Swedish_CI_AS", 1252),
        ];
        for (name, code_page) in cases {
            assert_eq!(of_collation(name), Some(code_page), "{name}");
        }
        for collation in [Collation::Latin1GeneralCiAs, Collation::Latin1GeneralCsAs, Collation::Latin1GeneralBin2] {
            assert_eq!(of_collation(collation.name()), Some(1252));
        }
        for name in [
            "",
            "SQL_",
            "Latin1_General",
            "Nobody_CI_AS",
            "SQL_Latin1_General_CP3_CI_AS",
            "Lätin1_General_",
            "Latin1_General_\"",
        ] {
            assert_eq!(of_collation(name), None, "{name}");
        }
    }
}
