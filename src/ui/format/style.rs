//! Roles of text, and their escape sequences for the colours and the background of the terminal. These are known from environment
//! variables and from the terminal's replies.

use crate::base::text::words::words;
use crate::ui::format::text::width;
use std::borrow::Cow;

/// What a piece of text is. Roles have a foreground colour; only changed lines have a background.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    #[default]
    Text,
    /// Shown faint, not in bright black, which is invisible on some light backgrounds.
    Muted,
    Accent,
    Strong,
    Emphasis,
    Struck,
    Link,
    Ok,
    Warn,
    Err,
    Add,
    Del,
    Code,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Colours {
    /// No colours; bold, faint and underlined text is still used.
    None,
    /// The 16 colours of the user's palette.
    Sixteen,
    Indexed,
    True,
}

words! {
    /// The setting `ui.theme`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Theme {
        #[default]
        Auto = "auto",
        Dark = "dark",
        Light = "light",
        Ansi = "ansi",
        Mono = "mono",
    }
}

pub type Rgb = [u8; 3];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Style {
    pub colours: Colours,
    /// None if it is unknown; then the user's palette is used.
    pub background: Option<Rgb>,
    /// A setting defines the theme, so the terminal's reply about its background is ignored.
    pub themed: bool,
    /// Whether the terminal shows more than ASCII.
    pub unicode: bool,
}

impl Style {
    /// The style that environment variables and the setting ask for.
    pub fn of(variable: impl Fn(&str) -> Option<String>, theme: Theme) -> Style {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let is =
            |name: &str, words: &[&str]| set(name).is_some_and(|value| words.iter().any(|word| value.contains(word)));
        let colours = match () {
            _ if set("NO_COLOR").is_some() || set("FORCE_COLOR").as_deref() == Some("0") => Colours::None,
            _ if theme == Theme::Mono => Colours::None,
            _ if theme == Theme::Ansi => Colours::Sixteen,
            _ if is("TERM_PROGRAM", &["Apple_Terminal"]) => Colours::Indexed,
            _ if is("COLORTERM", &["truecolor", "24bit"]) || set("WT_SESSION").is_some() => Colours::True,
            _ if is("TERM", &["256color"]) => Colours::Indexed,
            _ => Colours::Sixteen,
        };
        let background = match theme {
            Theme::Dark => Some([0, 0, 0]),
            Theme::Light => Some([255, 255, 255]),
            Theme::Auto => set("COLORFGBG").and_then(|value| match value.rsplit(';').next()?.parse().ok()? {
                0..=6 | 8 => Some([0, 0, 0]),
                7 | 15 => Some([255, 255, 255]),
                _ => None,
            }),
            Theme::Ansi | Theme::Mono => None,
        };
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default().to_lowercase();
        let unicode = (locale.contains("utf-8") || locale.contains("utf8")) && set("TERM").as_deref() != Some("linux");
        Style { colours, background, themed: theme != Theme::Auto, unicode }
    }

    /// Applies the terminal's reply about its background, which is more reliable than the environment: that may come from another
    /// terminal. A theme of the settings has precedence.
    pub fn learn_background(&mut self, background: Rgb) {
        if !self.themed {
            self.background = Some(background);
        }
    }

    /// The SGR parameters of a role.
    pub fn sgr(&self, role: Role) -> Cow<'static, str> {
        let known = self.background.filter(|_| self.colours >= Colours::Indexed);
        Cow::Borrowed(match (role, known) {
            (Role::Text, _) => "",
            (Role::Muted, _) => "2",
            (Role::Strong, _) => "1",
            (Role::Emphasis, _) => "3",
            (Role::Struck, _) => "9",
            (Role::Link, _) => "4",
            (_, None) if self.colours == Colours::None => "",
            (Role::Accent | Role::Code, None) => "36",
            (Role::Ok | Role::Add, None) => "32",
            (Role::Warn, None) => "33",
            (Role::Err | Role::Del, None) => "31",
            (Role::Add | Role::Del, Some(background)) => return tint(role, background, self.colours),
            (Role::Accent | Role::Code, Some(background)) => on(background, "38;5;111", "38;5;25"),
            (Role::Ok, Some(background)) => on(background, "38;5;114", "38;5;22"),
            (Role::Warn, Some(background)) => on(background, "38;5;179", "38;5;94"),
            (Role::Err, Some(background)) => on(background, "38;5;210", "38;5;124"),
        })
    }
}

