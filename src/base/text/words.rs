//! Enums whose variants have fixed words, which are used in JSON, in settings and on the command line.

/// Declares an enum with the word of each variant, together with `ALL` (the variants in order), `word` and `from_word`.
macro_rules! words {
    ($(#[$attribute:meta])* pub enum $name:ident { $($(#[$of_variant:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$attribute])*
        pub enum $name {
            $($(#[$of_variant])* $variant,)+
        }

        impl $name {
            pub const ALL: [$name; [$($word),+].len()] = [$($name::$variant),+];

            pub fn word(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)+
                }
            }

            pub fn from_word(word: &str) -> Option<$name> {
                $name::ALL.into_iter().find(|variant| variant.word() == word)
            }
        }
    };
}

pub(crate) use words;