/// Of two foregrounds, the one for this background.
fn on(background: Rgb, on_dark: &'static str, on_light: &'static str) -> &'static str {
    if is_dark(background) { on_dark } else { on_light }
}

pub fn is_dark([red, green, blue]: Rgb) -> bool {
    299 * u32::from(red) + 587 * u32::from(green) + 114 * u32::from(blue) < 128_000
}

/// The background of changed lines: the terminal's background with a little green or red.
fn tint(role: Role, background: Rgb, colours: Colours) -> Cow<'static, str> {
    let added = role == Role::Add;
    if colours == Colours::Indexed {
        return Cow::Borrowed(match (is_dark(background), added) {
            (true, true) => "48;5;22",
            (true, false) => "48;5;52",
            (false, true) => "48;5;194",
            (false, false) => "48;5;224",
        });
    }
    let colour: Rgb = if added { [0, 200, 80] } else { [230, 40, 40] };
    let mix = |i: usize| (u32::from(background[i]) * 88 + u32::from(colour[i]) * 12) / 100;
    Cow::Owned(format!("48;2;{};{};{}", mix(0), mix(1), mix(2)))
}

/// The steps of the spinner.
pub const SPINNER: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// An ASCII replacement of a cluster, with the same width.
pub fn ascii(cluster: &str) -> Cow<'_, str> {
    if cluster.is_ascii() {
        return Cow::Borrowed(cluster);
    }
    let first = cluster.chars().next().unwrap_or(' ');
    let spinner = SPINNER.iter().position(|step| *step == first);
    Cow::Borrowed(match first {
        _ if spinner.is_some() => ["-", "\\", "|", "/"][spinner.unwrap_or(0) % 4],
        '›' => ">",
        '✓' => "v",
        '✗' => "x",
        '–' | '—' | '−' | '─' | '·' => "-",
        '○' => "o",
        '▸' | '⁂' => "*",
        '…' | '⋯' => ".",
        '│' => "|",
        '↺' => "!",
        '‹' => "<",
        '“' | '”' => "\"",
        '‘' | '’' => "'",
        '↑' => "^",
        '↓' => "v",
        _ => return Cow::Owned("?".repeat(width(cluster))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(variables: &[(&str, &str)], theme: Theme) -> Style {
        let find =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Style::of(find, theme)
    }

    #[test]
    fn the_environment_says_which_colours_there_are() {
        for (variables, expected) in [
            (&[][..], Colours::Sixteen),
            (&[("TERM", "xterm-256color")], Colours::Indexed),
            (&[("COLORTERM", "truecolor"), ("TERM", "xterm")], Colours::True),
            (&[("WT_SESSION", "1")], Colours::True),
            (&[("COLORTERM", "24bit"), ("TERM_PROGRAM", "Apple_Terminal")], Colours::Indexed),
            (&[("COLORTERM", "24bit"), ("NO_COLOR", "1")], Colours::None),
            (&[("COLORTERM", "24bit"), ("NO_COLOR", "")], Colours::True),
            (&[("COLORTERM", "24bit"), ("FORCE_COLOR", "0")], Colours::None),
        ] {
            assert_eq!(style(variables, Theme::Auto).colours, expected, "{variables:?}");
        }
        assert_eq!(style(&[("COLORTERM", "24bit")], Theme::Mono).colours, Colours::None);
        assert_eq!(style(&[("COLORTERM", "24bit")], Theme::Ansi).colours, Colours::Sixteen);
        for (value, background) in [("15;0", Some([0; 3])), ("0;15", Some([255; 3])), ("0;default", None), ("", None)] {
            assert_eq!(style(&[("COLORFGBG", value)], Theme::Auto).background, background);
        }
        for (variables, unicode) in [
            (&[("LANG", "de_DE.UTF-8")][..], true),
            (&[("LANG", "C.utf8")], true),
            (&[("LANG", "C.utf8"), ("LC_ALL", "C")], false),
            (&[("LANG", "C.utf8"), ("TERM", "linux")], false),
            (&[], false),
        ] {
            assert_eq!(style(variables, Theme::Auto).unicode, unicode, "{variables:?}");
        }
    }

    #[test]
    fn the_terminal_tells_its_background_unless_a_theme_is_set() {
        let mut auto = style(&[], Theme::Auto);
        auto.learn_background([1, 2, 3]);
        assert_eq!(auto.background, Some([1, 2, 3]));
        let mut inherited = style(&[("COLORFGBG", "0;15")], Theme::Auto);
        inherited.learn_background([0; 3]);
        assert_eq!(inherited.background, Some([0; 3]), "the terminal answers for itself");
        let mut light = style(&[], Theme::Light);
        light.learn_background([1, 2, 3]);
        assert_eq!(light.background, Some([255; 3]));
    }

    /// Relative luminance by WCAG 2.
    fn luminance(colour: Rgb) -> f64 {
        let linear = |channel: u8| {
            let value = f64::from(channel) / 255.0;
            if value <= 0.03928 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(colour[0]) + 0.7152 * linear(colour[1]) + 0.0722 * linear(colour[2])
    }

    fn contrast(a: Rgb, b: Rgb) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    /// The colour that SGR parameters of 256 or of all colours name.
    fn colour(sgr: &str) -> Rgb {
        let numbers: Vec<u8> = sgr.split(';').map(|number| number.parse().expect("a number")).collect();
        let level = |n: u8| if n == 0 { 0 } else { 55 + 40 * n };
        match numbers[..] {
            [_, 5, n @ 16..=231] => [(n - 16) / 36, (n - 16) / 6 % 6, (n - 16) % 6].map(level),
            [_, 2, red, green, blue] => [red, green, blue],
            _ => panic!("{sgr}"),
        }
    }

    #[test]
    fn every_role_is_readable_on_usual_backgrounds() {
        let solarized = [[0, 0x2b, 0x36], [0xfd, 0xf6, 0xe3]];
        for background in [[0; 3], [255; 3]].into_iter().chain(solarized) {
            for colours in [Colours::Indexed, Colours::True] {
                let style = Style { colours, background: Some(background), themed: false, unicode: true };
                for role in [Role::Accent, Role::Code, Role::Ok, Role::Warn, Role::Err] {
                    let found = contrast(colour(&style.sgr(role)), background);
                    assert!(found >= 4.5, "{role:?} on {background:?}: {found}");
                }
                let text = if is_dark(background) { [255; 3] } else { [0; 3] };
                for role in [Role::Add, Role::Del] {
                    let found = contrast(text, colour(&style.sgr(role)));
                    assert!(found >= 4.5, "{role:?} on {background:?}: {found}");
                }
            }
        }
    }

    #[test]
    fn without_colours_only_bold_and_faint_are_used() {
        let style = Style { colours: Colours::None, background: Some([0; 3]), themed: false, unicode: true };
        for (role, sgr) in
            [(Role::Err, ""), (Role::Add, ""), (Role::Muted, "2"), (Role::Strong, "1"), (Role::Link, "4")]
        {
            assert_eq!(style.sgr(role), sgr, "{role:?}");
        }
        let unknown = Style { colours: Colours::True, background: None, themed: false, unicode: true };
        assert_eq!(unknown.sgr(Role::Accent), "36");
    }

    #[test]
    fn ascii_has_the_same_width() {
        for (cluster, expected) in
            [("a", "a"), ("›", ">"), ("✓", "v"), ("⠙", "\\"), ("日", "??"), ("é", "?"), ("·", "-")]
        {
            assert_eq!(ascii(cluster), expected);
            assert_eq!(width(&ascii(cluster)), width(cluster));
        }
    }
}
